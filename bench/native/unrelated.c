/* SPDX-License-Identifier: MIT */
/*
 * What one call costs that the library exports but has nothing to do with: libjpeg's calls
 * for both directions, on a compressor.  Prints nanoseconds per call as JSON, the smallest
 * of many short series, for every interruption only makes a series longer.
 */
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <jpeglib.h>

#define CALLS  20000
#define SERIES 200

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double best_of(void (*call)(j_common_ptr), j_common_ptr object)
{
	double best = 1e9;

	for (int series = 0; series < SERIES; series++) {
		uint64_t start = now();
		for (int i = 0; i < CALLS; i++)
			call(object);
		double each = (double)(now() - start) / CALLS;
		if (each < best)
			best = each;
	}
	return best;
}

int main(void)
{
	struct jpeg_compress_struct cinfo;
	struct jpeg_error_mgr errors;

	cinfo.err = jpeg_std_error(&errors);
	jpeg_create_compress(&cinfo);
	double abort_ns = best_of(jpeg_abort, (j_common_ptr)&cinfo);
	/* Destroying what is destroyed already is legal and does next to nothing. */
	jpeg_destroy((j_common_ptr)&cinfo);
	double destroy_ns = best_of(jpeg_destroy, (j_common_ptr)&cinfo);
	printf("{\"jpeg_abort\": %.2f, \"jpeg_destroy\": %.2f}\n", abort_ns, destroy_ns);
	return 0;
}
