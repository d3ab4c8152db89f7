/* SPDX-License-Identifier: MIT */
/* Requests of jobs: how many are on their way, and servers that cannot. */
#include "node.h"

#include "shim/sys.h"
#include "tests/unit/clock.h"

#include <stdio.h>
#include <string.h>

#define CHUNK ((uint64_t)TS_VALUE_CHUNK)

static struct node node;

static void begin(void)
{
	node_begin(&node, SECRET_A, 1);
}

static void end(void)
{
	node_end(&node);
}

TestSuite(transfer_bounds, .init = begin, .fini = end);

/* ---- bounds ----------------------------------------------------------------------------- */

static unsigned heard;

static bool counts_and_is_silent(struct node *one, const struct command *command)
{
	if (strcmp(command->word, "mg") != 0 || command->key[strlen(command->key) - 1] == '0')
		return false;
	heard++;
	return true;
}

Test(transfer_bounds, so_many_chunks_are_on_their_way_and_no_more)
{
	node_give(&node, "name", 9 * CHUNK);
	node_want(&node, "name", 0, 9 * CHUNK);
	node.lies = counts_and_is_silent;
	heard = 0;
	node_post(&node, TS_MAIL_FETCH);
	while (node_turn(&node))
		;
	cr_expect(eq(uint, heard, TS_TRANSFER_PARTS));
	cr_expect(eq(int, node_wait(&node), TS_MAIL_SAYS_FAILED));
}

static void ask_for_many(uint32_t count)
{
	for (uint32_t i = 0; i < count; i++) {
		char name[16];
		snprintf(name, sizeof(name), "name%u", i);
		node_want(&node, name, 0, 100);
		node_post(&node, TS_MAIL_FETCH);
	}
}

Test(transfer_bounds, more_than_there_are_buffers_for_wait_for_them)
{
	uint32_t count = 3 * TS_TRANSFER_BUFFERS;

	node.is_silent = true;
	ask_for_many(count);
	cr_expect(eq(u32, ts_transfers_count(node.transfers), count));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_ASKED), TS_TRANSFER_BUFFERS));
	node_rest(&node);
}

Test(transfer_bounds, one_of_several_servers_has_half_of_the_buffers)
{
	end();
	node_begin(&node, SECRET_A, 2);
	node.is_silent = true;
	ask_for_many(8 * TS_TRANSFER_BUFFERS);
	for (uint32_t i = 0; i < 2; i++)
		cr_expect(eq(
			u64, node_counter_of(&node, i, TS_MAIL_COUNT_ASKED), TS_TRANSFER_HALF));
	node_rest(&node);
}

/* Of so many none is answered, and those beyond half of the buffers are not even asked for. */
Test(transfer_bounds, who_was_never_asked_for_is_late_at_the_server_that_has_it)
{
	char name[16], key[64];
	uint32_t count = 0;

	end();
	node_begin(&node, SECRET_A, 2);
	node.is_silent = true;
	for (uint32_t i = 0; count < TS_TRANSFER_BUFFERS; i++) {
		snprintf(name, sizeof(name), "name%u", i);
		node_want(&node, name, 0, 100);
		node.request.until_ns = ts_now_ns() + 30 * MS;
		snprintf(key, sizeof(key), "f1:%016llx%016llx.0:0",
			(unsigned long long)node.request.name.hi,
			(unsigned long long)node.request.name.lo);
		if (ts_pool_server(node.pool, key) != 1)
			continue;
		node_post(&node, TS_MAIL_FETCH);
		count++;
	}
	node_rest(&node);
	cr_expect(eq(u64, node_counter_of(&node, 1, TS_MAIL_COUNT_ASKED), TS_TRANSFER_HALF));
	cr_expect(eq(u64, node_counter_of(&node, 1, TS_MAIL_COUNT_LATE), count));
	cr_expect(eq(u64, node_counter_of(&node, 0, TS_MAIL_COUNT_LATE), 0));
}

static bool counts_stores(struct node *one, const struct command *command)
{
	heard += strcmp(command->word, "ms") == 0;
	return strcmp(command->word, "ms") == 0;
}

Test(transfer_bounds, stores_have_half_of_the_buffers)
{
	node.lies = counts_stores;
	heard = 0;
	for (uint32_t i = 0; i < TS_TRANSFER_BUFFERS; i++) {
		char name[16];
		snprintf(name, sizeof(name), "name%u", i);
		node_want(&node, name, 0, 100);
		node_post(&node, TS_MAIL_STORE);
	}
	while (node_turn(&node))
		;
	cr_expect(eq(uint, heard, TS_TRANSFER_HALF));
	ask_for_many(1);
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_ASKED), 1), "there is a buffer");
	node_rest(&node);
}

/* ---- servers that cannot ---------------------------------------------------------------- */

Test(transfer_bounds, a_full_server_has_no_place_left_behind)
{
	size_t *count;

	node_want(&node, "name", 0, 4 * CHUNK);
	cr_assert(eq(int, node_fetch(&node), TS_MAIL_SAYS_WON));
	node.room = 2 * CHUNK;
	node_post(&node, TS_MAIL_STORE);
	node_rest(&node);
	cr_expect(eq(uint, node.deleted, 1));
	cr_expect(eq(ptr, node_value(&node, 0, &count), NULL));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_FULL), 1));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_STORED), 0));
}

static bool has_lost_chunk_2(struct node *one, const struct command *command)
{
	if (strcmp(command->word, "mg") != 0 || !strstr(command->key, ":2"))
		return false;
	node_printf(one, "EN O%u\r\n", command->opaque);
	return true;
}

Test(transfer_bounds, what_has_lost_a_chunk_is_taken_away)
{
	size_t *count;

	node_give(&node, "name", 4 * CHUNK);
	node_want(&node, "name", 0, 4 * CHUNK);
	node.lies = has_lost_chunk_2;
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_NONE));
	node_rest(&node);
	cr_expect(eq(uint, node.deleted, 1));
	cr_expect(eq(ptr, node_value(&node, 0, &count), NULL));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_NONE), 1));
}

Test(transfer_bounds, a_silent_server_fails_and_is_then_left_alone)
{
	node.is_silent = true;
	for (unsigned i = 1; i <= 3; i++) {
		node_want(&node, "name", 0, 1000);
		cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_FAILED));
		cr_expect(eq(u64, clock_passed(), i * TS_TRANSFER_ANSWER_NS));
	}
	node_want(&node, "name", 0, 1000);
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_CLOSED));
	cr_expect(eq(u64, clock_passed(), 3 * TS_TRANSFER_ANSWER_NS));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_FAILED), 3));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_CLOSED), 1));
	/* It comes back. */
	node.is_silent = false;
	clock_pass(SECOND);
	node_want(&node, "name", 0, 1000);
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_WON));
}

Test(transfer_bounds, nobody_waits_for_a_silent_server_beyond_his_own_deadline)
{
	node.is_silent = true;
	node_want(&node, "name", 0, 1000);
	node.request.until_ns = ts_now_ns() + 30 * MS;
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_LATE));
	cr_expect(eq(u64, clock_passed(), 30 * MS));
	node_rest(&node);
}
