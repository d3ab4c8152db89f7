/* SPDX-License-Identifier: MIT */
/*
 * What happens behind each exported jpeg_* function: ts_jpeg_<name>() takes the parameters
 * of jpeg_<name>() and the address it was called from.  Semantics are libjpeg's
 * (libjpeg.txt of libjpeg-turbo); a call may leave by the caller's longjmp.
 */
#ifndef TS_HOOKS_JPEG_CALLS_H
#define TS_HOOKS_JPEG_CALLS_H

#include "hooks/jpeg/library.h"

void ts_jpeg_CreateDecompress(
	struct ts_jpeg_decompress *cinfo, int version, size_t bytes, const void *caller);
int ts_jpeg_read_header(
	struct ts_jpeg_decompress *cinfo, int require_image, const void *caller);
int ts_jpeg_start_decompress(struct ts_jpeg_decompress *cinfo, const void *caller);
unsigned ts_jpeg_read_scanlines(struct ts_jpeg_decompress *cinfo, uint8_t **rows,
	unsigned max_rows, const void *caller);
unsigned ts_jpeg_skip_scanlines(
	struct ts_jpeg_decompress *cinfo, unsigned rows, const void *caller);
void ts_jpeg_crop_scanline(struct ts_jpeg_decompress *cinfo, unsigned *offset, unsigned *width,
	const void *caller);
unsigned ts_jpeg_read_raw_data(
	struct ts_jpeg_decompress *cinfo, void *planes, unsigned max_rows, const void *caller);
void *ts_jpeg_read_coefficients(struct ts_jpeg_decompress *cinfo, const void *caller);
int ts_jpeg_consume_input(struct ts_jpeg_decompress *cinfo, const void *caller);
int ts_jpeg_input_complete(struct ts_jpeg_decompress *cinfo, const void *caller);
void ts_jpeg_save_markers(
	struct ts_jpeg_decompress *cinfo, int code, unsigned limit, const void *caller);
void ts_jpeg_set_marker_processor(
	struct ts_jpeg_decompress *cinfo, int code, void *routine, const void *caller);
int ts_jpeg_finish_decompress(struct ts_jpeg_decompress *cinfo, const void *caller);
void ts_jpeg_abort_decompress(struct ts_jpeg_decompress *cinfo, const void *caller);
void ts_jpeg_destroy_decompress(struct ts_jpeg_decompress *cinfo, const void *caller);
void ts_jpeg_abort(struct ts_jpeg_common *cinfo, const void *caller);
void ts_jpeg_destroy(struct ts_jpeg_common *cinfo, const void *caller);

#endif
