/* SPDX-License-Identifier: MIT */
/* A server that answers what a test says, in the thread of the client and on its clock. */
#ifndef TS_TESTS_UNIT_PEER_FIXTURE_H
#define TS_TESTS_UNIT_PEER_FIXTURE_H

#include "leader/peer/meta.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MS     UINT64_C(1000000)
#define SECOND UINT64_C(1000000000)
#define OPAQUE 100 /* of the first request */

/* What the server does once the client has nothing to do but to wait. */
struct step {
	const char *text;  /* it sends this, */
	uint64_t after_ns; /* so much later; with .drips so much before each byte */
	size_t times;      /* so often, 0 as 1 */
	bool drips, closes;
};

struct scene {
	struct ts_link link;
	struct ts_meta meta;
	int server;
	bool is_deaf; /* the server reads nothing */
	const struct step *steps;
	size_t count, at, done; /* of the steps, and bytes of the one at hand */
	uint64_t waited_ns;     /* of its time */
	size_t heard;           /* bytes that the server has read; the first of them: */
	char heard_text[4096];
	unsigned waits;
};

/** A link without TLS. */
int64_t fixture_read_link(struct ts_link *link, void *to, size_t bytes);
int64_t fixture_write_link(struct ts_link *link, const void *from, size_t bytes, bool more);

/** A virtual clock, a link that is up, and a connection; without a token it is open. */
void scene_begin(struct scene *scene, const char *token);
void scene_end(struct scene *scene);

/** From now on the server does this. */
void scene_play(struct scene *scene, const struct step *steps, size_t count);
#define PLAY(scene, ...)                                      \
	scene_play(scene, (const struct step[]){__VA_ARGS__}, \
		sizeof((const struct step[]){__VA_ARGS__}) / sizeof(struct step))

/** A request with a deadline one second from now. */
struct ts_meta_request scene_get(const char *key, void *into, size_t room);
struct ts_meta_request scene_set(const char *key, const void *from, size_t bytes);

/** Submit it and wait for its end. */
int scene_do(struct scene *scene, struct ts_meta_request *request);

#endif
