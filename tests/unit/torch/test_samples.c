/* SPDX-License-Identifier: MIT */
/* The life of one sample between the glue and the store. */
#include "fixture.h"

#define PAYLOAD UINT64_C(100000)

TestSuite(samples, .init = torch_init, .fini = torch_finish);

static bool is_all(const void *data, uint64_t bytes, unsigned char value)
{
	const unsigned char *at = data;

	while (bytes > 0 && *at == value)
		at++, bytes--;
	return bytes == 0;
}

static void expect_hit(struct ts_sample *sample, int64_t number, unsigned char value)
{
	const struct ts_sample_view *view = ts_sample_view(sample);

	cr_assert(eq(int, torch_take(sample, number, 0), TS_HIT));
	cr_expect(eq(u64, view->meta_bytes, META_BYTES));
	cr_expect(eq(int, ((const unsigned char *)view->meta)[META_BYTES - 1], value));
	cr_expect(eq(u64, view->payload_bytes, PAYLOAD));
	cr_expect(eq(u64, (uintptr_t)view->payload % 64, 0));
	cr_expect(is_all(view->payload, PAYLOAD, value));
}

Test(samples, what_is_published_is_taken)
{
	struct ts_sample *sample = torch_sample();

	torch_make(sample, 5, PAYLOAD, 7);
	cr_expect(eq(u64, torch_produced(), 1));
	cr_expect(eq(u64, torch_shared(), 0));
	expect_hit(sample, 5, 7);
	tsshim_sample_taken(sample);
	cr_expect(eq(u64, torch_shared(), 1));
}

Test(samples, a_record_is_known_by_its_origin)
{
	struct ts_sample *maker = torch_sample(), *taker = torch_sample();
	const struct ts_sample_view *made = ts_sample_view(maker),
				    *taken = ts_sample_view(taker);
	uint64_t first[2];

	cr_assert(eq(int, torch_take(maker, 5, 0), TS_CLAIM));
	cr_expect(eq(u64, made->origin[0], 0), "nothing is there yet");
	torch_publish(maker, PAYLOAD, 7);
	memcpy(first, made->origin, sizeof(first));
	cr_expect(ne(u64, first[0], 0));
	cr_assert(eq(int, torch_take(taker, 5, 0), TS_HIT));
	cr_expect(memcmp(taken->origin, first, sizeof(first)) == 0);
	tsshim_sample_drop(taker);
	cr_expect(eq(u64, taken->origin[0], 0), "it was not used");
	torch_make(maker, 6, PAYLOAD, 7);
	cr_expect(memcmp(made->origin, first, sizeof(first)) != 0, "equal, but another one");
}

Test(samples, one_that_was_made_alone_has_no_origin)
{
	struct ts_sample *maker = torch_sample(), *other = torch_sample();

	cr_assert(eq(int, torch_take(maker, 5, 0), TS_CLAIM));
	cr_assert(eq(int, torch_take(other, 5, 0), TS_BUSY));
	tsshim_sample_begin(other, 1);
	cr_expect(lt(int, tsshim_sample_end(other, 0), 0));
	tsshim_sample_publish(other);
	cr_expect(eq(u64, ts_sample_view(other)->origin[0], 0));
}

Test(samples, a_hit_that_is_dropped_is_not_counted)
{
	struct ts_sample *sample = torch_sample();

	torch_make(sample, 5, PAYLOAD, 7);
	expect_hit(sample, 5, 7);
	tsshim_sample_drop(sample);
	cr_expect(eq(u64, torch_shared(), 0));
	cr_expect(ts_sample_view(sample)->payload == NULL);
}

Test(samples, every_part_of_the_name_counts)
{
	struct ts_sample *sample = torch_sample();
	struct ts_sample_view seen[4];

	torch_make(sample, 5, PAYLOAD, 7);
	seen[0] = *ts_sample_view(sample);
	cr_expect(eq(int, torch_take(sample, 6, 0), TS_CLAIM));
	seen[1] = *ts_sample_view(sample);
	cr_expect(eq(int, torch_take(sample, 5, 1), TS_CLAIM));
	seen[2] = *ts_sample_view(sample);
	/* The stream gives the generators, the scope the key. */
	tsshim_sample_name(sample, torch_scope, torch_scope, "i\5\0\0\0\0\0\0\0", 9, 0, 0);
	cr_expect(eq(int, tsshim_sample_take(sample, 0), TS_HIT));
	seen[3] = *ts_sample_view(sample);
	for (int i = 0; i < 4; i++)
		for (int j = 0; j < i; j++) {
			cr_expect(seen[i].torch_seed != seen[j].torch_seed);
			cr_expect(seen[i].python_seed != seen[j].python_seed);
			cr_expect(seen[i].numpy_seed != seen[j].numpy_seed);
		}
	cr_expect(seen[0].torch_seed >> 63 == 0);
}

Test(samples, one_that_is_in_the_making_is_busy_until_it_is_given_up)
{
	struct ts_sample *maker = torch_sample(), *other = torch_sample();

	cr_assert(eq(int, torch_take(maker, 5, 0), TS_CLAIM));
	cr_expect(eq(int, torch_take(other, 5, 0), TS_BUSY));
	tsshim_sample_begin(maker, 1);
	/* It raised an exception. */
	cr_expect(eq(int, tsshim_sample_end(maker, 1), -ECANCELED));
	cr_expect(eq(int, torch_take(other, 5, 0), TS_CLAIM));
}

Test(samples, moments_end_at_the_deadline)
{
	struct ts_sample *stopped = torch_sample(), *other = torch_sample();
	int verdict = TS_BUSY;

	cr_assert(eq(int, torch_take(stopped, 5, 0), TS_CLAIM));
	/* Named anew each time, and with another one in between, as by who looks ahead. */
	for (int i = 0; i < 1000 && verdict == TS_BUSY; i++) {
		cr_assert(eq(int, torch_take(other, 6 + i, 0), TS_CLAIM));
		cr_assert(eq(int, torch_take(other, 5, 0), TS_BUSY));
		verdict = tsshim_sample_take(other, TS_SAMPLE_MOMENT);
	}
	cr_expect(eq(int, verdict, TS_CLAIM));
}

/* Who wants to know the files of an item is told, whether it may be published or not. */
Test(samples, a_watched_item_tells_its_files)
{
	struct ts_sample *maker = torch_sample(), *other = torch_sample();

	cr_assert(eq(int, torch_take(maker, 5, 0), TS_CLAIM));
	cr_assert(eq(int, torch_take(other, 5, 0), TS_BUSY));
	tsshim_sample_begin(other, TS_SAMPLE_WATCH);
	cr_expect(eq(int, tsshim_sample_end(other, 0), -ECANCELED));
	cr_expect(ts_sample_view(other)->inputs != NULL);
	uint64_t bytes = ts_sample_view(other)->input_bytes;
	tsshim_sample_begin(other, 0);
	cr_expect(ts_sample_view(other)->inputs == NULL, "of an item before");
	cr_expect(eq(int, tsshim_sample_end(other, 0), -ECANCELED));
	cr_expect(ts_sample_view(other)->inputs == NULL, "nobody asked");
	torch_publish(maker, PAYLOAD, 7);
	expect_hit(other, 5, 7);
	cr_expect(eq(u64, ts_sample_view(other)->input_bytes, bytes));
	tsshim_sample_drop(other);
	cr_expect(ts_sample_view(other)->inputs == NULL, "of a record that was let go");
}

Test(samples, the_end_of_all_is_no_item)
{
	struct ts_sample *sample = torch_sample();

	cr_assert(eq(int, torch_take(sample, 5, 0), TS_CLAIM));
	tsshim_sample_begin(sample, TS_SAMPLE_WATCH);
	cr_expect(eq(int, tsshim_sample_end(sample, TS_SAMPLE_NOTHING), 0));
	cr_expect(eq(u64, torch_produced(), 0));
	tsshim_sample_begin(sample, TS_SAMPLE_WATCH);
	cr_expect(eq(int, tsshim_sample_end(sample, TS_SAMPLE_MADE), 0));
	cr_expect(eq(u64, torch_produced(), 1));
}

Test(samples, what_is_made_a_second_time_is_counted_apart)
{
	struct ts_sample *sample = torch_sample();

	/* As the one before was, so that it is seen that this one is not. */
	cr_assert(eq(int, torch_take(sample, 5, 0), TS_CLAIM));
	torch_publish(sample, PAYLOAD, 7);
	cr_expect(eq(u64, torch_produced(), 1));
	tsshim_sample_begin(sample, TS_SAMPLE_AGAIN);
	cr_expect(eq(int, tsshim_sample_end(sample, TS_SAMPLE_MADE), -ECANCELED));
	cr_expect(eq(u64, torch_produced(), 1));
	tsshim_sample_begin(sample, 0);
	cr_expect(eq(int, tsshim_sample_end(sample, TS_SAMPLE_MADE), -ECANCELED));
	cr_expect(eq(u64, torch_produced(), 2), "the next one is counted");
}

static void make_ahead(struct ts_sample *sample, int64_t number)
{
	cr_assert(eq(int, torch_take(sample, number, 0), TS_CLAIM));
	tsshim_sample_begin(sample, TS_SAMPLE_NEST | TS_SAMPLE_AHEAD);
	cr_assert(eq(int, tsshim_sample_end(sample, TS_SAMPLE_MADE), 0));
}

/* It is the batch that comes that has made it, and nobody who takes it for that batch. */
Test(samples, what_is_made_ahead_is_counted_once)
{
	struct ts_sample *sample = torch_sample();

	for (int64_t number = 0; number < 300; number++) {
		make_ahead(sample, number);
		cr_assert(tsshim_sample_reserve(sample, "meta", 4, 8) != NULL);
		tsshim_sample_publish(sample);
	}
	cr_expect(eq(u64, torch_produced(), 300));
	make_ahead(sample, 300); /* and cannot be published */
	tsshim_sample_drop(sample);
	cr_expect(eq(u64, torch_produced(), 300));

	cr_expect(eq(int, torch_take(sample, 299, 0), TS_HIT));
	tsshim_sample_taken(sample);
	cr_expect(eq(u64, torch_shared(), 0));
	cr_expect(eq(int, torch_take(sample, 299, 0), TS_HIT));
	tsshim_sample_taken(sample);
	cr_expect(eq(u64, torch_shared(), 1));
	/* To verify it is to make it again. */
	cr_expect(eq(int, torch_take(sample, 298, 0), TS_HIT));
	tsshim_sample_begin(sample, 0);
	cr_expect(eq(int, tsshim_sample_end(sample, TS_SAMPLE_MADE), -ECANCELED));
	cr_expect(eq(u64, torch_produced(), 300));
	/* So long ago that this is forgotten. */
	cr_expect(eq(int, torch_take(sample, 0, 0), TS_HIT));
	tsshim_sample_taken(sample);
	cr_expect(eq(u64, torch_shared(), 2));
}

Test(samples, who_stays_takes_no_claim_over)
{
	struct ts_sample *maker = torch_sample(), *other = torch_sample();

	cr_assert(eq(int, torch_take(maker, 5, 0), TS_CLAIM));
	/* More than the deadline, after which moments end. */
	for (int i = 0; i < 200; i++) {
		cr_assert(eq(int, torch_take(other, 5, 0), TS_BUSY));
		cr_assert(eq(int, tsshim_sample_take(other, TS_SAMPLE_STAY), TS_BUSY));
	}
	torch_publish(maker, PAYLOAD, 7);
	cr_expect(eq(int, tsshim_sample_take(other, TS_SAMPLE_STAY), TS_HIT));
}

Test(samples, a_record_too_large_is_no_claim_any_more)
{
	struct ts_sample *sample = torch_sample(), *other = torch_sample();

	cr_assert(eq(int, torch_take(sample, 5, 0), TS_CLAIM));
	tsshim_sample_begin(sample, 1);
	cr_assert(eq(int, tsshim_sample_end(sample, 0), 0));
	cr_expect(tsshim_sample_reserve(sample, "meta", 4, UINT64_C(1) << 30) == NULL);
	cr_expect(tsshim_sample_reserve(sample, "meta", 4, 100) == NULL);
	tsshim_sample_publish(sample);
	cr_expect(eq(int, torch_take(other, 5, 0), TS_CLAIM));
}

static struct ts_sample *inherited;

static int goes_on(void)
{
	tsshim_sample_begin(inherited, 1);
	bool ended = tsshim_sample_end(inherited, 0) == 0;
	bool reserved = tsshim_sample_reserve(inherited, "meta", 4, 100) != NULL;
	tsshim_sample_publish(inherited);
	tsshim_sample_drop(inherited);
	return ended || reserved;
}

Test(samples, a_child_does_not_go_on_with_its_parents)
{
	struct ts_sample *other = torch_sample();

	inherited = torch_sample();
	cr_assert(eq(int, torch_take(inherited, 5, 0), TS_CLAIM));
	cr_expect(eq(int, fixture_fork(goes_on), 0));
	cr_expect(eq(int, torch_take(other, 5, 0), TS_BUSY));
	torch_publish(inherited, PAYLOAD, 3);
	expect_hit(other, 5, 3);
}
