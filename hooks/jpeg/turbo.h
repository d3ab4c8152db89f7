/* SPDX-License-Identifier: MIT */
/*
 * TurboJPEG's one-call decoder, tjDecompress2() of libturbojpeg.so.0 (libjpeg-turbo 1.2 to
 * 2.1): the whole stream and the whole picture are in the caller's memory.
 *
 * libturbojpeg calls its own copy of libjpeg, which our jpeg_* never see.  From libjpeg-turbo
 * 3 on a handle carries settings that cannot be read back (cropping region, scaling factor
 * of tj3SetScalingFactor()), so handles of such a library pass.  Programs that find the
 * function with dlsym on a handle of their own (ctypes) do not come here.
 */
#ifndef TS_HOOKS_JPEG_TURBO_H
#define TS_HOOKS_JPEG_TURBO_H

#include "shim/base.h"

/**
 * As tjDecompress2(): decode @jpeg_bytes at @jpeg into @picture, rows @pitch bytes apart (0:
 * packed).  0 on success, -1 with the library's own error state otherwise; a call that is
 * served from the ring does not clear an earlier error text of the handle.
 */
int ts_turbo_decompress2(void *handle, const unsigned char *jpeg, unsigned long jpeg_bytes,
	unsigned char *picture, int width, int pitch, int height, int format, int flags,
	const void *caller);

#endif
