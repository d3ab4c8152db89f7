/* SPDX-License-Identifier: MIT */
/* Our picture of libjpeg's structures against the installed jpeglib.h. */
#include <stdio.h>
#include <stddef.h>
#include <jpeglib.h>

#include "hooks/jpeg/abi.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

#define SAME(theirs, ours, field) \
	cr_expect(eq(sz, offsetof(theirs, field), offsetof(ours, field)), "field " #field)

Test(abi, fields_of_the_decompression_object_lie_where_jpeglib_says)
{
#define FIELD(name) SAME(struct jpeg_decompress_struct, struct ts_jpeg_decompress, name)
	FIELD(err);
	FIELD(mem);
	FIELD(progress);
	FIELD(client_data);
	FIELD(is_decompressor);
	FIELD(global_state);
	FIELD(src);
	FIELD(image_width);
	FIELD(image_height);
	FIELD(num_components);
	FIELD(jpeg_color_space);
	FIELD(out_color_space);
	FIELD(scale_num);
	FIELD(scale_denom);
	FIELD(output_gamma);
	FIELD(buffered_image);
	FIELD(raw_data_out);
	FIELD(dct_method);
	FIELD(do_fancy_upsampling);
	FIELD(do_block_smoothing);
	FIELD(quantize_colors);
	FIELD(dither_mode);
	FIELD(two_pass_quantize);
	FIELD(desired_number_of_colors);
	FIELD(enable_1pass_quant);
	FIELD(enable_external_quant);
	FIELD(enable_2pass_quant);
	FIELD(output_width);
	FIELD(output_height);
	FIELD(out_color_components);
	FIELD(output_components);
	FIELD(rec_outbuf_height);
	FIELD(actual_number_of_colors);
	FIELD(colormap);
	FIELD(output_scanline);
	FIELD(input_scan_number);
	FIELD(input_iMCU_row);
	FIELD(output_scan_number);
	FIELD(output_iMCU_row);
	FIELD(coef_bits);
	FIELD(quant_tbl_ptrs);
	FIELD(dc_huff_tbl_ptrs);
	FIELD(ac_huff_tbl_ptrs);
	FIELD(data_precision);
	FIELD(comp_info);
#undef FIELD
}

Test(abi, fields_of_the_managers_lie_where_jpeglib_says)
{
	SAME(struct jpeg_error_mgr, struct ts_jpeg_error_mgr, error_exit);
	SAME(struct jpeg_error_mgr, struct ts_jpeg_error_mgr, emit_message);
	SAME(struct jpeg_error_mgr, struct ts_jpeg_error_mgr, reset_error_mgr);
	SAME(struct jpeg_error_mgr, struct ts_jpeg_error_mgr, trace_level);
	SAME(struct jpeg_error_mgr, struct ts_jpeg_error_mgr, num_warnings);
	SAME(struct jpeg_source_mgr, struct ts_jpeg_source_mgr, next_input_byte);
	SAME(struct jpeg_source_mgr, struct ts_jpeg_source_mgr, bytes_in_buffer);
	SAME(struct jpeg_source_mgr, struct ts_jpeg_source_mgr, fill_input_buffer);
	SAME(struct jpeg_source_mgr, struct ts_jpeg_source_mgr, skip_input_data);
	SAME(struct jpeg_source_mgr, struct ts_jpeg_source_mgr, term_source);
	SAME(struct jpeg_memory_mgr, struct ts_jpeg_memory_mgr, alloc_small);
	cr_expect(eq(sz, sizeof(((JQUANT_TBL *)0)->quantval), TS_JPEG_QUANT_BYTES));
	cr_expect(eq(sz, offsetof(JHUFF_TBL, sent_table) - 3, TS_JPEG_HUFF_BYTES));
}

Test(abi, component_fields_that_enter_the_key_lie_where_jpeglib_says)
{
	cr_expect(eq(sz, sizeof(jpeg_component_info), TS_JPEG_COMPONENT_BYTES));
	cr_expect(eq(sz, offsetof(jpeg_component_info, dc_tbl_no), TS_JPEG_COMPONENT_STABLE));
	size_t needed = JPEG_LIB_VERSION == 62 ? TS_JPEG_NEEDED_AT_62 : TS_JPEG_NEEDED_AT_70;
	cr_expect(eq(sz, offsetof(jpeg_component_info, component_needed), needed));
}

Test(abi, the_installed_library_is_one_we_know)
{
	cr_expect(ts_jpeg_abi_known(JPEG_LIB_VERSION, sizeof(struct jpeg_decompress_struct)));
	cr_expect(not(ts_jpeg_abi_known(90, 664)));
	cr_expect(not(ts_jpeg_abi_known(62, 633)));
}
