/* SPDX-License-Identifier: MIT */
/*
 * One line that a server answers, in the words of memcached's meta protocol.
 *
 * A line is taken only if all of it is understood: a known word, a number where one belongs,
 * and flags that we ask for, each at most once.
 */
#ifndef TS_LEADER_PEER_ANSWER_H
#define TS_LEADER_PEER_ANSWER_H

#include "shim/base.h"

/* Longest line without its end; what is longer is no answer to anything that we ask. */
#define TS_ANSWER_LINE 512

/* A word, and what the server means by it. */
#define TS_ANSWERS(X)                                                \
	X(VA, "VA")                     /* a value follows */        \
	X(HD, "HD")                     /* done */                   \
	X(EN, "EN")                     /* there is no such value */ \
	X(NF, "NF")                     /* likewise, of a change */  \
	X(NS, "NS")                     /* not stored */             \
	X(EX, "EX")                     /* another one was stored */ \
	X(MN, "MN")                     /* nothing */                \
	X(STORED, "STORED")             /* the token is right */     \
	X(ERROR, "ERROR")               /* what was that? */         \
	X(CLIENT_ERROR, "CLIENT_ERROR") /* likewise, with a text */  \
	X(SERVER_ERROR, "SERVER_ERROR") /* not now, with a text */

enum ts_answer_word {
#define ONE(name, word) TS_ANSWER_##name,
	TS_ANSWERS(ONE)
#undef ONE
};

/* Flags of a value. */
#define TS_ANSWER_WON   1u /* W: whoever asked is to make it */
#define TS_ANSWER_MADE  2u /* Z: somebody else is making it */
#define TS_ANSWER_STALE 4u /* X: it is, and is being replaced */

/* Of a look at one. */
#define TS_ANSWER_FETCHED 8u /* h1: somebody has fetched it */

struct ts_answer {
	enum ts_answer_word word;
	uint32_t bytes; /* VA: of the value */
	bool has_opaque;
	uint32_t opaque;
	uint32_t flags;
	bool has_fetched; /* h: whether it was ever fetched */
	bool has_cas;
	uint64_t cas;     /* c: which of all that were ever stored it is; 0: not counted */
	const char *text; /* of an error, within the line */
	size_t text_bytes;
};

/**
 * Take the line at @line, without its end, apart.  Threads: any.
 * Errors: -EPROTO it is not understood; -EMSGSIZE a value of more than 32 bits.
 */
int ts_answer_parse(const char *line, size_t bytes, struct ts_answer *ret_answer);

/** Whether an error's text is @text. */
bool ts_answer_says(const struct ts_answer *answer, const char *text);

#endif
