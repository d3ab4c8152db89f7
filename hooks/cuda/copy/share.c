/* SPDX-License-Identifier: MIT */
/* Sharing a copy that could be shared. */
#include "hooks/cuda/copy/share.h"

#include "hooks/cuda/copy/bring.h"
#include "hooks/cuda/copy/names.h"
#include "hooks/cuda/copy/verify.h"
#include "hooks/cuda/gpu/cost.h"
#include "hooks/cuda/gpu/gpu.h"
#include "leader/group/attach.h"
#include "leader/object/killpoint.h"
#include "shim/atomic.h"
#include "shim/sys.h"

/*
 * One in so many copies leaves one: a lone job pays for it, and whoever comes can wait.  More
 * of the first, for jobs that begin together have all to gain; the few are among the many.
 */
#define HINT       8u
#define HINT_EARLY 2u
#define EARLY      64u

/* Nobody is waited for longer than this, whatever was measured. */
#define WAIT_MAX_NS UINT64_C(100000000)
#define POLL_NS     UINT64_C(50000)

/* After this and four times what bringing takes, which is at most so long, others may. */
#define PATIENCE_MIN_NS UINT64_C(2000000)
#define WHOLE_MAX_NS    UINT64_C(1000000000)

/* A copy, and all that is known while it is shared. */
struct sharing {
	const struct ts_copy *copy;
	const struct ts_session *session;
	const struct ts_dataset_row *row;
	struct ts_gpu *gpu;
	struct ts_gpu_note *note;
	struct ts_key key;
	uint64_t begin_ns, waited_ns;
	bool at_once; /* nothing is queued in its stream */
};

static ts_cu_result pass(const struct ts_copy *copy, enum ts_reason reason)
{
	ts_session_count_pass(reason);
	return ts_bring(copy);
}

/* ---- when the source is read ------------------------------------------------------------ */

/*
 * Whether the driver may read the pageable source of @copy when the stream comes to it: where
 * the GPU reaches such memory, and where the program lets it.
 */
static bool may_be_read_late(const struct ts_copy *copy, ts_cu_device device)
{
	if (!copy->async || ts_copy_is_named(copy))
		return false;
	return copy->part ? copy->part->order == TS_CU_ORDER_ANY : ts_gpu_reaches_host(device);
}

/* What is queued before it may be what writes it, so it must not be read before. */
static bool has_to_be_read_late(const struct ts_copy *copy, ts_cu_device device)
{
	return may_be_read_late(copy, device) && !ts_copy_is_all_idle(copy);
}

/*
 * Whether the driver has read the source of @copy, which it was just asked for.  One of a batch
 * says when that is; of another one nobody knows until it is done.  Its stream was idle, so
 * that takes one transfer; what another thread puts there meanwhile may take for ever.
 */
static bool is_read(const struct ts_copy *copy, ts_cu_device device)
{
	_Atomic uint32_t nobody = 0;
	uint64_t begin_ns = ts_now_ns();
	if (copy->part || !may_be_read_late(copy, device))
		return true;
	while (!ts_copy_is_idle(copy)) {
		if (ts_now_ns() - begin_ns > WAIT_MAX_NS)
			return false;
		(void)ts_sys_futex_wait(&nobody, 0, POLL_NS);
	}
	return true;
}

/*
 * A call without a stream may be forbidden while others capture, also in other streams, and
 * would end their capture; only the driver can tell.  It is asked by the call itself, for one
 * byte of what it will write in any case, before anything of ours: it waits for its stream as
 * well, as the whole call does before it reads pageable memory.
 */
static ts_cu_result let_driver_judge(const struct ts_copy *copy)
{
	struct ts_copy first = *copy;
	first.bytes = 1;
	return ts_copy_real(&first);
}

/*
 * What was enqueued last ends @note's hold when it is done.  A call that does not take a stream
 * is waited for: when it has returned, other streams may use what it wrote.  An error means
 * that nobody knows what the GPU does, so the hold is never ended.
 */
static ts_cu_result end_when_done(const struct sharing *sharing)
{
	const struct ts_copy *copy = sharing->copy;
	struct ts_gpu_note *note = sharing->note;
	if (copy->async) {
		ts_cu_result result = ts_copy_record(copy, note->note.event);
		if (result == TS_CU_SUCCESS)
			ts_gpu_note_enqueued(note);
		else
			ts_gpu_off(sharing->gpu);
		return result;
	}
	ts_cu_result result = ts_copy_synchronize(copy);
	if (result != TS_CU_SUCCESS) {
		ts_gpu_off(sharing->gpu);
		return result;
	}
	ts_gpu_note_end(sharing->gpu, note);
	ts_note_free(&note->note);
	return result;
}

/* ---- alone ------------------------------------------------------------------------------ */

/*
 * Nobody has a ring yet.  A word left in the store tells when another job brings the same; what
 * it is called by is a hint only, for hashing everything would cost a lone job dearly.  Half of
 * them, the same in all jobs, are left for those as well who bring it to another GPU.
 */
static void leave_word(
	const struct ts_copy *copy, const struct ts_session *session, ts_cu_device device)
{
	static _Atomic uint32_t looked_at;
	const void *from = (const void *)(uintptr_t)copy->from;
	bool early =
		ts_load_relaxed(&looked_at) < EARLY && ts_add_relaxed(&looked_at, 1) < EARLY;
	if (!ts_cost_is_chosen(from, copy->bytes, ts_now_ns(), early ? HINT_EARLY : HINT))
		return;
	struct ts_key here = ts_names_hint(copy, ts_gpu_number(device));
	struct ts_key anywhere = ts_names_hint(copy, TS_NAMES_ANY_GPU);
	ts_gpu_meet(device, ts_store_meet(session->store, &here),
		(anywhere.hi & 1) && ts_store_meet(session->store, &anywhere));
}

/* @at_once: its stream has nothing else to do, as far as is known. */
static ts_cu_result alone(const struct ts_copy *copy, const struct ts_session *session,
	enum ts_reason reason, bool at_once)
{
	uint64_t begin = ts_now_ns();
	ts_session_count_pass(reason);
	if (ts_copy_is_named(copy))
		copy->known->at_once = at_once;
	ts_cu_result result = ts_bring(copy);
	if (result != TS_CU_SUCCESS)
		return result;
	if (!ts_copy_is_named(copy) && !ts_bring_may_leave(copy))
		ts_cost_learn_own(copy->bytes, ts_now_ns() - begin, at_once);
	ts_session_count_produced(TS_KIND_DEVICE, copy->bytes, 0);
	return result;
}

/* ---- shared ----------------------------------------------------------------------------- */

/*
 * A copy within the GPU was not made.  One that the driver does not allow, as to a range of
 * several allocations, is none: the hold is given back, and all else goes on.  After another
 * error nobody knows what the GPU does.
 */
static void end_unmade(struct sharing *sharing, ts_cu_result result)
{
	if (result == TS_CU_INVALID_VALUE)
		ts_gpu_note_give_up(sharing->gpu, sharing->note);
	else
		ts_gpu_off(sharing->gpu);
}

/* The bytes are in the ring. */
static ts_cu_result serve(struct sharing *sharing)
{
	const struct ts_copy *copy = sharing->copy;
	const struct ts_lease lease = {.bytes = copy->bytes,
		.produce_ns = ts_cost_of(ts_names_cost(copy, TS_COST_OWN), copy->bytes),
		.dataset = sharing->session->dataset};
	ts_cu_pointer from = sharing->gpu->mapping.base + sharing->note->hold.offset;
	TS_KILLPOINT(copy_leased);
	ts_cu_result result = ts_copy_within(copy, copy->to, from);
	if (result != TS_CU_SUCCESS) {
		end_unmade(sharing, result);
		return pass(copy, TS_REASON_COPY_STATE);
	}
	TS_KILLPOINT(copy_served);
	if (end_when_done(sharing) != TS_CU_SUCCESS)
		return pass(copy, TS_REASON_COPY_STATE);
	if (ts_copy_is_named(copy))
		ts_known_was_used(copy->known);
	else
		ts_cost_learn_taken(copy->bytes, false, ts_now_ns() - sharing->begin_ns,
			sharing->waited_ns);
	if (ts_session_verify_this_hit() && !ts_verify_copy(copy, &lease)) {
		ts_gpu_off(sharing->gpu);
		return ts_bring(copy);
	}
	ts_session_count_shared(TS_KIND_DEVICE, &lease);
	return TS_CU_SUCCESS;
}

/*
 * What the driver has read by now is looked at again; what it reads later, when that is done
 * (ts_gpu_note_end()).
 */
static bool is_still(const struct ts_copy *copy, const struct ts_key *key)
{
	struct ts_key now;
	return ts_copy_is_named(copy) ||
	       (ts_names_copy(copy, &now) && now.lo == key->lo && now.hi == key->hi);
}

/*
 * Ours to bring: the program's own copy, as it is, then one within the GPU behind it.  One of a
 * batch is brought by a call of its own, for of that it is known when the source is read.
 */
static ts_cu_result produce(struct sharing *sharing)
{
	const struct ts_copy *copy = sharing->copy;
	struct ts_copy own = *copy;
	struct ts_gpu *gpu = sharing->gpu;
	struct ts_gpu_note *note = sharing->note;
	if (!sharing->at_once && ts_cost_is_late(copy->bytes))
		ts_device_late(gpu->table, &note->hold);
	TS_KILLPOINT(copy_claimed);
	own.alone = true;
	note->begin_ns = ts_now_ns();
	ts_cu_result result = ts_bring(&own);
	if (!ts_copy_is_named(copy))
		ts_cost_learn_own(copy->bytes, ts_now_ns() - note->begin_ns, note->at_once);
	TS_KILLPOINT(copy_done);
	if (result != TS_CU_SUCCESS || !is_read(copy, gpu->device) ||
		!is_still(copy, &sharing->key)) {
		ts_gpu_note_give_up(gpu, note);
		ts_session_count_pass(TS_REASON_COPY_STATE);
		return result;
	}
	ts_session_count_produced(TS_KIND_DEVICE, copy->bytes, 0);
	ts_cu_result teed =
		ts_copy_within(copy, gpu->mapping.base + note->hold.offset, copy->to);
	if (teed != TS_CU_SUCCESS) {
		end_unmade(sharing, teed);
		return result;
	}
	TS_KILLPOINT(copy_teed);
	(void)end_when_done(sharing);
	return result;
}

static enum ts_reason reason_of(const struct ts_device_take *take)
{
	if (take->verdict == TS_BUSY)
		return TS_REASON_TIMEOUT;
	switch (take->error) {
	case -EFBIG:
		return TS_REASON_TOO_LARGE;
	case -ENOBUFS:
		return TS_REASON_NO_SEGMENT;
	case -EUSERS:
		return TS_REASON_NO_LEASE;
	case -EAGAIN:
		return TS_REASON_DIRECTORY_BUSY;
	case -EBADMSG:
		return TS_REASON_STORE_DAMAGED;
	default:
		return TS_REASON_ALONE; /* the ring has just gone */
	}
}

/*
 * Whoever is bringing them is waited for as long as one transfer takes, and no longer: a
 * program must not wait for another one more than it would have for its own copy.
 * What a busy machine delays more is copied twice.  Where waiting does not pay the model says
 * so: in vain it counts as a part of taking, else where it makes the call longer (cost.h).
 */
static bool wait_for_them(struct sharing *sharing, const struct ts_device_take *take)
{
	uint64_t most_ns = ts_min_u64(
		ts_cost_of_transfer(sharing->row, sharing->copy->bytes), WAIT_MAX_NS);
	const struct ts_part *part = sharing->copy->part;
	uint64_t *of_batch = part ? part->waited_ns : NULL;
	uint64_t begin_ns = ts_now_ns(), passed_ns = begin_ns - take->since_ns;
	TS_KILLPOINT(copy_waits);
	/* Who is late already is stopped, or short of cores. */
	if (passed_ns >= 2 * most_ns)
		return false;
	most_ns = ts_min_u64(most_ns, 2 * most_ns - passed_ns);
	/* All copies of a batch together, for that is one call. */
	uint64_t before_ns = of_batch ? *of_batch : 0;
	if (before_ns >= WAIT_MAX_NS)
		return false;
	most_ns = ts_min_u64(most_ns, WAIT_MAX_NS - before_ns);
	(void)ts_device_wait(sharing->gpu->table, take, most_ns);
	sharing->waited_ns = ts_now_ns() - begin_ns;
	if (of_batch)
		*of_batch += sharing->waited_ns;
	return true;
}

/*
 * What others have queued behind other work of theirs is not waited for: who can bring it at
 * once does that, for all; who cannot has its own copy.
 */
static void look_up(struct sharing *sharing, struct ts_device_take *ret_take)
{
	const struct ts_gpu *gpu = sharing->gpu;
	uint64_t bytes = sharing->copy->bytes;
	uint64_t whole_ns = ts_cost_of_bringing(sharing->row, bytes);
	uint64_t patience_ns = PATIENCE_MIN_NS + 4 * ts_min_u64(whole_ns, WHOLE_MAX_NS);
	ts_device_take(gpu->table, gpu->mapping.ring, gpu->mapping.generation, &sharing->key,
		bytes, patience_ns, ret_take);
	if (ret_take->verdict != TS_BUSY || ret_take->mine)
		return;
	if (ret_take->late && !sharing->at_once)
		return;
	bool waited = !ret_take->late && wait_for_them(sharing, ret_take);
	if (ret_take->late)
		patience_ns = 0;
	ts_device_take(gpu->table, gpu->mapping.ring, gpu->mapping.generation, &sharing->key,
		bytes, patience_ns, ret_take);
	if (waited && ret_take->verdict != TS_HIT)
		ts_cost_learn_taken(bytes, ts_copy_is_named(sharing->copy),
			ts_now_ns() - sharing->begin_ns, 0);
}

/* The offset comes from memory that others can write to. */
static bool is_inside(const struct ts_gpu *gpu, const struct ts_device_hold *hold)
{
	return hold->slot < gpu->mapping.slot_count && hold->bytes <= gpu->mapping.slot_bytes &&
	       hold->offset == hold->slot * gpu->mapping.slot_bytes;
}

static void fill_note(const struct sharing *sharing, const struct ts_device_take *take)
{
	const struct ts_copy *copy = sharing->copy;
	struct ts_gpu_note *note = sharing->note;
	note->hold = take->hold;
	note->publish = take->verdict == TS_CLAIM;
	note->at_once = sharing->at_once;
	note->begin_ns = sharing->begin_ns;
	note->is_known = ts_copy_is_named(copy);
	if (ts_copy_is_named(copy)) {
		copy->known->at_once = sharing->at_once;
		note->known = *copy->known;
	}
}

/* One of a batch is brought by a call of its own, or it would never be known what it takes. */
static ts_cu_result measure_own(const struct sharing *sharing)
{
	struct ts_copy own = *sharing->copy;
	own.alone = true;
	return alone(&own, sharing->session, TS_REASON_COPY_COST, true);
}

static ts_cu_result share(struct sharing *sharing)
{
	const struct ts_copy *copy = sharing->copy;
	struct ts_device_take take;
	ts_cu_result judged = copy->async ? TS_CU_SUCCESS : let_driver_judge(copy);
	if (judged != TS_CU_SUCCESS) {
		ts_session_count_pass(TS_REASON_COPY_STATE);
		return judged;
	}
	/* The driver waits for the stream before it reads the source, and so must the hash. */
	if (!copy->async && ts_copy_synchronize(copy) != TS_CU_SUCCESS)
		return pass(copy, TS_REASON_COPY_STATE);
	sharing->at_once = !copy->async || ts_copy_is_idle(copy);
	if (sharing->at_once && ts_cost_own_is_due(copy->bytes, ts_copy_is_named(copy)))
		return measure_own(sharing);
	if (!ts_names_copy(copy, &sharing->key))
		return pass(copy, TS_REASON_COPY_PINNED);
	sharing->begin_ns = ts_now_ns();
	sharing->note = ts_gpu_note(sharing->gpu);
	if (!sharing->note)
		return pass(copy, TS_REASON_NO_LEASE);
	look_up(sharing, &take);
	ts_device_count(
		sharing->gpu->table, sharing->gpu->mapping.ring, take.verdict == TS_HIT);
	fill_note(sharing, &take);
	if ((take.verdict == TS_HIT || take.verdict == TS_CLAIM) &&
		!is_inside(sharing->gpu, &take.hold)) {
		ts_gpu_note_give_up(sharing->gpu, sharing->note);
		return alone(copy, sharing->session, TS_REASON_STORE_DAMAGED, sharing->at_once);
	}
	if (take.verdict == TS_HIT)
		return serve(sharing);
	if (take.verdict == TS_CLAIM)
		return produce(sharing);
	ts_note_free(&sharing->note->note);
	return alone(copy, sharing->session, reason_of(&take), sharing->at_once);
}

static bool pays(const struct sharing *sharing)
{
	const struct ts_copy *copy = sharing->copy;
	struct ts_gpu *gpu = sharing->gpu;
	uint64_t looked, found;
	ts_device_counts(gpu->table, gpu->mapping.ring, &looked, &found);
	return ts_cost_pays(
		ts_cost_found(&gpu->program.found, gpu->mapping.generation, looked, found),
		(const void *)(uintptr_t)copy->from, copy->bytes, ts_copy_is_named(copy),
		ts_now_ns());
}

ts_cu_result ts_share(const struct ts_copy *copy, const struct ts_session *session,
	ts_cu_device device, ts_cu_context context)
{
	struct ts_dataset_row *row =
		ts_ledger_dataset(ts_store_ledger(session->store), session->dataset);
	bool ready;
	struct sharing sharing = {.copy = copy, .session = session, .row = row};
	if (ts_load_relaxed(&row->off))
		return pass(copy, TS_REASON_DATASET_OFF);
	/* Before anything is said of it to others, or measured. */
	if (has_to_be_read_late(copy, device))
		return pass(copy, TS_REASON_COPY_STATE);
	sharing.gpu = ts_gpu_enter(session, device, context, copy->bytes, &ready);
	if (!sharing.gpu) {
		if (ready)
			leave_word(copy, session, device);
		return alone(copy, session, TS_REASON_ALONE, false);
	}
	ts_cu_result result =
		pays(&sharing) ? share(&sharing) : pass(copy, TS_REASON_COPY_COST);
	ts_gpu_exit(sharing.gpu);
	return result;
}
