/* SPDX-License-Identifier: MIT */
/* A group of its own for every test, and short forms of what tests do with a store. */
#ifndef TS_TESTS_LEADER_FIXTURE_H
#define TS_TESTS_LEADER_FIXTURE_H

#include "leader/group/attach.h"
#include "leader/group/store_private.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define RING_BYTES (UINT64_C(8) << 20) /* six segments of 1 MiB */
#define JOB_A      UINT64_C(0x1000001) /* no process has such an id */
#define JOB_B      UINT64_C(0x2000001)

/** Name this test's group, in shared memory of its own, before any fork. */
void fixture_init(void);

/** Name of this test's group, in its children too. */
const char *fixture_group(void);

/** Path of one of the group's objects. */
const char *fixture_path(const char *suffix);

/** Detach what is attached, and remove whatever the test left. */
void fixture_finish(void);

/** Members of jobs A and, where a suite begins with fixture_pair_init(), B. */
extern struct fixture_joined {
	struct ts_store *a, *b;
} joined;

/** fixture_init(), with joined.a; with capturing switched on; with joined.b as well. */
void fixture_alone_init(void);
void fixture_captured_init(void);
void fixture_pair_init(void);

/** Attach as a member of @job, until the test ends; fails the test when that fails. */
struct ts_store *fixture_attach(uint64_t job);

/** The same with a ring of another size, if it is the first to attach. */
struct ts_store *fixture_attach_sized(uint64_t job, uint64_t ring_bytes);

/** Detach already now; or never. */
void fixture_detach(struct ts_store *store);
void fixture_forget(struct ts_store *store);

/** Attach and expect a failure; returns the error, and the reason. */
int fixture_refused(uint64_t ring_bytes, enum ts_reason *ret_reason);

/** A key of set @set with tag @tag. */
struct ts_key fixture_key(uint32_t set, uint32_t tag);

/** Switch capturing of dataset 0 on or off. */
void fixture_capture(struct ts_store *store, bool on);

/** Take without looking at the result's contents. */
struct ts_take fixture_take(struct ts_store *store, struct ts_key key);

/** Take, expect a claim, and publish @bytes of @value. */
void fixture_publish(struct ts_store *store, struct ts_key key, uint64_t bytes, int value);

/** Whether @key is a hit whose bytes are all @value; the lease is released. */
bool fixture_hits(struct ts_store *store, struct ts_key key, uint64_t bytes, int value);

/** Bytes of all segments, and of those that hold records now. */
void fixture_usage(struct ts_store *store, uint64_t *ret_capacity, uint64_t *ret_used);

/** Run @body in a forked child; returns its wait status. */
int fixture_fork(int (*body)(void *context), void *context);

/** The same; whether it was killed. */
bool fixture_is_killed(int (*body)(void *context), void *context);

/** A child that has done what it is to, and waits; it ends with the test. */
struct fixture_child {
	pid_t pid;
	int order; /* closed: it may go on */
};

/**
 * In a forked child: @begin, whose result @finish gets (or NULL) when it is let go.  Returns
 * when @begin has said that all is well, not with NULL.  The child exits with what @finish
 * returns.
 */
struct fixture_child fixture_child_begin(
	void *(*begin)(void *context), int (*finish)(void *begun), void *context);

/** Let it go on, and expect it to exit with @status; kill it. */
void fixture_child_end(const struct fixture_child *child, int status);
void fixture_child_kill(const struct fixture_child *child);

/** Whether the group has this object. */
bool fixture_exists(const char *suffix);

#endif
