/* SPDX-License-Identifier: MIT */
/*
 * Buffers as pinned memory: when a place may be used, and when it may be written to again.
 * tests/e2e/copies_pinned.py has the rest, with a whole driver.
 */
#include "fake_driver.h"

#include "shim/identity.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define BYTES  (UINT64_C(40) << 20) /* three pieces */
#define PIECES 3
#define SMALL  (UINT64_C(1) << 20)

static struct ts_gpu *const gpu = &ts_gpus[0];

static void init(void)
{
	ts_identity_init();
	fake_driver_init();
	ts_pinned_begin();
}

TestSuite(pinned, .init = init);

static int memory(uint64_t bytes)
{
	int fd = memfd_create("pinned", MFD_CLOEXEC);

	cr_assert(fd >= 0 && ftruncate(fd, (off_t)bytes) == 0);
	return fd;
}

static bool serve(void)
{
	ts_cu_result result = TS_CU_SUCCESS;
	bool soon = ts_pinned_serve(gpu, &result);

	cr_expect(eq(int, result, TS_CU_SUCCESS));
	return soon;
}

static int make_ready(void)
{
	int fd = memory(SMALL), number = tsshim_pinned_offer(fd, SMALL);

	close(fd);
	cr_assert(ge(int, number, 0));
	while (serve())
		;
	return number;
}

static struct ts_copy copy_of(void *from, size_t bytes, bool async)
{
	return fake_copy(0x1000, (uintptr_t)from, bytes, async);
}

/* A place that was taken and from which one copy with a stream was made. */
static int make_used(void)
{
	int number = make_ready();
	void *at = tsshim_pinned_take(number);
	struct ts_copy copy = copy_of(at, SMALL, true);

	cr_assert(at != NULL && ts_bring_is_pooled(&copy));
	cr_expect(eq(int, ts_bring_followed(&copy, false), fake_driver.copy));
	return number;
}

Test(pinned, a_place_is_the_memory_and_whole_before_it_is_given_out)
{
	int fd = memory(BYTES), number = tsshim_pinned_offer(fd, BYTES);

	cr_assert(eq(int, number, 0));
	cr_expect(ts_place_is_wanted());
	for (int i = 0; i < PIECES; i++) {
		cr_expect(serve());
		cr_expect(tsshim_pinned_take(number) == NULL, "piece %d", i);
		cr_expect(eq(u32, fake_driver.registered, 0));
	}
	while (serve())
		;
	cr_expect(eq(u64, fake_driver.registered_bytes, BYTES), "in one piece");
	char *at = tsshim_pinned_take(number);
	cr_assert(at != NULL);
	at[BYTES - 1] = 'x';
	char there = 0;
	cr_expect(pread(fd, &there, 1, (off_t)BYTES - 1) == 1 && there == 'x');
}

Test(pinned, what_cannot_be_pinned_is_refused)
{
	int fd = memory(SMALL);

	cr_expect(eq(int, tsshim_pinned_offer(fd, TS_COPY_BYTES_MIN - 1), -EINVAL));
	cr_expect(eq(int, tsshim_pinned_offer(fd, SMALL + 1), -EINVAL));
	cr_expect(eq(int, tsshim_pinned_offer(fd, UINT64_C(1) << 40), -EINVAL));
	cr_expect(eq(int, tsshim_pinned_offer(-1, SMALL), -EBADF));
	cr_expect(tsshim_pinned_take(-1) == NULL && tsshim_pinned_take(1 << 20) == NULL);
	cr_expect(tsshim_pinned_take(0) == NULL, "nothing is there yet");
	cr_expect(eq(int, tsshim_pinned_drop(0), -EINVAL));
}

Test(pinned, a_buffer_comes_back_when_its_copy_has_completed)
{
	fake_driver.complete = false;
	int number = make_used();

	cr_expect(eq(u32, fake_driver.recorded, 1));
	serve();
	cr_expect(eq(int, tsshim_pinned_done(number), 0));
	cr_expect(tsshim_pinned_take(number) == NULL, "the GPU may read it");
	fake_driver.complete = true;
	serve();
	cr_expect(eq(int, tsshim_pinned_done(number), 1));
	cr_expect(tsshim_pinned_take(number) != NULL);
}

static void expect_in_doubt(int number)
{
	while (serve())
		;
	cr_expect(eq(int, tsshim_pinned_done(number), -EIO));
	cr_expect(eq(int, tsshim_pinned_drop(number), -EIO));
	cr_expect(tsshim_pinned_take(number) == NULL);
}

Test(pinned, what_has_no_event_is_never_written_to)
{
	fake_driver.record = 400;
	expect_in_doubt(make_used());
}

Test(pinned, nor_what_a_copy_that_failed_may_read)
{
	fake_driver.copy = 700;
	expect_in_doubt(make_used());
}

Test(pinned, nor_what_is_in_a_batch)
{
	int lower = make_ready(), number = make_ready();
	char *below = tsshim_pinned_take(lower), *at = tsshim_pinned_take(number);

	/* The lowest and the highest of all places have bounds that are looked at first. */
	if (below > at) {
		number = lower;
		at = below;
	}
	ts_place_doubt((uintptr_t)at - 1, 1);
	ts_place_doubt((uintptr_t)at + SMALL, 1);
	struct ts_copy copy = copy_of(at + SMALL - 1, 2, false);
	cr_expect(eq(int, ts_bring_followed(&copy, false), TS_CU_SUCCESS));
	cr_expect(eq(int, tsshim_pinned_done(number), 1), "its neighbours are not it");
	ts_place_doubt((uintptr_t)at + SMALL - 1, 1);
	expect_in_doubt(number);
}

Test(pinned, more_copies_than_there_are_events)
{
	fake_driver.complete = false;
	int number = make_used();
	struct ts_copy copy = copy_of((void *)ts_load_relaxed(&ts_places_low), SMALL, true);

	for (int i = 1; i < 64; i++)
		cr_expect(eq(int, ts_bring_followed(&copy, false), TS_CU_SUCCESS));
	cr_expect(eq(int, tsshim_pinned_done(number), 0));
	cr_expect(eq(int, ts_bring_followed(&copy, false), TS_CU_SUCCESS));
	cr_expect(eq(u32, fake_driver.recorded, 64));
	fake_driver.complete = true;
	expect_in_doubt(number);
}

Test(pinned, an_error_of_the_driver_is_told_and_the_place_stays)
{
	fake_driver.query = 700;
	int number = make_used();
	ts_cu_result result = TS_CU_SUCCESS;

	(void)ts_pinned_serve(gpu, &result);
	cr_expect(eq(int, result, 700));
	cr_expect(eq(int, tsshim_pinned_done(number), 0));
	ts_places_stop();
	cr_expect(eq(int, tsshim_pinned_done(number), -EIO));
	cr_expect(eq(int, tsshim_pinned_offer(-1, SMALL), -ENOTSUP));
}

Test(pinned, unused_places_come_back_once_one_was_seen)
{
	int used = make_used(), number = make_ready();

	serve();
	cr_expect(eq(int, tsshim_pinned_done(used), 1));
	cr_assert(tsshim_pinned_take(number) != NULL);
	cr_expect(eq(int, tsshim_pinned_done(number), 1));
}

Test(pinned, what_is_dropped_is_unmapped_when_the_driver_has_let_go)
{
	int number = make_used();
	struct ts_copy copy = copy_of((void *)ts_load_relaxed(&ts_places_low), SMALL, false);

	serve();
	cr_expect(eq(int, tsshim_pinned_done(number), 1));
	cr_expect(eq(int, tsshim_pinned_drop(number), 0));
	cr_expect(tsshim_pinned_take(number) == NULL);
	serve();
	cr_expect(eq(u32, fake_driver.registered, 0));
	cr_expect(not(ts_bring_is_pooled(&copy)));
	cr_expect(eq(int, make_ready(), number), "its number is another's");
}

Test(pinned, the_first_refusal_to_register_is_the_last)
{
	int fd = memory(SMALL), number = tsshim_pinned_offer(fd, SMALL);

	fake_driver.registers = 801;
	while (serve())
		;
	cr_expect(tsshim_pinned_take(number) == NULL);
	cr_expect(eq(int, tsshim_pinned_offer(fd, SMALL), -ENOTSUP));
}

Test(pinned, a_context_that_goes_is_waited_for)
{
	fake_driver.complete = false;
	make_used();
	cr_expect(not(ts_pinned_give_back(gpu)), "a copy is under way");
	fake_driver.complete = true;
	serve();
	cr_expect(ts_pinned_give_back(gpu));
}
