/* SPDX-License-Identifier: MIT */
/* Source managers of the victims; see sources.h. */
#include "sources.h"

#include <stdlib.h>
#include <string.h>

#include <jerror.h>

/* Pillow's ImageFile.MAXBLOCK. */
#define CHUNK_DEFAULT 65536u

bool source_parse(const char *text, enum source_kind *ret_kind, size_t *ret_chunk)
{
	static const char *const names[] = {"mem", "stdio", "suspend", "pull", "seek"};
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		size_t length = strlen(names[i]);
		if (strncmp(text, names[i], length) != 0)
			continue;
		if (text[length] != '\0' && text[length] != '=')
			continue;
		*ret_kind = (enum source_kind)i;
		*ret_chunk =
			text[length] ? strtoul(text + length + 1, NULL, 10) : CHUNK_DEFAULT;
		return *ret_chunk > 0;
	}
	return false;
}

static void nothing(j_decompress_ptr cinfo)
{
	(void)cinfo;
}

static boolean fill_suspend(j_decompress_ptr cinfo)
{
	struct source *source = (struct source *)cinfo->src;
	source->fills++;
	return FALSE;
}

/* What is not here yet is skipped when it arrives, as in Pillow's JpegDecode.c. */
static void skip_suspend(j_decompress_ptr cinfo, long bytes)
{
	struct source *source = (struct source *)cinfo->src;
	if (bytes <= 0)
		return;
	if ((size_t)bytes > source->base.bytes_in_buffer) {
		source->skip = (size_t)bytes - source->base.bytes_in_buffer;
		source->base.next_input_byte += source->base.bytes_in_buffer;
		source->base.bytes_in_buffer = 0;
	} else {
		source->base.next_input_byte += bytes;
		source->base.bytes_in_buffer -= (size_t)bytes;
	}
}

/* The same buffer every time, so libjpeg meets old addresses with new bytes. */
static boolean fill_pull(j_decompress_ptr cinfo)
{
	struct source *source = (struct source *)cinfo->src;
	size_t left = source->input->bytes - source->fed;
	size_t take = left < source->chunk ? left : source->chunk;
	source->fills++;
	if (take == 0) {
		if (source->fed == 0)
			ERREXIT(cinfo, JERR_INPUT_EMPTY);
		WARNMS(cinfo, JWRN_JPEG_EOF);
		source->buffer[0] = 0xff;
		source->buffer[1] = JPEG_EOI;
		take = 2;
	} else {
		memcpy(source->buffer, source->input->data + source->fed, take);
		source->fed += take;
	}
	source->base.next_input_byte = source->buffer;
	source->base.bytes_in_buffer = take;
	return TRUE;
}

static void skip_pull(j_decompress_ptr cinfo, long bytes)
{
	struct source *source = (struct source *)cinfo->src;
	if (bytes <= 0)
		return;
	while ((size_t)bytes > source->base.bytes_in_buffer) {
		bytes -= (long)source->base.bytes_in_buffer;
		fill_pull(cinfo);
	}
	source->base.next_input_byte += bytes;
	source->base.bytes_in_buffer -= (size_t)bytes;
}

static void skip_seek(j_decompress_ptr cinfo, long bytes)
{
	struct source *source = (struct source *)cinfo->src;
	if (bytes <= 0)
		return;
	if ((size_t)bytes <= source->base.bytes_in_buffer) {
		source->base.next_input_byte += bytes;
		source->base.bytes_in_buffer -= (size_t)bytes;
		return;
	}
	source->fed += (size_t)bytes - source->base.bytes_in_buffer;
	if (source->fed > source->input->bytes)
		source->fed = source->input->bytes;
	source->base.bytes_in_buffer = 0;
}

static void init_own(struct source *source, struct jpeg_decompress_struct *cinfo)
{
	bool suspends = source->kind == SOURCE_SUSPEND;
	source->base.init_source = nothing;
	source->base.term_source = nothing;
	source->base.resync_to_restart = jpeg_resync_to_restart;
	source->base.fill_input_buffer = suspends ? fill_suspend : fill_pull;
	source->base.skip_input_data = suspends                      ? skip_suspend
				       : source->kind == SOURCE_SEEK ? skip_seek
								     : skip_pull;
	source->buffer = victim_alloc(source->chunk < 2 ? 2 : source->chunk);
	source->base.next_input_byte = source->buffer;
	cinfo->src = &source->base;
}

void source_init(struct source *source, struct jpeg_decompress_struct *cinfo,
	enum source_kind kind, size_t chunk, const struct victim_input *input)
{
	memset(source, 0, sizeof(*source));
	source->kind = kind;
	source->chunk = chunk;
	source->input = input;
	if (kind == SOURCE_MEM) {
		jpeg_mem_src(cinfo, input->data, input->bytes);
	} else if (kind == SOURCE_STDIO) {
		source->file = fopen(input->path, "rb");
		if (!source->file)
			victim_usage(input->path);
		jpeg_stdio_src(cinfo, source->file);
	} else {
		init_own(source, cinfo);
	}
}

void source_finish(struct source *source)
{
	free(source->buffer);
	if (source->file)
		fclose(source->file);
	memset(source, 0, sizeof(*source));
}

bool source_feed(struct source *source, struct jpeg_decompress_struct *cinfo)
{
	size_t left = source->input->bytes - source->fed;
	size_t take = left < source->chunk ? left : source->chunk;
	size_t kept = source->base.bytes_in_buffer;
	if (source->kind != SOURCE_SUSPEND || take == 0)
		return false;

	unsigned char *buffer = victim_alloc(kept + take);
	memcpy(buffer, source->base.next_input_byte, kept);
	memcpy(buffer + kept, source->input->data + source->fed, take);
	/* Whoever still looks at the old place must be caught. */
	memset(source->buffer, 0xa5, 1);
	free(source->buffer);
	source->buffer = buffer;
	source->fed += take;
	source->base.next_input_byte = buffer;
	source->base.bytes_in_buffer = kept + take;
	if (source->skip) {
		size_t skip = source->skip;
		source->skip = 0;
		skip_suspend(cinfo, (long)skip);
	}
	return true;
}

size_t source_given(const struct source *source)
{
	if (source->kind == SOURCE_MEM)
		return source->input->bytes;
	return source->kind == SOURCE_STDIO ? (size_t)ftell(source->file) : source->fed;
}

size_t source_position(const struct source *source, const struct jpeg_decompress_struct *cinfo)
{
	if (!cinfo->src)
		return 0;
	return source_given(source) - cinfo->src->bytes_in_buffer;
}
