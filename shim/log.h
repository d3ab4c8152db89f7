/* SPDX-License-Identifier: MIT */
/*
 * One line on stderr, written with one write(2): no stdio, no allocation, no locale.
 * Only callers at the border log (docs/rooms/store.md); at most TS_LOG_MAX lines per process.
 */
#ifndef TS_SHIM_LOG_H
#define TS_SHIM_LOG_H

#include "shim/base.h"
#include "shim/config.h"

#define TS_LOG_MAX 20

/**
 * Print "tsshim: <text>\n" when the level is enabled.  @format knows %s, %d, %u, %llu, %%;
 * nothing else.  Keeps errno.  Async-signal-safe.
 */
void ts_log(enum ts_level level, const char *format, ...) TS_PRINTF(2, 3);

/** Like snprintf with the same few conversions; always terminated; returns the length cut to
 * fit. */
size_t ts_format(char *buffer, size_t bytes, const char *format, ...) TS_PRINTF(3, 4);
size_t ts_format_v(char *buffer, size_t bytes, const char *format, __builtin_va_list arguments);

#endif
