/* SPDX-License-Identifier: MIT */
/*
 * Whether requests go to a peer at all.
 *
 *	CLOSED     all requests go
 *	OPEN       none goes, until a time
 *	HALF_OPEN  one goes at a time, a probe; the others do not, or wait for its answer if
 *	           they have begun already (ts_breaker_is_probed())
 *
 *	CLOSED -> OPEN       TS_BREAKER_FAILURES failures in a row
 *	OPEN -> HALF_OPEN    the time has come, and there is a request
 *	HALF_OPEN -> CLOSED  TS_BREAKER_PROBES probes in a row were answered
 *	HALF_OPEN -> OPEN    a probe was not; the pause is twice as long as the last one
 *
 * The owner says how long the first pause is and the longest.  A pause takes between half and
 * all of its length, by a seed that differs on each node and for each peer: nodes that lost a
 * peer in one moment do not come back to it in one.  A caller that may ask gets a ticket.  The
 * outcome of a request from an earlier state says nothing of this one: its ticket is too old.
 * A probe whose caller is gone is given up after TS_BREAKER_LOST_NS.
 *
 * Time is ts_now_ns(); nothing here sleeps.
 */
#ifndef TS_LEADER_PEER_BREAKER_H
#define TS_LEADER_PEER_BREAKER_H

#include "shim/base.h"

#define TS_BREAKER_FAILURES 3
#define TS_BREAKER_PROBES   3
#define TS_BREAKER_LOST_NS  UINT64_C(5000000000)

enum ts_breaker_state { TS_BREAKER_CLOSED, TS_BREAKER_OPEN, TS_BREAKER_HALF_OPEN };

/** Of the pauses: the first one, and the longest one. */
struct ts_breaker_times {
	uint64_t first_ns, last_ns;
};

struct ts_breaker {
	const struct ts_breaker_times *times;
	enum ts_breaker_state state;
	uint32_t ticket;   /* of what is asked now */
	uint32_t failures; /* in a row, while CLOSED */
	uint32_t proven;   /* probes in a row that were answered */
	bool probing;      /* a probe is on its way */
	uint64_t until_ns; /* OPEN: end of the pause; HALF_OPEN: when a probe is given up */
	uint64_t pause_ns; /* the last one, before it was shortened */
	uint64_t random;   /* state of the seed */
};

/**
 * A closed one; @times is the caller's and outlives it.  Threads: one at a time; so for all of
 * them.
 */
void ts_breaker_init(
	struct ts_breaker *breaker, const struct ts_breaker_times *times, uint64_t seed);

/** Whatever has failed, it is proven to be well: CLOSED, as if nothing had. */
void ts_breaker_close(struct ts_breaker *breaker);

/** Whether the peer may be asked now; *ret_ticket goes with the answer.  Errors: -EAGAIN. */
int ts_breaker_ask(struct ts_breaker *breaker, uint32_t *ret_ticket);

/** Whether a probe is on its way, whose answer says more. */
bool ts_breaker_is_probed(const struct ts_breaker *breaker);

/** The peer has answered what was asked with this ticket, a miss as well; or it has not. */
void ts_breaker_answered(struct ts_breaker *breaker, uint32_t ticket);
void ts_breaker_failed(struct ts_breaker *breaker, uint32_t ticket);

/** What was asked with this ticket was not asked after all. */
void ts_breaker_returned(struct ts_breaker *breaker, uint32_t ticket);

#endif
