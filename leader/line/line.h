/* SPDX-License-Identifier: MIT */
/*
 * The one line on stderr when what tsrun has started ends: what was taken from other jobs, or
 * why nothing was, and what helps.  With --summary a block of each job, in its place.
 */
#ifndef TS_LEADER_LINE_LINE_H
#define TS_LEADER_LINE_LINE_H

#include "leader/line/apart.h"
#include "leader/group/ledger.h"

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

/** The reason that the line tells for @sum, of @aligned jobs; TS_REASON_COUNT: it tells none.
 */
enum ts_reason ts_line_reason(const struct ts_line_sum *sum, bool aligned);

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

/** Whether this process is the one that tsrun has become: it prints for all jobs below. */
bool ts_line_is_ours(const struct ts_line_place *place);

/**
 * At the start of an interpreter: where no tsrun is above, this process prints the line for all
 * jobs below it, and the environment says so.  Before there is a second thread.
 */
void ts_line_begin(void);

/** A library that trains is loaded here: what met nothing to share is told so.  Any thread. */
void ts_line_note_trainer(void);

/** Whether this process may have something to say at its end, though it has counted nothing. */
bool ts_line_may_speak(const struct ts_config *config);

/**
 * At the end of a process: print the line if it is for this one to print.  That is the process
 * that tsrun has become; or where that cannot, as it ends without a word to libraries (dash(1))
 * or closes its stderr (timeout(1)), each job, of which those that took nothing say so once.
 * @ledger is the one of the session, or NULL: then it is looked for.  @waiting is what was
 * counted outside of it.
 */
void ts_line_finish(struct ts_ledger *ledger, struct ts_job_row *waiting);

/**
 * Print the block for job @id in one write.  @alone is what was counted outside @ledger, which
 * may be NULL: what a job did without shared memory, and why.  Async-signal-safe.
 */
void ts_summary_print(struct ts_ledger *ledger, uint64_t id, struct ts_job_row *alone);

#endif
