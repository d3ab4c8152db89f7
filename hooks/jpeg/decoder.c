/* SPDX-License-Identifier: MIT */
/* The table of decompression objects that we follow, and the key of what they decode. */
#include "hooks/jpeg/decoder.h"

#include "shim/atomic.h"

#include <stdlib.h>
#include <string.h>

/*
 * Open addressing with a bounded probe: an object is found within PROBES neighbours of its
 * place or not at all, so a call with an object we do not follow stays cheap.  Slots are
 * claimed by CAS; only the thread that owns an object fills in or frees its slot.
 */
#define SLOT_COUNT 512u
#define PROBES     8u

static _Atomic uintptr_t owners[SLOT_COUNT];
static struct ts_decoder decoders[SLOT_COUNT];

static uint32_t place_of(const void *cinfo)
{
	return (uint32_t)(((uintptr_t)cinfo * UINT64_C(0x9e3779b97f4a7c15)) >> 48) % SLOT_COUNT;
}

struct ts_decoder *ts_decoder_find(const void *cinfo)
{
	uint32_t at = place_of(cinfo);
	for (uint32_t i = 0; i < PROBES; i++) {
		uint32_t slot = (at + i) % SLOT_COUNT;
		/* Relaxed: the object's own thread wrote it, or handed the object over itself.
		 */
		if (ts_load_relaxed(&owners[slot]) == (uintptr_t)cinfo)
			return &decoders[slot];
	}
	return NULL;
}

struct ts_stream *ts_decoder_stream(struct ts_jpeg_decompress *cinfo)
{
	return &ts_decoder_find(cinfo)->stream;
}

struct ts_decoder *ts_decoder_create(
	struct ts_jpeg_decompress *cinfo, const struct ts_jpeg_library *library, int version)
{
	uint32_t at = place_of(cinfo);
	for (uint32_t i = 0; i < PROBES; i++) {
		uint32_t slot = (at + i) % SLOT_COUNT;
		uintptr_t nobody = 0;
		if (!ts_cas(&owners[slot], &nobody, (uintptr_t)cinfo))
			continue;
		struct ts_decoder *decoder = &decoders[slot];
		memset(decoder, 0, sizeof(*decoder));
		decoder->cinfo = cinfo;
		decoder->library = library;
		decoder->version = version;
		decoder->environment = ts_jpeg_environment();
		return decoder;
	}
	return NULL;
}

void ts_decoder_go_plain(struct ts_decoder *decoder)
{
	if (decoder->phase > TS_DECODER_PLAIN && !ts_decoder_is_foreign(decoder)) {
		if (decoder->phase == TS_DECODER_CAPTURE)
			ts_claim_abandon(decoder->store, &decoder->claim);
		else
			ts_lease_release(decoder->store, &decoder->lease);
	}
	decoder->phase = TS_DECODER_PLAIN;
	decoder->stream.recording = false;
}

void ts_decoder_reset(struct ts_decoder *decoder)
{
	ts_decoder_go_plain(decoder);
	decoder->phase = TS_DECODER_IDLE;
	free(decoder->calls);
	decoder->calls = NULL;
	decoder->buffer = NULL;
	decoder->trailer = NULL;
	ts_stream_forget(&decoder->stream);
}

void ts_decoder_destroy(struct ts_decoder *decoder)
{
	ts_decoder_reset(decoder);
	/* Release: whoever claims the slot next sees it reset. Pairs with the CAS above. */
	ts_write_release(&owners[decoder - decoders], 0);
}

void ts_decoder_pass(struct ts_decoder *decoder, enum ts_reason reason)
{
	if (decoder->counted)
		return;
	decoder->counted = true;
	ts_session_count_pass(reason);
}

struct ts_pixels_progress ts_decoder_progress(const struct ts_decoder *decoder)
{
	const struct ts_jpeg_decompress *cinfo = decoder->cinfo;
	return (struct ts_pixels_progress){
		.input_scan_number = cinfo->input_scan_number,
		.input_imcu_row = cinfo->input_iMCU_row,
		.output_scan_number = cinfo->output_scan_number,
		.output_imcu_row = cinfo->output_iMCU_row,
	};
}

void ts_decoder_set_progress(
	struct ts_decoder *decoder, const struct ts_pixels_progress *progress)
{
	struct ts_jpeg_decompress *cinfo = decoder->cinfo;
	cinfo->input_scan_number = progress->input_scan_number;
	cinfo->input_iMCU_row = progress->input_imcu_row;
	cinfo->output_scan_number = progress->output_scan_number;
	cinfo->output_iMCU_row = progress->output_imcu_row;
}

uint64_t ts_ticks(void)
{
#if defined(__x86_64__)
	return __builtin_ia32_rdtsc();
#elif defined(__aarch64__)
	uint64_t ticks;
	__asm__ volatile("mrs %0, cntvct_el0" : "=r"(ticks));
	return ticks;
#else
	return ts_now_ns();
#endif
}

/* ---- the key: everything that decides about the pixels ----------------------------------- */

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
