/* SPDX-License-Identifier: MIT */
/*
 * What jobs on other nodes made lately, for those that may choose what they do next: the helper
 * tells other nodes what its own jobs made, and writes what they tell into its node's journal
 * (leader/journal/journal.h).
 *
 *	 a node that makes                                           each of the others
 *	 lap OWN ──what was handed over──> the last 512 ──SET──> server ──GET──> lap TOLD
 *
 * Each node has one value for a group, "j1:<32 digits>" of the group's name and of HOST:PORT of
 * its own server in the list; so who is not in the list is told, and tells nothing.  Where
 * several helpers of a group have one server of their own (containers with the network of their
 * node), the first one has that value, and each further one the next of TS_NOTES_SHARES, whose
 * digits are also of its number; what is beyond that tells nothing.  A value is sealed as all
 * are (leader/peer/value.h), and has
 *
 *	life   a random number of this helper's
 *	first  the number of its first note; each helper counts its own from 0
 *	notes  the newest TS_NOTES_MOST, oldest first, none older than TS_NOTES_TELL_NS
 *
 * Of a node's notes only those of samples that it has handed over to the servers are told: not
 * what it made alone, nor what came from another node, which has told of that itself.  So no
 * note goes in circles.
 *
 * Which share a helper has it finds out by storing:
 *
 *	NONE   it stores where there is no value (memcached's add), beginning with share 0
 *	HAS    it stores what is new over its own, which is there for TS_NOTES_TTL seconds
 *
 *	NONE -> HAS    it was stored; where there was one, the next share is tried
 *	HAS -> NONE    it has stored nothing for so long that it may have ended; a share in
 * front of it is free; or another helper's value is there, for the server had lost ours
 *
 * A killed helper's share is free when its value has ended; until then the next one has
 * another.  What that finds of others at its own server when it begins may be its
 * predecessor's, and is not written.
 *
 * A reader asks for share 0 of each node, and for further ones as far as somebody was ever
 * heard in front of them.  It remembers of each helper its life and the number behind the last
 * note, and writes what is new.  It begins in the middle, each reader elsewhere: choosers take
 * the last note first, and all of them asking one server for one sample, then the next one for
 * another, would be served as fast as one link is, while all others have nothing to do. Others'
 * notes have a lap of their own in the journal, so ours stay.  From a note's making to the end
 * of its use pass at most TS_NOTES_TELL_NS until it is told, the life of the value, and what
 * choosers allow from then on (hooks/torch/order.c), which together is as long as servers keep
 * a sample.  Clocks of other nodes are not asked.
 *
 * ---- What it costs -----------------------------------------------------------------------
 *
 * A value has 12.4 kB at most.  A node asks for each of the others once in a period of 250 ms,
 * or of 5 ms for each node of the list where that is longer: for 200 values a second at most,
 * 2.5 MB/s, a fiftieth of a link of 1 Gbit/s; and a server with the value of one node gives as
 * much.  A helper beyond the first of a node costs as much as another node, up to four times
 * that.  While a node's value stays as it is, or cannot be had, it is asked for half as often
 * with each time, down to once in 2 s.  A node stores its own once in a period, if something
 * was made.  At most TS_NOTES_HEARINGS requests are on their way.
 *
 * Nobody waits for any of this, and all that fails is left out; it is counted for the server.
 * Nothing is done while no job of the node is in free order (there is no journal) or none has
 * asked for samples of other nodes.
 *
 * A helper that ends deletes its value.  One that is killed leaves it for TS_NOTES_TTL seconds:
 * a job of the same group that begins within that time may take it for one that is in front.
 */
#ifndef TS_LEADER_PEER_NOTES_H
#define TS_LEADER_PEER_NOTES_H

#include "leader/mail/mail.h"
#include "leader/peer/cluster.h"
#include "leader/peer/pool.h"
#include "leader/peer/transfer.h"

struct ts_notes;

#define TS_NOTES_MOST      512u
#define TS_NOTES_SHARES    4u
#define TS_NOTES_HEARINGS  8
#define TS_NOTES_PERIOD_NS UINT64_C(250000000)
#define TS_NOTES_EACH_NS   UINT64_C(5000000)
#define TS_NOTES_SLOW_NS   UINT64_C(2000000000)
#define TS_NOTES_TELL_NS   UINT64_C(10000000000)
#define TS_NOTES_TTL       20 /* seconds */

#define TS_NOTES_VERSION UINT32_C(1)

/* Numbers of a draw are below this: choosers go on from them. */
#define TS_NOTES_DRAWS (UINT32_C(1) << 31)

/** As it is sealed; little-endian. */
struct ts_notes_value {
	uint32_t version; /* TS_NOTES_VERSION */
	uint32_t count;
	uint64_t life, first;
	struct ts_notes_note {
		uint64_t tag;
		uint32_t index, draw, epoch, zero;
	} notes[TS_NOTES_MOST];
};
static_assert(sizeof(struct ts_notes_note) == 24, "what other nodes read");
static_assert(offsetof(struct ts_notes_value, notes) == 24, "what other nodes read");

/**
 * The notes of @group between the nodes of @nodes.  All that is given stays the caller's and
 * outlives it.  Threads: one at a time; so for all of them.  Errors: -ENOMEM.
 */
int ts_notes_create(struct ts_mail *mail, struct ts_pool *pool, struct ts_transfers *transfers,
	struct ts_store *store, const char *group, const struct ts_cluster_nodes *nodes,
	struct ts_notes **ret_notes);

/** The pool must be gone, or at rest.  Accepts NULL. */
void ts_notes_destroy(struct ts_notes *notes);

/**
 * Server @own of the list is this node's: from now on its notes are told, and of what lies
 * there those of other helpers are heard.
 */
void ts_notes_tell_as(struct ts_notes *notes, uint32_t own);

/** Do what it is time for. */
void ts_notes_step(struct ts_notes *notes);

/** When that must be called whatever comes; UINT64_MAX: never. */
uint64_t ts_notes_deadline(const struct ts_notes *notes);

/** Begin to delete what was told; whether that is on its way.  For a helper that ends. */
bool ts_notes_clear(struct ts_notes *notes);

/** Whether the @bytes at @value, which somebody has sealed, are notes.  Errors: -EPROTO. */
int ts_notes_check(const struct ts_notes_value *value, uint64_t bytes);

#endif
