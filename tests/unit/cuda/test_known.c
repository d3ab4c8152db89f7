/* SPDX-License-Identifier: MIT */
/* What is known of a buffer in pinned memory, and when it is not any more. */
#include "fake_driver.h"

#include "shim/identity.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES (UINT64_C(1) << 20)

static const char *const names[] = {"0123456789abcdef", "fedcba9876543210"};

static char *memory;
static int number;

static void serve(void)
{
	ts_cu_result result = TS_CU_SUCCESS;
	while (ts_pinned_serve(&ts_gpus[0], &result))
		;
	cr_assert(eq(int, result, TS_CU_SUCCESS));
}

/* The buffer goes to its worker, and comes back with another batch. */
static void take(void)
{
	serve();
	if (memory)
		cr_assert(eq(int, tsshim_pinned_done(number), 1));
	memory = tsshim_pinned_take(number);
	cr_assert(memory != NULL);
}

static void init(void)
{
	ts_identity_init();
	fake_driver_init();
	ts_pinned_begin();
	ts_write_relaxed(&ts_gpus[0].mapped, 1);
	int fd = memfd_create("known", MFD_CLOEXEC);
	cr_assert(fd >= 0 && ftruncate(fd, BYTES) == 0);
	number = tsshim_pinned_offer(fd, BYTES);
	cr_assert(ge(int, number, 0));
	close(fd);
	take();
	if (tsshim_pinned_name(number, names[0]) == -ENOTSUP)
		cr_skip_test("this kernel does not tell who writes (Linux 6.7)");
}

TestSuite(known, .init = init);

static struct ts_copy copy_of(size_t from, size_t bytes)
{
	return fake_copy(0x1000, (uintptr_t)memory + from, bytes, true);
}

/* Whether what a copy of these bytes brings is known, and what was said of it. */
static bool is_known(size_t from, size_t bytes, struct ts_known *ret_known)
{
	struct ts_copy copy = copy_of(from, bytes);
	return ts_bring_known(&copy, ret_known) && ts_known_holds(ret_known);
}

static bool is_all_known(void)
{
	struct ts_known known;
	return is_known(0, BYTES, &known);
}

Test(known, a_named_buffer_and_all_parts_of_it)
{
	struct ts_known all, part;
	cr_assert(is_known(0, BYTES, &all));
	cr_expect(memcmp(all.name, names[0], 16) == 0 && all.offset == 0);
	cr_assert(is_known(70000, 300000, &part), "no pages of its own");
	cr_expect(eq(u64, part.offset, 70000));
	cr_expect(eq(u64, part.bytes, 300000));
}

Test(known, nothing_beside_it)
{
	struct ts_known known;
	cr_expect(not(is_known(1, BYTES, &known)), "it ends before");
	cr_expect(not(is_known((size_t)-1, 4096, &known)), "it begins behind");
	struct ts_copy back = copy_of(0, BYTES);
	back.back = true;
	cr_expect(not(ts_bring_known(&back, &known)));
}

Test(known, nothing_for_sure_without_a_ring)
{
	struct ts_copy copy = copy_of(0, BYTES);
	(void)ts_bring_followed(&copy, false);
	take();
	ts_write_relaxed(&ts_gpus[0].mapped, 0);
	struct ts_known known;
	copy = copy_of(0, BYTES);
	cr_expect(eq(int, tsshim_pinned_name(number, names[0]), 0));
	cr_expect(ts_bring_known(&copy, &known), "enough for a hint");
	ts_write_relaxed(&ts_gpus[0].mapped, 1);
	cr_expect(not(ts_known_holds(&known)), "nobody knows who wrote there");
}

Test(known, only_what_is_taken_has_a_name)
{
	cr_expect(eq(int, tsshim_pinned_name(-1, names[0]), -EINVAL));
	struct ts_copy copy = copy_of(0, BYTES);
	(void)ts_bring_followed(&copy, false);
	serve();
	cr_assert(eq(int, tsshim_pinned_done(number), 1));
	cr_expect(eq(int, tsshim_pinned_name(number, names[0]), -EINVAL));
}

Test(known, what_the_program_writes_is_noticed)
{
	struct ts_known part;
	memory[500000]++;
	cr_expect(not(is_all_known()));
	cr_expect(is_known(0, 400000, &part), "there it did not");
	cr_expect(not(is_known(499000, 2000, &part)));
}

Test(known, a_write_between_the_call_and_the_copy_is_noticed)
{
	struct ts_known known;
	fake_driver.complete = false;
	cr_assert(is_known(0, BYTES, &known));
	struct ts_copy copy = copy_of(0, BYTES);
	(void)ts_bring_followed(&copy, false);
	cr_expect(ts_known_holds(&known));
	memory[BYTES - 1]++;
	fake_driver.complete = true;
	cr_expect(not(ts_known_holds(&known)));
}

Test(known, the_next_batch_is_another_one)
{
	struct ts_known before, now;
	struct ts_copy copy = copy_of(0, BYTES);
	cr_assert(is_known(0, BYTES, &before));
	(void)ts_bring_followed(&copy, false);
	take();
	cr_expect(not(is_all_known()), "it has no name yet");
	cr_expect(not(ts_known_holds(&before)));
	cr_assert(eq(int, tsshim_pinned_name(number, names[1]), 0));
	cr_assert(is_known(0, BYTES, &now));
	cr_expect(memcmp(now.name, names[1], 16) == 0);
	cr_expect(not(ts_known_holds(&before)), "though nothing was written");
}

Test(known, a_copy_from_the_GPU_takes_its_name)
{
	struct ts_copy back = fake_copy((uintptr_t)memory + 1000, 0x1000, 4, true);
	back.back = true;
	cr_assert(is_all_known());
	(void)ts_bring_followed(&back, false);
	cr_expect(not(is_all_known()));
}

Test(known, what_is_in_doubt_is_not_known)
{
	ts_place_doubt((uintptr_t)memory + 10, 1);
	cr_expect(not(is_all_known()));
}

Test(known, a_fork_child_could_write_there)
{
	pid_t pid = fork();
	if (pid == 0) {
		memory[100]++;
		_exit(0);
	}
	cr_assert(eq(int, waitpid(pid, NULL, 0), pid));
	cr_expect(not(is_all_known()));
}

Test(known, what_came_from_elsewhere_counts_as_used)
{
	struct ts_known known;
	cr_assert(is_known(0, BYTES, &known));
	ts_known_was_used(&known);
	cr_expect(eq(int, tsshim_pinned_done(number), 1));
}

Test(known, a_program_that_writes_to_its_batches_is_spared)
{
	struct ts_copy copy = copy_of(0, BYTES);
	unsigned named = 0;
	for (unsigned i = 0; i < 100; i++) {
		(void)ts_bring_followed(&copy, false);
		take();
		named += tsshim_pinned_name(number, names[1]) == 0;
		memory[i]++;
	}
	cr_expect(lt(u32, named, 10));
}

Test(known, one_that_seldom_does_is_not)
{
	struct ts_copy copy = copy_of(0, BYTES);
	unsigned named = 0;
	for (unsigned i = 0; i < 200; i++) {
		(void)ts_bring_followed(&copy, false);
		take();
		named += tsshim_pinned_name(number, names[1]) == 0;
		if (i % 40 == 39)
			memory[i]++;
	}
	cr_expect(eq(u32, named, 200));
}
