/* SPDX-License-Identifier: MIT */
/* One decode and what a program sees of it; see drive.h. */
#include "drive.h"

#include <stdlib.h>
#include <string.h>

/* The functions of hooks/jpeg/calls.c, whose callers are here: this program's libjpeg is
 * theirs. */
__typeof__(jpeg_CreateDecompress) hooked_CreateDecompress;
__typeof__(jpeg_read_header) hooked_read_header;
__typeof__(jpeg_start_decompress) hooked_start_decompress;
__typeof__(jpeg_read_scanlines) hooked_read_scanlines;
__typeof__(jpeg_skip_scanlines) hooked_skip_scanlines;
__typeof__(jpeg_crop_scanline) hooked_crop_scanline;
__typeof__(jpeg_consume_input) hooked_consume_input;
__typeof__(jpeg_input_complete) hooked_input_complete;
__typeof__(jpeg_finish_decompress) hooked_finish_decompress;
__typeof__(jpeg_abort_decompress) hooked_abort_decompress;
__typeof__(jpeg_destroy_decompress) hooked_destroy_decompress;

const struct drive_calls drive_real = {
	.create = jpeg_CreateDecompress,
	.read_header = jpeg_read_header,
	.start = jpeg_start_decompress,
	.read = jpeg_read_scanlines,
	.skip = jpeg_skip_scanlines,
	.crop = jpeg_crop_scanline,
	.consume_input = jpeg_consume_input,
	.input_complete = jpeg_input_complete,
	.finish = jpeg_finish_decompress,
	.abort = jpeg_abort_decompress,
	.destroy = jpeg_destroy_decompress,
};

const struct drive_calls drive_hooked = {
	.create = hooked_CreateDecompress,
	.read_header = hooked_read_header,
	.start = hooked_start_decompress,
	.read = hooked_read_scanlines,
	.skip = hooked_skip_scanlines,
	.crop = hooked_crop_scanline,
	.consume_input = hooked_consume_input,
	.input_complete = hooked_input_complete,
	.finish = hooked_finish_decompress,
	.abort = hooked_abort_decompress,
	.destroy = hooked_destroy_decompress,
};

uint64_t drive_hash(uint64_t hash, const void *data, size_t bytes)
{
	const uint8_t *at = data;
	for (size_t i = 0; i < bytes; i++)
		hash = (hash ^ at[i]) * UINT64_C(0x100000001b3);
	return hash;
}

/* ---- source ------------------------------------------------------------------------------ */

static void *get(size_t bytes)
{
	void *memory = malloc(bytes ? bytes : 1);
	if (!memory)
		abort();
	return memory;
}

/* Show @kept bytes that are still wanted and up to @bytes new ones, in new memory. */
static void show(struct drive_source *source, size_t kept, size_t bytes)
{
	size_t left = source->bytes - source->given;
	size_t take = bytes < left ? bytes : left;
	uint8_t *window = get(kept + take);
	if (kept)
		memcpy(window, source->base.next_input_byte, kept);
	if (take)
		memcpy(window + kept, source->data + source->given, take);
	source->given += take;
	free(source->window);
	source->window = window;
	source->base.next_input_byte = window;
	source->base.bytes_in_buffer = kept + take;
}

static void init_source(j_decompress_ptr cinfo)
{
	struct drive_source *source = (struct drive_source *)cinfo->src;
	if (source->plan.init_fills)
		show(source, 0, source->plan.first);
}

static boolean fill(j_decompress_ptr cinfo)
{
	static const uint8_t end[] = {0xff, JPEG_EOI};
	struct drive_source *source = (struct drive_source *)cinfo->src;
	if (source->jump)
		longjmp(*source->escape, 1);
	if (source->plan.feed == DRIVE_SUSPEND)
		return FALSE;
	if (source->given < source->bytes) {
		show(source, 0, source->given ? source->plan.chunk : source->plan.first);
		return TRUE;
	}
	cinfo->err->msg_code = 0;
	cinfo->err->emit_message((j_common_ptr)cinfo, -1);
	source->base.next_input_byte = end;
	source->base.bytes_in_buffer = sizeof(end);
	return TRUE;
}

static void skip(j_decompress_ptr cinfo, long bytes)
{
	struct jpeg_source_mgr *src = cinfo->src;
	if (bytes <= 0)
		return;
	while ((size_t)bytes > src->bytes_in_buffer) {
		bytes -= (long)src->bytes_in_buffer;
		src->next_input_byte += src->bytes_in_buffer;
		src->bytes_in_buffer = 0;
		if (!src->fill_input_buffer(cinfo))
			return;
	}
	src->next_input_byte += bytes;
	src->bytes_in_buffer -= (size_t)bytes;
}

/* Memory of the source ends here, as where an owner frees it: nobody may look at it again. */
static void term(j_decompress_ptr cinfo)
{
	struct drive_source *source = (struct drive_source *)cinfo->src;
	size_t left = source->base.bytes_in_buffer;
	uint8_t *rest = get(left);
	memcpy(rest, source->base.next_input_byte, left);
	free(source->window);
	source->window = rest;
	source->base.next_input_byte = rest;
}

void drive_source_init(struct drive_source *source, j_decompress_ptr cinfo,
	const struct drive_plan *plan, const uint8_t *data, size_t bytes)
{
	memset(source, 0, sizeof(*source));
	source->base.init_source = init_source;
	source->base.fill_input_buffer = fill;
	source->base.skip_input_data = skip;
	source->base.resync_to_restart = jpeg_resync_to_restart;
	source->base.term_source = term;
	source->data = data;
	source->bytes = bytes;
	source->plan = *plan;
	if (plan->feed == DRIVE_WHOLE)
		show(source, 0, bytes);
	else if (plan->feed == DRIVE_SUSPEND)
		show(source, 0, plan->first);
	cinfo->src = &source->base;
}

bool drive_source_feed(struct drive_source *source)
{
	if (source->plan.feed != DRIVE_SUSPEND || source->given == source->bytes)
		return false;
	show(source, source->base.bytes_in_buffer, source->plan.chunk);
	return true;
}

size_t drive_source_position(const struct drive_source *source)
{
	return source->given - source->base.bytes_in_buffer;
}

void drive_source_finish(struct drive_source *source)
{
	free(source->window);
	source->window = NULL;
}

/* ---- errors ------------------------------------------------------------------------------ */

static void error_exit(j_common_ptr cinfo)
{
	struct drive_errors *errors = (struct drive_errors *)cinfo->err;
	cinfo->err->output_message(cinfo);
	longjmp(errors->escape, 1);
}

static void output_message(j_common_ptr cinfo)
{
	struct drive_errors *errors = (struct drive_errors *)cinfo->err;
	char text[JMSG_LENGTH_MAX] = "";
	cinfo->err->format_message(cinfo, text);
	errors->messages = drive_hash(errors->messages, text, strlen(text));
}

void drive_errors_init(struct drive_errors *errors, j_decompress_ptr cinfo)
{
	memset(errors, 0, sizeof(*errors));
	cinfo->err = jpeg_std_error(&errors->base);
	errors->base.error_exit = error_exit;
	errors->base.output_message = output_message;
}

/* ---- decode ------------------------------------------------------------------------------ */

struct run {
	struct jpeg_decompress_struct cinfo;
	struct drive_errors errors;
	struct drive_source source;
	struct drive_log log;
	uint8_t *rows;
};

static void log_fields(struct run *run)
{
	const struct jpeg_decompress_struct *c = &run->cinfo;
	const long all[] = {(long)c->image_width, (long)c->image_height, c->num_components,
		(long)c->jpeg_color_space, (long)c->out_color_space, (long)c->output_width,
		(long)c->output_height, c->out_color_components, c->output_components,
		c->rec_outbuf_height, (long)c->output_scanline, c->output_scan_number,
		c->global_state, c->density_unit, c->X_density, c->Y_density,
		c->saw_Adobe_marker, c->Adobe_transform, (long)c->restart_interval,
		c->unread_marker, c->err->num_warnings};
	run->log.fields = drive_hash(run->log.fields, all, sizeof(all));
}

static void after_call(struct run *run)
{
	if (!run->source.plan.clear_warnings)
		return;
	run->log.warnings += run->errors.base.num_warnings;
	run->errors.base.num_warnings = 0;
}

static bool more(struct run *run)
{
	if (drive_source_feed(&run->source))
		return true;
	run->log.how = 2;
	return false;
}

static bool read_rows(struct run *run, const struct drive_calls *calls)
{
	struct jpeg_decompress_struct *cinfo = &run->cinfo;
	const struct drive_plan *plan = &run->source.plan;
	size_t stride = (size_t)cinfo->output_width * (size_t)cinfo->output_components;
	JDIMENSION ask = plan->rows && plan->rows < cinfo->output_height ? plan->rows
									 : cinfo->output_height;
	JSAMPROW *lines = get(ask * sizeof(*lines));
	run->rows = get(stride * ask);
	/* A pixel of RGB565 is shorter than output_components says; the rest must stay this. */
	memset(run->rows, 0x5a, stride * ask);
	for (JDIMENSION i = 0; i < ask; i++)
		lines[i] = run->rows + (plan->same_row ? 0 : stride * i);
	bool done = true;
	while (done && cinfo->output_scanline < cinfo->output_height) {
		JDIMENSION count = calls->read(cinfo, lines, ask);
		after_call(run);
		run->log.rows += count;
		if (count == 0) {
			done = more(run);
			continue;
		}
		run->log.sequence = drive_hash(run->log.sequence, &count, sizeof(count));
		run->log.pixels = drive_hash(
			run->log.pixels, run->rows, plan->same_row ? stride : stride * count);
	}
	free(lines);
	return done;
}

static bool decode(struct run *run, const struct drive_calls *calls)
{
	struct jpeg_decompress_struct *cinfo = &run->cinfo;
	const struct drive_plan *plan = &run->source.plan;
	while (calls->read_header(cinfo, TRUE) == JPEG_SUSPENDED)
		if (!more(run))
			return false;
	log_fields(run);
	if (plan->colour >= 0)
		cinfo->out_color_space = (J_COLOR_SPACE)plan->colour;
	if (plan->scale)
		cinfo->scale_denom = plan->scale;
	while (!calls->start(cinfo))
		if (!more(run))
			return false;
	after_call(run);
	log_fields(run);
	if ((uint64_t)cinfo->output_width * cinfo->output_height > 4000000) {
		run->log.how = 3; /* a mutation made it huge: too slow to try */
		return false;
	}
	if (!read_rows(run, calls))
		return false;
	run->log.position = 0;
	while (!calls->finish(cinfo))
		if (!more(run))
			return false;
	return true;
}

struct drive_log drive(const struct drive_calls *calls, const struct drive_plan *plan,
	const uint8_t *data, size_t bytes)
{
	struct run *run = get(sizeof(*run));
	memset(run, 0, sizeof(*run));
	drive_errors_init(&run->errors, &run->cinfo);
	if (setjmp(run->errors.escape) == 0) {
		calls->create(&run->cinfo, JPEG_LIB_VERSION, sizeof(run->cinfo));
		drive_source_init(&run->source, &run->cinfo, plan, data, bytes);
		if (decode(run, calls)) {
			log_fields(run);
			run->log.position = drive_source_position(&run->source);
		}
	} else {
		run->log.how = 1;
		run->log.message_code = run->errors.base.msg_code;
	}
	run->log.warnings += run->errors.base.num_warnings;
	run->log.messages = run->errors.messages;
	calls->destroy(&run->cinfo);
	drive_source_finish(&run->source);
	struct drive_log log = run->log;
	free(run->rows);
	free(run);
	return log;
}

/* ---- encode ------------------------------------------------------------------------------ */

uint8_t *drive_encode(const struct drive_picture *picture, size_t *ret_bytes)
{
	struct jpeg_compress_struct cinfo;
	struct jpeg_error_mgr errors;
	unsigned char *data = NULL;
	unsigned long bytes = 0;
	unsigned components = picture->gray ? 1 : 3;
	uint32_t noise = picture->seed * 2654435761u + 1;
	cinfo.err = jpeg_std_error(&errors);
	jpeg_create_compress(&cinfo);
	jpeg_mem_dest(&cinfo, &data, &bytes);
	cinfo.image_width = picture->width;
	cinfo.image_height = picture->height;
	cinfo.input_components = (int)components;
	cinfo.in_color_space = picture->gray ? JCS_GRAYSCALE : JCS_RGB;
	jpeg_set_defaults(&cinfo);
	jpeg_set_quality(&cinfo, picture->quality, TRUE);
	if (!picture->gray) {
		cinfo.comp_info[0].h_samp_factor = picture->h;
		cinfo.comp_info[0].v_samp_factor = picture->v;
	}
	if (picture->progressive)
		jpeg_simple_progression(&cinfo);
	cinfo.restart_interval = picture->restart;
	jpeg_start_compress(&cinfo, TRUE);
	JSAMPROW row = get((size_t)picture->width * components);
	for (unsigned y = 0; y < picture->height; y++) {
		for (unsigned x = 0; x < picture->width * components; x++) {
			noise = noise * 1664525u + 1013904223u;
			row[x] = (JSAMPLE)(x * 3 / components + y + (noise >> 27));
		}
		jpeg_write_scanlines(&cinfo, &row, 1);
	}
	free(row);
	jpeg_finish_compress(&cinfo);
	jpeg_destroy_compress(&cinfo);
	*ret_bytes = bytes;
	return data;
}
