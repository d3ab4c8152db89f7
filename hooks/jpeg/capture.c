/* SPDX-License-Identifier: MIT */
/* The library works, and what it delivers is published (CAPTURE) or compared (VERIFY). */
#include "hooks/jpeg/decoder.h"

#include "shim/sys.h"

#include <stdlib.h>
#include <string.h>

/* How much of a shown buffer may belong to this image: hardly any stream is larger, and a
 * buffer that holds many images is not hashed to its end for each of them. */
#define GUARD_BYTES_PER_PIXEL 3u
#define GUARD_SLACK_BYTES     UINT64_C(65536)

/*
 * How many pieces an image may come in, judged before its length is known: a stream is
 * hardly ever longer than a byte per pixel.  If it is, the image is not published.
 */
static uint64_t piece_budget(const struct ts_decoder *decoder)
{
	const struct ts_jpeg_decompress *cinfo = decoder->cinfo;
	uint64_t bytes = (uint64_t)cinfo->image_width * cinfo->image_height;
	uint64_t step = ts_max_u64(decoder->stream.window_bytes, 512);
	return ts_min_u64(bytes / step + 8, TS_PIECES_MAX);
}

int ts_capture_begin(struct ts_decoder *decoder)
{
	void *buffer;
	uint64_t pieces = piece_budget(decoder);
	uint64_t bytes =
		ts_pixels_bytes(decoder->height, decoder->row_bytes, pieces, decoder->height);
	int r = ts_claim_reserve(decoder->store, &decoder->claim, bytes, &buffer);
	if (r < 0)
		return r;
	decoder->buffer = buffer;
	decoder->piece_room = pieces;
	decoder->phase = TS_DECODER_CAPTURE;
	decoder->max_rows = decoder->call_count = 0;
	decoder->cpu_start = ts_thread_cpu_ns();
	decoder->ticks_start = ts_ticks();
	decoder->ticks_inside = 0;

	/* Memory shown as a whole may be a mapped file that somebody writes to meanwhile. */
	const struct ts_jpeg_decompress *cinfo = decoder->cinfo;
	uint64_t guard =
		decoder->stream.position + GUARD_SLACK_BYTES +
		(uint64_t)cinfo->image_width * cinfo->image_height * GUARD_BYTES_PER_PIXEL;
	ts_stream_guard(&decoder->stream, ts_min_u64(guard, ts_stream_seen(&decoder->stream)));
	ts_stream_record(&decoder->stream);
	return 0;
}

/* Give up publishing; the library goes on. */
static void drop(struct ts_decoder *decoder, enum ts_reason reason)
{
	ts_decoder_end_claim(decoder);
	decoder->buffer = NULL;
	decoder->phase = TS_DECODER_PLAIN;
	decoder->stream.recording = false;
	ts_decoder_pass(decoder, reason);
}

/* Callers that ask for several rows get as many as the library has ready: remember how
 * many, so that a hit returns the same.  Returns false when the pattern is not regular. */
static bool note_call(
	struct ts_decoder *decoder, unsigned first, unsigned count, unsigned asked)
{
	unsigned left = decoder->height - first;
	if (decoder->max_rows == 0)
		decoder->max_rows = asked < TS_ROWS_MANY ? asked : TS_ROWS_MANY;
	bool same = asked == decoder->max_rows ||
		    (asked >= TS_ROWS_MANY && decoder->max_rows >= TS_ROWS_MANY) ||
		    (asked >= left && decoder->max_rows >= left);
	if (!same)
		return false;
	if (decoder->max_rows == 1)
		return true;
	if (!decoder->calls)
		decoder->calls = malloc(decoder->height);
	if (!decoder->calls || decoder->call_count == decoder->height || count > UINT8_MAX)
		return false;
	decoder->calls[decoder->call_count++] = (uint8_t)count;
	return true;
}

/* Whether the rows of one call lie apart, so that what the library wrote can be read back. */
static bool rows_apart(uint8_t *const *rows, unsigned count, uint64_t row_bytes)
{
	for (unsigned i = 1; i < count; i++) {
		uintptr_t a = (uintptr_t)rows[i - 1], b = (uintptr_t)rows[i];
		/* All upwards, or all downwards: enough to know it of every pair. */
		bool up = (uintptr_t)rows[1] > (uintptr_t)rows[0];
		if (up ? b < a + row_bytes : a < b + row_bytes)
			return false;
	}
	return true;
}

void ts_capture_rows(struct ts_decoder *decoder, uint8_t **rows, unsigned first, unsigned count,
	unsigned asked)
{
	if (decoder->cinfo->err->num_warnings != 0) {
		drop(decoder, TS_REASON_JPEG_WARNING); /* now: the caller may clear it */
		return;
	}
	if (count == 0)
		return; /* suspended, or asked for none */
	if (count > decoder->height - first || !note_call(decoder, first, count, asked) ||
		!rows_apart(rows, count, decoder->row_bytes)) {
		drop(decoder, TS_REASON_JPEG_CALLS);
		return;
	}
	for (unsigned i = 0; i < count; i++)
		memcpy(decoder->buffer + (uint64_t)(first + i) * decoder->row_bytes, rows[i],
			decoder->row_bytes);
}

/* Why the finished image must not be published; TS_REASON_COUNT if it may. */
static enum ts_reason objection(const struct ts_decoder *decoder)
{
	const struct ts_stream *stream = &decoder->stream;
	if (decoder->cinfo->err->num_warnings != 0)
		return TS_REASON_JPEG_WARNING;
	if (stream->broken || stream->end == 0)
		return TS_REASON_JPEG_SOURCE;
	if (!stream->guard_held)
		return TS_REASON_JPEG_CHANGED;
	if (stream->piece_count > decoder->piece_room)
		return TS_REASON_JPEG_FEED;
	return TS_REASON_COUNT;
}

static void write_trailer(const struct ts_decoder *decoder)
{
	const struct ts_stream *stream = &decoder->stream;
	struct ts_pixels_trailer trailer = {
		.magic = TS_PIXELS_MAGIC,
		.row_bytes = decoder->row_bytes,
		.height = decoder->height,
		.piece_count = stream->piece_count,
		.stream_bytes = stream->end,
		.stream_digest = stream->end_digest,
		.started = decoder->progress,
		.finished = ts_decoder_progress(decoder),
		.max_rows = decoder->max_rows,
		.call_count = decoder->call_count,
	};
	uint64_t rows = decoder->height * decoder->row_bytes;
	uint64_t trailer_at = ts_pixels_trailer_at(decoder->height, decoder->row_bytes);
	uint8_t *at = decoder->buffer + trailer_at;
	memset(decoder->buffer + rows, 0, trailer_at - rows); /* what was there goes nowhere */
	memcpy(at, &trailer, sizeof(trailer));
	at += sizeof(trailer);
	if (stream->piece_count)
		memcpy(at, stream->pieces, stream->piece_count * sizeof(*stream->pieces));
	at += stream->piece_count * sizeof(*stream->pieces);
	if (decoder->call_count)
		memcpy(at, decoder->calls, decoder->call_count);
}

/* CPU time of the library's own part: the thread's time since the start, less the share of
 * the clock that passed between its calls, where the caller worked on the rows. */
static uint64_t library_cpu_ns(const struct ts_decoder *decoder)
{
	uint64_t cpu = ts_thread_cpu_ns() - decoder->cpu_start;
	uint64_t ticks = ts_ticks() - decoder->ticks_start;
	if (ticks == 0 || decoder->ticks_inside >= ticks)
		return cpu;
	return (uint64_t)((double)cpu * (double)decoder->ticks_inside / (double)ticks);
}

void ts_capture_finish(struct ts_decoder *decoder)
{
	enum ts_reason reason = objection(decoder);
	uint64_t cpu_ns = library_cpu_ns(decoder);
	uint64_t bytes = ts_pixels_bytes(decoder->height, decoder->row_bytes,
		decoder->stream.piece_count, decoder->call_count);
	ts_session_count_produced(TS_KIND_PIXELS, bytes, cpu_ns);
	if (reason != TS_REASON_COUNT) {
		drop(decoder, reason);
		return;
	}
	write_trailer(decoder);
	decoder->phase = TS_DECODER_PLAIN;
	(void)ts_claim_publish(decoder->store, &decoder->claim, bytes, cpu_ns);
}

void ts_verify_rows(struct ts_decoder *decoder, uint8_t **rows, unsigned first, unsigned count)
{
	const uint8_t *expected = decoder->lease.data;
	if (count > decoder->height - first || !rows_apart(rows, count, decoder->row_bytes))
		return;
	for (unsigned i = 0; i < count && !decoder->differs; i++)
		decoder->differs = memcmp(expected + (uint64_t)(first + i) * decoder->row_bytes,
					   rows[i], decoder->row_bytes) != 0;
}

void ts_verify_finish(struct ts_decoder *decoder)
{
	const struct ts_stream *stream = &decoder->stream;
	bool same_stream = !stream->broken && stream->end == decoder->trailer->stream_bytes &&
			   stream->end_digest.lo == decoder->trailer->stream_digest.lo &&
			   stream->end_digest.hi == decoder->trailer->stream_digest.hi &&
			   stream->guard_held;
	/* With a warning it is another stream that only looks the same: where the input ends
	 * early, jpeg_mem_src() and others put in the end marker that the record's stream had.
	 */
	if (same_stream && decoder->cinfo->err->num_warnings == 0)
		ts_session_count_verified(!decoder->differs, &decoder->lease);
	ts_session_count_produced(TS_KIND_PIXELS, decoder->lease.bytes, 0);
	ts_decoder_pass(decoder, TS_REASON_VERIFY);
	ts_decoder_end_lease(decoder);
	decoder->phase = TS_DECODER_PLAIN;
}
