/* SPDX-License-Identifier: MIT */
/* The parts of leader/peer/notes.h among themselves. */
#ifndef TS_LEADER_PEER_NOTES_PRIVATE_H
#define TS_LEADER_PEER_NOTES_PRIVATE_H

#include "leader/journal/journal.h"
#include "leader/peer/notes.h"
#include "leader/peer/value.h"

/* "j1:", 32 digits; behind it ":0". */
#define TS_NOTES_KEY   40
#define TS_NOTES_CHUNK (TS_NOTES_KEY + 4)

#define TS_NOTES_NOBODY UINT32_MAX

struct ts_notes_key {
	size_t bytes;
	char text[TS_NOTES_KEY], chunk[TS_NOTES_CHUNK];
};

/** A value of notes on its way. */
struct ts_notes_carried {
	struct ts_notes *all; /* NULL: not in use */
	uint32_t node, share; /* whose */
	struct ts_pool_request request;
	struct ts_notes_key key;
	struct ts_value_head head;
	struct ts_notes_value value;
};

/** What is known of the notes of a helper. */
struct ts_notes_peer {
	uint64_t life, end; /* of its helper (0: none was heard), and behind the last note */
	uint64_t at_ns, pause_ns;
	bool is_asked;
};

struct ts_notes {
	struct ts_mail *mail;
	struct ts_pool *pool;
	struct ts_transfers *transfers;
	struct ts_store *store;
	const char *group;
	const struct ts_cluster_nodes *nodes;
	struct ts_journal *journal; /* NULL: there is none yet */
	uint64_t read, read_ns; /* turns of its lap OWN before this one were read, and when */
	uint64_t period_ns, at_ns;
	uint32_t own;        /* this node; or NOBODY */
	uint32_t share;      /* of those at its server: ours; or NOBODY: it is to be taken */
	uint32_t next_share; /* which is tried then */

	/* Ours: those from .end - TS_NOTES_MOST on, modulo that number; stored up to .told. */
	uint64_t life, end, told;
	uint64_t tell_at_ns, tell_pause_ns;
	uint64_t stored_ns; /* when that was last stored */
	struct {
		struct ts_notes_note note;
		uint64_t at_ns; /* it was made after that */
	} ours[TS_NOTES_MOST];

	struct ts_notes_carried telling, hearing[TS_NOTES_HEARINGS];
	struct ts_notes_peer peers[TS_KETAMA_SERVERS][TS_NOTES_SHARES];
};

/* ---- leader/peer/notes_value.c ----------------------------------------------------------- */

/** What follows a time that brought something new, or did not. */
uint64_t ts_notes_next_pause(const struct ts_notes *all, uint64_t pause_ns, bool is_new);

/** The key of the notes of @share at the server of @node. */
void ts_notes_set_key(const struct ts_notes *all, uint32_t node, uint32_t share,
	struct ts_notes_key *ret_key);

/** What @carried has to be proven as, of @total bytes. */
struct ts_value_place ts_notes_place(const struct ts_notes_carried *carried, uint64_t total);

/** Ask or store.  Errors: those of ts_pool_submit(), with which it is not in use any more. */
int ts_notes_submit(struct ts_notes *all, struct ts_notes_carried *carried,
	struct ts_meta_request meta, uint64_t bytes,
	void (*done)(struct ts_pool_request *request));

/** Of a request that was sent: what is not there, or is another's, is no failure. */
void ts_notes_count_failure(struct ts_notes *all, uint32_t server, int error);

/* ---- leader/peer/notes_tell.c ------------------------------------------------------------ */

/** Take up what jobs here have handed over, and tell it. */
void ts_notes_tell(struct ts_notes *all, uint64_t now);

#endif
