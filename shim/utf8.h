/* SPDX-License-Identifier: MIT */
/* Where a character of UTF-8 ends. */
#ifndef TS_SHIM_UTF8_H
#define TS_SHIM_UTF8_H

/**
 * Bytes of the valid sequence that @text begins with (RFC 3629: the shortest form, no
 * surrogates, nothing above U+10FFFF), 1 to 4; 0 where there is none.  @text ends with NUL,
 * which is a sequence of one byte; nothing behind it is read. Threads, fork and signals: any.
 */
unsigned ts_utf8_length(const unsigned char *text);

#endif
