/* SPDX-License-Identifier: MIT */
/* What the unit tests of shim/ and of the session need: a group of their own, and children. */
#ifndef TS_TESTS_SHIM_FIXTURE_H
#define TS_TESTS_SHIM_FIXTURE_H

#include "leader/group/ledger.h"
#include "leader/group/session.h"
#include "shim/atomic.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/**
 * Name this test's group in the environment, as `tsrun` does, and give it shared memory of its
 * own, before any fork.
 */
void fixture_init(void);

/** End the session, and remove whatever the test left. */
void fixture_finish(void);

/** Enter the session; fails the test when that fails. */
const struct ts_session *fixture_enter(void);

/** The ledger of the session, which is entered for it. */
struct ts_ledger *fixture_ledger(void);

/** Send stderr into a pipe; returns the end to read from, which never blocks. */
int fixture_catch_stderr(void);

/** How many lines can be read from @end now. */
int fixture_lines(int end);

/** Run @body in a forked child; returns its exit status, or -1 when it did not exit. */
int fixture_fork(int (*body)(void));

/** In a child that waits for ever: end with the parent, also when its test fails. */
void fixture_end_with_parent(void);

/** Exit status of @pid, or -1 when it did not exit. */
int fixture_wait(int pid);

/** Path of the program @name that lies beside this one. */
const char *fixture_program(const char *name);

#endif
