/* SPDX-License-Identifier: MIT */
/*
 * Samples between nodes, for tests: a node (tests/unit/peer/node.h) with a ring for records,
 * and places.  A sample is a number; all that is asked is asked in slot 0.
 */
#ifndef TS_TESTS_UNIT_PEER_SAMPLES_H
#define TS_TESTS_UNIT_PEER_SAMPLES_H

#include "node.h"
#include "tests/unit/leader/fixture.h"

#define SAMPLE_CHUNK      ((uint64_t)TS_VALUE_CHUNK)
#define SAMPLE_HEAD       sizeof(struct ts_mail_sample)
#define SAMPLE_MADE_NS    7000000
#define SAMPLE_PRODUCE_NS 5000000

/** Begin @node, the caller's, with @servers servers; all below is of it.  End it. */
void samples_begin(struct node *node, uint32_t servers);
void samples_end(void);

/** Its key in the ring; how its chunks are called, without the number of one. */
struct ts_key sample_key(uint32_t number);
void sample_name(uint32_t number, char ret_name[static 48]);

/** What the node's servers have of its chunk; they have it. */
struct node_value *sample_value(uint32_t number, uint32_t chunk);

/** Byte @at of its record. */
unsigned char sample_byte(uint32_t number, uint64_t at);

/** Make the request for it; have it answered. */
void sample_want(uint32_t number);
int sample_seek(uint32_t number);

/** A record of @bytes in the ring. */
void sample_publish(uint32_t number, enum ts_kind kind, uint64_t bytes);

/** Store what is in the ring. */
void sample_hand_over(uint32_t number);

/** Win it, make it, hand it over. */
void sample_give(uint32_t number, uint64_t bytes);

/** Expect all of it in the place. */
void sample_expect(uint32_t number, uint64_t bytes);

/** Whether nothing was ever written to any place. */
bool samples_are_untouched(void);

#endif
