/* SPDX-License-Identifier: MIT */
/*
 * Decode JPEGs as told and print everything a program can see of it.
 *
 *	decode [options] FILE...       see options() for the list
 */
#include "sources.h"

#include <getopt.h>
#include <stdlib.h>
#include <string.h>

struct settings {
	enum source_kind source;
	size_t chunk;
	unsigned rows;
	int colour; /* -1: what jpeg_read_header chose */
	unsigned scale_num, scale_denom;
	int dct;
	bool fancy, smoothing, early_abort;
	int trace;
	unsigned repeat;
	int order; /* 0 given, -1 reversed, else 1 + seed of a shuffle */
};

static const struct {
	const char *name;
	J_COLOR_SPACE value;
} colours[] = {
	{"gray", JCS_GRAYSCALE},
	{"rgb", JCS_RGB},
	{"ycc", JCS_YCbCr},
	{"cmyk", JCS_CMYK},
	{"ycck", JCS_YCCK},
	{"bgr", JCS_EXT_BGR},
	{"rgbx", JCS_EXT_RGBX},
	{"bgrx", JCS_EXT_BGRX},
	{"xrgb", JCS_EXT_XRGB},
	{"rgba", JCS_EXT_RGBA},
	{"rgb565", JCS_RGB565},
};

static int parse_colour(const char *name)
{
	for (size_t i = 0; i < sizeof(colours) / sizeof(colours[0]); i++)
		if (strcmp(name, colours[i].name) == 0)
			return (int)colours[i].value;
	victim_usage("unknown --colour");
}

static int parse_dct(const char *name)
{
	static const char *const names[] = {"islow", "ifast", "float"};
	for (int i = 0; i < 3; i++)
		if (strcmp(name, names[i]) == 0)
			return i;
	victim_usage("unknown --dct");
}

static int parse_order(const char *text)
{
	if (strcmp(text, "given") == 0)
		return 0;
	if (strcmp(text, "reversed") == 0)
		return -1;
	if (strncmp(text, "shuffle:", 8) == 0)
		return 1 + atoi(text + 8);
	victim_usage("unknown --order");
}

static int options(int argc, char **argv, struct settings *s)
{
	static const struct option names[] = {{"source", 1, NULL, 's'}, {"rows", 1, NULL, 'r'},
		{"colour", 1, NULL, 'c'}, {"scale", 1, NULL, 'S'}, {"dct", 1, NULL, 'd'},
		{"no-fancy", 0, NULL, 'f'}, {"no-smoothing", 0, NULL, 'b'},
		{"repeat", 1, NULL, 'n'}, {"order", 1, NULL, 'o'}, {"trace", 1, NULL, 'T'},
		{"destroy-early", 0, NULL, 'a'}, {NULL, 0, NULL, 0}};
	*s = (struct settings){.rows = 1,
		.colour = -1,
		.scale_num = 1,
		.scale_denom = 1,
		.dct = JDCT_DEFAULT,
		.fancy = true,
		.smoothing = true,
		.repeat = 1};
	int c;
	while ((c = getopt_long(argc, argv, "", names, NULL)) != -1) {
		switch (c) {
		case 's':
			if (!source_parse(optarg, &s->source, &s->chunk))
				victim_usage("unknown --source");
			break;
		case 'S':
			if (sscanf(optarg, "%u/%u", &s->scale_num, &s->scale_denom) != 2)
				victim_usage("--scale is N/D");
			break;
		case 'r':
			s->rows = (unsigned)atoi(optarg);
			break;
		case 'c':
			s->colour = parse_colour(optarg);
			break;
		case 'd':
			s->dct = parse_dct(optarg);
			break;
		case 'f':
			s->fancy = false;
			break;
		case 'b':
			s->smoothing = false;
			break;
		case 'n':
			s->repeat = (unsigned)atoi(optarg);
			break;
		case 'o':
			s->order = parse_order(optarg);
			break;
		case 'T':
			s->trace = atoi(optarg);
			break;
		case 'a':
			s->early_abort = true;
			break;
		default:
			victim_usage("unknown option");
		}
	}
	return optind;
}

/* What one decode has in hand; outside the frame of setjmp so that nothing is clobbered. */
struct decode {
	struct jpeg_decompress_struct cinfo;
	struct victim_errors errors;
	struct source source;
	unsigned char *rows;
	uint64_t pixels, sequence;
	unsigned calls;
};

/* Reads all rows; false when the input ended while libjpeg was suspended. */
static bool read_rows(struct decode *d, const struct settings *s)
{
	size_t stride = (size_t)d->cinfo.output_width * (size_t)d->cinfo.out_color_components;
	JSAMPROW lines[64];
	unsigned rows = s->rows < 64 ? s->rows : 64;

	d->rows = victim_alloc(stride * rows);
	for (unsigned i = 0; i < rows; i++)
		lines[i] = d->rows + i * stride;
	while (d->cinfo.output_scanline < d->cinfo.output_height) {
		memset(d->rows, 0x5a, stride * rows);
		JDIMENSION got = jpeg_read_scanlines(&d->cinfo, lines, rows);
		if (got == 0) {
			if (!source_feed(&d->source, &d->cinfo))
				return false;
			continue;
		}
		/* Row by row, for it must not matter how many came at once. */
		for (JDIMENSION i = 0; i < got; i++)
			d->pixels = victim_hash(d->pixels, lines[i], stride);
		d->calls++;
		/* Where a suspended library goes on, it may return other numbers of rows. */
		if (d->source.kind == SOURCE_SUSPEND)
			continue;
		d->sequence = victim_hash(d->sequence, &got, sizeof(got));
		/* Rows beyond what was returned must be untouched. */
		d->sequence = victim_hash(
			d->sequence, lines[0] + stride * got, stride * (rows - got));
	}
	return true;
}

/* Everything between create and finish; false when the input ended too early. */
static bool decode_steps(struct decode *d, const struct settings *s)
{
	int status;
	while ((status = jpeg_read_header(&d->cinfo, TRUE)) == JPEG_SUSPENDED)
		if (!source_feed(&d->source, &d->cinfo))
			return false;
	if (s->colour >= 0)
		d->cinfo.out_color_space = (J_COLOR_SPACE)s->colour;
	d->cinfo.scale_num = s->scale_num;
	d->cinfo.scale_denom = s->scale_denom;
	d->cinfo.dct_method = (J_DCT_METHOD)s->dct;
	d->cinfo.do_fancy_upsampling = s->fancy;
	d->cinfo.do_block_smoothing = s->smoothing;
	while (!jpeg_start_decompress(&d->cinfo))
		if (!source_feed(&d->source, &d->cinfo))
			return false;
	victim_print_fields("started", &d->cinfo);
	if (!read_rows(d, s))
		return false;
	printf(" read: pixels=%016llx", (unsigned long long)d->pixels);
	if (d->source.kind != SOURCE_SUSPEND)
		printf(" calls=%u sequence=%016llx", d->calls, (unsigned long long)d->sequence);
	printf("\n");
	if (s->early_abort)
		return true;
	while (!jpeg_finish_decompress(&d->cinfo))
		if (!source_feed(&d->source, &d->cinfo))
			return false;
	return true;
}

static void decode_one(const char *path, const struct settings *s)
{
	struct victim_input input;
	struct decode *d = victim_alloc(sizeof(*d));

	memset(d, 0, sizeof(*d));
	d->pixels = d->sequence = VICTIM_HASH_START;
	victim_input_load(&input, path);
	d->cinfo.err = victim_errors_init(&d->errors, s->trace);
	printf("%s\n", victim_base_name(path));
	if (setjmp(d->errors.escape) == 0) {
		jpeg_create_decompress(&d->cinfo);
		source_init(&d->source, &d->cinfo, s->source, s->chunk, &input);
		bool whole = decode_steps(d, s);
		printf(" end: %s at=%zu of %zu\n", whole ? "whole" : "short",
			source_position(&d->source, &d->cinfo), source_given(&d->source));
	} else {
		printf(" end: error=\"%s\" calls=%u pixels=%016llx at=%zu\n", d->errors.text,
			s->source == SOURCE_SUSPEND ? 0 : d->calls,
			(unsigned long long)d->pixels, source_position(&d->source, &d->cinfo));
	}
	victim_print_fields("ended", &d->cinfo);
	victim_print_messages(&d->cinfo);
	printf("~ fills=%u calls=%u\n", d->source.fills, d->calls);
	jpeg_destroy_decompress(&d->cinfo);
	printf(" destroyed: global_state=%d mem=%d\n", d->cinfo.global_state,
		d->cinfo.mem != NULL);
	source_finish(&d->source);
	victim_input_free(&input);
	free(d->rows);
	free(d);
}

static void arrange(char **paths, int count, int order)
{
	uint64_t state = (uint64_t)order * UINT64_C(0x9e3779b97f4a7c15);
	for (int i = count - 1; order != 0 && i > 0; i--) {
		int j = count - 1 - i;
		if (order > 0) {
			state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
			j = (int)((state >> 33) % (uint64_t)(i + 1));
		} else if (j >= i) {
			break;
		}
		char *path = paths[i];
		paths[i] = paths[j];
		paths[j] = path;
	}
}

int main(int argc, char **argv)
{
	struct settings s;
	int first = options(argc, argv, &s);
	if (first == argc || s.rows == 0)
		victim_usage("decode [options] FILE...");
	arrange(argv + first, argc - first, s.order);
	for (unsigned n = 0; n < s.repeat; n++)
		for (int i = first; i < argc; i++)
			decode_one(argv[i], &s);
	return fflush(stdout) != 0;
}
