/* SPDX-License-Identifier: MIT */
/* compress N: make N JPEGs with the encoder, whose objects share jpeg_abort and jpeg_destroy.
 */
#include "victim.h"

#include <stdlib.h>
#include <string.h>

#define SIDE 97

static void encode(unsigned seed, bool abort_half, bool generic)
{
	struct jpeg_compress_struct cinfo;
	struct victim_errors errors;
	unsigned char row[SIDE * 3], *out = NULL;
	unsigned long bytes = 0;

	memset(&cinfo, 0, sizeof(cinfo));
	cinfo.err = victim_errors_init(&errors, 0);
	if (setjmp(errors.escape))
		victim_usage(errors.text);
	jpeg_create_compress(&cinfo);
	jpeg_mem_dest(&cinfo, &out, &bytes);
	cinfo.image_width = cinfo.image_height = SIDE;
	cinfo.input_components = 3;
	cinfo.in_color_space = JCS_RGB;
	jpeg_set_defaults(&cinfo);
	jpeg_start_compress(&cinfo, TRUE);
	for (unsigned y = 0; y < (abort_half ? SIDE / 2u : SIDE); y++) {
		JSAMPROW line = row;
		for (unsigned x = 0; x < sizeof(row); x++)
			row[x] = (unsigned char)(x * seed + y * y);
		jpeg_write_scanlines(&cinfo, &line, 1);
	}
	if (!abort_half)
		jpeg_finish_compress(&cinfo);
	else if (generic)
		jpeg_abort((j_common_ptr)&cinfo);
	else
		jpeg_abort_compress(&cinfo);
	printf("%u abort=%d bytes=%lu hash=%016llx\n", seed, abort_half, abort_half ? 0 : bytes,
		(unsigned long long)(abort_half ? 0
						: victim_hash(VICTIM_HASH_START, out, bytes)));
	if (generic)
		jpeg_destroy((j_common_ptr)&cinfo);
	else
		jpeg_destroy_compress(&cinfo);
	free(out);
}

int main(int argc, char **argv)
{
	unsigned count = argc == 2 ? (unsigned)atoi(argv[1]) : 0;
	if (count == 0)
		victim_usage("compress N");
	for (unsigned i = 0; i < count; i++)
		encode(i + 1, i % 3 == 1, i % 2 == 1);
	return fflush(stdout) != 0;
}
