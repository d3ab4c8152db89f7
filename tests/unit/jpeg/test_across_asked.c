/* SPDX-License-Identifier: MIT */
/* Decoded pictures between nodes: which of them other nodes are asked for. */
#include "across.h"

#include "leader/group/session.h"
#include "shim/sys.h"
#include "tests/unit/shim/fixture.h"

#include <stdlib.h>
#include <string.h>

TestSuite(across_asked, .init = across_init, .fini = across_finish, .timeout = 60);

static void expect_not_asked(const struct drive_picture *picture, const struct drive_plan *plan)
{
	free(across_data);
	across_data = drive_encode(picture, &across_bytes);
	across_begin_helper(TS_MAIL_SAYS_NONE);
	across_decode(plan);
	cr_expect(not(across_end_helper()));
	across_expect_nothing_open();
}

Test(across_asked, what_is_decoded_at_once_is_not_asked_for)
{
	struct drive_picture picture = across_large;

	picture.width = 128;
	expect_not_asked(&picture, &across_whole);
}

Test(across_asked, what_no_place_has_room_for_is_not_asked_for)
{
	struct drive_picture picture = across_large;

	picture.width = picture.height = 1200; /* 4.1 MiB */
	expect_not_asked(&picture, &across_whole);
}

Test(across_asked, what_is_a_part_of_a_sample_is_not_asked_for)
{
	ts_session_nest(true);
	expect_not_asked(&across_large, &across_whole);
	ts_session_nest(false);
}

Test(across_asked, samples_and_pictures_are_judged_apart)
{
	across_make_record();
	/* What was handed over is the first of the window. */
	for (unsigned i = 1; i < TS_MAIL_WINDOW; i++) {
		across_rename_picture(100 + i);
		across_begin_helper(TS_MAIL_SAYS_GOT);
		/* It was made in 5 ms; for a test one may take so many times longer. */
		across_helper.took_ns = 1000 * UINT64_C(5000000);
		across_decode(&across_whole);
		cr_assert(across_end_helper());
	}
	cr_expect(eq(u64, ts_load_relaxed(&across_mail.table->pictures.times_off), 1));
	cr_expect(not(ts_mail_pays(&across_mail, TS_KIND_PIXELS)));
	cr_expect(ts_mail_pays(&across_mail, TS_KIND_SAMPLE));
	across_rename_picture(1);
	uint64_t alone = across_passed(TS_REASON_ALONE);
	expect_not_asked(&across_large, &across_whole);
	cr_expect(eq(u64, across_passed(TS_REASON_ALONE), alone + 1),
		"nor is it published for others");
}

/* The next one that is decoded is looked for, though no node takes what is handed over. */
static void set_turn(void)
{
	struct ts_mail_use *use = &across_mail.table->use;

	ts_write_relaxed(&use->unused_until, UINT64_MAX);
	ts_write_relaxed(&use->try_count, TS_MAIL_TRY_ONE_IN - 1);
	ts_write_relaxed(&use->try_at, 0);
}

Test(across_asked, while_no_node_takes_them_one_is_looked_for)
{
	across_make_record();
	across_rename_picture(1);
	uint64_t made = across_made(), shared = across_shared();
	set_turn();
	across_decode_asking(TS_MAIL_SAYS_NONE);
	cr_expect(eq(u64, across_made(), made + 1));
	cr_expect(eq(u64, across_passed(TS_REASON_ACROSS_UNUSED), 1));
	across_rename_picture(2);
	expect_not_asked(&across_large, &across_whole);
	cr_expect(eq(u64, across_made(), made + 2));
	across_rename_picture(3);
	set_turn();
	across_decode_asking(TS_MAIL_SAYS_GOT);
	cr_expect(eq(u64, across_made(), made + 2));
	cr_expect(eq(u64, across_shared(), shared + 1));
	cr_expect(eq(u64, across_passed(TS_REASON_ACROSS_ALONE), 0));
	across_expect_nothing_open();
}
