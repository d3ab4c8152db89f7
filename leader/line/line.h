/* SPDX-License-Identifier: MIT */
/*
 * The one line on stderr when what tsrun has started ends: what was taken from other jobs, or
 * why nothing was, and what helps.  With --summary a block of each job, in its place.
 */
#ifndef TS_LEADER_LINE_LINE_H
#define TS_LEADER_LINE_LINE_H

#include "leader/group/ledger.h"
#include "leader/group/loaders.h"

/* ---- data sets with other names --------------------------------------------------------- */

/*
 * Jobs that ran side by side over data sets that look alike and have different names, so that
 * no sample of one is one of the other.
 *
 * The Python half tells of each loader what its samples are named by, in one word: 14 bits of
 * what the data set holds, 14 of the options in it that count, 12 of the versions of Python and
 * libraries, 12 of the working directory where that counts, 12 of the seed of --align.  Of
 * different bits the named things are different; equal bits say little.  0: the samples have no
 * name.
 */
#define TS_APART_NAME 32u
#define TS_APART_WHAT 224u

/* What may differ, lowest bits last; with what a user is told of it, and what helps. */
#define TS_APART_PARTS(X)                                                                     \
	X(DATA, "data", 50, 14, "their code or what they hold (paths, files, objects)",       \
		"the same code and paths")                                                    \
	X(OPTIONS, "options", 36, 14, "options that they hold", "the same options")           \
	X(VERSIONS, "versions", 24, 12, "versions of Python or libraries", "one environment") \
	X(DIRECTORY, "directory", 12, 12, "the directory they run in",                        \
		"one working directory")                                                      \
	X(SEED, "seed", 0, 12, "--align or its seed", "one --align")

enum ts_apart_part {
#define TS_X(name, id, shift, bits, text, fix) TS_APART_##name,
	TS_APART_PARTS(TS_X)
#undef TS_X
		TS_APART_PART_COUNT
};

/** Texts of enum ts_apart_part; constant. */
extern const struct ts_apart_text {
	const char *id, *text, *fix;
} ts_apart_texts[TS_APART_PART_COUNT];

struct ts_apart {
	bool found;
	int mine, other;          /* pids of the two jobs */
	uint64_t beside_ns;       /* for so long both have run */
	uint32_t parts;           /* a bit for each enum ts_apart_part that differs; not 0 */
	char name[TS_APART_NAME]; /* the end of the class of the data set, printable */
	/* Of what they hold, what differs: "opt.lr (0.1, 0.3), opt.size and 2 more"; "": not
	 * known. */
	char what[TS_APART_WHAT];
};

/**
 * Which parts of the names @a and @b differ, a bit each; where --align does, options are not
 * compared.  Threads: any.
 */
uint32_t ts_apart_parts(uint64_t a, uint64_t b);

/**
 * Find, for the job in row @job, a loader whose samples have another name than those of every
 * loader of some other job that ran beside it and has one that looks alike; the job beside
 * which it ran for longest.  Leaves *ret_apart with .found false where there is none.  Reads
 * what others write, checked; allocates nothing.  Threads: any.
 */
void ts_apart_find(struct ts_ledger *ledger, struct ts_loaders *loaders, uint32_t job,
	struct ts_apart *ret_apart);

/* ---- the line --------------------------------------------------------------------------- */

#define TS_LINE_BYTES 1024u

/** Counters of several jobs together; begin with all zero. */
struct ts_line_sum {
	uint64_t made[TS_KIND_COUNT], taken[TS_KIND_COUNT];
	uint64_t saved_ns;             /* CPU time */
	uint64_t given[TS_KIND_COUNT]; /* taken by other jobs, of samples and images */
	uint64_t own;                  /* of the taken: from what the job itself made before */
	uint64_t passed[TS_REASON_COUNT];
	bool drawn_apart; /* a job beside has the same data, with random numbers of its own */
	struct ts_apart apart; /* or data that looks the same, and has another name */
	char detail[TS_LOADER_DETAIL_WORDS * 8]; /* of the reason that is told; "": none */
	uint32_t kept; /* by what all loaders give as their reason: that one + 1; 0: they do not
			*/
};

/** Add what @row counts.  Threads: any. */
void ts_line_add(struct ts_line_sum *sum, struct ts_job_row *row);

/**
 * Add the jobs that come from process @launch of tsrun, or with @job (not 0) that one only.  A
 * job of so long ago that its row has another one is missing.  Threads: any.
 */
void ts_line_add_jobs(
	struct ts_line_sum *sum, struct ts_ledger *ledger, uint64_t launch, uint64_t job);

/**
 * Add what the loaders of the same jobs say: what exactly the reason is about, and whether
 * other jobs were named apart.  After the jobs.  Threads: any.
 */
void ts_line_add_loaders(struct ts_line_sum *sum, struct ts_ledger *ledger,
	struct ts_loaders *loaders, const struct ts_config *config, uint64_t launch,
	uint64_t job);

/**
 * Write the line for @sum, with a newline, in @config's words, at most @bytes; returns its
 * length, 0: there was nothing that could be shared, and nothing is to be said.  Allocates
 * nothing.  Async-signal-safe.
 */
size_t ts_line_format(char *buffer, size_t bytes, const struct ts_line_sum *sum,
	const struct ts_config *config);

/** The same for a program that met nothing that is shared. */
size_t ts_line_format_nothing(char *buffer, size_t bytes, const struct ts_config *config);

/**
 * Write @text to descriptor 2 if that is still what tsrun has seen, in one write(2), and only
 * if it can be done at once; whatever becomes of it, no signal comes of it.
 * Errors: -EBADF it is something else; -EAGAIN it is full; those of write(2).
 */
int ts_line_write(const struct ts_line_place *place, const char *text, size_t bytes);

/**
 * At the start of an interpreter: where no tsrun is above on this node, this process prints the
 * line for all jobs below it, and the environment says so.  Before there is a second thread.
 */
void ts_line_begin(void);

/** A library that trains is loaded here: what met nothing to share is told so.  Any thread. */
void ts_line_note_trainer(void);

/**
 * Print the block for job @id in one write.  @alone is what was counted outside @ledger, which
 * may be NULL: what a job did without shared memory, and why.  Async-signal-safe.
 */
void ts_summary_print(struct ts_ledger *ledger, uint64_t id, struct ts_job_row *alone);

#endif
