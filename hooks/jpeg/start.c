/* SPDX-License-Identifier: MIT */
/* What happens at jpeg_start_decompress(): whether an image is shared, and from which side. */
#include "hooks/jpeg/calls_private.h"

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

int ts_jpeg_start_plain(struct ts_decoder *decoder)
{
	struct ts_jpeg_decompress *cinfo = decoder->cinfo;
	decoder->phase = TS_DECODER_PLAIN;
	if (!ts_stream_owes(&decoder->stream))
		return decoder->library->start_decompress(cinfo);
	ts_stream_enter(&decoder->stream, cinfo);
	int started = decoder->library->start_decompress(cinfo);
	ts_stream_leave(&decoder->stream, cinfo);
	return started;
}

/* The real library, observed: its rows are published or compared. */
static int start_observed(struct ts_decoder *decoder)
{
	struct ts_jpeg_decompress *cinfo = decoder->cinfo;
	ts_stream_enter(&decoder->stream, cinfo);
	uint64_t ticks = ts_ticks();
	int started = decoder->library->start_decompress(cinfo);
	decoder->ticks_inside += ts_ticks() - ticks;
	ts_stream_leave(&decoder->stream, cinfo);
	/* No rows yet, but several scans are decoded by now, with what warnings there are. */
	if (decoder->phase == TS_DECODER_CAPTURE)
		ts_capture_rows(decoder, NULL, 0, 0, 0);
	if (started)
		decoder->progress = ts_decoder_progress(decoder);
	return started;
}

static int start_matching(struct ts_decoder *decoder)
{
	enum ts_reason reason;
	ts_stream_look(&decoder->stream, decoder->cinfo);
	if (ts_decoder_is_foreign(decoder))
		return ts_jpeg_start_plain(decoder);
	switch (ts_serve_match(decoder, &reason)) {
	case TS_MATCH_SAME:
		ts_serve_begin(decoder);
		return 1;
	case TS_MATCH_MORE:
		return 0;
	default:
		ts_decoder_pass(decoder, reason);
		ts_decoder_end_lease(decoder);
		return ts_jpeg_start_plain(decoder);
	}
}

static int start_with_record(struct ts_decoder *decoder, const struct ts_lease *lease)
{
	decoder->lease = *lease;
	decoder->trailer = ts_pixels_trailer(
		lease->data, lease->bytes, decoder->height, decoder->row_bytes);
	if (!decoder->trailer) {
		ts_decoder_end_lease(decoder);
		ts_decoder_pass(decoder, TS_REASON_STORE_DAMAGED);
		return ts_jpeg_start_plain(decoder);
	}
	if (ts_session_verify_this_hit()) {
		decoder->phase = TS_DECODER_VERIFY;
		decoder->differs = false;
		ts_stream_guard(&decoder->stream, ts_stream_seen(&decoder->stream));
		ts_stream_record(&decoder->stream);
		return start_observed(decoder);
	}
	decoder->phase = TS_DECODER_MATCHING;
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
			return start_observed(decoder);
		take.reason = ts_session_why_no_room(r);
	}
	ts_decoder_pass(decoder, take.reason);
	return ts_jpeg_start_plain(decoder);
}

int ts_jpeg_start_decompress(struct ts_jpeg_decompress *cinfo, const void *caller)
{
	struct ts_decoder *decoder = ts_jpeg_followed(cinfo, caller);
	if (!decoder)
		return TS_REAL_OF(cinfo, caller)->start_decompress(cinfo);
	if (decoder->phase == TS_DECODER_MATCHING)
		return start_matching(decoder);
	if (decoder->phase == TS_DECODER_CAPTURE || decoder->phase == TS_DECODER_VERIFY)
		return start_observed(decoder);
	if (decoder->phase == TS_DECODER_PLAIN)
		return ts_jpeg_start_plain(decoder);
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
		return ts_jpeg_start_plain(decoder);
	}
	decoder->library->calc_output_dimensions(cinfo);
	decoder->height = cinfo->output_height;
	decoder->row_bytes = (uint64_t)cinfo->output_width * (unsigned)cinfo->output_components;
	return start_sharing(decoder, session);
}
