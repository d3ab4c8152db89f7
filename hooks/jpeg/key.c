/* SPDX-License-Identifier: MIT */
/* The key of a decoded image: everything that decides about its pixels. */
#include "hooks/jpeg/decoder.h"

#include <string.h>

extern char **environ;

uint64_t ts_jpeg_environment(void)
{
	/* libjpeg-turbo reads these for every object it makes (simd/.../jsimd.c, init_simd). */
	uint64_t hash = 0;
	for (char **e = environ; e && *e; e++)
		if ((*e)[0] == 'J' && strncmp(*e, "JSIMD_", 6) == 0)
			hash = hash * 31 + ts_hash64(*e, strlen(*e));
	return hash;
}

/* Settings, in the order of jpeglib.h; plain integers, so that no padding is hashed. */
struct settings {
	uint64_t layout; /* of this structure */
	struct ts_hash128 stream, library;
	uint64_t environment;
	double output_gamma;
	int32_t version, data_precision;
	int32_t num_components, jpeg_color_space, out_color_space;
	uint32_t image_width, image_height, scale_num, scale_denom;
	int32_t dct_method, do_fancy_upsampling, do_block_smoothing;
	uint32_t output_width, output_height;
	int32_t out_color_components, output_components;
};

static void add_tables(
	struct ts_hasher *hasher, void *const *tables, unsigned count, size_t bytes)
{
	for (unsigned i = 0; i < count; i++) {
		uint8_t present = tables[i] != NULL;
		ts_hasher_add(hasher, &present, 1);
		if (present)
			ts_hasher_add(hasher, tables[i], bytes);
	}
}

/* What the caller can change between reading the header and starting: which components it
 * wants.  Fields that are not set yet at that time are left out. */
static void add_components(struct ts_hasher *hasher, const struct ts_decoder *decoder)
{
	const struct ts_jpeg_decompress *cinfo = decoder->cinfo;
	size_t needed_at = decoder->version == 62 ? TS_JPEG_NEEDED_AT_62 : TS_JPEG_NEEDED_AT_70;
	for (int i = 0; i < cinfo->num_components; i++) {
		const uint8_t *component =
			(const uint8_t *)cinfo->comp_info + (size_t)i * TS_JPEG_COMPONENT_BYTES;
		ts_hasher_add(hasher, component, TS_JPEG_COMPONENT_STABLE);
		ts_hasher_add(hasher, component + needed_at, sizeof(int));
	}
}

struct ts_key ts_decoder_key(const struct ts_decoder *decoder, struct ts_hash128 prefix)
{
	const struct ts_jpeg_decompress *cinfo = decoder->cinfo;
	struct settings s;
	memset(&s, 0, sizeof(s));
	s.layout = TS_PIXELS_MAGIC;
	s.stream = prefix;
	s.library = decoder->library->identity;
	s.environment = decoder->environment;
	s.output_gamma = cinfo->output_gamma;
	s.version = decoder->version;
	s.data_precision = cinfo->data_precision;
	s.num_components = cinfo->num_components;
	s.jpeg_color_space = cinfo->jpeg_color_space;
	s.out_color_space = cinfo->out_color_space;
	s.image_width = cinfo->image_width;
	s.image_height = cinfo->image_height;
	s.scale_num = cinfo->scale_num;
	s.scale_denom = cinfo->scale_denom;
	s.dct_method = cinfo->dct_method;
	s.do_fancy_upsampling = cinfo->do_fancy_upsampling;
	s.do_block_smoothing = cinfo->do_block_smoothing;
	s.output_width = cinfo->output_width;
	s.output_height = cinfo->output_height;
	s.out_color_components = cinfo->out_color_components;
	s.output_components = cinfo->output_components;

	struct ts_hasher hasher;
	ts_hasher_init(&hasher);
	ts_hasher_add(&hasher, &s, sizeof(s));
	add_tables(&hasher, cinfo->quant_tbl_ptrs, 4, TS_JPEG_QUANT_BYTES);
	add_tables(&hasher, cinfo->dc_huff_tbl_ptrs, 4, TS_JPEG_HUFF_BYTES);
	add_tables(&hasher, cinfo->ac_huff_tbl_ptrs, 4, TS_JPEG_HUFF_BYTES);
	add_components(&hasher, decoder);
	struct ts_hash128 digest = ts_hasher_digest(&hasher);
	return (struct ts_key){.lo = digest.lo | 1, .hi = digest.hi};
}
