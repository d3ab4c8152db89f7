/* SPDX-License-Identifier: MIT */
/* Requests of jobs from their taking to their answer: who makes, who gets, and whose files they
 * are. */
#include "node.h"
#include "shim/atomic.h"
#include "shim/sys.h"
#include "tests/unit/clock.h"

#include <sys/stat.h>
#include <unistd.h>

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

TestSuite(transfer, .init = begin, .fini = end);

static _Atomic uint32_t *state(void)
{
	return &node.mail.table->slots[0].state;
}

/* ---- what works ------------------------------------------------------------------------- */

Test(transfer, who_wins_makes_and_the_next_one_gets)
{
	static const uint64_t sizes[] = {1, 1000, CHUNK, CHUNK + 1, 5 * CHUNK + 7};
	char name[16];

	for (size_t i = 0; i < TS_ARRAY_SIZE(sizes); i++) {
		snprintf(name, sizeof(name), "name%zu", i);
		node_give(&node, name, sizes[i]);
		node_want(&node, name, 4096, sizes[i]);
		cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_GOT));
		cr_expect(node_has(&node, name), "%zu bytes", (size_t)sizes[i]);
	}
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_WON), TS_ARRAY_SIZE(sizes)));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_STORED), TS_ARRAY_SIZE(sizes)));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_GOT), TS_ARRAY_SIZE(sizes)));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_ASKED), 2 * TS_ARRAY_SIZE(sizes)));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_GOT_BYTES),
		1 + 1000 + CHUNK + CHUNK + 1 + 5 * CHUNK + 7));
	cr_expect(eq(uint, node.opened, 1), "one connection for all");
	cr_expect(eq(u64, clock_passed(), 0), "nobody waited");
}

Test(transfer, chunk_0_is_stored_last)
{
	size_t *count;

	node_give(&node, "name", 6 * CHUNK);
	cr_expect(eq(int, strcmp(strrchr(node.last_stored, ':'), ":0"), 0));
	for (uint32_t i = 0; i < 6; i++)
		cr_expect(ne(ptr, node_value(&node, i, &count), NULL));
}

Test(transfer, what_is_returned_is_won_again)
{
	node_expect(&node, "name", 100, TS_MAIL_SAYS_WON);
	node_post(&node, TS_MAIL_RETURN);
	cr_expect(eq(int, node_wait(&node), -1));
	node_rest(&node);
	cr_expect(eq(uint, node.deleted, 1));
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_WON));
	cr_expect(eq(u64, clock_passed(), 0));
}

Test(transfer, what_came_and_is_of_no_use_is_returned_and_won_again)
{
	node_give(&node, "name", 1000);
	node_expect(&node, "name", 1000, TS_MAIL_SAYS_GOT);
	node_post(&node, TS_MAIL_RETURN);
	node_rest(&node);
	cr_expect(eq(uint, node.deleted, 1));
	node_expect(&node, "name", 1000, TS_MAIL_SAYS_WON);
}

/* Of what we win now the place ends, and another node wins, makes and stores it. */
static struct ts_mail_request win_too_late(void)
{
	struct ts_mail_request ours;
	size_t *count;

	node_expect(&node, "name", 100, TS_MAIL_SAYS_WON);
	ours = node.mail.table->slots[0].request;
	cr_assert(ne(ptr, node_value(&node, 0, &count), NULL));
	node.values[0].key[0] = '\0';
	node_give(&node, "name", 100);
	return ours;
}

static void expect_that_it_stays(void)
{
	node_rest(&node);
	cr_expect(eq(uint, node.deleted, 1), "it was tried");
	node_expect(&node, "name", 100, TS_MAIL_SAYS_GOT);
	cr_expect(node_has(&node, "name"));
}

Test(transfer, a_late_return_deletes_nothing_of_another_nodes)
{
	struct ts_mail_request ours = win_too_late();

	ts_transfers_return(node.transfers, &ours);
	expect_that_it_stays();
}

Test(transfer, a_late_store_that_fails_deletes_nothing_of_another_nodes)
{
	struct ts_mail_request ours = win_too_late();

	ours.kind = TS_MAIL_STORE;
	ours.inode++;
	ts_transfers_begin(node.transfers, TS_TRANSFER_NOBODY, &ours);
	expect_that_it_stays();
}

static unsigned char *changed_at;

/* Before we can delete what was changed, another node has stored it anew. */
static bool is_stored_before_it_is_deleted(struct node *one, const struct command *command)
{
	if (strcmp(command->word, "md") != 0)
		return false;
	*changed_at ^= 1;
	one->values[0].cas = ++one->kept;
	return false;
}

Test(transfer, a_late_deletion_of_what_was_refused_leaves_what_is_new)
{
	size_t *count;

	node_give(&node, "name", 100);
	node_want(&node, "name", 0, 100);
	changed_at = node_value(&node, 0, &count) + 100;
	*changed_at ^= 1;
	node.lies = is_stored_before_it_is_deleted;
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_REFUSED));
	node_rest(&node);
	clock_pass(TS_TRANSFER_REFUSED_NS);
	expect_that_it_stays();
}

static bool counts_nothing(struct node *one, const struct command *command)
{
	if (strcmp(command->word, "mg") != 0)
		return false;
	node_printf(one, "VA 0 c0 O%u W\r\n\r\n", command->opaque);
	return true;
}

Test(transfer, where_a_server_does_not_count_a_place_ends_by_itself)
{
	node.lies = counts_nothing;
	node_expect(&node, "name", 100, TS_MAIL_SAYS_WON);
	node_post(&node, TS_MAIL_RETURN);
	cr_expect(eq(int, node_wait(&node), -1));
	node_rest(&node);
	cr_expect(eq(uint, node.deleted, 0));
}

/* After 1, 2, 4, 8, 16 and then every 20 milliseconds. */
Test(transfer, who_finds_another_maker_asks_again_until_a_deadline)
{
	node_expect(&node, "name", 100, TS_MAIL_SAYS_WON);
	node.request.until_ns = ts_now_ns() + SECOND;
	node.asked = 0;
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_LATE));
	cr_expect(eq(u64, clock_passed(), SECOND));
	cr_expect(eq(uint, node.asked, 1 + 5 + (1000 - 31 - 1) / 20));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_LATE), 1));
}

static bool is_made_at_the_third(struct node *one, const struct command *command)
{
	if (one->asked == 3 && strcmp(command->word, "mg") == 0) {
		/* Made by another node. */
		struct ts_value_place place = {.key = command->key,
			.key_bytes = strlen(command->key) - 2,
			.total = 100};
		static unsigned char stored[sizeof(struct ts_value_head) + 100];
		struct ts_sealer *sealer;
		memset(stored, 'v', sizeof(stored));
		cr_assert(eq(int, ts_sealer_create(&one->secrets, &sealer), 0));
		cr_assert(eq(int,
			ts_value_seal(sealer, &place, stored + sizeof(struct ts_value_head),
				(struct ts_value_head *)stored),
			0));
		ts_sealer_destroy(sealer);
		node_printf(one, "VA %zu O%u\r\n", sizeof(stored), command->opaque);
		node_say(one, stored, sizeof(stored));
		node_say(one, "\r\n", 2);
		return true;
	}
	return false;
}

Test(transfer, what_another_one_makes_is_taken_when_it_is_there)
{
	node_expect(&node, "name", 100, TS_MAIL_SAYS_WON);
	node.asked = 0;
	node.lies = is_made_at_the_third;
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_GOT));
	cr_expect(eq(u64, clock_passed(), 7 * MS));
}

/* ---- owners and their files ------------------------------------------------------------- */

Test(transfer, nothing_is_written_for_who_has_left)
{
	node_give(&node, "name", 1000);
	node_want(&node, "name", 0, 1000);
	node_post(&node, TS_MAIL_FETCH);
	ts_write_relaxed(state(), TS_MAIL_LEFT);
	cr_expect(eq(int, node_wait(&node), -1));
	cr_expect(node_is_untouched(&node));
}

Test(transfer, what_who_has_left_has_won_is_returned)
{
	node_want(&node, "name", 0, 1000);
	node_post(&node, TS_MAIL_FETCH);
	ts_write_relaxed(state(), TS_MAIL_LEFT);
	cr_expect(eq(int, node_wait(&node), -1));
	node_rest(&node);
	cr_expect(eq(uint, node.deleted, 1));
}

Test(transfer, a_file_that_is_not_what_was_said_is_none)
{
	char other[sizeof(node.part) + 8];

	node_want(&node, "name", 0, 1000);
	node.request.inode++;
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_UNFIT));
	node.request.inode--;
	node.request.bytes++;
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_UNFIT));
	node.request.bytes--;
	node.request.at = UINT64_MAX - 5;
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_UNFIT));
	node.request.at = 0;
	snprintf(other, sizeof(other), "%s.other", node.part);
	cr_assert(eq(int, rename(node.part, other), 0));
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_UNFIT));
	cr_assert(eq(int, symlink(other, node.part), 0));
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_UNFIT));
	unlink(node.part);
	cr_assert(eq(int, mkfifo(node.part, 0600), 0));
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_UNFIT));
	unlink(node.part);
	/* What is complete is never written to. */
	cr_assert(eq(int, rename(other, node.copy), 0));
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_UNFIT));
	cr_expect(eq(uint, node.opened, 0), "before anybody was asked");
}

Test(transfer, requests_that_are_none_are_answered)
{
	node_want(&node, "name", 0, 1000);
	node.request.bytes = 0;
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_UNFIT));
	node.request.bytes = TS_VALUE_MAX + 1;
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_UNFIT));
	node.request.bytes = 10;
	node_post(&node, TS_MAIL_KIND_COUNT);
	cr_expect(eq(int, node_wait(&node), -1));
	/* What transfers do not know. */
	node_post(&node, TS_MAIL_BRING);
	cr_expect(eq(int, node_wait(&node), TS_MAIL_SAYS_UNFIT));
	node_post(&node, TS_MAIL_NAME);
	cr_expect(eq(int, node_wait(&node), -1));
	node_rest(&node);
	cr_expect(eq(uint, node.opened, 0));
}

Test(transfer, what_is_complete_is_stored)
{
	node_expect(&node, "name", 1000, TS_MAIL_SAYS_WON);
	node_fill(&node, "name");
	cr_assert(eq(int, rename(node.part, node.copy), 0));
	node_post(&node, TS_MAIL_STORE);
	node_rest(&node);
	cr_expect(eq(uint, node.stored, 1));
	node_expect(&node, "name", 1000, TS_MAIL_SAYS_GOT);
	cr_expect(node_has(&node, "name"));
}

Test(transfer, a_file_that_was_cut_is_returned)
{
	size_t *count;

	node_expect(&node, "name", 3 * CHUNK, TS_MAIL_SAYS_WON);
	cr_assert(eq(int, truncate(node.part, 10), 0));
	node_post(&node, TS_MAIL_STORE);
	node_rest(&node);
	cr_expect(eq(uint, node.stored, 0));
	cr_expect(eq(uint, node.deleted, 1));
	cr_expect(eq(ptr, node_value(&node, 0, &count), NULL));
}

/* Requests of jobs: how many are on their way, and servers that cannot. */

#define CHUNK ((uint64_t)TS_VALUE_CHUNK)

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

	node_expect(&node, "name", 4 * CHUNK, TS_MAIL_SAYS_WON);
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
	node_expect(&node, "name", 1000, TS_MAIL_SAYS_CLOSED);
	cr_expect(eq(u64, clock_passed(), 3 * TS_TRANSFER_ANSWER_NS));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_FAILED), 3));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_CLOSED), 1));
	/* It comes back. */
	node.is_silent = false;
	clock_pass(SECOND);
	node_expect(&node, "name", 1000, TS_MAIL_SAYS_WON);
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
