/* SPDX-License-Identifier: MIT */
/*
 * Decodes JPEG files with libjpeg on command and says what it cost: a plain C program.
 *
 *	decode LIST [rgbx]          LIST: a file with one path per line
 *	stdin:  decode FIRST COUNT  stdout: one line of JSON
 *
 * Files are read before, sums are made after the timed part: cpu_ns is the CPU time of this
 * process from the creation of a decompressor to its destruction, over all COUNT files.
 */
#include "common.h"

#include <inttypes.h>

#include <jpeglib.h>

struct picture {
	unsigned char *pixels;
	size_t capacity, bytes;
};

static size_t read_file(const char *path, unsigned char **buffer, size_t *capacity)
{
	FILE *file = fopen(path, "rb");
	size_t bytes = 0, got;

	if (file == NULL)
		die(path);
	do {
		if (bytes == *capacity) {
			*capacity = *capacity ? *capacity * 2 : 1 << 20;
			*buffer = realloc(*buffer, *capacity);
			if (*buffer == NULL)
				die("memory");
		}
		got = fread(*buffer + bytes, 1, *capacity - bytes, file);
		bytes += got;
	} while (got > 0);
	fclose(file);
	return bytes;
}

/* The usual loop, into one buffer that is used again and again. */
static void decode(
	const unsigned char *data, size_t bytes, J_COLOR_SPACE space, struct picture *picture)
{
	struct jpeg_decompress_struct cinfo;
	struct jpeg_error_mgr errors;

	cinfo.err = jpeg_std_error(&errors);
	jpeg_create_decompress(&cinfo);
	jpeg_mem_src(&cinfo, (unsigned char *)data, bytes);
	jpeg_read_header(&cinfo, TRUE);
	cinfo.out_color_space = space;
	jpeg_start_decompress(&cinfo);
	size_t stride = (size_t)cinfo.output_width * (size_t)cinfo.output_components;
	picture->bytes = stride * cinfo.output_height;
	if (picture->bytes > picture->capacity) {
		picture->capacity = picture->bytes;
		picture->pixels = realloc(picture->pixels, picture->capacity);
		if (picture->pixels == NULL)
			die("memory");
	}
	while (cinfo.output_scanline < cinfo.output_height) {
		JSAMPROW row = picture->pixels + cinfo.output_scanline * stride;
		jpeg_read_scanlines(&cinfo, &row, 1);
	}
	jpeg_finish_decompress(&cinfo);
	jpeg_destroy_decompress(&cinfo);
}

/* FNV-1a over 64-bit words: only to see that pixels are the same. */
static uint64_t add_sum(uint64_t sum, const struct picture *picture)
{
	for (size_t i = 0; i + 8 <= picture->bytes; i += 8) {
		uint64_t word;
		memcpy(&word, picture->pixels + i, 8);
		sum = (sum ^ word) * UINT64_C(0x100000001b3);
	}
	return sum;
}

int main(int argc, char **argv)
{
	static struct picture picture;
	unsigned char *data = NULL;
	size_t capacity = 0, count, first, wanted;
	char line[256];

	if (argc < 2)
		return 2;
	J_COLOR_SPACE space = argc > 2 && strcmp(argv[2], "rgbx") == 0 ? JCS_EXT_RGBX : JCS_RGB;
	char **list = read_list(argv[1], &count);
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) != NULL) {
		if (sscanf(line, "decode %zu %zu", &first, &wanted) != 2 ||
			first + wanted > count) {
			fprintf(stderr, "decode: bad command: %s", line);
			return 1;
		}
		uint64_t cpu = 0, bytes = 0, sum = 0, wall = now(CLOCK_MONOTONIC);
		for (size_t i = first; i < first + wanted; i++) {
			size_t size = read_file(list[i], &data, &capacity);
			uint64_t start = now(CLOCK_PROCESS_CPUTIME_ID);
			decode(data, size, space, &picture);
			cpu += now(CLOCK_PROCESS_CPUTIME_ID) - start;
			bytes += picture.bytes;
			sum = add_sum(sum, &picture);
		}
		printf("{\"images\": %zu, \"cpu_ns\": %" PRIu64 ", \"wall_ns\": %" PRIu64
		       ", \"bytes\": %" PRIu64 ", \"sum\": \"%016" PRIx64 "\"}\n",
			wanted, cpu, now(CLOCK_MONOTONIC) - wall, bytes, sum);
		fflush(stdout);
	}
	return 0;
}
