/* SPDX-License-Identifier: MIT */
/*
 * Input check: which files a thread opens while it makes a sample.
 *
 *	producer:  begin, make the item, end -> settled -> encode into the record
 *	reader:    check the record's bytes before using the record
 *
 * What the item was made from is a list of paths with the identity (device, inode, size, times)
 * each file had when it was opened.  A reader opens the same paths itself: that is its own
 * right to read them, and the proof that they still are the same files.
 *
 * Paths are kept as the program gave them, relative ones too: a reader in another directory
 * would open another file, and this way that is what it compares.  An open that found nothing
 * (ENOENT) is listed as well; at a hit there must still be nothing.
 *
 * Anything the list cannot express makes the item unfit, and the first reason stays in @why:
 *
 *	-EROFS     opened for writing, created, truncated or appended to
 *	-ENODEV    no regular file, one that the kernel makes up (/proc, /sys), or unusual flags
 *	-EXDEV     named relative to a directory descriptor
 *	-E2BIG     more files, or more text of paths, than there is room for
 *	-ESTALE    another file at the second open than at the first
 *	-EIO       the open failed, and not because there was nothing
 *	-EBUSY     a signal handler opened a file while another was being listed
 *	-ECHILD    a child, forked or vforked while the item was made, opened a file
 *	-EALREADY  begun while the thread was making another item
 *	-EINVAL    ended by another thread than the one that began
 *
 * Not seen, and no part of the promise (docs/rooms/files.md): files that were open
 * before, opens of other threads and of other processes, directory listings, stat, raw system
 * calls, io_uring, and what the C library opens for itself.
 */
#ifndef TS_LEADER_INPUTS_OPENS_H
#define TS_LEADER_INPUTS_OPENS_H

#include "shim/base.h"

#include <sys/stat.h>

#define TS_OPENS_FILES 64u
#define TS_OPENS_TEXT  16384u

/** What must be the same for two files to be taken for one, as of one moment. */
struct ts_file_identity {
	uint64_t device, inode, bytes;
	int64_t modified_ns, changed_ns; /* since 1970 */
};

struct ts_opens_file {
	struct ts_file_identity identity; /* zeros where there was nothing */
	uint16_t text_at, path_bytes;     /* in @text; a NUL follows */
	uint16_t absent, is_near;         /* near: ts_age_is_near() of where it lies */
};

/**
 * One item's files.  The caller's memory; 20 KiB, no pointers, need not be cleared before
 * ts_opens_begin().  It must stay valid until ts_opens_end().
 */
struct ts_opens {
	volatile int why;  /* 0, or the first reason that makes the item unfit */
	volatile int busy; /* a file is being listed; see -EBUSY */
	int process;       /* that began; see -ECHILD */
	int is_told;       /* @why is not 0, and @text is the path that was opened then */
	uint32_t count, text_used;
	int64_t begun_ns; /* since 1970 */
	struct ts_opens_file files[TS_OPENS_FILES];
	char text[TS_OPENS_TEXT];
};

/* In a record: a header, then each file followed by its path, nothing aligned. */
#define TS_OPENS_ENCODED_MAX (8u + TS_OPENS_FILES * 48u + TS_OPENS_TEXT)

/**
 * From now on list what this thread opens in @opens.
 *
 * Threads: the calling one only, which has to call ts_opens_end(), however the item ends.
 * Nesting: the outer item goes on and sees everything; the inner is unfit (-EALREADY).
 * Fork:    a child's opens make its copy unfit, not the parent's (a vfork child's the
 *          parent's as well); in a child, begin() starts anew.  Cost: one getpid().
 */
void ts_opens_begin(struct ts_opens *opens);

/**
 * From now on what this thread opens is nobody's, until ts_opens_resume() is given what this
 * gives: the list that is left alone meanwhile, NULL where there is none.  Threads: each its
 * own.
 */
struct ts_opens *ts_opens_pause(void);
void ts_opens_resume(struct ts_opens *paused);

/** Stop listing.  0 when the list is complete, else @why.  May be called twice. */
int ts_opens_end(struct ts_opens *opens);

/**
 * Why the list is not complete, as text for people, with the end of the path that was opened:
 * "/data/index.lock, opened to be written".  "" where it is complete.  Pure.
 */
void ts_opens_tell(const struct ts_opens *opens, char *text, size_t bytes);

/**
 * Whether any item of this process, or of those it was forked from, opened a relative name
 * while it was listed; code of Python's does not count.  What such an item keeps depends on the
 * working directory.  Threads: any.
 */
bool ts_opens_saw_relative(void);

/**
 * Whether the files still are what they were when they were opened, and were old enough when
 * the item began that each change since then must show in their times (leader/inputs/age.h). At
 * its end would be too late: an item may take longer than a file has to be old.  One stat() per
 * file, no permission needed but that of the path.
 *
 * Errors: -EAGAIN a file was younger than that (or of the future); -ESTALE one changed;
 *         @why of an unfit item; others of stat(2).
 */
int ts_opens_settled(const struct ts_opens *opens);

/**
 * The list as bytes for a record, TS_OPENS_ENCODED_MAX at most; returns their number.
 * Errors: -ENOSPC @size is too small; @why of an unfit item.  Nothing is written then.
 */
int64_t ts_opens_encode(const struct ts_opens *opens, void *buffer, size_t size);

/**
 * At a hit: open each file of @bytes, which is exactly what ts_opens_encode() wrote, and
 * compare. The bytes need not be trusted; each is read once, and no file but one that has the
 * listed identity is ever opened.
 *
 * Threads: any, several at once; no state.  Not seen by an observation of the same thread.
 *          errno stays, no descriptor is left behind, no cancellation point.  Closing a
 *          descriptor drops the process's fcntl() locks on that file, as any close does.
 * Errors:  -ESTALE a file is another now, or gone, or there where it was not; -EACCES and
 *          others of open(2); -EBADMSG damaged bytes.
 */
int ts_opens_check(const void *bytes, size_t size);

/**
 * The same of a list that another node has made, where the numbers of devices are its own: all
 * else is compared, and the devices of @bytes are made those of this node.  On an error @bytes
 * is of no use.
 */
int ts_opens_adopt(void *bytes, size_t size);

/* ---- for the exported calls ------------------------------------------------------------- */

/** The item that this thread is making, or NULL. */
extern __thread struct ts_opens *ts_opens_armed __attribute__((tls_model("initial-exec")));

/**
 * List one call of the open family after it was made: @path (not NULL unless the call
 * failed, or reopened a stream) relative to @directory, open(2) @flags, and the descriptor it
 * gave, or -1 with errno set.  @original is what is listed where @fd is of a copy, else NULL.
 * errno stays.  Async-signal-safe.
 */
void ts_opens_note(struct ts_opens *opens, int directory, const char *path, int flags, int fd,
	const struct stat *original);

#endif
