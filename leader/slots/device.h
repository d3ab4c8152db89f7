/* SPDX-License-Identifier: MIT */
/*
 * Copies to a GPU, done once per GPU: who has which bytes there, who may write or read them.
 *
 * One member, the owner, allocates device memory and exports it: a ring of equal slots.  Jobs
 * that bring the same bytes to the same GPU agree here on who writes them into a slot, and when
 * others may copy them from there.  This room knows nothing of CUDA: a GPU is a 16-byte UUID,
 * the exported memory a 64-byte handle, a copy is something the caller does.
 *
 *	int ring = ts_device_find(device, uuid);                       // once per GPU
 *	if (ts_device_owner(device, ring, &owner) == -ENODEV)
 *		ts_device_offer(device, ring, handle, slots, slot_bytes);
 *	else if (!owner.mine && owner.generation != mapped)
 *		map owner.handle, off the program's way; mapped = owner.generation;
 *
 *	ts_device_take(device, ring, mapped, &key, bytes, patience_ns, &t);
 *	switch (t.verdict) {
 *	case TS_HIT:     // enqueue a copy from the slot; when its event has completed:
 *		ts_device_release(device, &t.hold);
 *		break;
 *	case TS_CLAIM:   // enqueue the program's own copy, then one into the slot; when that
 *		ts_device_publish(device, &t.hold);   // one's event has completed
 *		break;
 *	case TS_BUSY:    // somebody writes it: copy alone, or ts_device_wait() and take again
 *	case TS_PASS:    // copy alone; t.error says why
 *		break;
 *	}
 *
 * What is counted: the hook calls ts_session_count_produced(TS_KIND_DEVICE, ...) for what it
 * published and ts_session_count_shared(TS_KIND_DEVICE, ...) for hits, and ts_device_count()
 * for both, by which others judge whether looking pays on this GPU.
 *
 * ---- The object ---------------------------------------------------------------------------
 *
 * tsshim.<uid>.<scope>.<group>.device, 548 KiB, checked like every object of ours and bound to
 * the group's ring of which all its users are members; made at the first attach, removed when
 * the last member leaves, also where the ring is kept.  It holds a head, a line of lease words
 * for each member, and for each GPU seen a row: UUID, ring word, shape, handle, slots.  A row
 * is taken once and stays.  Each member has a line of map words, too.
 *
 * A tenure is (member, its generation).  It is over when the member word has moved on, or its
 * process is proven dead (leader/group/layout.h).  A member that leaves in order keeps its slot
 * of the member table when it still holds something here: then only its death ends the tenure.
 *
 * ---- Ring word: whose memory --------------------------------------------------------------
 *
 *   EMPTY(gen) ──offer──> MAKING(tenure, gen) ──> LIVE(tenure, gen)
 *                                                    │ withdraw
 *                                                    v
 *   EMPTY(gen+1) <──nobody uses it── CLOSING(tenure, gen)
 *   MAKING | LIVE | CLOSING of a tenure that is over ──anybody──> EMPTY(gen+1)
 *
 * In MAKING the owner writes shape and handle and gives every slot a new turn, FREE.  So what a
 * late party of an older generation still tries fails at the slot word.  The memory of an older
 * generation is another allocation; nobody ever takes an offset for one in another generation,
 * for every verdict carries its own.
 * A crash in any state is undone by whoever meets it; a stop in MAKING means that this GPU is
 * not shared, in LIVE nothing at all, for anybody may write into a slot.
 *
 * ---- Slot word: whose bytes ---------------------------------------------------------------
 *
 *   FREE | READY ──take──> TAKEN(tenure) ──key written──> WRITING(tenure) ──publish──> READY
 *     ^                      │ somebody pins it: back to     │
 *     │                      v what it was                   └──abandon──> FREE
 *     └── TAKEN of a tenure that is over
 *   WRITING of a tenure that is over ──anybody──> LOST, until the ring's next generation
 *
 * Every claim is a new turn of the slot, a number of 36 bits that is never set back.  The key
 * is complete in WRITING and READY.  Of TAKEN the caller knows nothing yet, so its crash costs
 * nothing.  A process that dies in WRITING may have its copy queued in the GPU; that queue
 * lives as long as anybody has the dead process's device files open, and its fork children,
 * loader workers, do.  No proof of death of a process is one of its queue, hence LOST.
 *
 * LOST keeps the memory from being freed, too, but a ring where nothing else is in use goes.
 *
 * FREE slots are taken first, then READY ones in the order in which they were written.  Who
 * brings what others brought before has a part of those only (device.c).
 *
 * A deadline moves the right to produce: with a @patience_ns shorter than the age of a WRITING
 * slot, take() lets the caller produce into another slot.  It never moves the slot.
 *
 * ---- Lease word: what is being read -------------------------------------------------------
 *
 *   0 ──> PIN(member generation, ring, slot, ring generation) ──> 0
 *
 * Only the process whose line it is writes it; those of a tenure that is over count for nothing
 * (what the dead had read goes nowhere), so nothing has to be cleaned up.
 *
 * ---- Map word: whose memory is open here ---------------------------------------------------
 *
 *   0 ──announce──> MAP(member generation, ring, ring generation) ──handle closed──> 0
 *
 * Memory must not be freed while another process has it mapped, whether it reads there or not
 * (cuda.h, cuIpcOpenMemHandle).  So who opens a handle says so before, looks whether the ring
 * is still LIVE, and takes it back when the handle is closed, or was never opened.  Only the
 * process whose line it is writes it.  The owner looks when nobody uses the ring any more: what
 * a member that is not over has said keeps the memory, of that one generation, and it looks
 * again later; meanwhile others may offer theirs.
 *
 * A process that dies has nothing mapped: its words count for nothing, as leases do.  One that
 * is stopped, or cannot say that it has closed a handle, keeps that memory allocated for as
 * long as it lives, and nothing else.  An owner that dies takes its memory along, whoever has
 * it mapped; nobody reads there any more, for every lease ends with the ring.
 *
 * ---- Ordering -----------------------------------------------------------------------------
 *
 *   V1  shape, handle and fresh slots, then LIVE          pairs with B1, the load of LIVE
 *   V2  key, then WRITING; the caller's bytes, then READY pairs with B2, the load of the word
 *   P1  store of a pin; full fence; slot word and ring word again, unchanged
 *   P2  CAS to TAKEN; full fence; all lease words, then the ring word again
 *       (of a reader and a taker of one slot, at least one sees the other)
 *   P3  CAS to CLOSING; full fence; all lease and slot words
 *       (of the owner that withdraws and whoever begins, at least one sees the other)
 *   P4  CAS to WRITING; full fence; the other slots' keys
 *       (of two that write one key, at least one sees the other and gives up)
 *   P5  store of a map word; full fence; the ring word, LIVE as it was
 *       (of who opens a handle and the owner that frees, P3, at least one sees the other)
 *   V3  last read of a slot, then the store of 0          pairs with B3, the loads in P2
 *   V4  handle closed, then the store of 0                pairs with B4, the owner's look
 *
 * tests/models/device.pml says the same to Spin.
 *
 * ---- For all functions --------------------------------------------------------------------
 *
 * Threads: any, unless said otherwise; a hold may be ended by another thread than the one that
 * took it.  Nothing blocks but ts_device_wait() and ts_device_withdraw(), until their
 * deadlines.  No locks but the group's in ts_device_attach(); the others allocate no memory.
 * Fork: in a child the parent's struct ts_device answers -ECHILD and its holds are nobody's;
 * the child attaches anew where it uses a GPU at all.  Not for vfork children, nor for signal
 * handlers.  Errors are negative errno values; whatever fails, the caller copies alone.  Since
 * ABI 2.
 */
#ifndef TS_LEADER_SLOTS_DEVICE_H
#define TS_LEADER_SLOTS_DEVICE_H

#include "leader/group/store.h"

#define TS_DEVICE_UUID   16u
#define TS_DEVICE_HANDLE 64u
#define TS_DEVICE_SLOTS  64u /* most slots of one ring */
#define TS_DEVICE_RINGS  64u /* GPUs, or parts of such, that a group may see in its life */
#define TS_DEVICE_HOLDS  16u /* leases and claims of one process at a time */
#define TS_DEVICE_MAPS   16u /* rings of others that one process has mapped at a time */

struct ts_device;

/** The memory of a live owner. */
struct ts_device_owner {
	uint8_t handle[TS_DEVICE_HANDLE];
	uint64_t slot_bytes;
	uint32_t slot_count;
	uint32_t generation; /* of the ring: another one is other memory */
	uint32_t lost;       /* slots that stay out of use, see LOST */
	bool mine;           /* this process offered it; its own address is the way there */
};

/** A slot that this process reads (TS_HIT) or writes (TS_CLAIM). The caller's to keep. */
struct ts_device_hold {
	uint64_t offset; /* of the slot from the start of the exported memory */
	uint64_t bytes;  /* of the copy */
	uint32_t generation;
	uint32_t ring, slot;
	uint32_t index; /* of the hold in this process */
	uint64_t word;  /* exact slot word */
};

struct ts_device_take {
	enum ts_verdict verdict;
	int error;         /* of TS_PASS */
	uint64_t since_ns; /* of TS_BUSY: ts_now_ns() when its production began */
	bool mine;         /* of TS_BUSY: by this process */
	bool late;         /* of TS_BUSY: see ts_device_late() */
	struct ts_device_hold hold;
};

/**
 * Join the table of the GPUs of @store's group, making it when it is not there.  At the second
 * call the first one's answer is given again.
 *
 * Ownership: *ret_device lives as long as the process, also over a detach of @store, after
 * which it answers -ESTALE.  Threads: one at a time.  Takes some 200 us, 50 ms at most.
 * Errors: -EPERM, -EPROTO, -EBADMSG, -EXDEV as for ts_store_attach(); -EAGAIN somebody holds
 * the group's lock; -EINVAL @store is no member; -ENOSPC, -ENOMEM; others of the system calls.
 */
int ts_device_attach(struct ts_store *store, struct ts_device **ret_device);

/** Row of the GPU @uuid, taken for it when it is new. Errors: -ENOSPC; -ECHILD. */
int ts_device_find(struct ts_device *device, const uint8_t uuid[TS_DEVICE_UUID]);

/**
 * The live owner of row @ring.  An owner that is proven dead is retired here.
 * Errors: -ENODEV none (one may be offered); -EBUSY one is coming or going; -EBADMSG damaged;
 * -EINVAL no such row; -ECHILD; -ESTALE detached.
 */
int ts_device_owner(struct ts_device *device, uint32_t ring, struct ts_device_owner *ret_owner);

/**
 * Whether row @ring has an owner, and if so its generation: a load of one word, for threads
 * that copy often.  It may have died; ts_device_owner() is to be asked before anything is done.
 */
bool ts_device_is_offered(struct ts_device *device, uint32_t ring, uint32_t *ret_generation);

/**
 * The memory itself, which is there before it is offered and some time after it is withdrawn.
 * Who allocates it says so before, and when it has been freed; who finds no room for the
 * program's own can ask for it.
 *
 * ts_device_memory_begin(): errors -EEXIST another live process has some for row @ring; -EINVAL
 * no such row; -ECHILD.  ts_device_memory_held(): whether a live process has, this one
 * included; what LOST slots keep does not count, for nobody can give it back.
 * ts_device_memory_asked_ns(): ts_now_ns() of the last time that it was asked back, or 0.
 */
int ts_device_memory_begin(struct ts_device *device, uint32_t ring);
void ts_device_memory_end(struct ts_device *device, uint32_t ring);
bool ts_device_memory_held(struct ts_device *device, uint32_t ring);
void ts_device_memory_ask_back(struct ts_device *device, uint32_t ring);
uint64_t ts_device_memory_asked_ns(struct ts_device *device, uint32_t ring);

/**
 * The memory of @generation that another member offers, mapped here: said before its handle is
 * opened, with the index that map_begin() returns, until map_end() when it is closed.  Where it
 * is not known whether it is, nothing is to be said: then it stays allocated.
 *
 * ts_device_map_begin(): errors -ESTALE it is not offered any more, or detached; -EUSERS this
 * process maps too many; -EINVAL no such row; -ECHILD.
 * ts_device_map_keep(): say that it is worth the way and stays open, as long as it is offered.
 * ts_device_is_mapped(), ts_device_is_kept(): whether a live process says so; for its owner.
 * Costs what asking for a slot's readers does: some 50 us now and then, else less than one.
 */
int ts_device_map_begin(struct ts_device *device, uint32_t ring, uint32_t generation);
void ts_device_map_keep(struct ts_device *device, uint32_t index);
void ts_device_map_end(struct ts_device *device, uint32_t index);
bool ts_device_is_kept(struct ts_device *device, uint32_t ring, uint32_t generation);
bool ts_device_is_mapped(struct ts_device *device, uint32_t ring, uint32_t generation);

/**
 * Become the owner: @slots slots of @slot_bytes each in the memory that @handle leads to.
 *
 * The memory must stay until ts_device_withdraw() has returned 0 and ts_device_is_mapped() is
 * false, or the process has ended; what others see of it after that is for the caller of
 * ts_device_take() to know.
 * Errors: -EEXIST there is one, or somebody was faster; -EINVAL sizes of 0, more than
 * TS_DEVICE_SLOTS or no such row; -EUSERS this process holds too many; -EBADMSG damaged;
 * -ECHILD; -ESTALE detached.
 */
int ts_device_offer(struct ts_device *device, uint32_t ring,
	const uint8_t handle[TS_DEVICE_HANDLE], uint32_t slots, uint64_t slot_bytes);

/**
 * Stop being the owner: nobody gets a lease or a claim any more.  Waits at most @timeout_ns for
 * those there are, this process's own included.  Returns how many slots are still in use, LOST
 * ones included: with 0 the memory may be freed when nobody has it mapped; else it must stay,
 * and this may be called again.  When only LOST slots are left the answer stays the same, but
 * others may offer theirs.
 * Threads: one at a time for a row.  Errors: -ENOENT this process owns no ring there, and need
 * not keep memory for one; -EBUSY another thread is just offering; -EINVAL; -ECHILD.
 */
int ts_device_withdraw(struct ts_device *device, uint32_t ring, uint64_t timeout_ns);

/**
 * Ask for the bytes with @key, @bytes of them, in the memory of @generation.
 *
 * TS_HIT: a READY slot with them; nobody writes there before ts_device_release().
 * TS_CLAIM: this process is to write a slot, a free one or the one written longest ago; what
 * others have brought before gets a quarter of those at most (leader/slots/device.c).
 * TS_BUSY: somebody has been writing them for less than @patience_ns.
 * TS_PASS, with @error: -ENODEV no owner; -ESTALE another generation by now, or detached;
 * -EFBIG more than a slot; -ENOBUFS every slot is in use; -EUSERS this process holds too many;
 * -EAGAIN others were faster each time; -EBADMSG damaged; -ECHILD; -EINVAL no such row, or 0
 * bytes.
 * Some 1 us for a hit, 5 for a claim; now and then 50 more to ask whether a process lives.
 */
void ts_device_take(struct ts_device *device, uint32_t ring, uint32_t generation,
	const struct ts_key *key, uint64_t bytes, uint64_t patience_ns,
	struct ts_device_take *ret_take);

/**
 * Tell others that what a TS_CLAIM brings is queued behind other work, so that waiting for it
 * does not pay.  They learn it by @late, and may ask again without patience to write a slot of
 * their own.  For this claim only.
 */
void ts_device_late(struct ts_device *device, const struct ts_device_hold *hold);

/**
 * The slot of a TS_CLAIM holds the bytes: the copy into it has completed.  Ends the hold.
 * Errors: -ESTALE the ring has gone meanwhile; -ECHILD.
 */
int ts_device_publish(struct ts_device *device, struct ts_device_hold *hold);

/**
 * Give a TS_CLAIM back; others may write the slot.  Only when no copy into it was enqueued, or
 * it has completed.  When that cannot be known, do nothing at all: the slot stays out of use.
 */
void ts_device_abandon(struct ts_device *device, struct ts_device_hold *hold);

/**
 * End a TS_HIT: the copy from the slot has completed.  When that cannot be known, do nothing at
 * all: the slot is not written as long as this process lives.
 */
void ts_device_release(struct ts_device *device, struct ts_device_hold *hold);

/**
 * A copy was looked for in row @ring, and was there or not: ts_device_count() adds one,
 * ts_device_counts() tells how many there were of all members since the table was made.  Only
 * for judging whether it pays: a lost or invented one does no harm.  0 where @ring is no row.
 */
void ts_device_count(struct ts_device *device, uint32_t ring, bool found);
void ts_device_counts(
	struct ts_device *device, uint32_t ring, uint64_t *ret_looked, uint64_t *ret_found);

#define TS_DEVICE_ANY UINT32_MAX

/**
 * Two jobs have found that they bring the same, to the GPU of row @ring or, TS_DEVICE_ANY, to
 * whatever GPUs: one of them, as a rule the second to come, tells all.  ts_device_has_met():
 * whether that was in the last ten seconds.  Relaxed; nothing where @ring is no row.
 */
void ts_device_meet(struct ts_device *device, uint32_t ring);
bool ts_device_has_met(struct ts_device *device, uint32_t ring);

/**
 * Sleep until the production that @take (TS_BUSY) met has ended, or @timeout_ns passed; then
 * take again.  Errors: -ETIMEDOUT it has not; -EINVAL; -ECHILD.
 */
int ts_device_wait(
	struct ts_device *device, const struct ts_device_take *take, uint64_t timeout_ns);

#endif
