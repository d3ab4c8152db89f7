/* SPDX-License-Identifier: MIT */
/*
 * `pixels` records: what the library delivers is published (CAPTURE) or compared (VERIFY), and
 * a record takes the library's place (SERVED).
 */
#include "hooks/jpeg/decoder.h"

#include "shim/sys.h"

#include <stdlib.h>
#include <string.h>

static bool same_digest(struct ts_hash128 a, struct ts_hash128 b)
{
	return a.lo == b.lo && a.hi == b.hi;
}

/* Whether calls for @asked and for @other rows get equally many, of which @left are left. */
static bool is_alike(unsigned asked, unsigned other, unsigned left)
{
	return asked == other || (asked >= TS_ROWS_MANY && other >= TS_ROWS_MANY) ||
	       (asked >= left && other >= left);
}

/* ---- reading a record ---------------------------------------------------------------- */

static bool calls_add_up(const struct ts_pixels_trailer *trailer)
{
	const uint8_t *calls = ts_pixels_calls(trailer);
	uint64_t rows = 0;
	if (trailer->max_rows == 1 || trailer->call_count == 0)
		return trailer->max_rows == 1 && trailer->call_count == 0;
	for (uint32_t i = 0; i < trailer->call_count; i++) {
		if (calls[i] == 0)
			return false;
		rows += calls[i];
	}
	return rows == trailer->height;
}

const struct ts_pixels_trailer *ts_pixels_trailer(
	const void *record, uint64_t bytes, uint64_t height, uint64_t row_bytes)
{
	uint64_t at = ts_pixels_trailer_at(height, row_bytes);
	if (at >= bytes || bytes - at < sizeof(struct ts_pixels_trailer))
		return NULL;
	const struct ts_pixels_trailer *trailer = (const void *)((const uint8_t *)record + at);
	if (trailer->magic != TS_PIXELS_MAGIC || trailer->height != height ||
		trailer->row_bytes != row_bytes || trailer->piece_count > TS_PIECES_MAX ||
		trailer->call_count > height || trailer->max_rows == 0 ||
		trailer->max_rows > TS_ROWS_MANY || trailer->stream_bytes == 0)
		return NULL;
	if (ts_pixels_bytes(height, row_bytes, trailer->piece_count, trailer->call_count) >
		bytes)
		return NULL;
	return calls_add_up(trailer) ? trailer : NULL;
}

/* ---- the library works --------------------------------------------------------------- */

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
	ts_decoder_go_plain(decoder);
	decoder->buffer = NULL;
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
	if (!is_alike(asked, decoder->max_rows, left))
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
			   same_digest(stream->end_digest, decoder->trailer->stream_digest) &&
			   stream->guard_held;
	/* With a warning it is another stream that only looks the same: where the input ends
	 * early, jpeg_mem_src() and others put in the end marker that the record's stream had.
	 */
	if (same_stream && decoder->cinfo->err->num_warnings == 0)
		ts_session_count_verified(!decoder->differs, &decoder->lease);
	ts_session_count_produced(TS_KIND_PIXELS, decoder->lease.bytes, 0);
	ts_decoder_pass(decoder, TS_REASON_VERIFY);
	ts_decoder_go_plain(decoder);
}

/* ---- a record takes its place -------------------------------------------------------- */

/* The record's piece that ends where the caller's visible bytes end now. */
static const struct ts_pixels_piece *find_piece(
	const struct ts_pixels_trailer *trailer, uint64_t seen)
{
	const struct ts_pixels_piece *pieces = ts_pixels_pieces(trailer);
	uint32_t low = 0, high = trailer->piece_count;
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (pieces[middle].seen < seen)
			low = middle + 1;
		else
			high = middle;
	}
	return low < trailer->piece_count && pieces[low].seen == seen ? &pieces[low] : NULL;
}

/*
 * The producer's decoder wanted more bytes exactly here and everything up to here is the
 * same, so the library would want more as well: asking the caller's source is what it would
 * do.  If the source suspends, it is left as the library would have left it.
 */
static enum ts_match ask_for_more(struct ts_decoder *decoder, enum ts_reason *ret_reason)
{
	struct ts_stream *stream = &decoder->stream;
	uint64_t seen = ts_stream_seen(stream);
	const struct ts_pixels_piece *found = find_piece(decoder->trailer, seen);
	*ret_reason = TS_REASON_JPEG_FEED;
	if (!found)
		return TS_MATCH_DIFFERENT;
	struct ts_pixels_piece piece = *found;
	*ret_reason = TS_REASON_JPEG_DIFFERENT;
	if (!same_digest(piece.digest, ts_stream_digest(stream, seen)))
		return TS_MATCH_DIFFERENT;
	*ret_reason = TS_REASON_MEMORY;
	if (piece.consumed < stream->position || piece.consumed > seen ||
		ts_stream_take(stream, seen) < 0)
		return TS_MATCH_DIFFERENT;
	if (ts_stream_pull(stream, decoder->cinfo))
		return TS_MATCH_SAME;
	/* The caller shows an unfinished block again, with more behind it. */
	ts_stream_give_back(stream, piece.consumed);
	return TS_MATCH_MORE;
}

enum ts_match ts_serve_match(struct ts_decoder *decoder, enum ts_reason *ret_reason)
{
	struct ts_stream *stream = &decoder->stream;
	uint64_t whole = decoder->trailer->stream_bytes;
	for (;;) {
		if (stream->broken || whole <= stream->position) {
			*ret_reason = TS_REASON_JPEG_SOURCE;
			return TS_MATCH_DIFFERENT;
		}
		if (ts_stream_seen(stream) >= whole) {
			*ret_reason = TS_REASON_JPEG_DIFFERENT;
			return same_digest(decoder->trailer->stream_digest,
				       ts_stream_digest(stream, whole))
				       ? TS_MATCH_SAME
				       : TS_MATCH_DIFFERENT;
		}
		enum ts_match match = ask_for_more(decoder, ret_reason);
		if (match != TS_MATCH_SAME)
			return match;
	}
}

void ts_serve_begin(struct ts_decoder *decoder)
{
	struct ts_jpeg_decompress *cinfo = decoder->cinfo;
	/* Output dimensions were filled in by the library for the key. */
	cinfo->output_scanline = 0;
	decoder->progress = ts_decoder_progress(decoder);
	ts_decoder_set_progress(decoder, &decoder->trailer->started);
	cinfo->global_state = TS_JPEG_SCANNING;
	decoder->phase = TS_DECODER_SERVED;
	decoder->max_rows = decoder->call_count = 0;
}

/* How many rows the library would return now; -EAGAIN if this record cannot tell. */
static int rows_of_call(struct ts_decoder *decoder, unsigned asked)
{
	const struct ts_pixels_trailer *trailer = decoder->trailer;
	unsigned left = decoder->height - decoder->cinfo->output_scanline;
	if (asked == 1 && trailer->max_rows == 1)
		return 1;
	if (!is_alike(asked, trailer->max_rows, left))
		return -EAGAIN;
	if (trailer->max_rows == 1)
		return 1;
	if (decoder->call_count >= trailer->call_count)
		return -EAGAIN;
	return ts_pixels_calls(trailer)[decoder->call_count];
}

int ts_serve_rows(struct ts_decoder *decoder, uint8_t **rows, unsigned max_rows)
{
	struct ts_jpeg_decompress *cinfo = decoder->cinfo;
	unsigned first = cinfo->output_scanline;
	int count = max_rows > 0 && rows ? rows_of_call(decoder, max_rows) : -EAGAIN;
	if (count < 0 || (unsigned)count > max_rows ||
		(unsigned)count > decoder->height - first)
		return -EAGAIN;
	const uint8_t *from = (const uint8_t *)decoder->lease.data + first * decoder->row_bytes;
	for (int i = 0; i < count; i++)
		memcpy(rows[i], from + (uint64_t)i * decoder->row_bytes, decoder->row_bytes);
	cinfo->output_scanline = first + (unsigned)count;
	decoder->call_count++;
	return count;
}

void ts_serve_finish(struct ts_decoder *decoder)
{
	struct ts_jpeg_decompress *cinfo = decoder->cinfo;
	const struct ts_pixels_trailer *trailer = decoder->trailer;
	ts_decoder_set_progress(decoder, &trailer->finished);
	ts_stream_leave_at(&decoder->stream, trailer->stream_bytes);
	ts_session_count_shared(TS_KIND_PIXELS, &decoder->lease);
	decoder->counted = true;
	ts_decoder_go_plain(decoder);
	/* The library frees its working memory; the caller's source may do so as well. */
	cinfo->src->term_source(cinfo);
	decoder->library->abort_decompress(cinfo);
}
