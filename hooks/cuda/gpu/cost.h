/* SPDX-License-Identifier: MIT */
/*
 * Whether sharing a copy pays: what was measured in this process, by size.
 *
 * A copy that is looked up costs a hash; one that another job has brought saves the difference
 * between its own copy and one within the GPU; one that nobody has costs a second hash and a
 * copy into the ring.  How often the first happens is the group's, not ours: who is always
 * first takes nothing, but others do.  It is a GPU's, and a ring's: what jobs bring elsewhere,
 * or brought when there was nothing to look in, says nothing about it.
 *
 * Jobs in step save little time: who does not bring a copy waits for who does, about as long as
 * its own would take.  But meanwhile it uses neither a core nor the link, which others could
 * use, and on which their own copies would have been in each other's way; what each measures
 * while they share is an empty one.  So a wait counts only if it makes the call, with the hash,
 * longer than a copy of its own by more than a quarter.  A 16th was tried: what a busy machine
 * adds to a wait was enough for one job to give up, whose own copies were then in the way of
 * those that the others waited for.
 *
 * Of pinned sources all that is waited counts: the driver's call returns at once.
 */
#ifndef TS_HOOKS_CUDA_GPU_COST_H
#define TS_HOOKS_CUDA_GPU_COST_H

#include "leader/group/ledger.h"

/* What is measured, in nanoseconds of wall time that the caller waited. */
enum ts_cost {
	TS_COST_OWN,   /* the driver's own copy from the host, see ts_cost_learn_own() */
	TS_COST_HASH,  /* one pass over the source */
	TS_COST_TAKEN, /* what is left of the call when the bytes are there, or come meanwhile
			*/
	TS_COST_LIGHT, /* the same without the wait, in which nothing is used; not of known ones
			*/
	TS_COST_KINDS,
	/* The same of sources that are known by a name: looking whether they hold it, instead
	 * of a hash, and, as nobody waits for such copies, what they take until the GPU is
	 * done. */
	TS_COST_KNOWN = TS_COST_KINDS,
	TS_COST_COUNT = 2 * TS_COST_KINDS
};

/* Of the copies that are looked for on one GPU, how many are found. Zeroed: unknown. */
struct ts_cost_found {
	_Atomic uint64_t looked, found; /* when the window began */
	_Atomic uint64_t generation;    /* of the ring, plus one */
	_Atomic uint32_t parts;         /* of TS_COST_PARTS, in the last window */
};

#define TS_COST_PARTS 1024u

/** Remember that a copy of @bytes cost @ns. Threads: any; a lost update is none. */
void ts_cost_learn(enum ts_cost cost, uint64_t bytes, uint64_t ns);

/**
 * The same for TS_COST_TAKEN, and TS_COST_LIGHT, of a copy that came from the ring after @ns,
 * @waited_ns of which were a wait; of a source that is @known or not.  A wait in vain counts as
 * if it was none, with @waited_ns 0.
 */
void ts_cost_learn_taken(uint64_t bytes, bool known, uint64_t ns, uint64_t waited_ns);

/**
 * The same for TS_COST_OWN.  @at_once: nothing was queued in its stream.  What was not is more
 * than the copy took, so it counts only until one that was is known.
 */
void ts_cost_learn_own(uint64_t bytes, uint64_t ns, bool at_once);

/**
 * Whether the driver's own copy of @bytes, of a source that is @known or not, is to be measured
 * again: who finds all that it looks for never makes one, and would compare with what it cost
 * once.
 */
bool ts_cost_own_is_due(uint64_t bytes, bool known);

/** The same for TS_COST_KNOWN + TS_COST_OWN, of a copy that had nothing queued before it. */
void ts_cost_learn_known(uint64_t bytes, uint64_t ns);

/**
 * Moving average for copies of about @bytes, or what the quick ones take where it is seen late
 * that one is done; 0 where nothing is known yet.
 */
uint64_t ts_cost_of(enum ts_cost cost, uint64_t bytes);

/**
 * A copy of @bytes of this process was in the ring @ns after the driver's own had begun.
 * @at_once: nothing was queued in its stream before it, so that this is the time of one
 * transfer; the group is told then, too.  Threads: any; a lost update is none.
 */
void ts_cost_brought(uint64_t bytes, uint64_t ns, bool at_once);

/**
 * How long bringing @bytes takes at most, with all that is queued before it: until then others
 * leave them to who has begun.  What the slowest of this process's last few hundred took, one
 * that was held up counting four times the others at most.  Where it has brought none of about
 * @bytes yet, twice the average of the group with the data set @row; 0 where that is unknown,
 * too.
 */
uint64_t ts_cost_of_bringing(const struct ts_dataset_row *row, uint64_t bytes);

/**
 * How long one transfer takes at most, so how long to wait for others: the same, of those that
 * began at once, and never more than twice their average and 2 ms.
 */
uint64_t ts_cost_of_transfer(const struct ts_dataset_row *row, uint64_t bytes);

/**
 * Whether a copy of @bytes that is queued behind other work comes so late that others should
 * not wait for it: the last one took more than twice what one takes that is not and 2 ms, or
 * none is known.
 */
bool ts_cost_is_late(uint64_t bytes);

/**
 * Which part of the copies that are looked for is found, of TS_COST_PARTS: of the last 64 or
 * more that the group has looked for in the ring of @generation, by its counts @looked and
 * @found (leader/slots/device.h).  Half of them until there are so many.  Threads: any.
 */
uint32_t ts_cost_found(
	struct ts_cost_found *state, uint32_t generation, uint64_t looked, uint64_t found);

/**
 * Whether the @bytes (192 and more) of readable memory at @from are one of those, one in
 * @one_in, that every job chooses now, from their contents and the minute: what one job leaves
 * word of, the others ask for.  Threads: any.
 */
bool ts_cost_is_chosen(const void *from, uint64_t bytes, uint64_t now_ns, unsigned one_in);

/**
 * Whether to look for the copy of @bytes at @from, at least 192, the contents of which are
 * @known by a name or not, when @parts are found.  Yes while anything is unknown, and for one
 * in 64 where the answer would be no: things change. Those are the same in all jobs that bring
 * the same within a minute, @now_ns on the monotonic clock: of copies that only one of them
 * looks for none is ever found.  Threads: any.
 */
bool ts_cost_pays(
	uint32_t parts, const void *from, uint64_t bytes, bool known, uint64_t now_ns);

/**
 * Whether that has been no, but for those looked for all the same, for a minute of copies: then
 * memory of a GPU is better left to others.  Ends with the next yes, and ten minutes after the
 * last no, for without a ring nobody learns that it would pay.  Threads: any.
 */
bool ts_cost_never_pays(void);

#endif
