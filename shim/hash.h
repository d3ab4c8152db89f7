/* SPDX-License-Identifier: MIT */
/* XXH3, the one hash of the project (libxxhash's header, inlined at build time). */
#ifndef TS_SHIM_HASH_H
#define TS_SHIM_HASH_H

#include <stddef.h>
#include <stdint.h>

struct ts_hash128 {
	uint64_t lo, hi;
};

/* State of a running 128-bit hash: room for XXH3_state_t, aligned as it asks. */
struct ts_hasher {
	_Alignas(64) unsigned char opaque[576];
};

uint64_t ts_hash64(const void *data, size_t bytes);
struct ts_hash128 ts_hash128(const void *data, size_t bytes);

void ts_hasher_init(struct ts_hasher *hasher);
void ts_hasher_add(struct ts_hasher *hasher, const void *data, size_t bytes);
/** Digest of all that was added so far; adding may go on afterwards. */
struct ts_hash128 ts_hasher_digest(const struct ts_hasher *hasher);

#endif
