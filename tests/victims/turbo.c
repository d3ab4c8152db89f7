/* SPDX-License-Identifier: MIT */
/* turbo FILE...: the whole-image calls of TurboJPEG, with a few formats, flags and pitches. */
#include "victim.h"

#include <stdlib.h>
#include <string.h>

#include <turbojpeg.h>

static const struct {
	int format, flags, divide, padding;
} cases[] = {
	{TJPF_RGB, 0, 1, 0},
	{TJPF_BGRX, TJFLAG_FASTDCT, 1, 0},
	{TJPF_RGB, TJFLAG_FASTUPSAMPLE | TJFLAG_ACCURATEDCT, 2, 24},
	{TJPF_GRAY, TJFLAG_BOTTOMUP, 1, 3},
	{TJPF_CMYK, 0, 1, 0},
	{TJPF_RGB, TJFLAG_STOPONWARNING, 1, 0},
};

static void decode(const struct victim_input *input, size_t n, int width, int height)
{
	int w = (width + cases[n].divide - 1) / cases[n].divide;
	int h = (height + cases[n].divide - 1) / cases[n].divide;
	int pitch = w * tjPixelSize[cases[n].format] + cases[n].padding;
	size_t bytes = (size_t)pitch * (size_t)h;
	unsigned char *out = victim_alloc(bytes);
	tjhandle handle = tjInitDecompress();

	memset(out, 0x5a, bytes);
	int r = tjDecompress2(handle, input->data, input->bytes, out, w,
		cases[n].padding ? pitch : 0, h, cases[n].format, cases[n].flags);
	printf(" case %zu: %d %dx%d hash=%016llx code=%d text=\"%s\"\n", n, r, w, h,
		(unsigned long long)victim_hash(VICTIM_HASH_START, out, bytes),
		r ? tjGetErrorCode(handle) : 0, r ? tjGetErrorStr2(handle) : "");
	tjDestroy(handle);
	free(out);
}

#ifdef TJPARAM_STOPONWARNING
static void decode3(const struct victim_input *input, int width, int height)
{
	size_t bytes = (size_t)width * (size_t)height * 3;
	unsigned char *out = victim_alloc(bytes);
	tjhandle handle = tj3Init(TJINIT_DECOMPRESS);
	memset(out, 0x5a, bytes);
	int r = tj3Decompress8(handle, input->data, input->bytes, out, 0, TJPF_RGB);
	printf(" tj3: %d hash=%016llx text=\"%s\"\n", r,
		(unsigned long long)victim_hash(VICTIM_HASH_START, out, bytes),
		r ? tj3GetErrorStr(handle) : "");
	tj3Destroy(handle);
	free(out);
}
#endif

int main(int argc, char **argv)
{
	for (int i = 1; i < argc; i++) {
		struct victim_input input;
		int width = 0, height = 0, sampling = 0, space = 0;
		victim_input_load(&input, argv[i]);
		tjhandle handle = tjInitDecompress();
		int r = tjDecompressHeader3(
			handle, input.data, input.bytes, &width, &height, &sampling, &space);
		printf("%s header %d %dx%d %d %d\n", victim_base_name(argv[i]), r, width,
			height, sampling, space);
		tjDestroy(handle);
		for (size_t n = 0; r == 0 && n < sizeof(cases) / sizeof(cases[0]); n++)
			decode(&input, n, width, height);
#ifdef TJPARAM_STOPONWARNING
		if (r == 0)
			decode3(&input, width, height);
#endif
		victim_input_free(&input);
	}
	return fflush(stdout) != 0;
}
