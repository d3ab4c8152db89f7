/* SPDX-License-Identifier: MIT */
/* Decoded pictures between nodes: what becomes of those that other nodes are asked for. */
#include "across.h"

#include "hooks/jpeg/record.h"
#include "leader/group/store_private.h"
#include "leader/group/words.h"
#include "shim/sys.h"
#include "tests/unit/shim/fixture.h"
#include "tests/unit/valgrind.h"

#include <stdlib.h>
#include <string.h>

TestSuite(across, .init = across_init, .fini = across_finish, .timeout = 60);

/* ---- what comes ------------------------------------------------------------------------- */

Test(across, what_another_node_has_is_served_and_shared_here)
{
	across_make_record();
	across_rename_picture(1);
	uint64_t produced = across_made(), taken = across_shared();
	across_decode_asking(TS_MAIL_SAYS_GOT);
	cr_expect(eq(u64, across_made(), produced));
	cr_expect(eq(u64, across_shared(), taken + 1));
	across_begin_helper(TS_MAIL_SAYS_GOT);
	across_decode(&across_whole);
	cr_expect(not(across_end_helper()), "it is here");
	cr_expect(eq(u64, across_shared(), taken + 2));
	cr_expect(eq(u64, ts_load_relaxed(&across_mail.table->pictures.got), 1));
	across_expect_nothing_open();
}

Test(across, what_is_won_is_handed_over_once_it_is_published)
{
	across_make_record();
	cr_expect(eq(u64, across_made(), 1));
	cr_expect(eq(u64, across_passed(TS_REASON_ACROSS_ALONE), 0));
	across_expect_nothing_open();
}

Test(across, any_other_answer_leaves_it_to_us_alone)
{
	static const enum ts_mail_answer answers[] = {TS_MAIL_SAYS_NONE, TS_MAIL_SAYS_LATE,
		TS_MAIL_SAYS_CLOSED, TS_MAIL_SAYS_FAILED, TS_MAIL_SAYS_REFUSED,
		TS_MAIL_SAYS_UNFIT};

	for (unsigned i = 0; i < TS_ARRAY_SIZE(answers); i++) {
		across_rename_picture(i);
		across_decode_asking(answers[i]);
		across_expect_nothing_open();
	}
	cr_expect(eq(u64, across_passed(TS_REASON_ACROSS_ALONE), TS_ARRAY_SIZE(answers)));
	cr_expect(eq(u64, across_made(), TS_ARRAY_SIZE(answers)));
}

Test(across, a_helper_that_has_gone_is_not_waited_for)
{
	ts_write_release(
		&across_mail.table->helper, UINT64_C(1) << 62); /* no process has this id */
	across_decode(&across_whole);
	cr_expect(eq(u64, across_made(), 1));
	cr_expect(eq(u64, across_passed(TS_REASON_ACROSS_ALONE), 1));
	across_expect_nothing_open();
}

Test(across, who_cannot_start_a_helper_keeps_nobody_from_it)
{
	ts_write_release(&across_mail.table->helper, 0);
	across_decode(&across_whole);
	cr_expect(eq(u64, ts_load_relaxed(&across_mail.table->start_at), 0));
	cr_expect(eq(u64, across_passed(TS_REASON_ALONE), 1));
	across_expect_nothing_open();
}

Test(across, what_is_no_record_is_refused_and_made)
{
	across_make_record();
	uint64_t produced = across_made();
	uint64_t trailer =
		ts_pixels_trailer_at(across_large.height, across_large.width * UINT64_C(3));
	const uint64_t damage[] = {0, 8, 16, 20};
	for (unsigned i = 0; i < TS_ARRAY_SIZE(damage); i++) {
		across_rename_picture(10 + i);
		across_record[trailer + damage[i] + 3] ^= 0x41;
		across_decode_asking(TS_MAIL_SAYS_GOT);
		across_record[trailer + damage[i] + 3] ^= 0x41;
		across_expect_request(TS_MAIL_SAMPLE_RETURN);
		across_expect_nothing_open();
	}
	across_record_bytes = 3;
	across_rename_picture(2);
	across_decode_asking(TS_MAIL_SAYS_GOT);
	across_expect_request(TS_MAIL_SAMPLE_RETURN);
	cr_expect(eq(u64, across_made(), produced + TS_ARRAY_SIZE(damage) + 1));
	cr_expect(eq(u64, across_passed(TS_REASON_STORE_DAMAGED), TS_ARRAY_SIZE(damage) + 1));
	across_expect_nothing_open();
}

Test(across, the_record_of_another_stream_is_never_served)
{
	across_make_record();
	uint64_t taken = across_shared();
	across_data[across_bytes - 4] ^= 1;
	across_decode_asking(TS_MAIL_SAYS_GOT);
	cr_expect(eq(u64, across_shared(), taken));
	cr_expect(eq(u64, across_passed(TS_REASON_JPEG_DIFFERENT), 1));
	across_expect_nothing_open();
}

static void *decode_again(void *unused)
{
	(void)drive(&drive_hooked, &across_whole, across_data, across_bytes);
	return unused;
}

/* He is not at work, but for what his node need not make. */
Test(across, who_waits_for_another_node_keeps_his_claim)
{
	NOT_EMULATED("a thread is told a start time of its own, so its helper counts as dead");
	pthread_t thread;

	across_begin_helper(TS_MAIL_SAYS_WON);
	across_helper.delay_us = 300000;
	cr_assert(eq(int, pthread_create(&thread, NULL, decode_again, NULL), 0));
	while (ts_load_relaxed(&across_mail.table->posted) == 0)
		continue;
	across_decode(&across_whole);
	pthread_join(thread, NULL);
	cr_assert(across_end_helper());
	cr_expect(eq(u64, ts_load_relaxed(&across_mail.table->pictures.asked), 1));
	cr_expect(eq(u64, across_made(), 1));
	cr_expect(eq(u64, across_shared(), 1));
	across_expect_request(TS_MAIL_SAMPLE_STORE);
	across_expect_nothing_open();
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
	uint8_t *rows = calloc(across_large.width, 3);
	JSAMPROW one = rows;

	across_begin_helper(TS_MAIL_SAYS_WON);
	drive_errors_init(&object->errors, &object->cinfo);
	drive_hooked.create(&object->cinfo, JPEG_LIB_VERSION, sizeof(object->cinfo));
	drive_source_init(&object->source, &object->cinfo, plan, across_data, across_bytes);
	object->source.escape = &object->errors.escape;
	drive_hooked.read_header(&object->cinfo, TRUE);
	cr_assert(drive_hooked.start(&object->cinfo) != FALSE);
	cr_assert(eq(uint, drive_hooked.read(&object->cinfo, &one, 1), 1));
	cr_assert(across_end_helper());
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
	struct object *object = begin_decode(&across_whole);

	end_decode(object);
	across_expect_request(TS_MAIL_SAMPLE_RETURN);
	across_expect_nothing_open();
	object = begin_decode(&across_whole);
	drive_hooked.abort(&object->cinfo);
	across_expect_request(TS_MAIL_SAMPLE_RETURN);
	end_decode(object);
	across_expect_nothing_open();
}

/* Whether somebody sleeps until a claim ends. */
static bool is_awaited(const struct ts_store *store)
{
	bool is_awaited = false;

	for (uint32_t i = 0; i < store->shape.set_count * TS_WAYS; i++) {
		uint64_t word = ts_load_relaxed(&store->entries[i].word);
		is_awaited = is_awaited || (ts_entry_state(word) == TS_ENTRY_CLAIM &&
						   (word & TS_ENTRY_WAITED) != 0);
	}
	return is_awaited;
}

Test(across, who_waits_for_somebody_who_gives_up_asks_for_it)
{
	struct ts_store *store = fixture_enter()->store;
	pthread_t thread;

	struct object *object = begin_decode(&across_whole);
	cr_assert(eq(int, pthread_create(&thread, NULL, decode_again, NULL), 0));
	while (!is_awaited(store))
		continue;
	end_decode(object);
	across_expect_request(TS_MAIL_SAMPLE_RETURN);
	across_begin_helper(TS_MAIL_SAYS_WON);
	pthread_join(thread, NULL);
	cr_assert(across_end_helper());
	across_expect_request(TS_MAIL_SAMPLE_STORE);
	across_expect_nothing_open();
}

Test(across, calls_that_end_a_capture_give_back_what_it_has_won)
{
	struct object *object = begin_decode(&across_whole);

	(void)drive_hooked.skip(&object->cinfo, 8);
	across_expect_request(TS_MAIL_SAMPLE_RETURN);
	end_decode(object);
	across_expect_nothing_open();
}

Test(across, a_warning_gives_back_what_was_won)
{
	memset(across_data + across_bytes / 2, 0x55, 40);
	across_decode_asking(TS_MAIL_SAYS_WON);
	across_expect_request(TS_MAIL_SAMPLE_RETURN);
	across_expect_nothing_open();
}

Test(across, a_program_that_leaves_by_longjmp_gives_back_what_it_has_won)
{
	const struct drive_plan pull = {
		.feed = DRIVE_PULL, .first = 4096, .chunk = 512, .rows = 1, .colour = -1};
	struct object *object = begin_decode(&pull);
	uint8_t *rows = calloc(across_large.width, 3);
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
	across_expect_request(TS_MAIL_SAMPLE_RETURN);
	across_expect_nothing_open();
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
	uint8_t *rows = calloc(across_large.width, 3);
	JSAMPROW one = rows;
	struct ts_mail_request request;
	uint32_t index;

	of_parent = begin_decode(&across_whole);
	cr_assert(eq(int, fixture_fork(destroy_in_child), 0));
	cr_expect(eq(int, ts_mail_take(&across_mail, 0, &index, &request), -ENOENT));
	while (of_parent->cinfo.output_scanline < of_parent->cinfo.output_height)
		cr_assert(eq(uint, drive_hooked.read(&of_parent->cinfo, &one, 1), 1));
	cr_expect(drive_hooked.finish(&of_parent->cinfo) != FALSE);
	across_expect_request(TS_MAIL_SAMPLE_STORE);
	end_decode(of_parent);
	across_expect_nothing_open();
	free(rows);
}
