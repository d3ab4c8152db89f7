/* SPDX-License-Identifier: MIT */
/* Whole decodes through the hooks against the library's own: nothing may be seen to differ. */
#include "fixture.h"

TestSuite(decodes, .init = encode, .fini = free_data);

static void same(
	const struct drive_log *expected, const struct drive_log *seen, const char *who)
{
	cr_expect(eq(int, expected->how, seen->how), "%s: how it ended", who);
	cr_expect(eq(int, expected->message_code, seen->message_code), "%s: error", who);
	cr_expect(eq(uint, expected->rows, seen->rows), "%s: rows", who);
	cr_expect(eq(u64, expected->pixels, seen->pixels), "%s: pixels", who);
	cr_expect(eq(u64, expected->sequence, seen->sequence), "%s: rows per call", who);
	cr_expect(eq(u64, expected->fields, seen->fields), "%s: fields", who);
	cr_expect(eq(long, expected->warnings, seen->warnings), "%s: warnings", who);
	cr_expect(eq(u64, expected->messages, seen->messages), "%s: messages", who);
	cr_expect(eq(sz, expected->position, seen->position), "%s: source", who);
}

/* The library, a producer, a consumer and one that verifies; in the end nothing is held. */
static void compare(const struct drive_plan *plan, bool clean)
{
	struct drive_log expected = drive(&drive_real, plan, data, bytes);
	fake_store_clear();
	struct drive_log seen = drive(&drive_hooked, plan, data, bytes);
	same(&expected, &seen, "producer");
	if (clean)
		cr_expect(eq(uint, fake.published, 1));
	seen = drive(&drive_hooked, plan, data, bytes);
	same(&expected, &seen, "consumer");
	if (clean)
		cr_expect(eq(uint, fake.shared, 1));
	fake.verify = true;
	seen = drive(&drive_hooked, plan, data, bytes);
	same(&expected, &seen, "verifier");
	if (clean)
		cr_expect(eq(uint, fake.equal, 1));
	nothing_is_open("compare");
}

#define USUAL(...)                                                                 \
	{                                                                          \
		.width = 200, .height = 150, .quality = 85, .seed = 1, __VA_ARGS__ \
	}
static const struct drive_picture samplings[] = {
	USUAL(.h = 1, .v = 1),
	USUAL(.h = 2, .v = 1),
	USUAL(.h = 2, .v = 2),
	USUAL(.h = 1, .v = 2, .restart = 3),
	USUAL(.h = 4, .v = 1),
	USUAL(.h = 2, .v = 4),
	USUAL(.h = 1, .v = 1, .gray = true),
	USUAL(.h = 2, .v = 2, .progressive = true),
	USUAL(.h = 1, .v = 1, .gray = true, .progressive = true),
};

#define SAMPLINGS (sizeof(samplings) / sizeof(samplings[0]))

Test(decodes, every_sampling_returns_the_rows_per_call_of_the_library)
{
	static const unsigned rows[] = {1, 2, 3, 8, 16, 70, 0};
	for (unsigned i = 0; i < SAMPLINGS; i++) {
		encode_other(&samplings[i]);
		for (unsigned r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
			struct drive_plan plan = whole;
			plan.rows = rows[r];
			compare(&plan, true);
			plan.scale = 2;
			compare(&plan, true);
		}
	}
}

Test(decodes, every_way_to_feed_sees_the_same)
{
	static const size_t chunks[] = {1, 37, 512, 4096};
	for (unsigned i = 0; i < SAMPLINGS; i += 2) {
		encode_other(&samplings[i]);
		for (unsigned c = 0; c < 4; c++) {
			for (int feed = DRIVE_PULL; feed <= DRIVE_SUSPEND; feed++) {
				struct drive_plan plan = whole;
				plan.feed = (enum drive_feed)feed;
				plan.first = plan.chunk = chunks[c];
				compare(&plan, chunks[c] > 512);
			}
		}
	}
}

Test(decodes, small_windows_after_a_large_one_stay_in_the_reservation)
{
	struct drive_picture picture = usual;
	picture.width = picture.height = 500;
	picture.quality = 95;
	encode_other(&picture);
	struct drive_plan plan = whole;
	plan.feed = DRIVE_PULL;
	plan.first = 65536;
	plan.chunk = 250;
	cr_assert(gt(sz, bytes, 120000));
	compare(&plan, false);
}

/* Where marker @code begins in @data. */
static size_t marker_at(uint8_t code)
{
	for (size_t i = 2; i + 4 < bytes && data[i] == 0xff;
		i += 2 + data[i + 2] * 256u + data[i + 3])
		if (data[i + 1] == code)
			return i;
	cr_fatal("no such marker");
	return 0;
}

Test(decodes, a_first_window_shown_by_init_source_is_part_of_the_stream)
{
	struct drive_picture picture = usual;
	picture.restart = 3;
	encode_other(&picture);
	/* The first window ends before SOS, so jpeg_read_header() asks for the second. */
	struct drive_plan plan = whole;
	plan.feed = DRIVE_PULL;
	plan.init_fills = true;
	plan.first = marker_at(0xda);
	plan.chunk = bytes;
	fake_store_clear();
	(void)drive(&drive_hooked, &plan, data, bytes);
	data[marker_at(0xdd) + 5] = 4;
	struct drive_log expected = drive(&drive_real, &plan, data, bytes);
	struct drive_log seen = drive(&drive_hooked, &plan, data, bytes);
	same(&expected, &seen, "other restart interval");
	nothing_is_open("init_source");
}

Test(decodes, rows_that_lie_on_each_other_are_not_published)
{
	struct drive_plan plan = whole;
	plan.rows = 8;
	plan.same_row = true;
	fake_store_clear();
	(void)drive(&drive_hooked, &plan, data, bytes);
	plan.same_row = false;
	struct drive_log expected = drive(&drive_real, &plan, data, bytes);
	struct drive_log seen = drive(&drive_hooked, &plan, data, bytes);
	same(&expected, &seen, "after one who read all rows into one");
	(void)drive(&drive_hooked, &plan, data, bytes);
	plan.same_row = true;
	fake.verify = true;
	(void)drive(&drive_hooked, &plan, data, bytes);
	nothing_is_open("same row");
}

Test(decodes, warnings_that_a_program_clears_are_warnings)
{
	struct drive_picture picture = usual;
	picture.restart = 3; /* the library finds its way again, and ends without a warning */
	encode_other(&picture);
	memset(data + bytes / 2, 0x55, 40);
	struct drive_plan plan = whole;
	plan.clear_warnings = true;
	struct drive_log expected = drive(&drive_real, &plan, data, bytes);
	cr_assert(gt(long, expected.warnings, 0));
	compare(&plan, false);
	cr_expect(eq(uint, fake.published, 0));
	/* Several scans are read as a whole before the first row. */
	picture.progressive = true;
	encode_other(&picture);
	memset(data + bytes / 2, 0x55, 40);
	compare(&plan, false);
	cr_expect(eq(uint, fake.published, 0));
}

Test(decodes, rows_of_two_bytes_per_pixel_are_not_overrun)
{
	struct drive_plan plan = whole;
	plan.colour = JCS_RGB565;
	compare(&plan, false);
	cr_expect(eq(uint, fake.published, 0));
}

Test(decodes, a_stream_that_ends_differently_is_decoded_from_its_beginning)
{
	struct drive_picture picture = usual;
	for (int progressive = 0; progressive < 2; progressive++) {
		picture.progressive = progressive;
		encode_other(&picture);
		for (int feed = DRIVE_PULL; feed <= DRIVE_SUSPEND; feed++) {
			struct drive_plan plan = {.feed = (enum drive_feed)feed,
				.first = 4096,
				.chunk = 700,
				.rows = 1,
				.colour = -1};
			for (size_t at = bytes - 4; at > 5000; at -= 1500) {
				fake_store_clear();
				(void)drive(&drive_hooked, &plan, data, bytes);
				cr_expect(eq(uint, fake.published, 1));
				data[at] ^= 1;
				struct drive_log expected =
					drive(&drive_real, &plan, data, bytes);
				struct drive_log seen =
					drive(&drive_hooked, &plan, data, bytes);
				same(&expected, &seen, "other end");
				data[at] ^= 1;
				nothing_is_open("other end");
			}
		}
	}
}

/* ---- damaged records --------------------------------------------------------------------- */

Test(decodes, a_damaged_record_is_never_believed)
{
	struct drive_plan plan = whole;
	plan.rows = 8;
	struct drive_log expected = drive(&drive_real, &plan, data, bytes);
	fake_store_clear();
	(void)drive(&drive_hooked, &plan, data, bytes);
	uint64_t record_bytes;
	uint8_t *record = fake_store_last(&record_bytes);
	uint64_t trailer = (UINT64_C(200) * 3 * 150 + 63) / 64 * 64;
	/* Fields that are copied into the object as they are, are not part of this. */
	for (uint64_t at = trailer; at < trailer + 48; at++) {
		for (int bit = 0; bit < 8; bit += 3) {
			record[at] ^= (uint8_t)(1 << bit);
			struct drive_log seen = drive(&drive_hooked, &plan, data, bytes);
			cr_expect(eq(u64, expected.pixels, seen.pixels), "byte %lu",
				at - trailer);
			cr_expect(eq(u64, expected.sequence, seen.sequence));
			record[at] ^= (uint8_t)(1 << bit);
		}
	}
	nothing_is_open("damaged");
}
