/* SPDX-License-Identifier: MIT */
/*
 * Transfers (leader/peer/transfer.h) of a node with a server in the same thread, on a virtual
 * clock: an honest one, which keeps what it is given, until a test has it lie.
 */
#ifndef TS_TESTS_UNIT_PEER_NODE_H
#define TS_TESTS_UNIT_PEER_NODE_H

#include "fixture.h"

#include "leader/files/stage_private.h"
#include "leader/peer/transfer.h"

#define NODE_SERVERS 2
#define NODE_VALUES  1024
#define SECRET_A     "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f\n"
#define SECRET_B     "ffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffffff\n"

/** A command that the server has read; of a SET with its value. */
struct command {
	char word[4]; /* mg, ms, md */
	char key[80];
	unsigned opaque;
	unsigned long long cas; /* of an md, 0: any */
	bool vivifies;
	bool numbers; /* an ms */
	bool adds;    /* an ms: not where there is one */
	bool looks;   /* an mg: at the value only */
	const unsigned char *bytes;
	size_t count;
};

/** What the server has under a key; without one: nothing. */
struct node_value {
	char key[80];
	unsigned long long cas; /* which of all that were kept */
	bool fetched;
	unsigned char *bytes;
	size_t count;
};

struct node {
	struct ts_mail mail;
	struct ts_pool *pool;
	struct ts_transfers *transfers;
	struct ts_secrets secrets;
	char stem[64], part[TS_STAGE_PATH + 8],
		copy[TS_STAGE_PATH]; /* of the file of begin_…() */
	struct ts_mail_request request;

	/** Answer in the server's place; false: let it be honest. */
	bool (*lies)(struct node *node, const struct command *command);
	bool is_silent;    /* it reads and says nothing */
	size_t drips;      /* bytes that it sends one every ten milliseconds */
	const char *token; /* that it wants; NULL: any */
	uint64_t room;     /* for so many bytes; 0: for all */
	unsigned asked, stored, deleted, opened, tokens;
	char last_stored[80];
	unsigned long long kept; /* values, places among them */

	int ends[NODE_SERVERS]; /* the servers' ends of the connections; -1: none */
	int speaker;            /* who says what is said */
	unsigned next_end;
	struct node_value values[NODE_VALUES];
};

/** With @secrets, lines of a file, and @servers servers; no file yet. */
void node_begin(struct node *node, const char *secrets, uint32_t servers);
void node_end(struct node *node);

/** A .part of @bytes from @at on, all zeros, and the request for it; nobody has asked yet. */
void node_want(struct node *node, const char *name, uint64_t at, uint64_t bytes);

/** Post the request as @kind in slot 0, and take it, as the loop does. */
void node_post(struct node *node, enum ts_mail_kind kind);

/** Go on until slot 0 is no longer TAKEN; its answer, or -1 where the slot is free. */
int node_wait(struct node *node);

/** Both. */
int node_fetch(struct node *node);

/** Want all of @name, which has @bytes, and expect @answer when it is fetched. */
void node_expect(
	struct node *node, const char *name, uint64_t bytes, enum ts_mail_answer answer);

/** Go on until nothing is at work. */
void node_rest(struct node *node);

/** One turn of the loop, and of the server; whether something happened. */
bool node_turn(struct node *node);

/** Fill the .part with the bytes that @name stands for; compare it. */
void node_fill(struct node *node, const char *name);
bool node_has(struct node *node, const char *name);

/** Whether no byte of the .part was written. */
bool node_is_untouched(struct node *node);

/** Fetch, make and store: the server has it from now on. */
void node_give(struct node *node, const char *name, uint64_t bytes);

/** What the server has as chunk @chunk of the request; NULL: nothing. */
unsigned char *node_value(struct node *node, uint32_t chunk, size_t **ret_count);

/** Have the server say so many bytes of the connection that was read last. */
void node_say(struct node *node, const void *bytes, size_t count);
void node_printf(struct node *node, const char *format, ...) TS_PRINTF(2, 3);

/** Of server 0; of server @server. */
uint64_t node_counter(struct node *node, enum ts_mail_counter counter);
uint64_t node_counter_of(struct node *node, uint32_t server, enum ts_mail_counter counter);

/** Do as an honest server does that has room; for one that says it otherwise. */
void node_keep(struct node *node, const struct command *command);

#endif
