/* SPDX-License-Identifier: MIT */
/*
 * slowfs: a pass-through file system that behaves like storage far away.  Its settings, counts
 * and control socket, when a request may go on, the tree of inodes, and the answers to the
 * kernel.
 */
#ifndef TS_TESTS_STORAGE_SLOWFS_H
#define TS_TESTS_STORAGE_SLOWFS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#define FUSE_USE_VERSION 35
#include <fuse_lowlevel.h>

/* ---- settings ------------------------------------------------------------------------ */

/*
 * What slowfs can be told to do: one table for the command line, the control socket and
 * --help.  All values are whole numbers; what changes while mounted holds for requests that
 * begin later.
 */

/* The most that is allowed: ten minutes in us or ms, and sizes beyond every file of a test. */
#define SLOW_MOST_LONG INT64_C(600000000)
#define SLOW_MOST_SIZE (INT64_C(1) << 50)
#define SLOW_MOST_FLAG 1
#define SLOW_MOST_POOL 512
#define SLOW_MOST_PLUS 2

/* clang-format off */
/* From readdirplus on they are fixed while mounted. */
/* id              name                start least most text */
#define SLOW_SETTINGS(X) \
	X(LATENCY,         latency_us,            0,  0, LONG, "us that each request takes") \
	X(LATENCY_LOOKUP,  latency_lookup_us,    -1, -1, LONG, "for lookup only; -1: as all") \
	X(LATENCY_READ,    latency_read_us,      -1, -1, LONG, "for read") \
	X(BANDWIDTH,       bandwidth,             0,  0, SIZE, "bytes/s of all; 0: no limit") \
	X(STALL,           stall,                 0,  0, FLAG, "1: requests wait until it is 0") \
	X(HOLD_NTH,        hold_nth,              0,  0, SIZE, "the n-th read waits for let_go") \
	X(LET_GO,          let_go,                0,  0, FLAG, "1: nobody waits but for a stall") \
	X(FAIL_READS,      fail_reads,            0,  0, FLAG, "1: every read fails with EIO") \
	X(FAIL_BEYOND,     fail_beyond,          -1, -1, SIZE, "bytes from here fail; -1: none") \
	X(FAIL_OPENS,      fail_opens,            0,  0, FLAG, "1: every open of a file too") \
	X(FAIL_LISTS,      fail_lists,            0,  0, FLAG, "1: every readdir fails with EIO") \
	X(ATTR_TIMEOUT,    attr_timeout_ms,    1000,  0, LONG, "how long attributes are kept") \
	X(ENTRY_TIMEOUT,   entry_timeout_ms,   1000,  0, LONG, "how long names are kept") \
	X(KEEP_CACHE,      keep_cache,            0,  0, FLAG, "1: open leaves cached pages") \
	X(DIRECT_IO,       direct_io,             0,  0, FLAG, "1: open without page cache") \
	X(READDIRPLUS,     readdirplus,           1,  0, PLUS, "2: with attributes; 0: without") \
	X(STILL,           still,                 0,  0, FLAG, "1: directories keep time and size") \
	X(AGE,             age_s,                 0, -SLOW_MOST_LONG, LONG, \
		"s by which files look older") \
	X(THREADS,         threads,              64,  1, POOL, "requests worked on at once")
/* clang-format on */

#define SLOW_FIXED_FROM SLOW_READDIRPLUS

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
 * Count a setting like hold_nth down to 0, and say whether this was the last step.
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

/* ---- counts -------------------------------------------------------------------------- */

/*
 * What reached the storage: requests by kind, and opens, reads and bytes by file.
 *
 * One lock for all of it, so a report is one moment and no request is counted twice or lost.
 * A request is counted when it arrives, bytes before the answer goes out: when a program's
 * read() has returned, its bytes are in the report.
 */

/* Kinds of requests; forget, interrupt and release are nobody's waiting and not counted. */
#define SLOW_KINDS(X)         \
	X(LOOKUP, lookup)     \
	X(GETATTR, getattr)   \
	X(SETATTR, setattr)   \
	X(READLINK, readlink) \
	X(MAKE, make)         \
	X(REMOVE, remove)     \
	X(RENAME, rename)     \
	X(OPEN, open)         \
	X(CREATE, create)     \
	X(READ, read)         \
	X(WRITE, write)       \
	X(FLUSH, flush)       \
	X(FSYNC, fsync)       \
	X(LSEEK, lseek)       \
	X(OPENDIR, opendir)   \
	X(READDIR, readdir)   \
	X(STATFS, statfs)

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

/* ---- pace ---------------------------------------------------------------------------- */

/*
 * When a request may go on, and whether it fails: latency, bandwidth, stalls, faults.
 *
 * A request waits for its latency first and is then carried out, so what is stalled has not
 * touched the source.  Bytes of reads and writes then pass one link that all share.  Each
 * request waits in a thread of its own: latencies overlap, transfers queue.
 */

/** Once, before the first thread. Errors: of pthread_condattr_setclock(3). */
int slow_pace_init(void);

/**
 * A request has arrived: count it, wait out its latency and stalls.
 * @record: as for slow_count_arrival().  Any thread that serves requests.
 * Errors, to be answered as such: -EINTR the process that asked is being killed (only then:
 * network storage mounted hard heeds no other signal); -EIO slowfs is ending.
 */
int slow_pace_begin(fuse_req_t req, enum slow_kind kind, struct slow_record *record);

/** Send @bytes over the link; waits, and fails, like slow_pace_begin(). */
int slow_pace_transfer(fuse_req_t req, uint64_t bytes);

/** -EIO if an open is to fail now, else 0. */
int slow_pace_open_fault(void);

/** -EIO if a read whose last byte lies before offset @end is to fail now, else 0. */
int slow_pace_read_fault(uint64_t end);

/** Settings have changed: let waiting requests see it. Not from a signal handler. */
void slow_pace_wake(void);

/** slowfs is ending: every waiting or later request fails. */
void slow_pace_stop(void);

/** Requests that wait now. */
uint64_t slow_pace_waiting(void);

/* ---- control ------------------------------------------------------------------------- */

/*
 * The control socket: DIR/socket of mode 0600 in a directory of mode 0700, outside the tree
 * that programs see.  It exists from the moment the tree is mounted.
 *
 * One question per connection: a line of at most SLOW_LINE_BYTES.  The answer is one JSON
 * object, {"error": "..."} if the question was no good:
 *	set NAME=VALUE...	change settings, all or none
 *	get			all settings
 *	counts			see slow_count_print()
 *	reset			all counts to zero
 *	stop			unmount and end
 */

#define SLOW_LINE_BYTES 4096

/**
 * Make the socket; the directory too if it is not there.  Once.  @directory stays the
 * caller's and is used until slow_control_finish().
 * Errors: -EPERM the directory is not ours alone; -ENAMETOOLONG; of mkdir(2), bind(2).
 */
int slow_control_init(const char *directory, int *ret_fd);

/**
 * Answer who is next; bounded by a few seconds if they do not listen.  Returns false when
 * they asked to stop.  One thread.
 */
bool slow_control_answer(int fd);

/** Close and remove what slow_control_init() made; nothing if it was not called. */
void slow_control_finish(int fd);

/* ---- tree ---------------------------------------------------------------------------- */

/*
 * The inodes of the source that the kernel knows, each held by an O_PATH descriptor.
 *
 * A descriptor survives renames, and while it is open the source cannot give the inode's
 * number to another file; so (device, number) names an inode, and st_ino is the source's own.
 */

#define SLOW_PROC_BYTES 32

struct slow_inode {
	struct slow_inode *next; /* in its bucket */
	int fd;                  /* O_PATH | O_NOFOLLOW */
	dev_t dev;
	ino_t ino;
	uint64_t lookups; /* by the kernel, not yet forgotten; under the lock */
};

/**
 * Once: take @source as the root.  Raises RLIMIT_NOFILE, as every known file costs one.
 * Errors: those of open(2), fstat(2), realpath(3); -ENOTDIR.
 */
int slow_tree_init(const char *source);

/** The inode behind a number of the kernel's; valid until the kernel forgets it. Any thread. */
struct slow_inode *slow_tree_get(fuse_ino_t number);

/**
 * Look @name up beneath @parent and count that for the kernel, which has to be told by
 * @ret_entry, or the caller takes it back with slow_tree_forget().  Sets the time-outs.
 * Any thread.  Errors: those of openat(2), fstatat(2); -ENOMEM.
 */
int slow_tree_lookup(fuse_ino_t parent, const char *name, struct fuse_entry_param *ret_entry);

/** The kernel, or the caller of slow_tree_lookup(), drops @lookups. Any thread. */
void slow_tree_forget(fuse_ino_t number, uint64_t lookups);

/** Let @attr tell of changes as long ago as was asked for. Any thread. */
void slow_tree_age(struct stat *attr);

/** A path under /proc that opens @inode itself, also by calls that take no descriptor. */
void slow_tree_proc(const struct slow_inode *inode, char ret_path[static SLOW_PROC_BYTES]);

/** The path relative to the source by which @inode is known now. Errors: of readlink(2). */
int slow_tree_path(const struct slow_inode *inode, char ret_path[static PATH_MAX]);

/* ---- answers ------------------------------------------------------------------------- */

/*
 * Answers to the kernel's requests: each paces, then does to the source what was asked.
 *
 * POSIX locks and flock are left to the kernel, which keeps them exactly for all programs
 * that use this mount; programs that use the source itself do not see them.
 */

/** Fill in all of them. */
void slow_ops(struct fuse_lowlevel_ops *ops);

#endif
