/* SPDX-License-Identifier: MIT */
/* The encoded stream of one image as its caller shows it to libjpeg. */
#include "hooks/jpeg/stream.h"

#include "shim/atomic.h"

#include <stdlib.h>
#include <string.h>

/* Enough for a 64 KiB window or two; grows by doubling. */
#define KEEP_FIRST_BYTES ((size_t)128 * 1024)
#define PIECES_FIRST     32u

static ts_stream_finder *_Atomic finder;

static struct ts_stream *stream_of(struct ts_jpeg_decompress *cinfo)
{
	return ts_load_relaxed(&finder)(cinfo);
}

static void hash_to(struct ts_stream *stream, uint64_t bytes)
{
	if (bytes <= stream->hashed)
		return;
	ts_hasher_add(&stream->hasher, stream->window + (stream->hashed - stream->at),
		bytes - stream->hashed);
	stream->hashed = bytes;
}

struct ts_hash128 ts_stream_digest(const struct ts_stream *stream, uint64_t bytes)
{
	if (bytes <= stream->hashed)
		return ts_hasher_digest(&stream->hasher);
	struct ts_hasher hasher = stream->hasher;
	ts_hasher_add(&hasher, stream->window + (stream->hashed - stream->at),
		bytes - stream->hashed);
	return ts_hasher_digest(&hasher);
}

static void note_piece(struct ts_stream *stream, uint64_t consumed)
{
	uint64_t seen = ts_stream_seen(stream);
	uint32_t count = stream->piece_count;
	if (count > 0 && stream->pieces[count - 1].seen == seen)
		return;
	if (count == stream->piece_room) {
		uint32_t room = count ? count * 2 : PIECES_FIRST;
		struct ts_pixels_piece *grown =
			room > TS_PIECES_MAX ? NULL
					     : realloc(stream->pieces, room * sizeof(*grown));
		if (!grown) {
			stream->broken = true;
			return;
		}
		stream->pieces = grown;
		stream->piece_room = room;
	}
	stream->pieces[count] = (struct ts_pixels_piece){
		.seen = seen, .consumed = consumed, .digest = ts_stream_digest(stream, seen)};
	stream->piece_count = count + 1;
}

/* ---- our functions in the caller's source manager --------------------------------------- */

static int our_fill(struct ts_jpeg_decompress *cinfo);
static void our_skip(struct ts_jpeg_decompress *cinfo, long num_bytes);
static void our_term(struct ts_jpeg_decompress *cinfo);

static void install(struct ts_stream *stream)
{
	struct ts_jpeg_source_mgr *src = stream->src;
	stream->fill = src->fill_input_buffer;
	stream->skip = src->skip_input_data;
	stream->term = src->term_source;
	src->fill_input_buffer = our_fill;
	src->skip_input_data = our_skip;
	src->term_source = our_term;
	stream->installed = true;
}

/* One by one: a caller's function may have set others, and after a longjmp the structure may
 * be gone and its memory something else's. */
static void uninstall(struct ts_stream *stream)
{
	struct ts_jpeg_source_mgr *src = stream->src;
	if (src->fill_input_buffer == our_fill)
		src->fill_input_buffer = stream->fill;
	if (src->skip_input_data == our_skip)
		src->skip_input_data = stream->skip;
	if (src->term_source == our_term)
		src->term_source = stream->term;
	stream->installed = false;
}

/* The caller's function finds its own source manager, also where it leaves by a longjmp. */
static int call_fill(struct ts_stream *stream, struct ts_jpeg_decompress *cinfo)
{
	uninstall(stream);
	int more = stream->fill(cinfo);
	if (cinfo->src == stream->src)
		install(stream);
	else
		stream->broken = true;
	return more;
}

static uint64_t place(const struct ts_stream *stream)
{
	const uint8_t *next = stream->src->next_input_byte;
	if (next < stream->window || next > stream->window + stream->window_bytes ||
		next + stream->src->bytes_in_buffer != stream->window + stream->window_bytes)
		return UINT64_MAX;
	return stream->at + (uint64_t)(next - stream->window);
}

/* The library has read the whole splice; go on with the caller's own source. */
static int fill_after_splice(struct ts_stream *stream, struct ts_jpeg_decompress *cinfo)
{
	struct ts_jpeg_source_mgr *src = stream->src;
	const uint8_t *next = src->next_input_byte;
	size_t bytes = src->bytes_in_buffer, kept_bytes = stream->kept_bytes;
	stream->splicing = false;
	stream->kept_bytes = 0;
	if (!stream->window_in_splice) {
		src->next_input_byte = stream->window;
		src->bytes_in_buffer = stream->window_bytes;
		return 1;
	}
	src->next_input_byte = stream->window + stream->window_bytes;
	src->bytes_in_buffer = 0;
	int more = call_fill(stream, cinfo);
	if (!more) {
		src->next_input_byte = next;
		src->bytes_in_buffer = bytes;
		stream->splicing = true;
		stream->kept_bytes = kept_bytes;
	}
	return more;
}

static int our_fill(struct ts_jpeg_decompress *cinfo)
{
	struct ts_stream *stream = stream_of(cinfo);
	if (stream->splicing)
		return fill_after_splice(stream, cinfo);
	/* A window that nobody announced, by init_source say, was never hashed. */
	if (place(stream) == UINT64_MAX)
		stream->broken = true;
	if (stream->broken)
		return call_fill(stream, cinfo);

	/* Everything shown was read, though src may not say so yet (jdhuff.c keeps its own
	 * copy).  The window may be overwritten by the caller's function, so hash first; a
	 * suspension takes the bytes of an unfinished block back, so keep the old state. */
	struct ts_hasher before = stream->hasher;
	uint64_t hashed = stream->hashed, seen = ts_stream_seen(stream);
	hash_to(stream, seen);
	int more = call_fill(stream, cinfo);
	if (!more) {
		stream->hasher = before;
		stream->hashed = hashed;
		stream->suspended = true;
		return 0;
	}
	if (stream->recording)
		note_piece(stream, seen);
	if (stream->window_bytes > 0)
		stream->one_window = false;
	stream->at = seen;
	stream->window = stream->src->next_input_byte;
	stream->window_bytes = stream->src->bytes_in_buffer;
	return more;
}

static void skip_in_splice(
	struct ts_stream *stream, struct ts_jpeg_decompress *cinfo, size_t bytes)
{
	struct ts_jpeg_source_mgr *src = stream->src;
	if (bytes <= src->bytes_in_buffer) {
		src->next_input_byte += bytes;
		src->bytes_in_buffer -= bytes;
		return;
	}
	bytes -= src->bytes_in_buffer;
	src->next_input_byte = stream->window;
	src->bytes_in_buffer = stream->window_bytes;
	if (stream->window_in_splice) {
		src->next_input_byte += stream->window_bytes;
		src->bytes_in_buffer = 0;
	}
	stream->splicing = false;
	stream->kept_bytes = 0;
	stream->skip(cinfo, (long)bytes);
}

static void our_skip(struct ts_jpeg_decompress *cinfo, long num_bytes)
{
	struct ts_stream *stream = stream_of(cinfo);
	if (stream->splicing) {
		if (num_bytes > 0)
			skip_in_splice(stream, cinfo, (size_t)num_bytes);
		return;
	}
	uint64_t from = place(stream);
	stream->skip(cinfo, num_bytes);
	/* A source that skips by itself (seeks, or remembers a debt as Pillow does) moves
	 * bytes past us. */
	uint64_t to = place(stream);
	uint64_t wanted = num_bytes > 0 ? (uint64_t)num_bytes : 0;
	if (from == UINT64_MAX || to == UINT64_MAX || to - from != wanted)
		stream->broken = true;
}

/* Give the caller its own window back, as far as the library has come in the splice. */
static void leave_splice(struct ts_stream *stream)
{
	struct ts_jpeg_source_mgr *src = stream->src;
	const uint8_t *shown = stream->window_in_splice ? stream->splice : stream->kept;
	size_t taken = (size_t)(src->next_input_byte - shown);
	size_t of_kept = taken < stream->kept_bytes ? taken : stream->kept_bytes;
	size_t of_window = taken - of_kept;
	memmove(stream->kept, stream->kept + of_kept, stream->kept_bytes - of_kept);
	stream->kept_bytes -= of_kept;
	src->next_input_byte = stream->window + of_window;
	src->bytes_in_buffer = stream->window_bytes - of_window;
	stream->position += of_window;
	stream->splicing = false;
}

static bool guard_unchanged(const struct ts_stream *stream)
{
	struct ts_hash128 now = ts_stream_digest(stream, stream->guard_to);
	return now.lo == stream->guard.lo && now.hi == stream->guard.hi;
}

void ts_stream_guard(struct ts_stream *stream, uint64_t to)
{
	stream->guard_to = to;
	stream->guard = ts_stream_digest(stream, to);
}

static void our_term(struct ts_jpeg_decompress *cinfo)
{
	struct ts_stream *stream = stream_of(cinfo);
	uint64_t end = stream->splicing || stream->broken ? UINT64_MAX : place(stream);
	if (end != UINT64_MAX) {
		stream->end = end;
		stream->end_digest = ts_stream_digest(stream, end);
		stream->guard_held = !stream->guard_to || !stream->one_window ||
				     (end <= stream->guard_to && guard_unchanged(stream));
	}
	/* What is unread is the caller's business now, and the structure may end here. */
	if (stream->splicing)
		leave_splice(stream);
	uninstall(stream);
	stream->term(cinfo);
}

/* ---- around calls into the library ------------------------------------------------------ */

static bool is_ours(const struct ts_jpeg_source_mgr *src)
{
	return src->fill_input_buffer == our_fill;
}

void ts_stream_begin(
	struct ts_stream *stream, struct ts_jpeg_decompress *cinfo, ts_stream_finder *find)
{
	ts_write_relaxed(&finder, find);
	ts_stream_forget(stream);
	struct ts_jpeg_source_mgr *src = cinfo->src;
	stream->src = src;
	stream->broken = !src;
	stream->suspended = stream->recording = false;
	stream->one_window = true;
	stream->at = stream->position = stream->hashed = stream->end = stream->guard_to = 0;
	stream->piece_count = 0;
	if (!src)
		return;
	stream->window = stream->left_next = src->next_input_byte;
	stream->window_bytes = stream->left_bytes = src->bytes_in_buffer;
	ts_hasher_init(&stream->hasher);
}

void ts_stream_look(struct ts_stream *stream, struct ts_jpeg_decompress *cinfo)
{
	struct ts_jpeg_source_mgr *src = cinfo->src;
	if (src != stream->src || !src) {
		stream->broken = true;
		return;
	}
	if (src->next_input_byte == stream->left_next &&
		src->bytes_in_buffer == stream->left_bytes)
		return;
	/* Another window.  What was consumed of the old one is hashed unless the caller moved
	 * its bytes without having been asked for more; then they are out of reach. */
	if (stream->hashed < stream->position)
		stream->broken = true;
	if (stream->window_bytes > 0)
		stream->one_window = false;
	stream->at = stream->position;
	stream->window = src->next_input_byte;
	stream->window_bytes = src->bytes_in_buffer;
}

/*
 * Without memory for the copy the library sees the kept bytes alone and then the caller's
 * own window: right for every source but one that suspends inside a block across that seam.
 */
static void show_splice(struct ts_stream *stream)
{
	/* Of the window, what was taken already is kept. */
	size_t taken = (size_t)(stream->position - stream->at);
	stream->window += taken;
	stream->window_bytes -= taken;
	stream->at = stream->position;
	stream->broken = true; /* the library reads on by itself: no more is followed */
	size_t bytes = stream->kept_bytes + stream->window_bytes;
	uint8_t *whole = realloc(stream->splice, bytes ? bytes : 1);
	stream->window_in_splice = whole != NULL;
	if (whole) {
		stream->splice = whole;
		memcpy(whole, stream->kept, stream->kept_bytes);
		if (stream->window_bytes)
			memcpy(whole + stream->kept_bytes, stream->window,
				stream->window_bytes);
	}
	stream->src->next_input_byte = whole ? whole : stream->kept;
	stream->src->bytes_in_buffer = whole ? bytes : stream->kept_bytes;
	stream->splicing = true;
}

void ts_stream_enter(struct ts_stream *stream, struct ts_jpeg_decompress *cinfo)
{
	/* The last call was left by a longjmp: where in the stream is anybody's guess. */
	if (stream->inside)
		stream->broken = true;
	if (!stream->installed || !stream->splicing)
		ts_stream_look(stream, cinfo);
	stream->suspended = false;
	stream->inside = true;
	if (cinfo->src != stream->src || !stream->src || stream->installed)
		return;
	install(stream);
	if (ts_stream_owes(stream))
		show_splice(stream);
}

void ts_stream_leave(struct ts_stream *stream, struct ts_jpeg_decompress *cinfo)
{
	stream->inside = false;
	if (!stream->installed)
		return;
	struct ts_jpeg_source_mgr *src = stream->src;
	uninstall(stream);
	if (cinfo->src != src) {
		stream->broken = true;
		return;
	}
	if (stream->splicing) {
		leave_splice(stream);
	} else if (!stream->broken && !stream->end) {
		uint64_t position = place(stream);
		if (position == UINT64_MAX)
			stream->broken = true;
		else
			stream->position = position;
		if (!stream->broken && (!stream->recording || stream->suspended))
			hash_to(stream, stream->position);
		if (!stream->broken && stream->recording && stream->suspended)
			note_piece(stream, stream->position);
	}
	stream->left_next = src->next_input_byte;
	stream->left_bytes = src->bytes_in_buffer;
}

void ts_stream_record(struct ts_stream *stream)
{
	stream->recording = true;
	stream->piece_count = 0;
}

void ts_stream_forget(struct ts_stream *stream)
{
	if (stream->installed && is_ours(stream->src)) {
		/* The splice goes: nobody must go on reading there. */
		if (stream->splicing)
			leave_splice(stream);
		uninstall(stream);
	}
	stream->installed = stream->inside = stream->splicing = stream->recording = false;
	free(stream->kept);
	free(stream->splice);
	free(stream->pieces);
	stream->kept = stream->splice = NULL;
	stream->kept_bytes = stream->kept_room = 0;
	stream->pieces = NULL;
	stream->piece_count = stream->piece_room = 0;
}

/* ---- taking bytes without the library --------------------------------------------------- */

int ts_stream_take(struct ts_stream *stream, uint64_t to)
{
	size_t bytes = (size_t)(to - stream->position);
	if (stream->kept_bytes + bytes > stream->kept_room) {
		size_t room = stream->kept_room ? stream->kept_room : KEEP_FIRST_BYTES;
		while (room < stream->kept_bytes + bytes)
			room *= 2;
		uint8_t *grown = realloc(stream->kept, room);
		if (!grown)
			return -ENOMEM;
		stream->kept = grown;
		stream->kept_room = room;
	}
	if (bytes)
		memcpy(stream->kept + stream->kept_bytes,
			stream->window + (stream->position - stream->at), bytes);
	stream->kept_bytes += bytes;
	hash_to(stream, to);
	ts_stream_leave_at(stream, to);
	return 0;
}

int ts_stream_pull(struct ts_stream *stream, struct ts_jpeg_decompress *cinfo)
{
	struct ts_jpeg_source_mgr *src = stream->src;
	if (!src->fill_input_buffer(cinfo))
		return 0;
	stream->at = stream->position;
	stream->window = stream->left_next = src->next_input_byte;
	stream->window_bytes = stream->left_bytes = src->bytes_in_buffer;
	stream->one_window = false;
	return 1;
}

void ts_stream_give_back(struct ts_stream *stream, uint64_t to)
{
	stream->kept_bytes -= (size_t)(stream->position - to);
	ts_stream_leave_at(stream, to);
}

void ts_stream_leave_at(struct ts_stream *stream, uint64_t position)
{
	struct ts_jpeg_source_mgr *src = stream->src;
	src->next_input_byte = stream->window + (position - stream->at);
	src->bytes_in_buffer = (size_t)(ts_stream_seen(stream) - position);
	stream->position = position;
	stream->left_next = src->next_input_byte;
	stream->left_bytes = src->bytes_in_buffer;
}
