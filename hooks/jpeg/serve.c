/* SPDX-License-Identifier: MIT */
/* A record takes the library's place. */
#include "hooks/jpeg/decoder.h"

#include <string.h>

static bool same_digest(struct ts_hash128 a, struct ts_hash128 b)
{
	return a.lo == b.lo && a.hi == b.hi;
}

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
	bool same = asked == trailer->max_rows ||
		    (asked >= TS_ROWS_MANY && trailer->max_rows >= TS_ROWS_MANY) ||
		    (asked >= left && trailer->max_rows >= left);
	if (!same)
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
	ts_decoder_end_lease(decoder);
	decoder->phase = TS_DECODER_PLAIN;
	/* The library frees its working memory; the caller's source may do so as well. */
	cinfo->src->term_source(cinfo);
	decoder->library->abort_decompress(cinfo);
}
