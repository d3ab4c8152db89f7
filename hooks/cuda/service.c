/* SPDX-License-Identifier: MIT */
/* The thread that looks after the GPUs of this process. */
#include "hooks/cuda/gpu.h"
#include "hooks/cuda/pinned.h"
#include "shim/sys.h"

/* Copies take hundreds of microseconds; rings come and go in seconds. */
#define POLL_NS UINT64_C(50000)
#define IDLE_NS UINT64_C(50000000)
#define LOOK_NS UINT64_C(10000000)

/* ---- one round -------------------------------------------------------------------------- */

/* Every hold whose event has completed is ended. Returns whether some are left. */
static bool end_notes(struct ts_gpu *gpu, ts_cu_result *ret_result)
{
	bool left = false;
	for (unsigned i = 0; i < TS_GPU_NOTES; i++) {
		struct ts_gpu_note *note = &gpu->notes[i];
		if (!ts_note_is_done(&note->note, &left, ret_result))
			continue;
		ts_gpu_note_end(gpu, note);
	}
	return left;
}

/* In the GPU's context. */
static bool look_after(struct ts_gpu *gpu, int state, ts_cu_result *ret_result)
{
	bool left = end_notes(gpu, ret_result);
	if (*ret_result == TS_CU_SUCCESS)
		left |= ts_pinned_serve(gpu, ret_result);
	if (*ret_result != TS_CU_SUCCESS)
		return left;
	if (state == TS_GPU_LEAVING) {
		/* Others take their time to close their mapping; a stopped job takes all. */
		if (!ts_pinned_give_back(gpu) || !ts_ring_give_back(gpu))
			return left;
		ts_write_release(&gpu->state, TS_GPU_OFF);
		ts_sys_futex_wake(&gpu->state);
		return false;
	}
	uint64_t now = ts_now_ns();
	int told = 1;
	/* Taken before the look, so that what is said meanwhile leads to another one. */
	if (ts_cas(&gpu->look, &told, 0) || now - gpu->looked_ns >= LOOK_NS) {
		ts_ring_look(gpu);
		gpu->looked_ns = now;
	}
	return left;
}

/* The table of the group; NULL for now, or for ever. */
static struct ts_device *join(struct ts_store *store)
{
	static struct ts_device *table;
	if (!table && ts_device_attach(store, &table) < 0)
		table = NULL;
	return table;
}

/* After an error, and no call in the context: it would fail as well.  This may take long. */
static void end(struct ts_gpu *gpu)
{
	int ending = TS_GPU_ENDING;
	if (!ts_ring_let_go(gpu))
		return;
	(void)ts_cas(&gpu->state, &ending, TS_GPU_OFF);
	ts_sys_futex_wake(&gpu->state);
}

/* Returns whether to come back soon; *ret_result: not 0 ends all with this GPU. */
static bool serve(struct ts_gpu *gpu, struct ts_store *store, ts_cu_result *ret_result)
{
	int state = ts_load_acquire(&gpu->state), wanted = TS_GPU_WANTED;
	if (state == TS_GPU_WANTED) {
		struct ts_device *table = join(store);
		if (!table)
			return false;
		*ret_result = ts_ring_prepare(gpu, table);
		if (*ret_result == TS_CU_SUCCESS && !ts_cas(&gpu->state, &wanted, TS_GPU_READY))
			(void)ts_ring_give_back(gpu);
		return true;
	}
	if (state == TS_GPU_ENDING)
		end(gpu);
	if (state != TS_GPU_READY && state != TS_GPU_LEAVING)
		return false;
	ts_cu_context context;
	*ret_result = TS_CUDA_DRIVER(cuCtxPushCurrent_v2)(gpu->context);
	if (*ret_result != TS_CU_SUCCESS)
		return false;
	bool left = look_after(gpu, state, ret_result);
	(void)TS_CUDA_DRIVER(cuCtxPopCurrent_v2)(&context);
	return left;
}

/* Nobody shall wait for us. */
static void *end_service(void)
{
	ts_service_ends();
	ts_places_stop();
	return NULL;
}

/*
 * Until the driver says that it is going, as it does when the process ends.  Captures of other
 * threads must not mind us: our calls would end them.
 */
static void *run(void *store)
{
	int mode = TS_CU_CAPTURE_MODE_RELAXED;
	/* Here, for loading takes more stack than a caller's thread may have. */
	if (!ts_cuda_pin() ||
		TS_CUDA_DRIVER(cuThreadExchangeStreamCaptureMode)(&mode) != TS_CU_SUCCESS)
		return end_service();
	for (;;) {
		uint32_t seen = ts_service_woken();
		bool left = false;
		for (unsigned i = 0; i < TS_GPUS; i++) {
			ts_cu_result result = TS_CU_SUCCESS;
			left |= serve(&ts_gpus[i], store, &result);
			if (result == TS_CU_DEINITIALIZED)
				return end_service();
			if (result != TS_CU_SUCCESS)
				ts_gpu_off(&ts_gpus[i]);
		}
		ts_service_sleep(seen, left ? POLL_NS : IDLE_NS, !left);
	}
}

void ts_service_begin(void)
{
	ts_service_is(run);
}
