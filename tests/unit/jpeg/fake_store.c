/* SPDX-License-Identifier: MIT */
/* A store in private memory; see fake_store.h. */
#include "fake_store.h"

#include <stdlib.h>
#include <string.h>

#define RECORD_MAX   64u
#define RECORD_ALIGN 64u
#define GUARD_BYTES  65536u /* behind each reservation, filled with GUARD */
#define GUARD        0xa7

struct fake_store fake = {.on = true};

static struct record {
	struct ts_key key;
	uint8_t *data;
	uint64_t reserved, bytes;
	bool sealed;
} records[RECORD_MAX];
static unsigned record_count;

static const struct ts_session session = {.store = (struct ts_store *)&fake};

void fake_store_clear(void)
{
	for (unsigned i = 0; i < record_count; i++)
		free(records[i].data);
	record_count = 0;
	memset(&fake, 0, sizeof(fake));
	fake.on = true;
}

uint8_t *fake_store_last(uint64_t *ret_bytes)
{
	for (unsigned i = record_count; i-- > 0;) {
		if (!records[i].sealed)
			continue;
		*ret_bytes = records[i].bytes;
		return records[i].data;
	}
	return NULL;
}

const struct ts_session *ts_session_enter_for_pixels(enum ts_reason *ret_reason)
{
	if (fake.on)
		return &session;
	*ret_reason = TS_REASON_ALONE;
	return NULL;
}

void ts_session_count_passes(enum ts_reason reason, uint64_t count)
{
	fake.passes[reason] += count;
}

void ts_session_count_made(enum ts_kind kind, uint64_t count)
{
	(void)kind;
	(void)count;
}

void ts_session_count_part(
	enum ts_kind kind, const struct ts_lease *lease, uint64_t part, uint64_t whole)
{
	(void)kind;
	(void)lease;
	(void)whole;
	fake.shared += part;
}

void ts_session_learn_cost(enum ts_kind kind, uint64_t bytes, uint64_t produce_ns)
{
	(void)kind;
	(void)bytes;
	(void)produce_ns;
}

bool ts_session_verify_this_hit(void)
{
	return fake.verify;
}

void ts_session_count_verified(bool equal, const struct ts_lease *lease)
{
	(void)lease;
	*(equal ? &fake.equal : &fake.different) += 1;
}

void ts_session_take_pixels(const struct ts_session *in, const struct ts_key *key,
	uint64_t bytes, struct ts_take *ret_take)
{
	(void)in;
	(void)bytes;
	memset(ret_take, 0, sizeof(*ret_take));
	fake.last_key = *key;
	for (unsigned i = 0; i < record_count; i++) {
		struct record *record = &records[i];
		if (!record->sealed || record->key.lo != key->lo || record->key.hi != key->hi)
			continue;
		fake.hits++;
		fake.leases++;
		ret_take->verdict = TS_HIT;
		ret_take->lease = (struct ts_lease){
			.data = record->data, .bytes = record->bytes, .kind = TS_KIND_PIXELS};
		return;
	}
	fake.claims++;
	ret_take->verdict = TS_CLAIM;
	ret_take->claim = (struct ts_claim){.key = *key, .window = -1};
}

void ts_lease_release(struct ts_store *store, struct ts_lease *lease)
{
	(void)store;
	fake.leases--;
	lease->data = NULL;
}

int ts_claim_reserve(
	struct ts_store *store, struct ts_claim *claim, uint64_t bytes, void **ret_buffer)
{
	(void)store;
	if (record_count == RECORD_MAX) {
		fake.claims--;
		return -ENOSPC;
	}
	struct record *record = &records[record_count];
	uint64_t room = ts_align_up(bytes + GUARD_BYTES, RECORD_ALIGN);
	record->data = aligned_alloc(RECORD_ALIGN, room);
	if (!record->data)
		abort();
	memset(record->data, GUARD, room);
	record->key = claim->key;
	record->reserved = bytes;
	record->sealed = false;
	claim->window = (int32_t)record_count++;
	*ret_buffer = record->data;
	return 0;
}

static void look_behind(const struct record *record)
{
	for (uint64_t i = 0; i < GUARD_BYTES; i++)
		if (record->data[record->reserved + i] != GUARD)
			fake.overrun = true;
}

int ts_claim_publish(
	struct ts_store *store, struct ts_claim *claim, uint64_t bytes, uint64_t produce_ns)
{
	(void)store;
	(void)produce_ns;
	struct record *record = &records[claim->window];
	look_behind(record);
	fake.overrun |= bytes > record->reserved;
	record->bytes = bytes;
	record->sealed = true;
	fake.claims--;
	fake.published++;
	return 0;
}

void ts_claim_abandon(struct ts_store *store, struct ts_claim *claim)
{
	(void)store;
	if (claim->window >= 0)
		look_behind(&records[claim->window]);
	fake.claims--;
	fake.abandoned++;
}
