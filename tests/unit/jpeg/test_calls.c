/* SPDX-License-Identifier: MIT */
/* Whole decodes through the hooks against the library's own: nothing may be seen to differ. */
#include "drive.h"
#include "fake_store.h"

#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static const struct drive_picture usual = {
	.width = 200, .height = 150, .quality = 85, .h = 2, .v = 2, .seed = 1};
static const struct drive_plan whole = {.rows = 1, .colour = -1};

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

static void nothing_is_open(const char *who)
{
	cr_expect(eq(uint, fake.leases, 0), "%s: leases", who);
	cr_expect(eq(uint, fake.claims, 0), "%s: claims", who);
	cr_expect(not(fake.overrun), "%s: wrote behind its reservation", who);
	cr_expect(eq(uint, fake.different, 0), "%s: verification", who);
}

/* The library, a producer, a consumer and one that verifies; in the end nothing is held. */
static void compare(
	const struct drive_plan *plan, const uint8_t *data, size_t bytes, bool clean)
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

static const struct {
	int h, v;
	bool gray, progressive;
	unsigned restart;
} samplings[] = {
	{1, 1, false, false, 0},
	{2, 1, false, false, 0},
	{2, 2, false, false, 0},
	{1, 2, false, false, 3},
	{4, 1, false, false, 0},
	{2, 4, false, false, 0},
	{1, 1, true, false, 0},
	{2, 2, false, true, 0},
	{1, 1, true, true, 0},
};

static struct drive_picture picture_of(unsigned i)
{
	struct drive_picture picture = usual;
	picture.h = samplings[i].h;
	picture.v = samplings[i].v;
	picture.gray = samplings[i].gray;
	picture.progressive = samplings[i].progressive;
	picture.restart = samplings[i].restart;
	return picture;
}

#define SAMPLINGS (sizeof(samplings) / sizeof(samplings[0]))

Test(calls, every_sampling_returns_the_rows_per_call_of_the_library)
{
	static const unsigned rows[] = {1, 2, 3, 8, 16, 70, 0};
	for (unsigned i = 0; i < SAMPLINGS; i++) {
		struct drive_picture picture = picture_of(i);
		size_t bytes;
		uint8_t *data = drive_encode(&picture, &bytes);
		for (unsigned r = 0; r < sizeof(rows) / sizeof(rows[0]); r++) {
			struct drive_plan plan = whole;
			plan.rows = rows[r];
			compare(&plan, data, bytes, true);
			plan.scale = 2;
			compare(&plan, data, bytes, true);
		}
		free(data);
	}
}

Test(calls, every_way_to_feed_sees_the_same)
{
	static const size_t chunks[] = {1, 37, 512, 4096};
	for (unsigned i = 0; i < SAMPLINGS; i += 2) {
		struct drive_picture picture = picture_of(i);
		size_t bytes;
		uint8_t *data = drive_encode(&picture, &bytes);
		for (unsigned c = 0; c < 4; c++) {
			for (int feed = DRIVE_PULL; feed <= DRIVE_SUSPEND; feed++) {
				struct drive_plan plan = whole;
				plan.feed = (enum drive_feed)feed;
				plan.first = plan.chunk = chunks[c];
				compare(&plan, data, bytes, chunks[c] > 512);
			}
		}
		free(data);
	}
}

Test(calls, small_windows_after_a_large_one_stay_in_the_reservation)
{
	struct drive_picture picture = usual;
	picture.width = picture.height = 500;
	picture.quality = 95;
	size_t bytes;
	uint8_t *data = drive_encode(&picture, &bytes);
	struct drive_plan plan = whole;
	plan.feed = DRIVE_PULL;
	plan.first = 65536;
	plan.chunk = 250;
	cr_assert(gt(sz, bytes, 120000));
	compare(&plan, data, bytes, false);
	free(data);
}

/* Where marker @code begins in @data. */
static size_t marker_at(const uint8_t *data, size_t bytes, uint8_t code)
{
	for (size_t i = 2; i + 4 < bytes && data[i] == 0xff;
		i += 2 + data[i + 2] * 256u + data[i + 3])
		if (data[i + 1] == code)
			return i;
	cr_fatal("no such marker");
	return 0;
}

Test(calls, a_first_window_shown_by_init_source_is_part_of_the_stream)
{
	struct drive_picture picture = usual;
	picture.restart = 3;
	size_t bytes;
	uint8_t *data = drive_encode(&picture, &bytes);
	/* The first window ends before SOS, so jpeg_read_header() asks for the second. */
	struct drive_plan plan = whole;
	plan.feed = DRIVE_PULL;
	plan.init_fills = true;
	plan.first = marker_at(data, bytes, 0xda);
	plan.chunk = bytes;
	fake_store_clear();
	(void)drive(&drive_hooked, &plan, data, bytes);
	data[marker_at(data, bytes, 0xdd) + 5] = 4;
	struct drive_log expected = drive(&drive_real, &plan, data, bytes);
	struct drive_log seen = drive(&drive_hooked, &plan, data, bytes);
	same(&expected, &seen, "other restart interval");
	nothing_is_open("init_source");
	free(data);
}

Test(calls, rows_that_lie_on_each_other_are_not_published)
{
	size_t bytes;
	uint8_t *data = drive_encode(&usual, &bytes);
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
	free(data);
}

Test(calls, warnings_that_a_program_clears_are_warnings)
{
	size_t bytes;
	struct drive_picture picture = usual;
	picture.restart = 3; /* the library finds its way again, and ends without a warning */
	uint8_t *data = drive_encode(&picture, &bytes);
	memset(data + bytes / 2, 0x55, 40);
	struct drive_plan plan = whole;
	plan.clear_warnings = true;
	struct drive_log expected = drive(&drive_real, &plan, data, bytes);
	cr_assert(gt(long, expected.warnings, 0));
	compare(&plan, data, bytes, false);
	cr_expect(eq(uint, fake.published, 0));
	free(data);
	/* Several scans are read as a whole before the first row. */
	picture.progressive = true;
	data = drive_encode(&picture, &bytes);
	memset(data + bytes / 2, 0x55, 40);
	compare(&plan, data, bytes, false);
	cr_expect(eq(uint, fake.published, 0));
	free(data);
}

Test(calls, rows_of_two_bytes_per_pixel_are_not_overrun)
{
	size_t bytes;
	uint8_t *data = drive_encode(&usual, &bytes);
	struct drive_plan plan = whole;
	plan.colour = JCS_RGB565;
	compare(&plan, data, bytes, false);
	cr_expect(eq(uint, fake.published, 0));
	free(data);
}

/* ---- one object, several calls ----------------------------------------------------------- */

struct object {
	struct jpeg_decompress_struct cinfo;
	struct drive_errors errors;
	struct drive_source source;
	uint8_t row[4096];
};

static struct object *object_create(
	const struct drive_plan *plan, const uint8_t *data, size_t bytes)
{
	struct object *object = calloc(1, sizeof(*object));
	drive_errors_init(&object->errors, &object->cinfo);
	drive_hooked.create(&object->cinfo, JPEG_LIB_VERSION, sizeof(object->cinfo));
	drive_source_init(&object->source, &object->cinfo, plan, data, bytes);
	object->source.escape = &object->errors.escape;
	return object;
}

static void object_destroy(struct object *object)
{
	drive_hooked.destroy(&object->cinfo);
	drive_source_finish(&object->source);
	free(object);
}

static unsigned object_read(struct object *object)
{
	JSAMPROW row = object->row;
	return drive_hooked.read(&object->cinfo, &row, 1);
}

Test(calls, a_source_that_escapes_finds_its_own_functions)
{
	size_t bytes;
	uint8_t *data = drive_encode(&usual, &bytes);
	struct drive_plan plan = {.feed = DRIVE_PULL, .first = 4096, .chunk = 512};
	fake_store_clear();
	struct object *object = object_create(&plan, data, bytes);
	struct jpeg_source_mgr before = object->source.base;
	if (setjmp(object->errors.escape) == 0) {
		drive_hooked.read_header(&object->cinfo, TRUE);
		drive_hooked.start(&object->cinfo);
		object->source.jump = true;
		while (object_read(object) == 1)
			continue;
		cr_fatal("the source did not escape");
	}
	cr_expect(eq(ptr, (void *)before.fill_input_buffer,
		(void *)object->source.base.fill_input_buffer));
	cr_expect(eq(ptr, (void *)before.term_source, (void *)object->source.base.term_source));
	/* The program goes on with the object all the same: what follows is not published. */
	object->source.jump = false;
	while (object->cinfo.output_scanline < object->cinfo.output_height)
		if (object_read(object) == 0)
			break;
	drive_hooked.finish(&object->cinfo);
	cr_expect(eq(uint, fake.published, 0));
	object_destroy(object);
	nothing_is_open("escape");
	free(data);
}

/* The term_source of a source that is gone with it. */
static void term_and_free(j_decompress_ptr cinfo)
{
	memset(cinfo->src, 0x5c, sizeof(*cinfo->src));
}

Test(calls, a_source_that_ends_in_term_source_is_left_alone)
{
	size_t bytes;
	uint8_t *data = drive_encode(&usual, &bytes);
	for (int turn = 0; turn < 3; turn++) {
		if (turn == 0)
			fake_store_clear();
		fake.verify = turn == 2;
		struct object *object = object_create(&whole, data, bytes);
		struct jpeg_source_mgr gone;
		memset(&gone, 0x5c, sizeof(gone));
		object->source.base.term_source = term_and_free;
		drive_hooked.read_header(&object->cinfo, TRUE);
		drive_hooked.start(&object->cinfo);
		while (object->cinfo.output_scanline < object->cinfo.output_height)
			cr_assert(eq(uint, object_read(object), 1));
		drive_hooked.finish(&object->cinfo);
		cr_expect(memcmp(&gone, &object->source.base, sizeof(gone)) == 0, "turn %d",
			turn);
		object_destroy(object);
	}
	cr_expect(eq(uint, fake.shared, 1));
	nothing_is_open("term");
	free(data);
}

/* Record a picture fed in pieces, then show the first piece only: the hook waits for more. */
static struct object *matching(uint8_t *data, size_t bytes, const struct drive_plan *plan)
{
	fake_store_clear();
	(void)drive(&drive_hooked, plan, data, bytes);
	cr_assert(eq(uint, fake.published, 1));
	struct object *object = object_create(plan, data, bytes);
	cr_assert(eq(int, drive_hooked.read_header(&object->cinfo, TRUE), JPEG_HEADER_OK));
	return object;
}

Test(calls, rows_may_be_read_whatever_start_decompress_said)
{
	size_t bytes;
	uint8_t *data = drive_encode(&usual, &bytes);
	struct drive_plan plan = {
		.feed = DRIVE_SUSPEND, .first = 4096, .chunk = 1024, .rows = 1, .colour = -1};
	struct drive_log expected = drive(&drive_real, &plan, data, bytes);
	struct object *object = matching(data, bytes, &plan);
	volatile uint64_t pixels = 0;
	if (setjmp(object->errors.escape) == 0) {
		/* A single scan needs no input to start, so this program does not look. */
		(void)drive_hooked.start(&object->cinfo);
		while (object->cinfo.output_scanline < object->cinfo.output_height) {
			if (object_read(object) == 1)
				pixels = drive_hash(pixels, object->row, 200 * 3);
			else
				cr_assert(drive_source_feed(&object->source));
		}
		while (!drive_hooked.finish(&object->cinfo))
			cr_assert(drive_source_feed(&object->source));
	} else {
		cr_fail("error %d", object->errors.base.msg_code);
	}
	cr_expect(eq(u64, pixels, expected.pixels));
	object_destroy(object);
	nothing_is_open("ignored suspension");
	free(data);
}

Test(calls, a_stream_that_ends_differently_is_decoded_from_its_beginning)
{
	size_t bytes;
	struct drive_picture picture = usual;
	for (int progressive = 0; progressive < 2; progressive++) {
		picture.progressive = progressive;
		uint8_t *data = drive_encode(&picture, &bytes);
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
		free(data);
	}
}

Test(calls, any_call_ends_a_wait_for_more_of_the_stream)
{
	size_t bytes;
	uint8_t *data = drive_encode(&usual, &bytes);
	struct drive_plan plan = {
		.feed = DRIVE_SUSPEND, .first = 4096, .chunk = 1024, .rows = 1, .colour = -1};
	for (volatile int call = 0; call < 4; call++) {
		struct object *volatile object = matching(data, bytes, &plan);
		if (setjmp(object->errors.escape) == 0) {
			(void)drive_hooked.start(&object->cinfo);
			if (call == 0)
				(void)drive_hooked.consume_input(&object->cinfo);
			else if (call == 1)
				(void)drive_hooked.input_complete(&object->cinfo);
			else if (call == 2)
				drive_hooked.abort(&object->cinfo);
			else if (call == 3)
				(void)drive_hooked.finish(&object->cinfo);
			cr_expect(call != 3, "finished an image without rows");
		} else {
			cr_expect(call == 3, "an error");
		}
		object_destroy(object);
		nothing_is_open("call while matching");
	}
	free(data);
}

Test(calls, an_image_that_is_being_served_goes_back_to_the_library)
{
	size_t bytes;
	uint8_t *data = drive_encode(&usual, &bytes);
	static const enum drive_feed feeds[] = {DRIVE_WHOLE, DRIVE_PULL};
	struct drive_plan plan = {.first = 4096, .chunk = 1024, .rows = 1, .colour = -1};
	for (int f = 0; f < 2; f++) {
		plan.feed = feeds[f];
		struct drive_log expected = drive(&drive_real, &plan, data, bytes);
		for (unsigned after = 0; after < 150; after += 37) {
			struct object *object = matching(data, bytes, &plan);
			uint64_t pixels = 0;
			cr_assert(drive_hooked.start(&object->cinfo));
			for (unsigned y = 0; y < 150; y++) {
				if (y == after)
					cr_expect(eq(uint,
						drive_hooked.read(&object->cinfo, NULL, 0), 0));
				cr_assert(eq(uint, object_read(object), 1));
				pixels = drive_hash(pixels, object->row, 200 * 3);
			}
			cr_expect(drive_hooked.finish(&object->cinfo));
			cr_expect(eq(u64, pixels, expected.pixels));
			cr_expect(eq(
				sz, drive_source_position(&object->source), expected.position));
			object_destroy(object);
			nothing_is_open("hand back");
		}
	}
	free(data);
}

/* The same calls through the library and through the hooks, on an image that is served. */
static uint64_t skip_in_the_middle(const struct drive_calls *calls,
	const struct drive_plan *plan, unsigned skip_at, const uint8_t *data, size_t bytes)
{
	struct object *object = calloc(1, sizeof(*object));
	uint64_t seen = 0;
	JSAMPROW row = object->row;
	drive_errors_init(&object->errors, &object->cinfo);
	calls->create(&object->cinfo, JPEG_LIB_VERSION, sizeof(object->cinfo));
	drive_source_init(&object->source, &object->cinfo, plan, data, bytes);
	calls->read_header(&object->cinfo, TRUE);
	cr_assert(calls->start(&object->cinfo));
	while (object->cinfo.output_scanline < object->cinfo.output_height) {
		if (object->cinfo.output_scanline == skip_at) {
			JDIMENSION skipped = calls->skip(&object->cinfo, 20);
			seen = drive_hash(seen, &skipped, sizeof(skipped));
		}
		cr_assert(eq(uint, calls->read(&object->cinfo, &row, 1), 1));
		seen = drive_hash(seen, object->row, 200 * 3);
	}
	cr_expect(calls->finish(&object->cinfo));
	seen = drive_hash(seen, &object->errors.base.num_warnings, sizeof(long));
	calls->destroy(&object->cinfo);
	drive_source_finish(&object->source);
	free(object);
	return seen;
}

Test(calls, skipped_scanlines_of_a_served_image_are_the_librarys)
{
	size_t bytes;
	uint8_t *data = drive_encode(&usual, &bytes);
	struct drive_plan plan = {.first = 4096, .chunk = 1024, .rows = 1, .colour = -1};
	for (int feed = DRIVE_WHOLE; feed <= DRIVE_PULL; feed++) {
		plan.feed = (enum drive_feed)feed;
		fake_store_clear();
		(void)drive(&drive_hooked, &plan, data, bytes);
		for (unsigned at = 0; at < 100; at += 33) {
			uint64_t expected =
				skip_in_the_middle(&drive_real, &plan, at, data, bytes);
			uint64_t seen =
				skip_in_the_middle(&drive_hooked, &plan, at, data, bytes);
			cr_expect(eq(u64, expected, seen), "feed %d, row %u", feed, at);
		}
		nothing_is_open("skip");
	}
	free(data);
}

Test(calls, two_images_in_one_stream_are_read_one_after_the_other)
{
	size_t a_bytes, b_bytes;
	struct drive_picture other = usual;
	other.seed = 7;
	uint8_t *a = drive_encode(&usual, &a_bytes), *b = drive_encode(&other, &b_bytes);
	uint8_t *both = malloc(a_bytes + b_bytes);
	memcpy(both, a, a_bytes);
	memcpy(both + a_bytes, b, b_bytes);
	struct drive_log expected = drive(&drive_real, &whole, b, b_bytes);
	struct drive_plan plan = {.feed = DRIVE_PULL, .first = 4096, .chunk = 4096};
	fake_store_clear();
	for (int turn = 0; turn < 2; turn++) {
		struct object *object = object_create(&plan, both, a_bytes + b_bytes);
		uint64_t pixels = 0;
		for (int image = 0; image < 2; image++) {
			pixels = 0;
			drive_hooked.read_header(&object->cinfo, TRUE);
			cr_assert(drive_hooked.start(&object->cinfo));
			while (object->cinfo.output_scanline < 150) {
				cr_assert(eq(uint, object_read(object), 1));
				pixels = drive_hash(pixels, object->row, 200 * 3);
			}
			cr_assert(drive_hooked.finish(&object->cinfo));
		}
		cr_expect(eq(u64, pixels, expected.pixels));
		cr_expect(eq(sz, drive_source_position(&object->source), a_bytes + b_bytes));
		object_destroy(object);
	}
	cr_expect(eq(uint, fake.shared, 2));
	nothing_is_open("two images");
	free(both);
	free(a);
	free(b);
}

/* ---- damaged records --------------------------------------------------------------------- */

Test(calls, a_damaged_record_is_never_believed)
{
	size_t bytes;
	uint8_t *data = drive_encode(&usual, &bytes);
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
	free(data);
}
