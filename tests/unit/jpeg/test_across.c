/* SPDX-License-Identifier: MIT */
/* Decoded pictures between nodes, with a real store and a helper that is a thread of the test.
 */
#include "drive.h"
#include "tests/unit/across.h"
#include "tests/unit/shim/fixture.h"

#include "hooks/jpeg/across.h"
#include "hooks/jpeg/record.h"
#include "leader/mail/samples.h"
#include "shim/identity.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Large enough to be worth asking for. */
static const struct drive_picture large = {
	.width = 320, .height = 240, .quality = 85, .h = 2, .v = 2, .seed = 1};
static const struct drive_plan whole = {.rows = 1, .colour = -1};

static struct ts_mail mail;
static int places;
static uint8_t *data;
static size_t bytes;

static void init(void)
{
	across_set();
	setenv("TSSHIM_VERIFY", "0", 1);
	fixture_init();
	struct ts_store *store = fixture_enter()->store;
	across_serve(store, &mail);
	places = across_open_places(store, &mail);
	data = drive_encode(&large, &bytes);
}

static void finish(void)
{
	free(data);
	close(places);
	fixture_finish();
}

TestSuite(across, .init = init, .fini = finish, .timeout = 60);

/* ---- the helper ------------------------------------------------------------------------- */

/* What it answers to the one question it waits for, and what it was asked. */
static struct helper {
	pthread_t thread;
	enum ts_mail_answer says;
	uint64_t took_ns;
	unsigned delay_us; /* before the answer */
	bool was_asked;
	struct ts_mail_request request;
	_Atomic int ends;
} helper;

/* A record as another node would have stored it. */
static uint8_t record[1 << 20];
static uint64_t record_bytes;

static void write_record(uint32_t index)
{
	const struct ts_mail_sample head = {
		.version = TS_MAIL_SAMPLE_VERSION, .made_ns = 5000000, .produce_ns = 4000000};
	off_t at = (off_t)ts_mail_place_at(index);

	if (pwrite(places, &head, sizeof(head), at) != (ssize_t)sizeof(head) ||
		pwrite(places, record, record_bytes, at + (off_t)sizeof(head)) !=
			(ssize_t)record_bytes)
		abort();
	ts_mail_set_found(&mail, index, record_bytes, helper.took_ns);
}

static void *help(void *unused)
{
	uint32_t index;

	while (!ts_load_acquire(&helper.ends)) {
		if (ts_mail_take(&mail, 0, &index, &helper.request) < 0)
			continue;
		helper.was_asked = true;
		usleep(helper.delay_us);
		if (helper.says == TS_MAIL_SAYS_GOT)
			write_record(index);
		ts_mail_answer(&mail, index, helper.says);
		break;
	}
	return unused;
}

static void begin_helper(enum ts_mail_answer says)
{
	helper = (struct helper){.says = says, .took_ns = 1000};
	cr_assert(eq(int, pthread_create(&helper.thread, NULL, help, NULL), 0));
}

/* Whether it was asked; by what name is in helper.request. */
static bool end_helper(void)
{
	ts_write_release(&helper.ends, 1);
	pthread_join(helper.thread, NULL);
	return helper.was_asked;
}

static void expect_request(enum ts_mail_kind kind)
{
	struct ts_mail_request request;
	uint32_t index;

	cr_assert(eq(int, ts_mail_take(&mail, 0, &index, &request), 0));
	cr_expect(eq(u32, request.kind, kind));
	cr_expect(eq(u64, request.name.lo, helper.request.name.lo));
	cr_expect(eq(u64, request.name.hi, helper.request.name.hi));
	ts_mail_answer(&mail, index, TS_MAIL_SAYS_NONE);
}

/* Nothing is posted, and every slot is free. */
static void expect_nothing_open(void)
{
	struct ts_mail_request request;
	uint32_t index;

	cr_expect(eq(int, ts_mail_take(&mail, 0, &index, &request), -ENOENT));
	for (index = 0; index < TS_MAIL_SLOTS; index++)
		cr_expect(eq(u64, ts_load_relaxed(&mail.table->slots[index].owner), 0));
}

/* ---- decodes ---------------------------------------------------------------------------- */

static uint64_t passed(enum ts_reason reason)
{
	return ts_load_relaxed(&fixture_ledger()->passed[reason]);
}

static struct ts_dataset_row *row(void)
{
	return ts_ledger_dataset(fixture_ledger(), fixture_enter()->dataset);
}

static uint64_t made(void)
{
	return ts_load_relaxed(&row()->kinds[TS_KIND_PIXELS].produced);
}

static uint64_t shared(void)
{
	return ts_load_relaxed(&row()->kinds[TS_KIND_PIXELS].shared);
}

/* Through the hooks: the program sees what the library alone shows it. */
static void decode(const struct drive_plan *plan)
{
	struct drive_log expected = drive(&drive_real, plan, data, bytes);
	struct drive_log seen = drive(&drive_hooked, plan, data, bytes);

	cr_expect(eq(int, expected.how, seen.how));
	cr_expect(eq(u64, expected.pixels, seen.pixels));
	cr_expect(eq(u64, expected.sequence, seen.sequence));
	cr_expect(eq(u64, expected.fields, seen.fields));
	cr_expect(eq(sz, expected.position, seen.position));
}

static void decode_asking(enum ts_mail_answer says)
{
	begin_helper(says);
	decode(&whole);
	cr_assert(end_helper());
	cr_expect(eq(u32, helper.request.kind, TS_MAIL_SAMPLE));
}

/* As a decode of another node hands it over; here it is forgotten with the group. */
static void make_record(void)
{
	struct ts_take take;

	decode_asking(TS_MAIL_SAYS_WON);
	const struct ts_key key = {.lo = helper.request.name.lo, .hi = helper.request.name.hi};
	expect_request(TS_MAIL_SAMPLE_STORE);
	ts_store_find(fixture_enter()->store, &key, &take);
	cr_assert(eq(int, take.verdict, TS_HIT));
	record_bytes = take.lease.bytes;
	cr_assert(le(u64, record_bytes, sizeof(record)));
	memcpy(record, take.lease.data, record_bytes);
	ts_lease_release(fixture_enter()->store, &take.lease);
}

/* Its name is another one from here on, its pixels stay. */
static void rename_picture(unsigned number)
{
	char value[16];

	snprintf(value, sizeof(value), "%u", number);
	setenv("JSIMD_NAME_OF_TEST", value, 1);
}

/* ---- what comes ------------------------------------------------------------------------- */

Test(across, what_another_node_has_is_served_and_shared_here)
{
	make_record();
	rename_picture(1);
	uint64_t produced = made(), taken = shared();
	decode_asking(TS_MAIL_SAYS_GOT);
	cr_expect(eq(u64, made(), produced));
	cr_expect(eq(u64, shared(), taken + 1));
	begin_helper(TS_MAIL_SAYS_GOT);
	decode(&whole);
	cr_expect(not(end_helper()), "it is here");
	cr_expect(eq(u64, shared(), taken + 2));
	cr_expect(eq(u64, ts_load_relaxed(&mail.table->samples.got), 1));
	expect_nothing_open();
}

Test(across, what_is_won_is_handed_over_once_it_is_published)
{
	make_record();
	cr_expect(eq(u64, made(), 1));
	cr_expect(eq(u64, passed(TS_REASON_ACROSS_ALONE), 0));
	expect_nothing_open();
}

Test(across, any_other_answer_leaves_it_to_us_alone)
{
	static const enum ts_mail_answer answers[] = {TS_MAIL_SAYS_NONE, TS_MAIL_SAYS_LATE,
		TS_MAIL_SAYS_CLOSED, TS_MAIL_SAYS_FAILED, TS_MAIL_SAYS_REFUSED,
		TS_MAIL_SAYS_UNFIT};

	for (unsigned i = 0; i < TS_ARRAY_SIZE(answers); i++) {
		rename_picture(i);
		decode_asking(answers[i]);
		expect_nothing_open();
	}
	cr_expect(eq(u64, passed(TS_REASON_ACROSS_ALONE), TS_ARRAY_SIZE(answers)));
	cr_expect(eq(u64, made(), TS_ARRAY_SIZE(answers)));
}

Test(across, a_helper_that_has_gone_is_not_waited_for)
{
	ts_write_release(&mail.table->helper, UINT64_C(1) << 62); /* no process has this id */
	decode(&whole);
	cr_expect(eq(u64, made(), 1));
	cr_expect(eq(u64, passed(TS_REASON_ACROSS_ALONE), 1));
	expect_nothing_open();
}

Test(across, who_cannot_start_a_helper_keeps_nobody_from_it)
{
	ts_write_release(&mail.table->helper, 0);
	decode(&whole);
	cr_expect(eq(u64, ts_load_relaxed(&mail.table->start_at), 0));
	cr_expect(eq(u64, passed(TS_REASON_ALONE), 1));
	expect_nothing_open();
}

Test(across, what_is_no_record_is_refused_and_made)
{
	make_record();
	uint64_t produced = made();
	uint64_t trailer = ts_pixels_trailer_at(large.height, large.width * UINT64_C(3));
	const uint64_t damage[] = {0, 8, 16, 20};
	for (unsigned i = 0; i < TS_ARRAY_SIZE(damage); i++) {
		rename_picture(10 + i);
		record[trailer + damage[i] + 3] ^= 0x41;
		decode_asking(TS_MAIL_SAYS_GOT);
		record[trailer + damage[i] + 3] ^= 0x41;
		expect_request(TS_MAIL_SAMPLE_RETURN);
		expect_nothing_open();
	}
	record_bytes = 3;
	rename_picture(2);
	decode_asking(TS_MAIL_SAYS_GOT);
	expect_request(TS_MAIL_SAMPLE_RETURN);
	cr_expect(eq(u64, made(), produced + TS_ARRAY_SIZE(damage) + 1));
	cr_expect(eq(u64, passed(TS_REASON_STORE_DAMAGED), TS_ARRAY_SIZE(damage) + 1));
	expect_nothing_open();
}

Test(across, the_record_of_another_stream_is_never_served)
{
	make_record();
	uint64_t taken = shared();
	data[bytes - 4] ^= 1;
	decode_asking(TS_MAIL_SAYS_GOT);
	cr_expect(eq(u64, shared(), taken));
	cr_expect(eq(u64, passed(TS_REASON_JPEG_DIFFERENT), 1));
	expect_nothing_open();
}

static void *decode_again(void *unused)
{
	(void)drive(&drive_hooked, &whole, data, bytes);
	return unused;
}

/* He is not at work, but for what his node need not make. */
Test(across, who_waits_for_another_node_keeps_his_claim)
{
	pthread_t thread;

	setenv("TSSHIM_TEST_PATIENCE", "20", 1);
	begin_helper(TS_MAIL_SAYS_WON);
	helper.delay_us = 300000;
	cr_assert(eq(int, pthread_create(&thread, NULL, decode_again, NULL), 0));
	while (ts_load_relaxed(&mail.table->posted) == 0)
		continue;
	decode(&whole);
	pthread_join(thread, NULL);
	cr_assert(end_helper());
	cr_expect(eq(u64, ts_load_relaxed(&mail.table->samples.asked), 1));
	cr_expect(eq(u64, made(), 1));
	cr_expect(eq(u64, shared(), 1));
	expect_request(TS_MAIL_SAMPLE_STORE);
	expect_nothing_open();
}

/* ---- what is not asked for ----------------------------------------------------------------
 */

static void expect_not_asked(const struct drive_picture *picture, const struct drive_plan *plan)
{
	free(data);
	data = drive_encode(picture, &bytes);
	begin_helper(TS_MAIL_SAYS_NONE);
	decode(plan);
	cr_expect(not(end_helper()));
	expect_nothing_open();
}

Test(across, what_is_decoded_at_once_is_not_asked_for)
{
	struct drive_picture picture = large;

	picture.width = 128;
	expect_not_asked(&picture, &whole);
}

Test(across, what_no_place_has_room_for_is_not_asked_for)
{
	struct drive_picture picture = large;

	picture.width = picture.height = 1200; /* 4.1 MiB */
	expect_not_asked(&picture, &whole);
}

Test(across, what_is_a_part_of_a_sample_is_not_asked_for)
{
	ts_session_nest(true);
	expect_not_asked(&large, &whole);
	ts_session_nest(false);
}

Test(across, samples_and_pictures_are_judged_apart)
{
	make_record();
	/* What was handed over is the first of the window. */
	for (unsigned i = 1; i < TS_MAIL_WINDOW; i++) {
		rename_picture(100 + i);
		begin_helper(TS_MAIL_SAYS_GOT);
		helper.took_ns = 6000000; /* it was made in 5 ms */
		decode(&whole);
		cr_assert(end_helper());
	}
	cr_expect(eq(u64, ts_load_relaxed(&mail.table->samples.times_off), 1));
	cr_expect(not(ts_mail_pays(&mail, TS_KIND_PIXELS)));
	cr_expect(ts_mail_pays(&mail, TS_KIND_SAMPLE));
	rename_picture(1);
	uint64_t alone = passed(TS_REASON_ALONE);
	expect_not_asked(&large, &whole);
	cr_expect(
		eq(u64, passed(TS_REASON_ALONE), alone + 1), "nor is it published for others");
}

/* ---- leaving ------------------------------------------------------------------------------
 */

struct object {
	struct jpeg_decompress_struct cinfo;
	struct drive_errors errors;
	struct drive_source source;
};

/* A decode that was started, has WON, and has read a row. */
static struct object *begin_decode(const struct drive_plan *plan)
{
	struct object *object = calloc(1, sizeof(*object));
	uint8_t *rows = calloc(large.width, 3);
	JSAMPROW one = rows;

	begin_helper(TS_MAIL_SAYS_WON);
	drive_errors_init(&object->errors, &object->cinfo);
	drive_hooked.create(&object->cinfo, JPEG_LIB_VERSION, sizeof(object->cinfo));
	drive_source_init(&object->source, &object->cinfo, plan, data, bytes);
	object->source.escape = &object->errors.escape;
	drive_hooked.read_header(&object->cinfo, TRUE);
	cr_assert(drive_hooked.start(&object->cinfo) != FALSE);
	cr_assert(eq(uint, drive_hooked.read(&object->cinfo, &one, 1), 1));
	cr_assert(end_helper());
	free(rows);
	return object;
}

static void end_decode(struct object *object)
{
	drive_hooked.destroy(&object->cinfo);
	drive_source_finish(&object->source);
	free(object);
}

Test(across, who_destroys_or_aborts_gives_back_what_it_has_won)
{
	struct object *object = begin_decode(&whole);

	end_decode(object);
	expect_request(TS_MAIL_SAMPLE_RETURN);
	expect_nothing_open();
	object = begin_decode(&whole);
	drive_hooked.abort(&object->cinfo);
	expect_request(TS_MAIL_SAMPLE_RETURN);
	end_decode(object);
	expect_nothing_open();
}

Test(across, calls_that_end_a_capture_give_back_what_it_has_won)
{
	struct object *object = begin_decode(&whole);

	(void)drive_hooked.skip(&object->cinfo, 8);
	expect_request(TS_MAIL_SAMPLE_RETURN);
	end_decode(object);
	expect_nothing_open();
}

Test(across, a_warning_gives_back_what_was_won)
{
	memset(data + bytes / 2, 0x55, 40);
	decode_asking(TS_MAIL_SAYS_WON);
	expect_request(TS_MAIL_SAMPLE_RETURN);
	expect_nothing_open();
}

Test(across, a_program_that_leaves_by_longjmp_gives_back_what_it_has_won)
{
	const struct drive_plan pull = {
		.feed = DRIVE_PULL, .first = 4096, .chunk = 512, .rows = 1, .colour = -1};
	struct object *object = begin_decode(&pull);
	uint8_t *rows = calloc(large.width, 3);
	JSAMPROW one = rows;

	if (setjmp(object->errors.escape) == 0) {
		object->source.jump = true;
		while (drive_hooked.read(&object->cinfo, &one, 1) == 1)
			continue;
		cr_fatal("the source did not escape");
	}
	/* It may go on; as soon as the object is used for anything else, or not at all, it
	 * ends. */
	end_decode(object);
	expect_request(TS_MAIL_SAMPLE_RETURN);
	expect_nothing_open();
	free(rows);
}

static struct object *of_parent;

static int destroy_in_child(void)
{
	drive_hooked.destroy(&of_parent->cinfo);
	return 0;
}

Test(across, a_fork_child_leaves_its_parent_what_that_has_won)
{
	uint8_t *rows = calloc(large.width, 3);
	JSAMPROW one = rows;
	struct ts_mail_request request;
	uint32_t index;

	of_parent = begin_decode(&whole);
	cr_assert(eq(int, fixture_fork(destroy_in_child), 0));
	cr_expect(eq(int, ts_mail_take(&mail, 0, &index, &request), -ENOENT));
	while (of_parent->cinfo.output_scanline < of_parent->cinfo.output_height)
		cr_assert(eq(uint, drive_hooked.read(&of_parent->cinfo, &one, 1), 1));
	cr_expect(drive_hooked.finish(&of_parent->cinfo) != FALSE);
	expect_request(TS_MAIL_SAMPLE_STORE);
	end_decode(of_parent);
	expect_nothing_open();
	free(rows);
}
