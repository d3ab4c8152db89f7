/* SPDX-License-Identifier: MIT */
/* The shared words keep what is put into them, and fields do not touch each other. */
#include "fixture.h"

#include "leader/slots/device_private.h"

Test(words, member_fields_survive)
{
	uint64_t process = (UINT64_C(0x3abcdef) << 24) | 4194303;
	uint64_t word = ts_member_pack(TS_MEMBER_CLEANING, 0x3fff, process);

	cr_expect(eq(int, ts_member_state(word), TS_MEMBER_CLEANING));
	cr_expect(eq(u32, ts_member_generation(word), 0x3fff));
	cr_expect(eq(int, ts_member_pid(word), 4194303));
	cr_expect(ts_member_names(word, process));
	cr_expect(not(ts_member_names(word, process + 1)));
	cr_expect(not(ts_member_names(word, process + (1 << 24))));
}

Test(words, member_generation_wraps_within_its_field)
{
	uint64_t word = ts_member_pack(TS_MEMBER_FREE, 0x4000, 0);

	cr_expect(eq(u64, word, 0));
}

Test(words, entry_fields_survive)
{
	uint64_t word = ts_entry_pack(TS_ENTRY_CLAIM, 1023, 0x3ffff, 0xdeadbeef);

	cr_expect(eq(int, ts_entry_state(word), TS_ENTRY_CLAIM));
	cr_expect(eq(u32, ts_entry_owner(word), 1023));
	cr_expect(eq(u32, ts_entry_generation(word), 0x3ffff));
	cr_expect(eq(u32, ts_entry_tag(word), 0xdeadbeef));
	cr_expect(eq(u64, word & TS_ENTRY_WAITED, 0));
}

Test(words, entry_state_changes_alone_and_nobody_waits)
{
	uint64_t word = ts_entry_pack(TS_ENTRY_CLAIM, 7, 9, 11) | TS_ENTRY_WAITED;

	cr_expect(eq(u64, ts_entry_with_state(word, TS_ENTRY_READY),
		ts_entry_pack(TS_ENTRY_READY, 7, 9, 11)));
}

Test(words, futex_half_tells_tenures_apart)
{
	/* A sleeper compares the low half only: owner and generation must be in it. */
	uint32_t one = (uint32_t)ts_entry_pack(TS_ENTRY_CLAIM, 1, 1, 5);

	cr_expect(ne(u32, one, (uint32_t)ts_entry_pack(TS_ENTRY_CLAIM, 2, 1, 5)));
	cr_expect(ne(u32, one, (uint32_t)ts_entry_pack(TS_ENTRY_CLAIM, 1, 2, 5)));
	cr_expect(ne(u32, one, (uint32_t)ts_entry_pack(TS_ENTRY_READY, 1, 1, 5)));
}

Test(words, where_fields_survive)
{
	uint64_t where = ts_where_pack(0x3fffff, 4095, 0xffffffff);

	cr_expect(eq(u32, ts_where_offset(where), 0x3fffff));
	cr_expect(eq(u32, ts_where_segment(where), 4095));
	cr_expect(ts_where_fits(where, 0xffffffff));
	cr_expect(ts_where_fits(where, 0x3fffffff), "only 30 bits are kept");
	cr_expect(not(ts_where_fits(where, 0xfffffffe)));
}

Test(words, segment_fields_survive)
{
	uint64_t word = ts_segment_pack(TS_SEGMENT_DRAIN, 1023, 0xfedcba98);

	cr_expect(eq(int, ts_segment_state(word), TS_SEGMENT_DRAIN));
	cr_expect(eq(u32, ts_segment_owner(word), 1023));
	cr_expect(eq(u32, ts_segment_generation(word), 0xfedcba98));
	cr_expect(not(ts_segment_readable(word)));
	cr_expect(ts_segment_readable(ts_segment_pack(TS_SEGMENT_OPEN, 0, 0)));
	cr_expect(ts_segment_readable(ts_segment_pack(TS_SEGMENT_SEALED, 0, 0)));
}

Test(words, a_pin_is_never_zero)
{
	cr_expect(ne(u64, ts_lease_pack(0, 0), 0));
	cr_expect(ne(u64, ts_lease_pack(1, 0), ts_lease_pack(0, 1)));
}

Test(words, fields_of_a_ring_of_device_memory_survive)
{
	uint64_t word = ts_device_ring_pack(TS_RING_CLOSING, 1023, 0x3fff, 0xfedcba98);

	cr_expect(eq(int, ts_device_ring_state(word), TS_RING_CLOSING));
	cr_expect(eq(u32, ts_device_ring_owner(word), 1023));
	cr_expect(eq(u32, ts_device_ring_tenure(word), 0x3fff));
	cr_expect(eq(u32, ts_device_ring_generation(word), 0xfedcba98));
	word = ts_device_ring_pack(TS_RING_EMPTY, 0, 0, 1);
	cr_expect(eq(u32, ts_device_ring_owner(word), 0));
	cr_expect(eq(u32, ts_device_ring_tenure(word), 0));
}

Test(words, fields_of_a_slot_of_device_memory_survive)
{
	const uint64_t turn = (UINT64_C(1) << 36) - 1;
	uint64_t word = ts_device_slot_pack(TS_SLOT_LOST, 1023, 0x3fff, turn);

	cr_expect(eq(int, ts_device_slot_state(word), TS_SLOT_LOST));
	cr_expect(eq(u32, ts_device_slot_owner(word), 1023));
	cr_expect(eq(u32, ts_device_slot_tenure(word), 0x3fff));
	cr_expect(eq(u64, ts_device_slot_turn(word), turn));
	cr_expect(eq(u64, word & TS_DEVICE_WAITED, 0));
	word = ts_device_slot_pack(TS_SLOT_WRITING, 7, 9, 11) | TS_DEVICE_WAITED;
	cr_expect(eq(u64, ts_device_slot_with(word, TS_SLOT_READY),
		ts_device_slot_pack(TS_SLOT_READY, 7, 9, 11)));
	cr_expect(eq(u32, ts_device_slot_tenure(word), 9));
}

Test(words, fields_of_a_lease_of_device_memory_survive)
{
	const uint32_t most = UINT32_MAX;
	uint64_t pin =
		ts_device_pin_pack(0x3fff, TS_DEVICE_RINGS - 1, TS_DEVICE_SLOTS - 1, most);

	cr_expect(eq(u32, ts_device_pin_tenure(pin), 0x3fff));
	cr_expect(ne(u64, ts_device_pin_pack(0, 0, 0, 0), 0));
	/* No field reaches into another one. */
	cr_expect(eq(u64,
		ts_device_pin_pack(0x3fff, 0, 0, 0) | ts_device_pin_pack(0, 63, 0, 0) |
			ts_device_pin_pack(0, 0, 63, 0) | ts_device_pin_pack(0, 0, 0, most),
		pin));
	cr_expect(eq(int, __builtin_popcountll(pin), 1 + 14 + 6 + 6 + 32));
}
