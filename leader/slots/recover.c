/* SPDX-License-Identifier: MIT */
/* What the dead leave in rings of device memory, and taking it back. */
#include "leader/slots/device_private.h"

#include "shim/sys.h"

bool ts_device_is_pinned(
	struct ts_device *device, uint32_t ring, uint32_t slot, uint32_t generation)
{
	uint64_t wanted = ts_device_pin_pack(0, ring, slot, generation);
	uint64_t any_tenure = ts_device_pin_tenure_put(~UINT64_C(0));
	uint32_t high = ts_member_high(device->store);

	for (uint32_t i = 0; i < high; i++) {
		for (uint32_t j = 0; j < TS_DEVICE_HOLDS; j++) {
			/* B3, pairs with V3. */
			uint64_t pin = ts_load_acquire(&device->table->lines[i].lease[j]);
			if ((pin & ~any_tenure) == wanted &&
				!ts_device_is_over(device, i, ts_device_pin_tenure(pin)))
				return true;
		}
	}
	return false;
}

uint64_t ts_device_recover(struct ts_device *device, struct ts_device_slot *slot)
{
	uint64_t word = ts_load_acquire(&slot->word); /* B2 */
	enum ts_slot_state state = ts_device_slot_state(word);

	if (state != TS_SLOT_TAKEN && state != TS_SLOT_WRITING)
		return word;
	if (!ts_device_is_over(device, ts_device_slot_owner(word), ts_device_slot_tenure(word)))
		return word;
	uint64_t freed =
		ts_device_slot_with(word, state == TS_SLOT_TAKEN ? TS_SLOT_FREE : TS_SLOT_LOST);
	if (!ts_cas(&slot->word, &word, freed))
		return word; /* as it was found instead */
	TS_KILLPOINT(device_recovered);
	if (word & TS_DEVICE_WAITED)
		ts_sys_futex_wake(&slot->word);
	return freed;
}

uint64_t ts_device_settle(struct ts_device *device, struct ts_device_row *row)
{
	uint64_t word = ts_load_acquire(&row->word); /* B1 */

	if (ts_device_ring_state(word) == TS_RING_EMPTY ||
		!ts_device_is_over(
			device, ts_device_ring_owner(word), ts_device_ring_tenure(word)))
		return word;
	uint64_t empty =
		ts_device_ring_pack(TS_RING_EMPTY, 0, 0, ts_device_ring_generation(word) + 1);
	if (!ts_cas(&row->word, &word, empty))
		return word;
	TS_KILLPOINT(device_retired);
	return empty;
}
