/* SPDX-License-Identifier: MIT */
/*
 * What the small programs that bring something to a GPU have in common: the driver, found as a
 * program finds it, by dlopen(3) of libcuda.so.1, and what its calls take.
 */
#ifndef TS_BENCH_CUDA_H
#define TS_BENCH_CUDA_H

#include "common.h"

#include <dlfcn.h>

typedef unsigned long long device_pointer;

#define CUDA_NON_BLOCKING 1u /* of a stream */

/* For a table X(name, parameters): members of a struct cuda, and what fills them. */
#define CUDA_MEMBER(name, parameters) int(*name) parameters;
#define CUDA_FIND(name, parameters)                                \
	if (!(*(void **)&cuda.name = dlsym(cuda_driver(), #name))) \
		die(#name);
#define CUDA_FIND_IF_THERE(name, parameters) *(void **)&cuda.name = dlsym(cuda_driver(), #name);

/** The driver's library; ends the process if there is none. */
static inline void *cuda_driver(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW);
	if (!library)
		die("no libcuda.so.1");
	return library;
}

/** Ends the process if a call of the driver did not do what it should. */
static inline void need(int result, const char *what)
{
	if (result != 0) {
		fprintf(stderr, "%s: CUDA error %d\n", what, result);
		exit(1);
	}
}

static inline int compare_doubles(const void *one, const void *other)
{
	double a = *(const double *)one, b = *(const double *)other;
	return (a > b) - (a < b);
}

/** The one in the middle of @each, which is put into order. */
static inline double median(double *each, size_t count)
{
	qsort(each, count, sizeof(*each), compare_doubles);
	return each[count / 2];
}

static inline double ms_since(uint64_t begin)
{
	return (double)(now(CLOCK_MONOTONIC) - begin) / 1e6;
}

#endif
