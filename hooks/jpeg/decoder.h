/* SPDX-License-Identifier: MIT */
/*
 * One libjpeg decompression object that we follow, from jpeg_CreateDecompress() to
 * jpeg_destroy_decompress(), and the table that finds it by the object's address.
 *
 *   IDLE ──read_header──> HEADER ──start_decompress──┬──> PLAIN     the library works alone
 *    ^                                               ├──> CAPTURE   it works, we publish
 *    │                                               ├──> VERIFY    it works, we compare
 *    │                                               └──> MATCHING ──> SERVED
 *    └──finish, abort, destroy, an error's longjmp and what follows it
 *
 * MATCHING: a record was found by the first bytes of the stream; it is ours when the rest,
 * as the caller shows it, proves to be the same.  Until then start_decompress answers
 * "suspended" to callers that feed pieces.  From MATCHING and SERVED the way back to PLAIN is
 * always open: nothing the real library needs is lost (see stream.h, splice).
 *
 * An object belongs to one thread at a time, as in libjpeg.  Only the table is shared.
 */
#ifndef TS_HOOKS_JPEG_DECODER_H
#define TS_HOOKS_JPEG_DECODER_H

#include "hooks/jpeg/abi.h"
#include "hooks/jpeg/library.h"
#include "hooks/jpeg/record.h"
#include "hooks/jpeg/stream.h"
#include "leader/group/session.h"
#include "shim/identity.h"

enum ts_decoder_phase {
	TS_DECODER_IDLE,
	TS_DECODER_HEADER,
	TS_DECODER_PLAIN,
	TS_DECODER_CAPTURE,
	TS_DECODER_VERIFY,
	TS_DECODER_MATCHING,
	TS_DECODER_SERVED,
};

struct ts_decoder {
	struct ts_jpeg_decompress *cinfo;
	const struct ts_jpeg_library *library;
	int version; /* JPEG_LIB_VERSION of the caller */
	enum ts_decoder_phase phase;
	bool saves_markers;   /* the caller keeps APPn or COM markers */
	bool own_markers;     /* the caller reads markers itself */
	bool counted;         /* this image was counted already */
	uint64_t environment; /* hash of the JSIMD_* variables when the object was made */
	struct ts_stream stream;

	uint32_t serial;        /* ts_identity_serial() when lease or claim was got */
	struct ts_store *store; /* those below are valid in the phases that need them */
	struct ts_claim claim;
	struct ts_lease lease;
	uint8_t *buffer;                         /* CAPTURE: the record being made */
	uint64_t piece_room;                     /* CAPTURE: pieces that fit in it */
	const struct ts_pixels_trailer *trailer; /* VERIFY, MATCHING, SERVED */
	uint64_t row_bytes;
	uint32_t height;
	bool differs; /* VERIFY: a row was not the same */
	/* CAPTURE: after start_decompress; SERVED: what the fields were before it */
	struct ts_pixels_progress progress;

	uint32_t max_rows; /* of the first read_scanlines call, TS_ROWS_MANY at most */
	uint32_t call_count;
	uint8_t *calls; /* CAPTURE with max_rows > 1 */

	uint64_t cpu_start;   /* thread CPU time when the decode began */
	uint64_t ticks_start; /* cycle counter then, and cycles inside the library since */
	uint64_t ticks_inside;
};

/** The decoder that @cinfo is, or NULL. Some nanoseconds; any thread. */
struct ts_decoder *ts_decoder_find(const void *cinfo);

/** The stream of the decoder that @cinfo is, which is followed.  As above. */
struct ts_stream *ts_decoder_stream(struct ts_jpeg_decompress *cinfo);

/** Begin to follow @cinfo, which is not followed yet. NULL when the table is full. */
struct ts_decoder *ts_decoder_create(
	struct ts_jpeg_decompress *cinfo, const struct ts_jpeg_library *library, int version);

/** Stop following it. Everything it held is given back. */
void ts_decoder_destroy(struct ts_decoder *decoder);

/** Back to IDLE: end lease and claim, forget the stream. */
void ts_decoder_reset(struct ts_decoder *decoder);

/** Count this image as not shared for @reason, unless it has been counted already. */
void ts_decoder_pass(struct ts_decoder *decoder, enum ts_reason reason);

/**
 * Whether what the decoder holds is a parent's: in a fork child its lease protects the
 * record no longer, and its reservation is memory that will hold somebody else's record.
 */
static inline bool ts_decoder_is_foreign(const struct ts_decoder *decoder)
{
	return decoder->phase > TS_DECODER_PLAIN && decoder->serial != ts_identity_serial();
}

/** From any phase to PLAIN: end the lease or the claim, unless it is a parent's. */
void ts_decoder_go_plain(struct ts_decoder *decoder);

/** A cycle counter, for proportions only. */
uint64_t ts_ticks(void);

/** Read and set the object's fields that tell where a decode stands. */
struct ts_pixels_progress ts_decoder_progress(const struct ts_decoder *decoder);
void ts_decoder_set_progress(
	struct ts_decoder *decoder, const struct ts_pixels_progress *progress);

/**
 * Key of the image: the digest of the stream's first bytes, and all else that decides about
 * pixels: decoder settings, tables, components, the library itself and its environment.
 */
struct ts_key ts_decoder_key(const struct ts_decoder *decoder, struct ts_hash128 prefix);

/* ---- share.c: the library works, and what it delivers is published or compared --------- */

/** Make room for the record of a claim; on failure (reason returned) the claim is gone. */
int ts_capture_begin(struct ts_decoder *decoder);
/** @rows, returned by one call of the library that was asked for @asked, began at @first. */
void ts_capture_rows(struct ts_decoder *decoder, uint8_t **rows, unsigned first, unsigned count,
	unsigned asked);
/** The image is finished: publish it, or say why not. */
void ts_capture_finish(struct ts_decoder *decoder);
void ts_verify_rows(struct ts_decoder *decoder, uint8_t **rows, unsigned first, unsigned count);
void ts_verify_finish(struct ts_decoder *decoder);

/* ---- share.c: a record takes the library's place -------------------------------------- */

/**
 * The trailer inside a record of @bytes that should hold @height rows of @row_bytes, or NULL
 * when what is there is not one: every number is checked before it is used.
 */
const struct ts_pixels_trailer *ts_pixels_trailer(
	const void *record, uint64_t bytes, uint64_t height, uint64_t row_bytes);

enum ts_match { TS_MATCH_SAME, TS_MATCH_MORE, TS_MATCH_DIFFERENT };

/**
 * Compare what the caller shows with the record's stream.  TS_MATCH_MORE: the caller
 * has to show more, and sees its source as the library would have left it.
 * *ret_reason is set with TS_MATCH_DIFFERENT.
 */
enum ts_match ts_serve_match(struct ts_decoder *decoder, enum ts_reason *ret_reason);
/** The record is the image: set the object up as after jpeg_start_decompress(). */
void ts_serve_begin(struct ts_decoder *decoder);
/** As jpeg_read_scanlines(); -EAGAIN when only the library can answer such a call. */
int ts_serve_rows(struct ts_decoder *decoder, uint8_t **rows, unsigned max_rows);
/** As jpeg_finish_decompress() of an image whose rows have all been read. */
void ts_serve_finish(struct ts_decoder *decoder);

#endif
