/* SPDX-License-Identifier: MIT */
/* Calls on one object in orders that few programs choose, which libjpeg allows all the same. */
#include "hooks/jpeg/decoder.h"
#include "shim/elf.h"
#include "hooks/jpeg/abi.h"
#include "fixture.h"

struct object {
	struct jpeg_decompress_struct cinfo;
	struct drive_errors errors;
	struct drive_source source;
	uint8_t row[4096];
};

static struct object *object_create(
	const struct drive_plan *plan, const uint8_t *stream, size_t length)
{
	struct object *object = calloc(1, sizeof(*object));
	drive_errors_init(&object->errors, &object->cinfo);
	drive_hooked.create(&object->cinfo, JPEG_LIB_VERSION, sizeof(object->cinfo));
	drive_source_init(&object->source, &object->cinfo, plan, stream, length);
	object->source.escape = &object->errors.escape;
	return object;
}

static void object_destroy(struct object *object)
{
	drive_hooked.destroy(&object->cinfo);
	drive_source_finish(&object->source);
	free(object);
}

TestSuite(calls, .init = encode, .fini = free_data);

static unsigned object_read(struct object *object)
{
	JSAMPROW row = object->row;
	return drive_hooked.read(&object->cinfo, &row, 1);
}

Test(calls, a_source_that_escapes_finds_its_own_functions)
{
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
}

/* The term_source of a source that is gone with it. */
static void term_and_free(j_decompress_ptr cinfo)
{
	memset(cinfo->src, 0x5c, sizeof(*cinfo->src));
}

Test(calls, a_source_that_ends_in_term_source_is_left_alone)
{
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
}

/* Record a picture fed in pieces, then show the first piece only: the hook waits for more. */
static struct object *matching(const struct drive_plan *plan)
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
	struct drive_plan plan = {
		.feed = DRIVE_SUSPEND, .first = 4096, .chunk = 1024, .rows = 1, .colour = -1};
	struct drive_log expected = drive(&drive_real, &plan, data, bytes);
	struct object *object = matching(&plan);
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
}

Test(calls, any_call_ends_a_wait_for_more_of_the_stream)
{
	struct drive_plan plan = {
		.feed = DRIVE_SUSPEND, .first = 4096, .chunk = 1024, .rows = 1, .colour = -1};
	for (volatile int call = 0; call < 4; call++) {
		struct object *volatile object = matching(&plan);
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
}

Test(calls, an_image_that_is_being_served_goes_back_to_the_library)
{
	static const enum drive_feed feeds[] = {DRIVE_WHOLE, DRIVE_PULL};
	struct drive_plan plan = {.first = 4096, .chunk = 1024, .rows = 1, .colour = -1};
	for (int f = 0; f < 2; f++) {
		plan.feed = feeds[f];
		struct drive_log expected = drive(&drive_real, &plan, data, bytes);
		for (unsigned after = 0; after < 150; after += 37) {
			struct object *object = matching(&plan);
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
}

/* The same calls through the library and through the hooks, on an image that is served. */
static uint64_t skip_in_the_middle(
	const struct drive_calls *calls, const struct drive_plan *plan, unsigned skip_at)
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
	struct drive_plan plan = {.first = 4096, .chunk = 1024, .rows = 1, .colour = -1};
	for (int feed = DRIVE_WHOLE; feed <= DRIVE_PULL; feed++) {
		plan.feed = (enum drive_feed)feed;
		fake_store_clear();
		(void)drive(&drive_hooked, &plan, data, bytes);
		for (unsigned at = 0; at < 100; at += 33) {
			uint64_t expected = skip_in_the_middle(&drive_real, &plan, at);
			uint64_t seen = skip_in_the_middle(&drive_hooked, &plan, at);
			cr_expect(eq(u64, expected, seen), "feed %d, row %u", feed, at);
		}
		nothing_is_open("skip");
	}
}

Test(calls, two_images_in_one_stream_are_read_one_after_the_other)
{
	size_t b_bytes;
	struct drive_picture other = usual;
	other.seed = 7;
	uint8_t *b = drive_encode(&other, &b_bytes), *both = malloc(bytes + b_bytes);
	memcpy(both, data, bytes);
	memcpy(both + bytes, b, b_bytes);
	struct drive_log expected = drive(&drive_real, &whole, b, b_bytes);
	struct drive_plan plan = {.feed = DRIVE_PULL, .first = 4096, .chunk = 4096};
	fake_store_clear();
	for (int turn = 0; turn < 2; turn++) {
		struct object *object = object_create(&plan, both, bytes + b_bytes);
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
		cr_expect(eq(sz, drive_source_position(&object->source), bytes + b_bytes));
		object_destroy(object);
	}
	cr_expect(eq(uint, fake.shared, 2));
	nothing_is_open("two images");
	free(both);
	free(b);
}

/* The hook's parts one by one: the key, the table of objects, loaded libraries. */

/* ---- key --------------------------------------------------------------------------------- */

#define SETTINGS 10

/* Change one thing that decides about pixels; 0 changes nothing. */
static void change(struct jpeg_decompress_struct *cinfo, int setting)
{
	switch (setting) {
	case 1:
		cinfo->out_color_space = JCS_GRAYSCALE;
		break;
	case 2:
		cinfo->out_color_space = JCS_EXT_BGR;
		break;
	case 3:
		cinfo->scale_denom = 2;
		break;
	case 4:
		cinfo->dct_method = JDCT_IFAST;
		break;
	case 5:
		cinfo->do_fancy_upsampling = FALSE;
		break;
	case 6:
		cinfo->do_block_smoothing = FALSE;
		break;
	case 7:
		cinfo->jpeg_color_space = JCS_RGB;
		break;
	case 8:
		cinfo->quant_tbl_ptrs[0]->quantval[5] ^= 1;
		break;
	case 9:
		cinfo->ac_huff_tbl_ptrs[0]->huffval[0] ^= 1;
		break;
	default:
		break;
	}
}

static struct ts_key key_with(int setting, const uint8_t *stream)
{
	struct jpeg_decompress_struct cinfo;
	struct drive_errors errors;
	struct drive_source source;
	struct drive_plan plan = {.rows = 1, .colour = -1};
	fake_store_clear();
	drive_errors_init(&errors, &cinfo);
	drive_hooked.create(&cinfo, JPEG_LIB_VERSION, sizeof(cinfo));
	drive_source_init(&source, &cinfo, &plan, stream, bytes);
	drive_hooked.read_header(&cinfo, TRUE);
	change(&cinfo, setting);
	/* A table that makes no sense ends in an error, after the key was asked for. */
	if (setjmp(errors.escape) == 0)
		drive_hooked.start(&cinfo);
	drive_hooked.destroy(&cinfo);
	drive_source_finish(&source);
	cr_expect(eq(uint, fake.claims, 0));
	return fake.last_key;
}

TestSuite(key, .init = encode, .fini = free_data);

Test(key, every_setting_changes_it_and_nothing_else_does)
{
	struct ts_key keys[SETTINGS + 1];
	for (int i = 0; i < SETTINGS; i++)
		keys[i] = key_with(i, data);
	setenv("JSIMD_FORCENONE", "1", 1);
	keys[SETTINGS] = key_with(0, data);
	unsetenv("JSIMD_FORCENONE");
	for (int i = 0; i <= SETTINGS; i++)
		for (int j = 0; j < i; j++)
			cr_expect(memcmp(&keys[i], &keys[j], sizeof(keys[i])) != 0,
				"settings %d and %d", i, j);

	uint8_t *elsewhere = malloc(bytes);
	memcpy(elsewhere, data, bytes);
	struct ts_key again = key_with(0, elsewhere);
	cr_expect(memcmp(&again, &keys[0], sizeof(again)) == 0,
		"the same key for the same image");
	elsewhere[bytes - 100] ^= 1;
	again = key_with(0, elsewhere);
	cr_expect(memcmp(&again, &keys[0], sizeof(again)) != 0, "another stream");
	free(elsewhere);
}

/* ---- table of objects -------------------------------------------------------------------- */

Test(decoders, a_full_table_refuses_and_empties_again)
{
	static struct ts_jpeg_decompress objects[2000];
	static struct ts_decoder *made[2000];
	unsigned followed = 0;
	for (unsigned i = 0; i < 2000; i++) {
		made[i] = ts_decoder_create(&objects[i], NULL, 62);
		followed += made[i] != NULL;
	}
	cr_expect(gt(uint, followed, 256));
	cr_expect(lt(uint, followed, 2000));
	for (unsigned i = 0; i < 2000; i++)
		cr_assert(eq(ptr, ts_decoder_find(&objects[i]), made[i]), "object %u", i);
	ts_decoder_destroy(ts_decoder_find(&objects[0]));
	cr_expect(ne(ptr, ts_decoder_create(&objects[0], NULL, 80), NULL));
	cr_expect(eq(int, ts_decoder_find(&objects[0])->version, 80));
	for (unsigned i = 0; i < 2000; i++)
		if (ts_decoder_find(&objects[i]))
			ts_decoder_destroy(ts_decoder_find(&objects[i]));
	for (unsigned i = 0; i < 2000; i++)
		cr_assert(eq(ptr, ts_decoder_find(&objects[i]), NULL));
}

/* ---- loaded libraries -------------------------------------------------------------------- */

Test(libraries, the_function_found_is_the_one_the_loader_bound)
{
	struct ts_elf_object self, library;
	cr_assert(ts_elf_containing((uintptr_t)&drive_encode, &self));
	cr_assert(ts_elf_provider(
		&self, "jpeg_CreateDecompress", (uintptr_t)&drive_encode, &library));
	cr_expect(eq(u64, ts_elf_function(&library, "jpeg_CreateDecompress"),
		(uintptr_t)&jpeg_CreateDecompress));
	cr_expect(eq(u64, ts_elf_function(&library, "jpeg_read_scanlines"),
		(uintptr_t)&jpeg_read_scanlines));
	cr_expect(eq(u64, ts_elf_function(&library, "jpeg_no_such_function"), 0));

	struct ts_hash128 of_library = ts_elf_identity(&library);
	struct ts_hash128 again = ts_elf_identity(&library), of_self = ts_elf_identity(&self);
	cr_expect(memcmp(&of_library, &again, sizeof(again)) == 0);
	cr_expect(memcmp(&of_library, &of_self, sizeof(of_self)) != 0);

	uintptr_t low, high, inside = (uintptr_t)&jpeg_read_scanlines;
	ts_elf_code(&library, &low, &high);
	cr_expect(low <= inside && inside < high);
}

Test(libraries, an_object_is_known_by_its_memory_manager)
{
	struct jpeg_decompress_struct cinfo;
	struct jpeg_error_mgr errors;
	cinfo.err = jpeg_std_error(&errors);
	jpeg_create_decompress(&cinfo);
	const struct ts_jpeg_library *library =
		ts_jpeg_library_of((const struct ts_jpeg_common *)&cinfo, NULL);
	cr_assert(ne(ptr, (void *)library, NULL));
	cr_expect(library->finish_decompress ==
		  (int (*)(struct ts_jpeg_decompress *))(uintptr_t)&jpeg_finish_decompress);
	cr_expect(eq(ptr, (void *)library,
		(void *)ts_jpeg_library_of_caller(
			(const void *)(uintptr_t)&drive_encode, "jpeg_CreateDecompress")));
	jpeg_destroy_decompress(&cinfo);
}

/* Our picture of libjpeg's structures against the installed jpeglib.h. */

#define SAME(theirs, ours, field) \
	cr_expect(eq(sz, offsetof(theirs, field), offsetof(ours, field)), "field " #field)

/* Of the decompression object. */
/* clang-format off */
#define FIELDS(X)                                                                    \
	X(err) X(mem) X(progress) X(client_data) X(is_decompressor) X(global_state)  \
	X(src) X(image_width) X(image_height) X(num_components) X(jpeg_color_space)  \
	X(out_color_space) X(scale_num) X(scale_denom) X(output_gamma)               \
	X(buffered_image) X(raw_data_out) X(dct_method) X(do_fancy_upsampling)       \
	X(do_block_smoothing) X(quantize_colors) X(dither_mode) X(two_pass_quantize) \
	X(desired_number_of_colors) X(enable_1pass_quant) X(enable_external_quant)   \
	X(enable_2pass_quant) X(output_width) X(output_height)                       \
	X(out_color_components) X(output_components) X(rec_outbuf_height)            \
	X(actual_number_of_colors) X(colormap) X(output_scanline)                    \
	X(input_scan_number) X(input_iMCU_row) X(output_scan_number)                 \
	X(output_iMCU_row) X(coef_bits) X(quant_tbl_ptrs) X(dc_huff_tbl_ptrs)        \
	X(ac_huff_tbl_ptrs) X(data_precision) X(comp_info)
/* clang-format on */

Test(abi, fields_of_the_decompression_object_lie_where_jpeglib_says)
{
#define FIELD(name) SAME(struct jpeg_decompress_struct, struct ts_jpeg_decompress, name);
	FIELDS(FIELD)
#undef FIELD
}

Test(abi, fields_of_the_managers_lie_where_jpeglib_says)
{
	SAME(struct jpeg_error_mgr, struct ts_jpeg_error_mgr, error_exit);
	SAME(struct jpeg_error_mgr, struct ts_jpeg_error_mgr, emit_message);
	SAME(struct jpeg_error_mgr, struct ts_jpeg_error_mgr, reset_error_mgr);
	SAME(struct jpeg_error_mgr, struct ts_jpeg_error_mgr, trace_level);
	SAME(struct jpeg_error_mgr, struct ts_jpeg_error_mgr, num_warnings);
	SAME(struct jpeg_source_mgr, struct ts_jpeg_source_mgr, next_input_byte);
	SAME(struct jpeg_source_mgr, struct ts_jpeg_source_mgr, bytes_in_buffer);
	SAME(struct jpeg_source_mgr, struct ts_jpeg_source_mgr, fill_input_buffer);
	SAME(struct jpeg_source_mgr, struct ts_jpeg_source_mgr, skip_input_data);
	SAME(struct jpeg_source_mgr, struct ts_jpeg_source_mgr, term_source);
	SAME(struct jpeg_memory_mgr, struct ts_jpeg_memory_mgr, alloc_small);
	cr_expect(eq(sz, sizeof(((JQUANT_TBL *)0)->quantval), TS_JPEG_QUANT_BYTES));
	cr_expect(eq(sz, offsetof(JHUFF_TBL, sent_table) - 3, TS_JPEG_HUFF_BYTES));
}

Test(abi, component_fields_that_enter_the_key_lie_where_jpeglib_says)
{
	cr_expect(eq(sz, sizeof(jpeg_component_info), TS_JPEG_COMPONENT_BYTES));
	cr_expect(eq(sz, offsetof(jpeg_component_info, dc_tbl_no), TS_JPEG_COMPONENT_STABLE));
	size_t needed = JPEG_LIB_VERSION == 62 ? TS_JPEG_NEEDED_AT_62 : TS_JPEG_NEEDED_AT_70;
	cr_expect(eq(sz, offsetof(jpeg_component_info, component_needed), needed));
}

Test(abi, the_installed_library_is_one_we_know)
{
	cr_expect(ts_jpeg_abi_known(JPEG_LIB_VERSION, sizeof(struct jpeg_decompress_struct)));
	cr_expect(not(ts_jpeg_abi_known(90, 664)));
	cr_expect(not(ts_jpeg_abi_known(62, 633)));
}
