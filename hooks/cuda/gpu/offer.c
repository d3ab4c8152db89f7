/* SPDX-License-Identifier: MIT */
/* The ring of a GPU: offering memory of ours. Service thread only. */
#include "hooks/cuda/gpu/offer.h"

#include "hooks/cuda/gpu/mapping.h"
#include "hooks/cuda/library.h"
#include "shim/atomic.h"
#include "shim/sys.h"

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

/* After a GPU had no room: asking again costs the program's own allocations time. */
#define OFFER_FIRST_NS UINT64_C(1000000000)
#define OFFER_MAX_NS   (64 * OFFER_FIRST_NS)

/* After somebody had no room: a ring would be in the way again. */
#define SHORT_NS UINT64_C(600000000000)

#define DRIVER(symbol) TS_CUDA_DRIVER(symbol)

/* Nobody is known who would reach it. */
static bool is_trial(struct ts_gpu *gpu)
{
	return !ts_load_relaxed(&gpu->program.asked) && !gpu->trial.is_reached;
}

/*
 * How many slots of what size a ring should have, ours going if there is one; 0: nothing
 * recurs, or the GPU has no room to spare for it.
 */
static unsigned shape(struct ts_gpu *gpu, uint64_t *ret_slot_bytes)
{
	size_t available = 0, total = 0;
	if (is_trial(gpu)) {
		*ret_slot_bytes = 2 * GRANULE;
		return TS_TRIAL_SLOTS;
	}
	if (DRIVER(cuMemGetInfo_v2)(&available, &total) != TS_CU_SUCCESS)
		return 0;
	uint64_t ours =
		gpu->offer.has_memory ? gpu->mapping.slot_count * gpu->mapping.slot_bytes : 0;
	uint64_t bytes = ts_min_u64((available + ours) / MEMORY_PART, MEMORY_MAX);
	gpu->offer.most = bytes / SLOTS_MIN / GRANULE * GRANULE;
	uint64_t slot_bytes = ts_align_up(
		ts_sizes_recurring(&gpu->program.sizes, gpu->offer.most, RECURS), GRANULE);
	if (slot_bytes == 0)
		return 0;
	*ret_slot_bytes = slot_bytes;
	return (unsigned)ts_min_u64(bytes / slot_bytes, SLOTS_MAX);
}

bool ts_offer_is_ill_shaped(struct ts_gpu *gpu)
{
	uint32_t met = ts_sizes_met(&gpu->program.sizes);
	uint64_t half = gpu->mapping.slot_bytes / 2, slot_bytes = 0;
	if (met - gpu->offer.judged < JUDGE_EVERY)
		return false;
	gpu->offer.judged = met;
	bool small = ts_sizes_recurring(&gpu->program.sizes, gpu->offer.most, RECURS) >
		     gpu->mapping.slot_bytes;
	bool large =
		gpu->mapping.slot_count < SLOTS_MAX &&
		ts_sizes_recurring(&gpu->program.sizes, gpu->offer.most, RECURS_LESS) <= half;
	if (!small && !large)
		return false;
	/* There may be less room than there was: then it is better than what could be made. */
	unsigned slots = shape(gpu, &slot_bytes);
	return slots > 0 && (slot_bytes > gpu->mapping.slot_bytes ||
				    (slot_bytes <= half && slots > gpu->mapping.slot_count));
}

static bool make_offer(struct ts_gpu *gpu)
{
	struct ts_cu_ipc_handle handle;
	struct ts_device_owner owner;
	ts_cu_pointer base = 0;
	uint64_t slot_bytes = 0;
	bool trial = is_trial(gpu);
	unsigned slots = shape(gpu, &slot_bytes);
	if (slots == 0)
		return false;
	gpu->offer.made_ns = ts_now_ns();
	gpu->trial.begin_ns = trial ? gpu->offer.made_ns : 0;
	gpu->mapping.mine = false;
	/* Said before there is any, so that who finds no room knows of it. */
	int r = ts_device_memory_begin(gpu->table, gpu->home);
	if (r < 0)
		return r == -EEXIST; /* somebody was faster, which is as good */
	if (DRIVER(cuMemAlloc_v2)(&base, slots * slot_bytes) != TS_CU_SUCCESS)
		r = -ENOMEM;
	else if (DRIVER(cuIpcGetMemHandle)(&handle, base) != TS_CU_SUCCESS)
		r = -ENODEV;
	else
		r = ts_device_offer(gpu->table, gpu->home, handle.bytes, slots, slot_bytes);
	if (r < 0) {
		if (base)
			(void)DRIVER(cuMemFree_v2)(base);
		ts_device_memory_end(gpu->table, gpu->home);
		return r == -EEXIST;
	}
	gpu->offer.has_memory = true;
	gpu->mapping.base = base;
	gpu->offer.judged = ts_sizes_met(&gpu->program.sizes);
	(void)ts_device_is_offered(gpu->table, gpu->home, &gpu->mapping.generation);
	if (!trial && ts_device_owner(gpu->table, gpu->home, &owner) == 0 && owner.mine &&
		owner.slot_count == slots && owner.slot_bytes == slot_bytes)
		ts_mapping_use(gpu, base, &owner);
	return true;
}

void ts_offer(struct ts_gpu *gpu)
{
	uint64_t now = ts_now_ns(), asked_ns = ts_device_memory_asked_ns(gpu->table, gpu->home);
	if (now < gpu->offer.again_ns || (asked_ns && now - asked_ns < SHORT_NS) ||
		ts_device_memory_held(gpu->table, gpu->home) ||
		ts_sizes_recurring(&gpu->program.sizes, UINT64_MAX, RECURS) == 0)
		return;
	if (make_offer(gpu)) {
		gpu->offer.wait_ns = 0;
		return;
	}
	gpu->offer.wait_ns = gpu->offer.wait_ns
				     ? ts_min_u64(2 * gpu->offer.wait_ns, OFFER_MAX_NS)
				     : OFFER_FIRST_NS;
	gpu->offer.again_ns = now + gpu->offer.wait_ns;
}
