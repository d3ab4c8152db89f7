/* SPDX-License-Identifier: MIT */
/* How old a file has to be, by where its times come from and what they are. */
#include "leader/inputs/age.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define S   INT64_C(1000000000)
#define NOW (1700000000 * S + 123456789)

Test(age, where_times_come_from)
{
	static const struct {
		uint64_t type;
		bool is_near;
	} table[] = {
		{0xef53, true},      /* ext4 */
		{0x58465342, true},  /* XFS */
		{0x9123683e, true},  /* Btrfs */
		{0x01021994, true},  /* tmpfs */
		{0x794c7630, true},  /* overlayfs */
		{0x6969, false},     /* NFS */
		{0x65735546, false}, /* FUSE */
		{0x01021997, false}, /* 9p */
		{0xff534d42, false}, /* CIFS */
		{0x0bd00bd0, false}, /* Lustre */
		{0x4d44, false},     /* FAT: two seconds */
		{0x2fc12fc1, false}, /* ZFS */
		{0, false},
		{UINT64_MAX, false},
	};
	for (size_t i = 0; i < TS_ARRAY_SIZE(table); i++)
		cr_expect(eq(int, ts_age_is_near(table[i].type), table[i].is_near), "%zu", i);
}

Test(age, when_a_file_is_young)
{
	static const struct {
		const char *what;
		bool is_near;
		int64_t modified_ns, changed_ns;
		bool is_young;
	} table[] = {
		{"just written", true, NOW, NOW, true},
		{"within two seconds", true, NOW - 2 * S + 1, NOW - 2 * S + 1, true},
		{"two seconds ago", true, NOW - 2 * S, NOW - 2 * S, false},
		{"written and set back", true, 0, NOW - S, true},
		{"written then, of the future", true, NOW + 9 * S, NOW - 3 * S, false},
		{"the clock was set back", true, NOW + S, NOW + S, true},
		{"times of no year", true, INT64_MAX, INT64_MAX, true},
		{"whole seconds, 59 ago", true, NOW / S * S - 59 * S, NOW / S * S - 59 * S,
			true},
		{"whole seconds, 60 ago", true, NOW / S * S - 60 * S, NOW / S * S - 60 * S,
			false},
		{"whole seconds, of the future", true, NOW + 9 * S, NOW / S * S - 90 * S, true},
		{"far, within a minute", false, NOW - 60 * S + 1, NOW - 60 * S + 1, true},
		{"far, a minute ago", false, NOW - 60 * S, NOW - 60 * S, false},
		{"far, without times of change", false, NOW - S, 1, true},
		{"far, set back", false, 1, NOW - S, true},
		{"far, of the future", false, NOW + 9 * S, NOW - 90 * S, true},
	};
	for (size_t i = 0; i < TS_ARRAY_SIZE(table); i++)
		cr_expect(eq(int,
				  ts_age_is_young(table[i].is_near, table[i].modified_ns,
					  table[i].changed_ns, NOW),
				  table[i].is_young),
			"%s", table[i].what);
}

Test(age, times_saturate)
{
	cr_expect(eq(long, ts_age_ns((struct timespec){1, 2}), S + 2));
	cr_expect(eq(long, ts_age_ns((struct timespec){-1, 2}), 2 - S));
	cr_expect(eq(long, ts_age_ns((struct timespec){1LL << 40, 0}), INT64_MAX));
	cr_expect(eq(long, ts_age_ns((struct timespec){-(1LL << 40), 0}), INT64_MIN));
}
