/* SPDX-License-Identifier: MIT */
/* Waiting for a record that somebody else produces, and taking its claim over. */
#include "leader/store_private.h"
#include "leader/words.h"
#include "shim/sys.h"

/* A dead owner is noticed that fast; shorter slices would only cost system calls. */
#define WAIT_SLICE_NS UINT64_C(5000000)

/* ---- waiting ------------------------------------------------------------------------------
 */

/* Sleep at most one slice. False when the claim has ended meanwhile. */
static bool sleep_on(struct ts_entry *entry, uint64_t word, uint64_t timeout_ns)
{
	uint64_t plain = word & ~TS_ENTRY_WAITED, waited = word | TS_ENTRY_WAITED;
	uint64_t seen = plain;

	if (!ts_cas(&entry->word, &seen, waited) && seen != waited)
		return false;
	TS_KILLPOINT(wait_sleep);
	/* The kernel compares the low half: state, waited, owner and generation. */
	ts_sys_futex_wait(
		&entry->word, (uint32_t)waited, ts_min_u64(timeout_ns, WAIT_SLICE_NS));
	return ts_entry_is_claimed(entry, word);
}

/* Move the right to produce from the claim @take waits for to us; never any memory. */
static bool take_over(struct ts_store *store, const struct ts_key *key, struct ts_take *take)
{
	uint64_t word = take->word & ~TS_ENTRY_WAITED;
	uint32_t at = take->entry;

	if (!ts_entry_begin(store, at, word | TS_ENTRY_WAITED, TS_ENTRY_CLAIM, ts_key_tag(key),
		    &word) &&
		!ts_entry_begin(store, at, word, TS_ENTRY_CLAIM, ts_key_tag(key), &word))
		return false;
	TS_KILLPOINT(wait_takeover);
	ts_take_give_claim(
		take, key, at, word, take->claim.dataset, (enum ts_kind)take->claim.kind);
	return true;
}

/* Whether the owner of the claim is known not to publish any more. */
static bool owner_is_gone(struct ts_store *store, uint64_t word)
{
	uint32_t owner = ts_entry_owner(word);

	if (owner == (uint32_t)store->member || !ts_member_is_gone(store, owner))
		return false;
	ts_member_clean(store, owner);
	return true;
}

void ts_store_wait(struct ts_store *store, const struct ts_key *key, uint64_t timeout_ns,
	struct ts_take *take)
{
	uint64_t start = ts_now_ns();
	uint32_t dataset = take->claim.dataset;
	enum ts_kind kind = (enum ts_kind)take->claim.kind;

	while (take->verdict == TS_BUSY) {
		uint64_t passed = ts_now_ns() - start;
		bool late = passed >= timeout_ns;
		bool claimed = late || sleep_on(&store->entries[take->entry], take->word,
					       timeout_ns - passed);
		if (claimed && (late || owner_is_gone(store, take->word)) &&
			take_over(store, key, take))
			return;
		if (claimed && !late)
			continue;
		ts_store_take(store, key, dataset, kind, take);
		if (late && take->verdict == TS_BUSY)
			ts_take_give_pass(take, TS_REASON_TIMEOUT);
	}
}
