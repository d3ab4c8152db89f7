/* SPDX-License-Identifier: MIT */
/* Behind the calls from jpeg_start_decompress() on: rows, what ends sharing, and the finish. */
#include "hooks/jpeg/calls_private.h"

#include <stdlib.h>

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
	ts_decoder_end_lease(decoder);
	cinfo->global_state = TS_JPEG_READY;
	ts_decoder_set_progress(decoder, &decoder->progress);
	if (!ts_jpeg_start_plain(decoder))
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
	ts_decoder_end_lease(decoder);
	(void)ts_jpeg_start_plain(decoder);
}

/* Whether @decoder has to be handed back before any other call on its object. */
static void hand_back_if_served(struct ts_decoder *decoder)
{
	if (decoder && decoder->phase == TS_DECODER_SERVED)
		(void)hand_back(decoder, TS_REASON_JPEG_CALLS);
	else if (decoder && decoder->phase == TS_DECODER_MATCHING)
		end_matching(decoder);
}

/* Around a call of the library that may read: it has to see first what was kept. */
static bool show_owed(struct ts_decoder *decoder)
{
	if (!decoder || !ts_stream_owes(&decoder->stream))
		return false;
	ts_stream_enter(&decoder->stream, decoder->cinfo);
	return true;
}

static void hide_owed(struct ts_decoder *decoder, bool shown)
{
	if (shown)
		ts_stream_leave(&decoder->stream, decoder->cinfo);
}

/* The caller is about to read or move data in a way that is not followed. */
static void let_go(struct ts_decoder *decoder)
{
	if (!decoder)
		return;
	hand_back_if_served(decoder);
	if (decoder->phase == TS_DECODER_CAPTURE || decoder->phase == TS_DECODER_VERIFY) {
		ts_decoder_pass(decoder, TS_REASON_JPEG_CALLS);
		ts_decoder_reset(decoder);
		decoder->phase = TS_DECODER_PLAIN;
	}
}

/* ---- rows ------------------------------------------------------------------------------- */

static unsigned read_observed(struct ts_decoder *decoder, uint8_t **rows, unsigned max_rows)
{
	struct ts_jpeg_decompress *cinfo = decoder->cinfo;
	unsigned first = cinfo->output_scanline;
	ts_stream_enter(&decoder->stream, cinfo);
	uint64_t ticks = ts_ticks();
	unsigned count = decoder->library->read_scanlines(cinfo, rows, max_rows);
	decoder->ticks_inside += ts_ticks() - ticks;
	ts_stream_leave(&decoder->stream, cinfo);
	if (decoder->phase == TS_DECODER_CAPTURE)
		ts_capture_rows(decoder, rows, first, count, max_rows);
	else if (decoder->phase == TS_DECODER_VERIFY)
		ts_verify_rows(decoder, rows, first, count);
	return count;
}

static unsigned read_plain(struct ts_decoder *decoder, uint8_t **rows, unsigned max_rows)
{
	bool shown = show_owed(decoder);
	unsigned count = decoder->library->read_scanlines(decoder->cinfo, rows, max_rows);
	hide_owed(decoder, shown);
	return count;
}

unsigned ts_jpeg_read_scanlines(
	struct ts_jpeg_decompress *cinfo, uint8_t **rows, unsigned max_rows, const void *caller)
{
	struct ts_decoder *decoder = ts_jpeg_followed(cinfo, caller);
	if (TS_UNLIKELY(!decoder))
		return TS_REAL_OF(cinfo, caller)->read_scanlines(cinfo, rows, max_rows);
	if (decoder->phase == TS_DECODER_SERVED && cinfo->output_scanline < decoder->height) {
		int count = ts_decoder_is_foreign(decoder)
				    ? -EAGAIN
				    : ts_serve_rows(decoder, rows, max_rows);
		if (TS_LIKELY(count >= 0))
			return (unsigned)count;
		if (!hand_back(decoder, TS_REASON_JPEG_CALLS))
			return 0;
	}
	if (decoder->phase == TS_DECODER_CAPTURE || decoder->phase == TS_DECODER_VERIFY)
		return read_observed(decoder, rows, max_rows);
	if (TS_UNLIKELY(decoder->phase == TS_DECODER_MATCHING))
		end_matching(decoder);
	return read_plain(decoder, rows, max_rows);
}

unsigned ts_jpeg_skip_scanlines(
	struct ts_jpeg_decompress *cinfo, unsigned rows, const void *caller)
{
	struct ts_decoder *decoder = ts_jpeg_followed(cinfo, caller);
	let_go(decoder);
	const struct ts_jpeg_library *library = TS_REAL_OF(cinfo, caller);
	bool shown = show_owed(decoder);
	unsigned skipped = library->skip_scanlines ? library->skip_scanlines(cinfo, rows) : 0;
	hide_owed(decoder, shown);
	return skipped;
}

void ts_jpeg_crop_scanline(
	struct ts_jpeg_decompress *cinfo, unsigned *offset, unsigned *width, const void *caller)
{
	let_go(ts_jpeg_followed(cinfo, caller));
	const struct ts_jpeg_library *library = TS_REAL_OF(cinfo, caller);
	if (library->crop_scanline)
		library->crop_scanline(cinfo, offset, width);
}

unsigned ts_jpeg_read_raw_data(
	struct ts_jpeg_decompress *cinfo, void *planes, unsigned max_rows, const void *caller)
{
	struct ts_decoder *decoder = ts_jpeg_followed(cinfo, caller);
	let_go(decoder);
	bool shown = show_owed(decoder);
	unsigned count = TS_REAL_OF(cinfo, caller)->read_raw_data(cinfo, planes, max_rows);
	hide_owed(decoder, shown);
	return count;
}

void *ts_jpeg_read_coefficients(struct ts_jpeg_decompress *cinfo, const void *caller)
{
	struct ts_decoder *decoder = ts_jpeg_followed(cinfo, caller);
	if (decoder)
		ts_decoder_pass(decoder, TS_REASON_JPEG_COEFFICIENTS);
	let_go(decoder);
	bool shown = show_owed(decoder);
	void *coefficients = TS_REAL_OF(cinfo, caller)->read_coefficients(cinfo);
	hide_owed(decoder, shown);
	return coefficients;
}

int ts_jpeg_consume_input(struct ts_jpeg_decompress *cinfo, const void *caller)
{
	struct ts_decoder *decoder = ts_jpeg_followed(cinfo, caller);
	let_go(decoder);
	if (decoder && decoder->phase == TS_DECODER_HEADER)
		decoder->stream.broken = true;
	bool shown = show_owed(decoder);
	int result = TS_REAL_OF(cinfo, caller)->consume_input(cinfo);
	hide_owed(decoder, shown);
	return result;
}

int ts_jpeg_input_complete(struct ts_jpeg_decompress *cinfo, const void *caller)
{
	hand_back_if_served(ts_jpeg_followed(cinfo, caller));
	return TS_REAL_OF(cinfo, caller)->input_complete(cinfo);
}

/* ---- end -------------------------------------------------------------------------------- */

static int finish_observed(struct ts_decoder *decoder)
{
	struct ts_jpeg_decompress *cinfo = decoder->cinfo;
	ts_stream_enter(&decoder->stream, cinfo);
	uint64_t ticks = ts_ticks();
	int finished = decoder->library->finish_decompress(cinfo);
	decoder->ticks_inside += ts_ticks() - ticks;
	ts_stream_leave(&decoder->stream, cinfo);
	if (!finished)
		return finished; /* suspended before the end marker: the caller may try again */
	if (decoder->phase == TS_DECODER_CAPTURE)
		ts_capture_finish(decoder);
	else if (decoder->phase == TS_DECODER_VERIFY)
		ts_verify_finish(decoder);
	return finished;
}

static int finish_plain(struct ts_decoder *decoder)
{
	struct ts_jpeg_decompress *cinfo = decoder->cinfo;
	uint64_t bytes = cinfo->output_height * (uint64_t)cinfo->output_width *
			 (unsigned)cinfo->output_components;
	bool shown = show_owed(decoder);
	int finished = decoder->library->finish_decompress(cinfo);
	hide_owed(decoder, shown);
	if (finished && decoder->phase == TS_DECODER_PLAIN)
		ts_session_count_produced(TS_KIND_PIXELS, bytes, 0);
	return finished;
}

int ts_jpeg_finish_decompress(struct ts_jpeg_decompress *cinfo, const void *caller)
{
	struct ts_decoder *decoder = ts_jpeg_followed(cinfo, caller);
	if (!decoder)
		return TS_REAL_OF(cinfo, caller)->finish_decompress(cinfo);
	int finished;
	if (decoder->phase == TS_DECODER_SERVED) {
		/* The library's own complaint, which it makes before touching anything. */
		if (cinfo->output_scanline < cinfo->output_height)
			return decoder->library->finish_decompress(cinfo);
		if (ts_decoder_is_foreign(decoder)) {
			finished = hand_back(decoder, TS_REASON_JPEG_CALLS)
					   ? finish_plain(decoder)
					   : 0;
		} else {
			ts_stream_look(&decoder->stream, cinfo);
			ts_serve_finish(decoder);
			finished = 1;
		}
	} else if (decoder->phase == TS_DECODER_CAPTURE ||
		   decoder->phase == TS_DECODER_VERIFY) {
		finished = finish_observed(decoder);
	} else {
		finished = finish_plain(decoder);
	}
	if (finished)
		ts_decoder_reset(decoder);
	return finished;
}
