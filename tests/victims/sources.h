/* SPDX-License-Identifier: MIT */
/* The ways in which programs feed libjpeg: one struct, chosen by name. */
#ifndef TS_TESTS_SOURCES_H
#define TS_TESTS_SOURCES_H

#include "victim.h"

enum source_kind {
	SOURCE_MEM,     /* jpeg_mem_src: whole stream visible (torchvision, imdecode) */
	SOURCE_STDIO,   /* jpeg_stdio_src: 4 KiB reads inside libjpeg (imread, plain C) */
	SOURCE_SUSPEND, /* fed in chunks, fill_input_buffer answers FALSE (Pillow) */
	SOURCE_PULL,    /* own fill_input_buffer with a buffer of a given size */
	SOURCE_SEEK     /* as pull, but skip_input_data seeks: skipped bytes are never seen */
};

struct source {
	struct jpeg_source_mgr base; /* of the kinds that are ours; first */
	enum source_kind kind;
	size_t chunk;
	const struct victim_input *input;
	size_t fed;            /* bytes of the input handed out so far */
	size_t skip;           /* still to be skipped in what is fed next */
	unsigned char *buffer; /* what libjpeg sees now */
	FILE *file;
	unsigned fills; /* calls of fill_input_buffer */
};

/** Parse "mem", "stdio", "suspend[=N]", "pull[=N]" or "seek[=N]"; false when it is neither. */
bool source_parse(const char *text, enum source_kind *ret_kind, size_t *ret_chunk);

/** Make @source feed @input to @cinfo.  End it with source_finish(). */
void source_init(struct source *source, struct jpeg_decompress_struct *cinfo,
	enum source_kind kind, size_t chunk, const struct victim_input *input);
void source_finish(struct source *source);

/**
 * After a call returned "suspended": feed the next chunk, as Pillow does, in a new buffer
 * behind the bytes that were not consumed.  False at the end of the input.
 */
bool source_feed(struct source *source, struct jpeg_decompress_struct *cinfo);

/** Bytes of the input that the source has given so far, consumed or not; of a file its
 * position. */
size_t source_given(const struct source *source);

/** Bytes of the input consumed so far, as far as this kind of source can tell. */
size_t source_position(const struct source *source, const struct jpeg_decompress_struct *cinfo);

#endif
