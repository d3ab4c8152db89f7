/* SPDX-License-Identifier: MIT */
/* Rings that serve other GPUs than the one that has them. */
#include "hooks/cuda/gpu/peer.h"

#include "hooks/cuda/gpu/mapping.h"
#include "hooks/cuda/gpu/offer.h"
#include "hooks/cuda/library.h"
#include "shim/atomic.h"
#include "shim/sys.h"

#include <stdlib.h>
#include <string.h>

#define DRIVER(symbol) TS_CUDA_DRIVER(symbol)

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

/* ---- a path ----------------------------------------------------------------------------- */

/* What the two copies need. */
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

/* The best time of a copy from @from, or from the host where that is 0. */
static ts_cu_result time_copies(
	const struct probe *probe, ts_cu_pointer from, uint64_t *ret_best_ns)
{
	ts_cu_result result = TS_CU_SUCCESS;
	*ret_best_ns = UINT64_MAX;
	/* The first one may have to set the path up. */
	for (int i = 0; i <= PROBES && result == TS_CU_SUCCESS; i++) {
		uint64_t begin = ts_now_ns();
		result = from ? DRIVER(cuMemcpyDtoDAsync_v2)(
					probe->memory, from, probe->bytes, probe->stream)
			      : DRIVER(cuMemcpyHtoDAsync_v2)(probe->memory, probe->host,
					probe->bytes, probe->stream);
		if (result == TS_CU_SUCCESS)
			result = DRIVER(cuStreamSynchronize)(probe->stream);
		if (i > 0)
			*ret_best_ns = ts_min_u64(*ret_best_ns, ts_now_ns() - begin);
	}
	return result;
}

/* In a test: paths are worth it, and tried again at once, whatever a busy machine makes of it.
 */
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
		result = time_copies(&probe, 0, &from_host_ns);
	if (result == TS_CU_SUCCESS)
		result = time_copies(&probe, base, &from_there_ns);
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
	ts_cu_pointer base = ts_mapping_open(gpu, owner);
	if (!base && is_offered_still(gpu, row, owner))
		*path = TS_PATH_BAD;
	else if (base && *path == TS_PATH_UNKNOWN)
		*path = is_faster(base, owner->slot_count * owner->slot_bytes) ? TS_PATH_GOOD
									       : TS_PATH_BAD;
	if (base && *path == TS_PATH_GOOD) {
		/* When it goes there will be another one, as a rule of the same GPU. */
		gpu->trial.far_met = ts_sizes_met(&gpu->program.sizes);
		ts_mapping_use(gpu, base, owner);
		return;
	}
	if (base)
		ts_mapping_close(gpu, base);
	gpu->mapping.ring = gpu->home;
}

/* ---- whose ring ------------------------------------------------------------------------- */

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

void ts_peer_look(struct ts_gpu *gpu)
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
		ts_offer(gpu);
}

bool ts_peer_is_over(struct ts_gpu *gpu)
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
