/* SPDX-License-Identifier: MIT */
/*
 * What reached the storage: requests by kind, and opens, reads and bytes by file.
 *
 * One lock for all of it, so a report is one moment and no request is counted twice or lost.
 * A request is counted when it arrives, bytes before the answer goes out: when a program's
 * read() has returned, its bytes are in the report.
 */
#ifndef TS_TESTS_STORAGE_COUNTS_H
#define TS_TESTS_STORAGE_COUNTS_H

#include <stdint.h>
#include <stdio.h>

/* Kinds of requests; forget, interrupt and release are nobody's waiting and not counted. */
#define SLOW_KINDS(X)           \
	X(LOOKUP, lookup)       \
	X(GETATTR, getattr)     \
	X(SETATTR, setattr)     \
	X(READLINK, readlink)   \
	X(MAKE, make)           \
	X(REMOVE, remove)       \
	X(RENAME, rename)       \
	X(OPEN, open)           \
	X(CREATE, create)       \
	X(READ, read)           \
	X(WRITE, write)         \
	X(FLUSH, flush)         \
	X(FSYNC, fsync)         \
	X(FALLOCATE, fallocate) \
	X(LSEEK, lseek)         \
	X(OPENDIR, opendir)     \
	X(READDIR, readdir)     \
	X(STATFS, statfs)       \
	X(XATTR, xattr)

enum slow_kind {
#define X(id, name) SLOW_KIND_##id,
	SLOW_KINDS(X)
#undef X
		SLOW_KIND_COUNT
};

/** The counts of one file; lives as long as the process. */
struct slow_record;

/** A request arrived; @record is its file if it reads one, else NULL. Any thread. */
void slow_count_arrival(enum slow_kind kind, struct slow_record *record);

/**
 * A file was opened.  @path is relative to the source.  Returns its record, the same for
 * the same path, or NULL without memory (then only the totals count). Any thread.
 */
struct slow_record *slow_count_open(const char *path);

/** Bytes that the next answer carries, or that a write brought. Any thread. */
void slow_count_read(struct slow_record *record, uint64_t bytes);
void slow_count_write(struct slow_record *record, uint64_t bytes);

/** All counts to zero; open files go on counting. Any thread. */
void slow_count_reset(void);

/**
 * One JSON object: "requests" by kind, "opens", "reads", "bytes_read", "bytes_written",
 * "waiting" (@waiting, a number of requests), and "files", by path, those with any count.
 * Paths are written as the bytes they are.
 */
void slow_count_print(FILE *out, uint64_t waiting);

#endif
