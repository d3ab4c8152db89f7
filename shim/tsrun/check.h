/* SPDX-License-Identifier: MIT */
/*
 * The checks of `tsrun doctor`: one table, and what a check gets and gives.
 *
 * A check looks, and changes nothing that anybody could see later.  What cannot be seen from
 * here, or is of no concern here, is n/a and never an error.
 */
#ifndef TS_TSRUN_CHECK_H
#define TS_TSRUN_CHECK_H

#include "shim/config.h"

#include <limits.h>

/* The worse, the later. */
#define TS_CHECK_STATES(X) \
	X(ABSENT, "n/a")   \
	X(OK, "ok")        \
	X(WARN, "warn")    \
	X(FAIL, "fail")

enum ts_check_state {
#define TS_X(name, word) TS_CHECK_##name,
	TS_CHECK_STATES(TS_X)
#undef TS_X
};

/** What all checks look at; constant while they run. */
struct ts_check_scene {
	char program[PATH_MAX]; /* the running tsrun, without symbolic links */
	char library[PATH_MAX]; /* where the library is, or should be */
	bool has_library;       /* something is there */
	char **command;         /* the words behind "--", ending with NULL; or NULL */
	char *const *environment;
	struct ts_config config; /* of the environment, with defaults for bad values */
};

/** What a check found.  Begins as TS_CHECK_ABSENT with empty texts. */
struct ts_check {
	enum ts_check_state state;
	char found[1024]; /* never empty when the check has ended */
	char fix[512];    /* what helps, where the state is neither ok nor n/a */
};

/*
 * A row's place is its number, which people cite: rows are added at the end and never moved.
 *
 *	 id               title                                         function
 */
#define TS_CHECKS(X)                                                                     \
	X("library", "the library is there and of this tsrun", ts_check_library)         \
	X("preload", "a program starts with the library", ts_check_preload)              \
	X("preloads", "other preloaded libraries", ts_check_preloads)                    \
	X("shm_type", "/dev/shm is memory", ts_check_shm_type)                           \
	X("shm_access", "/dev/shm can be written to, and is safe", ts_check_shm_access)  \
	X("shm_room", "/dev/shm has room for the ring", ts_check_shm_room)               \
	X("memory_limit", "the control group leaves room for the ring", ts_check_memory) \
	X("size_limits", "limits of address space and file size", ts_check_sizes)        \
	X("memlock", "memory that may be locked", ts_check_memlock)                      \
	X("open_files", "files that may be open", ts_check_files)                        \
	X("namespaces", "user and PID namespace are the node's", ts_check_namespaces)    \
	X("shm_shared", "/dev/shm is the node's", ts_check_shm_shared)                   \
	X("leftovers", "nothing of dead jobs is left in /dev/shm", ts_check_leftovers)   \
	X("settings", "TSSHIM_ variables are known and valid", ts_check_settings)        \
	X("python", "Python finds the part that shares samples", ts_check_python)        \
	X("cuda_driver", "the CUDA driver library", ts_check_cuda)                       \
	X("mig", "parts of GPUs (MIG)", ts_check_mig)                                    \
	X("command", "the command can share", ts_check_command)                          \
	X("cluster", "other nodes can be asked", ts_check_cluster)

#define TS_X(id, title, function) \
	void function(const struct ts_check_scene *scene, struct ts_check *check);
TS_CHECKS(TS_X)
#undef TS_X

/**
 * Add a finding: @check takes the worse of the two states, and the text goes behind what was
 * found before.  Texts that do not fit are cut.
 */
void ts_check_find(struct ts_check *check, enum ts_check_state state, const char *format, ...)
	TS_PRINTF(3, 4);

/** Add something that helps. */
void ts_check_advise(struct ts_check *check, const char *format, ...) TS_PRINTF(2, 3);

/** The word of a state: "ok", ... */
const char *ts_check_word(enum ts_check_state state);

#endif
