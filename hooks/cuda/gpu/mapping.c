/* SPDX-License-Identifier: MIT */
/* The memory of a ring in this process: what others offer is opened, and all given back. */
#include "hooks/cuda/gpu/mapping.h"

#include "hooks/cuda/library.h"
#include "shim/atomic.h"
#include "shim/sys.h"

#include <string.h>

/* Others close what is withdrawn when they look next; who does not by then is stopped, or the
 * like.  Longer than gpu.c waits for us, so that nobody is told of room that there is not. */
#define ASIDE_NS UINT64_C(1000000000)

#define DRIVER(symbol) TS_CUDA_DRIVER(symbol)

void ts_mapping_use(struct ts_gpu *gpu, ts_cu_pointer base, const struct ts_device_owner *owner)
{
	gpu->mapping.base = base;
	gpu->mapping.generation = owner->generation;
	gpu->mapping.slot_bytes = owner->slot_bytes;
	gpu->mapping.slot_count = owner->slot_count;
	gpu->mapping.mine = owner->mine;
	if (gpu->said)
		ts_device_map_keep(gpu->table, gpu->said - 1);
	/* Nothing is put in a trial: who died there would keep its owner from a ring for good.
	 */
	if (owner->slot_count == TS_TRIAL_SLOTS)
		return;
	/* What was found in another ring says nothing of this one. */
	ts_write_relaxed(&gpu->program.found.generation, 0);
	/* Pairs with the load in gpu.c. */
	ts_write_release(&gpu->mapped, 1);
}

bool ts_mapping_is_quiet(struct ts_gpu *gpu)
{
	ts_write_relaxed(&gpu->mapped, 0);
	ts_fence_full(); /* before looking who is inside: gpu.c looks the other way round */
	if (ts_load_acquire(&gpu->inside) != 0)
		return false;
	for (unsigned i = 0; i < TS_GPU_NOTES; i++)
		if (ts_load_acquire(&gpu->notes[i].note.state) != TS_NOTE_FREE)
			return false;
	return true;
}

static void unsay(struct ts_gpu *gpu)
{
	ts_device_map_end(gpu->table, gpu->said - 1);
	gpu->said = 0;
}

void ts_mapping_close(struct ts_gpu *gpu, ts_cu_pointer base)
{
	if (DRIVER(cuIpcCloseMemHandle)(base) == TS_CU_SUCCESS)
		unsay(gpu);
}

bool ts_mapping_is_withdrawn(struct ts_gpu *gpu)
{
	gpu->offer.closing = true;
	int left = ts_device_withdraw(gpu->table, gpu->home, 0);
	if (left != 0 && left != -ENOENT)
		return false;
	if (!gpu->offer.withdrawn_ns)
		gpu->offer.withdrawn_ns = ts_now_ns();
	return true;
}

bool ts_mapping_free_aside(struct ts_gpu *gpu)
{
	if (gpu->offer.aside &&
		ts_device_is_mapped(gpu->table, gpu->home, gpu->offer.aside_generation))
		return false;
	if (gpu->offer.aside)
		(void)DRIVER(cuMemFree_v2)(gpu->offer.aside);
	gpu->offer.aside = 0;
	return true;
}

/*
 * Free what we offered.  Memory must not be freed while others have it mapped (cuda.h,
 * cuIpcOpenMemHandle): after a while it is set aside for that.  When the context is to go with
 * all that is in it there is nothing to be had from that.
 */
static bool free_ring(struct ts_gpu *gpu)
{
	if (!ts_mapping_is_withdrawn(gpu))
		return false;
	if (!ts_device_is_mapped(gpu->table, gpu->home, gpu->mapping.generation)) {
		(void)DRIVER(cuMemFree_v2)(gpu->mapping.base);
	} else if (!gpu->offer.aside && ts_load_relaxed(&gpu->state) == TS_GPU_READY &&
		   ts_now_ns() - gpu->offer.withdrawn_ns >= ASIDE_NS) {
		gpu->offer.aside = gpu->mapping.base;
		gpu->offer.aside_generation = gpu->mapping.generation;
	} else {
		return false;
	}
	ts_device_memory_end(gpu->table, gpu->home);
	gpu->offer.has_memory = gpu->offer.closing = false;
	gpu->offer.withdrawn_ns = 0;
	return true;
}

bool ts_mapping_end(struct ts_gpu *gpu)
{
	if (!gpu->mapping.base)
		return true;
	/* From here on there is no way back, for ts_mapping_is_quiet() takes the mapping away.
	 */
	gpu->offer.closing = gpu->offer.has_memory;
	if (!ts_mapping_is_quiet(gpu))
		return false;
	if (!gpu->offer.has_memory)
		ts_mapping_close(gpu, gpu->mapping.base);
	else if (!free_ring(gpu))
		return false;
	gpu->mapping.base = 0;
	gpu->mapping.ring = gpu->home;
	gpu->trial.begin_ns = 0;
	return true;
}

static bool is_as_large(ts_cu_pointer base, const struct ts_device_owner *owner)
{
	ts_cu_pointer begin = 0;
	size_t bytes = 0;
	return DRIVER(cuMemGetAddressRange_v2)(&begin, &bytes, base) == TS_CU_SUCCESS &&
	       begin == base && bytes / owner->slot_bytes >= owner->slot_count;
}

ts_cu_pointer ts_mapping_open(struct ts_gpu *gpu, const struct ts_device_owner *owner)
{
	struct ts_cu_ipc_handle handle;
	ts_cu_pointer base = 0;
	memcpy(handle.bytes, owner->handle, sizeof(handle.bytes));
	int index = ts_device_map_begin(gpu->table, gpu->mapping.ring, owner->generation);
	if (index < 0)
		return 0;
	gpu->said = (uint32_t)index + 1;
	if (DRIVER(cuIpcOpenMemHandle_v2)(&base, handle, TS_CU_IPC_LAZY_PEER_ACCESS) !=
		TS_CU_SUCCESS) {
		unsay(gpu);
		return 0;
	}
	if (is_as_large(base, owner))
		return base;
	ts_mapping_close(gpu, base);
	return 0;
}
