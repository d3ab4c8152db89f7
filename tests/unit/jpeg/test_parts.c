/* SPDX-License-Identifier: MIT */
/* The hook's parts one by one: the key, the table of objects, loaded libraries. */
#include "drive.h"
#include "fake_store.h"

#include "hooks/jpeg/decoder.h"
#include "shim/elf.h"

#include <stdlib.h>
#include <string.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

static const struct drive_picture usual = {
	.width = 200, .height = 150, .quality = 85, .h = 2, .v = 2, .seed = 1};

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

static struct ts_key key_with(int setting, const uint8_t *data, size_t bytes)
{
	struct jpeg_decompress_struct cinfo;
	struct drive_errors errors;
	struct drive_source source;
	struct drive_plan plan = {.rows = 1, .colour = -1};
	fake_store_clear();
	drive_errors_init(&errors, &cinfo);
	drive_hooked.create(&cinfo, JPEG_LIB_VERSION, sizeof(cinfo));
	drive_source_init(&source, &cinfo, &plan, data, bytes);
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

Test(key, every_setting_changes_it_and_nothing_else_does)
{
	size_t bytes;
	uint8_t *data = drive_encode(&usual, &bytes);
	struct ts_key keys[SETTINGS + 1];
	for (int i = 0; i < SETTINGS; i++)
		keys[i] = key_with(i, data, bytes);
	setenv("JSIMD_FORCENONE", "1", 1);
	keys[SETTINGS] = key_with(0, data, bytes);
	unsetenv("JSIMD_FORCENONE");
	for (int i = 0; i <= SETTINGS; i++)
		for (int j = 0; j < i; j++)
			cr_expect(memcmp(&keys[i], &keys[j], sizeof(keys[i])) != 0,
				"settings %d and %d", i, j);

	uint8_t *elsewhere = malloc(bytes);
	memcpy(elsewhere, data, bytes);
	struct ts_key again = key_with(0, elsewhere, bytes);
	cr_expect(memcmp(&again, &keys[0], sizeof(again)) == 0,
		"the same key for the same image");
	elsewhere[bytes - 100] ^= 1;
	again = key_with(0, elsewhere, bytes);
	cr_expect(memcmp(&again, &keys[0], sizeof(again)) != 0, "another stream");
	free(elsewhere);
	free(data);
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
