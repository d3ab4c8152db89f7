/* SPDX-License-Identifier: MIT */
/*
 * What slowfs can be told to do: one table for the command line, the control socket and
 * --help.  All values are whole numbers; what changes while mounted holds for requests that
 * begin later.
 */
#ifndef TS_TESTS_STORAGE_SETTINGS_H
#define TS_TESTS_STORAGE_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* The most that is allowed: ten minutes in us or ms, and sizes beyond every file of a test. */
#define SLOW_MOST_LONG INT64_C(600000000)
#define SLOW_MOST_SIZE (INT64_C(1) << 50)
#define SLOW_MOST_READ (INT64_C(1) << 30)
#define SLOW_MOST_FLAG 1
#define SLOW_MOST_POOL 512
#define SLOW_MOST_PLUS 2

/* clang-format off */
/* From max_read on they are fixed while mounted. */
/* id              name                start least most text */
#define SLOW_SETTINGS(X) \
	X(LATENCY,         latency_us,            0,  0, LONG, "us that each request takes") \
	X(LATENCY_LOOKUP,  latency_lookup_us,    -1, -1, LONG, "for lookup only; -1: as all") \
	X(LATENCY_GETATTR, latency_getattr_us,   -1, -1, LONG, "for getattr") \
	X(LATENCY_OPEN,    latency_open_us,      -1, -1, LONG, "for open, create, opendir") \
	X(LATENCY_READ,    latency_read_us,      -1, -1, LONG, "for read") \
	X(LATENCY_READDIR, latency_readdir_us,   -1, -1, LONG, "for readdir, readdirplus") \
	X(LATENCY_FLUSH,   latency_flush_us,     -1, -1, LONG, "for flush") \
	X(BANDWIDTH,       bandwidth,             0,  0, SIZE, "bytes/s of all; 0: no limit") \
	X(STALL,           stall,                 0,  0, FLAG, "1: requests wait until it is 0") \
	X(HOLD_NTH,        hold_nth,              0,  0, SIZE, "the n-th read waits for let_go") \
	X(LET_GO,          let_go,                0,  0, FLAG, "1: nobody waits but for a stall") \
	X(FAIL_READS,      fail_reads,            0,  0, FLAG, "1: every read fails with EIO") \
	X(FAIL_BEYOND,     fail_beyond,          -1, -1, SIZE, "bytes from here fail; -1: none") \
	X(FAIL_OPENS,      fail_opens,            0,  0, FLAG, "1: every open of a file too") \
	X(FAIL_NTH,        fail_nth,              0,  0, SIZE, "the n-th read from now fails") \
	X(FAIL_LISTS,      fail_lists,            0,  0, FLAG, "1: every readdir fails with EIO") \
	X(SHORT_READ,      short_read,            0,  0, SIZE, "bytes of a direct read; 0: all") \
	X(ATTR_TIMEOUT,    attr_timeout_ms,    1000,  0, LONG, "how long attributes are kept") \
	X(ENTRY_TIMEOUT,   entry_timeout_ms,   1000,  0, LONG, "how long names are kept") \
	X(KEEP_CACHE,      keep_cache,            0,  0, FLAG, "1: open leaves cached pages") \
	X(DIRECT_IO,       direct_io,             0,  0, FLAG, "1: open without page cache") \
	X(MAX_READ,        max_read,              0,  0, READ, "bytes of one read; 0: kernel's") \
	X(READDIRPLUS,     readdirplus,           1,  0, PLUS, "2: with attributes; 0: without") \
	X(STILL,           still,                 0,  0, FLAG, "1: directories keep time and size") \
	X(AGE,             age_s,                 0, -SLOW_MOST_LONG, LONG, \
		"s by which files look older") \
	X(THREADS,         threads,              64,  1, POOL, "requests worked on at once")
/* clang-format on */

#define SLOW_FIXED_FROM SLOW_MAX_READ

enum slow_setting {
#define X(id, name, start, least, most, text) SLOW_##id,
	SLOW_SETTINGS(X)
#undef X
		SLOW_SETTING_COUNT
};

/** The value now. Any thread. */
int64_t slow_get(enum slow_setting id);

/** Give a setting a value that is known to be allowed. Any thread. */
void slow_put(enum slow_setting id, int64_t value);

/**
 * Count a setting like fail_nth down to 0, and say whether this was the last step.
 * Exact with any number of threads.
 */
bool slow_count_down(enum slow_setting id);

/**
 * Read @text, "name=value".  @mounted: refuse what is fixed.
 * Errors: -ENOENT no such name; -EINVAL no number; -ERANGE not allowed; -EBUSY fixed.
 */
int slow_parse_setting(
	const char *text, bool mounted, enum slow_setting *ret_id, int64_t *ret_value);

/** All settings as one JSON object. */
void slow_print_settings(FILE *out);

/** All settings with their start values and meanings, one per line, for --help. */
void slow_print_help(FILE *out);

#endif
