/* SPDX-License-Identifier: MIT */
/*
 * The less usual ways to use a decompression object.
 *
 *	access MODE SOURCE FILE...      MODE: see the table at the end; SOURCE: sources.h
 */
#include "sources.h"

#include <stdlib.h>
#include <string.h>

struct access {
	struct jpeg_decompress_struct cinfo;
	struct victim_errors errors;
	struct source source;
	unsigned char *row;
	uint64_t hash;
	unsigned events;
};

/* Hash @count rows, one at a time. */
static void read_rows(struct access *a, JDIMENSION count)
{
	size_t stride = (size_t)a->cinfo.output_width * (size_t)a->cinfo.out_color_components;
	free(a->row);
	a->row = victim_alloc(stride);
	for (JDIMENSION i = 0; i < count; i++) {
		JSAMPROW line = a->row;
		if (a->cinfo.output_scanline >= a->cinfo.output_height)
			return;
		jpeg_read_scanlines(&a->cinfo, &line, 1);
		a->hash = victim_hash(a->hash, line, stride);
	}
}

static void begin(struct access *a)
{
	jpeg_read_header(&a->cinfo, TRUE);
	jpeg_start_decompress(&a->cinfo);
}

/* Half of the rows, then away, and the same object once more from another place. */
static void mode_partial(struct access *a)
{
	begin(a);
	read_rows(a, a->cinfo.output_height / 2);
	jpeg_abort_decompress(&a->cinfo);
}

static void mode_abort(struct access *a)
{
	begin(a);
	read_rows(a, 1);
	jpeg_abort((j_common_ptr)&a->cinfo);
}

static void mode_early_finish(struct access *a)
{
	begin(a);
	read_rows(a, a->cinfo.output_height - 1);
	jpeg_finish_decompress(&a->cinfo); /* an error: not all rows were read */
}

static void mode_too_many_rows(struct access *a)
{
	JSAMPROW line;
	begin(a);
	read_rows(a, a->cinfo.output_height);
	line = a->row;
	/* A warning, and no row. */
	a->events = jpeg_read_scanlines(&a->cinfo, &line, 1);
	jpeg_finish_decompress(&a->cinfo);
}

static void mode_crop(struct access *a)
{
	JDIMENSION x, width;
	begin(a);
	x = a->cinfo.output_width / 3;
	width = a->cinfo.output_width / 3 + 1;
	jpeg_crop_scanline(&a->cinfo, &x, &width);
	printf(" crop: x=%u width=%u\n", x, width);
	read_rows(a, a->cinfo.output_height);
	jpeg_finish_decompress(&a->cinfo);
}

static void mode_skip(struct access *a)
{
	begin(a);
	read_rows(a, 3);
	a->events = jpeg_skip_scanlines(&a->cinfo, a->cinfo.output_height / 2);
	read_rows(a, a->cinfo.output_height);
	jpeg_finish_decompress(&a->cinfo);
}

static void mode_coefficients(struct access *a)
{
	jpeg_read_header(&a->cinfo, TRUE);
	jvirt_barray_ptr *arrays = jpeg_read_coefficients(&a->cinfo);
	for (int c = 0; c < a->cinfo.num_components; c++) {
		JBLOCKARRAY rows = a->cinfo.mem->access_virt_barray(
			(j_common_ptr)&a->cinfo, arrays[c], 0, 1, FALSE);
		a->hash = victim_hash(a->hash, rows[0],
			sizeof(JBLOCK) * a->cinfo.comp_info[c].width_in_blocks);
	}
	jpeg_finish_decompress(&a->cinfo);
}

static void mode_buffered(struct access *a)
{
	jpeg_read_header(&a->cinfo, TRUE);
	a->cinfo.buffered_image = TRUE;
	jpeg_start_decompress(&a->cinfo);
	while (!jpeg_input_complete(&a->cinfo)) {
		jpeg_start_output(&a->cinfo, a->cinfo.input_scan_number);
		read_rows(a, a->cinfo.output_height);
		jpeg_finish_output(&a->cinfo);
		a->events++;
	}
	jpeg_finish_decompress(&a->cinfo);
}

static void mode_raw(struct access *a)
{
	JSAMPROW lines[MAX_COMPONENTS][4 * DCTSIZE];
	JSAMPARRAY planes[MAX_COMPONENTS];
	jpeg_read_header(&a->cinfo, TRUE);
	a->cinfo.raw_data_out = TRUE;
	a->cinfo.out_color_space = a->cinfo.jpeg_color_space;
	jpeg_start_decompress(&a->cinfo);
	JDIMENSION rows = (JDIMENSION)a->cinfo.max_v_samp_factor * DCTSIZE;
	size_t stride = (size_t)a->cinfo.output_width + 8 * DCTSIZE;
	a->row = victim_alloc(stride * rows * (size_t)a->cinfo.num_components);
	for (int c = 0; c < a->cinfo.num_components; c++) {
		planes[c] = lines[c];
		for (JDIMENSION y = 0; y < rows; y++)
			lines[c][y] = a->row + ((size_t)c * rows + y) * stride;
	}
	while (a->cinfo.output_scanline < a->cinfo.output_height) {
		memset(a->row, 0, stride * rows * (size_t)a->cinfo.num_components);
		jpeg_read_raw_data(&a->cinfo, planes, rows);
		a->hash = victim_hash(
			a->hash, a->row, stride * rows * (size_t)a->cinfo.num_components);
	}
	jpeg_finish_decompress(&a->cinfo);
}

static void mode_quantize(struct access *a)
{
	jpeg_read_header(&a->cinfo, TRUE);
	a->cinfo.quantize_colors = TRUE;
	a->cinfo.desired_number_of_colors = 32;
	jpeg_start_decompress(&a->cinfo);
	free(a->row);
	a->row = victim_alloc(a->cinfo.output_width);
	while (a->cinfo.output_scanline < a->cinfo.output_height) {
		JSAMPROW line = a->row;
		jpeg_read_scanlines(&a->cinfo, &line, 1);
		a->hash = victim_hash(a->hash, line, a->cinfo.output_width);
	}
	jpeg_finish_decompress(&a->cinfo);
}

/* A second picture through the same object; of a stdio source whatever follows the first. */
static void mode_two_images(struct access *a)
{
	for (int i = 0; i < 2; i++) {
		begin(a);
		read_rows(a, a->cinfo.output_height);
		jpeg_finish_decompress(&a->cinfo);
		printf(" image %d: %ux%u hash=%016llx at=%zu\n", i, a->cinfo.image_width,
			a->cinfo.image_height, (unsigned long long)a->hash,
			source_position(&a->source, &a->cinfo));
	}
}

static void mode_savemarkers(struct access *a)
{
	for (int marker = 0; marker < 16; marker++)
		jpeg_save_markers(&a->cinfo, JPEG_APP0 + marker, 0xffff);
	jpeg_save_markers(&a->cinfo, JPEG_COM, 100);
	begin(a);
	for (jpeg_saved_marker_ptr m = a->cinfo.marker_list; m; m = m->next) {
		a->events++;
		a->hash = victim_hash(a->hash, m->data, m->data_length);
	}
	read_rows(a, a->cinfo.output_height);
	jpeg_finish_decompress(&a->cinfo);
}

static void note_progress(j_common_ptr cinfo)
{
	struct access *a = cinfo->client_data;
	a->events++;
	a->hash = victim_hash(a->hash, &cinfo->progress->pass_counter, sizeof(long));
}

static void mode_progress(struct access *a)
{
	struct jpeg_progress_mgr progress = {.progress_monitor = note_progress};
	a->cinfo.client_data = a;
	a->cinfo.progress = &progress;
	begin(a);
	read_rows(a, a->cinfo.output_height);
	jpeg_finish_decompress(&a->cinfo);
}

/* The header twice, as programs do that first look and then decode. */
static void mode_header_again(struct access *a)
{
	jpeg_read_header(&a->cinfo, TRUE);
	jpeg_calc_output_dimensions(&a->cinfo);
	printf(" looked: %ux%u\n", a->cinfo.output_width, a->cinfo.output_height);
	jpeg_abort_decompress(&a->cinfo);
	const struct victim_input *input = a->source.input;
	enum source_kind kind = a->source.kind;
	size_t chunk = a->source.chunk;
	source_finish(&a->source);
	source_init(&a->source, &a->cinfo, kind, chunk, input);
	begin(a);
	read_rows(a, a->cinfo.output_height);
	jpeg_finish_decompress(&a->cinfo);
}

static const struct {
	const char *name;
	void (*run)(struct access *a);
} modes[] = {
	{"partial", mode_partial},
	{"abort", mode_abort},
	{"early_finish", mode_early_finish},
	{"too_many_rows", mode_too_many_rows},
	{"crop", mode_crop},
	{"skip", mode_skip},
	{"coefficients", mode_coefficients},
	{"buffered", mode_buffered},
	{"raw", mode_raw},
	{"quantize", mode_quantize},
	{"two_images", mode_two_images},
	{"savemarkers", mode_savemarkers},
	{"progress", mode_progress},
	{"header_again", mode_header_again},
};

static void access_one(const char *path, size_t mode, enum source_kind kind, size_t chunk)
{
	struct victim_input input;
	struct access *a = victim_alloc(sizeof(*a));

	memset(a, 0, sizeof(*a));
	a->hash = VICTIM_HASH_START;
	victim_input_load(&input, path);
	a->cinfo.err = victim_errors_init(&a->errors, 0);
	printf("%s %s\n", modes[mode].name, victim_base_name(path));
	jpeg_create_decompress(&a->cinfo);
	source_init(&a->source, &a->cinfo, kind, chunk, &input);
	if (setjmp(a->errors.escape) == 0)
		modes[mode].run(a);
	else
		printf(" error=\"%s\"\n", a->errors.text);
	printf(" hash=%016llx events=%u\n", (unsigned long long)a->hash, a->events);
	/* How far the source is inside an image that is left unfinished is the first of the
	 * known exceptions in docs/exceptions.md: shown, not compared. */
	if (a->cinfo.output_scanline < a->cinfo.output_height)
		printf("~");
	printf(" at=%zu", source_position(&a->source, &a->cinfo));
	victim_print_fields("ended", &a->cinfo);
	victim_print_messages(&a->cinfo);
	jpeg_destroy((j_common_ptr)&a->cinfo);
	source_finish(&a->source);
	victim_input_free(&input);
	free(a->row);
	free(a);
}

int main(int argc, char **argv)
{
	enum source_kind kind;
	size_t chunk, mode = 0, count = sizeof(modes) / sizeof(modes[0]);

	if (argc < 4 || !source_parse(argv[2], &kind, &chunk) || kind == SOURCE_SUSPEND)
		victim_usage("access MODE mem|stdio|pull[=N]|seek[=N] FILE...");
	while (mode < count && strcmp(argv[1], modes[mode].name) != 0)
		mode++;
	if (mode == count)
		victim_usage("unknown MODE");
	for (int i = 3; i < argc; i++)
		access_one(argv[i], mode, kind, chunk);
	return fflush(stdout) != 0;
}
