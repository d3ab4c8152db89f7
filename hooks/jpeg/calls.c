/* SPDX-License-Identifier: MIT */
/*
 * The exported jpeg_* functions, and what happens at each.  Semantics are libjpeg's
 * (libjpeg.txt of libjpeg-turbo); a call may leave by the caller's longjmp.
 */
#include "hooks/jpeg/decoder.h"
#include "shim/config.h"

#include <stdlib.h>

/* No header of ours, or of libjpeg, may be needed to be stood in for. */
#define TS_X(name, type, parameters) type jpeg_##name parameters;
TS_JPEG_CALLS(TS_X)
#undef TS_X

#define CALLER __builtin_return_address(0)

static bool is_observed(const struct ts_decoder *decoder)
{
	return decoder->phase == TS_DECODER_CAPTURE || decoder->phase == TS_DECODER_VERIFY;
}

static const struct ts_jpeg_library *real_of(const void *cinfo, const void *caller)
{
	return ts_jpeg_library_of(cinfo, caller);
}

/*
 * The decoder of @cinfo, or NULL where the call has to go straight on: an object we do not
 * follow, or the library calling itself through its own exported name.  In a fork child it no
 * longer touches the record its parent was making.
 */
static struct ts_decoder *followed(const void *cinfo, const void *caller)
{
	struct ts_decoder *decoder = ts_decoder_find(cinfo);
	if (!decoder || TS_UNLIKELY(ts_jpeg_inside(decoder->library, caller)))
		return NULL;
	if (TS_UNLIKELY(ts_decoder_is_foreign(decoder)) && is_observed(decoder))
		ts_decoder_go_plain(decoder);
	return decoder;
}

/*
 * Around a call of the library that may read: it is observed, or it has to see first what was
 * kept of the stream.  leave() is given what enter() gave.
 */
static bool enter(struct ts_decoder *decoder)
{
	if (!decoder || (!is_observed(decoder) && !ts_stream_owes(&decoder->stream)))
		return false;
	ts_stream_enter(&decoder->stream, decoder->cinfo);
	decoder->ticks_inside -= ts_ticks();
	return true;
}

static void leave(struct ts_decoder *decoder, bool entered)
{
	if (!entered)
		return;
	decoder->ticks_inside += ts_ticks();
	ts_stream_leave(&decoder->stream, decoder->cinfo);
}

/* ---- life of the object ----------------------------------------------------------------- */

TS_EXPORT void jpeg_CreateDecompress(
	struct ts_jpeg_decompress *cinfo, int version, size_t bytes)
{
	const struct ts_jpeg_library *library =
		ts_jpeg_library_of_caller(CALLER, "jpeg_CreateDecompress");
	if (!library)
		return; /* nobody defines it: the caller could not have been linked either */
	struct ts_decoder *old = ts_decoder_find(cinfo);
	if (old) /* at the same address: its caller's error path has left it behind */
		ts_decoder_destroy(old);
	library->CreateDecompress(cinfo, version, bytes);
	if (ts_config()->disable)
		return;
	if (!ts_jpeg_abi_known(version, bytes))
		ts_session_count_pass(TS_REASON_JPEG_ABI);
	else if (!ts_decoder_create(cinfo, library, version))
		ts_session_count_pass(TS_REASON_JPEG_SLOTS);
}

/* The image ends without jpeg_finish_decompress(), and its object, too, if it @is_gone. */
static void end_object(const void *cinfo, const void *caller, bool is_gone)
{
	struct ts_decoder *decoder = followed(cinfo, caller);
	if (!decoder)
		return;
	if (decoder->phase > TS_DECODER_PLAIN)
		ts_decoder_pass(decoder, decoder->cinfo->err->num_warnings
						 ? TS_REASON_JPEG_WARNING
						 : TS_REASON_JPEG_PARTIAL);
	ts_decoder_reset(decoder);
	if (is_gone)
		ts_decoder_destroy(decoder);
}

TS_EXPORT void jpeg_abort_decompress(struct ts_jpeg_decompress *cinfo)
{
	const struct ts_jpeg_library *library = real_of(cinfo, CALLER);
	end_object(cinfo, CALLER, false);
	if (library)
		library->abort_decompress(cinfo);
}

TS_EXPORT void jpeg_destroy_decompress(struct ts_jpeg_decompress *cinfo)
{
	const struct ts_jpeg_library *library = real_of(cinfo, CALLER);
	end_object(cinfo, CALLER, true);
	if (library)
		library->destroy_decompress(cinfo);
}

TS_EXPORT void jpeg_abort(struct ts_jpeg_common *cinfo)
{
	const struct ts_jpeg_library *library = real_of(cinfo, CALLER);
	if (cinfo->mem && cinfo->is_decompressor)
		end_object(cinfo, CALLER, false);
	if (library)
		library->abort(cinfo);
}

TS_EXPORT void jpeg_destroy(struct ts_jpeg_common *cinfo)
{
	const struct ts_jpeg_library *library = real_of(cinfo, CALLER);
	if (cinfo->mem && cinfo->is_decompressor)
		end_object(cinfo, CALLER, true);
	if (library)
		library->destroy(cinfo);
}

/* ---- header ----------------------------------------------------------------------------- */

TS_EXPORT int jpeg_read_header(struct ts_jpeg_decompress *cinfo, int require_image)
{
	struct ts_decoder *decoder = followed(cinfo, CALLER);
	if (!decoder)
		return real_of(cinfo, CALLER)->read_header(cinfo, require_image);
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

TS_EXPORT void jpeg_save_markers(struct ts_jpeg_decompress *cinfo, int code, unsigned limit)
{
	struct ts_decoder *decoder = followed(cinfo, CALLER);
	if (decoder && limit > 0)
		decoder->saves_markers = true;
	real_of(cinfo, CALLER)->save_markers(cinfo, code, limit);
}

TS_EXPORT void jpeg_set_marker_processor(
	struct ts_jpeg_decompress *cinfo, int code, void *routine)
{
	struct ts_decoder *decoder = followed(cinfo, CALLER);
	if (decoder)
		decoder->own_markers = true;
	real_of(cinfo, CALLER)->set_marker_processor(cinfo, code, routine);
}

/* ---- start ------------------------------------------------------------------------------ */

/* Bytes of the stream that the first look-up covers: what Pillow shows at once. */
#define PREFIX_BYTES UINT64_C(65536)

/* Below this many pixels decoding costs less than 20 times what sharing it would. */
#define SMALL_PIXELS UINT64_C(4096) /* 64 x 64 */

/* Why this image must not be shared whatever its bytes are; TS_REASON_COUNT if it may. */
static enum ts_reason objection(const struct ts_decoder *decoder)
{
	const struct ts_jpeg_decompress *cinfo = decoder->cinfo;
	const struct ts_jpeg_error_mgr *err = cinfo->err;
	if (cinfo->data_precision != 8)
		return TS_REASON_JPEG_PRECISION;
	if (cinfo->quantize_colors || cinfo->buffered_image || cinfo->raw_data_out ||
		cinfo->colormap || cinfo->out_color_space == TS_JPEG_RGB565 ||
		cinfo->num_components < 1 || cinfo->num_components > TS_JPEG_MAX_COMPONENTS ||
		!cinfo->comp_info)
		return TS_REASON_JPEG_FIELDS;
	/* Messages that the real library would have passed to the caller while decoding must
	 * not be missing: only the library's own emit_message counts warnings reliably. */
	if (cinfo->progress || decoder->own_markers || err->trace_level != 0 ||
		!ts_jpeg_inside(decoder->library, (const void *)(uintptr_t)err->emit_message))
		return TS_REASON_JPEG_CALLBACKS;
	if (decoder->saves_markers && decoder->library->has_multiple_scans(decoder->cinfo))
		return TS_REASON_JPEG_CALLBACKS; /* markers may stand between the scans */
	if (err->num_warnings != 0)
		return TS_REASON_JPEG_WARNING;
	if (decoder->stream.broken || decoder->stream.position == 0)
		return TS_REASON_JPEG_SOURCE;
	if ((uint64_t)cinfo->image_width * cinfo->image_height < SMALL_PIXELS)
		return TS_REASON_JPEG_SMALL;
	return TS_REASON_COUNT;
}

/* The real library from where it is; 0: suspended. */
static int start_real(struct ts_decoder *decoder)
{
	bool entered = enter(decoder);
	int started = decoder->library->start_decompress(decoder->cinfo);
	leave(decoder, entered);
	/* No rows yet, but several scans are decoded by now, with what warnings there are. */
	if (decoder->phase == TS_DECODER_CAPTURE)
		ts_capture_rows(decoder, NULL, 0, 0, 0);
	if (started)
		decoder->progress = ts_decoder_progress(decoder);
	return started;
}

/* The real library alone from here on.  May not return: the library may raise an error. */
static int start_plain(struct ts_decoder *decoder)
{
	ts_decoder_go_plain(decoder);
	return start_real(decoder);
}

static int start_matching(struct ts_decoder *decoder)
{
	enum ts_reason reason;
	ts_stream_look(&decoder->stream, decoder->cinfo);
	if (ts_decoder_is_foreign(decoder))
		return start_plain(decoder);
	switch (ts_serve_match(decoder, &reason)) {
	case TS_MATCH_SAME:
		ts_serve_begin(decoder);
		return 1;
	case TS_MATCH_MORE:
		return 0;
	default:
		ts_decoder_pass(decoder, reason);
		return start_plain(decoder);
	}
}

static int start_with_record(struct ts_decoder *decoder, const struct ts_lease *lease)
{
	decoder->phase = TS_DECODER_MATCHING;
	decoder->lease = *lease;
	decoder->trailer = ts_pixels_trailer(
		lease->data, lease->bytes, decoder->height, decoder->row_bytes);
	if (!decoder->trailer) {
		ts_decoder_pass(decoder, TS_REASON_STORE_DAMAGED);
		return start_plain(decoder);
	}
	if (ts_session_verify_this_hit()) {
		decoder->phase = TS_DECODER_VERIFY;
		decoder->differs = false;
		ts_stream_guard(&decoder->stream, ts_stream_seen(&decoder->stream));
		ts_stream_record(&decoder->stream);
		return start_real(decoder);
	}
	return start_matching(decoder);
}

static int start_sharing(struct ts_decoder *decoder, const struct ts_session *session)
{
	struct ts_stream *stream = &decoder->stream;
	uint64_t seen = ts_stream_seen(stream);
	uint64_t prefix =
		seen < PREFIX_BYTES ? seen : ts_max_u64(PREFIX_BYTES, stream->position);
	struct ts_key key = ts_decoder_key(decoder, ts_stream_digest(stream, prefix));
	struct ts_take take;
	decoder->store = session->store;
	decoder->serial = ts_identity_serial();
	ts_session_take_pixels(session, &key,
		ts_pixels_bytes(decoder->height, decoder->row_bytes, 0, 0), &take);
	if (take.verdict == TS_HIT)
		return start_with_record(decoder, &take.lease);
	if (take.verdict == TS_CLAIM) {
		decoder->claim = take.claim;
		int r = ts_capture_begin(decoder);
		if (r == 0)
			return start_real(decoder);
		take.reason = ts_session_why_no_room(r);
	}
	ts_decoder_pass(decoder, take.reason);
	return start_plain(decoder);
}

TS_EXPORT int jpeg_start_decompress(struct ts_jpeg_decompress *cinfo)
{
	struct ts_decoder *decoder = followed(cinfo, CALLER);
	if (!decoder)
		return real_of(cinfo, CALLER)->start_decompress(cinfo);
	if (decoder->phase == TS_DECODER_MATCHING)
		return start_matching(decoder);
	if (is_observed(decoder) || decoder->phase == TS_DECODER_PLAIN)
		return start_real(decoder);
	if (decoder->phase != TS_DECODER_HEADER || cinfo->global_state != TS_JPEG_READY) {
		ts_decoder_reset(decoder);
		return decoder->library->start_decompress(cinfo);
	}

	ts_stream_look(&decoder->stream, cinfo);
	enum ts_reason reason = objection(decoder);
	const struct ts_session *session = NULL;
	if (reason == TS_REASON_COUNT)
		session = ts_session_enter_for_pixels(&reason);
	if (!session) {
		ts_decoder_pass(decoder, reason);
		return start_plain(decoder);
	}
	decoder->library->calc_output_dimensions(cinfo);
	decoder->height = cinfo->output_height;
	decoder->row_bytes = (uint64_t)cinfo->output_width * (unsigned)cinfo->output_components;
	return start_sharing(decoder, session);
}

/* ---- back to the real library ----------------------------------------------------------- */

/*
 * A call that only the real library can answer: let it decode from the beginning, read the
 * rows again that were served, and go on with it.  False where its source suspends, which
 * cannot be: all of the stream was seen.
 */
static bool hand_back(struct ts_decoder *decoder, enum ts_reason reason)
{
	struct ts_jpeg_decompress *cinfo = decoder->cinfo;
	unsigned served = cinfo->output_scanline;
	ts_decoder_pass(decoder, reason);
	ts_stream_look(&decoder->stream, cinfo);
	cinfo->global_state = TS_JPEG_READY;
	ts_decoder_set_progress(decoder, &decoder->progress);
	if (!start_plain(decoder))
		return false;
	uint8_t *row = served ? malloc(decoder->row_bytes ? decoder->row_bytes : 1) : NULL;
	if (served && !row)
		return false;
	ts_stream_enter(&decoder->stream, cinfo);
	while (cinfo->output_scanline < served &&
		decoder->library->read_scanlines(cinfo, &row, 1) == 1)
		continue;
	ts_stream_leave(&decoder->stream, cinfo);
	free(row);
	return cinfo->output_scanline == served;
}

/* The caller does not wait for the rest of the stream: the library starts where it is. */
static void end_matching(struct ts_decoder *decoder)
{
	ts_decoder_pass(decoder, TS_REASON_JPEG_CALLS);
	(void)start_plain(decoder);
}

/* Whether @decoder has to be handed back before any other call on its object. */
static void hand_back_if_served(struct ts_decoder *decoder)
{
	if (decoder && decoder->phase == TS_DECODER_SERVED)
		(void)hand_back(decoder, TS_REASON_JPEG_CALLS);
	else if (decoder && decoder->phase == TS_DECODER_MATCHING)
		end_matching(decoder);
}

/* The caller is about to read or move data in a way that is not followed. */
static void let_go(struct ts_decoder *decoder)
{
	if (!decoder)
		return;
	hand_back_if_served(decoder);
	if (is_observed(decoder)) {
		ts_decoder_pass(decoder, TS_REASON_JPEG_CALLS);
		ts_decoder_reset(decoder);
		decoder->phase = TS_DECODER_PLAIN;
	}
}

/* ---- rows ------------------------------------------------------------------------------- */

static unsigned read_real(struct ts_decoder *decoder, uint8_t **rows, unsigned max_rows)
{
	unsigned first = decoder->cinfo->output_scanline;
	bool entered = enter(decoder);
	unsigned count = decoder->library->read_scanlines(decoder->cinfo, rows, max_rows);
	leave(decoder, entered);
	if (decoder->phase == TS_DECODER_CAPTURE)
		ts_capture_rows(decoder, rows, first, count, max_rows);
	else if (decoder->phase == TS_DECODER_VERIFY)
		ts_verify_rows(decoder, rows, first, count);
	return count;
}

TS_EXPORT unsigned jpeg_read_scanlines(
	struct ts_jpeg_decompress *cinfo, uint8_t **rows, unsigned max_rows)
{
	struct ts_decoder *decoder = followed(cinfo, CALLER);
	if (TS_UNLIKELY(!decoder))
		return real_of(cinfo, CALLER)->read_scanlines(cinfo, rows, max_rows);
	if (decoder->phase == TS_DECODER_SERVED && cinfo->output_scanline < decoder->height) {
		int count = ts_decoder_is_foreign(decoder)
				    ? -EAGAIN
				    : ts_serve_rows(decoder, rows, max_rows);
		if (TS_LIKELY(count >= 0))
			return (unsigned)count;
		if (!hand_back(decoder, TS_REASON_JPEG_CALLS))
			return 0;
	}
	if (TS_UNLIKELY(decoder->phase == TS_DECODER_MATCHING))
		end_matching(decoder);
	return read_real(decoder, rows, max_rows);
}

TS_EXPORT unsigned jpeg_skip_scanlines(struct ts_jpeg_decompress *cinfo, unsigned rows)
{
	struct ts_decoder *decoder = followed(cinfo, CALLER);
	let_go(decoder);
	const struct ts_jpeg_library *library = real_of(cinfo, CALLER);
	bool entered = enter(decoder);
	unsigned skipped = library->skip_scanlines ? library->skip_scanlines(cinfo, rows) : 0;
	leave(decoder, entered);
	return skipped;
}

TS_EXPORT void jpeg_crop_scanline(
	struct ts_jpeg_decompress *cinfo, unsigned *offset, unsigned *width)
{
	let_go(followed(cinfo, CALLER));
	const struct ts_jpeg_library *library = real_of(cinfo, CALLER);
	if (library->crop_scanline)
		library->crop_scanline(cinfo, offset, width);
}

TS_EXPORT unsigned jpeg_read_raw_data(
	struct ts_jpeg_decompress *cinfo, void *planes, unsigned max_rows)
{
	struct ts_decoder *decoder = followed(cinfo, CALLER);
	let_go(decoder);
	bool entered = enter(decoder);
	unsigned count = real_of(cinfo, CALLER)->read_raw_data(cinfo, planes, max_rows);
	leave(decoder, entered);
	return count;
}

TS_EXPORT void *jpeg_read_coefficients(struct ts_jpeg_decompress *cinfo)
{
	struct ts_decoder *decoder = followed(cinfo, CALLER);
	if (decoder)
		ts_decoder_pass(decoder, TS_REASON_JPEG_COEFFICIENTS);
	let_go(decoder);
	bool entered = enter(decoder);
	void *coefficients = real_of(cinfo, CALLER)->read_coefficients(cinfo);
	leave(decoder, entered);
	return coefficients;
}

TS_EXPORT int jpeg_consume_input(struct ts_jpeg_decompress *cinfo)
{
	struct ts_decoder *decoder = followed(cinfo, CALLER);
	let_go(decoder);
	if (decoder && decoder->phase == TS_DECODER_HEADER)
		decoder->stream.broken = true;
	bool entered = enter(decoder);
	int result = real_of(cinfo, CALLER)->consume_input(cinfo);
	leave(decoder, entered);
	return result;
}

TS_EXPORT int jpeg_input_complete(struct ts_jpeg_decompress *cinfo)
{
	hand_back_if_served(followed(cinfo, CALLER));
	return real_of(cinfo, CALLER)->input_complete(cinfo);
}

/* ---- end -------------------------------------------------------------------------------- */

static int finish_real(struct ts_decoder *decoder)
{
	struct ts_jpeg_decompress *cinfo = decoder->cinfo;
	uint64_t bytes = cinfo->output_height * (uint64_t)cinfo->output_width *
			 (unsigned)cinfo->output_components;
	bool entered = enter(decoder);
	int finished = decoder->library->finish_decompress(cinfo);
	leave(decoder, entered);
	if (!finished)
		return finished; /* suspended before the end marker: the caller may try again */
	if (decoder->phase == TS_DECODER_CAPTURE)
		ts_capture_finish(decoder);
	else if (decoder->phase == TS_DECODER_VERIFY)
		ts_verify_finish(decoder);
	else if (decoder->phase == TS_DECODER_PLAIN)
		ts_session_count_produced(TS_KIND_PIXELS, bytes, 0);
	return finished;
}

TS_EXPORT int jpeg_finish_decompress(struct ts_jpeg_decompress *cinfo)
{
	struct ts_decoder *decoder = followed(cinfo, CALLER);
	if (!decoder)
		return real_of(cinfo, CALLER)->finish_decompress(cinfo);
	int finished = 1;
	if (decoder->phase != TS_DECODER_SERVED) {
		finished = finish_real(decoder);
	} else if (cinfo->output_scanline < cinfo->output_height) {
		/* The library's own complaint, which it makes before touching anything. */
		return decoder->library->finish_decompress(cinfo);
	} else if (ts_decoder_is_foreign(decoder)) {
		finished = hand_back(decoder, TS_REASON_JPEG_CALLS) ? finish_real(decoder) : 0;
	} else {
		ts_stream_look(&decoder->stream, cinfo);
		ts_serve_finish(decoder);
	}
	if (finished)
		ts_decoder_reset(decoder);
	return finished;
}
