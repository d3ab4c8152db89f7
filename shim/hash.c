/* SPDX-License-Identifier: MIT */
/* XXH3, from libxxhash's header, inlined: nothing of it is needed at run time. */
#include "shim/hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <assert.h>

static_assert(sizeof(XXH3_state_t) <= sizeof(struct ts_hasher), "state fits");
static_assert(_Alignof(XXH3_state_t) <= _Alignof(struct ts_hasher), "state is aligned");

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
	(void)XXH3_128bits_reset((XXH3_state_t *)hasher->opaque);
}

void ts_hasher_add(struct ts_hasher *hasher, const void *data, size_t bytes)
{
	(void)XXH3_128bits_update((XXH3_state_t *)hasher->opaque, data, bytes);
}

struct ts_hash128 ts_hasher_digest(const struct ts_hasher *hasher)
{
	return from_xxh(XXH3_128bits_digest((const XXH3_state_t *)hasher->opaque));
}
