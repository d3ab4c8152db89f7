/* SPDX-License-Identifier: MIT */
/*
 * The samples that this helper has stored on servers.  It remembers the last TS_KEPT of them,
 * with the server's number of each chunk, to remove them when there is no room for newer ones,
 * and to see whether any node has fetched them.
 *
 * Samples are many, and each is of use for a short time only: it ends by itself after
 * TS_KEPT_SAMPLE seconds.  Servers evict nothing, for the sake of files.  When a server has no
 * room for a chunk, the helper removes some of its oldest samples with a chunk of that size
 * there, and stores the chunk once more.  It removes TS_KEPT_REMOVED at once: memcached drops
 * the note that we make the value when a SET finds no room, and another node may win
 * meanwhile. A sample younger than TS_KEPT_YOUNG_NS stays, because a node that asked for it
 * while it was made waits for so long.  Files stay, and so do samples of other helpers, also
 * where ours was lost and another node has made it again.  A helper that ends because no job
 * is left removes all samples that it remembers: the next run begins with room.
 *
 * The helper looks at one sample in TS_KEPT_ONE_IN, TS_KEPT_LOOK_NS after it has stored it or
 * before it removes it: nodes that are behind may fetch it until then.  It looks once, because
 * the server counts a look as a fetch.  struct ts_worth gets the result.  A sample that is
 * gone or that another node has made again counts neither way, nor does one of which the
 * server tells nothing.
 *
 * Time is ts_now_ns()'s.  Threads: one at a time.
 */
#ifndef TS_LEADER_PEER_KEPT_H
#define TS_LEADER_PEER_KEPT_H

#include "leader/mail/mail.h"
#include "leader/peer/pool.h"
#include "leader/peer/value.h"

/*
 * Whether asking other nodes for samples pays: the one rule.  The helper judges, and tells all
 * jobs of the group in struct ts_mail_flow and struct ts_mail_use.
 *
 *	ON    jobs ask for each sample that they claim, and hand over each that they win
 *	OFF   jobs ask for nothing, and so win nothing; until a time
 *
 *	ON -> OFF   TS_WORTH_WINDOW samples that came took longer to get than they had taken
 *	            to make: for TS_MAIL_OFF_NS
 *	ON -> OFF   TS_WORTH_ROW looks in a row found that no node had fetched our sample, and
 *	            none came meanwhile: for TS_MAIL_OFF_NS the first time, twice as long each
 *	            time in a row, up to TS_MAIL_UNUSED_MAX_NS
 *	OFF -> ON   the time is over; or a sample came, or was fetched, all the same
 *
 * The server knows of each sample whether a node has fetched it since it was stored;
 * struct ts_kept tells when we look.  A sample from another node begins the row anew, for
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

#define TS_KEPT          16384
#define TS_KEPT_SAMPLE   60 /* seconds that a sample is kept: jobs are at most that far apart */
#define TS_KEPT_YOUNG_NS TS_MAIL_WAIT_NS
#define TS_KEPT_REQUESTS 64 /* on their way at once */
#define TS_KEPT_REMOVED  16 /* samples, where there is no room */
#define TS_KEPT_ONE_IN   8  /* what looks cost is an eighth of a question each */
#define TS_KEPT_LOOK_NS  UINT64_C(45000000000)

/* Of a sample at most; the longest name of one, and that of a chunk. */
#define TS_KEPT_CHUNKS    ((TS_MAIL_ROOM + TS_VALUE_CHUNK - 1) / TS_VALUE_CHUNK)
#define TS_KEPT_KEY       48
#define TS_KEPT_CHUNK_KEY (TS_KEPT_KEY + 12)

/** A sample that was stored; .count 0: it was removed. */
struct ts_kept_sample {
	uint64_t at_ns;
	uint64_t stored[TS_KEPT_CHUNKS]; /* which of all that were ever stored there; 0: unknown
					  */
	uint32_t count;                  /* of chunks */
	bool is_looked_at;               /* it is yet to be */
	char key[TS_KEPT_KEY];
};

/** A chunk that is being removed or looked at. */
struct ts_kept_request {
	struct ts_pool_request request;
	struct ts_kept *all; /* NULL: not in use */
	bool is_first;       /* removed: of its sample, which is counted once */
	uint64_t cas, at_ns; /* looked at: which one is meant, and when that was stored */
	/* What is to happen when it is removed, or NULL. */
	void (*done)(void *context);
	void *context;
	char key[TS_KEPT_CHUNK_KEY];
};

struct ts_kept {
	struct ts_mail *mail;
	struct ts_pool *pool;
	struct ts_worth *worth;
	/*
	 * Those at [first, end) modulo their number, oldest first.  Up to look_at they were
	 * looked at, if ever.  Of server i none is removed in front of room_at[i][0], and for
	 * the sake of a last chunk of room_at[i][1].
	 */
	uint64_t first, end, look_at, room_at[TS_CLUSTER_SERVERS][2];
	struct ts_kept_sample samples[TS_KEPT];
	struct ts_kept_request requests[TS_KEPT_REQUESTS];
};

/** Begin; @kept is all zeros, what is given is the caller's and outlives it. */
void ts_kept_init(struct ts_kept *kept, struct ts_mail *mail, struct ts_pool *pool,
	struct ts_worth *worth);

/** Sample @key of @count chunks is stored, each with the server's number in @stored. */
void ts_kept_note(
	struct ts_kept *kept, const char *key, uint32_t count, const uint64_t *stored);

/** Whether chunk @chunk of @key, of so many, is the last one; and whose it is. */
struct ts_kept_wanted {
	const char *key;
	uint32_t server;
	bool is_last;
	void (*done)(void *context); /* for each chunk that has gone */
	void *context;
};

/**
 * Remove old samples that have a chunk of the size of @wanted's at its server.  Returns how
 * many chunks are on their way out, for each of which .done is called.
 */
uint32_t ts_kept_make_room(struct ts_kept *kept, const struct ts_kept_wanted *wanted);

/** Look at those whose time has come. */
void ts_kept_step(struct ts_kept *kept);

/** When that must be called; UINT64_MAX: never. */
uint64_t ts_kept_deadline(const struct ts_kept *kept);

/** Begin to remove all, as many as go at once; whether there are more, or some on their way. */
bool ts_kept_clear(struct ts_kept *kept);

#endif
