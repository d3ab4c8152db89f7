/* SPDX-License-Identifier: MIT */
/* Requests over one link to a server that keeps to the rules. */
#include "fixture.h"

#include "shim/sys.h"
#include "tests/unit/clock.h"

#define LARGE (1 << 20)

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

TestSuite(meta, .init = begin, .fini = end);

Test(meta, a_value_arrives_where_its_owner_wants_it)
{
	struct ts_meta_request get = scene_get("a", into, 3);
	get.parts[1] = (struct iovec){into + 10, 20};

	PLAY(&scene, {"VA 5 O100\r\nabcde\r\n"});
	cr_assert(eq(int, scene_do(&scene, &get), 0));
	cr_expect(eq(u32, get.bytes, 5));
	cr_expect(eq(int, memcmp(into, "abc.......de........", 20), 0));
	cr_expect(eq(int, strcmp(scene.heard_text, "mg a v c O100\r\n"), 0));
}

Test(meta, a_value_in_drops_arrives_as_well)
{
	struct ts_meta_request get = scene_get("a", into, 3);
	get.parts[1] = (struct iovec){into + 10, 20};

	PLAY(&scene, {"VA 5 O100 W\r\nab\ncd\r\n", .after_ns = MS, .drips = true});
	cr_assert(eq(int, scene_do(&scene, &get), 0));
	cr_expect(eq(int, memcmp(into, "ab\n.......cd........", 20), 0));
	cr_expect(eq(u32, get.flags, TS_ANSWER_WON));
	cr_expect(eq(u64, clock_passed(), strlen(scene.steps[0].text) * MS));
}

Test(meta, an_empty_value_and_none_are_told_apart)
{
	struct ts_meta_request get = scene_get("a", into, 3), miss = scene_get("b", into, 3);

	PLAY(&scene, {"VA 0 O100\r\n\r\n"}, {"EN O101\r\n"});
	cr_expect(eq(int, scene_do(&scene, &get), 0));
	cr_expect(eq(u32, get.bytes, 0));
	cr_expect(eq(int, scene_do(&scene, &miss), -ENOENT));
}

Test(meta, one_wins_and_another_one_is_told)
{
	struct ts_meta_request won = scene_get("a", into, 3), made = scene_get("a", into, 3),
			       stale = scene_get("a", into, 3);

	won.vivify = made.vivify = true;
	won.ttl = made.ttl = 30;
	PLAY(&scene, {"VA 0 O100 W\r\n\r\n"}, {"VA 0 O101 Z\r\n\r\n"},
		{"VA 3 O102 X W\r\nold\r\n"});
	cr_expect(eq(int, scene_do(&scene, &won), 0));
	cr_expect(eq(u32, won.flags, TS_ANSWER_WON));
	cr_expect(eq(int, scene_do(&scene, &made), 0));
	cr_expect(eq(u32, made.flags, TS_ANSWER_MADE));
	cr_expect(eq(int, scene_do(&scene, &stale), 0));
	cr_expect(eq(u32, stale.flags, TS_ANSWER_STALE | TS_ANSWER_WON));
	cr_expect(eq(int,
		strcmp(scene.heard_text, "mg a v c O100 N30\r\nmg a v c O101 N30\r\n"
					 "mg a v c O102\r\n"),
		0));
}

Test(meta, what_is_there_is_deleted_only_if_it_is_the_same)
{
	struct ts_meta_request get = scene_get("a", into, 3), delete = scene_get("a", NULL, 0),
			       stays;

	delete.kind = TS_META_DELETE;
	PLAY(&scene, {"VA 3 c18446744073709551615 O100\r\nabc\r\n"}, {"EX O101\r\n"},
		{"HD O102\r\n"}, {"HD c7 O103\r\n"});
	cr_expect(eq(int, scene_do(&scene, &get), 0));
	cr_expect(eq(u64, get.cas, UINT64_MAX));
	delete.cas = get.cas;
	stays = delete;
	cr_expect(eq(int, scene_do(&scene, &stays), -EEXIST));
	delete.cas = 7;
	cr_expect(eq(int, scene_do(&scene, &delete), 0));
	cr_expect(eq(int,
		strcmp(scene.heard_text, "mg a v c O100\r\nmd a O101 C18446744073709551615\r\n"
					 "md a O102 C7\r\n"),
		0));
	/* It was not asked for here. */
	cr_expect(eq(int, scene_do(&scene, &delete), -EPROTO));
}

Test(meta, a_look_says_whether_it_was_fetched)
{
	struct ts_meta_request look = scene_get("a", NULL, 0);

	look.kind = TS_META_LOOK;
	PLAY(&scene, {"HD h0 c5 O100\r\n"}, {"HD h1 c6 O101 Z\r\n"}, {"EN O102\r\n"},
		{"HD c7 O103\r\n"});
	cr_expect(eq(int, scene_do(&scene, &look), 0));
	cr_expect(eq(u64, look.cas, 5));
	cr_expect(eq(u32, look.flags, 0));
	cr_expect(eq(int, scene_do(&scene, &look), 0));
	cr_expect(eq(u64, look.cas, 6));
	cr_expect(eq(u32, look.flags, TS_ANSWER_FETCHED | TS_ANSWER_MADE));
	cr_expect(eq(int, scene_do(&scene, &look), -ENOENT));
	cr_expect(eq(int,
		strcmp(scene.heard_text, "mg a h c O100\r\nmg a h c O101\r\nmg a h c O102\r\n"),
		0));
	cr_expect(eq(int, scene_do(&scene, &look), -EPROTO));
}

/* It was not asked whether that was fetched. */
Test(meta, what_no_look_asks_for_is_no_answer)
{
	struct ts_meta_request get = scene_get("a", into, 3);

	PLAY(&scene, {"VA 3 h1 c7 O100\r\nabc\r\n"});
	cr_expect(eq(int, scene_do(&scene, &get), -EPROTO));
}

Test(meta, what_is_stored_has_a_number_if_it_was_asked_for)
{
	struct ts_meta_request set = scene_set("b", "xyz", 3);

	set.numbers = true;
	PLAY(&scene, {"HD O100 c18446744073709551615\r\n"}, {"HD O101\r\n"},
		{"HD O102 c7\r\n"});
	cr_expect(eq(int, scene_do(&scene, &set), 0));
	cr_expect(eq(u64, set.cas, UINT64_MAX));
	/* A server that does not say. */
	cr_expect(eq(int, scene_do(&scene, &set), 0));
	cr_expect(eq(u64, set.cas, 0));
	cr_expect(eq(int,
		strcmp(scene.heard_text,
			"ms b 3 O100 T0 c\r\nxyz\r\nms b 3 O101 T0 c\r\nxyz\r\n"),
		0));
	set.numbers = false;
	cr_expect(eq(int, scene_do(&scene, &set), -EPROTO));
}

Test(meta, many_requests_leave_in_one_write_and_end_in_their_order)
{
	struct ts_meta_request get = scene_get("a", into, 3), set = scene_set("b", "xyz", 3),
			       delete = scene_get("c", NULL, 0), nothing = delete;

	delete.kind = TS_META_DELETE;
	nothing.kind = TS_META_NOTHING;
	PLAY(&scene, {"VA 1 O100\r\nq\r\nHD O101\r\nNF O102\r\nMN\r\n"});
	cr_assert(eq(int, ts_meta_submit(&scene.meta, &get), 0));
	cr_assert(eq(int, ts_meta_submit(&scene.meta, &set), 0));
	cr_assert(eq(int, ts_meta_submit(&scene.meta, &delete), 0));
	cr_assert(eq(int, ts_meta_submit(&scene.meta, &nothing), 0));
	cr_expect(eq(int, ts_meta_wait(&scene.meta, &nothing), 0));
	cr_expect(eq(int, get.result, 0));
	cr_expect(eq(int, set.result, 0));
	cr_expect(eq(int, delete.result, -ENOENT));
	cr_expect(eq(int,
		strcmp(scene.heard_text, "mg a v c O100\r\nms b 3 O101 T0\r\nxyz\r\n"
					 "md c O102\r\nmn\r\n"),
		0));
}

Test(meta, more_requests_than_fit_are_sent_when_there_is_room)
{
	static struct ts_meta_request gets[3 * TS_META_DEPTH];
	static char answers[TS_ARRAY_SIZE(gets) * 32];
	char key[TS_META_KEY + 1];
	size_t at = 0;

	memset(key, 'k', TS_META_KEY);
	key[TS_META_KEY] = '\0';
	for (size_t i = 0; i < TS_ARRAY_SIZE(gets); i++) {
		gets[i] = scene_get(key, into, 3);
		cr_assert(eq(int, ts_meta_submit(&scene.meta, &gets[i]), 0));
		at += (size_t)sprintf(answers + at, "EN O%zu\r\n", OPAQUE + i);
	}
	cr_assert(eq(int, ts_meta_step(&scene.meta), 0));
	cr_expect(eq(u32, scene.meta.slot_count, TS_META_DEPTH));
	PLAY(&scene, {answers, .after_ns = MS, .drips = true});
	for (size_t i = 0; i < TS_ARRAY_SIZE(gets); i++)
		gets[i].until_ns += 3600 * SECOND;
	cr_expect(eq(int, ts_meta_wait(&scene.meta, &gets[TS_ARRAY_SIZE(gets) - 1]), -ENOENT));
	for (size_t i = 0; i < TS_ARRAY_SIZE(gets); i++)
		cr_expect(eq(int, gets[i].result, -ENOENT), "%zu", i);
}

Test(meta, a_large_value_leaves_as_the_server_takes_it)
{
	char *value = malloc(LARGE);

	cr_assert(ne(ptr, value, NULL));
	memset(value, 'v', LARGE);
	struct ts_meta_request set = scene_set("a", value, LARGE);
	PLAY(&scene, {"HD O100\r\n"});
	cr_expect(eq(int, scene_do(&scene, &set), 0));
	cr_expect(eq(sz, scene.heard, LARGE + strlen("ms a 1048576 O100 T0\r\n\r\n")));
	free(value);
}

Test(meta, an_answer_before_the_value_has_left_waits_for_it)
{
	char *value = calloc(1, LARGE);
	struct ts_meta_request set = scene_set("a", value, LARGE),
			       next = scene_get("b", into, 3);

	/* The server says so before it reads; then it reads, and throws away. */
	scene.is_deaf = true;
	PLAY(&scene, {"SERVER_ERROR object too large for cache\r\n"});
	cr_assert(eq(int, ts_meta_submit(&scene.meta, &set), 0));
	cr_assert(eq(int, ts_meta_step(&scene.meta), 0));
	cr_assert(eq(int, scene.link.ops->wait(&scene.link, false, set.until_ns), 0));
	cr_assert(eq(int, ts_meta_step(&scene.meta), 0));
	cr_assert(gt(u32, scene.meta.in_end, 0), "it has been said");
	cr_expect(eq(int, set.result, -EINPROGRESS), "its memory is still read");
	scene.is_deaf = false;
	cr_expect(eq(int, ts_meta_wait(&scene.meta, &set), -E2BIG));
	PLAY(&scene, {"EN O101\r\n"});
	cr_expect(eq(int, scene_do(&scene, &next), -ENOENT));
	cr_expect(eq(sz, scene.heard,
		LARGE + strlen("ms a 1048576 O100 T0\r\n\r\nmg b v c O101\r\n")));
	free(value);
}

static const struct {
	const char *answer;
	int result;
} refusals[] = {
	{"NS O100\r\n", -EEXIST},
	{"EX O100\r\n", -EEXIST},
	{"NF O100\r\n", -ENOENT},
	{"SERVER_ERROR object too large for cache\r\n", -E2BIG},
	{"SERVER_ERROR out of memory storing object\r\n", -ENOSPC},
	{"SERVER_ERROR out of order\r\n", -EREMOTEIO},
	{"SERVER_ERROR \r\n", -EREMOTEIO},
};

Test(meta, what_a_server_does_not_take_ends_that_request_only)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(refusals); i++) {
		struct ts_meta_request set = scene_set("a", "xyz", 3),
				       next = scene_get("b", into, 3);
		PLAY(&scene, {refusals[i].answer}, {"EN O101\r\n"});
		cr_expect(eq(int, scene_do(&scene, &set), refusals[i].result), "%s",
			refusals[i].answer);
		cr_expect(eq(int, scene_do(&scene, &next), -ENOENT));
		end();
		begin();
	}
}

Test(meta, a_value_too_long_for_its_place_ends_that_request_only)
{
	struct ts_meta_request get = scene_get("a", into, 3), next = scene_get("b", into, 3);

	PLAY(&scene, {"VA 5 O100\r\nabcde\r\n"}, {"VA 3 O101\r\nxyz\r\n"});
	cr_expect(eq(int, scene_do(&scene, &get), -EMSGSIZE));
	cr_expect(eq(int, memcmp(into, "......", 6), 0), "not a byte of it");
	cr_expect(eq(int, scene_do(&scene, &next), 0));
	cr_expect(eq(int, memcmp(into, "xyz...", 6), 0));
}

Test(meta, a_late_answer_is_thrown_away_and_the_next_one_is_not)
{
	struct ts_meta_request late = scene_get("a", into, 5),
			       next = scene_get("b", into + 10, 5);

	next.until_ns += SECOND / 2;
	PLAY(&scene, {"VA 5 O100\r\nab", .after_ns = 10 * MS},
		{"cde\r\nVA 2 O101\r\nxy\r\n", .after_ns = SECOND});
	cr_assert(eq(int, ts_meta_submit(&scene.meta, &late), 0));
	cr_assert(eq(int, ts_meta_submit(&scene.meta, &next), 0));
	cr_expect(eq(int, ts_meta_wait(&scene.meta, &late), -ETIMEDOUT));
	cr_expect(eq(u64, clock_passed(), SECOND));
	memset(into, '.', sizeof(into));
	cr_expect(eq(int, ts_meta_wait(&scene.meta, &next), 0));
	cr_expect(eq(int, memcmp(into, "..........xy....", 16), 0),
		"nothing for the first one, whose memory is somebody else's by now");
}

Test(meta, what_was_not_sent_at_its_deadline_is_never_sent)
{
	static struct ts_meta_request gets[TS_META_DEPTH];
	struct ts_meta_request last = scene_get("last", into, 3);

	for (size_t i = 0; i < TS_ARRAY_SIZE(gets); i++) {
		gets[i] = scene_get("a", into, 3);
		gets[i].until_ns += 10 * SECOND;
		cr_assert(eq(int, ts_meta_submit(&scene.meta, &gets[i]), 0));
	}
	cr_expect(eq(int, scene_do(&scene, &last), -ETIMEDOUT));
	cr_expect(eq(u64, clock_passed(), SECOND));
	cr_expect(eq(int, scene.meta.state, TS_META_OPEN));
	cr_expect(eq(ptr, strstr(scene.heard_text, "last"), NULL));
}

Test(meta, what_cannot_be_is_not_taken)
{
	char key[TS_META_KEY + 2];
	struct ts_meta_request get = scene_get("", into, 3);

	cr_expect(eq(int, ts_meta_submit(&scene.meta, &get), -EINVAL));
	get.key = "a b";
	cr_expect(eq(int, ts_meta_submit(&scene.meta, &get), -EINVAL));
	get.key = "a\r\nmd";
	cr_expect(eq(int, ts_meta_submit(&scene.meta, &get), -EINVAL));
	memset(key, 'k', sizeof(key));
	key[TS_META_KEY + 1] = '\0';
	get.key = key;
	cr_expect(eq(int, ts_meta_submit(&scene.meta, &get), -EINVAL));
	get.key = "a";
	get.ttl = TS_META_TTL + 1;
	cr_expect(eq(int, ts_meta_submit(&scene.meta, &get), -EINVAL));
	struct ts_meta_request set = scene_set("a", into, (size_t)TS_META_VALUE + 1);
	cr_expect(eq(int, ts_meta_submit(&scene.meta, &set), -EINVAL));
	set.parts[0].iov_len = SIZE_MAX;
	set.parts[1].iov_len = 2;
	cr_expect(eq(int, ts_meta_submit(&scene.meta, &set), -EINVAL));
	cr_expect(eq(ptr, scene.meta.first, NULL));
}

static void ask_next(struct ts_meta_request *request)
{
	struct ts_meta_request *next = request->context;

	if (next)
		cr_assert(eq(int, ts_meta_submit(&scene.meta, next), 0));
}

Test(meta, a_request_may_follow_from_the_end_of_another_one)
{
	struct ts_meta_request next = scene_get("b", into, 3), get = scene_get("a", into, 3);

	get.done = ask_next;
	get.context = &next;
	PLAY(&scene, {"EN O100\r\n"}, {"EN O101\r\n"});
	cr_expect(eq(int, scene_do(&scene, &get), -ENOENT));
	cr_expect(eq(int, ts_meta_wait(&scene.meta, &next), -ENOENT));
	/* And from that of all of them: who asks what is broken is told at once. */
	get.until_ns = next.until_ns += 10 * SECOND;
	cr_assert(eq(int, ts_meta_submit(&scene.meta, &get), 0));
	ts_meta_finish(&scene.meta, -ECANCELED);
	cr_expect(eq(int, get.result, -ECANCELED));
	cr_expect(eq(int, next.result, -ECANCELED));
}

/* ---- what goes into one write, and so into one record of TLS ------------------------------
 */

#define VALUE_BYTES 5000
#define STEPS       200000

/* A link that takes little, or not at once, and has what it was offered. */
static struct {
	size_t takes;     /* bytes of a write */
	unsigned refuses; /* writes before each that it takes */
	unsigned refused; /* of them, up to now */
	size_t taken, refused_bytes;
	char text[8 * (VALUE_BYTES + 100)];
	bool is_end[8 * (VALUE_BYTES + 100)]; /* of a value: the byte behind its line end */
} writer;

static int64_t write_little(struct ts_link *link, const void *from, size_t bytes, bool more)
{
	cr_assert(le(sz, writer.taken + bytes, strlen(writer.text)), "more than there is");
	cr_assert(eq(int, memcmp(writer.text + writer.taken, from, bytes), 0));
	cr_assert(ge(sz, bytes, writer.refused_bytes), "what was refused is offered again");
	for (size_t i = 1; i < bytes; i++)
		cr_assert(not(writer.is_end[writer.taken + i]),
			"%zu bytes at %zu go beyond the end of a value", bytes, writer.taken);
	if (writer.refused < writer.refuses) {
		writer.refused++;
		writer.refused_bytes = bytes;
		return -EAGAIN;
	}
	writer.refused = 0;
	writer.refused_bytes = 0;
	bytes = bytes < writer.takes ? bytes : writer.takes;
	writer.taken += bytes;
	return (int64_t)bytes;
}

/* What @request has to send as the @number-th one. */
static void expect(const struct ts_meta_request *request, size_t number)
{
	size_t bytes = request->parts[0].iov_len, at = strlen(writer.text);

	if (request->kind == TS_META_GET)
		(void)sprintf(writer.text + at, "mg a v c O%zu\r\n", OPAQUE + number);
	if (request->kind == TS_META_DELETE)
		(void)sprintf(writer.text + at, "md a O%zu\r\n", OPAQUE + number);
	if (request->kind != TS_META_SET)
		return;
	at += (size_t)sprintf(writer.text + at, "ms a %zu O%zu T0\r\n", bytes, OPAQUE + number);
	memset(writer.text + at, 'v', bytes);
	(void)sprintf(writer.text + at + bytes, "\r\n");
	writer.is_end[at + bytes + 2] = true;
}

/* A value is followed by requests of each kind, and by another value. */
static void send_all(size_t takes, unsigned refuses)
{
	static char value[VALUE_BYTES];
	const size_t sizes[] = {3, VALUE_BYTES, 0, 1, 3};
	struct ts_meta_request requests[] = {scene_set("a", value, sizes[0]),
		scene_get("a", NULL, 0), scene_set("a", value, sizes[1]),
		scene_set("a", value, sizes[2]), scene_get("a", NULL, 0),
		scene_set("a", value, sizes[3]), scene_get("a", NULL, 0),
		scene_get("a", NULL, 0), scene_set("a", value, sizes[4])};
	const struct ts_link_ops *ops = scene.link.ops;
	struct ts_link_ops little = *ops;

	requests[4].kind = TS_META_DELETE;
	little.write = write_little;
	scene.link.ops = &little;
	memset(value, 'v', sizeof(value));
	memset(&writer, 0, sizeof(writer));
	writer.takes = takes;
	writer.refuses = refuses;
	for (size_t i = 0; i < TS_ARRAY_SIZE(requests); i++) {
		expect(&requests[i], i);
		cr_assert(eq(int, ts_meta_submit(&scene.meta, &requests[i]), 0));
	}
	for (size_t i = 0; i < STEPS && ts_meta_wants_to_write(&scene.meta); i++)
		cr_assert(eq(int, ts_meta_step(&scene.meta), 0));
	cr_expect(eq(sz, writer.taken, strlen(writer.text)), "all of it");
	cr_expect(eq(u32, scene.meta.slot_count, TS_ARRAY_SIZE(requests)));
	ts_meta_finish(&scene.meta, -ECANCELED);
	scene.link.ops = ops;
}

Test(meta, nothing_is_written_together_with_the_end_of_a_value)
{
	const size_t takes[] = {SIZE_MAX, 1, 2, 3, 7, 100};

	for (size_t i = 0; i < TS_ARRAY_SIZE(takes); i++)
		for (unsigned refuses = 0; refuses <= 2; refuses++) {
			send_all(takes[i], refuses);
			end();
			begin();
		}
}
