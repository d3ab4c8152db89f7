/* SPDX-License-Identifier: MIT */
/* XXH3 behind plain functions, so that its 6,000 lines are compiled once. */
#include "shim/hash.h"

#include <assert.h>
#include <stddef.h>

#define XXH_INLINE_ALL
#define XXH_NO_STDLIB /* nothing of it may allocate */
#include <xxhash.h>

static_assert(sizeof(struct ts_hasher) >= sizeof(XXH3_state_t), "room for the state");
static_assert(_Alignof(struct ts_hasher) >= _Alignof(XXH3_state_t), "aligned as it asks");

static XXH3_state_t *state(struct ts_hasher *hasher)
{
	return (XXH3_state_t *)(void *)hasher->opaque;
}

static struct ts_hash128 from_xxh(XXH128_hash_t hash)
{
	return (struct ts_hash128){.lo = hash.low64, .hi = hash.high64};
}

uint64_t ts_hash64(const void *data, size_t bytes)
{
	return XXH3_64bits(data, bytes);
}

struct ts_hash128 ts_hash128(const void *data, size_t bytes)
{
	return from_xxh(XXH3_128bits(data, bytes));
}

void ts_hasher_init(struct ts_hasher *hasher)
{
	XXH3_128bits_reset(state(hasher));
}

void ts_hasher_add(struct ts_hasher *hasher, const void *data, size_t bytes)
{
	XXH3_128bits_update(state(hasher), data, bytes);
}

struct ts_hash128 ts_hasher_digest(const struct ts_hasher *hasher)
{
	return from_xxh(XXH3_128bits_digest((const XXH3_state_t *)(const void *)hasher->opaque));
}
