/* SPDX-License-Identifier: MIT */
/*
 * The ring of a GPU: what the service does for it every now and then.  It offers memory of
 * ours, or maps what another job offers; and gives both back.
 *
 * Jobs on several GPUs bring the same batches as well, mostly one job to each GPU.  Where these
 * reach each other's memory by a link that is faster than the one to the host, one ring will do
 * for all of them: the producer copies a batch from its own GPU to the ring over there, and the
 * others take it from there.  Nothing but the row of the table differs from a ring at home.
 *
 * Whether there is such a link a process can only try, for it may see one GPU alone: it opens
 * the memory, and times copies from there and from pinned memory of its own.  It remembers the
 * answer for that GPU.  To be tried there has to be something, and a ring that nobody reaches
 * is a waste, so first there is a trial of one small slot, which nobody at home uses:
 *
 *   asked from afar, nobody offers ──> trial ──somebody keeps it open──> a ring
 *                                        └──nobody does──> nothing, for ten minutes
 *
 * Of several trials the one in the lowest row stays.
 */
#include "hooks/cuda/gpu.h"

#include "shim/sys.h"

#include <stdlib.h>
#include <string.h>

#define DRIVER(symbol) TS_CUDA_DRIVER(symbol)

/* Others close a ring that is withdrawn when they look next; a process that has not by then is
 * stopped.  Longer than gpu.c waits for us, so that nobody is told of room that there is not.
 */
#define ASIDE_NS UINT64_C(1000000000)

/* Allocations that are shared should be multiples of this (CUDA C Programming Guide, IPC). */
#define GRANULE (UINT64_C(2) << 20)

/* Slots of a ring, and how much of the free memory of a GPU it may take: one part in... */
#define SLOTS_MIN   2u
#define SLOTS_MAX   TS_DEVICE_SLOTS
#define MEMORY_PART 32u
#define MEMORY_MAX  (UINT64_C(2) << 30)

/*
 * A slot is as large as the size that occurs so often among the newest copies.  A ring is made
 * anew with smaller slots when copies above half a slot are rarer than that; between the two it
 * stays.  Copies until the next look: a ring that is made anew is missed for a quarter of a
 * second.
 */
#define RECURS      3u
#define RECURS_LESS 2u
#define JUDGE_EVERY 16u

/* After a GPU had no room: asking again costs the program's own allocations time. */
#define OFFER_FIRST_NS UINT64_C(1000000000)
#define OFFER_MAX_NS   (64 * OFFER_FIRST_NS)

/* After somebody had no room: a ring would be in the way again. */
#define SHORT_NS UINT64_C(600000000000)

/* Enough for a link to show what it can do, and the best of so many. */
#define PROBE_BYTES (UINT64_C(16) << 20)
#define PROBES      3

/* How many times faster than the one from the host a copy has to be. */
#define FASTER 2u

/*
 * Copies until something is offered: who is on the same GPU is heard of by then, as a rule; and
 * the lower rows have a start.
 */
#define FIRST   32u
#define PER_ROW 16u

/* Others look every 50 ms. */
#define TRIAL_NS UINT64_C(2000000000)
#define AGAIN_NS UINT64_C(600000000000)

/* ---- the memory in this process: opened, used, given back -------------------------------- */

/* Use what was opened, or is ours, from now on. */
static void use_mapping(
	struct ts_gpu *gpu, ts_cu_pointer base, const struct ts_device_owner *owner)
{
	gpu->mapping.base = base;
	gpu->mapping.generation = owner->generation;
	gpu->mapping.slot_bytes = owner->slot_bytes;
	gpu->mapping.slot_count = owner->slot_count;
	gpu->mapping.mine = owner->mine;
	if (gpu->said)
		ts_device_map_keep(gpu->table, gpu->said - 1);
	/* Nothing is put in a trial: a job that died there would keep its owner from a ring. */
	if (owner->slot_count == TS_TRIAL_SLOTS)
		return;
	/* The hits in another ring say nothing of this one. */
	ts_write_relaxed(&gpu->program.found.generation, 0);
	/* Pairs with the load in gpu.c. */
	ts_write_release(&gpu->mapped, 1);
}

/*
 * Whether nobody of this process uses the mapping any more; from the first call on nobody
 * begins to.
 */
static bool is_quiet(struct ts_gpu *gpu)
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

/* Another's memory; where the driver does not say that it is closed, nor do we. */
static void close_mapping(struct ts_gpu *gpu, ts_cu_pointer base)
{
	if (DRIVER(cuIpcCloseMemHandle)(base) == TS_CU_SUCCESS)
		unsay(gpu);
}

/* Whether nobody reads or writes what we offered, nor ever will. */
static bool is_withdrawn(struct ts_gpu *gpu)
{
	gpu->offer.closing = true;
	int left = ts_device_withdraw(gpu->table, gpu->home, 0);
	if (left != 0 && left != -ENOENT)
		return false;
	if (!gpu->offer.withdrawn_ns)
		gpu->offer.withdrawn_ns = ts_now_ns();
	return true;
}

/* Memory that was set aside goes when nobody has it mapped any more; false: not yet. */
static bool free_aside(struct ts_gpu *gpu)
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
	if (!is_withdrawn(gpu))
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

/* The mapping goes, or the ring that we offer; false: not yet. */
static bool end_mapping(struct ts_gpu *gpu)
{
	if (!gpu->mapping.base)
		return true;
	/* From here on there is no way back, for is_quiet() takes the mapping away. */
	gpu->offer.closing = gpu->offer.has_memory;
	if (!is_quiet(gpu))
		return false;
	if (!gpu->offer.has_memory)
		close_mapping(gpu, gpu->mapping.base);
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

/* Open what @owner offers in row gpu->mapping.ring, and say so; 0: it cannot be. */
static ts_cu_pointer open_mapping(struct ts_gpu *gpu, const struct ts_device_owner *owner)
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
	close_mapping(gpu, base);
	return 0;
}

/* ---- offering memory of ours ------------------------------------------------------------- */

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

/* Whether what recurs finds no slot of ours that is large enough, or too few far too large. */
static bool is_ill_shaped(struct ts_gpu *gpu)
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
	/* Said before there is any, so that a program without room knows of it. */
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
		use_mapping(gpu, base, &owner);
	return true;
}

/* Offer memory of ours, if there is some to spare and it is time. */
static void offer(struct ts_gpu *gpu)
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

/* ---- a path to another GPU --------------------------------------------------------------- */

/* The two copies need these. */
struct probe {
	ts_cu_stream stream;
	ts_cu_pointer memory;
	void *host;
	uint64_t bytes;
};

static ts_cu_result probe_init(struct probe *probe, uint64_t bytes)
{
	*probe = (struct probe){.bytes = bytes};
	ts_cu_result result = DRIVER(cuStreamCreate)(&probe->stream, TS_CU_STREAM_NON_BLOCKING);
	if (result == TS_CU_SUCCESS)
		result = DRIVER(cuMemAlloc_v2)(&probe->memory, bytes);
	if (result == TS_CU_SUCCESS)
		result = DRIVER(cuMemHostAlloc)(&probe->host, bytes, 0);
	return result;
}

static void probe_finish(struct probe *probe)
{
	if (probe->stream)
		(void)DRIVER(cuStreamDestroy_v2)(probe->stream);
	if (probe->memory)
		(void)DRIVER(cuMemFree_v2)(probe->memory);
	if (probe->host)
		(void)DRIVER(cuMemFreeHost)(probe->host);
}

/* The best time of a copy from @from by @copy. */
static ts_cu_result time_copies(const struct probe *probe,
	ts_cu_result(*copy) TS_CU_TAKES_copy_async, ts_cu_pointer from, uint64_t *ret_best_ns)
{
	ts_cu_result result = TS_CU_SUCCESS;
	*ret_best_ns = UINT64_MAX;
	/* The first one may have to set the path up. */
	for (int i = 0; i <= PROBES && result == TS_CU_SUCCESS; i++) {
		uint64_t begin = ts_now_ns();
		result = copy(probe->memory, from, probe->bytes, probe->stream);
		if (result == TS_CU_SUCCESS)
			result = DRIVER(cuStreamSynchronize)(probe->stream);
		if (i > 0)
			*ret_best_ns = ts_min_u64(*ret_best_ns, ts_now_ns() - begin);
	}
	return result;
}

/* In a test: paths are worth it, and tried again at once, however busy the machine is. */
static bool is_told_good(void)
{
#ifdef TS_TEST_BUILD
	return getenv("TSSHIM_TEST_PATHS_GOOD") != NULL;
#else
	return false;
#endif
}

/* Whether taking it from @base, which has @bytes, is worth it. */
static bool is_faster(ts_cu_pointer base, uint64_t bytes)
{
	struct probe probe;
	if (!DRIVER(cuMemcpyHtoDAsync_v2))
		return false;
	uint64_t from_there_ns = 0, from_host_ns = 0;
	ts_cu_result result = probe_init(&probe, ts_min_u64(bytes, PROBE_BYTES));
	if (result == TS_CU_SUCCESS)
		result = time_copies(&probe, DRIVER(cuMemcpyHtoDAsync_v2),
			(ts_cu_pointer)(uintptr_t)probe.host, &from_host_ns);
	if (result == TS_CU_SUCCESS)
		result =
			time_copies(&probe, DRIVER(cuMemcpyDtoDAsync_v2), base, &from_there_ns);
	probe_finish(&probe);
	return result == TS_CU_SUCCESS &&
	       (is_told_good() || from_there_ns <= from_host_ns / FASTER);
}

static bool is_offered_still(
	struct ts_gpu *gpu, uint32_t row, const struct ts_device_owner *owner)
{
	uint32_t generation;
	return ts_device_is_offered(gpu->table, row, &generation) &&
	       generation == owner->generation;
}

/*
 * Use the ring of row @row, if the way there is worth it.  An error of one of the calls, as
 * when there is no room to try it, is a path that is not.
 */
static void try_path(struct ts_gpu *gpu, uint32_t row, const struct ts_device_owner *owner)
{
	uint8_t *path = &gpu->trial.paths[row];
	gpu->mapping.ring = row;
	ts_cu_pointer base = open_mapping(gpu, owner);
	if (!base && is_offered_still(gpu, row, owner))
		*path = TS_PATH_BAD;
	else if (base && *path == TS_PATH_UNKNOWN)
		*path = is_faster(base, owner->slot_count * owner->slot_bytes) ? TS_PATH_GOOD
									       : TS_PATH_BAD;
	if (base && *path == TS_PATH_GOOD) {
		/* When it goes there will be another one, as a rule of the same GPU. */
		gpu->trial.far_met = ts_sizes_met(&gpu->program.sizes);
		use_mapping(gpu, base, owner);
		return;
	}
	if (base)
		close_mapping(gpu, base);
	gpu->mapping.ring = gpu->home;
}

/* The lowest row with memory of another process that may be worth the way; or -1. */
static int nearest(struct ts_gpu *gpu, struct ts_device_owner *ret_owner)
{
	uint32_t generation;
	for (uint32_t row = 0; row < TS_DEVICE_RINGS; row++)
		if (row != gpu->home && gpu->trial.paths[row] != TS_PATH_BAD &&
			ts_device_is_offered(gpu->table, row, &generation) &&
			ts_device_owner(gpu->table, row, ret_owner) == 0 && !ret_owner->mine)
			return (int)row;
	return -1;
}

/*
 * Of a GPU without a ring, whose copies may be brought to other ones: look for the ring of one
 * of these that is worth the way, or offer a trial.
 */
static void look_afar(struct ts_gpu *gpu)
{
	struct ts_device_owner owner;
	uint32_t met = ts_sizes_met(&gpu->program.sizes);
	int row = nearest(gpu, &owner);
	if (!gpu->trial.is_far)
		gpu->trial.far_met = met;
	gpu->trial.is_far = true;
	if (row >= 0)
		try_path(gpu, (uint32_t)row, &owner);
	else if (met - gpu->trial.far_met >= FIRST + gpu->home * PER_ROW &&
		 ts_now_ns() >= gpu->trial.again_ns)
		offer(gpu);
}

/* Whether the trial that @gpu offers is over: seen, not needed any more, or in vain. */
static bool is_trial_over(struct ts_gpu *gpu)
{
	struct ts_device_owner owner;
	uint64_t now = ts_now_ns();
	if (ts_device_is_kept(gpu->table, gpu->home, gpu->mapping.generation))
		return gpu->trial.is_reached = true;
	/* While somebody tries the path it is not over, however long that takes. */
	if (now - gpu->trial.begin_ns >= TRIAL_NS &&
		!ts_device_is_mapped(gpu->table, gpu->home, gpu->mapping.generation)) {
		gpu->trial.again_ns = is_told_good() ? now : now + AGAIN_NS;
		return true;
	}
	int row = nearest(gpu, &owner);
	return ts_load_relaxed(&gpu->program.asked) || (row >= 0 && (uint32_t)row < gpu->home);
}

/* ---- getting ready ----------------------------------------------------------------------- */

static ts_cu_result make_events(struct ts_gpu *gpu)
{
	ts_cu_result result = TS_CU_SUCCESS;
	for (unsigned i = 0; i < TS_GPU_NOTES && result == TS_CU_SUCCESS; i++)
		result = ts_note_make(&gpu->notes[i].note);
	return result;
}

ts_cu_result ts_ring_prepare(struct ts_gpu *gpu, struct ts_device *table)
{
	struct ts_cu_uuid uuid;
	ts_cu_context before;
	/* Where it reads pageable memory as a core does, a hash does not say what it reads. */
	if (ts_cuda_device_is(gpu->device, TS_CU_HOST_PAGE_TABLES))
		return TS_CU_NOT_SUPPORTED;
	gpu->reaches_host = ts_cuda_device_is(gpu->device, TS_CU_PAGEABLE_ACCESS);
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

/* ---- every now and then ------------------------------------------------------------------ */

/* The ring that another process has on this GPU. */
static void open_here(struct ts_gpu *gpu, const struct ts_device_owner *owner)
{
	if (gpu->refused == (uint64_t)owner->generation + 1 ||
		owner->slot_count == TS_TRIAL_SLOTS)
		return;
	ts_cu_pointer base = open_mapping(gpu, owner);
	/* Another container, another part of a divided GPU, IPC switched off: own copies. */
	gpu->refused = base ? 0 : (uint64_t)owner->generation + 1;
	if (base)
		use_mapping(gpu, base, owner);
}

static bool is_asked(struct ts_gpu *gpu)
{
	return ts_load_relaxed(&gpu->program.asked) || ts_load_relaxed(&gpu->program.asked_far);
}

/* Whether what is mapped is no longer what @owner (0: it is @r) offers, or ill-shaped. */
static bool is_stale(struct ts_gpu *gpu, int r, const struct ts_device_owner *owner)
{
	if (gpu->offer.closing ||
		(gpu->offer.has_memory && gpu->trial.begin_ns && is_trial_over(gpu)))
		return true;
	if (gpu->offer.has_memory &&
		ts_device_memory_asked_ns(gpu->table, gpu->home) >= gpu->offer.made_ns)
		return true;
	if (!gpu->mapping.base || r == -EBUSY)
		return false;
	if (r < 0 || owner->generation != gpu->mapping.generation)
		return true;
	/* Lost slots would keep the memory from being freed, and we would have no ring at all.
	 */
	return gpu->mapping.mine && owner->lost == 0 && (!is_asked(gpu) || is_ill_shaped(gpu));
}

/* The process ends: a ring of others is closed; one of ours goes with it (gpu.c). */
static void end(struct ts_gpu *gpu)
{
	if (!gpu->offer.has_memory && !end_mapping(gpu))
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
	(void)free_aside(gpu);
	/* Our ring goes, and nothing is offered until somebody asks again. */
	if (ts_cost_never_pays()) {
		ts_write_relaxed(&gpu->program.asked, 0);
		ts_write_relaxed(&gpu->program.asked_far, 0);
	}
	if (!gpu->mapping.base && r == -ENODEV && ts_load_relaxed(&gpu->program.asked))
		offer(gpu);
	else if (!gpu->mapping.base && r == 0 && !owner.mine)
		open_here(gpu, &owner);
	else if (!gpu->mapping.base && r == -ENODEV && ts_load_relaxed(&gpu->program.asked_far))
		look_afar(gpu);
	else if (is_stale(gpu, r, &owner))
		(void)end_mapping(gpu);
}

static void give_reference_back(struct ts_gpu *gpu)
{
	if (gpu->retained)
		(void)DRIVER(cuDevicePrimaryCtxRelease_v2)(gpu->device);
	gpu->retained = false;
}

bool ts_ring_give_back(struct ts_gpu *gpu)
{
	if (!end_mapping(gpu) || !free_aside(gpu))
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
	(void)is_quiet(gpu);
	if (ts_load_acquire(&gpu->inside) != 0)
		return false;
	if (gpu->offer.has_memory) {
		(void)ts_device_withdraw(gpu->table, gpu->home, 0);
		end_own_holds(gpu);
		if (!is_withdrawn(gpu) ||
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
