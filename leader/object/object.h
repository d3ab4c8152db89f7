/* SPDX-License-Identifier: MIT */
/* One object of shared memory: its name, its descriptor, and where it may be used. */
#ifndef TS_LEADER_OBJECT_OBJECT_H
#define TS_LEADER_OBJECT_OBJECT_H

#include "shim/base.h"

#include <assert.h>
#include <stdatomic.h>

/* /dev/shm, but for tests, which set TSSHIM_TEST_SHM in the test build. */
#define TS_SHM_DIR "/dev/shm"

/** Longest group name; letters, digits, '_', '-', '.' (not first). */
#define TS_GROUP_MAX 64

/* Longest path of an object: directory, uid, namespaces, group and a suffix. */
#define TS_PATH_BYTES 256

/** Where we are: only processes with an equal scope share. */
struct ts_scope {
	uint8_t boot_id[16];
	uint64_t user_ns, pid_ns;
	uint32_t uid;
};

/**
 * What every object begins with.  Constant after creation, like what the object has behind it;
 * then comes ts_hash64 of both.
 */
struct ts_object_head {
	uint64_t magic;
	uint32_t abi; /* another one: do not share */
	uint32_t uid;
	uint8_t boot_id[16];
	uint64_t user_ns, pid_ns; /* inode numbers of /proc/self/ns/{user,pid} */
};
static_assert(sizeof(struct ts_object_head) == 48, "of every ABI");

/** A shared-memory object of ours and the descriptor through which we reach it. */
struct ts_object {
	_Atomic int fd;          /* -1 while it is lost */
	_Atomic uint32_t repair; /* one thread at a time reopens */
	uint64_t device, inode, bytes;
	char path[TS_PATH_BYTES];
};

/**
 * Path of @group's object with @suffix ("ring", "ledger", ...), as leader/group/attach.h has
 * it: of our user and our namespaces.  Threads: any; allocates nothing.  Errors: -EINVAL bad
 * group; those of reading /proc/self/ns.
 */
int ts_object_path(char *buffer, size_t bytes, const char *group, const char *suffix);

/**
 * Open the object at object->path and check owner, type and mode.
 * Errors: -ENOENT; -EPERM foreign, not a regular file, or open to others; system errors.
 */
int ts_object_open(struct ts_object *object);

/**
 * Make an object of @bytes, its first @allocate bytes backed by memory and filled by
 * @fill(context, start of the object), and give it the name object->path in one step.
 * Errors: -EEXIST somebody was faster; -ENOSPC no room, or a limit of this process for files;
 * system errors.  Nothing is left behind.
 */
int ts_object_make(struct ts_object *object, uint64_t bytes, uint64_t allocate,
	void (*fill)(void *context, void *start), void *context);

/**
 * The descriptor, after making sure that it still is ours: hosts close descriptors they do
 * not know.  Reopens by name when it was lost.  *ret_reopened (may be NULL) tells.
 * Errors: -EBADF lost for good; -EAGAIN another thread is reopening it.
 */
int ts_object_fd(struct ts_object *object, bool *ret_reopened);

/** Whether the name still leads to this object. */
bool ts_object_is_named(const struct ts_object *object);

/** Close the descriptor if it still is ours. */
void ts_object_close(struct ts_object *object);

/** fcntl lock of one byte: F_WRLCK or F_UNLCK, never waits. Errors: -EAGAIN held. */
int ts_object_lock_byte(int fd, int64_t byte, int type);

/** Read the first @bytes of @fd, which was not read before. Errors: -EBADMSG the object is
 * shorter. */
int ts_object_read_start(int fd, void *buffer, size_t bytes);

/** Write the head at @start, and the check behind @bytes, which the caller has written. */
void ts_object_head_fill(
	void *start, uint64_t magic, uint32_t abi, const struct ts_scope *scope, size_t bytes);

/**
 * Whether the object at @start, wherever it was made, is whole and of this version.
 * Errors: -EBADMSG damaged, or something else; -EPROTO another version.
 */
int ts_object_head_check(const void *start, uint64_t magic, uint32_t abi, size_t bytes);

/** Errors: -EXDEV made on another boot or in another namespace; -EPERM by another user. */
int ts_scope_check(const struct ts_scope *mine, const struct ts_object_head *head);

/** Who we are and where. Errors: those of reading /proc. */
int ts_scope_read(struct ts_scope *ret_scope);

#endif
