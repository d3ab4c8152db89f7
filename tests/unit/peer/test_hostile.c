/* SPDX-License-Identifier: MIT */
/* A server that keeps to no rule. */
#include "fixture.h"
#include "tests/unit/clock.h"
#include "node.h"
#include "shim/sys.h"

static struct scene scene;
static char into[64];

static void begin(void)
{
	scene_begin(&scene, NULL);
	memset(into, '.', sizeof(into));
}

static void end(void)
{
	scene_end(&scene);
}

TestSuite(hostile, .init = begin, .fini = end);

/* Answers to `mg a v O100` with room for 8 bytes. */
static const struct {
	const char *what, *answer;
	int error;
} lies[] = {
	{"garbage", "\x16\x03\x01\x02\r\n", -EPROTO},
	{"another protocol", "HTTP/1.1 400 Bad Request\r\n", -EPROTO},
	{"an empty line", "\r\n", -EPROTO},
	{"a bare line feed", "EN O100\n", -EPROTO},
	{"a blank too many", "EN O100 \r\n", -EPROTO},
	{"two blanks", "EN  O100\r\n", -EPROTO},
	{"a word that goes on", "ENO O100\r\n", -EPROTO},
	{"no length", "VA O100\r\nabc\r\n", -EPROTO},
	{"a negative length", "VA -1 O100\r\nabc\r\n", -EPROTO},
	{"a hexadecimal length", "VA 0x3 O100\r\nabc\r\n", -EPROTO},
	{"a length that wraps", "VA 4294967299 O100\r\nabc\r\n", -EFBIG},
	{"a length that wraps twice", "VA 18446744073709551619 O100\r\nabc\r\n", -EFBIG},
	{"a length beyond all", "VA 1048577 O100\r\n", -EFBIG},
	{"a length too short", "VA 2 O100\r\nabcd\r\n", -EPROTO},
	{"a length too long", "VA 4 O100\r\nab\r\nEN", -EPROTO},
	{"a value that goes on", "VA 3 O100\r\nabc\rX", -EPROTO},
	{"no number of the request", "VA 3\r\nabc\r\n", -EBADMSG},
	{"another one", "VA 3 O101\r\nabc\r\n", -EBADMSG},
	{"one that wraps", "VA 3 O4294967396\r\nabc\r\n", -EPROTO},
	{"two of them", "VA 3 O100 O100\r\nabc\r\n", -EPROTO},
	{"none for a miss", "EN\r\n", -EBADMSG},
	{"a flag twice", "VA 3 O100 W W\r\nabc\r\n", -EPROTO},
	{"a flag that was not asked for", "VA 3 O100 k\r\nabc\r\n", -EPROTO},
	{"a flag that goes on", "VA 3 O100 Wx\r\nabc\r\n", -EPROTO},
	{"a winner of nothing", "EN O100 W\r\n", -EPROTO},
	{"done", "HD O100\r\n", -EBADMSG},
	{"nothing", "MN\r\n", -EBADMSG},
	{"stored", "STORED\r\n", -EBADMSG},
	{"an error", "ERROR\r\n", -EPROTO},
	{"our error", "CLIENT_ERROR bad command line format\r\n", -EPROTO},
	{"no token", "CLIENT_ERROR unauthenticated\r\n", -EACCES},
	{"more than was asked for", "EN O100\r\nEN O101\r\n", -EBADMSG},
};

static int ask(const char *answer)
{
	struct ts_meta_request get = scene_get("a", into, 8);
	struct ts_meta_request other = scene_get("b", into + 8, 8);

	PLAY(&scene, {answer}, {.closes = true});
	cr_assert(eq(int, ts_meta_submit(&scene.meta, &get), 0));
	(void)ts_meta_wait(&scene.meta, &get);
	if (scene.meta.state != TS_META_BROKEN)
		(void)scene_do(&scene, &other);
	return scene.meta.error;
}

Test(hostile, each_lie_has_its_name)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(lies); i++) {
		cr_expect(eq(int, ask(lies[i].answer), lies[i].error), "%s", lies[i].what);
		cr_expect(ne(ptr, (void *)ts_meta_fault(lies[i].error), NULL));
		cr_expect(eq(int, memcmp(into + 8, "........", 8), 0), "%s", lies[i].what);
		end();
		begin();
	}
}

Test(hostile, what_has_no_end_ends)
{
	static const struct {
		struct step steps[2];
		int result, error; /* of the request, of the connection */
	} endless[] = {
		{{{"xxxxxxxxxxxxxxxx", .times = 1 << 20}}, -EFBIG, -EFBIG},
		{{{"VA 8 O100\r\n"}, {"yyyyyyyyyyyyyyyy", .times = 1 << 20}}, -EPROTO, -EPROTO},
		{{{"EN O100\r\n", .times = 1 << 20}}, -ENOENT,
			-EBADMSG}, /* for the second one */
	};

	for (size_t i = 0; i < TS_ARRAY_SIZE(endless); i++) {
		struct ts_meta_request get = scene_get("a", into, 8);
		scene_play(&scene, endless[i].steps, endless[i].steps[1].text ? 2 : 1);
		cr_expect(eq(int, scene_do(&scene, &get), endless[i].result), "%zu", i);
		cr_expect(eq(int, scene.meta.error, endless[i].error), "%zu", i);
		cr_expect(eq(u64, clock_passed(), 0), "%zu", i);
		cr_expect(
			eq(int, memcmp(into + 8, "........", 8), 0), "no byte beyond the room");
		end();
		begin();
	}
}

/* A server that is as fast as we are: values of a megabyte, for which there is no room. */
static int64_t read_flood(struct ts_link *link, void *to, size_t bytes)
{
	static uint64_t at;
	static char head[64];
	size_t length = (size_t)sprintf(head, "VA %u O%u\r\n", TS_META_VALUE,
		(unsigned)(OPAQUE + at / (TS_META_VALUE + strlen(head) + 2)));
	size_t unit = length + TS_META_VALUE + 2, n = 0;

	for (; n < bytes; n++, at++) {
		size_t i = at % unit;
		((char *)to)[n] = i < length     ? head[i]
				  : i < unit - 2 ? 'z'
						 : "\r\n"[i + 2 - unit];
		if (i == unit - 1) {
			n++, at++;
			break;
		}
	}
	return (int64_t)n;
}

Test(hostile, one_step_moves_so_many_bytes_and_no_more)
{
	static struct ts_meta_request gets[8];
	struct ts_link_ops ops = *scene.link.ops;

	for (size_t i = 0; i < TS_ARRAY_SIZE(gets); i++) {
		gets[i] = scene_get("a", into, 8);
		cr_assert(eq(int, ts_meta_submit(&scene.meta, &gets[i]), 0));
	}
	ops.read = read_flood;
	ops.read_both = NULL;
	scene.link.ops = &ops;
	cr_expect(eq(int, ts_meta_step(&scene.meta), 0));
	cr_expect(eq(u32, scene.meta.slot_count,
		TS_ARRAY_SIZE(gets) - TS_META_STEP / TS_META_VALUE + 1));
	cr_expect(eq(u64, ts_meta_deadline(&scene.meta), 0), "the caller comes back at once");
}

Test(hostile, half_a_line_and_half_a_value_time_out)
{
	static const char *const halves[] = {"VA 8 O1", "VA 8 O100\r\nabcd"};

	for (size_t i = 0; i < TS_ARRAY_SIZE(halves); i++) {
		struct ts_meta_request get = scene_get("a", into, 8);
		PLAY(&scene, {halves[i]});
		cr_expect(eq(int, scene_do(&scene, &get), -ETIMEDOUT), "%s", halves[i]);
		cr_expect(eq(u64, clock_passed(), SECOND), "%s", halves[i]);
		end();
		begin();
	}
}

/* Ten bytes a second keep nobody beyond his deadline, and the connection not beyond its grace.
 */
Test(hostile, drops_keep_nobody)
{
	struct ts_meta_request get = scene_get("a", into, 8), other = scene_get("b", into, 8);

	other.until_ns += 3600 * SECOND;
	PLAY(&scene, {"VA 100000 O100\r\n"},
		{"z", .after_ns = 100 * MS, .drips = true, .times = 100000});
	cr_assert(eq(int, ts_meta_submit(&scene.meta, &get), 0));
	cr_assert(eq(int, ts_meta_submit(&scene.meta, &other), 0));
	cr_expect(eq(int, ts_meta_wait(&scene.meta, &get), -EMSGSIZE));
	cr_expect(eq(int, ts_meta_wait(&scene.meta, &other), -ETIMEDOUT));
	cr_expect(eq(u64, clock_passed(), SECOND + TS_META_GRACE_NS));
	cr_expect(eq(int, scene.meta.state, TS_META_BROKEN));
}

Test(hostile, drops_of_a_value_end_at_its_deadline)
{
	struct ts_meta_request get = scene_get("a", into, sizeof(into));

	PLAY(&scene, {"VA 60 O100\r\n"},
		{"z", .after_ns = 100 * MS, .drips = true, .times = 100000});
	cr_expect(eq(int, scene_do(&scene, &get), -ETIMEDOUT));
	cr_expect(eq(u64, clock_passed(), SECOND));
	cr_expect(eq(int, memcmp(into + 9, "....", 4), 0));
}

Test(hostile, one_that_reads_nothing_keeps_nobody)
{
	static char value[TS_META_VALUE];
	struct ts_meta_request set = scene_set("a", value, sizeof(value)),
			       next = scene_get("b", into, 8);

	scene.is_deaf = true;
	next.until_ns += SECOND;
	cr_assert(eq(int, ts_meta_submit(&scene.meta, &set), 0));
	cr_assert(eq(int, ts_meta_submit(&scene.meta, &next), 0));
	cr_expect(eq(int, ts_meta_wait(&scene.meta, &set), -ETIMEDOUT));
	cr_expect(eq(u64, clock_passed(), SECOND));
	cr_expect(eq(int, next.result, -ETIMEDOUT), "half a value takes the connection along");
	cr_expect(eq(int, scene.meta.state, TS_META_BROKEN));
}

Test(hostile, an_early_answer_with_more_behind_it_is_none)
{
	static char value[TS_META_VALUE];
	struct ts_meta_request set = scene_set("a", value, sizeof(value));

	scene.is_deaf = true;
	PLAY(&scene, {"HD O100\r\nHD O101\r\n"});
	cr_expect(eq(int, scene_do(&scene, &set), -EBADMSG));
	cr_expect(eq(u64, clock_passed(), 0));
}

Test(hostile, one_that_closes_ends_all)
{
	struct ts_meta_request get = scene_get("a", into, 8), next = scene_get("b", into, 8);

	PLAY(&scene, {"VA 8 O100\r\nabcd", .closes = true});
	cr_assert(eq(int, ts_meta_submit(&scene.meta, &get), 0));
	cr_assert(eq(int, ts_meta_submit(&scene.meta, &next), 0));
	cr_expect(eq(int, ts_meta_wait(&scene.meta, &get), -ECONNRESET));
	cr_expect(eq(int, next.result, -ECONNRESET));
	struct ts_meta_request later = scene_get("c", into, 8);
	cr_expect(eq(int, scene_do(&scene, &later), -ECONNRESET), "at once");
}

/* ---- tokens ----------------------------------------------------------------------------- */

TestSuite(token);

static int ask_with_token(const struct step *steps, size_t count)
{
	struct ts_meta_request get;

	scene_begin(&scene, "secret");
	get = scene_get("a", into, 8);
	get.until_ns += 10 * SECOND;
	scene_play(&scene, steps, count);
	int r = scene_do(&scene, &get);
	return r;
}

Test(token, nothing_is_asked_before_it_was_accepted)
{
	static const struct step steps[] = {{"STORED\r\n"}, {"EN O100\r\n"}};

	cr_expect(eq(int, ask_with_token(steps, 1), -ETIMEDOUT));
	cr_expect(eq(int,
		strcmp(scene.heard_text, "set auth 0 0 10\r\njob secret\r\nmg a v c O100\r\n"),
		0));
	scene_end(&scene);
	cr_expect(eq(int, ask_with_token(steps, 2), -ENOENT));
	cr_expect(eq(ptr, memmem(scene.meta.out, sizeof(scene.meta.out), "secret", 6), NULL));
	scene_end(&scene);
}

Test(token, one_that_is_refused_ends_all)
{
	static const struct step steps[][1] = {
		{{"CLIENT_ERROR authentication failure\r\n"}},
		{{"EN O100\r\n"}},
		{{"ERROR\r\n"}},
		{{"HD O100\r\n"}},
	};

	for (size_t i = 0; i < TS_ARRAY_SIZE(steps); i++) {
		cr_expect(eq(int, ask_with_token(steps[i], 1), -EACCES), "%zu", i);
		cr_expect(eq(
			int, strcmp(scene.heard_text, "set auth 0 0 10\r\njob secret\r\n"), 0));
		scene_end(&scene);
	}
}

Test(token, an_answer_behind_it_that_nobody_asked_for_is_none)
{
	static const struct step steps[] = {{"STORED\r\nEN O100\r\n"}};

	cr_expect(eq(int, ask_with_token(steps, 1), -EBADMSG));
	scene_end(&scene);
}

Test(token, a_server_that_does_not_say_is_given_up_in_time)
{
	cr_expect(eq(int, ask_with_token(NULL, 0), -ETIMEDOUT));
	cr_expect(eq(u64, clock_passed(), SECOND));
	cr_expect(eq(int, scene.meta.state, TS_META_BROKEN));
	scene_end(&scene);
}

Test(token, one_that_would_be_another_line_is_refused)
{
	struct ts_meta meta;

	scene_begin(&scene, NULL);
	cr_expect(eq(int, ts_meta_init(&meta, &scene.link, "job", "a\r\nmn", 0, 1), -EINVAL));
	cr_expect(eq(int, ts_meta_init(&meta, &scene.link, "a b", "a", 0, 1), -EINVAL));
	cr_expect(eq(int, ts_meta_init(&meta, &scene.link, "job", "", 0, 1), -EINVAL));
	scene_end(&scene);
}

/* Requests of jobs, with servers that want another token, or lie. */

#define CHUNK ((uint64_t)TS_VALUE_CHUNK)

static struct node node;

static void node_one_begin(void)
{
	node_begin(&node, SECRET_A, 1);
}

static void node_one_end(void)
{
	node_end(&node);
}

TestSuite(transfer_hostile, .init = node_one_begin, .fini = node_one_end);

/* ---- tokens ----------------------------------------------------------------------------- */

Test(transfer_hostile, who_refuses_our_token_is_left_alone_for_a_while)
{
	node.token = "another";
	node_expect(&node, "name", 1000, TS_MAIL_SAYS_CLOSED);
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
	node_expect(&node, "name", 1000, TS_MAIL_SAYS_CLOSED);
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
	node_expect(&node, "name", 1000, TS_MAIL_SAYS_WON);
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
	node_expect(&node, "name", 1000, TS_MAIL_SAYS_CLOSED);
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

/* From now on the server has only this chunk. */
static void replay(uint32_t chunk)
{
	size_t *count;

	replayed = node_value(&node, chunk, &count);
	replayed_count = *count;
}

Test(transfer_hostile, another_keys_value_and_another_chunk_are_refused)
{
	node_give(&node, "other", 1000);
	replay(0);
	want_what_is_there("name", 1000);
	node.lies = replays;
	expect_refusal("of another key");
	cr_expect(node_is_untouched(&node));
	node.lies = NULL;
	want_what_is_there("long", 3 * CHUNK);
	replay(1);
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
	node_give(&node, "name", 1000);
	replay(0);
	node_want(&node, "name", 0, 1000);
	node.request.piece = 1;
	node.lies = replays;
	cr_expect(eq(int, node_fetch(&node), TS_MAIL_SAYS_REFUSED));
}

Test(transfer_hostile, a_value_of_another_size_is_refused)
{
	want_what_is_there("name", 1000);
	node_expect(&node, "name", 2000, TS_MAIL_SAYS_REFUSED);
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
	node_expect(&node, "name", 1000, TS_MAIL_SAYS_GOT);
	cr_expect(node_has(&node, "name"));
}

/* ---- servers that never node_one_end
 * ------------------------------------------------------------- */

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
	node_expect(&node, "name", 1000, TS_MAIL_SAYS_REFUSED);
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
	node_expect(&node, "name", 1000, TS_MAIL_SAYS_FAILED);
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
	node_expect(&node, "name", 1000, TS_MAIL_SAYS_FAILED);
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
	node_expect(&node, "name", 1000, TS_MAIL_SAYS_WON);
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
