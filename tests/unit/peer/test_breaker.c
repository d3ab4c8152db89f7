/* SPDX-License-Identifier: MIT */
/* When a peer is asked, on a clock of our own. */
#include "leader/peer/breaker.h"
#include "shim/sys.h"
#include "tests/unit/clock.h"
#include "node.h"
#include "samples.h"
#include "leader/peer/kept.h"
#include "shim/atomic.h"

#define FIRST_NS UINT64_C(100000000)
#define LAST_NS  UINT64_C(30000000000)

static const struct ts_breaker_times times = {.first_ns = FIRST_NS, .last_ns = LAST_NS};
static struct ts_breaker breaker;
static uint32_t ticket;

static void begin(void)
{
	clock_begin();
	ts_breaker_init(&breaker, &times, 1);
}

TestSuite(breaker, .init = begin, .fini = clock_end);

static void fail(void)
{
	cr_assert(eq(int, ts_breaker_ask(&breaker, &ticket), 0));
	ts_breaker_failed(&breaker, ticket);
}

static void open_it(void)
{
	for (int i = 0; i < TS_BREAKER_FAILURES; i++)
		fail();
	cr_assert(eq(int, (int)breaker.state, TS_BREAKER_OPEN));
}

static uint64_t left(void)
{
	return breaker.until_ns - ts_now_ns();
}

Test(breaker, some_failures_in_a_row_open_it)
{
	for (int i = 1; i < TS_BREAKER_FAILURES; i++)
		fail();
	cr_expect(eq(int, (int)breaker.state, TS_BREAKER_CLOSED));
	cr_assert(eq(int, ts_breaker_ask(&breaker, &ticket), 0));
	ts_breaker_answered(&breaker, ticket);
	for (int i = 1; i < TS_BREAKER_FAILURES; i++)
		fail();
	cr_expect(eq(int, (int)breaker.state, TS_BREAKER_CLOSED), "an answer was between them");
	fail();
	cr_expect(eq(int, (int)breaker.state, TS_BREAKER_OPEN));
	cr_expect(eq(int, ts_breaker_ask(&breaker, &ticket), -EAGAIN));
}

Test(breaker, pauses_double_up_to_the_longest_and_none_is_below_its_half)
{
	uint64_t pause = FIRST_NS;

	open_it();
	for (int i = 0; i < 20; i++) {
		cr_expect(ge(u64, left(), pause / 2), "%d", i);
		cr_expect(le(u64, left(), pause), "%d", i);
		clock_pass(left() - 1);
		cr_expect(eq(int, ts_breaker_ask(&breaker, &ticket), -EAGAIN), "%d", i);
		clock_pass(1);
		fail();
		pause = ts_min_u64(2 * pause, LAST_NS);
	}
	cr_expect(eq(u64, breaker.pause_ns, LAST_NS));
}

Test(breaker, one_probe_at_a_time_closes_it_after_some)
{
	uint32_t other;

	open_it();
	clock_pass(left());
	for (int i = 0; i < TS_BREAKER_PROBES; i++) {
		cr_expect(not(ts_breaker_is_probed(&breaker)));
		cr_assert(eq(int, ts_breaker_ask(&breaker, &ticket), 0), "%d", i);
		cr_expect(ts_breaker_is_probed(&breaker));
		for (int j = 0; j < 100; j++)
			cr_expect(eq(int, ts_breaker_ask(&breaker, &other), -EAGAIN));
		ts_breaker_answered(&breaker, ticket);
	}
	cr_expect(eq(int, (int)breaker.state, TS_BREAKER_CLOSED));
	open_it();
	cr_expect(le(u64, left(), FIRST_NS), "it begins anew");
}

Test(breaker, a_probe_that_fails_opens_it_at_once)
{
	open_it();
	clock_pass(left());
	cr_assert(eq(int, ts_breaker_ask(&breaker, &ticket), 0));
	ts_breaker_answered(&breaker, ticket);
	fail();
	cr_expect(eq(int, (int)breaker.state, TS_BREAKER_OPEN));
}

Test(breaker, what_was_asked_before_says_nothing_now)
{
	uint32_t before;

	cr_assert(eq(int, ts_breaker_ask(&breaker, &before), 0));
	open_it();
	ts_breaker_answered(&breaker, before);
	cr_expect(eq(int, (int)breaker.state, TS_BREAKER_OPEN));
	clock_pass(left());
	cr_assert(eq(int, ts_breaker_ask(&breaker, &ticket), 0));
	ts_breaker_failed(&breaker, before);
	cr_expect(eq(int, (int)breaker.state, TS_BREAKER_HALF_OPEN));
	ts_breaker_answered(&breaker, before);
	cr_expect(eq(u32, breaker.proven, 0));
}

Test(breaker, a_lost_probe_is_given_up)
{
	uint32_t lost;

	open_it();
	clock_pass(left());
	cr_assert(eq(int, ts_breaker_ask(&breaker, &lost), 0));
	clock_pass(TS_BREAKER_LOST_NS - 1);
	cr_expect(eq(int, ts_breaker_ask(&breaker, &ticket), -EAGAIN));
	cr_expect(ts_breaker_is_probed(&breaker));
	clock_pass(1);
	cr_expect(not(ts_breaker_is_probed(&breaker)));
	cr_assert(eq(int, ts_breaker_ask(&breaker, &ticket), 0));
	ts_breaker_failed(&breaker, lost);
	cr_expect(eq(int, (int)breaker.state, TS_BREAKER_HALF_OPEN));
	ts_breaker_answered(&breaker, ticket);
	cr_expect(eq(u32, breaker.proven, 1));
}

Test(breaker, a_probe_that_was_not_sent_is_anothers)
{
	open_it();
	clock_pass(left());
	cr_assert(eq(int, ts_breaker_ask(&breaker, &ticket), 0));
	ts_breaker_returned(&breaker, ticket);
	cr_expect(eq(int, ts_breaker_ask(&breaker, &ticket), 0));
	cr_expect(eq(u32, breaker.proven, 0));
}

Test(breaker, what_is_known_to_be_well_is_asked_at_once)
{
	open_it();
	clock_pass(left());
	cr_assert(eq(int, ts_breaker_ask(&breaker, &ticket), 0));
	uint32_t before = ticket;
	ts_breaker_close(&breaker);
	cr_expect(eq(int, ts_breaker_ask(&breaker, &ticket), 0));
	ts_breaker_failed(&breaker, before); /* of another state */
	for (int i = 1; i < TS_BREAKER_FAILURES; i++)
		fail();
	cr_expect(eq(int, (int)breaker.state, TS_BREAKER_CLOSED));
	ts_breaker_close(&breaker);
	open_it();
	cr_expect(le(u64, left(), FIRST_NS), "it begins anew");
}

/* 256 nodes lose a peer in one moment: how many come back in the same millisecond. */
Test(breaker, nodes_do_not_come_back_in_one_moment)
{
	unsigned in_ms[FIRST_NS / 1000000 + 1] = {0};
	uint64_t begin_ns = ts_now_ns();

	for (uint64_t node = 0; node < 256; node++) {
		ts_breaker_init(&breaker, &times, node);
		open_it();
		in_ms[(breaker.until_ns - begin_ns) / 1000000]++;
	}
	/* The seeds are given, so this is one outcome and no chance: some 5 on the average. */
	for (size_t i = 0; i < sizeof(in_ms) / sizeof(in_ms[0]); i++)
		cr_expect(lt(uint, in_ms[i], 16), "%zu ms", i);
}

/* Values of several chunks and a server that had failed and is tried again. */

#define CHUNK  ((uint64_t)TS_VALUE_CHUNK)
#define CHUNKS 6

static struct node node;

static void node_one_begin(void)
{
	node_begin(&node, SECRET_A, 1);
}

static void node_one_end(void)
{
	node_end(&node);
}

TestSuite(again, .init = node_one_begin, .fini = node_one_end);

/* Until it is left alone, and then until it may be tried again. */
static void fail_and_come_back(void)
{
	node.is_silent = true;
	node_want(&node, "lost", 0, 100);
	for (unsigned i = 0; i < TS_BREAKER_FAILURES; i++)
		cr_assert(eq(int, node_fetch(&node), TS_MAIL_SAYS_FAILED));
	cr_assert(eq(int, node_fetch(&node), TS_MAIL_SAYS_CLOSED));
	node_rest(&node);
	node.is_silent = false;
	clock_pass(TS_POOL_PAUSE_NS);
	node.asked = node.stored = 0;
}

static unsigned on_way, most_on_way;

/* How many requests came in one turn, each of which was sent before the last was answered. */
static bool counts(struct node *one, const struct command *command)
{
	on_way++;
	most_on_way = on_way > most_on_way ? on_way : most_on_way;
	return false;
}

static int wait_and_count(void)
{
	on_way = most_on_way = 0;
	node.lies = counts;
	while (ts_transfers_count(node.transfers) > 0) {
		on_way = 0;
		cr_assert(node_turn(&node) || ts_transfers_count(node.transfers) == 0,
			"it waits for nothing");
	}
	node.lies = NULL;
	return node_wait(&node);
}

Test(again, a_large_value_is_fetched)
{
	node_give(&node, "name", CHUNKS * CHUNK);
	fail_and_come_back();
	node_want(&node, "name", 0, CHUNKS * CHUNK);
	node_post(&node, TS_MAIL_FETCH);
	cr_expect(eq(int, wait_and_count(), TS_MAIL_SAYS_GOT));
	cr_expect(node_has(&node, "name"));
	cr_expect(eq(uint, node.asked, CHUNKS));
	/* Three one by one; then all that are left. */
	cr_expect(eq(uint, most_on_way, CHUNKS - TS_BREAKER_PROBES));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_CLOSED), 1), "in the beginning");
}

Test(again, a_large_value_is_stored)
{
	size_t *count;

	node_expect(&node, "name", CHUNKS * CHUNK, TS_MAIL_SAYS_WON);
	node_fill(&node, "name");
	const struct ts_mail_request won = node.mail.table->slots[0].request;
	char part[sizeof(node.part)];
	memcpy(part, node.part, sizeof(part));
	fail_and_come_back();
	node.request = won;
	memcpy(node.part, part, sizeof(part));
	node_post(&node, TS_MAIL_STORE);
	cr_expect(eq(int, wait_and_count(), -1));
	cr_expect(eq(uint, node.stored, CHUNKS));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_STORED), 1));
	for (uint32_t i = 0; i < CHUNKS; i++)
		cr_expect(ne(ptr, node_value(&node, i, &count), NULL), "%u", i);
}

Test(again, two_large_values_take_turns)
{
	struct ts_mail_request second;

	node_give(&node, "name", CHUNKS * CHUNK);
	node_expect(&node, "other", CHUNKS * CHUNK, TS_MAIL_SAYS_WON);
	second = node.mail.table->slots[0].request;
	second.kind = TS_MAIL_STORE;
	fail_and_come_back();
	node_want(&node, "name", 0, CHUNKS * CHUNK);
	node_post(&node, TS_MAIL_FETCH);
	ts_transfers_begin(node.transfers, TS_TRANSFER_NOBODY, &second);
	cr_expect(eq(int, wait_and_count(), TS_MAIL_SAYS_GOT));
	cr_expect(node_has(&node, "name"));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_STORED), 2));
}

/* Who asks while another one's probe is on its way reads the file himself. */
Test(again, who_only_asks_does_not_wait_for_a_probe)
{
	fail_and_come_back();
	node.is_silent = true;
	uint64_t before = clock_passed();
	node_want(&node, "one", 0, 100);
	node_post(&node, TS_MAIL_FETCH);
	while (node_turn(&node))
		;
	node_expect(&node, "two", 100, TS_MAIL_SAYS_CLOSED);
	cr_expect(eq(u64, clock_passed(), before));
	node_rest(&node);
}

static bool has_only_chunk_0(struct node *one, const struct command *command)
{
	return strcmp(command->word, "mg") == 0 && !strstr(command->key, ":0");
}

Test(again, what_waits_for_a_probe_ends_with_it)
{
	node_give(&node, "name", CHUNKS * CHUNK);
	fail_and_come_back();
	node.lies = has_only_chunk_0;
	node_want(&node, "name", 0, CHUNKS * CHUNK);
	uint64_t before = clock_passed();
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_FAILED));
	cr_expect(eq(u64, clock_passed() - before, TS_TRANSFER_ANSWER_NS));
	node_rest(&node);
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_CLOSED));
}

/* How long readers wait for other nodes, on a virtual clock. */

TestSuite(waiting, .init = node_one_begin, .fini = node_one_end);

/* ---- what readers do -------------------------------------------------------------------- */

/* Whoever asks is to wait for another one, for ever. */
static bool says_made_to_all(struct node *one, const struct command *command)
{
	if (strcmp(command->word, "mg") != 0)
		return false;
	one->asked++;
	node_printf(one, "VA 0 c1 O%u Z\r\n\r\n", command->opaque);
	return true;
}

/* A reader of one more file, which has a second. */
static int fetch_next(void)
{
	static unsigned count;
	char name[24];

	snprintf(name, sizeof(name), "waiting%u", count++);
	node_want(&node, name, 0, 100);
	node.request.until_ns = ts_now_ns() + SECOND;
	return node_fetch(&node);
}

/* How long @count readers, one after the other, waited for nothing. */
static uint64_t waited_in_vain(unsigned count)
{
	uint64_t before = clock_passed();

	for (unsigned i = 0; i < count; i++)
		cr_expect(eq(int, fetch_next(), TS_MAIL_SAYS_LATE), "%u", i);
	return clock_passed() - before;
}

Test(waiting, who_says_so_of_everything_costs_three_deadlines_and_no_more)
{
	node.lies = says_made_to_all;
	cr_expect(eq(u64, waited_in_vain(1000), TS_BREAKER_FAILURES * SECOND));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_LATE), 1000));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_ASKED), 1000), "once each");
}

Test(waiting, one_tries_again_after_pauses_that_grow)
{
	uint64_t pause = TS_TRANSFER_TIRED_NS;

	node.lies = says_made_to_all;
	cr_expect(eq(u64, waited_in_vain(4), 3 * SECOND));
	for (unsigned i = 0; i < 8; i++) {
		/* A pause is between half and all of its length. */
		clock_pass(pause / 2 - 1);
		cr_expect(eq(u64, waited_in_vain(10), 0), "pause %u", i);
		clock_pass(pause / 2 + 1);
		cr_expect(eq(u64, waited_in_vain(10), SECOND), "pause %u", i);
		pause = ts_min_u64(2 * pause, TS_TRANSFER_TIRED_MAX_NS);
	}
	cr_expect(eq(u64, pause, TS_TRANSFER_TIRED_MAX_NS));
}

Test(waiting, a_value_that_comes_ends_it)
{
	node_give(&node, "there", 1000);
	node.lies = says_made_to_all;
	cr_expect(eq(u64, waited_in_vain(10), 3 * SECOND));
	node.lies = NULL;
	node_expect(&node, "there", 1000, TS_MAIL_SAYS_GOT);
	node.lies = says_made_to_all;
	cr_expect(eq(u64, waited_in_vain(10), 3 * SECOND));
	/* And the pauses node_one_begin anew. */
	clock_pass(TS_TRANSFER_TIRED_NS);
	cr_expect(eq(u64, waited_in_vain(10), SECOND));
}

Test(waiting, a_value_that_is_none_ends_nothing)
{
	size_t *count;

	node_give(&node, "there", 1000);
	node.lies = says_made_to_all;
	cr_expect(eq(u64, waited_in_vain(10), 3 * SECOND));
	node.lies = NULL;
	node_want(&node, "there", 0, 1000);
	node_value(&node, 0, &count)[500] ^= 1;
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_REFUSED));
	node_rest(&node);
	node.lies = says_made_to_all;
	cr_expect(eq(u64, waited_in_vain(10), 0));
}

/* The right to make one is no value: who says so may be the same server. */
Test(waiting, what_is_won_meanwhile_ends_nothing)
{
	node.lies = says_made_to_all;
	cr_expect(eq(u64, waited_in_vain(10), 3 * SECOND));
	node.lies = NULL;
	cr_expect(eq(int, fetch_next(), TS_MAIL_SAYS_WON));
	node.lies = says_made_to_all;
	cr_expect(eq(u64, waited_in_vain(10), 0));
}

/* ---- nodes that are slow and honest ----------------------------------------------------- */

static uint64_t made_at;

/* Another node makes it, and hands it over when it is time. */
static bool is_made_in_time(struct node *one, const struct command *command)
{
	if (ts_now_ns() >= made_at || strcmp(command->word, "mg") != 0)
		return false;
	return says_made_to_all(one, command);
}

static int fetch_what_is_made_in(const char *name, uint64_t ns)
{
	node.lies = NULL;
	node_give(&node, name, 1000);
	node_want(&node, name, 0, 1000);
	node.request.until_ns = ts_now_ns() + SECOND;
	made_at = ts_now_ns() + ns;
	node.lies = is_made_in_time;
	return node_fetch(&node);
}

Test(waiting, who_reads_slowly_is_waited_for_each_time)
{
	uint64_t before = clock_passed();
	char name[16];

	for (unsigned i = 0; i < 20; i++) {
		snprintf(name, sizeof(name), "slow%u", i);
		cr_expect(eq(int, fetch_what_is_made_in(name, 900 * MS), TS_MAIL_SAYS_GOT));
	}
	cr_expect(ge(u64, clock_passed() - before, 20 * 900 * MS));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_LATE), 0));
}

Test(waiting, now_and_then_in_vain_is_not_always)
{
	char name[16];

	for (unsigned i = 0; i < 20; i++) {
		node.lies = says_made_to_all;
		cr_expect(eq(u64, waited_in_vain(TS_BREAKER_FAILURES - 1),
			(TS_BREAKER_FAILURES - 1) * SECOND));
		snprintf(name, sizeof(name), "slow%u", i);
		cr_expect(eq(int, fetch_what_is_made_in(name, 900 * MS), TS_MAIL_SAYS_GOT));
	}
}

/* A file system that stands still: all readers of a node wait, for one reason. */
Test(waiting, those_at_the_same_time_are_one)
{
	char name[24];

	node.lies = says_made_to_all;
	for (unsigned i = 0; i < 4 * TS_BREAKER_FAILURES; i++) {
		snprintf(name, sizeof(name), "together%u", i);
		node_want(&node, name, 0, 100);
		node.request.until_ns = ts_now_ns() + SECOND;
		node_post(&node, TS_MAIL_FETCH);
	}
	node_rest(&node);
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_LATE), 4 * TS_BREAKER_FAILURES));
	cr_expect(eq(u64, clock_passed(), SECOND));
	cr_expect(eq(u64, waited_in_vain(10), (TS_BREAKER_FAILURES - 1) * SECOND));
}

/* Whether asking other nodes pays, on a virtual clock. */

static struct ts_mail_use *told;
static uint32_t given;

static void worth_begin(void)
{
	samples_begin(&node, 1);
	told = &node.mail.table->use;
	given = 0;
	/* At the beginning of the longest time for which nobody asks. */
	clock_set((int64_t)(1000 * TS_MAIL_UNUSED_MAX_NS));
}

TestSuite(worth, .init = worth_begin, .fini = samples_end);

/* ---- what tests do ---------------------------------------------------------------------- */

static void give(uint32_t count)
{
	while (count-- > 0)
		sample_give(given++, 1000);
}

static void turn(void)
{
	while (node_turn(&node))
		;
}

/* Those that were given so far have been there for so long. */
static void look(void)
{
	clock_pass(TS_KEPT_LOOK_NS);
	turn();
}

/* The number-th that is looked at, where one in TS_KEPT_ONE_IN is. */
static struct node_value *looked_at(uint32_t number)
{
	return sample_value((number + 1) * TS_KEPT_ONE_IN - 1, 0);
}

static void expect_looks(uint64_t looked, uint64_t unused, uint64_t unused_times)
{
	cr_expect(eq(u64, ts_load_relaxed(&told->looked), looked));
	cr_expect(eq(u64, ts_load_relaxed(&told->unused), unused));
	cr_expect(eq(u64, ts_load_relaxed(&told->times_unused), unused_times));
}

static bool is_off(void)
{
	return ts_now_ns() < ts_load_relaxed(&told->unused_until);
}

static void go_off(void)
{
	give(TS_KEPT_ONE_IN * TS_WORTH_ROW);
	look();
	cr_assert(is_off());
}

/* ---- what no node fetches --------------------------------------------------------------- */

Test(worth, what_no_node_fetches_is_not_handed_over)
{
	give(TS_KEPT_ONE_IN * TS_WORTH_ROW - 1);
	clock_pass(TS_KEPT_LOOK_NS - 1);
	turn();
	expect_looks(0, 0, 0);
	clock_pass(1);
	turn();
	expect_looks(TS_WORTH_ROW - 1, TS_WORTH_ROW - 1, 0);
	cr_expect(not(is_off()));
	give(1);
	look();
	expect_looks(TS_WORTH_ROW, TS_WORTH_ROW, 1);
	cr_expect(is_off());
}

Test(worth, one_that_is_fetched_begins_the_row_anew)
{
	give(TS_KEPT_ONE_IN * TS_WORTH_ROW);
	looked_at(TS_WORTH_ROW - 1)->fetched = true;
	look();
	expect_looks(TS_WORTH_ROW, TS_WORTH_ROW - 1, 0);
	give(TS_KEPT_ONE_IN * (TS_WORTH_ROW - 1));
	look();
	expect_looks(2 * TS_WORTH_ROW - 1, 2 * TS_WORTH_ROW - 2, 0);
	give(TS_KEPT_ONE_IN);
	look();
	expect_looks(2 * TS_WORTH_ROW, 2 * TS_WORTH_ROW - 1, 1);
}

/* Who is behind wins few, and nobody fetches these. */
Test(worth, one_that_comes_begins_the_row_anew)
{
	give(TS_KEPT_ONE_IN * (TS_WORTH_ROW - 1));
	look();
	cr_assert(eq(int, sample_seek(0), TS_MAIL_SAYS_GOT));
	give(TS_KEPT_ONE_IN * (TS_WORTH_ROW - 1));
	look();
	expect_looks(2 * (TS_WORTH_ROW - 1), 2 * (TS_WORTH_ROW - 1), 0);
	give(TS_KEPT_ONE_IN);
	look();
	cr_expect(eq(u64, ts_load_relaxed(&told->times_unused), 1));
}

/* All nodes that are off are on again in one moment, whenever each went off. */
Test(worth, times_end_together_by_the_clock_of_the_day)
{
	uint64_t pause = TS_MAIL_OFF_NS;

	for (unsigned i = 0; i < 7; i++) {
		for (uint32_t j = 0; j < NODE_VALUES; j++) /* they have ended by their time */
			node.values[j].key[0] = '\0';
		go_off();
		uint64_t left = ts_load_relaxed(&told->unused_until) - ts_now_ns();
		cr_expect(left >= pause / 2 && left < pause / 2 + pause, "pause %u", i);
		cr_expect(eq(u64, ((uint64_t)ts_real_ns() + left) % pause, 0), "pause %u", i);
		clock_pass(left);
		cr_expect(not(is_off()));
		pause = ts_min_u64(2 * pause, TS_MAIL_UNUSED_MAX_NS);
	}
	cr_expect(eq(u64, pause, TS_MAIL_UNUSED_MAX_NS));
}

Test(worth, one_that_is_fetched_after_all_ends_it_and_the_next_time_is_short)
{
	uint32_t more = TS_KEPT_ONE_IN;

	give(TS_KEPT_ONE_IN * TS_WORTH_ROW);
	clock_pass(SECOND);
	give(more);
	clock_pass(TS_KEPT_LOOK_NS - SECOND);
	turn();
	cr_assert(is_off());
	looked_at(TS_WORTH_ROW)->fetched = true;
	clock_pass(SECOND);
	turn();
	cr_expect(not(is_off()));
	given = 5000;
	go_off();
	cr_expect(lt(
		u64, ts_load_relaxed(&told->unused_until) - ts_now_ns(), 2 * TS_MAIL_OFF_NS));
}

/* What was stored before it went off says nothing new. */
Test(worth, what_was_stored_before_goes_off_once)
{
	give(3 * TS_KEPT_ONE_IN * TS_WORTH_ROW);
	look();
	expect_looks(3 * TS_WORTH_ROW, 3 * TS_WORTH_ROW, 1);
}

Test(worth, what_another_node_has_made_again_counts_neither_way)
{
	give(TS_KEPT_ONE_IN * TS_WORTH_ROW);
	looked_at(0)->cas = ++node.kept;
	looked_at(1)->key[0] = '\0';
	look();
	expect_looks(TS_WORTH_ROW - 2, TS_WORTH_ROW - 2, 0);
}

/* There is no more room, so each that is given makes the server lose old ones. */
Test(worth, what_is_removed_is_looked_at_before)
{
	give(TS_KEPT_ONE_IN * TS_WORTH_ROW);
	looked_at(0)->fetched = true;
	node.room = 1;
	clock_pass(TS_KEPT_YOUNG_NS);
	give(1);
	turn();
	node.room = 0;
	uint64_t looked = node_counter(&node, TS_MAIL_COUNT_REMOVED) / TS_KEPT_ONE_IN;
	cr_assert(ge(u64, looked, 1));
	expect_looks(looked, looked - 1, 0);
	look();
	/* One of each eight, whenever it was looked at. */
	expect_looks(TS_WORTH_ROW, TS_WORTH_ROW - 1, 0);
}

Test(worth, the_end_of_all_jobs_begins_anew)
{
	go_off();
	while (ts_transfers_clear(node.transfers))
		cr_assert(node_turn(&node));
	cr_expect(not(is_off()));
}

/* ---- what takes longer to get than to make ---------------------------------------------- */

/* Another node's helper hands them over, and each takes @took_ns to come. */
static void get(uint32_t count, uint64_t took_ns)
{
	struct ts_worth worth;

	ts_worth_init(&worth, &node.mail);
	for (uint32_t i = 0; i < count; i++)
		ts_worth_note_got(&worth, took_ns, SAMPLE_MADE_NS);
}

Test(worth, what_takes_longer_to_get_than_to_make_is_not_asked_for)
{
	struct ts_mail_flow *flow = &node.mail.table->samples;

	get(TS_WORTH_WINDOW - 1, SAMPLE_MADE_NS + 1);
	cr_expect(eq(u64, ts_load_relaxed(&flow->off_until), 0));
	get(3 * TS_WORTH_WINDOW, SAMPLE_MADE_NS);
	cr_expect(eq(u64, ts_load_relaxed(&flow->off_until), 0));
	get(TS_WORTH_WINDOW, SAMPLE_MADE_NS + 1);
	cr_expect(eq(u64, ts_load_relaxed(&flow->off_until), ts_now_ns() + TS_MAIL_OFF_NS));
	cr_expect(eq(u64, ts_load_relaxed(&flow->times_off), 1));
}

/* Each way here: what a sample says of itself is what it is judged by. */
Test(worth, a_sample_that_comes_is_weighed)
{
	struct ts_mail_flow *flow = &node.mail.table->samples;

	give(1);
	for (unsigned i = 0; i < TS_WORTH_WINDOW; i++) {
		sample_want(0);
		node_post(&node, TS_MAIL_SAMPLE);
		clock_pass(SAMPLE_MADE_NS + 1);
		cr_assert(eq(int, node_wait(&node), TS_MAIL_SAYS_GOT));
		node_rest(&node);
	}
	cr_expect(eq(u64, ts_load_relaxed(&flow->times_off), 1));
}
