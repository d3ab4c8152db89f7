/* SPDX-License-Identifier: MIT */
/* What the dead leave in rings of device memory, and taking it back. */
#include "leader/slots/device_private.h"

#include "shim/sys.h"

bool ts_device_is_held(
	struct ts_device *device, const _Atomic uint64_t *pins, uint32_t each, uint64_t wanted)
{
	uint64_t any_tenure = ts_device_pin_tenure_put(~UINT64_C(0));
	uint32_t count = ts_member_high(device->store) * each;

	for (uint32_t i = 0; i < count; i++) {
		/* B3, B4; pairs with V3, V4. */
		uint64_t pin = ts_load_acquire(&pins[i]);
		if ((pin & ~any_tenure) == wanted &&
			!ts_device_is_over(device, i / each, ts_device_pin_tenure(pin)))
			return true;
	}
	return false;
}

bool ts_device_is_pinned(
	struct ts_device *device, uint32_t ring, uint32_t slot, uint32_t generation)
{
	return ts_device_is_held(device, device->table->lines[0].lease, TS_DEVICE_HOLDS,
		ts_device_pin_pack(0, ring, slot, generation)); /* B3 */
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
