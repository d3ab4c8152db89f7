/* SPDX-License-Identifier: MIT */
/*
 * A client of one memcached server: many requests at once over one link, in the meta protocol.
 *
 * A request, which is its caller's until it is done:
 *
 *	QUEUED    in the list of the connection; none of it was sent
 *	SENDING   its line is sent or about to be, of a value some bytes
 *	AWAITED   all of it is sent; it has had a slot since its line was made
 *	ARRIVING  its value comes, straight into the caller's memory
 *	DONE      .result is no longer -EINPROGRESS; the caller may do with it what he likes
 *
 *	QUEUED -> SENDING -> AWAITED  ts_meta_step(), as the link takes it; not before a
 *	                              token was accepted
 *	AWAITED -> ARRIVING -> DONE   ts_meta_step(), as the server answers, in the order of
 *	                              sending
 *	any -> DONE                   its deadline has come: -ETIMEDOUT.  What is still to come
 *	                              for it is read and thrown away; only a value that is half
 *	                              sent takes the connection along
 *
 * The connection:
 *
 *	OPENING   the link is not up, or a token is not accepted yet; until a deadline
 *	OPEN
 *	BROKEN    .error says why; all requests are done with it, and so is each new one
 *
 *	OPENING -> OPEN    ts_meta_step(): the server answers STORED; without a token at once
 *	any -> BROKEN      ts_meta_step(): one of TS_META_FAULTS
 *
 * Answers come in the order of requests.  Each has the number (opaque) of its request, one that
 * nobody else can guess from outside; a wrong one breaks the connection, as does whatever was
 * not asked for.  A server that answers nothing to a request for TS_META_GRACE_NS after its
 * deadline breaks it as well, so nobody's bytes keep it for ever.
 *
 * Nothing blocks but ts_meta_wait(), and that ends at a deadline.  Nothing is allocated: a
 * connection is sizeof(struct ts_meta), and what OpenSSL has.  One call of ts_meta_step() moves
 * at most TS_META_STEP bytes, however fast a server is.
 */
#ifndef TS_LEADER_PEER_META_H
#define TS_LEADER_PEER_META_H

#include "leader/peer/answer.h"
#include "leader/peer/link.h"

#include <assert.h>
#include <sys/uio.h>

#define TS_META_DEPTH    64 /* requests on their way at once */
#define TS_META_KEY      250
#define TS_META_VALUE    (UINT32_C(1) << 20) /* longer values are nobody's */
#define TS_META_STEP     (UINT64_C(4) << 20)
#define TS_META_GRACE_NS UINT64_C(1000000000)
#define TS_META_BUFFER   4096
#define TS_META_TTL      (30 * 24 * 3600) /* a larger number would be a date */

/* Why a connection is broken: (name, errno, text).  Errors of the link itself keep their own.
 */
#define TS_META_FAULTS(X)                                                       \
	X(GARBAGE, EPROTO, "an answer that is none")                            \
	X(STRANGE, EBADMSG, "an answer to something else")                      \
	X(ENDLESS, EFBIG, "a value or a line longer than any")                  \
	X(SILENT, ETIMEDOUT, "no answer, or half a request that took too long") \
	X(CLOSED, ECONNRESET, "the server has closed")                          \
	X(DENIED, EACCES, "the server wants another token, or is another one")

/* LOOK: at a value without fetching it. */
enum ts_meta_kind { TS_META_GET, TS_META_SET, TS_META_DELETE, TS_META_LOOK, TS_META_NOTHING };

struct ts_meta_request {
	enum ts_meta_kind kind;
	const char *key; /* not NOTHING: 1 to 250 bytes, no blanks, nothing below them */
	/*
	 * GET: where the value goes, the first part first; SET: where it is, which is not
	 * written to.  Both may be empty.
	 */
	struct iovec parts[2];
	uint32_t ttl; /* SET: seconds, 0 for ever; GET: of the word that whoever wins has */
	bool vivify;  /* GET: of all who miss, one wins and is to make the value */
	bool numbers; /* SET: ask which one of all it has become */
	/*
	 * Of all that was ever stored there, which one: GET and LOOK, which it is, and SET that
	 * numbers, which it has become (0: the server does not say); DELETE, which it has to be
	 * (0: any).
	 */
	uint64_t cas;
	uint64_t until_ns;                             /* deadline, of ts_now_ns() */
	void (*done)(struct ts_meta_request *request); /* or NULL; may submit others */
	void *context;

	/*
	 * -EINPROGRESS; then 0, or -ENOENT there is none, -EEXIST not stored, as there is one,
	 * or not deleted, as it is another one;
	 * -EMSGSIZE it has more bytes than the parts; -E2BIG, -ENOSPC the server does not take
	 * it; -EREMOTEIO another trouble of the server's; -ETIMEDOUT; what broke the
	 * connection.
	 */
	int result;
	uint32_t bytes; /* GET: of the value, 0 for a word that was won or is another's */
	uint32_t flags; /* GET, LOOK: TS_ANSWER_… */
	struct ts_meta_request *next;
};

struct ts_meta_slot {
	struct ts_meta_request *request; /* NULL: it is done, and its answer of no use */
	uint64_t until_ns;               /* then the connection breaks */
	uint32_t opaque;
	enum ts_meta_kind kind;
	bool numbers;
};

enum ts_meta_state { TS_META_OPENING, TS_META_OPEN, TS_META_BROKEN };

struct ts_meta {
	struct ts_link *link;
	enum ts_meta_state state;
	int error;
	uint64_t until_ns;                    /* OPENING */
	uint32_t opaque;                      /* of the next request */
	struct ts_meta_request *first, **end; /* QUEUED */

	/* Sent, oldest first. */
	struct ts_meta_slot slots[TS_META_DEPTH];
	uint32_t slot_at, slot_count;

	/* On their way out: lines, then the value of @sending from its byte @sent on. */
	struct ts_meta_request *sending;
	size_t sent;
	uint32_t out_at, out_end;
	bool ends_value; /* what is on its way out is the line end of a value */

	/* On their way in: lines, and what came behind them. */
	uint32_t in_at, in_end;
	bool arriving; /* the value of the oldest slot */
	bool more;     /* the last step stopped, and there may be more in the link */
	uint32_t value_bytes, value_at;
	uint32_t end_at; /* of the line end behind it */

	char out[TS_META_BUFFER];
	char in[TS_META_BUFFER];
};

static_assert(sizeof(struct ts_meta) <= 16 << 10, "what a connection costs");

/** What a negative errno of a broken connection says; NULL for others. */
const char *ts_meta_fault(int error);

/**
 * Begin over @link, which stays the caller's and outlives it.  @token NULL: the server wants
 * none; else it is given as @user and @token, once, and not kept.  @seed: where opaque numbers
 * begin.  It is open by @until_ns, or broken.
 *
 * Threads: one at a time; so for all of them.  Errors: -EINVAL a token that cannot be.
 */
int ts_meta_init(struct ts_meta *meta, struct ts_link *link, const char *user,
	const char *token, uint32_t seed, uint64_t until_ns);

/** Break it on the caller's behalf: all requests are done with @error. */
void ts_meta_finish(struct ts_meta *meta, int error);

/**
 * Take a request, which ends with .result and .done, here already if the connection is broken
 * or the deadline is over.  Errors: -EINVAL a key or a value that cannot be; it is not taken.
 */
int ts_meta_submit(struct ts_meta *meta, struct ts_meta_request *request);

/**
 * Get on as far as it goes without waiting.  Errors: why it is broken.
 */
int ts_meta_step(struct ts_meta *meta);

/**
 * Send what can be sent, for who has just submitted something and would find no answer yet: a
 * system call less than ts_meta_step().  Errors: why it is broken.
 */
int ts_meta_send(struct ts_meta *meta);

/** Whether there is something to be written, for the time of waiting. */
bool ts_meta_wants_to_write(const struct ts_meta *meta);

/** When ts_meta_step() must be called whatever comes; UINT64_MAX: never. */
uint64_t ts_meta_deadline(const struct ts_meta *meta);

/**
 * Step and wait until @request is done, at the latest at its deadline.  Returns its result.
 */
int ts_meta_wait(struct ts_meta *meta, struct ts_meta_request *request);

#endif
