/* SPDX-License-Identifier: MIT */
/* Samples that make room for newer ones at servers that are full. */
#include "samples.h"

#include "leader/peer/kept.h"
#include "shim/atomic.h"
#include "tests/unit/clock.h"

#include <stdio.h>
#include <string.h>

static struct node node;

static void begin(void)
{
	samples_begin(&node, 1);
}

TestSuite(kept, .init = begin, .fini = samples_end);

#define FEW (TS_KEPT_REMOVED + 2)

/* They are there, and have been for so long; there is no more room. */
static void give_few(uint32_t first, uint64_t bytes, uint64_t ns)
{
	for (uint32_t i = 0; i < FEW; i++)
		sample_give(first + i, bytes);
	node.room = 1;
	clock_pass(ns);
}

Test(kept, old_ones_make_room)
{
	static const uint64_t sizes[] = {1000, 2 * SAMPLE_CHUNK};

	for (uint32_t i = 0; i < TS_ARRAY_SIZE(sizes); i++) {
		uint32_t first = (FEW + 1) * i, last = first + FEW;
		node.room = 0;
		give_few(first, sizes[i], TS_KEPT_YOUNG_NS);
		sample_give(last, sizes[i]);
		cr_expect(eq(int, sample_seek(last), TS_MAIL_SAYS_GOT));
		sample_expect(last, sizes[i]);
		for (uint32_t j = first; i == 0 && j < last; j++)
			cr_expect(eq(int, sample_seek(j),
				j < TS_KEPT_REMOVED ? TS_MAIL_SAYS_WON : TS_MAIL_SAYS_GOT));
	}
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_REMOVED), 2 * TS_KEPT_REMOVED));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_FULL), 0));
}

Test(kept, young_ones_stay)
{
	give_few(0, 1000, TS_KEPT_YOUNG_NS - 1);
	cr_assert(eq(int, sample_seek(FEW), TS_MAIL_SAYS_WON));
	sample_publish(FEW, TS_KIND_SAMPLE, 1000);
	sample_hand_over(FEW);
	cr_expect(eq(uint, node.deleted, 1), "its place");
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_FULL), 1));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_REMOVED), 0));
	for (uint32_t i = 0; i < FEW; i++)
		cr_expect(eq(int, sample_seek(i), TS_MAIL_SAYS_GOT));
}

static bool has_never_room(struct node *of, const struct command *command)
{
	if (strcmp(command->word, "ms") != 0)
		return false;
	node_printf(of, "SERVER_ERROR out of memory storing object\r\n");
	return true;
}

Test(kept, where_removing_does_not_help_it_is_given_up)
{
	give_few(0, 2 * SAMPLE_CHUNK, TS_KEPT_YOUNG_NS);
	node.lies = has_never_room;
	cr_assert(eq(int, sample_seek(FEW), TS_MAIL_SAYS_WON));
	sample_publish(FEW, TS_KIND_SAMPLE, 2 * SAMPLE_CHUNK);
	sample_hand_over(FEW);
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_FULL), 1));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_REMOVED), FEW));
	cr_expect(eq(u32, ts_transfers_count(node.transfers), 0));
	node.lies = NULL;
	cr_expect(eq(int, sample_seek(FEW), TS_MAIL_SAYS_WON));
}

/* ---- whose they are --------------------------------------------------------------------- */

static void lose_chunk(uint32_t number, uint32_t chunk)
{
	sample_value(number, chunk)->key[0] = '\0';
}

/* As another node stores it: with another number, and none that we know. */
static void replace_chunk(uint32_t number, uint32_t chunk)
{
	sample_value(number, chunk)->cas = ++node.kept;
}

Test(kept, what_another_node_has_made_again_stays)
{
	for (uint32_t i = 0; i < FEW; i++)
		sample_give(i, 2 * SAMPLE_CHUNK);
	replace_chunk(0, 0);
	replace_chunk(1, 1);
	replace_chunk(2, 2);
	node.room = 1;
	clock_pass(TS_KEPT_YOUNG_NS);
	sample_give(FEW, 2 * SAMPLE_CHUNK);
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_REMOVED), TS_KEPT_REMOVED - 1));
	/* Of each of them the one chunk that is another's is there still. */
	for (uint32_t i = 0, chunk = 0; i < 3; i++, chunk++) {
		size_t *unused;
		sample_want(i);
		for (uint32_t j = 0; j < 3; j++)
			cr_expect(eq(int, node_value(&node, j, &unused) != NULL, j == chunk),
				"%u: %u", i, j);
	}
}

Test(kept, a_helper_that_ends_leaves_what_another_node_has_made_again)
{
	sample_give(0, 1000);
	sample_give(1, 1000);
	replace_chunk(0, 0);
	while (ts_transfers_clear(node.transfers))
		cr_assert(node_turn(&node));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_REMOVED), 1));
	cr_expect(eq(int, sample_seek(0), TS_MAIL_SAYS_GOT));
	cr_expect(eq(int, sample_seek(1), TS_MAIL_SAYS_WON));
}

static bool says_no_number(struct node *of, const struct command *command)
{
	if (strcmp(command->word, "ms") != 0 || (of->room != 0 && command->count > of->room))
		return false;
	struct command plain = *command;
	plain.numbers = false;
	node_keep(of, &plain);
	return true;
}

/* It may be anybody's by then. */
Test(kept, what_has_no_number_stays)
{
	node.lies = says_no_number;
	give_few(0, 1000, TS_KEPT_YOUNG_NS);
	cr_assert(eq(int, sample_seek(FEW), TS_MAIL_SAYS_WON));
	sample_publish(FEW, TS_KIND_SAMPLE, 1000);
	sample_hand_over(FEW);
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_FULL), 1));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_REMOVED), 0));
	for (uint32_t i = 0; i < FEW; i++)
		cr_expect(eq(int, sample_seek(i), TS_MAIL_SAYS_GOT));
}

Test(kept, what_has_ended_by_its_time_is_not_removed)
{
	give_few(0, 1000, TS_KEPT_SAMPLE * SECOND);
	cr_assert(eq(int, sample_seek(FEW), TS_MAIL_SAYS_WON));
	sample_publish(FEW, TS_KIND_SAMPLE, 1000);
	sample_hand_over(FEW);
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_FULL), 1));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_REMOVED), 0));
	for (uint32_t i = 0; i < FEW; i++)
		cr_expect(eq(int, sample_seek(i), TS_MAIL_SAYS_GOT));
}

static bool has_refused;

static bool refuses_chunk_0_once(struct node *of, const struct command *command)
{
	if (has_refused || strcmp(command->word, "ms") != 0 || !strstr(command->key, ":0"))
		return false;
	has_refused = true;
	node_printf(of, "SERVER_ERROR out of memory storing object\r\n");
	return true;
}

Test(kept, a_lost_one_that_is_stored_anew_does_not_make_room_for_itself)
{
	sample_give(1, 2 * SAMPLE_CHUNK);
	sample_give(2, 1000);
	clock_pass(TS_KEPT_YOUNG_NS);
	lose_chunk(1, 0);
	has_refused = false;
	node.lies = refuses_chunk_0_once;
	cr_assert(eq(int, sample_seek(1), TS_MAIL_SAYS_WON));
	sample_hand_over(1);
	cr_expect(has_refused);
	cr_expect(eq(int, sample_seek(1), TS_MAIL_SAYS_GOT));
	sample_expect(1, 2 * SAMPLE_CHUNK);
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_REMOVED), 1));
	cr_expect(eq(int, sample_seek(2), TS_MAIL_SAYS_WON));
}

/* ---- all of one, or nothing ------------------------------------------------------------- */

Test(kept, of_large_ones_no_chunk_is_left_behind)
{
	const uint64_t bytes = TS_MAIL_ROOM - SAMPLE_HEAD;
	const uint32_t chunks = ts_value_count(TS_MAIL_ROOM), whole = TS_KEPT_REQUESTS / chunks;
	uint32_t kept = 0;

	give_few(0, bytes, TS_KEPT_YOUNG_NS);
	sample_give(FEW, bytes);
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_REMOVED), whole));
	for (uint32_t i = 0; i < NODE_VALUES; i++)
		kept += node.values[i].key[0] != '\0';
	cr_expect(eq(u32, kept, (FEW - whole + 1) * chunks));
	for (uint32_t i = whole; i < FEW; i++)
		cr_expect(eq(int, sample_seek(i), TS_MAIL_SAYS_GOT));
}

/* It is asked for one thing at a time, as it had failed. */
Test(kept, what_could_not_be_removed_is_removed_later)
{
	give_few(0, 1000, TS_KEPT_YOUNG_NS);
	node.is_silent = true;
	for (unsigned i = 0; i < 3; i++)
		cr_expect(eq(int, sample_seek(FEW + 2), TS_MAIL_SAYS_FAILED));
	node.is_silent = false;
	clock_pass(SECOND);
	sample_give(FEW, 1000);
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_REMOVED), 1));
	for (uint32_t i = 1; i < FEW; i++)
		cr_expect(eq(int, sample_seek(i), TS_MAIL_SAYS_GOT));
	node.room = 1;
	sample_give(FEW + 1, 1000);
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_REMOVED), 1 + TS_KEPT_REMOVED));
}

static bool says_there_is_none(struct node *of, const struct command *command)
{
	if (strcmp(command->word, "md") != 0)
		return false;
	node_printf(of, "NF O%u\r\n", command->opaque);
	return true;
}

Test(kept, what_was_gone_already_is_not_counted)
{
	give_few(0, 1000, TS_KEPT_YOUNG_NS);
	node.lies = says_there_is_none;
	cr_assert(eq(int, sample_seek(FEW), TS_MAIL_SAYS_WON));
	sample_publish(FEW, TS_KIND_SAMPLE, 1000);
	sample_hand_over(FEW);
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_FULL), 1));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_REMOVED), 0));
}

/* ---- the end of a helper ---------------------------------------------------------------- */

Test(kept, a_helper_that_ends_leaves_none_of_its_own)
{
	uint32_t count = TS_KEPT_REQUESTS + 3;
	unsigned turns = 0;

	for (uint32_t i = 0; i < count; i++)
		sample_give(i, 1000);
	while (ts_transfers_clear(node.transfers)) {
		turns++;
		cr_assert(node_turn(&node));
	}
	cr_expect(gt(uint, turns, 1), "more than go at once");
	cr_expect(eq(uint, node.deleted, count));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_REMOVED), count));
	for (uint32_t i = 0; i < count; i++)
		cr_expect(eq(int, sample_seek(i), TS_MAIL_SAYS_WON));
}

/* ---- several servers -------------------------------------------------------------------- */

static void begin_two(void)
{
	samples_begin(&node, 2);
}

TestSuite(kept_of_two, .init = begin_two, .fini = samples_end);

/* The first one from @from on whose only chunk lies at @server. */
static uint32_t find_at(uint32_t server, uint32_t from)
{
	char name[48], key[64];

	for (;; from++) {
		sample_name(from, name);
		snprintf(key, sizeof(key), "%s:0", name);
		if (ts_pool_server(node.pool, key) == server)
			return from;
	}
}

/* Server 1 has no room until something of it is removed. */
static char removed_name[48];
static bool is_removed;

static bool server_1_is_full(struct node *of, const struct command *command)
{
	if (strcmp(command->word, "md") == 0 && strstr(command->key, removed_name))
		is_removed = true;
	if (strcmp(command->word, "ms") != 0 || is_removed ||
		ts_pool_server(of->pool, command->key) != 1)
		return false;
	node_printf(of, "SERVER_ERROR out of memory storing object\r\n");
	return true;
}

Test(kept_of_two, what_lies_at_others_keeps_no_room_from_being_made)
{
	uint32_t other = find_at(0, 0), old = find_at(1, 0), next = find_at(1, old + 1);
	int answer;

	sample_publish(other, TS_KIND_SAMPLE, 1000);
	for (unsigned i = 0; i < 1100; i++)
		sample_hand_over(other);
	sample_give(old, 1000);
	clock_pass(TS_KEPT_YOUNG_NS);
	sample_name(old, removed_name);
	is_removed = false;
	node.lies = server_1_is_full;
	sample_publish(next, TS_KIND_SAMPLE, 1000);
	/* Who makes room looks at some of them only, and the next one at those behind them. */
	answer = sample_seek(next);
	for (unsigned i = 0; i < 2 && answer == TS_MAIL_SAYS_WON; i++) {
		sample_hand_over(next);
		answer = sample_seek(next);
	}
	cr_expect(eq(int, answer, TS_MAIL_SAYS_GOT));
	cr_expect(eq(u64, node_counter_of(&node, 1, TS_MAIL_COUNT_REMOVED), 1));
	cr_expect(eq(u64, node_counter_of(&node, 0, TS_MAIL_COUNT_REMOVED), 0));
	cr_expect(eq(int, sample_seek(other), TS_MAIL_SAYS_GOT));
}
