/* SPDX-License-Identifier: MIT */
/* Reading a `pixels` record: every number in it is checked before it is used. */
#include "hooks/jpeg/record.h"

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
