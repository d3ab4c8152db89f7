/* SPDX-License-Identifier: MIT */
/*
 * The ledger of a group: counters that outlive the processes, datasets, and jobs.
 *
 * One object of exactly TS_LEDGER_BYTES, mapped writable by all members and by tsrun.
 * All counters only grow and are added to with relaxed atomics: a killed process loses
 * nothing it had counted.  Rows are taken by one CAS and never move.
 *
 * A job has a row of its counters, and more rows of the same index: how far it is in its
 * epochs (struct ts_progress_row), what it could share with others (struct ts_drawn_row,
 * struct ts_meeting_row), what keeps it from sharing (struct ts_refusal_row), its tsrun and
 * its recorder.  ts_ledger_alignable() and ts_ledger_freeable() judge from these what --align
 * and --order free would share.
 */
#ifndef TS_LEADER_GROUP_LEDGER_H
#define TS_LEADER_GROUP_LEDGER_H

#include "leader/group/kinds.h"
#include "leader/object/object.h"
#include "shim/config.h"
#include "shim/reasons.h"

#include <assert.h>
#include <stdatomic.h>

#define TS_LEDGER_MAGIC     UINT64_C(0x31474c4452535354) /* "TSSRDLG1" */
#define TS_LEDGER_BYTES     98304u
#define TS_DATASET_MAX      32u
#define TS_DATASET_NAME     64u
#define TS_DATASET_OTHERS   "(others)" /* no name that a user could give */
#define TS_JOB_MAX          56u
#define TS_JOB_DATASETS     8u
#define TS_LEDGER_DRAWN     4096u /* offset of the rows of drawn samples */
#define TS_LEDGER_PROGRESS  5504u
#define TS_LEDGER_DATASETS  8192u
#define TS_LEDGER_JOBS      24576u /* offset of the job rows */
#define TS_LEDGER_REFUSALS  79872u
#define TS_LEDGER_LAUNCHES  94208u
#define TS_LEDGER_RECORDERS 94720u
#define TS_LEDGER_MEETINGS  95616u

/** Per kind; times in nanoseconds of CPU time. */
struct ts_tally {
	_Atomic uint64_t produced; /* published or worked out here, one each */
	_Atomic uint64_t shared;   /* taken from somebody else's work */
	_Atomic uint64_t shared_bytes;
	_Atomic uint64_t saved_ns; /* what the producers had spent on what was taken */
};

/**
 * Capture on demand: `asked` counts ghosts that another job asked for; when it reaches
 * `needed`, `capture` becomes 1 and members publish.  After every ring's worth of published
 * bytes the window is judged: fewer than 5 % taken turns capture off and quadruples `needed`
 * (1 ... 4096), more resets it to 1.
 */
struct ts_demand {
	_Atomic uint32_t capture, needed;
	_Atomic uint64_t asked;
	_Atomic uint64_t window_bytes, window_published, window_taken;
};

/* Each kind is captured apart, and the samples that draw random numbers apart from the others
 * (TS_KEY_DRAWN): that one is asked for says nothing about another. */
#define TS_DEMANDS      (TS_KIND_COUNT + 1)
#define TS_DEMAND_DRAWN TS_KIND_COUNT

/** A dataset: a label on records. */
struct ts_dataset_row {
	_Atomic uint64_t name_hash; /* 0 = free; taken by CAS, then `name` is written */
	char name[TS_DATASET_NAME];
	_Atomic uint32_t named; /* `name` is complete */
	_Atomic uint32_t off;   /* verification found a difference */
	_Atomic uint64_t reserved[8];
	struct ts_tally kinds[TS_KIND_COUNT];            /* offset 144 */
	_Atomic uint64_t cost_ns_per_kib[TS_KIND_COUNT]; /* moving average: deadlines */
	struct ts_demand demands[TS_DEMANDS];
	uint8_t pad[8];
};
static_assert(sizeof(struct ts_dataset_row) == 512, "ABI 2");
static_assert(offsetof(struct ts_dataset_row, kinds) == 144, "ABI 2");

/** A job: the process that was started, with its workers. */
struct ts_job_row {
	_Atomic uint64_t id;     /* ts_process_id(); 0 = free; a dead job's row may be reused */
	_Atomic uint64_t ticket; /* order of joining */
	_Atomic uint64_t ended;  /* 0, or when the job's process left, in ns since boot (older
				  * versions: 1); it may still be exiting */
	_Atomic uint64_t dataset[TS_JOB_DATASETS]; /* 0, or ticket << 8 | row + 1 */
	struct ts_tally kinds[TS_KIND_COUNT];
	_Atomic uint64_t passed[TS_REASON_SLOTS];
};
static_assert(sizeof(struct ts_job_row) == 984, "ABI 6");

/**
 * Samples that draw random numbers of the job's own, so that only jobs of equal seeds share
 * them; --align would make all jobs share.  One row per job row, for the first such data set
 * of the job.
 */
struct ts_drawn_row {
	_Atomic uint64_t identity;            /* hash of the data set; 0 = none yet */
	_Atomic uint64_t computed, delivered; /* what was not computed was taken */
};

/** A length of 1.0 epochs in struct ts_progress_row. */
#define TS_EPOCH (UINT64_C(1) << 20)

/**
 * How far a job is in the epochs of the data set that it was aligned for first.  One row per
 * job row.  The times are those of ts_now_ns(), between the first word of it and the latest.
 */
struct ts_progress_row {
	_Atomic uint64_t identity; /* hash of data set and loader; 0 = none yet */
	_Atomic uint64_t position; /* what is behind it, in TS_EPOCH; from epoch 0 on */
	_Atomic uint64_t order;    /* enum ts_epoch_order */
	_Atomic uint64_t began_ns, latest_ns;
	/* Not of epochs, but there was room here: which batch job it is of, with the id of the
	 * job in it as in struct ts_launch_row; 0: of none. */
	_Atomic uint64_t batch_xor_id;
};

#define TS_REFUSAL_WORDS 31u
#define TS_REFUSAL_BYTES (TS_REFUSAL_WORDS * 8u)

/**
 * What of a job's data keeps its samples from being shared: the first that one of its
 * processes came upon.  One row per job row.  A writer that dies leaves nothing to be read.
 */
struct ts_refusal_row {
	_Atomic uint64_t state; /* whether there is a text */
	_Atomic uint64_t words[TS_REFUSAL_WORDS];
};

/**
 * Which process of tsrun a job comes from.  One row per job row.  A version of tsshim that does
 * not know these rows leaves what another one wrote for an earlier job: with the id of the job
 * in it, that says nothing of its own.
 */
struct ts_launch_row {
	_Atomic uint64_t launch_xor_id; /* ts_process_id() of that process, ^ that of the job */
};

/**
 * Who writes down what a job does (leader/events/events.h), and how far that is; see
 * leader/events/recorder.h.  One row per job row; each word with the id of the job in it, as
 * above.
 */
struct ts_recorder_row {
	_Atomic uint64_t recorder_xor_id; /* ts_process_id() of that process, or 0 */
	_Atomic uint64_t state_xor_id;    /* enum ts_recorder_state | error << 8, or 0 */
};

/**
 * How a job met others: who took what it made, and whether anybody asked for the same names.
 * One row per job row; it counts only with the id of the job in it, as above.
 */
struct ts_meeting_row {
	_Atomic uint64_t id;
	_Atomic uint64_t given_samples, given_images; /* taken from this job by other jobs */
	_Atomic uint64_t own; /* samples and images it took from its own earlier work */
	_Atomic uint64_t met; /* samples another job had asked for by the same name */
	_Atomic uint64_t
		published; /* samples others can take, or could until they were evicted */
};

struct ts_ledger {
	struct ts_object_head head;
	uint64_t check; /* ts_hash64 of everything above */
	_Alignas(64) _Atomic uint64_t tickets;
	_Atomic uint64_t verified, mismatched; /* verify mode */
	_Alignas(64) _Atomic uint64_t passed[TS_REASON_SLOTS];
	/* the rows of TS_LEDGER_ROWS */
};
static_assert(offsetof(struct ts_ledger, check) == 48, "ABI 3");
static_assert(offsetof(struct ts_ledger, tickets) == 64, "ABI 2");
static_assert(sizeof(struct ts_ledger) <= TS_LEDGER_DRAWN, "ABI 6");

/* Who finds a row, its struct, where the rows begin, how many there are, where others begin. */
#define TS_LEDGER_ROWS(X)                                                              \
	X(drawn, drawn, TS_LEDGER_DRAWN, TS_JOB_MAX, TS_LEDGER_PROGRESS)               \
	X(progress, progress, TS_LEDGER_PROGRESS, TS_JOB_MAX, TS_LEDGER_DATASETS)      \
	X(dataset, dataset, TS_LEDGER_DATASETS, TS_DATASET_MAX, TS_LEDGER_JOBS)        \
	X(job, job, TS_LEDGER_JOBS, TS_JOB_MAX, TS_LEDGER_REFUSALS)                    \
	X(refusal_row, refusal, TS_LEDGER_REFUSALS, TS_JOB_MAX, TS_LEDGER_LAUNCHES)    \
	X(launch_row, launch, TS_LEDGER_LAUNCHES, TS_JOB_MAX, TS_LEDGER_RECORDERS)     \
	X(recorder_row, recorder, TS_LEDGER_RECORDERS, TS_JOB_MAX, TS_LEDGER_MEETINGS) \
	X(meeting_row, meeting, TS_LEDGER_MEETINGS, TS_JOB_MAX, TS_LEDGER_BYTES)

/* ts_ledger_<name>(): row @index, which is below their number. */
#define TS_X(name, row, from, count, end)                                          \
	static inline struct ts_##row##_row *ts_ledger_##name(                     \
		struct ts_ledger *ledger, uint32_t index)                          \
	{                                                                          \
		return (struct ts_##row##_row *)((char *)ledger + (from)) + index; \
	}                                                                          \
	static_assert((from) + (count) * sizeof(struct ts_##row##_row) <= (end), "ABI 6");
TS_LEDGER_ROWS(TS_X)
#undef TS_X

/** Whether it is whole and of this version. Errors: as for ts_object_head_check(). */
int ts_ledger_check(const struct ts_ledger *ledger);

/**
 * Row of the dataset called @name (at most TS_DATASET_NAME - 1 bytes count), made when it is
 * new.  The last row is kept for all datasets that find no other: they are counted, captured
 * and switched off together there, under the name TS_DATASET_OTHERS.
 * Threads and processes: any.  Errors: -ENOSPC the last row is damaged.
 */
int ts_ledger_find_dataset(struct ts_ledger *ledger, const char *name);

/**
 * Row of job @id, made when it is new; rows of dead jobs are reused, oldest ticket first.
 * Threads and processes: any.  Errors: -ENOSPC all rows belong to live jobs, or others were
 * faster three times; -EINVAL @id is 0, which is nobody.
 */
int ts_ledger_find_job(struct ts_ledger *ledger, uint64_t id);

/** The row that job @id has, or NULL. */
struct ts_job_row *ts_ledger_row_of(struct ts_ledger *ledger, uint64_t id);

/**
 * Note that the job in row @job uses dataset @dataset (first note wins a ticket).  Rows that
 * do not exist, and datasets beyond a job's TS_JOB_DATASETS, are ignored.
 */
void ts_ledger_note(struct ts_ledger *ledger, uint32_t job, uint32_t dataset);

/**
 * The job in row @job delivered so many such samples of the data set with hash @identity, and
 * computed some of them.  Rows that do not exist, and further data sets of a job, are ignored.
 */
void ts_ledger_add_drawn(struct ts_ledger *ledger, uint32_t job, uint64_t identity,
	uint64_t computed, uint64_t delivered);

/**
 * How many such samples of data sets that several jobs have were computed (*ret_samples), and
 * how many of these --align would have shared: all that exceed what the job that was given
 * most needed.
 */
uint64_t ts_ledger_alignable(struct ts_ledger *ledger, uint64_t *ret_samples);

/**
 * The job in row @job is at @position (in TS_EPOCH) of the data set and loader with hash
 * @identity, which it goes through in @order.  Rows that do not exist, and further data sets of
 * a job, are ignored.  Threads and processes: any.
 */
void ts_ledger_advance(struct ts_ledger *ledger, uint32_t job, uint64_t identity,
	uint64_t position, enum ts_epoch_order order);

/**
 * @text says what keeps samples of the job in row @job from being shared; the first counts, and
 * TS_REFUSAL_BYTES - 1 of its bytes.  Rows that do not exist are ignored.  Threads and
 * processes: any.
 */
void ts_ledger_refuse(struct ts_ledger *ledger, uint32_t job, const char *text);

/** Whether that was said of the job in row @job; then what, in printable ASCII. */
bool ts_ledger_refusal(struct ts_ledger *ledger, uint32_t job, char ret_text[TS_REFUSAL_BYTES]);

/** Time since boot in nanoseconds, as the start of processes is counted; never 0. */
uint64_t ts_meeting_now_ns(void);

/** How the job in row @job met others; NULL where that was not counted. */
struct ts_meeting_row *ts_ledger_meeting(struct ts_ledger *ledger, uint32_t job);

/**
 * The job in row @job took @count things of @kind that job @producer had made.  Rows that do
 * not exist, and jobs that have lost theirs, are ignored.  Threads and processes: any.
 */
void ts_ledger_give(struct ts_ledger *ledger, uint32_t job, uint64_t producer,
	enum ts_kind kind, uint64_t count);

/**
 * For how many nanoseconds the jobs in rows @a and @b ran side by side, up to now; 0: not at
 * all, or it is not known when one that is gone ended.
 */
uint64_t ts_ledger_beside_ns(struct ts_ledger *ledger, uint32_t a, uint32_t b);

/**
 * The position of the job that is furthest with the data set of the job in row @job, among
 * those whose process lives; 0 where that job has said of none where it is.
 */
uint64_t ts_ledger_front(struct ts_ledger *ledger, uint32_t job);

/**
 * How many samples were made by jobs that have their data set in common and keep to strict
 * order (*ret_samples), and about how many of these --order free would have shared.  That is
 * what the others made while the job that was given most was there, less what the strict order
 * shared.  Counted are only samples that could be shared, of jobs that another one met by the
 * name of a sample: what is refused, or named apart, no order shares.
 */
uint64_t ts_ledger_freeable(struct ts_ledger *ledger, uint64_t *ret_samples);

/**
 * The leader of @dataset: the live job that joined it first; a dead one only when no live
 * one is left.  Returns its job row and whether it is alive, or -ENOENT.
 */
int ts_ledger_leader(struct ts_ledger *ledger, uint32_t dataset, bool *ret_alive);

/**
 * Whether any job but @except (0: none) is still there: its process lives, and has not said
 * that it is leaving.
 */
bool ts_ledger_has_live_job(struct ts_ledger *ledger, uint64_t except);

/**
 * The job in row @job comes from process @launch of tsrun (0: of none).  Rows that do not exist
 * are ignored.
 */
void ts_ledger_set_launch(struct ts_ledger *ledger, uint32_t job, uint64_t launch);

/** Whether the job in row @job comes from process @launch of tsrun (not 0). */
bool ts_ledger_is_of_launch(struct ts_ledger *ledger, uint32_t job, uint64_t launch);

/**
 * The job in row @job is a part of batch job @batch (ts_config_batch(); 0: of none).  Rows that
 * do not exist are ignored.
 */
void ts_ledger_set_batch(struct ts_ledger *ledger, uint32_t job, uint64_t batch);

/** Whether the job in row @job is a part of batch job @batch (not 0). */
bool ts_ledger_is_of_batch(struct ts_ledger *ledger, uint32_t job, uint64_t batch);

/** The process that is job @id leaves; undone when it comes back (exec). */
void ts_ledger_end_job(struct ts_ledger *ledger, uint64_t id);

#endif
