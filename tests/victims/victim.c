/* SPDX-License-Identifier: MIT */
/* Shared parts of the victims; see victim.h. */
#include "victim.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

_Noreturn void victim_usage(const char *text)
{
	fprintf(stderr, "victim: %s\n", text);
	exit(2);
}

void *victim_alloc(size_t bytes)
{
	void *memory = malloc(bytes ? bytes : 1);
	if (!memory)
		victim_usage("out of memory");
	return memory;
}

void victim_input_load(struct victim_input *input, const char *path)
{
	FILE *file = fopen(path, "rb");
	if (!file || fseek(file, 0, SEEK_END) != 0)
		victim_usage(path);
	long bytes = ftell(file);
	rewind(file);
	input->path = path;
	input->bytes = (size_t)bytes;
	input->data = victim_alloc(input->bytes);
	if (fread(input->data, 1, input->bytes, file) != input->bytes)
		victim_usage(path);
	fclose(file);
}

void victim_input_free(struct victim_input *input)
{
	free(input->data);
	input->data = NULL;
}

static void escape(j_common_ptr cinfo)
{
	struct victim_errors *errors = (struct victim_errors *)cinfo->err;
	errors->base.format_message(cinfo, errors->text);
	longjmp(errors->escape, 1);
}

/* Shown messages are noted, never printed; emit_message stays the library's own, as in all
 * known consumers: it calls this at the first warning of a stream and for traces. */
static void note_message(j_common_ptr cinfo)
{
	struct victim_errors *errors = (struct victim_errors *)cinfo->err;
	char text[JMSG_LENGTH_MAX];
	errors->base.format_message(cinfo, text);
	errors->shown++;
	errors->shown_hash = victim_hash(errors->shown_hash, text, strlen(text));
}

struct jpeg_error_mgr *victim_errors_init(struct victim_errors *errors, int trace_level)
{
	memset(errors, 0, sizeof(*errors));
	jpeg_std_error(&errors->base);
	errors->base.error_exit = escape;
	errors->base.output_message = note_message;
	errors->shown_hash = VICTIM_HASH_START;
	errors->base.trace_level = trace_level;
	return &errors->base;
}

uint64_t victim_hash(uint64_t hash, const void *data, size_t bytes)
{
	const unsigned char *at = data;
	uint64_t word;
	for (; bytes >= sizeof(word); at += sizeof(word), bytes -= sizeof(word)) {
		memcpy(&word, at, sizeof(word));
		hash = (hash ^ word) * UINT64_C(0x100000001b3);
		hash ^= hash >> 29;
	}
	for (; bytes > 0; at++, bytes--)
		hash = (hash ^ *at) * UINT64_C(0x100000001b3);
	return hash;
}

/* Public fields in front of comp_info: the same offsets in every libjpeg ABI.  Left out:
 * coef_bits and the table pointers, which point into the library's own memory. */
/* clang-format would not come to rest on this list. */
/* clang-format off */
#define FIELDS(X) \
	X(global_state) \
	X(image_width) \
	X(image_height) \
	X(num_components) \
	X(jpeg_color_space) \
	X(out_color_space) \
	X(scale_num) \
	X(scale_denom) \
	X(buffered_image) \
	X(raw_data_out) \
	X(dct_method) \
	X(do_fancy_upsampling) \
	X(do_block_smoothing) \
	X(quantize_colors) \
	X(dither_mode) \
	X(two_pass_quantize) \
	X(desired_number_of_colors) \
	X(enable_1pass_quant) \
	X(enable_external_quant) \
	X(enable_2pass_quant) \
	X(output_width) \
	X(output_height) \
	X(out_color_components) \
	X(output_components) \
	X(rec_outbuf_height) \
	X(actual_number_of_colors) \
	X(output_scanline) \
	X(input_scan_number) \
	X(input_iMCU_row) \
	X(output_scan_number) \
	X(output_iMCU_row) \
	X(data_precision)
/* clang-format on */

void victim_print_fields(const char *moment, const struct jpeg_decompress_struct *cinfo)
{
	printf(" %s:", moment);
#define PRINT(field) printf(" " #field "=%lld", (long long)cinfo->field);
	FIELDS(PRINT)
#undef PRINT
	printf(" output_gamma=%g\n", cinfo->output_gamma);
}

void victim_print_messages(const struct jpeg_decompress_struct *cinfo)
{
	const struct victim_errors *errors = (const struct victim_errors *)cinfo->err;
	char text[JMSG_LENGTH_MAX];
	errors->base.format_message((j_common_ptr)cinfo, text);
	printf(" warnings=%ld shown=%u %016llx\n", errors->base.num_warnings, errors->shown,
		(unsigned long long)errors->shown_hash);
	/* What was shown is compared above; this is the remains of the last message, mostly a
	 * trace that nobody asked for (docs/exceptions.md). */
	printf("~ message=\"%s\"\n", text);
}

const char *victim_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

int victim_decode_memory(
	const struct victim_input *input, struct victim_errors *errors, uint64_t *ret_hash)
{
	struct jpeg_decompress_struct cinfo;
	uint64_t volatile hash = VICTIM_HASH_START;
	JSAMPROW volatile row = NULL;

	memset(&cinfo, 0, sizeof(cinfo));
	cinfo.err = victim_errors_init(errors, 0);
	if (setjmp(errors->escape)) {
		jpeg_destroy_decompress(&cinfo);
		free(row);
		return -1;
	}
	jpeg_create_decompress(&cinfo);
	jpeg_mem_src(&cinfo, input->data, input->bytes);
	jpeg_read_header(&cinfo, TRUE);
	jpeg_start_decompress(&cinfo);
	size_t stride = (size_t)cinfo.output_width * (size_t)cinfo.output_components;
	row = victim_alloc(stride);
	while (cinfo.output_scanline < cinfo.output_height) {
		JSAMPROW line = row;
		jpeg_read_scanlines(&cinfo, &line, 1);
		hash = victim_hash(hash, line, stride);
	}
	jpeg_finish_decompress(&cinfo);
	jpeg_destroy_decompress(&cinfo);
	free(row);
	*ret_hash = hash;
	return 0;
}
