/* SPDX-License-Identifier: MIT */
/* Samples that make room for newer ones at servers that are full. */
#include "samples.h"
#include "leader/peer/kept.h"
#include "shim/atomic.h"
#include "tests/unit/clock.h"
#include "shim/sys.h"

static struct node node;

static void begin(void)
{
	samples_begin(&node, 1);
}

TestSuite(kept, .init = begin, .fini = samples_end);

#define FEW (TS_KEPT_REMOVED + 2)

/* Win it, make it, hand it over, whether or not there is room for it. */
static void make_one(uint32_t number, uint64_t bytes)
{
	cr_assert(eq(int, sample_seek(number), TS_MAIL_SAYS_WON));
	sample_publish(number, TS_KIND_SAMPLE, bytes);
	sample_hand_over(number);
}

static void expect_there(uint32_t first, uint32_t last)
{
	for (uint32_t i = first; i < last; i++)
		cr_expect(eq(int, sample_seek(i), TS_MAIL_SAYS_GOT), "%u", i);
}

/* There was no room for one, and nothing was removed for it. */
static void expect_no_room(void)
{
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_FULL), 1));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_REMOVED), 0));
}

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
	make_one(FEW, 1000);
	cr_expect(eq(uint, node.deleted, 1), "its place");
	expect_no_room();
	expect_there(0, FEW);
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
	make_one(FEW, 2 * SAMPLE_CHUNK);
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
	make_one(FEW, 1000);
	expect_no_room();
	expect_there(0, FEW);
}

Test(kept, what_has_ended_by_its_time_is_not_removed)
{
	give_few(0, 1000, TS_KEPT_SAMPLE * SECOND);
	make_one(FEW, 1000);
	expect_no_room();
	expect_there(0, FEW);
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
	expect_there(whole, FEW);
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
	expect_there(1, FEW);
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
	make_one(FEW, 1000);
	expect_no_room();
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

/* Samples between nodes: records of a ring and places, with a server that lies about them. */

#define CHUNKS 4 /* that the server can be given by a test */

/* What the server answers with in the place of what it has. */
static struct {
	unsigned char bytes[sizeof(struct ts_value_head) + TS_VALUE_CHUNK];
	size_t count;
} planted[CHUNKS];

static void begin_planted(void)
{
	samples_begin(&node, 1);
	memset(planted, 0, sizeof(planted));
}

TestSuite(transfer_sample, .init = begin_planted, .fini = samples_end);

/* ---- what works ------------------------------------------------------------------------- */

Test(transfer_sample, what_is_handed_over_comes)
{
	static const uint64_t sizes[] = {1, 1000, SAMPLE_CHUNK - SAMPLE_HEAD,
		SAMPLE_CHUNK - SAMPLE_HEAD + 1, 3 * SAMPLE_CHUNK + 5,
		TS_MAIL_ROOM - SAMPLE_HEAD};
	size_t *count;

	for (uint32_t i = 0; i < TS_ARRAY_SIZE(sizes); i++) {
		sample_give(i, sizes[i]);
		cr_expect(eq(int, strcmp(strrchr(node.last_stored, ':'), ":0"), 0));
		cr_expect(ne(ptr, node_value(&node, 0, &count), NULL));
		cr_expect(eq(int, sample_seek(i), TS_MAIL_SAYS_GOT));
		sample_expect(i, sizes[i]);
	}
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_WON), TS_ARRAY_SIZE(sizes)));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_STORED), TS_ARRAY_SIZE(sizes)));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_GOT), TS_ARRAY_SIZE(sizes)));
	cr_expect(eq(u64, clock_passed(), 0), "nobody waited");
}

Test(transfer_sample, what_comes_to_places_that_are_not_mapped_is_written)
{
	sample_give(1, SAMPLE_CHUNK + 1);
	node.mail.places = NULL;
	cr_expect(eq(int, sample_seek(1), TS_MAIL_SAYS_GOT));
	sample_expect(1, SAMPLE_CHUNK + 1);
}

/* All of a value but its last bytes, which come one every ten milliseconds. */
static bool drips(struct node *one, const struct command *command)
{
	static const unsigned char value[1000];

	node_printf(one, "VA %zu c7 O%u\r\n", sizeof(value), command->opaque);
	node_say(one, value, sizeof(value) - 30);
	one->drips = 30;
	return true;
}

/* The answer is LATE, and the place another one's, when the rest of it comes. */
Test(transfer_sample, what_comes_behind_the_answer_comes_to_no_place)
{
	unsigned char other[1000];

	memset(other, 0xaa, sizeof(other));
	node.lies = drips;
	sample_want(1);
	node.request.until_ns = ts_now_ns() + SECOND / 10;
	node_post(&node, TS_MAIL_SAMPLE);
	cr_expect(eq(int, node_wait(&node), TS_MAIL_SAYS_LATE));
	cr_expect(gt(sz, node.drips, 10));
	memcpy(node.mail.places, other, sizeof(other));
	node_rest(&node);
	cr_expect(eq(sz, node.drips, 0));
	cr_expect(eq(int, memcmp(node.mail.places, other, sizeof(other)), 0));
}

Test(transfer_sample, what_is_given_back_is_won_again)
{
	cr_assert(eq(int, sample_seek(1), TS_MAIL_SAYS_WON));
	sample_want(1);
	node_post(&node, TS_MAIL_SAMPLE_RETURN);
	cr_expect(eq(int, node_wait(&node), -1));
	node_rest(&node);
	cr_expect(eq(uint, node.deleted, 1));
	cr_expect(eq(int, sample_seek(1), TS_MAIL_SAYS_WON));
}

Test(transfer_sample, a_lease_ends_with_what_it_was_for)
{
	sample_publish(1, TS_KIND_SAMPLE, 1000);
	for (unsigned i = 0; i < 2 * TS_LEASES; i++)
		sample_hand_over(1);
	cr_expect(eq(uint, node.stored, 2 * TS_LEASES));
	node.room = 1; /* for nothing of it */
	for (unsigned i = 0; i < 2 * TS_LEASES; i++)
		sample_hand_over(1);
	cr_expect(eq(uint, node.deleted, 0), "nobody has won it");
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_FULL), 2 * TS_LEASES));
	node.room = 0;
	sample_hand_over(1);
	cr_expect(eq(uint, node.stored, 2 * TS_LEASES + 1));
}

/* ---- what cannot be handed over --------------------------------------------------------- */

/* Gone, no sample, and too large. */
Test(transfer_sample, what_is_no_record_to_hand_over_is_given_back)
{
	static const struct {
		uint64_t bytes;
		enum ts_kind kind;
	} records[] = {{0, TS_KIND_SAMPLE}, {1000, TS_KIND_PIXELS},
		{TS_MAIL_ROOM - SAMPLE_HEAD + 1, TS_KIND_SAMPLE}};
	size_t *count;

	for (uint32_t i = 0; i < TS_ARRAY_SIZE(records); i++) {
		if (records[i].bytes > 0)
			sample_publish(i, records[i].kind, records[i].bytes);
		node.stored = node.deleted = 0;
		cr_assert(eq(int, sample_seek(i), TS_MAIL_SAYS_WON));
		sample_hand_over(i);
		cr_expect(eq(uint, node.stored, 0), "%u", i);
		cr_expect(eq(uint, node.deleted, 1), "%u", i);
		cr_expect(eq(ptr, node_value(&node, 0, &count), NULL), "%u", i);
	}
}

Test(transfer_sample, who_transfers_no_samples_says_so)
{
	ts_transfers_use_samples(node.transfers, NULL, -1);
	cr_expect(eq(int, sample_seek(1), TS_MAIL_SAYS_UNFIT));
	sample_hand_over(1);
	cr_expect(eq(uint, node.asked + node.stored, 0));
}

Test(transfer_sample, nothing_is_written_to_a_place_that_was_left)
{
	sample_give(1, 3 * SAMPLE_CHUNK);
	node.mail.places =
		NULL; /* what is mapped is the helper's until it says that it is not */
	sample_want(1);
	node_post(&node, TS_MAIL_SAMPLE);
	ts_write_relaxed(&node.mail.table->slots[0].state, TS_MAIL_LEFT);
	cr_expect(eq(int, node_wait(&node), -1));
	node_rest(&node);
	cr_expect(samples_are_untouched());
}

/* ---- values that are none --------------------------------------------------------------- */

static bool gives_what_is_planted(struct node *one, const struct command *command)
{
	unsigned chunk = (unsigned)strtoul(strrchr(command->key, ':') + 1, NULL, 10);

	if (strcmp(command->word, "mg") != 0)
		return false;
	cr_assert(lt(uint, chunk, CHUNKS));
	one->asked++;
	if (planted[chunk].count == 0) {
		node_printf(one, "EN O%u\r\n", command->opaque);
		return true;
	}
	node_printf(one, "VA %zu c7 O%u\r\n", planted[chunk].count, command->opaque);
	node_say(one, planted[chunk].bytes, planted[chunk].count);
	node_say(one, "\r\n", 2);
	return true;
}

/*
 * Chunk @chunk of a value of @total bytes for sample @number, by somebody who has the secret;
 * what it begins with says @version.
 */
static void plant(uint32_t number, uint32_t chunk, uint64_t total, uint32_t version)
{
	const struct ts_mail_sample head = {
		.version = version, .made_ns = SAMPLE_MADE_NS, .produce_ns = SAMPLE_PRODUCE_NS};
	unsigned char *bytes = planted[chunk].bytes + sizeof(struct ts_value_head);
	uint32_t size = ts_value_bytes(total, chunk);
	struct ts_sealer *sealer;
	char text[48];

	sample_name(number, text);
	const struct ts_value_place place = {
		.key = text, .key_bytes = strlen(text), .total = total, .chunk = chunk};
	for (uint32_t i = 0; i < size; i++)
		bytes[i] = sample_byte(number, chunk * SAMPLE_CHUNK + i - SAMPLE_HEAD);
	if (chunk == 0)
		memcpy(bytes, &head, ts_min_u64(size, SAMPLE_HEAD));
	cr_assert(eq(int, ts_sealer_create(&node.secrets, &sealer), 0));
	cr_assert(eq(int,
		ts_value_seal(sealer, &place, bytes,
			(struct ts_value_head *)(void *)planted[chunk].bytes),
		0));
	ts_sealer_destroy(sealer);
	planted[chunk].count = sizeof(struct ts_value_head) + size;
	node.lies = gives_what_is_planted;
}

/* Nothing is said to have come, it is deleted, and not asked for again for a while. */
static void expect_refusal(uint32_t number, const char *what)
{
	cr_expect(eq(int, sample_seek(number), TS_MAIL_SAYS_REFUSED), "%s", what);
	node_rest(&node);
	cr_expect(eq(uint, node.deleted, 1), "%s", what);
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_REFUSED), 1), "%s", what);
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_GOT), 0), "%s", what);
	unsigned asked = node.asked;
	cr_expect(eq(int, sample_seek(number), TS_MAIL_SAYS_REFUSED), "%s", what);
	cr_expect(eq(uint, node.asked, asked), "%s: asked for again", what);
}

Test(transfer_sample, what_is_planted_is_what_we_would_hand_over)
{
	for (uint32_t chunk = 0; chunk < 3; chunk++)
		plant(1, chunk, SAMPLE_HEAD + 2 * SAMPLE_CHUNK + 9, TS_MAIL_SAMPLE_VERSION);
	cr_expect(eq(int, sample_seek(1), TS_MAIL_SAYS_GOT));
	sample_expect(1, 2 * SAMPLE_CHUNK + 9);
}

/* Chunk 0 is what it should be where the second one is not; that is not said to be all. */
static const struct {
	const char *what;
	uint64_t total, second; /* of chunk 0; of chunk 1, 0: none is there */
	size_t cut[2];          /* bytes that are missing of each */
	uint32_t newer;         /* versions */
	uint32_t less; /* that the head of the value says of its size, which is sealed */
} refused[] = {
	{"another version", SAMPLE_HEAD + 1000, 0, {0}, 1, 0},
	{"larger than a place", TS_MAIL_ROOM + 1, 0, {0}, 0, 0},
	{"smaller than its head", SAMPLE_HEAD - 1, 0, {0}, 0, 0},
	{"cut", SAMPLE_HEAD + 1000, 0, {1}, 0, 0},
	{"its second chunk cut", 2 * SAMPLE_CHUNK, 2 * SAMPLE_CHUNK, {0, 100}, 0, 0},
	{"chunks of two sizes", 2 * SAMPLE_CHUNK, 2 * SAMPLE_CHUNK - 1, {0}, 0, 0},
	{"another size in its head", SAMPLE_HEAD + 1000, 0, {0}, 0, 1},
};

Test(transfer_sample, what_is_no_sample_is_refused)
{
	struct ts_value_head *head = (struct ts_value_head *)(void *)planted[0].bytes;

	for (size_t i = 0; i < TS_ARRAY_SIZE(refused); i++) {
		plant(1, 0, refused[i].total, TS_MAIL_SAMPLE_VERSION + refused[i].newer);
		if (refused[i].second > 0)
			plant(1, 1, refused[i].second, TS_MAIL_SAMPLE_VERSION);
		for (size_t chunk = 0; chunk < 2; chunk++)
			planted[chunk].count -= refused[i].cut[chunk];
		head->total -= refused[i].less;
		expect_refusal(1, refused[i].what);
		samples_end();
		begin_planted();
	}
}

Test(transfer_sample, the_record_of_another_key_is_refused)
{
	plant(2, 0, SAMPLE_HEAD + 1000, TS_MAIL_SAMPLE_VERSION);
	expect_refusal(1, "another key");
	cr_expect(eq(int, sample_seek(2), TS_MAIL_SAYS_GOT), "it is right under its own");
}

Test(transfer_sample, a_chunk_that_has_gone_is_a_miss)
{
	plant(1, 0, 2 * SAMPLE_CHUNK, TS_MAIL_SAMPLE_VERSION);
	cr_expect(eq(int, sample_seek(1), TS_MAIL_SAYS_NONE));
	node_rest(&node);
	cr_expect(eq(uint, node.deleted, 1), "who asks next wins");
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_GOT), 0));
}
