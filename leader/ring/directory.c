/* SPDX-License-Identifier: MIT */
/* The directory: finding a record, pinning it, claiming the right to make it. */
#include "leader/group/store_private.h"
#include "shim/hash.h"
#include "shim/sys.h"

#include <string.h>

/* Tries at an entry that others change at the same moment. */
#define TAKE_TRIES 8

static uint32_t first_way(const struct ts_store *store, const struct ts_key *key)
{
	return (uint32_t)(key->lo & (store->shape.set_count - 1)) * TS_WAYS;
}

void ts_take_give_pass(struct ts_take *take, enum ts_reason reason)
{
	*take = (struct ts_take){.verdict = TS_PASS, .reason = reason};
}

/* ---- hits ------------------------------------------------------------------------------- */

/* The record at @where, all its fields checked, or NULL. Its segment is pinned, with @word. */
static const struct ts_record *check_record(const struct ts_store *store, uint64_t where,
	uint64_t word, const struct ts_key *key, struct ts_record *ret_copy)
{
	uint32_t index = ts_where_segment(where), generation = ts_segment_generation(word);
	uint64_t size = ts_segment_room(store, index, word);
	uint64_t offset = (uint64_t)ts_where_offset(where) * 64;
	struct ts_record copy;

	if (offset + sizeof(copy) > size)
		return NULL;
	const unsigned char *at = store->data + index * store->shape.segment_bytes + offset;
	memcpy(&copy, at, sizeof(copy));
	if (copy.key_lo != key->lo || copy.key_hi != key->hi || copy.generation != generation ||
		copy.check != ts_hash64(&copy, offsetof(struct ts_record, check)))
		return NULL;
	uint64_t room = size - offset;
	if (copy.skip < sizeof(copy) || copy.skip % 64 != 0 || copy.skip > room ||
		copy.bytes > room - copy.skip || copy.kind >= TS_KIND_COUNT ||
		copy.dataset >= TS_DATASET_MAX)
		return NULL;
	*ret_copy = copy;
	return (const struct ts_record *)at;
}

/* Errors: -ESTALE no such record there (any more); -EBUSY no lease word left. */
static int try_hit(struct ts_store *store, struct ts_entry *entry, uint64_t word,
	const struct ts_key *key, struct ts_lease *ret_lease)
{
	/* A1: after the entry word; acquire, for a late store of an old owner is seen too. */
	uint64_t where = ts_load_acquire(&entry->where);
	uint32_t index = ts_where_segment(where);
	struct ts_record record;

	if (index >= store->shape.segment_count)
		return -ESTALE;
	struct ts_segment *segment = &store->segments[index];
	uint32_t generation = ts_segment_generation(ts_load_acquire(&segment->word));
	/* A4: memory exists (pairs with R4), so a read cannot fault for want of space. */
	if (!ts_where_fits(where, generation) || !ts_load_acquire(&segment->allocated))
		return -ESTALE;
	int slot = ts_lease_acquire(store);
	if (slot < 0)
		return slot;
	ts_lease_pin(store, (uint32_t)slot, index, generation);
	TS_KILLPOINT(lease_pin);
	/* D1: our pin before these loads; pairs with D2 in drain(). */
	ts_fence_full();
	uint64_t state = ts_load_acquire(&segment->word);
	bool valid = ((ts_load_acquire(&entry->word) ^ word) & ~TS_ENTRY_WAITED) == 0 &&
		     ts_load_acquire(&entry->where) == where && ts_segment_readable(state) &&
		     ts_segment_generation(state) == generation;
	const struct ts_record *at =
		valid ? check_record(store, where, state, key, &record) : NULL;
	if (!at) {
		ts_lease_drop(store, (uint32_t)slot);
		return -ESTALE;
	}
	TS_KILLPOINT(lease_checked);
	*ret_lease = (struct ts_lease){.data = (const unsigned char *)at + record.skip,
		.bytes = record.bytes,
		.produce_ns = record.produce_ns,
		.origin = where,
		.slot = (uint32_t)slot,
		.dataset = record.dataset,
		.kind = record.kind,
		.producer = record.producer};
	return 0;
}

/* ---- victims ---------------------------------------------------------------------------- */

/** What may be overwritten, best first. */
enum rank {
	RANK_SAME,
	RANK_EMPTY,
	RANK_STALE,
	RANK_GHOST,
	RANK_READY,
	RANK_ORPHAN,
	RANK_NEVER
};

/* Whether the segment of a READY entry has moved on; *ret_age is its seal time otherwise. */
static bool is_stale(
	const struct ts_store *store, const struct ts_entry *entry, uint64_t *ret_age)
{
	uint64_t where = ts_load_acquire(&entry->where);
	uint32_t index = ts_where_segment(where);

	if (index >= store->shape.segment_count)
		return true;
	uint64_t word = ts_load_acquire(&store->segments[index].word);
	if (!ts_segment_readable(word) || !ts_where_fits(where, ts_segment_generation(word)))
		return true;
	*ret_age = ts_segment_state(word) == TS_SEGMENT_OPEN
			   ? UINT64_MAX
			   : ts_load_relaxed(&store->segments[index].written_at);
	return false;
}

static enum rank rank_of(struct ts_store *store, const struct ts_entry *entry, uint64_t word,
	uint32_t tag, uint64_t *ret_age)
{
	uint32_t owner = ts_entry_owner(word);

	*ret_age = 0;
	switch (ts_entry_state(word)) {
	case TS_ENTRY_EMPTY:
		return RANK_EMPTY;
	case TS_ENTRY_GHOST:
		return ts_entry_tag(word) == tag ? RANK_SAME : RANK_GHOST;
	case TS_ENTRY_READY:
		if (ts_entry_tag(word) == tag)
			return RANK_SAME;
		return is_stale(store, entry, ret_age) ? RANK_STALE : RANK_READY;
	case TS_ENTRY_CLAIM:
		/* The right of a member that has left can be had; a living one keeps it. */
		if (ts_member_state(ts_load_relaxed(&store->members[owner].word)) ==
			TS_MEMBER_FREE)
			return RANK_ORPHAN;
		return RANK_NEVER;
	}
	return RANK_STALE; /* no state of this ABI: overwritten like anything unreadable */
}

/* The way to overwrite for @key, not worse than @worst, or -1. */
static int choose_victim(
	struct ts_store *store, const struct ts_key *key, enum rank worst, uint64_t *ret_word)
{
	uint32_t first = first_way(store, key), spread = (uint32_t)(key->lo >> 40);
	enum rank best = RANK_NEVER;
	uint64_t best_age = 0;
	int way = -1;

	for (uint32_t i = 0; i < TS_WAYS; i++) {
		/* Starting anywhere spreads evictions among equals. */
		uint32_t at = first + (spread + i) % TS_WAYS;
		uint64_t word = ts_load_acquire(&store->entries[at].word), age;
		enum rank rank =
			rank_of(store, &store->entries[at], word, ts_key_tag(key), &age);
		if (rank > worst || rank > best || (rank == best && age >= best_age))
			continue;
		if (rank == RANK_NEVER)
			continue;
		best = rank;
		best_age = age;
		*ret_word = word;
		way = (int)at;
	}
	return way;
}

/* ---- claims and ghosts ------------------------------------------------------------------ */

int ts_entry_end(struct ts_entry *entry, uint64_t word, enum ts_entry_state state)
{
	uint64_t seen = word;

	/* R1: publishes the record and `where`; pairs with A1. Only the waited bit may differ.
	 */
	while (!ts_cas(&entry->word, &seen, ts_entry_with_state(word, state))) {
		if ((seen ^ word) & ~TS_ENTRY_WAITED)
			return -ESTALE;
	}
	if (state == TS_ENTRY_READY) { /* NOLINT(bugprone-branch-clone): test build only */
		TS_KILLPOINT(publish_ready);
	} else {
		TS_KILLPOINT(abandon_word);
	}
	if (seen & TS_ENTRY_WAITED)
		ts_sys_futex_wake(&entry->word);
	return 0;
}

bool ts_entry_is_claimed(const struct ts_entry *entry, uint64_t word)
{
	return ((ts_load_acquire(&entry->word) ^ word) & ~TS_ENTRY_WAITED) == 0;
}

void ts_take_give_claim(struct ts_take *take, const struct ts_key *key, uint32_t entry,
	uint64_t word, uint32_t dataset, enum ts_kind kind)
{
	*take = (struct ts_take){.verdict = TS_CLAIM, .entry = entry, .word = word};
	take->claim = (struct ts_claim){.key = *key,
		.word = word,
		.entry = entry,
		.dataset = dataset,
		.kind = kind,
		.window = -1,
		.slot = TS_LEASES};
}

/* For ts_store_wait(), which needs to know what was asked, the claim says it. */
static void give_busy(struct ts_take *take, const struct ts_key *key, uint32_t entry,
	uint64_t word, uint32_t dataset, enum ts_kind kind)
{
	ts_take_give_claim(take, key, entry, word, dataset, kind);
	take->verdict = TS_BUSY;
}

bool ts_entry_begin(struct ts_store *store, uint32_t at, uint64_t old,
	enum ts_entry_state state, uint32_t tag, uint64_t *ret_word)
{
	uint32_t owner =
		state == TS_ENTRY_GHOST ? ts_job_mark(store->job) : (uint32_t)store->member;
	uint64_t mine = ts_entry_pack(state, owner, ts_entry_generation(old) + 1, tag);

	/* Sleepers on the old tenure are woken when the new one ends. */
	mine |= old & TS_ENTRY_WAITED;
	if (!ts_cas(&store->entries[at].word, &old, mine))
		return false;
	*ret_word = mine;
	return true;
}

static void make_ghost(struct ts_store *store, const struct ts_key *key)
{
	uint64_t word;
	int way = choose_victim(store, key, RANK_GHOST, &word);

	/* Ghosts never push out records: other datasets may be captured. */
	if (way >= 0 && ts_entry_begin(store, (uint32_t)way, word, TS_ENTRY_GHOST,
				ts_key_tag(key), &word))
		TS_KILLPOINT(take_ghost);
}

/* Whether meeting the ghost @word turns capturing on: it must be another job's. */
static bool ask_for_ghost(struct ts_store *store, uint64_t word, struct ts_demand *demand)
{
	return ts_entry_owner(word) != ts_job_mark(store->job) && ts_keep_has_company(store) &&
	       ts_demand_count(demand);
}

/** What the entries of a set that carry the key's tag say. */
struct findings {
	int busy, ghost; /* entry, or -1 */
	uint64_t busy_word, ghost_word;
};

/* Errors: -ENOENT no record, see *found; -EBUSY no lease word left. */
static int find(struct ts_store *store, const struct ts_key *key, uint32_t skip,
	struct findings *found, struct ts_lease *ret_lease)
{
	uint32_t first = first_way(store, key), tag = ts_key_tag(key);

	*found = (struct findings){.busy = -1, .ghost = -1};
	for (uint32_t at = first; at < first + TS_WAYS; at++) {
		struct ts_entry *entry = &store->entries[at];
		uint64_t word = ts_load_acquire(&entry->word); /* A1 */
		enum ts_entry_state state = ts_entry_state(word);
		if (ts_entry_tag(word) != tag || at == skip)
			continue;
		if (state == TS_ENTRY_READY) {
			int r = try_hit(store, entry, word, key, ret_lease);
			if (r != -ESTALE)
				return r;
		} else if (state == TS_ENTRY_CLAIM && found->busy < 0) {
			found->busy = (int)at;
			found->busy_word = word;
		} else if (state == TS_ENTRY_GHOST) {
			found->ghost = (int)at;
			found->ghost_word = word;
		}
	}
	return -ENOENT;
}

/*
 * The dataset that counts is the record's: it published it, and it is the one that was
 * switched off if verification found it wrong.  Another job may ask under another label.
 */
static void give_hit(struct ts_store *store, const struct ts_key *key, struct ts_take *take,
	struct ts_lease *lease)
{
	struct ts_dataset_row *row = ts_demand_row(store, lease->dataset);

	if (ts_load_relaxed(&row->off)) {
		ts_lease_release(store, lease);
		ts_take_give_pass(take, TS_REASON_DATASET_OFF);
		return;
	}
	*take = (struct ts_take){.verdict = TS_HIT};
	take->lease = *lease;
	ts_demand_taken(ts_demand_of(row, (enum ts_kind)lease->kind, key));
	ts_segment_note_taken(store, ts_where_segment(lease->origin));
}

/*
 * Two members may have claimed two ways of the set for one key.  Each looks again after its
 * claim (D3: claim before look, on both sides); the lower way keeps the right.
 */
static void settle_claim(struct ts_store *store, const struct ts_key *key, struct ts_take *take)
{
	uint32_t dataset = take->claim.dataset, at = take->claim.entry;
	enum ts_kind kind = (enum ts_kind)take->claim.kind;
	uint64_t word = take->claim.word;
	struct findings found;
	struct ts_lease lease;

	ts_fence_full();
	int r = find(store, key, at, &found, &lease);
	if (r == 0) {
		ts_entry_end(&store->entries[at], word, TS_ENTRY_EMPTY);
		give_hit(store, key, take, &lease);
	} else if (found.busy >= 0 && (uint32_t)found.busy < at) {
		ts_entry_end(&store->entries[at], word, TS_ENTRY_EMPTY);
		give_busy(take, key, (uint32_t)found.busy, found.busy_word, dataset, kind);
	}
}

/* One try; false when the entry changed under our hands. */
static bool try_take(struct ts_store *store, const struct ts_key *key, uint32_t dataset,
	enum ts_kind kind, struct ts_take *take)
{
	struct ts_dataset_row *row = ts_demand_row(store, dataset);
	struct ts_demand *demand = ts_demand_of(row, kind, key);
	struct findings found;
	struct ts_lease lease;
	uint64_t word;
	int r = find(store, key, UINT32_MAX, &found, &lease);

	if (r == 0) {
		give_hit(store, key, take, &lease);
		return true;
	}
	ts_take_give_pass(take, r == -EBUSY ? TS_REASON_NO_LEASE : TS_REASON_ALONE);
	if (r == -EBUSY)
		return true;
	if (found.busy >= 0) {
		give_busy(take, key, (uint32_t)found.busy, found.busy_word, dataset, kind);
		return true;
	}
	bool capture = ts_load_relaxed(&store->wanted[kind % TS_KIND_COUNT]) != 0 ||
		       ts_load_relaxed(&demand->capture) != 0;
	bool is_met =
		found.ghost >= 0 && ts_entry_owner(found.ghost_word) != ts_job_mark(store->job);
	take->is_met = is_met;
	if (!capture && found.ghost >= 0)
		capture = ask_for_ghost(store, found.ghost_word, demand);
	bool fills = !capture && ts_keep_fills(store, row, demand);
	if (!capture && !fills) {
		if (found.ghost < 0)
			make_ghost(store, key);
		return true;
	}
	int way = choose_victim(store, key, fills ? RANK_GHOST : RANK_ORPHAN, &word);
	ts_take_give_pass(take, TS_REASON_DIRECTORY_BUSY);
	if (way < 0)
		return true;
	if (!ts_entry_begin(store, (uint32_t)way, word, TS_ENTRY_CLAIM, ts_key_tag(key), &word))
		return false;
	TS_KILLPOINT(take_claim);
	ts_take_give_claim(take, key, (uint32_t)way, word, dataset, kind);
	take->claim.fills = fills;
	take->is_met = is_met;
	settle_claim(store, key, take);
	return true;
}

void ts_store_take(struct ts_store *store, const struct ts_key *key, uint32_t dataset,
	enum ts_kind kind, struct ts_take *ret_take)
{
	if (store->member < 0) {
		ts_take_give_pass(ret_take, TS_REASON_NO_STORE);
		return;
	}
	if (ts_load_relaxed(&ts_demand_row(store, dataset)->off)) {
		ts_take_give_pass(ret_take, TS_REASON_DATASET_OFF);
		return;
	}
	for (int i = 0; i < TAKE_TRIES; i++)
		if (try_take(store, key, dataset, kind, ret_take))
			return;
}

void ts_store_find(struct ts_store *store, const struct ts_key *key, struct ts_take *ret_take)
{
	struct findings found;
	struct ts_lease lease;

	if (store->member >= 0 && find(store, key, UINT32_MAX, &found, &lease) == 0)
		give_hit(store, key, ret_take, &lease);
	else
		ts_take_give_pass(ret_take, TS_REASON_NESTED);
}

/* Whether the segment that READY @entry leads to is the one it was. */
static bool is_there(struct ts_store *store, const struct ts_entry *entry)
{
	uint64_t where = ts_load_acquire(&entry->where); /* A1 */
	uint32_t index = ts_where_segment(where);

	if (index >= store->shape.segment_count)
		return false;
	uint64_t word = ts_load_acquire(&store->segments[index].word);
	return ts_segment_readable(word) && ts_where_fits(where, ts_segment_generation(word));
}

enum ts_presence ts_store_peek(struct ts_store *store, const struct ts_key *key)
{
	uint32_t first = first_way(store, key), tag = ts_key_tag(key);
	enum ts_presence found = TS_ABSENT;

	if (store->member < 0)
		return TS_ABSENT;
	for (uint32_t at = first; at < first + TS_WAYS; at++) {
		uint64_t word = ts_load_acquire(&store->entries[at].word); /* A1 */
		if (ts_entry_tag(word) != tag)
			continue;
		if (ts_entry_state(word) == TS_ENTRY_READY &&
			is_there(store, &store->entries[at]))
			return TS_PRESENT;
		if (ts_entry_state(word) == TS_ENTRY_GHOST)
			found = TS_MADE_ALONE;
	}
	return found;
}

bool ts_store_meet(struct ts_store *store, const struct ts_key *key)
{
	struct findings found;
	struct ts_lease lease;
	uint64_t word;

	if (store->member < 0)
		return false;
	if (find(store, key, UINT32_MAX, &found, &lease) == 0) {
		ts_lease_release(store, &lease); /* nobody publishes such */
		return false;
	}
	if (found.ghost < 0) {
		make_ghost(store, key);
		return false;
	}
	if (ts_entry_owner(found.ghost_word) == ts_job_mark(store->job))
		return false;
	/* The other one meets this one's word when it comes back. */
	(void)ts_entry_begin(store, (uint32_t)found.ghost, found.ghost_word, TS_ENTRY_GHOST,
		ts_key_tag(key), &word);
	return true;
}
