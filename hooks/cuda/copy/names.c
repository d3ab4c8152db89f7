/* SPDX-License-Identifier: MIT */
/* What copies are called by. */
#include "hooks/cuda/copy/names.h"

#include "hooks/cuda/gpu/known.h"
#include "shim/hash.h"
#include "shim/sys.h"

/* Of the beginning and of the end. */
#define ENDS_BYTES ((size_t)4096)

static struct ts_key key_of(struct ts_hash128 hash)
{
	return (struct ts_key){hash.lo | 1, hash.hi};
}

static void add_ends(struct ts_hasher *hasher, const struct ts_copy *copy)
{
	const unsigned char *from = (const unsigned char *)(uintptr_t)copy->from;
	uint64_t bytes = copy->bytes;
	ts_hasher_add(hasher, &bytes, sizeof(bytes));
	ts_hasher_add(hasher, from, ENDS_BYTES);
	ts_hasher_add(hasher, from + copy->bytes - ENDS_BYTES, ENDS_BYTES);
}

struct ts_key ts_names_hint(const struct ts_copy *copy, uint32_t gpu)
{
	struct ts_hasher hasher;
	ts_hasher_init(&hasher);
	ts_hasher_add(&hasher, "copy hint", 9);
	ts_hasher_add(&hasher, &gpu, sizeof(gpu));
	add_ends(&hasher, copy);
	return key_of(ts_hasher_digest(&hasher));
}

static struct ts_key name_known(const struct ts_copy *copy)
{
	const struct ts_known *known = copy->known;
	struct ts_hasher hasher;
	ts_hasher_init(&hasher);
	ts_hasher_add(&hasher, "known copy", 10);
	ts_hasher_add(&hasher, known->name, sizeof(known->name));
	ts_hasher_add(&hasher, &known->offset, sizeof(known->offset));
	add_ends(&hasher, copy);
	return key_of(ts_hasher_digest(&hasher));
}

static struct ts_key name_content(const struct ts_copy *copy)
{
	struct {
		struct ts_hash128 content;
		uint64_t bytes;
	} all = {ts_hash128((const void *)(uintptr_t)copy->from, copy->bytes), copy->bytes};
	return key_of(ts_hash128(&all, sizeof(all)));
}

enum ts_cost ts_names_cost(const struct ts_copy *copy, enum ts_cost cost)
{
	return ts_copy_is_named(copy) ? TS_COST_KNOWN + cost : cost;
}

bool ts_names_copy(const struct ts_copy *copy, struct ts_key *ret_key)
{
	uint64_t begin = ts_now_ns();
	if (ts_copy_is_named(copy) && !ts_known_holds(copy->known))
		return false;
	*ret_key = ts_copy_is_named(copy) ? name_known(copy) : name_content(copy);
	ts_cost_learn(ts_names_cost(copy, TS_COST_HASH), copy->bytes, ts_now_ns() - begin);
	return true;
}
