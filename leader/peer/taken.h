/* SPDX-License-Identifier: MIT */
/*
 * Whether any node takes the samples that this one hands over.
 *
 * The node in front makes all and the others take it, so that one gets nothing says nothing;
 * but the server knows of each item whether somebody has fetched it since it was stored.  Of
 * TS_TAKEN_ONE_IN samples that were stored one is remembered, and looked at once,
 * TS_TAKEN_AFTER_NS later, or before it is removed for another one: who is behind may take it
 * until then.  Once, for the server counts a look as well.
 *
 *	TAKEN   all is handed over
 *	OFF     nothing is won and handed over; of some that are made here it is asked whether
 *	        another node has them (TS_MAIL_TRY_ONE_IN)
 *	TRIAL   all is handed over, and each one looked at
 *
 *	TAKEN -> OFF     TS_TAKEN_ROW looks in a row have found that nobody had fetched it
 *	OFF -> TRIAL     its time is over
 *	TRIAL -> OFF     as above, for twice as long, up to TS_MAIL_UNUSED_MAX_NS
 *	TRIAL -> TAKEN   one was fetched, or one came from another node; the next OFF is short
 *	OFF -> TAKEN     likewise: what was stored before is looked at all the same
 *	OFF -> TRIAL     at once, where another node begins to tell of what it makes, or has one
 *	                 that is made here: what it had came with the question
 *	any -> TAKEN     no job is left: those of the next run may be anywhere
 *
 * What came from another node begins the row anew, for that one has the same samples: who is
 * behind wins few, and those are of no use to who is in front.  What is gone, what another node
 * has made again, and what a server does not tell counts neither way.
 *
 * A trial stores TS_TAKEN_ROW samples and not many more: with as many under way it is as when
 * OFF, until they were looked at.  If too few of these can be, it goes on.
 *
 * Of two nodes that are OFF each one's trial would be in vain if the other one asked for
 * nothing.  Where one of them tells notes of its trial (leader/peer/notes.h), the other one
 * begins its own with those.  In strict order there are none: so jobs that are OFF go on to ask
 * for one in TS_MAIL_TRY_ONE_IN of what they make, by a read that gives nobody the right to
 * make it (TS_MAIL_SAMPLE_FIND).  Nothing is stored for it, and who finds nothing has cost a
 * question; who finds one is behind a node that hands over, and gets the rest in its trial.
 * Which ones are asked for, and how often, all jobs of the node decide together, in the table.
 *
 * One that is found while a trial waits to be looked at has jobs ask again: each that they win
 * then is the last one, as of any trial that is full, and one that they get ends it.
 *
 * What is OFF is told in struct ts_mail_use, to all jobs of the group, and is so for the
 * next helper as well, if jobs are left when this one ends.  A helper that is killed leaves it
 * as it is: jobs go on to ask for some, without an answer until there is another one, which
 * begins with a trial.  A job that is killed leaves nothing but its turn to ask, which the next
 * sample has.
 *
 * Memory: of TS_TAKEN_KEPT samples; those beyond are not looked at.  Time is ts_now_ns()'s.
 */
#ifndef TS_LEADER_PEER_TAKEN_H
#define TS_LEADER_PEER_TAKEN_H

#include "leader/mail/samples.h"
#include "leader/peer/pool.h"

/* Of eight: what they cost is an eighth of a question each, and a row is soon full. */
#define TS_TAKEN_ONE_IN 8
#define TS_TAKEN_ROW    32
/* Servers keep a sample for a minute (TS_TRANSFER_SAMPLE). */
#define TS_TAKEN_AFTER_NS UINT64_C(45000000000)
#define TS_TAKEN_KEPT     2048
#define TS_TAKEN_LOOKS    16 /* on their way at once */
#define TS_TAKEN_NAME     48 /* of a sample, with its end */

/** One that is to be looked at. */
struct ts_taken_sample {
	uint64_t at_ns; /* when it was stored */
	uint64_t cas;   /* the server's number of it; 0: it was looked at */
	uint32_t round;
	char key[TS_TAKEN_NAME + 2];
};

struct ts_taken;

struct ts_taken_look {
	struct ts_pool_request request;
	struct ts_taken *all; /* NULL: not in use */
	struct ts_taken_sample sample;
};

struct ts_taken {
	struct ts_mail *mail;
	struct ts_pool *pool;
	bool is_trial;       /* or OFF: until one was taken */
	uint64_t off_ns;     /* how long the next OFF is */
	uint32_t stored;     /* of which one in so many is remembered */
	uint32_t round;      /* what was stored before it ended says only if it was taken */
	uint32_t row;        /* in a row that nobody had fetched */
	uint32_t undecided;  /* of this round */
	uint64_t first, end; /* of those below, modulo their number, oldest first */
	struct ts_taken_sample kept[TS_TAKEN_KEPT];
	struct ts_taken_look looks[TS_TAKEN_LOOKS];
};

/**
 * Begin; @taken is all zeros, and @mail and @pool are the caller's and outlive it.  Threads:
 * one at a time; so for all of them.
 */
void ts_taken_begin(struct ts_taken *taken, struct ts_mail *mail, struct ts_pool *pool);

/**
 * Sample @name was stored, its first chunk with the server's number @cas (0: unknown).  Whether
 * it is to be looked at.
 */
bool ts_taken_note_stored(struct ts_taken *taken, const char *name, uint64_t cas);

/** The one with the number @cas is about to be removed: it is looked at now, if ever. */
void ts_taken_leave(struct ts_taken *taken, uint64_t cas);

/** One came from another node. */
void ts_taken_note_got(struct ts_taken *taken);

/** One came from another node that was asked for without the right to make it. */
void ts_taken_note_found(struct ts_taken *taken);

/** Another node tells of what it makes, and had told of nothing for a while. */
void ts_taken_note_heard(struct ts_taken *taken);

/** No job is left. */
void ts_taken_end(struct ts_taken *taken);

/** Look at those whose time has come. */
void ts_taken_step(struct ts_taken *taken);

/** When that must be called; UINT64_MAX: never. */
uint64_t ts_taken_deadline(const struct ts_taken *taken);

#endif
