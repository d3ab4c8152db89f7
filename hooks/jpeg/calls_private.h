/* SPDX-License-Identifier: MIT */
/* What calls.c, start.c and rows.c share; exports.c sees hooks/jpeg/calls.h only. */
#ifndef TS_HOOKS_JPEG_CALLS_PRIVATE_H
#define TS_HOOKS_JPEG_CALLS_PRIVATE_H

#include "hooks/jpeg/calls.h"
#include "hooks/jpeg/decoder.h"

/* The real function of an object we do not follow, as of @caller. */
#define TS_REAL_OF(cinfo, caller) \
	ts_jpeg_library_of((const struct ts_jpeg_common *)(cinfo), (caller))

/* ---- calls.c ---------------------------------------------------------------------------- */

/**
 * The decoder of @cinfo, or NULL where the call has to go straight on: an object we do not
 * follow, or the library calling itself through its own exported name.  It stays the
 * table's; in a fork child it no longer touches the record its parent was making.
 */
struct ts_decoder *ts_jpeg_followed(const void *cinfo, const void *caller);

/* ---- start.c ---------------------------------------------------------------------------- */

/**
 * The real library from here on; false = suspended.  A lease or claim of ours has to be ended
 * before.  May not return: the library may raise an error.
 */
int ts_jpeg_start_plain(struct ts_decoder *decoder);

#endif
