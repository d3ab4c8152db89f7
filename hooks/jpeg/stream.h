/* SPDX-License-Identifier: MIT */
/*
 * The encoded stream of one image as its caller shows it to libjpeg: position, digest, and
 * the two things libjpeg's source interface makes hard: following a source that only shows
 * a window at a time, and giving bytes back that were already taken from it.
 *
 * Callers come in three sorts, and nothing tells them apart beforehand:
 *   whole       the window is the whole stream (jpeg_mem_src, torchvision)
 *   pulling     fill_input_buffer shows the next window (jpeg_stdio_src)
 *   suspending  fill_input_buffer says no; the call returns, and the caller calls again
 *               with what was not consumed and more behind it (Pillow)
 *
 * All positions count bytes from the start of the image's stream.  The window is
 * [at, at + window_bytes); what lies before it is gone from the caller's memory.
 *
 * While the real library runs, our functions stand in the caller's source manager (the same
 * structure, so pointers the library keeps to it stay right); they are taken out whenever
 * control returns to the caller, and by ts_stream_forget() after a longjmp.
 */
#ifndef TS_HOOKS_JPEG_STREAM_H
#define TS_HOOKS_JPEG_STREAM_H

#include "hooks/jpeg/abi.h"
#include "hooks/jpeg/record.h"
#include "shim/hash.h"

struct ts_stream {
	struct ts_jpeg_source_mgr *src;
	int (*fill)(struct ts_jpeg_decompress *cinfo); /* the caller's own three functions */
	void (*skip)(struct ts_jpeg_decompress *cinfo, long num_bytes);
	void (*term)(struct ts_jpeg_decompress *cinfo);
	bool installed;  /* ours stand in *src */
	bool inside;     /* between enter and leave, or the call was left by a longjmp */
	bool broken;     /* bytes went past us unseen: this image cannot be shared */
	bool suspended;  /* the caller's fill said no during this call */
	bool one_window; /* nothing but the first window was ever seen */

	const uint8_t *window; /* what the caller shows, and where that is in the stream */
	size_t window_bytes;
	uint64_t at;
	uint64_t position;        /* consumed for good, by the library or by us */
	const uint8_t *left_next; /* how we left the source at the last return */
	size_t left_bytes;

	/* Set when the library tells the source to finish, before the caller's function can
	 * move or free anything: where the stream ended, and whether the guarded bytes were
	 * still what they had been before decoding. */
	uint64_t end;
	struct ts_hash128 end_digest;
	uint64_t guard_to; /* 0 = no guard */
	struct ts_hash128 guard;
	bool guard_held;

	uint64_t hashed; /* the digest covers [0, hashed) */
	struct ts_hasher hasher;

	struct ts_pixels_piece *pieces; /* noted while recording */
	uint32_t piece_count, piece_room;
	bool recording;

	/* Bytes taken from the caller before the real library saw them, to be shown to it
	 * first.  `splice` is those and the caller's window in one piece, while the library
	 * reads it: a decoder that suspends must be able to go back across the seam. */
	uint8_t *kept;
	size_t kept_bytes, kept_room;
	uint8_t *splice;
	bool splicing;
	bool window_in_splice; /* false only where there was no memory to copy it */
};

/** The stream of the object that @cinfo is, which is followed. */
typedef struct ts_stream *ts_stream_finder(struct ts_jpeg_decompress *cinfo);

/**
 * A new image begins: libjpeg is about to read its header from @cinfo's source.  Our functions
 * there are given @cinfo alone, so they ask @find, the same for all streams, which one it is.
 */
void ts_stream_begin(
	struct ts_stream *stream, struct ts_jpeg_decompress *cinfo, ts_stream_finder *find);

/** Before and after each call into the real library that may read from the source. */
void ts_stream_enter(struct ts_stream *stream, struct ts_jpeg_decompress *cinfo);
void ts_stream_leave(struct ts_stream *stream, struct ts_jpeg_decompress *cinfo);

/** Put the caller's functions back and free what is held; also after a longjmp. */
void ts_stream_forget(struct ts_stream *stream);

/** How far the caller has shown the stream. */
static inline uint64_t ts_stream_seen(const struct ts_stream *stream)
{
	return stream->at + stream->window_bytes;
}

/**
 * Digest of the first @bytes of the stream; @bytes lies between what is hashed and what is
 * seen.  Does not move anything.
 */
struct ts_hash128 ts_stream_digest(const struct ts_stream *stream, uint64_t bytes);

/** From here on note a piece whenever the visible bytes run out. */
void ts_stream_record(struct ts_stream *stream);

/**
 * Remember the digest of the bytes up to @to (at most what is seen), so that memory which
 * somebody changes while it is decoded is noticed at the end.
 */
void ts_stream_guard(struct ts_stream *stream, uint64_t to);

/* ---- taking bytes without the library -------------------------------------------------- */

/**
 * Look at what the caller shows now, at the start of a call that goes on matching.
 * Marks the stream broken when the source object was replaced.
 */
void ts_stream_look(struct ts_stream *stream, struct ts_jpeg_decompress *cinfo);

/**
 * Take the bytes up to position @to (at most what is seen) from the caller, keeping a copy.
 * Errors: -ENOMEM.
 */
int ts_stream_take(struct ts_stream *stream, uint64_t to);

/**
 * Ask the caller's source for more.  1: a new window is there (all of the old one had to be
 * taken before); 0: it suspends.  May not return: a source may raise an error.
 */
int ts_stream_pull(struct ts_stream *stream, struct ts_jpeg_decompress *cinfo);

/** Undo the end of the last ts_stream_take(), back to position @to of the same window. */
void ts_stream_give_back(struct ts_stream *stream, uint64_t to);

/** Leave the source as the library would with everything up to @position consumed. */
void ts_stream_leave_at(struct ts_stream *stream, uint64_t position);

/** Whether bytes we took are still to be shown to the real library. */
static inline bool ts_stream_owes(const struct ts_stream *stream)
{
	return stream->kept_bytes != 0;
}

#endif
