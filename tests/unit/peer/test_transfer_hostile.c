/* SPDX-License-Identifier: MIT */
/* Requests of jobs, with servers that want another token, or lie. */
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

TestSuite(transfer_hostile, .init = begin, .fini = end);

/* ---- tokens ----------------------------------------------------------------------------- */

Test(transfer_hostile, who_refuses_our_token_is_left_alone_for_a_while)
{
	node.token = "another";
	node_want(&node, "name", 0, 1000);
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_CLOSED));
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_CLOSED));
	cr_expect(eq(uint, node.tokens, 1));
	clock_pass(TS_POOL_SHUT_NS);
	node.request.until_ns += TS_POOL_SHUT_NS;
	node.token = NULL;
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_WON));
	cr_expect(eq(uint, node.tokens, 2));
}

Test(transfer_hostile, a_new_secret_opens_a_server_at_once)
{
	struct ts_secrets other;

	cr_assert(eq(int, ts_secrets_parse(SECRET_B, strlen(SECRET_B), &other), 0));
	node.token = other.keys[0].token;
	node_want(&node, "name", 0, 1000);
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_CLOSED));
	ts_pool_set_secrets(node.pool, &other);
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_WON));
}

Test(transfer_hostile, the_older_of_two_tokens_is_tried_and_nobody_notices)
{
	struct ts_secrets both;

	cr_assert(eq(
		int, ts_secrets_parse(SECRET_B SECRET_A, strlen(SECRET_B SECRET_A), &both), 0));
	ts_pool_set_secrets(node.pool, &both);
	node.token = both.keys[1].token;
	node_want(&node, "name", 0, 1000);
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_WON));
	cr_expect(eq(uint, node.tokens, 2));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_CLOSED), 0));
}

static bool wants_a_token(struct node *one, const struct command *command)
{
	node_printf(one, "CLIENT_ERROR unauthenticated\r\n");
	return true;
}

Test(transfer_hostile, who_wants_a_token_all_the_same_is_left_alone)
{
	node.lies = wants_a_token;
	node_want(&node, "name", 0, 1000);
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_CLOSED));
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_CLOSED));
	cr_expect(eq(uint, node.opened, 1));
}

/* ---- values that are none --------------------------------------------------------------- */

/* Whatever was done to the value of "name": nothing of it is used, and it goes. */
static void expect_refusal(const char *what)
{
	size_t *count;
	uint64_t before = node_counter(&node, TS_MAIL_COUNT_REFUSED);

	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_REFUSED), "%s", what);
	node_rest(&node);
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_REFUSED), before + 1), "%s", what);
	cr_expect(eq(ptr, node_value(&node, 0, &count), NULL), "%s", what);
	unsigned asked = node.asked;
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_REFUSED), "%s", what);
	cr_expect(eq(uint, node.asked, asked), "%s: asked for again", what);
}

static void want_what_is_there(const char *name, uint64_t bytes)
{
	node_give(&node, name, bytes);
	node_want(&node, name, 0, bytes);
}

Test(transfer_hostile, a_changed_value_is_refused)
{
	static const size_t places[] = {0, 4, 8, 12, 16, 24, 32, 48, 64, 80, 81, 1079};
	char name[16];
	size_t *count;

	for (size_t i = 0; i < TS_ARRAY_SIZE(places); i++) {
		snprintf(name, sizeof(name), "name%zu", i);
		want_what_is_there(name, 1000);
		node_value(&node, 0, &count)[places[i]] ^= 1;
		expect_refusal(name);
		cr_expect(node_is_untouched(&node));
	}
}

Test(transfer_hostile, a_value_that_is_cut_or_goes_on_is_refused)
{
	static const size_t sizes[] = {1, 79, 80, 1079};
	char name[16];
	size_t *count;

	for (size_t i = 0; i < TS_ARRAY_SIZE(sizes); i++) {
		snprintf(name, sizeof(name), "name%zu", i);
		want_what_is_there(name, 1000);
		(void)node_value(&node, 0, &count);
		*count = sizes[i];
		expect_refusal(name);
		cr_expect(node_is_untouched(&node));
	}
	want_what_is_there("long", 1000);
	(void)node_value(&node, 0, &count);
	*count = 1081; /* there is a byte behind each */
	expect_refusal("long");
}

static const unsigned char *replayed;
static size_t replayed_count;

static bool replays(struct node *one, const struct command *command)
{
	if (strcmp(command->word, "mg") != 0)
		return false;
	node_printf(one, "VA %zu c%llu O%u\r\n", replayed_count, one->kept, command->opaque);
	node_say(one, replayed, replayed_count);
	node_say(one, "\r\n", 2);
	return true;
}

Test(transfer_hostile, another_keys_value_is_refused)
{
	size_t *count;

	node_give(&node, "other", 1000);
	replayed = node_value(&node, 0, &count);
	replayed_count = *count;
	want_what_is_there("name", 1000);
	node.lies = replays;
	expect_refusal("of another key");
	cr_expect(node_is_untouched(&node));
}

Test(transfer_hostile, another_chunk_is_refused)
{
	size_t *count;

	want_what_is_there("name", 3 * CHUNK);
	replayed = node_value(&node, 1, &count);
	replayed_count = *count;
	node.lies = replays;
	expect_refusal("another chunk");
	cr_expect(node_is_untouched(&node));
}

/* Chunk 0 is what it should be, and in the file; that is not said to be all. */
Test(transfer_hostile, a_wrong_chunk_behind_a_right_one_is_refused)
{
	size_t *count;

	want_what_is_there("name", 3 * CHUNK);
	node_value(&node, 2, &count)[500] ^= 1;
	expect_refusal("chunk 2");
	cr_expect(not(node_has(&node, "name")));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_GOT), 0));
}

Test(transfer_hostile, another_piece_of_the_same_file_is_refused)
{
	size_t *count;

	node_give(&node, "name", 1000);
	replayed = node_value(&node, 0, &count);
	replayed_count = *count;
	node_want(&node, "name", 0, 1000);
	node.request.piece = 1;
	node.lies = replays;
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_REFUSED));
}

Test(transfer_hostile, a_value_of_another_size_is_refused)
{
	want_what_is_there("name", 1000);
	node_want(&node, "name", 0, 2000);
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_REFUSED));
	cr_expect(node_is_untouched(&node));
}

Test(transfer_hostile, another_users_value_is_refused)
{
	struct ts_secrets other;

	cr_assert(eq(int, ts_secrets_parse(SECRET_B, strlen(SECRET_B), &other), 0));
	cr_assert(eq(int, ts_transfers_set_secrets(node.transfers, &other), 0));
	node_give(&node, "name", 1000);
	cr_assert(eq(int, ts_transfers_set_secrets(node.transfers, &node.secrets), 0));
	node_want(&node, "name", 0, 1000);
	expect_refusal("of another user");
	cr_expect(node_is_untouched(&node));
}

Test(transfer_hostile, what_was_refused_heals_when_we_store_it)
{
	size_t *count;

	want_what_is_there("name", 1000);
	node_value(&node, 0, &count)[100] ^= 1;
	expect_refusal("changed");
	clock_pass(TS_TRANSFER_REFUSED_NS);
	node_give(&node, "name", 1000);
	node_want(&node, "name", 0, 1000);
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_GOT));
	cr_expect(node_has(&node, "name"));
}

/* ---- servers that never end ------------------------------------------------------------- */

static bool goes_on(struct node *one, const struct command *command)
{
	static char bytes[1 << 16];

	node_printf(one, "VA %u O%u\r\n", TS_META_VALUE, command->opaque);
	for (int i = 0; i < 17; i++)
		node_say(one, bytes, sizeof(bytes));
	return true;
}

Test(transfer_hostile, a_value_without_end_ends)
{
	node.lies = goes_on;
	node_want(&node, "name", 0, 1000);
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_REFUSED));
	cr_expect(node_is_untouched(&node));
	node.lies = NULL;
	node_rest(&node);
}

static bool drips(struct node *one, const struct command *command)
{
	node_printf(one, "VA 1080 O%u\r\n", command->opaque);
	one->drips = 100000;
	return true;
}

Test(transfer_hostile, drops_keep_nobody_and_no_file)
{
	node.lies = drips;
	node_want(&node, "name", 0, 1000);
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_FAILED));
	cr_expect(eq(u64, clock_passed(), TS_TRANSFER_ANSWER_NS));
	cr_expect(node_is_untouched(&node));
}

static bool is_nonsense(struct node *one, const struct command *command)
{
	node_printf(one, "HTTP/1.1 400 Bad Request\r\n\r\n");
	return true;
}

Test(transfer_hostile, nonsense_fails_and_the_next_one_has_a_new_connection)
{
	node.lies = is_nonsense;
	node_want(&node, "name", 0, 1000);
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_FAILED));
	node.lies = NULL;
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_WON));
	cr_expect(eq(uint, node.opened, 2));
}

static bool says_won_to_all(struct node *one, const struct command *command)
{
	if (strcmp(command->word, "mg") != 0)
		return false;
	node_printf(one, "VA 0 O%u W Z X\r\n\r\n", command->opaque);
	return true;
}

/* It makes us read what another node reads as well: as slow as without it. */
Test(transfer_hostile, a_winner_of_everything_is_a_winner)
{
	node.lies = says_won_to_all;
	node_want(&node, "name", 0, 1000);
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_WON));
	cr_expect(node_is_untouched(&node));
}

static void note(void *context, enum ts_mail_answer answer)
{
	*(int *)context = (int)answer;
}

/* A slot that has WON stays its owner's, and who wants a path does not know that it may. */
Test(transfer_hostile, who_did_not_ask_for_the_right_to_make_it_is_no_winner)
{
	int answer = -1;

	node.lies = says_won_to_all;
	node_want(&node, "name", 0, 1000);
	ts_transfers_begin_for(node.transfers, 0, &node.request, note, &answer);
	node_rest(&node);
	cr_expect(eq(int, answer, TS_MAIL_SAYS_NONE));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_WON), 0));
	cr_expect(node_is_untouched(&node));
}
