/* SPDX-License-Identifier: MIT */
/* Values of several chunks and a server that had failed and is tried again. */
#include "node.h"

#include "leader/peer/breaker.h"
#include "shim/sys.h"
#include "tests/unit/clock.h"

#include <string.h>

#define CHUNK  ((uint64_t)TS_VALUE_CHUNK)
#define CHUNKS 6

static struct node node;

static void begin(void)
{
	node_begin(&node, SECRET_A, 1);
}

static void end(void)
{
	node_end(&node);
}

TestSuite(again, .init = begin, .fini = end);

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

	node_want(&node, "name", 0, CHUNKS * CHUNK);
	cr_assert(eq(int, node_fetch(&node), TS_MAIL_SAYS_WON));
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
	node_want(&node, "other", 0, CHUNKS * CHUNK);
	cr_assert(eq(int, node_fetch(&node), TS_MAIL_SAYS_WON));
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
	node_want(&node, "two", 0, 100);
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_CLOSED));
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
