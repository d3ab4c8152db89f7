/* SPDX-License-Identifier: MIT */
/*
 * What one call costs that the library exports but has nothing to do with: libjpeg's calls
 * for both directions, on a compressor, and opening a file while no sample is made.  Prints
 * nanoseconds per call as JSON, the smallest of many short series, for every interruption only
 * makes a series longer.
 */
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <time.h>

#include <jpeglib.h>

#define CALLS  20000
#define OPENS  2000 /* each a system call */
#define SERIES 200

static uint64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static double best_of(void (*call)(j_common_ptr), j_common_ptr object, int calls)
{
	double best = 1e9;

	for (int series = 0; series < SERIES; series++) {
		uint64_t start = now();
		for (int i = 0; i < calls; i++)
			call(object);
		double each = (double)(now() - start) / calls;
		if (each < best)
			best = each;
	}
	return best;
}

/* These fail as early as they can: what a file system does would only hide the difference. */
static void call_open(j_common_ptr unused)
{
	(void)!open("", O_RDONLY);
}

static void call_fopen(j_common_ptr unused)
{
	(void)!fopen("", "?");
}

int main(void)
{
	struct jpeg_compress_struct cinfo;
	struct jpeg_error_mgr errors;

	cinfo.err = jpeg_std_error(&errors);
	jpeg_create_compress(&cinfo);
	double abort_ns = best_of(jpeg_abort, (j_common_ptr)&cinfo, CALLS);
	/* Destroying what is destroyed already is legal and does next to nothing. */
	jpeg_destroy((j_common_ptr)&cinfo);
	double destroy_ns = best_of(jpeg_destroy, (j_common_ptr)&cinfo, CALLS);
	double open_ns = best_of(call_open, NULL, OPENS);
	double fopen_ns = best_of(call_fopen, NULL, CALLS);
	printf("{\"jpeg_abort\": %.2f, \"jpeg_destroy\": %.2f, \"open\": %.2f, "
	       "\"fopen\": %.2f}\n",
		abort_ns, destroy_ns, open_ns, fopen_ns);
	return 0;
}
