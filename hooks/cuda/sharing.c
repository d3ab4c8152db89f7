/* SPDX-License-Identifier: MIT */
/*
 * One copy that a program asked its driver for: whether it could be shared, its name in the
 * table where jobs probe for it, and the sharing itself.
 */
#include "hooks/cuda/copy.h"

#include "hooks/cuda/cost.h"
#include "hooks/cuda/gpu.h"
#include "leader/group/attach.h"
#include "leader/object/killpoint.h"
#include "shim/hash.h"
#include "shim/identity.h"
#include "shim/sys.h"

#include <stdlib.h>
#include <string.h>

#define DRIVER(symbol) TS_CUDA_DRIVER(symbol)

/*
 * One in so many copies leaves a hint: a lone job pays for it, and a second job can wait.  More
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

/* Of the beginning and of the end of a source, which are part of its name. */
#define ENDS_BYTES ((size_t)4096)

#define ANY_GPU UINT32_MAX

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

/* ---- in the stream of a copy ---------------------------------------------------------------
 */

static ts_cu_result within(const struct ts_copy *copy, ts_cu_pointer to, ts_cu_pointer from)
{
	return TS_COPY_DRIVER(copy, cuMemcpyDtoDAsync_v2)(to, from, copy->bytes, copy->stream);
}

static ts_cu_result synchronize(const struct ts_copy *copy)
{
	return TS_COPY_DRIVER(copy, cuStreamSynchronize)(copy->stream);
}

/* Asking is forbidden while others capture, and would end their capture; in this mode of the
 * thread it is not. */
static bool is_idle(const struct ts_copy *copy)
{
	int mode = TS_CU_CAPTURE_MODE_RELAXED;
	if (DRIVER(cuThreadExchangeStreamCaptureMode)(&mode) != TS_CU_SUCCESS)
		return false;
	ts_cu_result result = TS_COPY_DRIVER(copy, cuStreamQuery)(copy->stream);
	(void)DRIVER(cuThreadExchangeStreamCaptureMode)(&mode);
	return result == TS_CU_SUCCESS;
}

/* Also what streams that do not say otherwise wait for, without having anything themselves. */
static bool is_all_idle(const struct ts_copy *copy)
{
	const struct ts_copy legacy = {.stream = TS_CU_STREAM_LEGACY};
	return is_idle(copy) && !ts_copy_may_be_captured(&legacy) && is_idle(&legacy);
}

/* ---- what copies are called by -------------------------------------------------------------
 */

static struct ts_key key_of(struct ts_hash128 hash)
{
	return (struct ts_key){hash.lo | 1, hash.hi};
}

/* @is tells one kind of names from another; the source adds its length and both ends only. */
static struct ts_key key_by(
	const struct ts_copy *copy, const char *is, const void *what, size_t what_bytes)
{
	const unsigned char *from = (const unsigned char *)(uintptr_t)copy->from;
	uint64_t bytes = copy->bytes;
	struct ts_hasher hasher;
	ts_hasher_init(&hasher);
	ts_hasher_add(&hasher, is, strlen(is));
	ts_hasher_add(&hasher, what, what_bytes);
	ts_hasher_add(&hasher, &bytes, sizeof(bytes));
	ts_hasher_add(&hasher, from, ENDS_BYTES);
	ts_hasher_add(&hasher, from + copy->bytes - ENDS_BYTES, ENDS_BYTES);
	return key_of(ts_hasher_digest(&hasher));
}

/*
 * A hint, never taken for equality.  It is for the @gpu of the group's table, as a job that
 * brings the same to another GPU has no use for a ring on this one; or for ANY_GPU.
 */
static struct ts_key hint_of(const struct ts_copy *copy, uint32_t gpu)
{
	return key_by(copy, "copy hint", &gpu, sizeof(gpu));
}

static struct ts_key name_known(const struct ts_copy *copy)
{
	const struct ts_known *known = copy->known;
	const uint64_t what[] = {known->name[0], known->name[1], known->offset};
	return key_by(copy, "known copy", what, sizeof(what));
}

static struct ts_key name_content(const struct ts_copy *copy)
{
	struct {
		struct ts_hash128 content;
		uint64_t bytes;
	} all = {ts_hash128((const void *)(uintptr_t)copy->from, copy->bytes), copy->bytes};
	return key_of(ts_hash128(&all, sizeof(all)));
}

static enum ts_cost kind_of_cost(const struct ts_copy *copy, enum ts_cost cost)
{
	return ts_copy_is_named(copy) ? TS_COST_KNOWN + cost : cost;
}

/*
 * The name of the bytes that @copy brings: of a known source its name, of another one XXH3-128
 * of all of it, and of both the length.  The time for that is learned.  False: the source no
 * longer holds the bytes of its name.
 */
static bool name(const struct ts_copy *copy, struct ts_key *ret_key)
{
	uint64_t begin = ts_now_ns();
	if (ts_copy_is_named(copy) && !ts_known_holds(copy->known))
		return false;
	*ret_key = ts_copy_is_named(copy) ? name_known(copy) : name_content(copy);
	ts_cost_learn(kind_of_cost(copy, TS_COST_HASH), copy->bytes, ts_now_ns() - begin);
	return true;
}

/* ---- when the source is read ---------------------------------------------------------------
 */

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

/* The work before it in the stream may write the source, so it must not be read before. */
static bool has_to_be_read_late(const struct ts_copy *copy, ts_cu_device device)
{
	return may_be_read_late(copy, device) && !is_all_idle(copy);
}

/*
 * Whether the driver has read the source of @copy, which it was just asked for.  One of a batch
 * says when that is; of another one nobody knows until it is done.  Its stream was idle, so
 * that takes one transfer; the work that another thread puts there may take for ever.
 */
static bool is_read(const struct ts_copy *copy, ts_cu_device device)
{
	_Atomic uint32_t nobody = 0;
	uint64_t begin_ns = ts_now_ns();
	if (copy->part || !may_be_read_late(copy, device))
		return true;
	while (!is_idle(copy)) {
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

/* ---- alone ---------------------------------------------------------------------------------
 */

/*
 * Nobody has a ring yet.  A word in the store tells when another job brings the same.  Its name
 * is a hint only, for hashing everything would cost a lone job dearly.  Half of the words, the
 * same in all jobs, are for jobs on other GPUs as well.
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
	struct ts_key here = hint_of(copy, ts_gpu_number(device));
	struct ts_key anywhere = hint_of(copy, ANY_GPU);
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

/* ---- shared --------------------------------------------------------------------------------
 */

/*
 * The last operation in the stream ends the note's hold when it is done.  A call without a
 * stream waits for it: when that call returns, other streams may use the bytes.  After an error
 * nobody knows what the GPU does, so the hold never ends.
 */
static ts_cu_result end_when_done(const struct sharing *sharing)
{
	const struct ts_copy *copy = sharing->copy;
	struct ts_gpu_note *note = sharing->note;
	ts_cu_result result = copy->async ? TS_COPY_DRIVER(copy, cuEventRecord)(
						    note->note.event, copy->stream)
					  : synchronize(copy);
	if (result != TS_CU_SUCCESS)
		ts_gpu_off(sharing->gpu);
	else if (copy->async)
		ts_gpu_note_enqueued(note);
	else
		ts_gpu_note_end(sharing->gpu, note);
	return result;
}

static bool read_back(const struct ts_copy *copy, void *into)
{
	ts_cu_result result = TS_COPY_DRIVER(copy, cuMemcpyDtoHAsync_v2)(
		(ts_cu_pointer)(uintptr_t)into, copy->to, copy->bytes, copy->stream);
	return synchronize(copy) == TS_CU_SUCCESS && result == TS_CU_SUCCESS;
}

/*
 * Whether what @copy has written, read back in its stream, is its source.  Counts the
 * comparison, with @lease to say of what.  True also where it cannot be told: no memory, or an
 * error of the driver.
 */
static bool is_right(const struct ts_copy *copy, const struct ts_lease *lease)
{
	bool equal = true;
	void *arrived = malloc(copy->bytes);
	if (arrived && read_back(copy, arrived)) {
		equal = memcmp(arrived, (const void *)(uintptr_t)copy->from, copy->bytes) == 0;
		ts_session_count_verified(equal, lease);
	}
	free(arrived);
	return equal;
}

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
		.produce_ns = ts_cost_of(kind_of_cost(copy, TS_COST_OWN), copy->bytes),
		.dataset = sharing->session->dataset};
	ts_cu_pointer from = sharing->gpu->mapping.base + sharing->note->hold.offset;
	TS_KILLPOINT(copy_leased);
	ts_cu_result result = within(copy, copy->to, from);
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
	if (ts_session_verify_this_hit() && !is_right(copy, &lease)) {
		ts_gpu_off(sharing->gpu);
		return ts_bring(copy);
	}
	ts_session_count_shared(TS_KIND_DEVICE, &lease);
	return TS_CU_SUCCESS;
}

/*
 * A source that the driver has read by now is hashed again; one that it reads later is checked
 * when that is done (ts_gpu_note_end()).
 */
static bool is_still(const struct ts_copy *copy, const struct ts_key *key)
{
	struct ts_key now;
	return ts_copy_is_named(copy) ||
	       (name(copy, &now) && now.lo == key->lo && now.hi == key->hi);
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
	ts_cu_result teed = within(copy, gpu->mapping.base + note->hold.offset, copy->to);
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
 * A waiter waits for the producer as long as one transfer takes: a program must not wait for
 * another one longer than for its own copy.  A copy that a busy machine delays more is made
 * twice.  The model says where waiting does not pay (cost.h).
 */
static bool wait_for_them(struct sharing *sharing, const struct ts_device_take *take)
{
	uint64_t most_ns = ts_min_u64(
		ts_cost_of_transfer(sharing->row, sharing->copy->bytes), WAIT_MAX_NS);
	const struct ts_part *part = sharing->copy->part;
	uint64_t *of_batch = part ? part->waited_ns : NULL;
	uint64_t begin_ns = ts_now_ns(), passed_ns = begin_ns - take->since_ns;
	TS_KILLPOINT(copy_waits);
	/* A producer that is late already is stopped, or short of cores. */
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
 * Nobody waits for a copy that its producer has queued behind other work.  A job that can copy
 * at once does so, for all; any other has its own copy.
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
	if (!copy->async && synchronize(copy) != TS_CU_SUCCESS)
		return pass(copy, TS_REASON_COPY_STATE);
	sharing->at_once = !copy->async || is_idle(copy);
	if (sharing->at_once && ts_cost_own_is_due(copy->bytes, ts_copy_is_named(copy)))
		return measure_own(sharing);
	if (!name(copy, &sharing->key))
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

static ts_cu_result share_if_it_pays(const struct ts_copy *copy,
	const struct ts_session *session, ts_cu_device device, ts_cu_context context)
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

/* ---- what could be shared ------------------------------------------------------------------
 */

struct memory {
	unsigned type; /* 0 where the driver knows nothing about it: plain memory of the host */
	unsigned managed;
	int device;
	ts_cu_pointer begin; /* of the allocation, or of the addresses that were reserved */
	size_t bytes;        /* of that, or 0: unknown */
};

/* cuPointerGetAttributes, unlike the call for one attribute, takes any address. */
static bool look_at(ts_cu_pointer address, struct memory *ret_memory)
{
	struct memory memory = {0, 0, -1, 0, 0};
	int wanted[] = {TS_CU_ATTRIBUTE_MEMORY_TYPE, TS_CU_ATTRIBUTE_IS_MANAGED,
		TS_CU_ATTRIBUTE_DEVICE_ORDINAL, TS_CU_ATTRIBUTE_RANGE_START,
		TS_CU_ATTRIBUTE_RANGE_SIZE};
	void *answers[] = {
		&memory.type, &memory.managed, &memory.device, &memory.begin, &memory.bytes};
	if (DRIVER(cuPointerGetAttributes)(TS_ARRAY_SIZE(wanted), wanted, answers, address) !=
		TS_CU_SUCCESS)
		return false;
	*ret_memory = memory;
	return true;
}

/* An event of ours cannot be recorded in a stream of another context.  Default ones are the
 * current one's. */
static bool is_stream_of(const struct ts_copy *copy, ts_cu_context context)
{
	ts_cu_context its = NULL;
	if (!copy->stream || copy->stream == TS_CU_STREAM_LEGACY ||
		copy->stream == TS_CU_STREAM_PER_THREAD)
		return true;
	return DRIVER(cuStreamGetCtx)(copy->stream, &its) == TS_CU_SUCCESS && its == context;
}

/* Both ends of the source: one part of it may have been registered. */
static enum ts_reason source_objection(const struct ts_copy *copy)
{
	struct memory first, last;
	if (ts_copy_is_named(copy))
		return TS_REASON_COUNT;
	if (!look_at(copy->from, &first) || !look_at(copy->from + copy->bytes - 1, &last))
		return TS_REASON_COPY_STATE;
	if (first.type == TS_CU_MEMORY_DEVICE || first.managed || last.managed)
		return TS_REASON_COPY_KIND;
	return first.type || last.type ? TS_REASON_COPY_PINNED : TS_REASON_COUNT;
}

/*
 * Whether all of the target is one allocation, that of @to; mapped addresses may be of
 * several, but both ends have to be.  The source of a copy that the driver would refuse is not
 * read: the copy may be longer than the source, with another allocation behind the target.
 */
static bool is_within(const struct ts_copy *copy, const struct memory *to)
{
	struct memory end;
	uint64_t offset = copy->to - to->begin;
	return offset < to->bytes && copy->bytes <= to->bytes - offset &&
	       look_at(copy->to + copy->bytes - 1, &end) && end.type == TS_CU_MEMORY_DEVICE &&
	       end.device == to->device;
}

/*
 * Why @copy cannot be shared; TS_REASON_COUNT where it can, and then the GPU and the context
 * that it is for.  Cheapest question first.
 */
static enum ts_reason objection(
	const struct ts_copy *copy, ts_cu_device *ret_device, ts_cu_context *ret_context)
{
	ts_cu_context context = NULL;
	ts_cu_device device = -1;
	struct memory to;
	if (!ts_cuda_is_complete())
		return TS_REASON_COPY_STATE;
	if (ts_identity_check() == TS_VFORK_CHILD)
		return TS_REASON_VFORK;
	if (ts_copy_may_be_captured(copy))
		return TS_REASON_COPY_STATE;
	if (DRIVER(cuCtxGetCurrent)(&context) != TS_CU_SUCCESS || !context ||
		DRIVER(cuCtxGetDevice)(&device) != TS_CU_SUCCESS)
		return TS_REASON_COPY_STATE;
	if (!ts_gpu_is_proven(device))
		return TS_REASON_COPY_UNPROVEN;
	if (!look_at(copy->to, &to))
		return TS_REASON_COPY_STATE;
	if (to.type != TS_CU_MEMORY_DEVICE || to.managed)
		return TS_REASON_COPY_KIND;
	if (!copy->from || copy->from + copy->bytes < copy->from || !is_within(copy, &to) ||
		to.device != device)
		return TS_REASON_COPY_STATE;
	*ret_device = device;
	*ret_context = context;
	enum ts_reason reason = source_objection(copy);
	if (reason == TS_REASON_COUNT && !is_stream_of(copy, context))
		reason = TS_REASON_COPY_STATE;
	return reason;
}

/*
 * Share @copy, if it can be.  Returns whether that is done, with *ret_result; else *ret_reason
 * says why not.  *ret_device: -1 where that is not known.
 */
static bool try_to_share(const struct ts_copy *copy, enum ts_reason *ret_reason,
	ts_cu_device *ret_device, ts_cu_result *ret_result)
{
	const struct ts_session *session = NULL;
	ts_cu_context context;
	*ret_device = -1;
	*ret_reason = objection(copy, ret_device, &context);
	/* Whatever the stream waits for, in other streams too, may write to it until then. */
	if (*ret_reason == TS_REASON_COUNT && !ts_copy_is_named(copy) && copy->part &&
		copy->part->order == TS_CU_ORDER_STREAM)
		*ret_reason = TS_REASON_COPY_KIND;
	if (*ret_reason == TS_REASON_COUNT)
		session = ts_session_enter(ret_reason);
	if (session)
		*ret_result = share_if_it_pays(copy, session, *ret_device, context);
	return session != NULL;
}

/* The service of a GPU that pinned memory is copied to, where there is some to be pinned. */
static void start_pinning(ts_cu_device device)
{
	enum ts_reason reason;
	const struct ts_session *session = ts_session_enter(&reason);
	if (session)
		ts_gpu_want(session, device);
}

/* From or to a buffer of the hand-over pool. */
static ts_cu_result pinned(struct ts_copy copy)
{
	struct ts_known known;
	enum ts_reason reason;
	ts_cu_device device = -1;
	ts_cu_result result;
	bool is_large = copy.bytes >= TS_COPY_BYTES_MIN, is_complete = ts_cuda_is_complete();
	copy.pinned = true;
	if (!is_large)
		ts_session_count_pass(TS_REASON_COPY_SMALL);
	if (is_complete && DRIVER(cuCtxGetDevice)(&device) == TS_CU_SUCCESS)
		start_pinning(device);
	if (is_large && ts_bring_known(&copy, &known)) {
		copy.known = &known;
		if (try_to_share(&copy, &reason, &device, &result))
			return result;
		copy.known = NULL;
	}
	if (is_large && !copy.back)
		ts_session_count_pass(TS_REASON_COPY_PINNED);
	return ts_bring_followed(
		&copy, !is_complete || (copy.async && ts_copy_may_be_captured(&copy)));
}

ts_cu_result ts_copy(const struct ts_copy *copy)
{
	enum ts_reason reason;
	ts_cu_device device;
	ts_cu_result result;
	if (TS_UNLIKELY(ts_bring_is_pooled(copy)))
		return pinned(*copy);
	if (copy->back)
		return ts_copy_real(copy);
	if (copy->bytes < TS_COPY_BYTES_MIN) {
		ts_session_count_pass(TS_REASON_COPY_SMALL);
		return ts_copy_real(copy);
	}
	if (try_to_share(copy, &reason, &device, &result))
		return result;
	if (reason == TS_REASON_COPY_PINNED && ts_place_is_wanted())
		start_pinning(device);
	ts_session_count_pass(reason);
	return ts_bring(copy);
}
