/* SPDX-License-Identifier: MIT */
/*
 * The cost model: whether sharing a copy pays, by its size, from times measured in this
 * process; and which sizes recur.
 *
 * A probe costs a hash.  A hit saves the difference between the driver's own copy and one
 * within the GPU.  A miss costs a second hash and a copy into the ring.  The share of hits is
 * the group's, not ours: a job that is always first takes nothing, but others take from it.  It
 * belongs to one GPU and one ring: copies elsewhere, or before there was a ring, do not count.
 *
 * Jobs in step save little time: a waiter waits for the producer about as long as its own copy
 * would take.  But meanwhile it uses neither a core nor the link, on which the copies of all
 * jobs would be in each other's way; the measured copy of one's own had the link to itself.  So
 * a wait counts only if wait, copy and hash together take over a quarter longer than the own
 * copy.  With a 16th, the delays of a busy machine made one job give up, and its own copies
 * were then in the way of the producers.
 *
 * Of pinned sources the whole wait counts, for the driver's call returns at once.
 *
 * Threads: any, for all of these; a lost update is harmless.
 */
#ifndef TS_HOOKS_CUDA_COST_H
#define TS_HOOKS_CUDA_COST_H

#include "leader/group/ledger.h"

/* Below this, asking costs more than a copy saves. */
#define TS_COPY_BYTES_MIN ((size_t)256 << 10)

/* The measured times, in nanoseconds of wall time in the caller. */
enum ts_cost {
	TS_COST_OWN,   /* the driver's own copy from the host, see ts_cost_learn_own() */
	TS_COST_HASH,  /* one pass over the source */
	TS_COST_TAKEN, /* the rest of a call that hits, its wait included */
	TS_COST_LIGHT, /* the same without the wait; not of sources with a name */
	TS_COST_KINDS,
	/* The same of sources with a name: the check of the name for the hash, and for copies,
	 * for which no call waits, the time until the GPU is done. */
	TS_COST_KNOWN = TS_COST_KINDS,
	TS_COST_COUNT = 2 * TS_COST_KINDS
};

/* The share of hits on one GPU.  Zeroed: unknown. */
struct ts_cost_found {
	_Atomic uint64_t looked, found; /* when the window began */
	_Atomic uint64_t generation;    /* of the ring, plus one */
	_Atomic uint32_t parts;         /* of TS_COST_PARTS, in the last window */
};

#define TS_COST_PARTS 1024u

/** A copy of @bytes cost @ns. */
void ts_cost_learn(enum ts_cost cost, uint64_t bytes, uint64_t ns);

/**
 * TS_COST_TAKEN and TS_COST_LIGHT of a hit that took @ns, of which @waited_ns were a wait; of a
 * source that is @known by a name or not.  A wait in vain counts in full: @waited_ns is 0 then.
 */
void ts_cost_learn_taken(uint64_t bytes, bool known, uint64_t ns, uint64_t waited_ns);

/**
 * TS_COST_OWN.  @at_once: nothing was queued before it.  Else the copy took less than @ns,
 * which counts only until a better time is known.
 */
void ts_cost_learn_own(uint64_t bytes, uint64_t ns, bool at_once);

/** TS_COST_KNOWN + TS_COST_OWN, of a copy with nothing queued before it. */
void ts_cost_learn_known(uint64_t bytes, uint64_t ns);

/**
 * Whether the driver's own copy of @bytes, of a source that is @known or not, is to be measured
 * again: a job that always hits makes none, and would compare with an old time.
 */
bool ts_cost_own_is_due(uint64_t bytes, bool known);

/**
 * Moving average for copies of about @bytes, or the time of the quick ones where the end of a
 * copy is seen late; 0 where it is unknown.
 */
uint64_t ts_cost_of(enum ts_cost cost, uint64_t bytes);

/**
 * A copy of @bytes was in the ring @ns after the driver's own had begun.  @at_once: nothing was
 * queued before it, so this is the time of one transfer, and the group learns it, too.
 */
void ts_cost_brought(uint64_t bytes, uint64_t ns, bool at_once);

/**
 * How long producing a copy of @bytes takes at most, with all that is queued before it: the
 * slowest of this process's last few hundred, of which one that was held up counts four times
 * the others at most.  Where there was none, twice the average of the group with the data set
 * @row; 0 where that is unknown, too.
 */
uint64_t ts_cost_of_bringing(const struct ts_dataset_row *row, uint64_t bytes);

/**
 * How long one transfer takes at most, so how long a waiter waits: the same, of those that
 * began at once, and never more than twice their average and 2 ms.
 */
uint64_t ts_cost_of_transfer(const struct ts_dataset_row *row, uint64_t bytes);

/**
 * Whether a copy of @bytes that is queued behind other work comes so late that nobody should
 * wait for it: the last one took more than twice the time of one that is not queued and 2 ms,
 * or none is known.
 */
bool ts_cost_is_late(uint64_t bytes);

/**
 * The share of hits, in TS_COST_PARTS: of the last 64 or more probes of the group in the ring
 * of
 * @generation, by its counts @looked and @found (leader/slots/device.h).  Half until there are
 * so many.
 */
uint32_t ts_cost_found(
	struct ts_cost_found *state, uint32_t generation, uint64_t looked, uint64_t found);

/**
 * Whether the @bytes (192 and more) of readable memory at @from are among those that every job
 * chooses now, one in @one_in, from their contents and the minute: if one job leaves a word
 * about a copy, the others ask for it.
 */
bool ts_cost_is_chosen(const void *from, uint64_t bytes, uint64_t now_ns, unsigned one_in);

/**
 * Whether to probe for the copy of @bytes (192 and more) at @from, whose contents are @known by
 * a name or not, when @parts are found.  Yes while a time is unknown, and for one in 64 where
 * the answer would be no, as times change.  These are chosen by ts_cost_is_chosen(): no job
 * finds a copy for which it probes alone.
 */
bool ts_cost_pays(
	uint32_t parts, const void *from, uint64_t bytes, bool known, uint64_t now_ns);

/**
 * Whether that has been no for a minute of copies: then the memory of a GPU is better left to
 * others.  Ends with the next yes, and ten minutes after the last no, for without a ring no job
 * learns that it would pay.
 */
bool ts_cost_never_pays(void);

/* ---- sizes ------------------------------------------------------------------------------ */

/* So many copies are remembered: some seconds of a training job, with a few copies a step. */
#define TS_SIZES 128u

/* A size recurs if so many of them have it. */
#define TS_SIZES_TIMES_MAX 4u

/*
 * The sizes of the newest copies to a GPU.  A ring is shaped for those that recur: parameters
 * are copied once, and soon forgotten here.
 */
struct ts_sizes {
	_Atomic uint32_t met; /* so far; wraps */
	_Atomic uint64_t newest[TS_SIZES];
};

/** A copy of @bytes. */
void ts_sizes_note(struct ts_sizes *sizes, uint64_t bytes);

/** How many copies there were so far; wraps. */
uint32_t ts_sizes_met(const struct ts_sizes *sizes);

/**
 * The largest size up to @most that @times (TS_SIZES_TIMES_MAX at most) of the newest copies
 * have, or exceed without exceeding @most; 0 where there are not so many.
 */
uint64_t ts_sizes_recurring(const struct ts_sizes *sizes, uint64_t most, unsigned times);

#endif
