/* SPDX-License-Identifier: MIT */
/*
 * The GPUs that this process copies to, as the program's threads see them.  Starting the
 * service and waking it is here, too: nothing below the service calls it.
 */
#include "hooks/cuda/gpu.h"

#include "shim/identity.h"
#include "shim/scratch.h"
#include "shim/sys.h"
#include "shim/verdict.h"

#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

/* Giving back waits for copies of other processes that are under way; then we go. */
#define LEAVE_NS  UINT64_C(500000000)
#define FINISH_NS UINT64_C(100000000)

struct ts_gpu ts_gpus[TS_GPUS];

enum { NOT_STARTED, STARTING, STARTED, FAILED };

static _Atomic int started;
static _Atomic uint32_t started_serial; /* of the process: a fork child has no thread */
static _Atomic uint32_t wake;
static _Atomic int asleep;
static ts_service_run *_Atomic service;

void ts_service_is(ts_service_run *run)
{
	ts_write_relaxed(&service, run);
}

/* ---- starting the service ---------------------------------------------------------------- */

typedef int create_call(
	pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *), void *data);

struct search {
	create_call *create;
};

static bool look_in(const struct ts_elf_object *object, void *data)
{
	struct search *search = data;
	search->create = (create_call *)ts_elf_function(object, "pthread_create");
	return search->create != NULL;
}

/* Its symbol is too new for old C libraries where it is in libc.so.6 (tests/abi). */
static bool create_thread(ts_service_run *run, struct ts_store *store)
{
	struct search search = {NULL};
	pthread_attr_t attributes;
	pthread_t thread;
	sigset_t all, old;
	if (!ts_elf_each(look_in, &search) || pthread_attr_init(&attributes) != 0)
		return false;
	(void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
	/* The program's signals are for the program's threads. */
	(void)sigfillset(&all);
	(void)sigprocmask(SIG_SETMASK, &all, &old);
	bool created = search.create(&thread, &attributes, run, store) == 0;
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	(void)pthread_attr_destroy(&attributes);
	return created;
}

bool ts_service_start(const struct ts_session *session)
{
	int state = NOT_STARTED;
	if (!ts_cas(&started, &state, STARTING))
		return state == STARTED && ts_service_is_ours();
	ts_service_run *run = ts_load_relaxed(&service);
	ts_write_relaxed(&started_serial, ts_identity_serial());
	bool created = run && create_thread(run, session->store);
	/* It may have ended already. */
	state = STARTING;
	return ts_cas(&started, &state, created ? STARTED : FAILED) && created;
}

bool ts_service_is_ours(void)
{
	return ts_load_acquire(&started) == STARTED &&
	       ts_load_relaxed(&started_serial) == ts_identity_serial();
}

void ts_service_ends(void)
{
	ts_write_release(&started, FAILED);
}

bool ts_service_has_ended(void)
{
	return ts_load_acquire(&started) == FAILED &&
	       ts_load_relaxed(&started_serial) == ts_identity_serial();
}

/* ---- waking it --------------------------------------------------------------------------- */

void ts_service_wake(void)
{
	ts_add_relaxed(&wake, 1);
	ts_fence_full(); /* woken before looking whether it sleeps */
	if (ts_load_relaxed(&asleep))
		ts_sys_futex_wake(&wake);
}

uint32_t ts_service_woken(void)
{
	return ts_load_acquire(&wake);
}

void ts_service_sleep(uint32_t seen, uint64_t most_ns, bool deep)
{
	ts_write_relaxed(&asleep, deep);
	ts_fence_full(); /* said that we sleep before looking at what woke us */
	if (ts_load_relaxed(&wake) == seen)
		(void)ts_sys_futex_wait(&wake, seen, most_ns);
}

/* ---- copies ----------------------------------------------------------------------------- */

static struct ts_gpu *gpu_of(ts_cu_device device)
{
	return device >= 0 && (unsigned)device < TS_GPUS ? &ts_gpus[device] : NULL;
}

/* ---- whether copies may be shared --------------------------------------------------------
 */

/* Of the verdicts; kept, for the environment may become another. */
static char verdicts[1024];

static bool has_verdicts(void)
{
	struct stat st;
	char *path TS_SCRATCH = ts_scratch();

	_Static_assert(TS_STATE_PATH <= TS_SCRATCH_BYTES, "a path fits into a block");
	if (!path || ts_state_path(TS_VERDICT_NAME, TS_VERDICT_KIND, environ, path) < 0 ||
		strlen(path) >= sizeof(verdicts) || ts_sys_lstat(path, &st) < 0)
		return false;
	memcpy(verdicts, path, strlen(path) + 1);
	return true;
}

bool ts_gpu_begin(void)
{
	return ts_config()->copies == TS_COPIES_ON ||
	       (ts_config()->copies == TS_COPIES_AUTO && has_verdicts());
}

static bool look_for_proof(ts_cu_device device)
{
	struct ts_cu_uuid uuid;
	int cuda = 0;
	char *text TS_SCRATCH = ts_scratch();

	_Static_assert(TS_VERDICT_BYTES <= TS_SCRATCH_BYTES, "a verdict fits into a block");
	return text && TS_CUDA_DRIVER(cuDeviceGetUuid_v2)(&uuid, device) == TS_CU_SUCCESS &&
	       TS_CUDA_DRIVER(cuDriverGetVersion)(&cuda) == TS_CU_SUCCESS &&
	       ts_verdict_read(verdicts, text) == 0 &&
	       ts_verdict_allows(text, uuid.bytes, cuda);
}

bool ts_gpu_is_proven(ts_cu_device device)
{
	struct ts_gpu *gpu = gpu_of(device);

	if (ts_config()->copies == TS_COPIES_ON)
		return true;
	if (!gpu)
		return false;
	int proof = ts_load_relaxed(&gpu->program.proof);
	if (TS_UNLIKELY(proof == TS_PROOF_UNKNOWN)) {
		proof = look_for_proof(device) ? TS_PROOF_YES : TS_PROOF_NO;
		ts_write_relaxed(&gpu->program.proof, proof);
		if (proof == TS_PROOF_NO)
			ts_places_stop(); /* nobody will pin what the pool offers */
	}
	return proof == TS_PROOF_YES;
}

/* ---- having it looked after --------------------------------------------------------------
 */

/* A primary context that nobody uses is not made for our sake. */
static bool has_primary_context(ts_cu_device device)
{
	unsigned flags = 0;
	int active = 0;
	return TS_CUDA_DRIVER(cuDevicePrimaryCtxGetState)(device, &flags, &active) ==
		       TS_CU_SUCCESS &&
	       active;
}

void ts_gpu_want(const struct ts_session *session, ts_cu_device device)
{
	struct ts_gpu *gpu = gpu_of(device);
	int unused = TS_GPU_UNUSED;
	if (!gpu || ts_load_relaxed(&gpu->state) != TS_GPU_UNUSED ||
		!ts_gpu_is_proven(device) || !has_primary_context(device) ||
		!ts_service_start(session))
		return;
	gpu->device = device; /* the same whoever writes it */
	if (ts_cas(&gpu->state, &unused, TS_GPU_WANTED))
		ts_service_wake();
}

/* A ring that is offered while copies are made is mapped at once, not at the next look. */
static void tell_of_ring(struct ts_gpu *gpu)
{
	uint32_t generation;
	if (!ts_device_is_offered(gpu->table, gpu->home, &generation) ||
		ts_load_relaxed(&gpu->program.seen) == (uint64_t)generation + 1)
		return;
	ts_write_relaxed(&gpu->program.seen, (uint64_t)generation + 1);
	ts_write_release(&gpu->look, 1);
	ts_service_wake();
}

struct ts_gpu *ts_gpu_enter(const struct ts_session *session, ts_cu_device device,
	ts_cu_context context, uint64_t bytes, bool *ret_ready)
{
	struct ts_gpu *gpu = gpu_of(device);
	*ret_ready = false;
	if (!gpu)
		return NULL;
	ts_sizes_note(&gpu->program.sizes, bytes);
	int state = ts_load_acquire(&gpu->state);
	if (state == TS_GPU_UNUSED)
		ts_gpu_want(session, device);
	/* Memory of one context is none of another's. */
	if (state != TS_GPU_READY || !ts_service_is_ours() || context != gpu->context)
		return NULL;
	*ret_ready = true;
	ts_add_relaxed(&gpu->inside, 1);
	ts_fence_full(); /* before looking at the mapping: ring.c looks the other way round */
	if (ts_load_acquire(&gpu->mapped) && ts_load_acquire(&gpu->state) == TS_GPU_READY)
		return gpu;
	ts_gpu_exit(gpu);
	tell_of_ring(gpu);
	return NULL;
}

void ts_gpu_exit(struct ts_gpu *gpu)
{
	ts_fence_full(); /* all uses of the mapping first */
	ts_sub_relaxed(&gpu->inside, 1);
}

uint32_t ts_gpu_number(ts_cu_device device)
{
	const struct ts_gpu *gpu = gpu_of(device);
	return gpu ? gpu->home : 0;
}

bool ts_gpu_reaches_host(ts_cu_device device)
{
	const struct ts_gpu *gpu = gpu_of(device);
	return gpu && ts_load_acquire(&gpu->state) == TS_GPU_READY && gpu->reaches_host;
}

/* A job that has met another tells all: one that is always ahead would meet nobody itself. */
static bool has_met(struct ts_gpu *gpu, uint32_t row, bool itself, _Atomic int *asked)
{
	if (itself)
		ts_device_meet(gpu->table, row);
	if (ts_load_relaxed(asked) || !(itself || ts_device_has_met(gpu->table, row)))
		return false;
	ts_write_relaxed(asked, 1);
	return true;
}

void ts_gpu_meet(ts_cu_device device, bool here, bool anywhere)
{
	struct ts_gpu *gpu = gpu_of(device);
	if (!gpu || ts_cost_never_pays())
		return;
	bool asked = has_met(gpu, gpu->home, here, &gpu->program.asked);
	asked |= has_met(gpu, TS_DEVICE_ANY, anywhere, &gpu->program.asked_far);
	if (!asked)
		return;
	ts_write_release(&gpu->look, 1);
	ts_service_wake();
}

/* ---- notes ------------------------------------------------------------------------------ */

struct ts_gpu_note *ts_gpu_note(struct ts_gpu *gpu)
{
	for (unsigned i = 0; i < TS_GPU_NOTES; i++)
		if (ts_note_hold(&gpu->notes[i].note))
			return &gpu->notes[i];
	return NULL;
}

void ts_gpu_note_give_up(struct ts_gpu *gpu, struct ts_gpu_note *note)
{
	if (note->publish)
		ts_device_abandon(gpu->table, &note->hold);
	else
		ts_device_release(gpu->table, &note->hold);
	ts_note_free(&note->note);
}

void ts_gpu_note_end(struct ts_gpu *gpu, struct ts_gpu_note *note)
{
	uint64_t passed_ns = ts_now_ns() - note->begin_ns;
	if (!note->publish) {
		if (note->is_known && note->at_once)
			ts_cost_learn_taken(note->hold.bytes, true, passed_ns, 0);
		ts_gpu_note_give_up(gpu, note);
		return;
	}
	ts_cost_brought(note->hold.bytes, passed_ns, note->at_once);
	/* Only now is it settled what the GPU has read. */
	if (note->is_known && !ts_known_holds(&note->known)) {
		ts_session_count_pass(TS_REASON_COPY_STATE);
		ts_gpu_note_give_up(gpu, note);
		return;
	}
	(void)ts_device_publish(gpu->table, &note->hold);
	ts_note_free(&note->note);
}

void ts_gpu_note_enqueued(struct ts_gpu_note *note)
{
	ts_note_enqueue(&note->note);
	ts_service_wake();
}

/* ---- ends ------------------------------------------------------------------------------- */

void ts_gpu_off(struct ts_gpu *gpu)
{
	int wanted = TS_GPU_WANTED, ready = TS_GPU_READY, leaving = TS_GPU_LEAVING;
	if (!ts_cas(&gpu->state, &wanted, TS_GPU_BROKEN) &&
		!ts_cas(&gpu->state, &ready, TS_GPU_BROKEN))
		(void)ts_cas(&gpu->state, &leaving, TS_GPU_ENDING);
	/* Memory that we offered stays where it is, but nobody begins to use it. */
	if (gpu->table && gpu->offer.has_memory)
		(void)ts_device_withdraw(gpu->table, gpu->home, 0);
	ts_places_stop(); /* the first error ends that as well */
	ts_service_wake();
}

static bool is_leaving(int state)
{
	return state == TS_GPU_LEAVING || state == TS_GPU_ENDING;
}

/* Whether the service has something to give back from now on. */
static bool begin_to_leave(struct ts_gpu *gpu)
{
	int wanted = TS_GPU_WANTED, ready = TS_GPU_READY, broken = TS_GPU_BROKEN;
	/* The service may be getting ready: it undoes that when it finds us gone. */
	if (ts_cas(&gpu->state, &wanted, TS_GPU_OFF))
		return false;
	return ts_cas(&gpu->state, &ready, TS_GPU_LEAVING) ||
	       ts_cas(&gpu->state, &broken, TS_GPU_ENDING) || is_leaving(broken);
}

void ts_gpu_leave(ts_cu_device device, bool resets)
{
	struct ts_gpu *gpu = gpu_of(device);
	if (!gpu || !ts_service_is_ours() || !begin_to_leave(gpu))
		return;
	uint64_t until = ts_now_ns() + LEAVE_NS, now;
	int state;
	ts_service_wake();
	while (is_leaving(state = ts_load_acquire(&gpu->state)) && (now = ts_now_ns()) < until)
		(void)ts_sys_futex_wait(&gpu->state, (uint32_t)state,
			ts_min_u64(until - now, UINT64_C(1000000)));
	/* The rest goes with the context: its addresses may soon be the program's. */
	while (resets && is_leaving(state) && !ts_cas(&gpu->state, &state, TS_GPU_OFF))
		;
}

/* Whether there is memory on @gpu that is worth asking for. */
static bool ask_for_memory(struct ts_gpu *gpu)
{
	if (ts_load_acquire(&gpu->state) != TS_GPU_READY ||
		ts_load_relaxed(&gpu->program.kept) ||
		!ts_device_memory_held(gpu->table, gpu->home))
		return false;
	ts_device_memory_ask_back(gpu->table, gpu->home);
	ts_write_release(&gpu->look, 1);
	return true;
}

static bool wait_for_memory(struct ts_gpu *gpu, uint64_t until)
{
	uint32_t never_woken = 0;
	while (ts_device_memory_held(gpu->table, gpu->home)) {
		if (ts_now_ns() >= until) {
			/* Its owner is stopped, or the GPU does not get done with it. */
			ts_write_relaxed(&gpu->program.kept, 1);
			return false;
		}
		(void)ts_sys_futex_wait(&never_woken, 0, UINT64_C(1000000));
	}
	return true;
}

bool ts_gpu_make_room(void)
{
	bool asked[TS_GPUS], any = false, room = false;
	if (!ts_service_is_ours())
		return false;
	for (unsigned i = 0; i < TS_GPUS; i++)
		any |= asked[i] = ask_for_memory(&ts_gpus[i]);
	if (!any)
		return false;
	ts_service_wake();
	uint64_t until = ts_now_ns() + LEAVE_NS;
	for (unsigned i = 0; i < TS_GPUS; i++)
		room |= asked[i] && wait_for_memory(&ts_gpus[i], until);
	return room;
}

/* Memory of others is closed, or was by the driver, which ended before us. */
static void close_mappings(uint64_t until)
{
	uint64_t now;
	for (unsigned i = 0; i < TS_GPUS; i++)
		if (ts_load_acquire(&ts_gpus[i].state) == TS_GPU_READY) {
			ts_write_release(&ts_gpus[i].exiting, TS_GPU_EXITING);
			ts_write_release(&ts_gpus[i].look, 1);
		}
	ts_service_wake();
	for (unsigned i = 0; i < TS_GPUS; i++)
		while (ts_load_acquire(&ts_gpus[i].exiting) == TS_GPU_EXITING &&
			ts_service_is_ours() && (now = ts_now_ns()) < until)
			(void)ts_sys_futex_wait(&ts_gpus[i].exiting, TS_GPU_EXITING,
				ts_min_u64(until - now, UINT64_C(1000000)));
	for (unsigned i = 0; i < TS_GPUS && ts_service_has_ended(); i++)
		if (ts_gpus[i].said)
			ts_device_map_end(ts_gpus[i].table, ts_gpus[i].said - 1);
}

void ts_gpu_finish(void)
{
	if (!ts_service_is_ours() && !ts_service_has_ended())
		return;
	close_mappings(ts_now_ns() + FINISH_NS);
	uint64_t until = ts_now_ns() + FINISH_NS;
	for (unsigned i = 0; i < TS_GPUS; i++) {
		struct ts_gpu *gpu = &ts_gpus[i];
		if (ts_load_acquire(&gpu->state) == TS_GPU_UNUSED || !gpu->table)
			continue;
		uint64_t now = ts_now_ns();
		/* Not the owner, or still in use: the process ends all the same. */
		(void)ts_device_withdraw(gpu->table, gpu->home, now < until ? until - now : 0);
	}
}
