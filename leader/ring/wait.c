/* SPDX-License-Identifier: MIT */
/* Waiting for a record that somebody else produces, and taking its claim over. */
#include "leader/group/store_private.h"
#include "leader/group/words.h"
#include "shim/sys.h"

#include <unistd.h>

/* A dead owner is noticed that fast; shorter slices would only cost system calls. */
#define WAIT_SLICE_NS UINT64_C(5000000)

/*
 * Who gets this part of a CPU is at work.  The deadline of ts_session_deadline_ns() is as many
 * times the average cost: who gets that much is done with an average record by then, and not to
 * be done means that the record is a large one.
 */
#define WORKING_PART 4

/* ---- waiting ---- */

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

/* ---- patience ---- */

static int pid_of_owner(const struct ts_store *store, uint64_t word)
{
	uint32_t owner = ts_entry_owner(word);

	if (owner >= TS_MEMBER_MAX)
		return 0;
	int pid = ts_member_pid(ts_load_relaxed(&store->members[owner].word));
	/* The clock of our own process says nothing of the thread that produces. */
	return pid == getpid() ? 0 : pid;
}

/* Whether the owner has been at work since it was last looked at, which becomes now.  A process
 * that is stopped, waits for its storage, or is hardly ever let run, is not. */
static bool has_worked(struct ts_patience *patience)
{
	uint64_t now = ts_now_ns(), cpu = ts_process_cpu_ns(patience->pid);
	/* The clock of a process that has gone says 0. */
	bool worked = cpu > patience->cpu_ns &&
		      cpu - patience->cpu_ns >= (now - patience->at_ns) / WORKING_PART;

	patience->at_ns = now;
	patience->cpu_ns = cpu;
	return worked;
}

/* Let @patience be that with the claim @take waits for: a new one, unless it is already. */
static void have_patience(
	const struct ts_store *store, const struct ts_take *take, struct ts_patience *patience)
{
	uint64_t word = take->word & ~TS_ENTRY_WAITED;

	if (patience->word == word && patience->entry == take->entry)
		return;
	*patience = (struct ts_patience){
		.word = word, .entry = take->entry, .pid = pid_of_owner(store, word)};
	(void)has_worked(patience);
}

/* Sleep until the claim that @take waits for has ended; false when its owner is gone, late, or
 * still at work at @end. */
static bool await_end(struct ts_store *store, const struct ts_take *take, uint64_t timeout_ns,
	uint64_t end, struct ts_patience *patience)
{
	have_patience(store, take, patience);
	uint64_t left = timeout_ns - ts_min_u64(timeout_ns, patience->waited_ns);
	uint64_t now = ts_now_ns(), late = ts_min_u64(now + left, end);

	for (;; now = ts_now_ns()) {
		if (now >= late) {
			if (now >= end || !has_worked(patience))
				return false;
			late = ts_min_u64(now + timeout_ns, end);
		}
		if (!sleep_on(&store->entries[take->entry], take->word, late - now))
			return true;
		if (owner_is_gone(store, take->word))
			return false;
	}
}

void ts_store_wait(struct ts_store *store, const struct ts_key *key, uint64_t timeout_ns,
	struct ts_patience *patience, struct ts_take *take)
{
	uint64_t longest_ns = ts_max_u64(timeout_ns, TS_WAIT_MAX_NS);
	uint32_t dataset = take->claim.dataset;
	enum ts_kind kind = (enum ts_kind)take->claim.kind;

	have_patience(store, take, patience);
	uint64_t end = ts_now_ns() + longest_ns - ts_min_u64(longest_ns, patience->waited_ns);
	while (take->verdict == TS_BUSY) {
		if (!await_end(store, take, timeout_ns, end, patience) &&
			take_over(store, key, take))
			return;
		/* Whoever has it now, by taking it over as well, is new to us. */
		ts_store_take(store, key, dataset, kind, take);
		if (take->verdict == TS_BUSY && ts_now_ns() >= end)
			ts_take_give_pass(take, TS_REASON_TIMEOUT);
	}
}

void ts_store_wait_a_moment(struct ts_store *store, const struct ts_key *key,
	uint64_t timeout_ns, struct ts_patience *patience, struct ts_take *take)
{
	uint32_t dataset = take->claim.dataset;
	enum ts_kind kind = (enum ts_kind)take->claim.kind;

	have_patience(store, take, patience);
	if (patience->waited_ns >= timeout_ns) {
		ts_store_wait(store, key, timeout_ns, patience, take);
		return;
	}
	uint64_t begin = ts_now_ns();
	bool goes_on = sleep_on(&store->entries[take->entry], take->word, WAIT_SLICE_NS);
	patience->waited_ns += ts_now_ns() - begin;
	if (goes_on && owner_is_gone(store, take->word) && take_over(store, key, take))
		return;
	ts_store_take(store, key, dataset, kind, take);
}
