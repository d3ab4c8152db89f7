/* SPDX-License-Identifier: MIT */
/*
 * Which libjpeg a caller means, and its functions.
 *
 * A process can hold several libjpegs (Debian's, one inside each wheel).  Ours stands in
 * front of all of them, so every call has to go on to the one its caller would have reached
 * without us: the first object that defines the function, breadth first through the
 * DT_NEEDED of the calling object.  That is worked out from the loaded ELF objects with
 * dl_iterate_phdr(3) alone: dlsym is not in a glibc 2.28 libc.so.6, and RTLD_NEXT finds
 * another library's (docs/rooms/jpeg.md).  Later calls find the library by the memory
 * manager of the object they are called with, whose functions lie inside that library.
 */
#ifndef TS_HOOKS_JPEG_LIBRARY_H
#define TS_HOOKS_JPEG_LIBRARY_H

#include "hooks/jpeg/abi.h"
#include "shim/hash.h"

/*
 * Every function we stand in front of.
 *
 *	 name, result type, parameters
 */
#define TS_JPEG_CALLS(X)                                                                     \
	X(CreateDecompress, void,                                                            \
		(struct ts_jpeg_decompress * cinfo, int version, size_t bytes))              \
	X(read_header, int, (struct ts_jpeg_decompress * cinfo, int require_image))          \
	X(start_decompress, int, (struct ts_jpeg_decompress * cinfo))                        \
	X(read_scanlines, unsigned,                                                          \
		(struct ts_jpeg_decompress * cinfo, uint8_t * *rows, unsigned max_rows))     \
	X(skip_scanlines, unsigned, (struct ts_jpeg_decompress * cinfo, unsigned rows))      \
	X(crop_scanline, void,                                                               \
		(struct ts_jpeg_decompress * cinfo, unsigned *offset, unsigned *width))      \
	X(read_raw_data, unsigned,                                                           \
		(struct ts_jpeg_decompress * cinfo, void *planes, unsigned max_rows))        \
	X(read_coefficients, void *, (struct ts_jpeg_decompress * cinfo))                    \
	X(consume_input, int, (struct ts_jpeg_decompress * cinfo))                           \
	X(input_complete, int, (struct ts_jpeg_decompress * cinfo))                          \
	X(save_markers, void, (struct ts_jpeg_decompress * cinfo, int code, unsigned limit)) \
	X(set_marker_processor, void,                                                        \
		(struct ts_jpeg_decompress * cinfo, int code, void *routine))                \
	X(finish_decompress, int, (struct ts_jpeg_decompress * cinfo))                       \
	X(abort_decompress, void, (struct ts_jpeg_decompress * cinfo))                       \
	X(destroy_decompress, void, (struct ts_jpeg_decompress * cinfo))                     \
	X(abort, void, (struct ts_jpeg_common * cinfo))                                      \
	X(destroy, void, (struct ts_jpeg_common * cinfo))

/* Called, never stood in front of. */
#define TS_JPEG_USED(X)                                                      \
	X(calc_output_dimensions, void, (struct ts_jpeg_decompress * cinfo)) \
	X(has_multiple_scans, int, (struct ts_jpeg_decompress * cinfo))

/*
 * TurboJPEG's interface, whose first one we stand in front of.  libturbojpeg calls its own copy
 * of libjpeg, which our jpeg_* never see.
 */
#define TS_TURBO_CALLS(X)                                                                     \
	X(tjDecompress2, int,                                                                 \
		(void *handle, const unsigned char *jpeg, unsigned long jpeg_bytes,           \
			unsigned char *picture, int width, int pitch, int height, int format, \
			int flags))                                                           \
	X(tjDecompressHeader3, int,                                                           \
		(void *handle, const unsigned char *jpeg, unsigned long jpeg_bytes,           \
			int *width, int *height, int *subsampling, int *colour_space))        \
	X(tjGetScalingFactors, struct ts_scaling_factor *, (int *count))                      \
	X(tj3Init, void *, (int kind)) /* since libjpeg-turbo 3 */

struct ts_scaling_factor {
	int numerator, denominator;
};

/** One loaded libjpeg or libturbojpeg, with NULL for what it does not define. Filled in once,
 * constant while the library stays loaded. */
struct ts_jpeg_library {
	uintptr_t low, high;        /* its code */
	struct ts_hash128 identity; /* build id, else hash of the code; and the processor */
#define TS_X(name, type, parameters) type(*name) parameters;
	TS_JPEG_CALLS(TS_X)
	TS_JPEG_USED(TS_X)
	TS_TURBO_CALLS(TS_X)
#undef TS_X
};

/** Hash of the environment variables that libjpeg-turbo obeys (JSIMD_*). */
uint64_t ts_jpeg_environment(void);

/**
 * The library whose @function the code at @caller reaches, or NULL when none can be found.
 * Threads: any.  Takes the loader's lock for a moment (a few 10 us the first time, under
 * 0.1 us when this call site is known).  Not async-signal-safe.
 */
const struct ts_jpeg_library *ts_jpeg_library_of_caller(
	const void *caller, const char *function);

/**
 * The library that made the object @cinfo (of either direction), or, where its memory
 * manager is not the library's own, the one that @caller reaches.
 */
const struct ts_jpeg_library *ts_jpeg_library_of(
	const struct ts_jpeg_common *cinfo, const void *caller);

/** Whether @address lies in @library: a call of the library to itself. */
static inline bool ts_jpeg_inside(const struct ts_jpeg_library *library, const void *address)
{
	return (uintptr_t)address - library->low < library->high - library->low;
}

#endif
