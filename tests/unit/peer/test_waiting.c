/* SPDX-License-Identifier: MIT */
/* How long readers wait for other nodes, on a virtual clock. */
#include "node.h"

#include "leader/peer/breaker.h"
#include "shim/sys.h"
#include "tests/unit/clock.h"

#include <stdio.h>
#include <string.h>

static struct node node;

static void begin(void)
{
	node_begin(&node, SECRET_A, 1);
}

static void end(void)
{
	node_end(&node);
}

TestSuite(waiting, .init = begin, .fini = end);

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
	node_want(&node, "there", 0, 1000);
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_GOT));
	node.lies = says_made_to_all;
	cr_expect(eq(u64, waited_in_vain(10), 3 * SECOND));
	/* And the pauses begin anew. */
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
