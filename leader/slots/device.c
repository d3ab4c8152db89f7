/* SPDX-License-Identifier: MIT */
/*
 * The table of a group's GPUs: finding or making it, who is there, its rows, and who owns a
 * ring of device memory.
 */
#include "leader/slots/device_private.h"
#include "shim/atomic.h"
#include "shim/hash.h"
#include "shim/identity.h"
#include "shim/sys.h"

#include <string.h>
#include <sys/mman.h>

#define MAGIC UINT64_C(0x6563697665647374) /* "tsdevice", little endian */

/* Whether a process lives costs some 50 us to ask; a dead one is found this much later. */
#define ALIVE_FOR_NS UINT64_C(10000000)

/* A few hundred steps of a training job; who comes later meets the others again. */
#define MEETING_NS UINT64_C(10000000000)

/* ---- joining ---------------------------------------------------------------------------- */

static int join(struct ts_store *store, struct ts_device *device)
{
	void *table;

	device->store = store;
	device->serial = ts_identity_serial();
	device->member = (uint32_t)store->member;
	device->tenure =
		ts_member_generation(ts_load_acquire(&store->members[device->member].word));
	int r = ts_dependent_map(store,
		&(struct ts_dependent_kind){.which = TS_DEPENDENT_DEVICE,
			.abi = TS_DEVICE_ABI,
			.magic = MAGIC,
			.bytes = sizeof(struct ts_device_table)},
		&table);
	if (r < 0)
		return r;
	device->table = table;
	/* Of earlier tenures; they count for nothing, but generations of members come back. */
	for (uint32_t i = 0; i < TS_DEVICE_HOLDS; i++)
		ts_write_release(&device->table->lines[device->member].lease[i], 0); /* V3 */
	for (uint32_t i = 0; i < TS_DEVICE_MAPS; i++)
		ts_write_release(&device->table->maps[device->member].map[i], 0); /* V4 */
	return 0;
}

int ts_device_attach(struct ts_store *store, struct ts_device **ret_device)
{
	struct ts_device *device = ts_load_acquire(&store->device);

	if (store->member < 0)
		return -EINVAL;
	if (device && device->serial == ts_identity_serial()) {
		if (ts_load_relaxed(&device->stopped))
			return -ESTALE;
		*ret_device = device;
		return 0;
	}
	/* Not from malloc: the host may be inside its own allocator's hooks. Zeroed, too. */
	device = mmap(NULL, sizeof(*device), PROT_READ | PROT_WRITE,
		MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (device == MAP_FAILED)
		return -ENOMEM;
	int r = join(store, device);
	if (r < 0) {
		munmap(device, sizeof(*device));
		return r;
	}
	ts_write_release(&store->device, device); /* pairs with the load above: complete */
	*ret_device = device;
	return 0;
}

/* ---- who is there ----------------------------------------------------------------------- */

int ts_device_check(const struct ts_device *device, uint32_t ring)
{
	if (device->serial != ts_identity_serial())
		return -ECHILD;
	return ring < TS_DEVICE_RINGS ? 0 : -EINVAL;
}

/* Whether nobody acts any more as member @member in its generation @tenure. */
static bool is_tenure_over(struct ts_device *device, uint32_t member, uint32_t tenure)
{
	if (member == device->member && tenure == device->tenure)
		return false;
	uint64_t word = ts_load_acquire(&device->store->members[member].word);
	if (ts_member_generation(word) != tenure || ts_member_state(word) == TS_MEMBER_FREE)
		return true;
	uint64_t now = ts_now_ns();
	if (now < ts_load_relaxed(&device->alive_until[member]))
		return false;
	if (!ts_member_is_gone(device->store, member)) {
		ts_write_relaxed(&device->alive_until[member], now + ALIVE_FOR_NS);
		return false;
	}
	return true;
}

/* ---- what the dead leave ---------------------------------------------------------------- */

/*
 * Whether some tenure that is not over has @wanted, whose tenure is 0, among its @each words;
 * @pins are those of the first member.
 */
static bool is_held(
	struct ts_device *device, const _Atomic uint64_t *pins, uint32_t each, uint64_t wanted)
{
	uint64_t any_tenure = ts_device_pin_tenure_put(~UINT64_C(0));
	uint32_t count = ts_member_high(device->store) * each;

	for (uint32_t i = 0; i < count; i++) {
		/* B3, B4; pairs with V3, V4. */
		uint64_t pin = ts_load_acquire(&pins[i]);
		if ((pin & ~any_tenure) == wanted &&
			!is_tenure_over(device, i / each, ts_device_pin_tenure(pin)))
			return true;
	}
	return false;
}

bool ts_device_is_pinned(
	struct ts_device *device, uint32_t ring, uint32_t slot, uint32_t generation)
{
	return is_held(device, device->table->lines[0].lease, TS_DEVICE_HOLDS,
		ts_device_pin_pack(0, ring, slot, generation)); /* B3 */
}

uint64_t ts_device_recover(struct ts_device *device, struct ts_device_slot *slot)
{
	uint64_t word = ts_load_acquire(&slot->word); /* B2 */
	enum ts_slot_state state = ts_device_slot_state(word);

	if (state != TS_SLOT_TAKEN && state != TS_SLOT_WRITING)
		return word;
	if (!is_tenure_over(device, ts_device_slot_owner(word), ts_device_slot_tenure(word)))
		return word;
	uint64_t freed =
		ts_device_slot_with(word, state == TS_SLOT_TAKEN ? TS_SLOT_FREE : TS_SLOT_LOST);
	if (!ts_cas(&slot->word, &word, freed))
		return word; /* as it was found instead */
	TS_KILLPOINT(device_recovered);
	if (word & TS_DEVICE_WAITED)
		ts_sys_futex_wake(&slot->word);
	return freed;
}

uint64_t ts_device_settle(struct ts_device *device, struct ts_device_row *row)
{
	uint64_t word = ts_load_acquire(&row->word); /* B1 */

	if (ts_device_ring_state(word) == TS_RING_EMPTY ||
		!is_tenure_over(
			device, ts_device_ring_owner(word), ts_device_ring_tenure(word)))
		return word;
	uint64_t empty =
		ts_device_ring_pack(TS_RING_EMPTY, 0, 0, ts_device_ring_generation(word) + 1);
	if (!ts_cas(&row->word, &word, empty))
		return word;
	TS_KILLPOINT(device_retired);
	return empty;
}

/* ---- rows ------------------------------------------------------------------------------- */

static bool is_uuid(struct ts_device_row *row, const uint8_t *uuid)
{
	/* Acquire: pairs with the release in take_row(), UUID before the flag. */
	return ts_load_acquire(&row->named) && memcmp(row->uuid, uuid, TS_DEVICE_UUID) == 0;
}

/* Take @row for @uuid, or find that it has it already. */
static bool take_row(struct ts_device_row *row, const uint8_t *uuid, uint64_t hash)
{
	uint64_t there = 0;

	if (!ts_cas(&row->uuid_hash, &there, hash) && there != hash)
		return false;
	TS_KILLPOINT(device_row);
	/* Always the same bytes, so two may do it at once, and one for a maker that died. */
	if (!ts_load_acquire(&row->named)) {
		memcpy(row->uuid, uuid, TS_DEVICE_UUID);
		ts_write_release(&row->named, 1);
	}
	return is_uuid(row, uuid);
}

int ts_device_find(struct ts_device *device, const uint8_t uuid[TS_DEVICE_UUID])
{
	uint64_t hash = ts_hash64(uuid, TS_DEVICE_UUID) | 1;
	int r = ts_device_check(device, 0);

	for (uint32_t i = 0; r == 0 && i < TS_DEVICE_RINGS; i++)
		if (take_row(&device->table->rows[i], uuid, hash))
			return (int)i;
	return r < 0 ? r : -ENOSPC;
}

void ts_device_count(struct ts_device *device, uint32_t ring, bool found)
{
	if (ts_device_check(device, ring) < 0)
		return;
	ts_add_relaxed(&device->table->rows[ring].looked, 1);
	if (found)
		ts_add_relaxed(&device->table->rows[ring].found, 1);
}

void ts_device_counts(
	struct ts_device *device, uint32_t ring, uint64_t *ret_looked, uint64_t *ret_found)
{
	bool is_row = ts_device_check(device, ring) == 0;

	*ret_looked = is_row ? ts_load_relaxed(&device->table->rows[ring].looked) : 0;
	*ret_found = is_row ? ts_load_relaxed(&device->table->rows[ring].found) : 0;
}

static _Atomic uint64_t *meeting(struct ts_device *device, uint32_t ring)
{
	if (ring == TS_DEVICE_ANY)
		return ts_device_check(device, 0) == 0 ? &device->table->met_ns : NULL;
	return ts_device_check(device, ring) == 0 ? &device->table->rows[ring].met_ns : NULL;
}

void ts_device_meet(struct ts_device *device, uint32_t ring)
{
	_Atomic uint64_t *met_ns = meeting(device, ring);

	if (met_ns)
		ts_write_relaxed(met_ns, ts_now_ns());
}

bool ts_device_has_met(struct ts_device *device, uint32_t ring)
{
	_Atomic uint64_t *met_ns = meeting(device, ring);
	uint64_t then = met_ns ? ts_load_relaxed(met_ns) : 0;

	return then != 0 && ts_now_ns() - then < MEETING_NS;
}

/* ---- holds ------------------------------------------------------------------------------ */

int ts_device_begin(struct ts_device *device, _Atomic uint32_t *words, uint32_t count)
{
	if (ts_load_relaxed(&device->stopped))
		return -ESTALE;
	for (uint32_t i = 0; i < count; i++)
		if (ts_try_hold(&words[i]))
			return (int)i;
	return -EUSERS;
}

void ts_device_hold_end(struct ts_device *device, uint32_t index)
{
	ts_write_release(&device->busy[index], 0); /* private try-lock */
}

/* ---- rings: who owns one, offering, withdrawing ----------------------------------------- */

/* Times a row may change under our eyes before we say that it is busy. */
#define READ_TRIES 4

/* Between two looks whether a ring that is withdrawn is still in use. */
#define NAP_NS UINT64_C(500000)

static bool is_mine(const struct ts_device *device, uint64_t word)
{
	return ts_device_ring_state(word) != TS_RING_EMPTY &&
	       ts_device_ring_owner(word) == device->member &&
	       ts_device_ring_tenure(word) == device->tenure;
}

/* ---- the owner -------------------------------------------------------------------------- */

static uint32_t count_lost(struct ts_device_row *row, uint64_t slots)
{
	uint32_t lost = 0;

	for (uint64_t i = 0; i < slots; i++)
		lost += ts_device_slot_state(ts_load_relaxed(&row->slots[i].word)) ==
			TS_SLOT_LOST;
	return lost;
}

/* What a LIVE ring is; may be torn, so the caller looks at the ring word again. */
static int read_owner(struct ts_device_row *row, struct ts_device_owner *owner)
{
	uint64_t slots = ts_load_acquire(&row->slot_count);

	owner->slot_bytes = ts_load_acquire(&row->slot_bytes);
	for (uint32_t i = 0; i < TS_DEVICE_HANDLE / 8; i++) {
		uint64_t part = ts_load_acquire(&row->handle[i]);
		memcpy(owner->handle + (size_t)i * 8, &part, 8);
	}
	if (!ts_device_is_shape(slots, owner->slot_bytes))
		return -EBADMSG;
	owner->slot_count = (uint32_t)slots;
	owner->lost = count_lost(row, slots);
	return 0;
}

int ts_device_owner(struct ts_device *device, uint32_t ring, struct ts_device_owner *ret_owner)
{
	struct ts_device_owner owner = {.slot_count = 0};
	int r = ts_device_check(device, ring);

	if (r < 0)
		return r;
	if (ts_load_relaxed(&device->stopped))
		return -ESTALE;
	struct ts_device_row *row = &device->table->rows[ring];
	for (int i = 0; i < READ_TRIES; i++) {
		uint64_t word = ts_device_settle(device, row);
		if (ts_device_ring_state(word) == TS_RING_EMPTY)
			return -ENODEV;
		if (ts_device_ring_state(word) != TS_RING_LIVE)
			return -EBUSY;
		r = read_owner(row, &owner);
		if (ts_load_acquire(&row->word) != word)
			continue;
		if (r < 0)
			return r;
		owner.generation = ts_device_ring_generation(word);
		owner.mine = is_mine(device, word);
		*ret_owner = owner;
		return 0;
	}
	return -EBUSY;
}

bool ts_device_is_offered(struct ts_device *device, uint32_t ring, uint32_t *ret_generation)
{
	if (ts_device_check(device, ring) < 0)
		return false;
	uint64_t word = ts_load_relaxed(&device->table->rows[ring].word);
	*ret_generation = ts_device_ring_generation(word);
	return ts_device_ring_state(word) == TS_RING_LIVE;
}

/* Every slot gets a new turn: what is still tried for older ones fails. */
static void renew_slots(struct ts_device_row *row)
{
	for (uint32_t i = 0; i < TS_DEVICE_SLOTS; i++) {
		uint64_t word = ts_load_relaxed(&row->slots[i].word), fresh;
		do {
			fresh = ts_device_slot_pack(
				TS_SLOT_FREE, 0, 0, ts_device_slot_turn(word) + 1);
		} while (!ts_cas(&row->slots[i].word, &word, fresh));
	}
}

/* Write what the ring is, which is MAKING and ours. */
static void fill_row(
	struct ts_device_row *row, const uint8_t *handle, uint32_t slots, uint64_t slot_bytes)
{
	/* V1; each one a release, for who reads them looks at the ring word once more. */
	ts_write_release(&row->slot_bytes, slot_bytes);
	ts_write_release(&row->slot_count, slots);
	for (uint32_t i = 0; i < TS_DEVICE_HANDLE / 8; i++) {
		uint64_t part;
		memcpy(&part, handle + (size_t)i * 8, 8);
		ts_write_release(&row->handle[i], part);
	}
	renew_slots(row);
}

static int offer(struct ts_device *device, struct ts_device_row *row, const uint8_t *handle,
	uint32_t slots, uint64_t slot_bytes)
{
	uint64_t word = ts_device_settle(device, row);
	uint32_t generation = ts_device_ring_generation(word);
	uint64_t making =
		ts_device_ring_pack(TS_RING_MAKING, device->member, device->tenure, generation);
	uint64_t live =
		ts_device_ring_pack(TS_RING_LIVE, device->member, device->tenure, generation);

	if (ts_device_ring_state(word) != TS_RING_EMPTY || !ts_cas(&row->word, &word, making))
		return -EEXIST;
	TS_KILLPOINT(device_making);
	fill_row(row, handle, slots, slot_bytes);
	TS_KILLPOINT(device_renewed);
	if (!ts_cas(&row->word, &making, live))
		return -EBADMSG; /* MAKING is nobody else's to end while we live */
	TS_KILLPOINT(device_live);
	return 0;
}

int ts_device_offer(struct ts_device *device, uint32_t ring,
	const uint8_t handle[TS_DEVICE_HANDLE], uint32_t slots, uint64_t slot_bytes)
{
	int r = ts_device_check(device, ring);

	if (r == 0 && !ts_device_is_shape(slots, slot_bytes))
		r = -EINVAL;
	if (r < 0)
		return r;
	/* Held meanwhile, so that our tenure cannot end while we write into the row. */
	int hold = ts_device_begin(device, device->busy, TS_DEVICE_HOLDS);
	if (hold < 0)
		return hold;
	r = offer(device, &device->table->rows[ring], handle, slots, slot_bytes);
	ts_device_hold_end(device, (uint32_t)hold);
	return r;
}

/* ---- withdrawing ------------------------------------------------------------------------ */

/** Slots of a ring that is withdrawn. */
struct use {
	int used; /* by somebody who may still end it */
	int lost;
};

static struct use count_use(struct ts_device *device, uint32_t ring, uint32_t generation)
{
	struct ts_device_row *row = &device->table->rows[ring];
	struct use use = {.used = 0};

	for (uint32_t i = 0; i < TS_DEVICE_SLOTS; i++) {
		enum ts_slot_state state =
			ts_device_slot_state(ts_device_recover(device, &row->slots[i]));
		if (state == TS_SLOT_TAKEN || state == TS_SLOT_WRITING ||
			ts_device_is_pinned(device, ring, i, generation))
			use.used++;
		else if (state != TS_SLOT_FREE && state != TS_SLOT_READY)
			use.lost++;
	}
	return use;
}

/*
 * From LIVE to CLOSING, or find that it is; *ret_word is CLOSING then.
 * Errors: -ENOENT it is not ours; -EBUSY it is MAKING.
 */
static int close_ring(
	const struct ts_device *device, struct ts_device_row *row, uint64_t *ret_word)
{
	uint64_t word = ts_load_acquire(&row->word);

	if (!is_mine(device, word))
		return -ENOENT;
	if (ts_device_ring_state(word) == TS_RING_MAKING)
		return -EBUSY;
	*ret_word = ts_device_ring_pack(TS_RING_CLOSING, device->member, device->tenure,
		ts_device_ring_generation(word));
	return word == *ret_word || ts_cas(&row->word, &word, *ret_word) ? 0 : -EBUSY;
}

int ts_device_withdraw(struct ts_device *device, uint32_t ring, uint64_t timeout_ns)
{
	uint64_t start = ts_now_ns(), closing;
	uint32_t never_woken = 0;
	int r = ts_device_check(device, ring);

	if (r < 0)
		return r;
	struct ts_device_row *row = &device->table->rows[ring];
	int kept = (int)ts_load_relaxed(&device->kept[ring]);
	r = close_ring(device, row, &closing);
	if (r < 0)
		return r == -ENOENT && kept ? kept : r;
	TS_KILLPOINT(device_closing);
	ts_fence_full(); /* P3 */
	uint32_t generation = ts_device_ring_generation(closing);
	struct use use = count_use(device, ring, generation);
	while (use.used > 0 && ts_now_ns() - start < timeout_ns) {
		ts_sys_futex_wait(&never_woken, 0, NAP_NS);
		use = count_use(device, ring, generation);
	}
	if (use.used > 0)
		return use.used + use.lost;
	/* LOST slots keep the memory, but do not keep others from offering theirs. */
	ts_write_relaxed(&device->kept[ring], (uint32_t)use.lost);
	if (use.lost > 0)
		ts_device_memory_end(device, ring);
	ts_cas(&row->word, &closing, ts_device_ring_pack(TS_RING_EMPTY, 0, 0, generation + 1));
	TS_KILLPOINT(device_emptied);
	return use.lost;
}

/* Withdraw what this process owns at @ring; false while somebody uses it. */
static bool give_up(struct ts_device *device, uint32_t ring)
{
	(void)ts_device_withdraw(device, ring, 0);
	/* Memory of lost slots goes with the process, which nobody has to wait for. */
	return !is_mine(device, ts_load_acquire(&device->table->rows[ring].word));
}

/* ---- leaving ---------------------------------------------------------------------------- */

bool ts_device_stop(struct ts_store *store)
{
	struct ts_device *device = ts_load_acquire(&store->device);
	bool stopped = true;

	/* A fork child has nothing there, whatever its parent holds. */
	if (!device || device->serial != ts_identity_serial())
		return true;
	ts_write_relaxed(&device->stopped, 1);
	for (uint32_t i = 0; i < TS_DEVICE_HOLDS; i++)
		stopped &= ts_try_hold(&device->busy[i]);
	for (uint32_t i = 0; i < TS_DEVICE_MAPS; i++)
		stopped &= ts_try_hold(&device->mapping[i]);
	for (uint32_t i = 0; i < TS_DEVICE_RINGS; i++)
		stopped &= give_up(device, i);
	return stopped;
}

/* ---- the memory of a ring --------------------------------------------------------------- */

/* In the place of a slot's number: the member that has it mapped is going to take from it. */
#define MAP_KEPT 1u

/* Who we are, as it stands in a row. */
static uint64_t own_word(const struct ts_device *device)
{
	return ts_device_ring_pack(TS_RING_LIVE, device->member, device->tenure, 0);
}

static bool is_over(struct ts_device *device, uint64_t word)
{
	return word == 0 ||
	       is_tenure_over(device, ts_device_ring_owner(word), ts_device_ring_tenure(word));
}

int ts_device_memory_begin(struct ts_device *device, uint32_t ring)
{
	int r = ts_device_check(device, ring);

	if (r < 0)
		return r;
	_Atomic uint64_t *memory = &device->table->rows[ring].memory;
	uint64_t word = ts_load_acquire(memory), own = own_word(device);
	if (word != own && !is_over(device, word))
		return -EEXIST;
	return ts_cas(memory, &word, own) ? 0 : -EEXIST;
}

void ts_device_memory_end(struct ts_device *device, uint32_t ring)
{
	uint64_t own;

	if (ts_device_check(device, ring) < 0)
		return;
	own = own_word(device);
	(void)ts_cas(&device->table->rows[ring].memory, &own, 0);
}

bool ts_device_memory_held(struct ts_device *device, uint32_t ring)
{
	if (ts_device_check(device, ring) < 0)
		return false;
	return !is_over(device, ts_load_acquire(&device->table->rows[ring].memory));
}

void ts_device_memory_ask_back(struct ts_device *device, uint32_t ring)
{
	if (ts_device_check(device, ring) == 0)
		ts_write_release(&device->table->rows[ring].asked_ns, ts_now_ns());
}

uint64_t ts_device_memory_asked_ns(struct ts_device *device, uint32_t ring)
{
	if (ts_device_check(device, ring) < 0)
		return 0;
	return ts_load_acquire(&device->table->rows[ring].asked_ns);
}

/* ---- mapped by others ------------------------------------------------------------------- */

int ts_device_map_begin(struct ts_device *device, uint32_t ring, uint32_t generation)
{
	int r = ts_device_check(device, ring);
	int index = r < 0 ? r : ts_device_begin(device, device->mapping, TS_DEVICE_MAPS);

	if (index < 0)
		return index;
	ts_write_release(&device->table->maps[device->member].map[index],
		ts_device_pin_pack(device->tenure, ring, 0, generation));
	TS_KILLPOINT(device_announced);
	ts_fence_full(); /* P5: said before this look at the ring */
	uint64_t word = ts_device_settle(device, &device->table->rows[ring]);
	if (ts_device_ring_state(word) == TS_RING_LIVE &&
		ts_device_ring_generation(word) == generation)
		return index;
	ts_device_map_end(device, (uint32_t)index);
	return -ESTALE;
}

void ts_device_map_keep(struct ts_device *device, uint32_t index)
{
	if (ts_device_check(device, 0) < 0 || index >= TS_DEVICE_MAPS)
		return;
	_Atomic uint64_t *map = &device->table->maps[device->member].map[index];
	ts_write_release(map, ts_load_relaxed(map) | ts_device_pin_slot_put(MAP_KEPT));
}

void ts_device_map_end(struct ts_device *device, uint32_t index)
{
	if (ts_device_check(device, 0) < 0 || index >= TS_DEVICE_MAPS)
		return;
	ts_write_release(&device->table->maps[device->member].map[index], 0); /* V4 */
	TS_KILLPOINT(device_unmapped);
	ts_write_release(&device->mapping[index], 0); /* private try-lock */
}

bool ts_device_is_kept(struct ts_device *device, uint32_t ring, uint32_t generation)
{
	if (ts_device_check(device, ring) < 0)
		return false;
	return is_held(device, device->table->maps[0].map, TS_DEVICE_MAPS,
		ts_device_pin_pack(0, ring, MAP_KEPT, generation));
}

bool ts_device_is_mapped(struct ts_device *device, uint32_t ring, uint32_t generation)
{
	if (ts_device_check(device, ring) < 0)
		return true; /* not known */
	/* In this order: a word that is missed here for it is just being kept shows below. */
	return is_held(device, device->table->maps[0].map, TS_DEVICE_MAPS,
		       ts_device_pin_pack(0, ring, 0, generation)) || /* B4 */
	       ts_device_is_kept(device, ring, generation);
}

/* ---- what was brought and asked for ----------------------------------------------------- */

/*
 * A job that is further behind than a ring has slots finds nothing there.  If what it brings
 * again took as many slots as what is new, those that are less far behind would soon find
 * nothing either, and none of them would get out of that, for then all bring everything.  So
 * what others have brought before, and this process asks for now for the first time (else it is
 * another round, as of validation), gets one slot in TS_DEVICE_AGAIN_PART at most once all are
 * in use: enough for jobs that are behind together.
 *
 * Remembered are traces of keys, one for each place in a table, the newest; a key that has
 * lost its place counts as new.  All of it hints: which slot is written matters to nobody's
 * bytes.
 */

static uint64_t trace_of(uint32_t ring, const struct ts_key *key, uint64_t bytes)
{
	return (key->hi ^ bytes) + ring;
}

static _Atomic uint64_t *place_of(_Atomic uint64_t *table, const struct ts_key *key)
{
	return &table[key->lo % TS_DEVICE_HISTORY];
}

bool ts_device_note_asked(
	struct ts_device *device, uint32_t ring, const struct ts_key *key, uint64_t bytes)
{
	_Atomic uint64_t *asked = place_of(device->asked, key);
	uint64_t trace = trace_of(ring, key, bytes);

	if (ts_load_relaxed(asked) == trace)
		return false;
	ts_write_relaxed(asked, trace);
	return true;
}

bool ts_device_was_brought(
	struct ts_device *device, uint32_t ring, const struct ts_key *key, uint64_t bytes)
{
	return ts_load_relaxed(place_of(device->table->brought, key)) ==
	       trace_of(ring, key, bytes);
}

void ts_device_note_brought(
	struct ts_device *device, uint32_t ring, const struct ts_key *key, uint64_t bytes)
{
	ts_write_relaxed(place_of(device->table->brought, key), trace_of(ring, key, bytes));
}
