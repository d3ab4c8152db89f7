/* SPDX-License-Identifier: MIT */
/* Slots of device memory: taking, publishing, giving back, waiting. */
#include "leader/slots/device_private.h"

#include "shim/sys.h"

/* Times a slot may change while its key is read, before it counts as unknown. */
#define READ_TRIES 4

/* Times others may be faster before the caller copies alone. */
#define TAKE_TRIES 8

/* A dead producer is noticed that fast; shorter slices would only cost system calls. */
#define WAIT_SLICE_NS UINT64_C(5000000)

#define NO_SLOT TS_DEVICE_SLOTS

static_assert(TS_DEVICE_SLOTS <= 64, "bits of attempt.pinned and of a pin");

/** One ts_device_take() on its way. All sizes are checked copies. */
struct attempt {
	struct ts_device *device;
	struct ts_device_row *row;
	const struct ts_key *key;
	uint64_t bytes, patience_ns;
	uint64_t ring_word; /* LIVE, of the generation that was asked for */
	uint64_t slot_bytes;
	uint32_t ring, generation, slot_count;
	uint32_t index;  /* of the hold */
	uint64_t pinned; /* bits of slots that were found so */
	bool first_time; /* that this process asks for it, as far as is remembered */
	bool behind;     /* others have brought it before; see device.c */
};

/** A slot that could be written, as it was seen; at NO_SLOT where there is none. */
struct candidate {
	uint32_t at;
	uint64_t word, written;
};

/** What was found in the slots; NO_SLOT where nothing was. */
struct findings {
	uint32_t ready, writing;
	uint64_t ready_word, writing_word, since_ns;
	struct candidate free, oldest, oldest_again;
	uint32_t again; /* slots of jobs that are behind */
	bool late;      /* of @writing */
	bool unknown;   /* some slot changed all the time */
};

/* ---- looking ---------------------------------------------------------------------------- */

static bool is_same(uint64_t a, uint64_t b)
{
	return ((a ^ b) & ~TS_DEVICE_WAITED) == 0;
}

/* The word of @slot, and whether it is of the key and size we look for. */
static bool read_slot(const struct attempt *a, struct ts_device_slot *slot, uint64_t *ret_word,
	uint64_t *ret_since, bool *ret_match)
{
	for (int i = 0; i < READ_TRIES; i++) {
		uint64_t word = ts_device_recover(a->device, slot); /* B2 */
		bool match = ts_load_acquire(&slot->key_lo) == a->key->lo &&
			     ts_load_acquire(&slot->key_hi) == a->key->hi &&
			     ts_load_acquire(&slot->bytes) == a->bytes;
		*ret_since = ts_load_acquire(&slot->since_ns);
		if (!is_same(ts_load_acquire(&slot->word), word))
			continue;
		*ret_word = word;
		*ret_match = match;
		return true;
	}
	return false;
}

/* Whether production since @since_ns is to be waited for; times that cannot be are old. */
static bool is_young(const struct attempt *a, uint64_t since_ns)
{
	uint64_t now = ts_now_ns();

	return since_ns <= now && now - since_ns < a->patience_ns;
}

static void prefer_older(struct candidate *oldest, const struct candidate *other)
{
	if (oldest->at == NO_SLOT || other->written < oldest->written)
		*oldest = *other;
}

static void note_slot(
	const struct attempt *a, struct findings *f, uint32_t at, struct ts_device_slot *slot)
{
	struct candidate this = {.at = at, .written = ts_load_relaxed(&slot->written)};
	uint64_t word, since;
	bool match;

	if (!read_slot(a, slot, &word, &since, &match)) {
		f->unknown = true;
		return;
	}
	this.word = word;
	enum ts_slot_state state = ts_device_slot_state(word);
	bool again = ts_load_relaxed(&slot->again) == ts_device_slot_turn(word);
	f->again += again && state != TS_SLOT_FREE;
	if (state == TS_SLOT_READY && match) {
		f->ready = at;
		f->ready_word = word;
	} else if (state == TS_SLOT_WRITING && match && is_young(a, since)) {
		bool late = ts_load_relaxed(&slot->late) == ts_device_slot_turn(word);
		/* Who is not late is worth waiting for, whoever else has begun. */
		if (late && f->writing != NO_SLOT)
			return;
		f->writing = at;
		f->writing_word = word;
		f->since_ns = since;
		f->late = late;
	} else if (a->pinned >> at & 1) {
		return;
	} else if (state == TS_SLOT_FREE) {
		prefer_older(&f->free, &this);
	} else if (state == TS_SLOT_READY) {
		prefer_older(&f->oldest, &this);
		if (again)
			prefer_older(&f->oldest_again, &this);
	}
}

/* With the bytes themselves at hand nothing else matters. */
static void look(const struct attempt *a, uint32_t except, struct findings *ret_findings)
{
	*ret_findings = (struct findings){.ready = NO_SLOT,
		.writing = NO_SLOT,
		.free.at = NO_SLOT,
		.oldest.at = NO_SLOT,
		.oldest_again.at = NO_SLOT};
	for (uint32_t i = 0; i < a->slot_count && ret_findings->ready == NO_SLOT; i++)
		if (i != except)
			note_slot(a, ret_findings, i, &a->row->slots[i]);
}

/* ---- taking ----------------------------------------------------------------------------- */

static void give_hold(
	const struct attempt *a, struct ts_device_take *take, uint32_t slot, uint64_t word)
{
	take->hold = (struct ts_device_hold){.offset = slot * a->slot_bytes,
		.bytes = a->bytes,
		.generation = a->generation,
		.ring = a->ring,
		.slot = slot,
		.index = a->index,
		.word = word};
}

static bool is_ring_the_same(const struct attempt *a)
{
	return ts_load_acquire(&a->row->word) == a->ring_word; /* B1 */
}

static _Atomic uint64_t *lease_of(struct ts_device *device, uint32_t index)
{
	return &device->table->lines[device->member].lease[index];
}

/* Pin the slot that was READY with our bytes. Errors: -EAGAIN it is not any more. */
static int lease(const struct attempt *a, struct ts_device_take *take, const struct findings *f)
{
	struct ts_device_slot *slot = &a->row->slots[f->ready];
	_Atomic uint64_t *pin = lease_of(a->device, a->index);

	ts_write_release(
		pin, ts_device_pin_pack(a->device->tenure, a->ring, f->ready, a->generation));
	TS_KILLPOINT(device_pinned);
	ts_fence_full(); /* P1: the pin before this look at both words */
	if (ts_load_acquire(&slot->word) != f->ready_word || !is_ring_the_same(a)) {
		ts_write_release(pin, 0);
		return -EAGAIN;
	}
	TS_KILLPOINT(device_checked);
	take->verdict = TS_HIT;
	give_hold(a, take, f->ready, f->ready_word);
	return 0;
}

/* End the turn @word of @slot: to READY or to FREE. Errors: -ESTALE the ring has gone. */
static int end_turn(struct ts_device_slot *slot, uint64_t word, enum ts_slot_state state)
{
	uint64_t seen = word, ended = ts_device_slot_with(word, state);

	if (ts_cas(&slot->word, &seen, ended))
		return 0;
	if (seen != (word | TS_DEVICE_WAITED) || !ts_cas(&slot->word, &seen, ended))
		return -ESTALE;
	ts_sys_futex_wake(&slot->word);
	return 0;
}

/*
 * Make slot @at, which was seen as @word, TAKEN by us, with nobody reading it.
 * Errors: -EAGAIN; -ENOBUFS it is pinned; -ESTALE the ring is another one.
 */
static int take_slot(const struct attempt *a, uint32_t at, uint64_t word, uint64_t *ret_taken)
{
	struct ts_device_slot *slot = &a->row->slots[at];
	uint64_t taken = ts_device_slot_pack(TS_SLOT_TAKEN, a->device->member,
		a->device->tenure, ts_device_slot_turn(word) + 1);
	uint64_t seen = word, mine = taken;

	if (!ts_cas(&slot->word, &seen, taken))
		return -EAGAIN;
	TS_KILLPOINT(device_taken);
	ts_fence_full(); /* P2: TAKEN before the look at the pins, also of one that was FREE */
	if (ts_device_is_pinned(a->device, a->ring, at, a->generation)) {
		/* As it was, turn included: nothing in it has changed. */
		ts_cas(&slot->word, &mine, word);
		TS_KILLPOINT(device_put_back);
		return -ENOBUFS;
	}
	if (!is_ring_the_same(a)) {
		end_turn(slot, taken, TS_SLOT_FREE);
		return -ESTALE;
	}
	*ret_taken = taken;
	return 0;
}

/* From TAKEN to WRITING, unless somebody else writes the same, or has. Errors: -EAGAIN. */
static int begin_writing(
	const struct attempt *a, struct ts_device_take *take, uint32_t at, uint64_t taken)
{
	struct ts_device_slot *slot = &a->row->slots[at];
	uint64_t writing = ts_device_slot_with(taken, TS_SLOT_WRITING);
	struct findings f;

	/* V2; releases, for who reads the key looks at the word once more. */
	ts_write_release(&slot->key_lo, a->key->lo);
	ts_write_release(&slot->key_hi, a->key->hi);
	ts_write_release(&slot->bytes, a->bytes);
	ts_write_release(&slot->since_ns, ts_now_ns());
	TS_KILLPOINT(device_keyed);
	if (!ts_cas(&slot->word, &taken, writing))
		return -ESTALE; /* the ring went with its owner */
	TS_KILLPOINT(device_writing);
	ts_fence_full(); /* P4: WRITING before the look at the other slots */
	look(a, at, &f);
	if (f.ready != NO_SLOT || f.writing != NO_SLOT || f.unknown) {
		end_turn(slot, writing, TS_SLOT_FREE);
		return -EAGAIN;
	}
	ts_device_note_brought(a->device, a->ring, a->key, a->bytes);
	ts_write_relaxed(&slot->again, a->behind ? ts_device_slot_turn(writing) : 0);
	take->verdict = TS_CLAIM;
	give_hold(a, take, at, writing);
	return 0;
}

/* The slot to write to.  A free one goes to any producer. */
static const struct candidate *choose(const struct attempt *a, const struct findings *f)
{
	bool enough = f->again * TS_DEVICE_AGAIN_PART >= a->slot_count;

	if (f->free.at != NO_SLOT)
		return &f->free;
	return a->behind && enough && f->oldest_again.at != NO_SLOT ? &f->oldest_again
								    : &f->oldest;
}

static int claim(struct attempt *a, struct ts_device_take *take, const struct findings *f)
{
	uint64_t taken;

	a->behind =
		a->first_time && ts_device_was_brought(a->device, a->ring, a->key, a->bytes);
	const struct candidate *to = choose(a, f);
	if (to->at == NO_SLOT)
		return -ENOBUFS;
	int r = take_slot(a, to->at, to->word, &taken);
	if (r == -ENOBUFS) {
		a->pinned |= UINT64_C(1) << to->at;
		return -EAGAIN;
	}
	return r < 0 ? r : begin_writing(a, take, to->at, taken);
}

static int try_to_take(struct attempt *a, struct ts_device_take *take)
{
	struct findings f;

	look(a, NO_SLOT, &f);
	TS_KILLPOINT(device_looked);
	if (f.ready != NO_SLOT)
		return lease(a, take, &f);
	if (f.writing == NO_SLOT)
		return claim(a, take, &f);
	take->verdict = TS_BUSY;
	take->since_ns = f.since_ns;
	take->late = f.late;
	take->mine = ts_device_slot_owner(f.writing_word) == a->device->member &&
		     ts_device_slot_tenure(f.writing_word) == a->device->tenure;
	give_hold(a, take, f.writing, f.writing_word);
	return 0;
}

/* Copies of what the ring is, checked. Errors: as for ts_device_take(). */
static int read_ring(struct attempt *a)
{
	a->ring_word = ts_device_settle(a->device, a->row);
	if (ts_device_ring_state(a->ring_word) != TS_RING_LIVE)
		return -ENODEV;
	if (ts_device_ring_generation(a->ring_word) != a->generation)
		return -ESTALE;
	uint64_t slots = ts_load_acquire(&a->row->slot_count);
	a->slot_bytes = ts_load_acquire(&a->row->slot_bytes);
	if (!is_ring_the_same(a))
		return -ESTALE;
	if (!ts_device_is_shape(slots, a->slot_bytes))
		return -EBADMSG;
	a->slot_count = (uint32_t)slots;
	return a->bytes <= a->slot_bytes ? 0 : -EFBIG;
}

static int take(struct attempt *a, struct ts_device_take *ret_take)
{
	int r = read_ring(a);

	a->first_time = r == 0 && ts_device_note_asked(a->device, a->ring, a->key, a->bytes);
	/* Pinned slots are passed over one by one, so there may be as many tries more. */
	for (uint32_t i = 0; r == 0 && i < TAKE_TRIES + a->slot_count; i++) {
		int tried = try_to_take(a, ret_take);
		if (tried != -EAGAIN)
			return tried;
		if (!is_ring_the_same(a))
			return -ESTALE;
	}
	return r < 0 ? r : -EAGAIN;
}

void ts_device_take(struct ts_device *device, uint32_t ring, uint32_t generation,
	const struct ts_key *key, uint64_t bytes, uint64_t patience_ns,
	struct ts_device_take *ret_take)
{
	struct attempt a = {.device = device,
		.key = key,
		.bytes = bytes,
		.patience_ns = patience_ns,
		.ring = ring,
		.generation = generation};
	int r = ts_device_check(device, ring);

	*ret_take = (struct ts_device_take){.verdict = TS_PASS};
	if (r == 0 && bytes == 0)
		r = -EINVAL;
	int index = r < 0 ? r : ts_device_begin(device, device->busy, TS_DEVICE_HOLDS);
	if (index < 0) {
		ret_take->error = index;
		return;
	}
	a.index = (uint32_t)index;
	a.row = &device->table->rows[ring];
	ret_take->error = take(&a, ret_take);
	if (ret_take->verdict != TS_HIT && ret_take->verdict != TS_CLAIM)
		ts_device_hold_end(device, a.index);
}

/* ---- giving back ------------------------------------------------------------------------ */

/* The slot of @hold. Errors: -ECHILD; -EINVAL nothing that take() has given. */
static int check_hold(struct ts_device *device, const struct ts_device_hold *hold,
	struct ts_device_slot **ret_slot)
{
	int r = ts_device_check(device, hold->ring);

	if (r == 0 && (hold->slot >= TS_DEVICE_SLOTS || hold->index >= TS_DEVICE_HOLDS))
		r = -EINVAL;
	if (r == 0)
		*ret_slot = &device->table->rows[hold->ring].slots[hold->slot];
	return r;
}

void ts_device_late(struct ts_device *device, const struct ts_device_hold *hold)
{
	struct ts_device_slot *slot = NULL;

	if (check_hold(device, hold, &slot) == 0)
		ts_write_relaxed(&slot->late, ts_device_slot_turn(hold->word));
}

int ts_device_publish(struct ts_device *device, struct ts_device_hold *hold)
{
	struct ts_device_slot *slot = NULL;
	int r = check_hold(device, hold, &slot);

	if (r < 0)
		return r;
	_Atomic uint64_t *clock = &device->table->rows[hold->ring].clock;
	ts_write_relaxed(&slot->written, ts_add_relaxed(clock, 1) + 1);
	TS_KILLPOINT(device_written);
	r = end_turn(slot, hold->word, TS_SLOT_READY);
	TS_KILLPOINT(device_ready);
	ts_device_hold_end(device, hold->index);
	return r;
}

void ts_device_abandon(struct ts_device *device, struct ts_device_hold *hold)
{
	struct ts_device_slot *slot = NULL;

	if (check_hold(device, hold, &slot) < 0)
		return;
	end_turn(slot, hold->word, TS_SLOT_FREE);
	TS_KILLPOINT(device_abandoned);
	ts_device_hold_end(device, hold->index);
}

void ts_device_release(struct ts_device *device, struct ts_device_hold *hold)
{
	struct ts_device_slot *slot = NULL;

	if (check_hold(device, hold, &slot) < 0)
		return;
	/* B3 may be another process's, which then hands the slot to our other threads. */
	ts_ordered_by_others(&slot->word);
	ts_write_release(lease_of(device, hold->index), 0); /* V3, pairs with B3 */
	TS_KILLPOINT(device_released);
	ts_device_hold_end(device, hold->index);
}

/* ---- waiting ---------------------------------------------------------------------------- */

int ts_device_wait(
	struct ts_device *device, const struct ts_device_take *take, uint64_t timeout_ns)
{
	uint64_t start = ts_now_ns(), word = take->hold.word;
	struct ts_device_slot *slot = NULL;
	int r = take->verdict == TS_BUSY ? check_hold(device, &take->hold, &slot) : -EINVAL;

	if (r < 0)
		return r;
	for (;;) {
		uint64_t seen = ts_device_recover(device, slot);
		uint64_t waited = seen | TS_DEVICE_WAITED, passed = ts_now_ns() - start;
		if (!is_same(seen, word))
			return 0;
		if (passed >= timeout_ns)
			return -ETIMEDOUT;
		if (seen != waited && !ts_cas(&slot->word, &seen, waited))
			continue;
		TS_KILLPOINT(device_sleep);
		/* The kernel compares the low half: state, sleepers, tenure, 4 bits of turn. */
		ts_sys_futex_wait(&slot->word, (uint32_t)waited,
			ts_min_u64(timeout_ns - passed, WAIT_SLICE_NS));
	}
}
