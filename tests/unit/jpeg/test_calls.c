/* SPDX-License-Identifier: MIT */
/* Calls on one object in orders that few programs choose, which libjpeg allows all the same. */
#include "fixture.h"

#include <stdlib.h>
#include <string.h>

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
