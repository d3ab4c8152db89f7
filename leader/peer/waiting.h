/* SPDX-License-Identifier: MIT */
/*
 * Whether somebody waits for a value that another node makes, as its server says.
 *
 * A server that is broken or hostile may say so of all its values, for ever, and so does an
 * honest one while those who make them hang: each value costs whoever wants it all the time he
 * has, and he makes it himself in the end.  No answer is late then, so the breaker sees
 * nothing.
 *
 *	HOPES   everybody waits, to his deadline
 *	TIRED   who is told that another node makes it does not wait; what is there is taken
 *
 *	HOPES -> TIRED   TS_WAITING_IN_VAIN waits in a row were in vain
 *	TIRED -> HOPES   a value came from that server, proven
 *
 * A TIRED server's pause begins with TS_WAITING_FIRST_NS.  When it is over one waits again, a
 * trial, and the others do not; was that in vain as well, the next pause is twice as long, up
 * to TS_WAITING_LAST_NS.  So such a server costs each reader TS_WAITING_IN_VAIN deadlines, and
 * one of them a deadline in each pause.
 *
 * Waits at the same time are one: a file system that stands still for a second makes all
 * readers wait in vain, and says nothing more than one of them does.  A node that reads slowly,
 * but within the deadlines of others, is waited for: each value that came begins the count
 * anew.
 *
 * Time is the caller's, of ts_now_ns(); nothing here sleeps.
 */
#ifndef TS_LEADER_PEER_WAITING_H
#define TS_LEADER_PEER_WAITING_H

#include "shim/base.h"

#define TS_WAITING_IN_VAIN  3
#define TS_WAITING_FIRST_NS UINT64_C(2000000000)
#define TS_WAITING_LAST_NS  UINT64_C(60000000000)

/** Of one server; all zeros: HOPES. */
struct ts_waiting {
	uint32_t in_vain;   /* in a row; TIRED from TS_WAITING_IN_VAIN on */
	uint64_t judged_ns; /* when one was last in vain: who began before says the same */
	uint64_t again_ns;  /* TIRED: end of the pause, or of the time that a trial has */
	uint64_t pause_ns;  /* the last one */
};

/**
 * Whether one may begin to wait now, for @most_ns at most.  Threads: one at a time; so for all
 * of them.
 */
bool ts_waiting_may(struct ts_waiting *waiting, uint64_t now, uint64_t most_ns);

/** One who began at @since has waited to the end, and nothing has come. */
void ts_waiting_was_in_vain(struct ts_waiting *waiting, uint64_t now, uint64_t since);

/** A value has come. */
void ts_waiting_has_got(struct ts_waiting *waiting);

#endif
