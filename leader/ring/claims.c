/* SPDX-License-Identifier: MIT */
/* The right to produce a record: reserving memory, publishing, giving up, waiting, taking over.
 */
#include "leader/group/store_private.h"
#include "shim/hash.h"
#include "shim/sys.h"

#include <unistd.h>

/* Times an idle segment may be taken from us between two looks before we work alone. */
#define ROOM_TRIES 4

/* A window nobody uses, the last used one first: its segment is likely to have room. */
static struct ts_window *take_window(struct ts_store *store)
{
	uint32_t hint = ts_load_relaxed(&store->window_hint);

	for (uint32_t i = 0; i < TS_WINDOWS; i++) {
		uint32_t at = (hint + i) % TS_WINDOWS;
		if (ts_try_hold(&store->windows[at].busy)) {
			ts_write_relaxed(&store->window_hint, at);
			return &store->windows[at];
		}
	}
	return NULL;
}

static void give_window(struct ts_window *window)
{
	ts_write_release(&window->busy, 0); /* private try-lock, pairs with take_window() */
}

/* Where the payload of @bytes would start behind what @window holds. */
static uint64_t payload_at(const struct ts_window *window, uint64_t bytes)
{
	uint64_t align = bytes >= TS_PAGE_ALIGN_FROM ? TS_PAGE_BYTES : 64;

	return ts_align_up(window->next + sizeof(struct ts_record), align);
}

/*
 * End the use of a window's segment.  Pinned, and seen to be ours after that, it cannot come
 * back to this process through another window before it is read-only here.
 */
static void close_window(struct ts_store *store, struct ts_window *window, uint32_t slot)
{
	ts_lease_pin(store, slot, (uint32_t)window->segment, window->generation);
	ts_fence_full(); /* D1 */
	if (ts_segment_is_mine(store, window))
		ts_segment_seal(store, window);
	else
		ts_segment_forget(window);
	ts_lease_unpin(store, slot);
}

/* Segments for a record of @bytes.  Of more than one it is alone, and begins on the first page.
 */
static uint64_t segments_for(const struct ts_store *store, uint64_t bytes)
{
	uint64_t size = store->shape.segment_bytes;

	/* A whole segment less its first page, which holds the header. */
	return bytes / size + (bytes % size + TS_PAGE_BYTES + size - 1) / size;
}

/*
 * Give @window an OPEN segment with room for @bytes, pinned in lease word @slot.  Who finds no
 * other segment may have sealed ours while it was idle, so look again after the pin (D1):
 * from then on nobody reuses it before the pin is gone.
 */
static int hold_room(struct ts_store *store, struct ts_window *window, uint64_t bytes,
	uint32_t slot, bool spares)
{
	uint64_t count = segments_for(store, bytes);

	for (int tries = 0; tries < ROOM_TRIES; tries++) {
		if (window->segment >= 0 &&
			payload_at(window, bytes) + bytes > store->shape.segment_bytes)
			close_window(store, window, slot);
		if (count > 1)
			return ts_run_open(store, window, (uint32_t)count, slot, spares);
		if (window->segment < 0 && ts_segment_open(store, window, spares) < 0)
			return -ENOSPC;
		ts_lease_pin(store, slot, (uint32_t)window->segment, window->generation);
		TS_KILLPOINT(reserve_pin);
		ts_fence_full();
		if (ts_segment_is_mine(store, window))
			return 0;
		ts_segment_forget(window);
	}
	return -ENOSPC;
}

static struct ts_record *record_of(const struct ts_window *window, const struct ts_claim *claim)
{
	return (struct ts_record *)(window->map + (uint64_t)claim->offset * 64);
}

/* Without its check a header is no record: a later generation's reader cannot be misled. */
static void write_header(const struct ts_store *store, const struct ts_window *window,
	const struct ts_claim *claim)
{
	*record_of(window, claim) = (struct ts_record){.key_lo = claim->key.lo,
		.key_hi = claim->key.hi,
		.bytes = claim->bytes,
		.skip = sizeof(struct ts_record),
		.generation = window->generation,
		.kind = claim->kind,
		.dataset = claim->dataset,
		.producer = store->job};
}

static int reserve(
	struct ts_store *store, struct ts_claim *claim, uint64_t bytes, void **ret_buffer)
{
	if (store->member < 0 || claim->window >= 0)
		return -EINVAL;
	uint64_t count = segments_for(store, bytes);
	if (count > ts_max_u64(store->shape.segment_count / 2, 1))
		return -E2BIG;
	if (!ts_entry_is_claimed(&store->entries[claim->entry], claim->word))
		return -ESTALE;
	int slot = ts_lease_acquire(store);
	if (slot < 0)
		return slot;
	struct ts_window *window = take_window(store);
	int r = window ? hold_room(store, window, bytes, (uint32_t)slot, claim->fills) : -EBUSY;
	if (r == -ENOSPC && claim->fills)
		ts_keep_is_full(store);
	if (r < 0) {
		if (window)
			give_window(window);
		ts_lease_drop(store, (uint32_t)slot);
		return r;
	}
	uint64_t payload = payload_at(window, bytes);
	claim->window = (int32_t)(window - store->windows);
	claim->slot = (uint32_t)slot;
	claim->offset = (uint32_t)((payload - sizeof(struct ts_record)) / 64);
	claim->bytes = bytes;
	write_header(store, window, claim);
	TS_KILLPOINT(reserve_header);
	*ret_buffer = window->map + payload;
	return 0;
}

int ts_claim_reserve(
	struct ts_store *store, struct ts_claim *claim, uint64_t bytes, void **ret_buffer)
{
	int r = reserve(store, claim, bytes, ret_buffer);

	if (r < 0)
		ts_claim_abandon(store, claim);
	return r;
}

/* The reservation ends; its bytes are used again unless publish() moved `next` past them. */
static void end_reservation(struct ts_store *store, struct ts_claim *claim)
{
	if (claim->window < 0)
		return;
	struct ts_window *window = &store->windows[claim->window];
	if (window->tied > 0)
		ts_run_end(store, window, claim->slot);
	else
		ts_lease_drop(store, claim->slot);
	give_window(window);
	claim->window = -1;
}

static int publish(
	struct ts_store *store, struct ts_claim *claim, uint64_t bytes, uint64_t produce_ns)
{
	struct ts_entry *entry = &store->entries[claim->entry];
	struct ts_window *window = &store->windows[claim->window];
	struct ts_record *record = record_of(window, claim);
	uint32_t segment = (uint32_t)window->segment;

	record->bytes = bytes;
	record->produce_ns = produce_ns;
	record->check = ts_hash64(record, offsetof(struct ts_record, check));
	TS_KILLPOINT(publish_bytes);
	if (!ts_entry_is_claimed(entry, claim->word))
		return -ESTALE;
	/* From here a reader may find the bytes, even if the claim is lost: never again used.
	 */
	window->next = ts_align_up((uint64_t)claim->offset * 64 + record->skip + bytes, 64);
	ts_write_relaxed(&store->segments[segment].used, window->next);
	ts_segment_touch(store, segment);
	claim->origin = ts_where_pack(claim->offset, segment, window->generation);
	/* R1: record bytes before `where`, which is stored before READY; pairs with A1. */
	ts_write_release(&entry->where, claim->origin);
	TS_KILLPOINT(publish_where);
	return ts_entry_end(entry, claim->word, TS_ENTRY_READY);
}

int ts_claim_publish(
	struct ts_store *store, struct ts_claim *claim, uint64_t bytes, uint64_t produce_ns)
{
	if (claim->window < 0 || claim->window >= (int32_t)TS_WINDOWS || bytes > claim->bytes) {
		ts_claim_abandon(store, claim);
		return -EINVAL;
	}
	int r = publish(store, claim, bytes, produce_ns);
	end_reservation(store, claim);
	/* What nobody has asked for says nothing of what pays. */
	if (r == 0 && !claim->fills)
		ts_demand_published(ts_demand_of(ts_demand_row(store, claim->dataset),
					    (enum ts_kind)claim->kind, &claim->key),
			bytes, store->shape.segment_count * store->shape.segment_bytes);
	return r;
}

void ts_claim_abandon(struct ts_store *store, struct ts_claim *claim)
{
	end_reservation(store, claim);
	ts_entry_end(&store->entries[claim->entry], claim->word, TS_ENTRY_EMPTY);
}

/* A dead owner is noticed that fast; shorter slices would only cost system calls. */
#define WAIT_SLICE_NS UINT64_C(5000000)

/*
 * Who gets this part of a CPU is at work.  The deadline of ts_session_deadline_ns() is as many
 * times the average cost: who gets that much is done with an average record by then, and not to
 * be done means that the record is a large one.
 */
#define WORKING_PART 4

/*
 * Where CPUs are scarce, all of this is for as much longer as the waiter itself had to wait for
 * one: it would not be done sooner.  32 jobs on two cores made each sample 1.4 times before.
 */

/* ---- waiting ---------------------------------------------------------------------------- */

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

/* ---- patience --------------------------------------------------------------------------- */

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
static bool has_worked(struct ts_patience *patience, uint64_t stretch)
{
	uint64_t now = ts_now_ns(), cpu = ts_process_cpu_ns(patience->pid);
	/* The clock of a process that has gone says 0. */
	bool worked =
		cpu > patience->cpu_ns &&
		cpu - patience->cpu_ns >= (now - patience->at_ns) / (WORKING_PART * stretch);

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
	*patience = (struct ts_patience){.longest_ns = patience->longest_ns,
		.word = word,
		.entry = take->entry,
		.pid = pid_of_owner(store, word)};
	(void)has_worked(patience, 1);
}

/**
 * The ends of a wait, of ts_now_ns(): for whoever has the claim, at work or not; and the last
 * one, up to which an owner at work puts it off.
 */
struct ends {
	uint64_t idle, last;
};

/*
 * Sleep until the claim that @take waits for has ended; false when its owner is gone or late.
 * One that is at work gets as long again as it has had: it is looked at the less often, the
 * longer its record takes.
 */
static bool await_end(struct ts_store *store, const struct ts_take *take, uint64_t timeout_ns,
	struct ends *ends, struct ts_patience *patience)
{
	have_patience(store, take, patience);
	uint64_t left = timeout_ns - ts_min_u64(timeout_ns, patience->waited_ns);
	uint64_t now = ts_now_ns(), begin = now, late = ts_min_u64(now + left, ends->idle);
	uint64_t stretch = 1;

	for (;; now = ts_now_ns()) {
		if (now >= late) {
			uint64_t known = stretch, more;
			stretch = ts_max_u64(known, ts_thread_stretch());
			if (stretch > known && now < ends->idle) {
				/* The rest of the first time, where CPUs are scarce. */
				late = ts_min_u64(
					now + timeout_ns * (stretch - known), ends->idle);
				continue;
			}
			if (now >= ends->last || !has_worked(patience, stretch))
				return false;
			more = ts_min_u64(
				ts_max_u64(timeout_ns * stretch, now - begin), TS_WAIT_MAX_NS);
			more = ts_max_u64(more, timeout_ns);
			ends->idle =
				ts_min_u64(now + ts_max_u64(more, TS_WAIT_MAX_NS), ends->last);
			late = ts_min_u64(now + more, ends->last);
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
	uint64_t idle_ns = ts_max_u64(timeout_ns, TS_WAIT_MAX_NS);
	uint64_t last_ns = ts_max_u64(idle_ns, patience->longest_ns);
	uint32_t dataset = take->claim.dataset;
	enum ts_kind kind = (enum ts_kind)take->claim.kind;

	have_patience(store, take, patience);
	uint64_t begin = ts_now_ns() - ts_min_u64(idle_ns, patience->waited_ns);
	struct ends ends = {.idle = begin + idle_ns, .last = begin + last_ns};
	while (take->verdict == TS_BUSY) {
		if (!await_end(store, take, timeout_ns, &ends, patience) &&
			take_over(store, key, take))
			return;
		/* Whoever has it now, by taking it over as well, is new to us. */
		ts_store_take(store, key, dataset, kind, take);
		if (take->verdict == TS_BUSY && ts_now_ns() >= ends.idle)
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
