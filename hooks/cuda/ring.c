/* SPDX-License-Identifier: MIT */
/* The ring of a GPU: offering memory of ours, mapping that of others. Service thread only. */
#include "hooks/cuda/cost.h"
#include "hooks/cuda/gpu.h"
#include "hooks/cuda/library.h"
#include "shim/atomic.h"
#include "shim/sys.h"

#include <string.h>

/* Allocations that are shared should be multiples of this (CUDA C Programming Guide, IPC). */
#define GRANULE (UINT64_C(2) << 20)

/* Slots of a ring, and how much of the free memory of a GPU it may take: one part in... */
#define SLOTS_MIN   2u
#define SLOTS_MAX   TS_DEVICE_SLOTS
#define MEMORY_PART 32u
#define MEMORY_MAX  (UINT64_C(2) << 30)

/*
 * A slot is as large as what is met so often among the newest copies; and a ring is made anew
 * with smaller slots when what exceeds half of one is met less often than that.  Between the
 * two it stays as it is.  Copies until that is looked at again: a ring that is made anew is
 * missed for a quarter of a second.
 */
#define RECURS      3u
#define RECURS_LESS 2u
#define JUDGE_EVERY 16u

/* Others close what is withdrawn when they look next; who does not by then is stopped, or the
 * like.  Longer than gpu.c waits for us, so that nobody is told of room that there is not. */
#define ASIDE_NS UINT64_C(1000000000)

/* After a GPU had no room: asking again costs the program's own allocations time. */
#define OFFER_FIRST_NS UINT64_C(1000000000)
#define OFFER_MAX_NS   (64 * OFFER_FIRST_NS)

/* After somebody had no room: a ring would be in the way again. */
#define SHORT_NS UINT64_C(600000000000)

#define DRIVER(symbol) TS_CUDA_DRIVER(symbol)

/* ---- getting ready ---------------------------------------------------------------------- */

static ts_cu_result make_events(struct ts_gpu *gpu)
{
	ts_cu_result result = TS_CU_SUCCESS;
	for (unsigned i = 0; i < TS_GPU_NOTES && result == TS_CU_SUCCESS; i++) {
		gpu->notes[i].event = NULL;
		result =
			DRIVER(cuEventCreate)(&gpu->notes[i].event, TS_CU_EVENT_DISABLE_TIMING);
	}
	return result;
}

/* Where the GPU reads pageable memory itself, a hash at the call does not say what it reads. */
static bool reads_host_itself(ts_cu_device device)
{
	int value = 0;
	return DRIVER(cuDeviceGetAttribute)(&value, TS_CU_HOST_PAGE_TABLES, device) ==
		       TS_CU_SUCCESS &&
	       value != 0;
}

ts_cu_result ts_ring_prepare(struct ts_gpu *gpu, struct ts_device *table)
{
	struct ts_cu_uuid uuid;
	ts_cu_context before;
	if (reads_host_itself(gpu->device))
		return TS_CU_NOT_SUPPORTED;
	ts_cu_result result = DRIVER(cuDeviceGetUuid_v2)(&uuid, gpu->device);
	if (result != TS_CU_SUCCESS)
		return result;
	int ring = ts_device_find(table, uuid.bytes);
	if (ring < 0)
		return TS_CU_NOT_SUPPORTED;
	gpu->ring = (uint32_t)ring;
	gpu->table = table;
	gpu->refused = 0;
	gpu->looked_ns = 0;
	result = DRIVER(cuDevicePrimaryCtxRetain)(&gpu->context, gpu->device);
	gpu->retained = result == TS_CU_SUCCESS;
	if (gpu->retained)
		result = DRIVER(cuCtxPushCurrent_v2)(gpu->context);
	if (result == TS_CU_SUCCESS) {
		result = make_events(gpu);
		(void)DRIVER(cuCtxPopCurrent_v2)(&before);
	}
	if (result != TS_CU_SUCCESS)
		(void)ts_ring_give_back(gpu);
	return result;
}

/* ---- mapping ---------------------------------------------------------------------------- */

static void map(struct ts_gpu *gpu, ts_cu_pointer base, const struct ts_device_owner *owner)
{
	gpu->base = base;
	gpu->generation = owner->generation;
	gpu->slot_bytes = owner->slot_bytes;
	gpu->slot_count = owner->slot_count;
	gpu->mine = owner->mine;
	/* Pairs with the load in gpu.c. */
	ts_store_release(&gpu->mapped, 1);
}

/* Whether nobody of this process uses the mapping any more; from the first call on nobody
 * begins to. */
static bool is_quiet(struct ts_gpu *gpu)
{
	ts_store_relaxed(&gpu->mapped, 0);
	ts_fence_full(); /* before looking who is inside: gpu.c looks the other way round */
	if (ts_load_acquire(&gpu->inside) != 0)
		return false;
	for (unsigned i = 0; i < TS_GPU_NOTES; i++)
		if (ts_load_acquire(&gpu->notes[i].state) != TS_NOTE_FREE)
			return false;
	return true;
}

static void unsay(struct ts_gpu *gpu)
{
	ts_device_map_end(gpu->table, gpu->said - 1);
	gpu->said = 0;
}

/* Another's memory; where the driver does not say that it is closed, nor do we. */
static void close_ring(struct ts_gpu *gpu, ts_cu_pointer base)
{
	if (DRIVER(cuIpcCloseMemHandle)(base) == TS_CU_SUCCESS)
		unsay(gpu);
}

/* Whether nobody reads or writes what we offered, nor ever will. */
static bool is_withdrawn(struct ts_gpu *gpu)
{
	gpu->closing = true;
	int left = ts_device_withdraw(gpu->table, gpu->ring, 0);
	if (left != 0 && left != -ENOENT)
		return false;
	if (!gpu->withdrawn_ns)
		gpu->withdrawn_ns = ts_now_ns();
	return true;
}

/* What was set aside goes when nobody has it mapped any more; false: not yet. */
static bool free_aside(struct ts_gpu *gpu)
{
	if (gpu->aside && ts_device_is_mapped(gpu->table, gpu->ring, gpu->aside_generation))
		return false;
	if (gpu->aside)
		(void)DRIVER(cuMemFree_v2)(gpu->aside);
	gpu->aside = 0;
	return true;
}

/*
 * Free what we offered.  Memory must not be freed while others have it mapped (cuda.h,
 * cuIpcOpenMemHandle): after a while it is set aside for that.  When the context is to go with
 * all that is in it there is nothing to be had from that.
 */
static bool free_ring(struct ts_gpu *gpu)
{
	if (!is_withdrawn(gpu))
		return false;
	if (!ts_device_is_mapped(gpu->table, gpu->ring, gpu->generation)) {
		(void)DRIVER(cuMemFree_v2)(gpu->base);
	} else if (!gpu->aside && ts_load_relaxed(&gpu->state) == TS_GPU_READY &&
		   ts_now_ns() - gpu->withdrawn_ns >= ASIDE_NS) {
		gpu->aside = gpu->base;
		gpu->aside_generation = gpu->generation;
	} else {
		return false;
	}
	ts_device_memory_end(gpu->table, gpu->ring);
	gpu->has_memory = gpu->closing = false;
	gpu->withdrawn_ns = 0;
	return true;
}

/* What is mapped or offered goes; false: not yet. */
static bool unmap(struct ts_gpu *gpu)
{
	if (!gpu->base)
		return true;
	/* From here on there is no way back, for is_quiet() takes the mapping away. */
	gpu->closing = gpu->has_memory;
	if (!is_quiet(gpu))
		return false;
	if (!gpu->has_memory)
		close_ring(gpu, gpu->base);
	else if (!free_ring(gpu))
		return false;
	gpu->base = 0;
	return true;
}

static bool is_as_large(ts_cu_pointer base, const struct ts_device_owner *owner)
{
	ts_cu_pointer begin = 0;
	size_t bytes = 0;
	return DRIVER(cuMemGetAddressRange_v2)(&begin, &bytes, base) == TS_CU_SUCCESS &&
	       begin == base && bytes / owner->slot_bytes >= owner->slot_count;
}

static void open_ring(struct ts_gpu *gpu, const struct ts_device_owner *owner)
{
	struct ts_cu_ipc_handle handle;
	ts_cu_pointer base = 0;
	memcpy(handle.bytes, owner->handle, sizeof(handle.bytes));
	if (gpu->refused == (uint64_t)owner->generation + 1)
		return;
	/* Another container, another part of a divided GPU, IPC switched off: own copies. */
	gpu->refused = (uint64_t)owner->generation + 1;
	int index = ts_device_map_begin(gpu->table, gpu->ring, owner->generation);
	if (index < 0)
		return;
	gpu->said = (uint32_t)index + 1;
	if (DRIVER(cuIpcOpenMemHandle_v2)(&base, handle, TS_CU_IPC_LAZY_PEER_ACCESS) !=
		TS_CU_SUCCESS) {
		unsay(gpu);
	} else if (is_as_large(base, owner)) {
		gpu->refused = 0;
		map(gpu, base, owner);
	} else {
		close_ring(gpu, base);
	}
}

/* ---- offering --------------------------------------------------------------------------- */

/*
 * How many slots of what size a ring should have, ours going if there is one; 0: nothing
 * recurs, or the GPU has no room to spare for it.
 */
static unsigned shape(struct ts_gpu *gpu, uint64_t *ret_slot_bytes)
{
	size_t available = 0, total = 0;
	if (DRIVER(cuMemGetInfo_v2)(&available, &total) != TS_CU_SUCCESS)
		return 0;
	uint64_t ours = gpu->has_memory ? gpu->slot_count * gpu->slot_bytes : 0;
	uint64_t bytes = ts_min_u64((available + ours) / MEMORY_PART, MEMORY_MAX);
	gpu->most = bytes / SLOTS_MIN / GRANULE * GRANULE;
	uint64_t slot_bytes =
		ts_align_up(ts_sizes_recurring(&gpu->sizes, gpu->most, RECURS), GRANULE);
	if (slot_bytes == 0)
		return 0;
	*ret_slot_bytes = slot_bytes;
	return (unsigned)ts_min_u64(bytes / slot_bytes, SLOTS_MAX);
}

/* Whether what recurs finds no slot that is large enough, or too few that are far too large. */
static bool is_ill_shaped(struct ts_gpu *gpu)
{
	uint32_t met = ts_sizes_met(&gpu->sizes);
	uint64_t half = gpu->slot_bytes / 2, slot_bytes = 0;
	if (met - gpu->judged < JUDGE_EVERY)
		return false;
	gpu->judged = met;
	bool small = ts_sizes_recurring(&gpu->sizes, gpu->most, RECURS) > gpu->slot_bytes;
	bool large = gpu->slot_count < SLOTS_MAX &&
		     ts_sizes_recurring(&gpu->sizes, gpu->most, RECURS_LESS) <= half;
	if (!small && !large)
		return false;
	/* There may be less room than there was: then it is better than what could be made. */
	unsigned slots = shape(gpu, &slot_bytes);
	return slots > 0 && (slot_bytes > gpu->slot_bytes ||
				    (slot_bytes <= half && slots > gpu->slot_count));
}

static bool make_offer(struct ts_gpu *gpu)
{
	struct ts_cu_ipc_handle handle;
	struct ts_device_owner owner;
	ts_cu_pointer base = 0;
	uint64_t slot_bytes = 0;
	unsigned slots = shape(gpu, &slot_bytes);
	if (slots == 0)
		return false;
	gpu->offered_ns = ts_now_ns();
	/* Said before there is any, so that who finds no room knows of it. */
	int r = ts_device_memory_begin(gpu->table, gpu->ring);
	if (r < 0)
		return r == -EEXIST; /* somebody was faster, which is as good */
	if (DRIVER(cuMemAlloc_v2)(&base, slots * slot_bytes) != TS_CU_SUCCESS)
		r = -ENOMEM;
	else if (DRIVER(cuIpcGetMemHandle)(&handle, base) != TS_CU_SUCCESS)
		r = -ENODEV;
	else
		r = ts_device_offer(gpu->table, gpu->ring, handle.bytes, slots, slot_bytes);
	if (r < 0) {
		if (base)
			(void)DRIVER(cuMemFree_v2)(base);
		ts_device_memory_end(gpu->table, gpu->ring);
		return r == -EEXIST;
	}
	gpu->has_memory = true;
	gpu->base = base;
	gpu->judged = ts_sizes_met(&gpu->sizes);
	(void)ts_device_is_offered(gpu->table, gpu->ring, &gpu->generation);
	if (ts_device_owner(gpu->table, gpu->ring, &owner) == 0 && owner.mine &&
		owner.slot_count == slots && owner.slot_bytes == slot_bytes)
		map(gpu, base, &owner);
	return true;
}

static void offer(struct ts_gpu *gpu)
{
	uint64_t now = ts_now_ns(), asked_ns = ts_device_memory_asked_ns(gpu->table, gpu->ring);
	if (now < gpu->offer_ns || (asked_ns && now - asked_ns < SHORT_NS) ||
		ts_device_memory_held(gpu->table, gpu->ring) ||
		ts_sizes_recurring(&gpu->sizes, UINT64_MAX, RECURS) == 0)
		return;
	if (make_offer(gpu)) {
		gpu->offer_wait_ns = 0;
		return;
	}
	gpu->offer_wait_ns = gpu->offer_wait_ns
				     ? ts_min_u64(2 * gpu->offer_wait_ns, OFFER_MAX_NS)
				     : OFFER_FIRST_NS;
	gpu->offer_ns = now + gpu->offer_wait_ns;
}

/* ---- what the service does every now and then ------------------------------------------- */

/* Whether what is mapped is no longer what @owner (0: it is @r) offers, or ill-shaped. */
static bool is_stale(struct ts_gpu *gpu, int r, const struct ts_device_owner *owner)
{
	if (gpu->closing)
		return true;
	if (gpu->has_memory &&
		ts_device_memory_asked_ns(gpu->table, gpu->ring) >= gpu->offered_ns)
		return true;
	if (!gpu->base || r == -EBUSY)
		return false;
	if (r < 0 || owner->generation != gpu->generation)
		return true;
	/* What lost slots keep would not be freed, and we would have no ring at all. */
	return gpu->mine && owner->lost == 0 &&
	       (!ts_load_relaxed(&gpu->asked) || is_ill_shaped(gpu));
}

/* The process ends: what others offer is closed; what we offer goes with it (gpu.c). */
static void end(struct ts_gpu *gpu)
{
	if (!gpu->has_memory && !unmap(gpu))
		return;
	ts_store_release(&gpu->exiting, TS_GPU_EXITED);
	ts_sys_futex_wake(&gpu->exiting);
}

ts_cu_result ts_ring_look(struct ts_gpu *gpu)
{
	struct ts_device_owner owner;
	if (ts_load_acquire(&gpu->exiting)) {
		end(gpu);
		return TS_CU_SUCCESS;
	}
	int r = ts_device_owner(gpu->table, gpu->ring, &owner);
	(void)free_aside(gpu);
	/* What is ours goes, and nothing is offered until somebody asks again. */
	if (ts_cost_never_pays())
		ts_store_relaxed(&gpu->asked, 0);
	if (!gpu->base && r == -ENODEV && ts_load_relaxed(&gpu->asked))
		offer(gpu);
	else if (!gpu->base && r == 0 && !owner.mine)
		open_ring(gpu, &owner);
	else if (is_stale(gpu, r, &owner))
		(void)unmap(gpu);
	return TS_CU_SUCCESS;
}

static void give_reference_back(struct ts_gpu *gpu)
{
	if (gpu->retained)
		(void)DRIVER(cuDevicePrimaryCtxRelease_v2)(gpu->device);
	gpu->retained = false;
}

bool ts_ring_give_back(struct ts_gpu *gpu)
{
	if (!unmap(gpu) || !free_aside(gpu))
		return false;
	for (unsigned i = 0; i < TS_GPU_NOTES; i++)
		if (gpu->notes[i].event)
			(void)DRIVER(cuEventDestroy_v2)(gpu->notes[i].event);
	give_reference_back(gpu);
	return true;
}

/*
 * Of a ring of ours that is withdrawn: what the GPU still does there it does for nobody, and
 * nobody is given a slot of it any more.  So these holds may end, and those of others show.
 */
static void end_own_holds(struct ts_gpu *gpu)
{
	for (unsigned i = 0; i < TS_GPU_NOTES; i++) {
		struct ts_gpu_note *note = &gpu->notes[i];
		if (ts_load_acquire(&note->state) == TS_NOTE_FREE)
			continue;
		if (note->publish)
			ts_device_abandon(gpu->table, &note->hold);
		else
			ts_device_release(gpu->table, &note->hold);
		ts_gpu_note_drop(note);
	}
}

/*
 * If our reference is the last one, all that is in the context goes with it, as the program
 * wants it to: our allocation, too, so others must be done with that.  If not, it stays until
 * the context goes.  Holds in the ring of another process stay: there, nobody knows.
 */
bool ts_ring_let_go(struct ts_gpu *gpu)
{
	(void)is_quiet(gpu);
	if (ts_load_acquire(&gpu->inside) != 0)
		return false;
	if (gpu->has_memory) {
		(void)ts_device_withdraw(gpu->table, gpu->ring, 0);
		end_own_holds(gpu);
		if (!is_withdrawn(gpu) ||
			ts_device_is_mapped(gpu->table, gpu->ring, gpu->generation))
			return false;
		ts_device_memory_end(gpu->table, gpu->ring);
		gpu->has_memory = false;
	}
	if (gpu->aside && ts_device_is_mapped(gpu->table, gpu->ring, gpu->aside_generation))
		return false;
	give_reference_back(gpu);
	return true;
}
