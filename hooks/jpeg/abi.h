/* SPDX-License-Identifier: MIT */
/*
 * What we know of libjpeg's structures without its header.
 *
 * libjpeg has three binary interfaces in use (62, 70, 80: the JPEG_LIB_VERSION a caller was
 * compiled with).  On LP64 targets the decompression object is the same in all three up to
 * and including `comp_info`; nothing behind it is touched.  tests/unit/jpeg compares every
 * offset with the installed jpeglib.h.  Names are those of jpeglib.h.
 */
#ifndef TS_HOOKS_JPEG_ABI_H
#define TS_HOOKS_JPEG_ABI_H

#include "shim/base.h"

#include <assert.h>

struct ts_jpeg_decompress;

struct ts_jpeg_error_mgr {
	void (*error_exit)(void *cinfo);
	void (*emit_message)(void *cinfo, int level);
	void (*output_message)(void *cinfo);
	void (*format_message)(void *cinfo, char *buffer);
	void (*reset_error_mgr)(void *cinfo);
	int msg_code;
	char msg_parm[80];
	int trace_level;
	long num_warnings;
};
static_assert(offsetof(struct ts_jpeg_error_mgr, trace_level) == 124, "LP64 libjpeg");
static_assert(offsetof(struct ts_jpeg_error_mgr, num_warnings) == 128, "LP64 libjpeg");

struct ts_jpeg_source_mgr {
	const uint8_t *next_input_byte;
	size_t bytes_in_buffer;
	void (*init_source)(struct ts_jpeg_decompress *cinfo);
	int (*fill_input_buffer)(struct ts_jpeg_decompress *cinfo);
	void (*skip_input_data)(struct ts_jpeg_decompress *cinfo, long num_bytes);
	int (*resync_to_restart)(struct ts_jpeg_decompress *cinfo, int desired);
	void (*term_source)(struct ts_jpeg_decompress *cinfo);
};
static_assert(offsetof(struct ts_jpeg_source_mgr, term_source) == 48, "LP64 libjpeg");

/** Memory manager: only its first entry is used, to tell which library made an object. */
struct ts_jpeg_memory_mgr {
	void *alloc_small;
};

/** Fields common to compression and decompression objects (jpeg_common_fields). */
struct ts_jpeg_common {
	struct ts_jpeg_error_mgr *err;
	struct ts_jpeg_memory_mgr *mem;
	void *progress;
	void *client_data;
	int is_decompressor;
	int global_state;
};

struct ts_jpeg_decompress {
	struct ts_jpeg_error_mgr *err;
	struct ts_jpeg_memory_mgr *mem;
	void *progress;
	void *client_data;
	int is_decompressor;
	int global_state;
	struct ts_jpeg_source_mgr *src;
	unsigned image_width;
	unsigned image_height;
	int num_components;
	int jpeg_color_space;
	int out_color_space;
	unsigned scale_num, scale_denom;
	double output_gamma;
	int buffered_image;
	int raw_data_out;
	int dct_method;
	int do_fancy_upsampling;
	int do_block_smoothing;
	int quantize_colors;
	int dither_mode;
	int two_pass_quantize;
	int desired_number_of_colors;
	int enable_1pass_quant;
	int enable_external_quant;
	int enable_2pass_quant;
	unsigned output_width;
	unsigned output_height;
	int out_color_components;
	int output_components;
	int rec_outbuf_height;
	int actual_number_of_colors;
	void *colormap;
	unsigned output_scanline;
	int input_scan_number;
	unsigned input_iMCU_row;
	int output_scan_number;
	unsigned output_iMCU_row;
	void *coef_bits;
	void *quant_tbl_ptrs[4];
	void *dc_huff_tbl_ptrs[4];
	void *ac_huff_tbl_ptrs[4];
	int data_precision;
	void *comp_info;
};
static_assert(offsetof(struct ts_jpeg_decompress, src) == 40, "LP64 libjpeg");
static_assert(offsetof(struct ts_jpeg_decompress, output_gamma) == 80, "LP64 libjpeg");
static_assert(offsetof(struct ts_jpeg_decompress, output_scanline) == 168, "LP64 libjpeg");
static_assert(offsetof(struct ts_jpeg_decompress, quant_tbl_ptrs) == 200, "LP64 libjpeg");
static_assert(offsetof(struct ts_jpeg_decompress, data_precision) == 296, "LP64 libjpeg");
static_assert(offsetof(struct ts_jpeg_decompress, comp_info) == 304, "LP64 libjpeg");

/* JQUANT_TBL and JHUFF_TBL, without the trailing `sent_table`, which encoders use. */
#define TS_JPEG_QUANT_BYTES 128u
#define TS_JPEG_HUFF_BYTES  (17u + 256u)

/* jpeg_component_info: same size in all three; the scaling fields differ. */
#define TS_JPEG_COMPONENT_BYTES  96u
#define TS_JPEG_COMPONENT_STABLE 20u /* id, index, h and v sampling, quantisation table */
#define TS_JPEG_NEEDED_AT_62     48u
#define TS_JPEG_NEEDED_AT_70     52u /* and 80 */
#define TS_JPEG_MAX_COMPONENTS   10

/* enum of jpegint.h, the same in every descendant of IJG's library. */
enum ts_jpeg_state {
	TS_JPEG_START = 200,
	TS_JPEG_INHEADER = 201,
	TS_JPEG_READY = 202,
	TS_JPEG_SCANNING = 205,
};

/* J_COLOR_SPACE of libjpeg-turbo: 16 bits a pixel, although it has three components. */
#define TS_JPEG_RGB565 16

enum { TS_JPEG_SUSPENDED = 0, TS_JPEG_HEADER_OK = 1, TS_JPEG_HEADER_TABLES_ONLY = 2 };

/**
 * Whether a caller compiled for @version with an object of @bytes uses a layout we know.
 * Sizes as compiled on LP64 targets with libjpeg-turbo's and IJG's headers.
 */
static inline bool ts_jpeg_abi_known(int version, size_t bytes)
{
	return (version == 62 && bytes == 632) || (version == 70 && bytes == 640) ||
	       (version == 80 && bytes == 656);
}

#endif
