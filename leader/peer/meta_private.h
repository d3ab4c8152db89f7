/* SPDX-License-Identifier: MIT */
/* The parts of leader/peer/meta.h among themselves. */
#ifndef TS_LEADER_PEER_META_PRIVATE_H
#define TS_LEADER_PEER_META_PRIVATE_H

#include "leader/peer/meta.h"

/** It is done, and no longer ours: the caller must not touch it again. */
void ts_meta_complete(struct ts_meta_request *request, int result);

/** BROKEN, unless it was before; all requests are done with @error. Returns what broke it. */
int ts_meta_break(struct ts_meta *meta, int error);

static inline struct ts_meta_slot *ts_meta_oldest(struct ts_meta *meta)
{
	return &meta->slots[meta->slot_at];
}

/** A slot for @request, behind all others; there must be one. */
struct ts_meta_slot *ts_meta_push(struct ts_meta *meta, struct ts_meta_request *request);

/** The oldest slot is free again; returns the request that it had, or NULL. */
struct ts_meta_request *ts_meta_pop(struct ts_meta *meta);

/** The first request of the list, which is not empty. */
struct ts_meta_request *ts_meta_take(struct ts_meta *meta);

/** Write, read, as long as *budget and the link allow.  Errors: what breaks the connection. */
int ts_meta_out(struct ts_meta *meta, uint64_t *budget);
int ts_meta_in(struct ts_meta *meta, uint64_t *budget);

#endif
