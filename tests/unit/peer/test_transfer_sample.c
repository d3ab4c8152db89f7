/* SPDX-License-Identifier: MIT */
/* Samples between nodes: records of a ring and places, with a server that lies about them. */
#include "node.h"
#include "tests/unit/leader/fixture.h"

#include "leader/peer/transfer_private.h"
#include "shim/atomic.h"
#include "shim/sys.h"
#include "tests/unit/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define CHUNK      ((uint64_t)TS_VALUE_CHUNK)
#define HEAD       sizeof(struct ts_mail_sample)
#define MADE_NS    7000000
#define PRODUCE_NS 5000000
#define CHUNKS     4 /* that the server can be given by a test */
/* Its segments hold more than a place does. */
#define LARGE_RING (UINT64_C(256) << 20)

static struct node node;
static struct ts_store *store;
static int places;

/* What the server answers with in the place of what it has. */
static struct {
	unsigned char bytes[sizeof(struct ts_value_head) + TS_VALUE_CHUNK];
	size_t count;
} planted[CHUNKS];

static unsigned char *map_places(void)
{
	unsigned char *start = mmap(NULL, ts_mail_place_at(TS_MAIL_PLACES - 1),
		PROT_READ | PROT_WRITE, MAP_SHARED, places, 0);

	cr_assert(ne(ptr, start, MAP_FAILED));
	return start + ts_mail_place_at(0);
}

static void begin(void)
{
	fixture_init();
	store = fixture_attach_sized(JOB_A, LARGE_RING);
	fixture_capture(store, true);
	node_begin(&node, SECRET_A, 1);
	places = memfd_create("places", MFD_CLOEXEC);
	cr_assert(eq(int, ftruncate(places, (off_t)ts_mail_place_at(TS_MAIL_PLACES - 1)), 0));
	node.mail.places = map_places();
	ts_transfers_use_samples(node.transfers, store, places);
	memset(planted, 0, sizeof(planted));
}

static void end(void)
{
	node_end(&node);
	close(places);
	ts_store_detach(store);
	fixture_finish();
}

TestSuite(transfer_sample, .init = begin, .fini = end);

/* ---- what tests do ---------------------------------------------------------------------- */

static struct ts_key key_of(uint32_t number)
{
	return fixture_key(number, 1000 + number);
}

static void want(uint32_t number)
{
	struct ts_key key = key_of(number);

	node.request = (struct ts_mail_request){
		.kind = TS_MAIL_SAMPLE,
		.name = {.lo = key.lo, .hi = key.hi},
		.until_ns = ts_now_ns() + 10 * SECOND,
		.made_ns = MADE_NS,
	};
}

static int seek(uint32_t number)
{
	want(number);
	node_post(&node, TS_MAIL_SAMPLE);
	return node_wait(&node);
}

static unsigned char byte_at(uint32_t number, uint64_t at)
{
	return (unsigned char)(at * 31 + at / CHUNK + number);
}

/* A record of @bytes in the ring. */
static void publish(uint32_t number, enum ts_kind kind, uint64_t bytes)
{
	struct ts_key key = key_of(number);
	struct ts_take take;
	void *buffer;

	ts_store_take(store, &key, 0, kind, &take);
	cr_assert(eq(int, take.verdict, TS_CLAIM));
	cr_assert(eq(int, ts_claim_reserve(store, &take.claim, bytes, &buffer), 0));
	for (uint64_t i = 0; i < bytes; i++)
		((unsigned char *)buffer)[i] = byte_at(number, i);
	cr_assert(eq(int, ts_claim_publish(store, &take.claim, bytes, PRODUCE_NS), 0));
}

static void hand_over(uint32_t number)
{
	want(number);
	node_post(&node, TS_MAIL_SAMPLE_STORE);
	cr_assert(eq(int, node_wait(&node), -1));
	node_rest(&node);
}

/* Win it, make it, hand it over. */
static void give(uint32_t number, uint64_t bytes)
{
	cr_assert(eq(int, seek(number), TS_MAIL_SAYS_WON));
	publish(number, TS_KIND_SAMPLE, bytes);
	hand_over(number);
	node.asked = node.stored = node.deleted = 0;
}

/* Whether nothing was ever written to any place. */
static bool is_untouched(void)
{
	return lseek(places, 0, SEEK_DATA) == -1 && errno == ENXIO;
}

static void expect_in_place(uint32_t number, uint64_t bytes)
{
	unsigned char *found = malloc(HEAD + bytes);
	struct ts_mail_sample head;
	uint64_t wrong = 0;

	cr_assert(
		eq(int, ts_sys_read_all(places, found, HEAD + bytes, ts_mail_place_at(0)), 0));
	memcpy(&head, found, HEAD);
	cr_expect(eq(u32, head.version, TS_MAIL_SAMPLE_VERSION));
	cr_expect(eq(u64, head.made_ns, MADE_NS));
	cr_expect(eq(u64, head.produce_ns, PRODUCE_NS));
	for (uint64_t i = 0; i < bytes; i++)
		wrong += found[HEAD + i] != byte_at(number, i);
	cr_expect(eq(u64, wrong, 0), "%zu bytes", (size_t)bytes);
	cr_expect(eq(u64, ts_load_relaxed(&node.mail.table->slots[0].bytes), bytes));
	free(found);
}

/* ---- what works ------------------------------------------------------------------------- */

Test(transfer_sample, what_is_handed_over_comes)
{
	static const uint64_t sizes[] = {
		1, 1000, CHUNK - HEAD, CHUNK - HEAD + 1, 3 * CHUNK + 5, TS_MAIL_ROOM - HEAD};
	size_t *count;

	for (uint32_t i = 0; i < TS_ARRAY_SIZE(sizes); i++) {
		give(i, sizes[i]);
		cr_expect(eq(int, strcmp(strrchr(node.last_stored, ':'), ":0"), 0));
		cr_expect(ne(ptr, node_value(&node, 0, &count), NULL));
		cr_expect(eq(int, seek(i), TS_MAIL_SAYS_GOT));
		expect_in_place(i, sizes[i]);
	}
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_WON), TS_ARRAY_SIZE(sizes)));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_STORED), TS_ARRAY_SIZE(sizes)));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_GOT), TS_ARRAY_SIZE(sizes)));
	cr_expect(eq(u64, clock_passed(), 0), "nobody waited");
}

Test(transfer_sample, what_comes_to_places_that_are_not_mapped_is_written)
{
	give(1, CHUNK + 1);
	node.mail.places = NULL;
	cr_expect(eq(int, seek(1), TS_MAIL_SAYS_GOT));
	expect_in_place(1, CHUNK + 1);
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
	want(1);
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
	cr_assert(eq(int, seek(1), TS_MAIL_SAYS_WON));
	want(1);
	node_post(&node, TS_MAIL_SAMPLE_RETURN);
	cr_expect(eq(int, node_wait(&node), -1));
	node_rest(&node);
	cr_expect(eq(uint, node.deleted, 1));
	cr_expect(eq(int, seek(1), TS_MAIL_SAYS_WON));
}

Test(transfer_sample, a_lease_ends_with_what_it_was_for)
{
	publish(1, TS_KIND_SAMPLE, 1000);
	for (unsigned i = 0; i < 2 * TS_LEASES; i++)
		hand_over(1);
	cr_expect(eq(uint, node.stored, 2 * TS_LEASES));
	node.room = 1; /* for nothing of it */
	for (unsigned i = 0; i < 2 * TS_LEASES; i++)
		hand_over(1);
	cr_expect(eq(uint, node.deleted, 0), "nobody has won it");
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_FULL), 2 * TS_LEASES));
	node.room = 0;
	hand_over(1);
	cr_expect(eq(uint, node.stored, 2 * TS_LEASES + 1));
}

/* ---- room at the server ----------------------------------------------------------------- */

#define FEW 20 /* and sixteen make room at a time */

/* They are there, and have been for so long; there is no more room. */
static void give_few(uint32_t first, uint64_t bytes, uint64_t ns)
{
	for (uint32_t i = 0; i < FEW; i++)
		give(first + i, bytes);
	node.room = 1;
	clock_pass(ns);
}

Test(transfer_sample, old_ones_make_room)
{
	static const uint64_t sizes[] = {1000, 2 * CHUNK};

	for (uint32_t i = 0; i < TS_ARRAY_SIZE(sizes); i++) {
		uint32_t first = (FEW + 1) * i, last = first + FEW;
		node.room = 0;
		give_few(first, sizes[i], TS_TRANSFER_KEEP_NS);
		give(last, sizes[i]);
		cr_expect(eq(int, seek(last), TS_MAIL_SAYS_GOT));
		expect_in_place(last, sizes[i]);
		for (uint32_t j = first; i == 0 && j < last; j++)
			cr_expect(
				eq(int, seek(j), j < 16 ? TS_MAIL_SAYS_WON : TS_MAIL_SAYS_GOT));
	}
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_REMOVED), 32));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_FULL), 0));
}

Test(transfer_sample, young_ones_stay)
{
	give_few(0, 1000, TS_TRANSFER_KEEP_NS - 1);
	cr_assert(eq(int, seek(FEW), TS_MAIL_SAYS_WON));
	publish(FEW, TS_KIND_SAMPLE, 1000);
	hand_over(FEW);
	cr_expect(eq(uint, node.deleted, 1), "its place");
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_FULL), 1));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_REMOVED), 0));
	for (uint32_t i = 0; i < FEW; i++)
		cr_expect(eq(int, seek(i), TS_MAIL_SAYS_GOT));
}

static bool has_never_room(struct node *of, const struct command *command)
{
	if (strcmp(command->word, "ms") != 0)
		return false;
	node_printf(of, "SERVER_ERROR out of memory storing object\r\n");
	return true;
}

Test(transfer_sample, where_removing_does_not_help_it_is_given_up)
{
	give_few(0, 2 * CHUNK, TS_TRANSFER_KEEP_NS);
	node.lies = has_never_room;
	cr_assert(eq(int, seek(FEW), TS_MAIL_SAYS_WON));
	publish(FEW, TS_KIND_SAMPLE, 2 * CHUNK);
	hand_over(FEW);
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_FULL), 1));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_REMOVED), 16));
	cr_expect(eq(u32, ts_transfers_count(node.transfers), 0));
	node.lies = NULL;
	cr_expect(eq(int, seek(FEW), TS_MAIL_SAYS_WON));
}

Test(transfer_sample, a_helper_that_ends_leaves_none_of_its_own)
{
	uint32_t count = TS_TRANSFER_REMOVALS + 3;
	unsigned turns = 0;

	for (uint32_t i = 0; i < count; i++)
		give(i, 1000);
	while (ts_transfers_clear(node.transfers)) {
		turns++;
		cr_assert(node_turn(&node));
	}
	cr_expect(gt(uint, turns, 1), "more than go at once");
	cr_expect(eq(uint, node.deleted, count));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_REMOVED), count));
	for (uint32_t i = 0; i < count; i++)
		cr_expect(eq(int, seek(i), TS_MAIL_SAYS_WON));
}

/* ---- what cannot be handed over --------------------------------------------------------- */

static void expect_returned(uint32_t number)
{
	size_t *count;

	node.stored = node.deleted = 0;
	cr_assert(eq(int, seek(number), TS_MAIL_SAYS_WON));
	hand_over(number);
	cr_expect(eq(uint, node.stored, 0));
	cr_expect(eq(uint, node.deleted, 1));
	cr_expect(eq(ptr, node_value(&node, 0, &count), NULL));
}

Test(transfer_sample, a_record_that_has_gone_is_given_back)
{
	expect_returned(1);
}

Test(transfer_sample, a_record_that_is_no_sample_is_not_handed_over)
{
	publish(1, TS_KIND_PIXELS, 1000);
	expect_returned(1);
}

Test(transfer_sample, a_record_that_is_too_large_is_not_handed_over)
{
	publish(1, TS_KIND_SAMPLE, TS_MAIL_ROOM - HEAD + 1);
	expect_returned(1);
}

Test(transfer_sample, who_transfers_no_samples_says_so)
{
	ts_transfers_use_samples(node.transfers, NULL, -1);
	cr_expect(eq(int, seek(1), TS_MAIL_SAYS_UNFIT));
	hand_over(1);
	cr_expect(eq(uint, node.asked + node.stored, 0));
}

Test(transfer_sample, nothing_is_written_to_a_place_that_was_left)
{
	give(1, 3 * CHUNK);
	node.mail.places =
		NULL; /* what is mapped is the helper's until it says that it is not */
	want(1);
	node_post(&node, TS_MAIL_SAMPLE);
	ts_write_relaxed(&node.mail.table->slots[0].state, TS_MAIL_LEFT);
	cr_expect(eq(int, node_wait(&node), -1));
	node_rest(&node);
	cr_expect(is_untouched());
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
		.version = version, .made_ns = MADE_NS, .produce_ns = PRODUCE_NS};
	struct ts_key key = key_of(number);
	unsigned char *bytes = planted[chunk].bytes + sizeof(struct ts_value_head);
	uint32_t size = ts_value_bytes(total, chunk);
	struct ts_sealer *sealer;
	char text[64];

	snprintf(text, sizeof(text), "s1:%016llx%016llx", (unsigned long long)key.hi,
		(unsigned long long)key.lo);
	const struct ts_value_place place = {.key = text,
		.key_bytes = strlen(text),
		.total = total,
		.generation = 1,
		.chunk = chunk};
	for (uint32_t i = 0; i < size; i++)
		bytes[i] = byte_at(number, chunk * CHUNK + i - HEAD);
	if (chunk == 0)
		memcpy(bytes, &head, ts_min_u64(size, HEAD));
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
static void expect_refusal(uint32_t number)
{
	cr_expect(eq(int, seek(number), TS_MAIL_SAYS_REFUSED));
	node_rest(&node);
	cr_expect(eq(uint, node.deleted, 1));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_REFUSED), 1));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_GOT), 0));
	unsigned asked = node.asked;
	cr_expect(eq(int, seek(number), TS_MAIL_SAYS_REFUSED));
	cr_expect(eq(uint, node.asked, asked), "asked for again");
}

Test(transfer_sample, what_is_planted_is_what_we_would_hand_over)
{
	for (uint32_t chunk = 0; chunk < 3; chunk++)
		plant(1, chunk, HEAD + 2 * CHUNK + 9, TS_MAIL_SAMPLE_VERSION);
	cr_expect(eq(int, seek(1), TS_MAIL_SAYS_GOT));
	expect_in_place(1, 2 * CHUNK + 9);
}

Test(transfer_sample, another_version_is_refused)
{
	plant(1, 0, HEAD + 1000, TS_MAIL_SAMPLE_VERSION + 1);
	expect_refusal(1);
}

Test(transfer_sample, one_that_is_larger_than_a_place_is_refused)
{
	plant(1, 0, TS_MAIL_ROOM + 1, TS_MAIL_SAMPLE_VERSION);
	expect_refusal(1);
}

Test(transfer_sample, one_that_is_smaller_than_its_head_is_refused)
{
	plant(1, 0, HEAD - 1, TS_MAIL_SAMPLE_VERSION);
	expect_refusal(1);
}

Test(transfer_sample, one_that_is_cut_is_refused)
{
	plant(1, 0, HEAD + 1000, TS_MAIL_SAMPLE_VERSION);
	planted[0].count--;
	expect_refusal(1);
}

/* Chunk 0 is what it should be, and in the place; that is not said to be all. */
Test(transfer_sample, one_whose_second_chunk_is_cut_is_refused)
{
	for (uint32_t chunk = 0; chunk < 2; chunk++)
		plant(1, chunk, 2 * CHUNK, TS_MAIL_SAMPLE_VERSION);
	planted[1].count -= 100;
	expect_refusal(1);
}

Test(transfer_sample, chunks_of_values_of_different_sizes_are_refused)
{
	plant(1, 0, 2 * CHUNK, TS_MAIL_SAMPLE_VERSION);
	plant(1, 1, 2 * CHUNK - 1, TS_MAIL_SAMPLE_VERSION);
	expect_refusal(1);
}

/* Its numbers are covered by the tag: to say more or less of itself makes it no value. */
Test(transfer_sample, a_head_that_says_another_size_is_refused)
{
	struct ts_value_head *head = (struct ts_value_head *)(void *)planted[0].bytes;

	plant(1, 0, HEAD + 1000, TS_MAIL_SAMPLE_VERSION);
	head->total--;
	expect_refusal(1);
}

Test(transfer_sample, the_record_of_another_key_is_refused)
{
	plant(2, 0, HEAD + 1000, TS_MAIL_SAMPLE_VERSION);
	expect_refusal(1);
	cr_expect(eq(int, seek(2), TS_MAIL_SAYS_GOT), "it is right under its own");
}

Test(transfer_sample, a_chunk_that_has_gone_is_a_miss)
{
	plant(1, 0, 2 * CHUNK, TS_MAIL_SAMPLE_VERSION);
	cr_expect(eq(int, seek(1), TS_MAIL_SAYS_NONE));
	node_rest(&node);
	cr_expect(eq(uint, node.deleted, 1), "who asks next wins");
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_GOT), 0));
}
