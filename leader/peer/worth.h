/* SPDX-License-Identifier: MIT */
/*
 * Whether asking other nodes for samples pays: the one rule, judged by the helper and told to
 * all jobs of the group in struct ts_mail_flow and struct ts_mail_use.
 *
 *	ON    what is claimed here is asked for, and what was won is handed over
 *	OFF   nothing is asked for, and so nothing is won and handed over; until a time
 *
 *	ON -> OFF   TS_WORTH_WINDOW samples that came took longer to get than they had taken
 *	            to make: for TS_MAIL_OFF_NS
 *	ON -> OFF   TS_WORTH_ROW looks in a row found that no node had fetched our sample, and
 *	            none came meanwhile: for TS_MAIL_OFF_NS the first time, twice as long each
 *	            time in a row, up to TS_MAIL_UNUSED_MAX_NS
 *	OFF -> ON   the time is over; or a sample came, or was fetched, all the same
 *
 * The server knows of each sample whether a node has fetched it since it was stored;
 * leader/peer/kept.h tells when we look.  A sample from another node begins the row anew, for
 * that node has the same samples.  A node that is behind wins few, and the one in front has no
 * use for those.  A sample stored before the last OFF counts only if it was fetched.
 *
 * Two nodes that are OFF and make the same samples have to be ON in one moment to notice.  So a
 * time for which no node fetches anything ends where the clock of the day is a multiple of its
 * length; it is half as long at least and one and a half at most.  Where clocks agree to some
 * seconds, nodes that are OFF are ON again together.
 *
 * OFF is so for the next helper as well, if jobs are left when this one ends.
 */
#ifndef TS_LEADER_PEER_WORTH_H
#define TS_LEADER_PEER_WORTH_H

#include "leader/mail/mail.h"

#define TS_WORTH_WINDOW 64
#define TS_WORTH_ROW    32

struct ts_worth {
	struct ts_mail *mail;
	uint32_t got; /* of a window, with what they took to get and to make */
	uint64_t took_ns, made_ns;
	uint32_t row;      /* in a row that nobody had fetched */
	uint64_t pause_ns; /* how long the next time is for which no node fetches anything */
	uint64_t off_ns;   /* when the last one began */
};

/** Begin; @mail is the caller's and outlives it.  Threads: one at a time; so for all. */
void ts_worth_init(struct ts_worth *worth, struct ts_mail *mail);

/** A sample came, which took so long to get, and had taken so long to make. */
void ts_worth_note_got(struct ts_worth *worth, uint64_t took_ns, uint64_t made_ns);

/** A sample of ours, stored at @stored_ns, was looked at. */
void ts_worth_note_look(struct ts_worth *worth, uint64_t stored_ns, bool was_fetched);

/** No job is left: those of the next run may be anywhere. */
void ts_worth_finish(struct ts_worth *worth);

#endif
