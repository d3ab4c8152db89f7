/* SPDX-License-Identifier: MIT */
/* How a ring is cut, and which limits of the machine count. */
#include "fixture.h"
#include "tests/unit/valgrind.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define MIB (UINT64_C(1) << 20)
#define GIB (UINT64_C(1) << 30)

TestSuite(limits, .init = fixture_init, .fini = fixture_finish);

static const struct {
	uint64_t ring, segment;
} cuts[] = {
	{8 * MIB, 1 * MIB},
	{63 * MIB, 1 * MIB},
	{64 * MIB, 4 * MIB},
	{128 * MIB, 4 * MIB},
	{256 * MIB, 8 * MIB},
	{512 * MIB, 16 * MIB},
	{2 * GIB, 16 * MIB},
	{2 * GIB + MIB, 16 * MIB},
	{4 * GIB, 32 * MIB},
	{8 * GIB, 64 * MIB},
	{64 * GIB, 64 * MIB},
	{256 * GIB, 64 * MIB},
	{300 * GIB, 128 * MIB},
	{1024 * GIB, 256 * MIB},
	{2048 * GIB, 256 * MIB},
};

Test(limits, segments_follow_the_size_of_the_ring)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(cuts); i++) {
		struct ts_shape shape;
		cr_assert(eq(int, ts_limits_shape(cuts[i].ring, &shape), 0));
		cr_expect(eq(u64, shape.segment_bytes, cuts[i].segment), "case %zu", i);
		cr_expect(le(u64, shape.total_bytes, cuts[i].ring), "case %zu", i);
		cr_expect(ge(u32, shape.segment_count, 4), "case %zu", i);
		cr_expect(le(u32, shape.segment_count, TS_SEGMENT_MAX), "case %zu", i);
		cr_expect(eq(u64, shape.data_at % (uint64_t)sysconf(_SC_PAGESIZE), 0),
			"case %zu", i);
		if (shape.segment_bytes >= TS_HUGE_BYTES)
			cr_expect(eq(u64, shape.data_at % TS_HUGE_BYTES, 0), "case %zu", i);
		cr_expect(eq(u32, shape.set_count & (shape.set_count - 1), 0), "case %zu", i);
	}
}

Test(limits, large_rings_are_as_large_as_was_asked_for)
{
	static const uint64_t gib[] = {4, 16, 33, 64, 128, 256, 300, 512, 1024};

	for (size_t i = 0; i < TS_ARRAY_SIZE(gib); i++) {
		struct ts_shape shape;
		cr_assert(eq(int, ts_limits_shape(gib[i] * GIB, &shape), 0));
		cr_expect(ge(u64, shape.total_bytes, gib[i] * GIB - 2 * shape.segment_bytes),
			"%u GiB", (unsigned)gib[i]);
		cr_expect(le(u64, shape.control_bytes, gib[i] * GIB / 64 + MIB), "%u GiB",
			(unsigned)gib[i]);
	}
}

Test(limits, too_small_a_ring_is_no_ring)
{
	struct ts_shape shape = {.segment_count = 99};

	cr_expect(eq(int, ts_limits_shape(5 * MIB, &shape), -ENOSPC));
	cr_expect(eq(int, ts_limits_shape(0, &shape), -ENOSPC));
	cr_expect(eq(u32, shape.segment_count, 99), "the output is untouched on failure");
}

static void put(const char *root, const char *path, const char *text)
{
	char full[512];

	snprintf(full, sizeof(full), "%s/%s", root, path);
	FILE *file = fopen(full, "w");
	cr_assert(file != NULL, "%s", full);
	fputs(text, file);
	fclose(file);
}

static void make(const char *root, const char *path)
{
	char full[512];

	snprintf(full, sizeof(full), "%s/%s", root, path);
	cr_assert(eq(int, mkdir(full, 0700), 0), "%s", full);
}

static uint64_t headroom(const char *root)
{
	char list[512];

	snprintf(list, sizeof(list), "%s/list", root);
	return ts_limits_cgroup(list, root);
}

static void remove_tree(const char *root)
{
	char command[512];

	snprintf(command, sizeof(command), "rm -rf '%s'", root);
	cr_expect(eq(int, system(command), 0));
}

Test(limits, the_tightest_group_above_us_counts)
{
	char root[] = "/tmp/tsshim-cgroup-XXXXXX";

	cr_assert(mkdtemp(root) != NULL);
	make(root, "a");
	make(root, "a/b");
	put(root, "list", "0::/a/b\n");
	put(root, "a/memory.max", "1000000\n");
	put(root, "a/memory.current", "900000\n");
	put(root, "a/b/memory.max", "max\n");
	put(root, "a/b/memory.current", "800000\n");
	cr_expect(eq(u64, headroom(root), 100000));
	put(root, "a/b/memory.max", "850000\n");
	cr_expect(eq(u64, headroom(root), 50000));
	put(root, "a/b/memory.stat", "anon 1\ninactive_file 20000\nslab 3\n");
	cr_expect(eq(u64, headroom(root), 70000), "clean page cache is free");
	put(root, "memory.max", "10\n");
	put(root, "memory.current", "20\n");
	cr_expect(eq(u64, headroom(root), 0), "the root of what we see counts as well");
	remove_tree(root);
}

Test(limits, the_first_version_of_the_controller_counts)
{
	char root[] = "/tmp/tsshim-cgroup-XXXXXX";

	cr_assert(mkdtemp(root) != NULL);
	make(root, "memory");
	make(root, "memory/job");
	put(root, "list", "9:name=systemd:/\n4:cpu,memory:/job\n3:hugememory:/job\n0::/\n");
	put(root, "memory/memory.limit_in_bytes", "9223372036854771712\n");
	put(root, "memory/memory.usage_in_bytes", "5\n");
	put(root, "memory/job/memory.limit_in_bytes", "1000\n");
	put(root, "memory/job/memory.usage_in_bytes", "400\n");
	cr_expect(eq(u64, headroom(root), 600));
	remove_tree(root);
}

Test(limits, no_group_is_no_limit)
{
	cr_expect(eq(
		u64, ts_limits_cgroup("/proc/nonexistent", "/proc/nonexistent"), UINT64_MAX));
}

Test(limits, five_per_cent_of_a_finite_address_space_are_ours)
{
	NOT_EMULATED("it knows no RLIMIT_AS");
	struct rlimit limit = {.rlim_cur = UINT64_C(100) << 40, .rlim_max = RLIM_INFINITY};

	cr_expect(eq(u64, ts_limits_address_space(), UINT64_MAX));
	cr_assert(eq(int, setrlimit(RLIMIT_AS, &limit), 0));
	cr_expect(eq(u64, ts_limits_address_space(), UINT64_C(5) << 40));
}

/* Before anything is made: a skipped test does not tidy up. */
static void skip_where_address_space_is_needed(void)
{
	NOT_EMULATED("it knows no RLIMIT_AS");
#ifdef __SANITIZE_ADDRESS__
	cr_skip_test("the address sanitizer itself needs terabytes of address space");
#endif
}

static void limit_address_space(uint64_t bytes)
{

	struct rlimit limit = {.rlim_cur = bytes, .rlim_max = RLIM_INFINITY};

	cr_assert(eq(int, setrlimit(RLIMIT_AS, &limit), 0));
}

Test(limits, a_finite_address_space_shrinks_the_ring)
{
	uint64_t capacity, used;

	skip_where_address_space_is_needed();
	limit_address_space(140 * MIB); /* 5 % are 7 MiB */
	struct ts_store *store = fixture_attach(JOB_A);
	fixture_usage(store, &capacity, &used);
	limit_address_space(RLIM_INFINITY);
	cr_expect(eq(u64, capacity, 5 * MIB));
	ts_store_detach(store);
}

Test(limits, a_ring_larger_than_our_address_space_allows_is_not_mapped)
{
	enum ts_reason reason;

	skip_where_address_space_is_needed();
	struct ts_store *store = fixture_attach(JOB_A);
	limit_address_space(140 * MIB);
	cr_expect(eq(int, fixture_refused(RING_BYTES, &reason), -ENOSPC));
	limit_address_space(RLIM_INFINITY);
	cr_expect(eq(int, reason, TS_REASON_NO_SPACE));
	ts_store_detach(store);
}

Test(limits, a_ring_of_size_zero_is_switched_off)
{
	enum ts_reason reason;

	fixture_refused(0, &reason);
	cr_expect(eq(int, reason, TS_REASON_DISABLED));
	cr_expect(eq(int, access(fixture_path("ring"), F_OK), -1));
}

Test(limits, too_small_a_ring_leaves_nothing_behind)
{
	enum ts_reason reason;

	cr_expect(eq(int, fixture_refused(2 * MIB, &reason), -ENOSPC));
	cr_expect(eq(int, reason, TS_REASON_NO_SPACE));
	cr_expect(eq(int, access(fixture_path("ring"), F_OK), -1));
}
