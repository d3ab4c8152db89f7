/* SPDX-License-Identifier: MIT */
/*
 * What is stored with a server on another node: values in chunks, each with a head that says
 * what it is and proves that it was made by somebody who has the user's secret.
 *
 *	value   = one or more chunks; all but the last have TS_VALUE_CHUNK bytes; an empty
 *	          value is one empty chunk
 *	stored  = struct ts_value_head, then the bytes of the chunk
 *
 * Servers, their other clients and the network are trusted with nothing.  A chunk is used only
 * if it is whole and the one that was asked for: this key, this chunk, this size of the value.
 * That is one check, of a one-time key and a tag:
 *
 *	one-time key = the first half of HMAC-SHA-256(key of values, all of the head but
 *	               the tag, then the key that it is stored by)
 *	tag          = GMAC of the bytes: AES-128, the one-time key, a nonce of zeros
 *
 * The head has 16 random bytes, so no one-time key serves twice; should they ever repeat, one
 * chunk of one key is lost.  Without one-time keys, a nonce that repeats would reveal the key
 * of all chunks: GMAC is known for that.  HMAC-SHA-256 and BLAKE2s over all the bytes are many
 * times slower.  Poly1305 is nearly twice as slow, and forbidden where only the algorithms of
 * FIPS 140 are allowed.  docs/rooms/peer.md has the figures.
 *
 * The checksum decides nothing.  Where the tag is wrong, it tells bytes that broke on their
 * way from forged ones.
 *
 * The tag does not keep out an older value under the same key, made by the same user: so the
 * caller's key contains all that must not be mixed up (size, time of change).
 */
#ifndef TS_LEADER_PEER_VALUE_H
#define TS_LEADER_PEER_VALUE_H

#include "leader/peer/secret.h"

#include <assert.h>

#define TS_VALUE_MAGIC   UINT32_C(0x56535354) /* "TSSV" in memory */
#define TS_VALUE_VERSION 2

/* With the head 520,000 bytes: two of them fill a page of memcached's slabs to 99 %. */
#define TS_VALUE_CHUNK UINT32_C(519920)

/* A limit against nonsense: a number of chunks fits 32 bits. */
#define TS_VALUE_MAX (UINT64_C(1) << 40)

/* Of a place: whatever the chunk says. */
#define TS_VALUE_ANY_TOTAL UINT64_MAX

/* As it is stored; little-endian. */
struct ts_value_head {
	uint32_t magic;
	uint32_t version;
	uint32_t secret; /* its name, see ts_secrets */
	uint32_t bytes;  /* of this chunk */
	uint64_t total;  /* of the value */
	uint64_t one;    /* 1: earlier versions look at it */
	uint32_t chunk, count;
	uint64_t checksum; /* XXH3 of the bytes */
	unsigned char nonce[16];
	unsigned char tag[16];
};

static_assert(sizeof(struct ts_value_head) == 80, "what other nodes read");
static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "heads are stored as they are");

/* Why a chunk was refused: (name, errno, text). */
#define TS_VALUE_FAULTS(X)                                              \
	X(CUT, ENODATA, "fewer bytes than its head needs or says")      \
	X(LONG, EOVERFLOW, "more bytes than its head says")             \
	X(FOREIGN, EILSEQ, "not a value of ours")                       \
	X(VERSION, EPROTONOSUPPORT, "of another version")               \
	X(SECRET, ENOKEY, "made with a secret that is not valid here")  \
	X(SHAPE, EDOM, "its numbers contradict each other")             \
	X(PLACE, ENXIO, "another chunk, or of a value of another size") \
	X(DAMAGED, EIO, "its bytes are not those that were stored")     \
	X(FORGED, EKEYREJECTED, "not made for this key and place by one who may")

/** What a negative errno of ts_value_open() says; NULL for others. */
const char *ts_value_fault(int error);

struct ts_value_place {
	const void *key; /* by which the value is stored, without the number of the chunk */
	size_t key_bytes;
	uint64_t total;
	uint32_t chunk;
};

/** How many chunks a value of @total bytes has, and how many bytes its @chunk; 0: none. */
uint32_t ts_value_count(uint64_t total);
uint32_t ts_value_bytes(uint64_t total, uint32_t chunk);

/** Makes and checks tags.  Threads: one at a time. */
struct ts_sealer;

/**
 * Keeps a copy of @secrets.  Errors: -ENOMEM; -EINVAL no secret; -ENOTSUP libcrypto lacks one
 * of the two algorithms, or is forbidden to use it.
 */
int ts_sealer_create(const struct ts_secrets *secrets, struct ts_sealer **ret_sealer);
void ts_sealer_destroy(struct ts_sealer *sealer);

/**
 * Make the head of the chunk @place, whose ts_value_bytes() are at @bytes, with the newest
 * secret.  @place must be complete, without ANY.
 *
 * We allocate nothing; libcrypto may.  Errors: -EINVAL there is no such place; -EAGAIN no
 * random numbers yet; -ENOTSUP libcrypto refuses.
 */
int ts_value_seal(struct ts_sealer *sealer, const struct ts_value_place *place,
	const void *bytes, struct ts_value_head *ret_head);

/**
 * Whether @head and the bytes at @bytes are the chunk @place.  @got is how many bytes came in
 * all, the head included; of them @bytes has what is beyond it.  Before this has returned 0
 * nobody may use the bytes; from then on the numbers in @head are true as well.
 *
 * We allocate nothing; libcrypto may.  Errors: those of TS_VALUE_FAULTS; -ENOTSUP.
 */
int ts_value_open(struct ts_sealer *sealer, const struct ts_value_place *place,
	const struct ts_value_head *head, size_t got, const void *bytes);

#endif
