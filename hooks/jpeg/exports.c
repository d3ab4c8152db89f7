/* SPDX-License-Identifier: MIT */
/* The exported jpeg_* and tj* symbols: trampolines, nothing else. */
#include "hooks/jpeg/calls.h"
#include "hooks/jpeg/turbo.h"

#define CALLER __builtin_return_address(0)

/* Declared here only: no header of ours, or of libjpeg, may be needed to be stood in for. */
TS_EXPORT void jpeg_CreateDecompress(
	struct ts_jpeg_decompress *cinfo, int version, size_t bytes);
TS_EXPORT int jpeg_read_header(struct ts_jpeg_decompress *cinfo, int require_image);
TS_EXPORT int jpeg_start_decompress(struct ts_jpeg_decompress *cinfo);
TS_EXPORT unsigned jpeg_read_scanlines(
	struct ts_jpeg_decompress *cinfo, uint8_t **rows, unsigned max_rows);
TS_EXPORT unsigned jpeg_skip_scanlines(struct ts_jpeg_decompress *cinfo, unsigned rows);
TS_EXPORT void jpeg_crop_scanline(
	struct ts_jpeg_decompress *cinfo, unsigned *offset, unsigned *width);
TS_EXPORT unsigned jpeg_read_raw_data(
	struct ts_jpeg_decompress *cinfo, void *planes, unsigned max_rows);
TS_EXPORT void *jpeg_read_coefficients(struct ts_jpeg_decompress *cinfo);
TS_EXPORT int jpeg_consume_input(struct ts_jpeg_decompress *cinfo);
TS_EXPORT int jpeg_input_complete(struct ts_jpeg_decompress *cinfo);
TS_EXPORT void jpeg_save_markers(struct ts_jpeg_decompress *cinfo, int code, unsigned limit);
TS_EXPORT void jpeg_set_marker_processor(
	struct ts_jpeg_decompress *cinfo, int code, void *routine);
TS_EXPORT int jpeg_finish_decompress(struct ts_jpeg_decompress *cinfo);
TS_EXPORT void jpeg_abort_decompress(struct ts_jpeg_decompress *cinfo);
TS_EXPORT void jpeg_destroy_decompress(struct ts_jpeg_decompress *cinfo);
TS_EXPORT void jpeg_abort(struct ts_jpeg_common *cinfo);
TS_EXPORT void jpeg_destroy(struct ts_jpeg_common *cinfo);
TS_EXPORT int tjDecompress2(void *handle, const unsigned char *jpeg, unsigned long jpeg_bytes,
	unsigned char *picture, int width, int pitch, int height, int format, int flags);

void jpeg_CreateDecompress(struct ts_jpeg_decompress *cinfo, int version, size_t bytes)
{
	ts_jpeg_CreateDecompress(cinfo, version, bytes, CALLER);
}

int jpeg_read_header(struct ts_jpeg_decompress *cinfo, int require_image)
{
	return ts_jpeg_read_header(cinfo, require_image, CALLER);
}

int jpeg_start_decompress(struct ts_jpeg_decompress *cinfo)
{
	return ts_jpeg_start_decompress(cinfo, CALLER);
}

unsigned jpeg_read_scanlines(
	struct ts_jpeg_decompress *cinfo, uint8_t **rows, unsigned max_rows)
{
	return ts_jpeg_read_scanlines(cinfo, rows, max_rows, CALLER);
}

unsigned jpeg_skip_scanlines(struct ts_jpeg_decompress *cinfo, unsigned rows)
{
	return ts_jpeg_skip_scanlines(cinfo, rows, CALLER);
}

void jpeg_crop_scanline(struct ts_jpeg_decompress *cinfo, unsigned *offset, unsigned *width)
{
	ts_jpeg_crop_scanline(cinfo, offset, width, CALLER);
}

unsigned jpeg_read_raw_data(struct ts_jpeg_decompress *cinfo, void *planes, unsigned max_rows)
{
	return ts_jpeg_read_raw_data(cinfo, planes, max_rows, CALLER);
}

void *jpeg_read_coefficients(struct ts_jpeg_decompress *cinfo)
{
	return ts_jpeg_read_coefficients(cinfo, CALLER);
}

int jpeg_consume_input(struct ts_jpeg_decompress *cinfo)
{
	return ts_jpeg_consume_input(cinfo, CALLER);
}

int jpeg_input_complete(struct ts_jpeg_decompress *cinfo)
{
	return ts_jpeg_input_complete(cinfo, CALLER);
}

void jpeg_save_markers(struct ts_jpeg_decompress *cinfo, int code, unsigned limit)
{
	ts_jpeg_save_markers(cinfo, code, limit, CALLER);
}

void jpeg_set_marker_processor(struct ts_jpeg_decompress *cinfo, int code, void *routine)
{
	ts_jpeg_set_marker_processor(cinfo, code, routine, CALLER);
}

int jpeg_finish_decompress(struct ts_jpeg_decompress *cinfo)
{
	return ts_jpeg_finish_decompress(cinfo, CALLER);
}

void jpeg_abort_decompress(struct ts_jpeg_decompress *cinfo)
{
	ts_jpeg_abort_decompress(cinfo, CALLER);
}

void jpeg_destroy_decompress(struct ts_jpeg_decompress *cinfo)
{
	ts_jpeg_destroy_decompress(cinfo, CALLER);
}

void jpeg_abort(struct ts_jpeg_common *cinfo)
{
	ts_jpeg_abort(cinfo, CALLER);
}

void jpeg_destroy(struct ts_jpeg_common *cinfo)
{
	ts_jpeg_destroy(cinfo, CALLER);
}

int tjDecompress2(void *handle, const unsigned char *jpeg, unsigned long jpeg_bytes,
	unsigned char *picture, int width, int pitch, int height, int format, int flags)
{
	return ts_turbo_decompress2(
		handle, jpeg, jpeg_bytes, picture, width, pitch, height, format, flags, CALLER);
}
