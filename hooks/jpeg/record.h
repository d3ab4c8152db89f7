/* SPDX-License-Identifier: MIT */
/*
 * What a `pixels` record holds: the rows, then a trailer.
 *
 *	rows      height x row_bytes, top row first, as jpeg_read_scanlines() delivered them
 *	trailer   at the next multiple of 64 bytes after the rows
 *	pieces    right behind the trailer
 *	calls     one byte per jpeg_read_scanlines() call: the rows it returned
 *
 * A piece is a place in the stream where the producer's decoder ran out of visible bytes.
 * A reader whose caller feeds the same stream in the same pieces can tell at each of them
 * whether the bytes so far are the producer's, and how many of them the library would have
 * consumed, without decoding anything.
 */
#ifndef TS_HOOKS_JPEG_RECORD_H
#define TS_HOOKS_JPEG_RECORD_H

#include "shim/base.h"
#include "shim/hash.h"

#include <assert.h>

#define TS_PIXELS_MAGIC UINT64_C(0x3158495053535354) /* "TSSSPIX1" */
#define TS_PIXELS_ALIGN 64u
#define TS_PIECES_MAX   4096u

struct ts_pixels_piece {
	uint64_t seen;            /* bytes of the stream the caller had shown by then */
	uint64_t consumed;        /* of them, what the library had taken for good */
	struct ts_hash128 digest; /* of the first `seen` bytes */
};
static_assert(sizeof(struct ts_pixels_piece) == 32, "ABI 1");

/** Where a decode stands, as far as the object's public fields tell. */
struct ts_pixels_progress {
	int32_t input_scan_number;
	uint32_t input_imcu_row;
	int32_t output_scan_number;
	uint32_t output_imcu_row;
};

struct ts_pixels_trailer {
	uint64_t magic;
	uint64_t row_bytes;
	uint32_t height;
	uint32_t piece_count;
	uint64_t stream_bytes; /* up to and including the EOI marker */
	struct ts_hash128 stream_digest;
	struct ts_pixels_progress started;  /* after jpeg_start_decompress() */
	struct ts_pixels_progress finished; /* after jpeg_finish_decompress() */
	uint32_t max_rows;   /* rows the producer asked for per call, TS_ROWS_MANY at most */
	uint32_t call_count; /* 0 where that was 1: every call returned one row */
};
static_assert(sizeof(struct ts_pixels_trailer) == 88, "ABI 1");

/* Asking for this many rows or more, a caller gets what the library has at hand. */
#define TS_ROWS_MANY 64u

/** Where the trailer of a record with that many rows begins. */
static inline uint64_t ts_pixels_trailer_at(uint64_t height, uint64_t row_bytes)
{
	return ts_align_up(height * row_bytes, TS_PIXELS_ALIGN);
}

/** Bytes of a whole record. */
static inline uint64_t ts_pixels_bytes(
	uint64_t height, uint64_t row_bytes, uint64_t pieces, uint64_t calls)
{
	return ts_pixels_trailer_at(height, row_bytes) + sizeof(struct ts_pixels_trailer) +
	       pieces * sizeof(struct ts_pixels_piece) + calls;
}

/** The pieces behind @trailer. */
static inline const struct ts_pixels_piece *ts_pixels_pieces(
	const struct ts_pixels_trailer *trailer)
{
	return (const struct ts_pixels_piece *)(trailer + 1);
}

/** The calls behind the pieces. */
static inline const uint8_t *ts_pixels_calls(const struct ts_pixels_trailer *trailer)
{
	return (const uint8_t *)(ts_pixels_pieces(trailer) + trailer->piece_count);
}

#endif
