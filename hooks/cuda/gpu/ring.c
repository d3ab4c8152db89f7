/* SPDX-License-Identifier: MIT */
/* The ring of a GPU: what the service does for it every now and then. */
#include "hooks/cuda/gpu/ring.h"

#include "hooks/cuda/gpu/cost.h"
#include "hooks/cuda/gpu/mapping.h"
#include "hooks/cuda/gpu/offer.h"
#include "hooks/cuda/gpu/peer.h"
#include "hooks/cuda/library.h"
#include "shim/atomic.h"
#include "shim/sys.h"

#define DRIVER(symbol) TS_CUDA_DRIVER(symbol)

/* ---- getting ready ---------------------------------------------------------------------- */

static ts_cu_result make_events(struct ts_gpu *gpu)
{
	ts_cu_result result = TS_CU_SUCCESS;
	for (unsigned i = 0; i < TS_GPU_NOTES && result == TS_CU_SUCCESS; i++)
		result = ts_note_make(&gpu->notes[i].note);
	return result;
}

static bool is_device(ts_cu_device device, int attribute)
{
	int value = 0;
	return DRIVER(cuDeviceGetAttribute)(&value, attribute, device) == TS_CU_SUCCESS &&
	       value != 0;
}

ts_cu_result ts_ring_prepare(struct ts_gpu *gpu, struct ts_device *table)
{
	struct ts_cu_uuid uuid;
	ts_cu_context before;
	/* Where it reads pageable memory as a core does, a hash does not say what it reads. */
	if (is_device(gpu->device, TS_CU_HOST_PAGE_TABLES))
		return TS_CU_NOT_SUPPORTED;
	gpu->reaches_host = is_device(gpu->device, TS_CU_PAGEABLE_ACCESS);
	ts_cu_result result = DRIVER(cuDeviceGetUuid_v2)(&uuid, gpu->device);
	if (result != TS_CU_SUCCESS)
		return result;
	int ring = ts_device_find(table, uuid.bytes);
	if (ring < 0)
		return TS_CU_NOT_SUPPORTED;
	gpu->home = gpu->mapping.ring = (uint32_t)ring;
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

/* ---- what the service does every now and then ------------------------------------------- */

/* The ring that another process has on this GPU. */
static void open_here(struct ts_gpu *gpu, const struct ts_device_owner *owner)
{
	if (gpu->refused == (uint64_t)owner->generation + 1 ||
		owner->slot_count == TS_TRIAL_SLOTS)
		return;
	ts_cu_pointer base = ts_mapping_open(gpu, owner);
	/* Another container, another part of a divided GPU, IPC switched off: own copies. */
	gpu->refused = base ? 0 : (uint64_t)owner->generation + 1;
	if (base)
		ts_mapping_use(gpu, base, owner);
}

static bool is_asked(struct ts_gpu *gpu)
{
	return ts_load_relaxed(&gpu->program.asked) || ts_load_relaxed(&gpu->program.asked_far);
}

/* Whether what is mapped is no longer what @owner (0: it is @r) offers, or ill-shaped. */
static bool is_stale(struct ts_gpu *gpu, int r, const struct ts_device_owner *owner)
{
	if (gpu->offer.closing ||
		(gpu->offer.has_memory && gpu->trial.begin_ns && ts_peer_is_over(gpu)))
		return true;
	if (gpu->offer.has_memory &&
		ts_device_memory_asked_ns(gpu->table, gpu->home) >= gpu->offer.made_ns)
		return true;
	if (!gpu->mapping.base || r == -EBUSY)
		return false;
	if (r < 0 || owner->generation != gpu->mapping.generation)
		return true;
	/* What lost slots keep would not be freed, and we would have no ring at all. */
	return gpu->mapping.mine && owner->lost == 0 &&
	       (!is_asked(gpu) || ts_offer_is_ill_shaped(gpu));
}

/* The process ends: what others offer is closed; what we offer goes with it (gpu.c). */
static void end(struct ts_gpu *gpu)
{
	if (!gpu->offer.has_memory && !ts_mapping_end(gpu))
		return;
	ts_write_release(&gpu->exiting, TS_GPU_EXITED);
	ts_sys_futex_wake(&gpu->exiting);
}

void ts_ring_look(struct ts_gpu *gpu)
{
	struct ts_device_owner owner;
	if (ts_load_acquire(&gpu->exiting)) {
		end(gpu);
		return;
	}
	int r = ts_device_owner(gpu->table, gpu->mapping.ring, &owner);
	(void)ts_mapping_free_aside(gpu);
	/* What is ours goes, and nothing is offered until somebody asks again. */
	if (ts_cost_never_pays()) {
		ts_write_relaxed(&gpu->program.asked, 0);
		ts_write_relaxed(&gpu->program.asked_far, 0);
	}
	if (!gpu->mapping.base && r == -ENODEV && ts_load_relaxed(&gpu->program.asked))
		ts_offer(gpu);
	else if (!gpu->mapping.base && r == 0 && !owner.mine)
		open_here(gpu, &owner);
	else if (!gpu->mapping.base && r == -ENODEV && ts_load_relaxed(&gpu->program.asked_far))
		ts_peer_look(gpu);
	else if (is_stale(gpu, r, &owner))
		(void)ts_mapping_end(gpu);
}

static void give_reference_back(struct ts_gpu *gpu)
{
	if (gpu->retained)
		(void)DRIVER(cuDevicePrimaryCtxRelease_v2)(gpu->device);
	gpu->retained = false;
}

bool ts_ring_give_back(struct ts_gpu *gpu)
{
	if (!ts_mapping_end(gpu) || !ts_mapping_free_aside(gpu))
		return false;
	for (unsigned i = 0; i < TS_GPU_NOTES; i++)
		if (gpu->notes[i].note.event)
			(void)DRIVER(cuEventDestroy_v2)(gpu->notes[i].note.event);
	give_reference_back(gpu);
	return true;
}

/*
 * Of a ring of ours that is withdrawn: what the GPU still does there it does for nobody, and
 * nobody is given a slot of it any more.  So these holds may end, and those of others show.
 */
static void end_own_holds(struct ts_gpu *gpu)
{
	for (unsigned i = 0; i < TS_GPU_NOTES; i++)
		if (ts_load_acquire(&gpu->notes[i].note.state) != TS_NOTE_FREE)
			ts_gpu_note_give_up(gpu, &gpu->notes[i]);
}

/*
 * If our reference is the last one, all that is in the context goes with it, as the program
 * wants it to: our allocation, too, so others must be done with that.  If not, it stays until
 * the context goes.  Holds in the ring of another process stay: there, nobody knows.
 */
bool ts_ring_let_go(struct ts_gpu *gpu)
{
	(void)ts_mapping_is_quiet(gpu);
	if (ts_load_acquire(&gpu->inside) != 0)
		return false;
	if (gpu->offer.has_memory) {
		(void)ts_device_withdraw(gpu->table, gpu->home, 0);
		end_own_holds(gpu);
		if (!ts_mapping_is_withdrawn(gpu) ||
			ts_device_is_mapped(gpu->table, gpu->home, gpu->mapping.generation))
			return false;
		ts_device_memory_end(gpu->table, gpu->home);
		gpu->offer.has_memory = false;
	}
	if (gpu->offer.aside &&
		ts_device_is_mapped(gpu->table, gpu->home, gpu->offer.aside_generation))
		return false;
	give_reference_back(gpu);
	return true;
}
