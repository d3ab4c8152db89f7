/* SPDX-License-Identifier: MIT */
/* Programs that tsrun runs to their end, for what they print. */
#ifndef TS_TSRUN_CHILD_H
#define TS_TSRUN_CHILD_H

#include "shim/base.h"

#include <limits.h>

/** A program, and what is wanted of it. */
struct ts_child {
	const char *const *words; /* its path first, NULL at the end */
	char *const *env;
	bool takes_messages; /* what it says on standard error is wanted as well; else it is
				ours */
	bool is_cut;         /* what it says beyond the buffer is read, and not wanted */
};

/**
 * Run @child, and give what it prints, at most @bytes - 1 of it, with a NUL.  It is killed
 * after
 * @within_ns.  Returns its exit status, 128 and more for a signal.  Errors: -ETIMEDOUT it was
 * killed; -EFBIG it prints more; those of pipe(2), fork(2).
 */
int ts_child_run(
	const struct ts_child *child, uint64_t within_ns, char *ret_text, size_t bytes);

/* What helps where tsshim-secret or tsshim-peer are not there. */
#define TS_CHILD_WITHOUT_OPENSSL                                                 \
	"wheels have no programs for other nodes, and builds without OpenSSL 3 " \
	"neither: install the package for Debian, or compile with libssl-dev"

/**
 * The path of our program @name, which lies beside the library, or should.  Errors, with
 * *ret_path all the same: -ENOENT, -EACCES it cannot be run.  Others without it.
 */
int ts_child_find(const char *name, char ret_path[PATH_MAX]);

/**
 * Run tsshim-secret as ts_child_run() does, with @words from [1] on and nothing of the
 * environment; its messages come as what it prints does.  Errors: those of ts_child_find() too.
 */
int ts_child_ask_secret(const char **words, uint64_t within_ns, char *ret_text, size_t bytes);

/** Run tsshim-secret, which lies beside the library, the same way, with @words from [1] on;
 * says why it fails. */
int ts_child_run_secret(const char **words, char *ret_text, size_t bytes);

/* Room for a line of `tsshim-secret look`. */
#define TS_CHILD_LOOK_BYTES 160u

/** What a word of leader/peer/look.h means, for people; "" of another one. */
const char *ts_child_explain_look(const char *state);

#endif
