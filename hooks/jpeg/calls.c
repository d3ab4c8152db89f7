/* SPDX-License-Identifier: MIT */
/* Behind the exported jpeg_* functions: the life of an object, and its header. */
#include "hooks/jpeg/calls_private.h"
#include "shim/config.h"

struct ts_decoder *ts_jpeg_followed(const void *cinfo, const void *caller)
{
	struct ts_decoder *decoder = ts_decoder_find(cinfo);
	if (!decoder || TS_UNLIKELY(ts_jpeg_inside(decoder->library, caller)))
		return NULL;
	/* A child that goes on with its parent's decode must not touch the parent's record. */
	if (TS_UNLIKELY(ts_decoder_is_foreign(decoder)) &&
		(decoder->phase == TS_DECODER_CAPTURE || decoder->phase == TS_DECODER_VERIFY)) {
		decoder->stream.recording = false;
		decoder->phase = TS_DECODER_PLAIN;
	}
	return decoder;
}

/* ---- life of the object ----------------------------------------------------------------- */

void ts_jpeg_CreateDecompress(
	struct ts_jpeg_decompress *cinfo, int version, size_t bytes, const void *caller)
{
	const struct ts_jpeg_library *library = ts_jpeg_library_of_caller(caller);
	if (!library)
		return; /* nobody defines it: the caller could not have been linked either */
	struct ts_decoder *old = ts_decoder_find(cinfo);
	if (old)
		ts_decoder_destroy(old);
	library->CreateDecompress(cinfo, version, bytes);
	if (ts_config()->disable)
		return;
	if (!ts_jpeg_abi_known(version, bytes))
		ts_session_count_pass(TS_REASON_JPEG_ABI);
	else if (!ts_decoder_create(cinfo, library, version))
		ts_session_count_pass(TS_REASON_JPEG_SLOTS);
}

/* The image ends without jpeg_finish_decompress(). */
static void give_up(struct ts_decoder *decoder)
{
	if (decoder->phase > TS_DECODER_PLAIN)
		ts_decoder_pass(decoder, decoder->cinfo->err->num_warnings
						 ? TS_REASON_JPEG_WARNING
						 : TS_REASON_JPEG_PARTIAL);
	ts_decoder_reset(decoder);
}

static void abort_object(struct ts_jpeg_common *cinfo, const void *caller)
{
	struct ts_decoder *decoder = ts_jpeg_followed(cinfo, caller);
	if (decoder)
		give_up(decoder);
}

static void destroy_object(struct ts_jpeg_common *cinfo, const void *caller)
{
	struct ts_decoder *decoder = ts_jpeg_followed(cinfo, caller);
	if (!decoder)
		return;
	give_up(decoder);
	ts_decoder_destroy(decoder);
}

void ts_jpeg_abort_decompress(struct ts_jpeg_decompress *cinfo, const void *caller)
{
	const struct ts_jpeg_library *library = TS_REAL_OF(cinfo, caller);
	abort_object((struct ts_jpeg_common *)cinfo, caller);
	if (library)
		library->abort_decompress(cinfo);
}

void ts_jpeg_destroy_decompress(struct ts_jpeg_decompress *cinfo, const void *caller)
{
	const struct ts_jpeg_library *library = TS_REAL_OF(cinfo, caller);
	destroy_object((struct ts_jpeg_common *)cinfo, caller);
	if (library)
		library->destroy_decompress(cinfo);
}

void ts_jpeg_abort(struct ts_jpeg_common *cinfo, const void *caller)
{
	const struct ts_jpeg_library *library = ts_jpeg_library_of(cinfo, caller);
	if (cinfo->mem && cinfo->is_decompressor)
		abort_object(cinfo, caller);
	if (library)
		library->abort(cinfo);
}

void ts_jpeg_destroy(struct ts_jpeg_common *cinfo, const void *caller)
{
	const struct ts_jpeg_library *library = ts_jpeg_library_of(cinfo, caller);
	if (cinfo->mem && cinfo->is_decompressor)
		destroy_object(cinfo, caller);
	if (library)
		library->destroy(cinfo);
}

/* ---- header ----------------------------------------------------------------------------- */

int ts_jpeg_read_header(struct ts_jpeg_decompress *cinfo, int require_image, const void *caller)
{
	struct ts_decoder *decoder = ts_jpeg_followed(cinfo, caller);
	if (!decoder)
		return TS_REAL_OF(cinfo, caller)->read_header(cinfo, require_image);
	if (cinfo->global_state == TS_JPEG_START) {
		ts_decoder_reset(decoder);
		decoder->counted = false;
		ts_stream_begin(&decoder->stream, cinfo, ts_decoder_stream);
		decoder->phase = TS_DECODER_HEADER;
	}
	if (decoder->phase != TS_DECODER_HEADER)
		return decoder->library->read_header(cinfo, require_image);
	ts_stream_enter(&decoder->stream, cinfo);
	int result = decoder->library->read_header(cinfo, require_image);
	ts_stream_leave(&decoder->stream, cinfo);
	return result;
}

void ts_jpeg_save_markers(
	struct ts_jpeg_decompress *cinfo, int code, unsigned limit, const void *caller)
{
	struct ts_decoder *decoder = ts_jpeg_followed(cinfo, caller);
	if (decoder && limit > 0)
		decoder->saves_markers = true;
	TS_REAL_OF(cinfo, caller)->save_markers(cinfo, code, limit);
}

void ts_jpeg_set_marker_processor(
	struct ts_jpeg_decompress *cinfo, int code, void *routine, const void *caller)
{
	struct ts_decoder *decoder = ts_jpeg_followed(cinfo, caller);
	if (decoder)
		decoder->own_markers = true;
	TS_REAL_OF(cinfo, caller)->set_marker_processor(cinfo, code, routine);
}
