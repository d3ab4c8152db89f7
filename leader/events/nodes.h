/* SPDX-License-Identifier: MIT */
/* What an event log tells of other nodes (leader/mail/mail.h): when something has changed. */
#ifndef TS_LEADER_EVENTS_NODES_H
#define TS_LEADER_EVENTS_NODES_H

#include "leader/events/line.h"
#include "leader/mail/mail.h"

/** One server. */
struct ts_event_server {
	char name[TS_MAIL_PEER_NAME + 8]; /* ends; no room is left behind it */
	uint64_t state;                   /* enum ts_mail_peer_state */
	uint64_t error;                   /* SHUT: a positive errno; else 0 */
};

/** The tier as of one look, or as it was told last. */
struct ts_event_nodes {
	bool is_there;    /* somebody has asked for it */
	int helper;       /* the process that asks, 0: none */
	uint64_t error;   /* without one: why the last one ended */
	uint32_t samples; /* whether they are asked for: which word of leader/events/nodes.c */
	struct ts_event_server servers[TS_MAIL_PEERS]; /* without a name: none */
};

/**
 * Look at the table of @group.  Nothing of it stays open or mapped.  Without one that is ours,
 * @ret_nodes is as before but for the helper, which is none.
 */
void ts_event_nodes_look(
	const struct ts_scope *scope, const char *group, struct ts_event_nodes *ret_nodes);

/** The same of a table that is there. */
void ts_event_nodes_read(struct ts_mail_table *table, struct ts_event_nodes *ret_nodes);

/** Most bytes of what ts_event_nodes_put() writes. */
#define TS_EVENT_NODES_BYTES ((size_t)(TS_MAIL_PEERS + 1) * 256)

/** Write what is another one in @now than in @told, which is @now from then on. */
void ts_event_nodes_put(struct ts_event_text *text, uint64_t t_ms,
	const struct ts_event_nodes *now, struct ts_event_nodes *told);

#endif
