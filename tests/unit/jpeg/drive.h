/* SPDX-License-Identifier: MIT */
/*
 * Drives one decode through libjpeg itself or through our hooks, and writes down what the
 * program sees: results, fields, messages, pixels, and where its source was left.
 */
#ifndef TS_TESTS_DRIVE_H
#define TS_TESTS_DRIVE_H

#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <jpeglib.h>

/* jpeg_* of the real library, or of hooks/jpeg/calls.c. */
struct drive_calls {
	void (*create)(j_decompress_ptr cinfo, int version, size_t bytes);
	int (*read_header)(j_decompress_ptr cinfo, boolean require_image);
	boolean (*start)(j_decompress_ptr cinfo);
	JDIMENSION (*read)(j_decompress_ptr cinfo, JSAMPARRAY rows, JDIMENSION max_rows);
	JDIMENSION (*skip)(j_decompress_ptr cinfo, JDIMENSION rows);
	void (*crop)(j_decompress_ptr cinfo, JDIMENSION *offset, JDIMENSION *width);
	int (*consume_input)(j_decompress_ptr cinfo);
	boolean (*input_complete)(j_decompress_ptr cinfo);
	boolean (*finish)(j_decompress_ptr cinfo);
	void (*abort)(j_decompress_ptr cinfo);
	void (*destroy)(j_decompress_ptr cinfo);
};
extern const struct drive_calls drive_real, drive_hooked;

enum drive_feed { DRIVE_WHOLE, DRIVE_PULL, DRIVE_SUSPEND };

struct drive_plan {
	enum drive_feed feed;
	size_t first, chunk; /* bytes of the first window, and of those that follow */
	unsigned rows;       /* per call; 0 = all */
	int colour;          /* out_color_space, -1 = default */
	unsigned scale;      /* denominator; 0 = default */
	bool init_fills;     /* init_source shows the first window */
	bool same_row;       /* all rows of a call go to one place */
	bool clear_warnings; /* num_warnings is set to 0 after each call */
};

/* Windows are allocated anew each time and freed at once, so that looking back is seen. */
struct drive_source {
	struct jpeg_source_mgr base; /* first */
	const uint8_t *data;
	size_t bytes, given;
	uint8_t *window;
	struct drive_plan plan;
	bool jump; /* the next fill leaves by longjmp */
	jmp_buf *escape;
};

void drive_source_init(struct drive_source *source, j_decompress_ptr cinfo,
	const struct drive_plan *plan, const uint8_t *data, size_t bytes);
/** After a suspension: show more.  False at the end of the data. */
bool drive_source_feed(struct drive_source *source);
/** Bytes consumed. */
size_t drive_source_position(const struct drive_source *source);
void drive_source_finish(struct drive_source *source);

struct drive_errors {
	struct jpeg_error_mgr base; /* first */
	jmp_buf escape;
	uint64_t messages; /* hash of what was shown */
};
void drive_errors_init(struct drive_errors *errors, j_decompress_ptr cinfo);

struct drive_log {
	uint64_t pixels;   /* hash of all rows */
	uint64_t sequence; /* hash of what read_scanlines returned, zeros left out */
	uint64_t fields;   /* hash of public fields after the header, the start and the rows */
	uint64_t messages;
	long warnings;
	size_t position; /* of the source at the end */
	unsigned rows;
	int how;          /* 0 finished, 1 error, 2 the data ended while suspended */
	int message_code; /* of the error */
};

/** Decode @data once.  The same plan gives the same log, or something is wrong. */
struct drive_log drive(const struct drive_calls *calls, const struct drive_plan *plan,
	const uint8_t *data, size_t bytes);

uint64_t drive_hash(uint64_t hash, const void *data, size_t bytes);

/** A clean picture made with the real library: noise on a gradient. The caller frees it. */
struct drive_picture {
	unsigned width, height;
	int quality, h, v; /* sampling of the first component */
	bool progressive, gray;
	unsigned restart, seed;
};
uint8_t *drive_encode(const struct drive_picture *picture, size_t *ret_bytes);

#endif
