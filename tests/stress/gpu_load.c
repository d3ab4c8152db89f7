/* SPDX-License-Identifier: MIT */
/* A job that shares copies to a GPU, whose every byte follows from their key. */
#include "gpu_load.h"
#include "shim/atomic.h"
#include "shim/sys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum gpu_command_state { COMMAND_IDLE, COMMAND_QUEUED, COMMAND_DONE };

/** What the handle of the memory says. */
struct gpu_place {
	uint64_t arena, serial;
};

/* ---- bytes ------------------------------------------------------------------------------ */

/* The key of buffer @number, and how many bytes it has: a multiple of 8. */
static struct ts_key gpu_key_of(uint64_t number)
{
	return (struct ts_key){.lo = (number + 1) * UINT64_C(0x9e3779b97f4a7c15), .hi = number};
}

static uint64_t gpu_bytes_of(const struct ts_key *key)
{
	return 1024 + key->lo % (GPU_SLOT_BYTES - 1024) / 8 * 8;
}

static uint64_t word_of(const struct ts_key *key, uint64_t at)
{
	return (key->lo + at) * UINT64_C(0xd6e8feb86659fd93) ^ key->hi;
}

/* Let the words @from .. @to - 1 be those of @key. */
static void gpu_fill(uint64_t *words, uint64_t from, uint64_t to, const struct ts_key *key)
{
	for (uint64_t i = from; i < to; i++)
		words[i] = word_of(key, i);
}

/* Memory of the GPU, and whether it is still what it was in use number @serial. */
static uint64_t *gpu_slot_at(struct gpu_world *world, uint64_t arena, uint64_t offset)
{
	return (uint64_t *)(world->memory[arena] + offset);
}

static bool gpu_is_in_use(struct gpu_world *world, uint64_t arena, uint64_t serial)
{
	return ts_load_acquire(&world->arenas[arena]) == (serial << 1 | 1);
}

/* Something is wrong: say so, remember it. Returns false. */
static bool gpu_complain(struct gpu_world *world, const char *what)
{
	fprintf(stderr, "%s\n", what);
	ts_write_relaxed(&world->wrong, 1);
	return false;
}

/* Twice, because what must not happen is that bytes change while they are leased. */
/* Whether what is held at @at is all of @key; complains if not. */
static bool gpu_verify(struct gpu_world *world, const struct ts_device_hold *hold,
	const struct gpu_place *at, const struct ts_key *key)
{
	const uint64_t *words = gpu_slot_at(world, at->arena, hold->offset);

	if (hold->bytes != gpu_bytes_of(key))
		return gpu_complain(world, "a hit of another size");
	for (int times = 0; times < 2; times++) {
		if (!gpu_is_in_use(world, at->arena, at->serial))
			return gpu_complain(world, "memory in use was freed");
		for (uint64_t i = 0; i < hold->bytes / 8; i++)
			if (words[i] != word_of(key, i))
				return gpu_complain(world, "wrong byte in a slot");
	}
	return true;
}

/* ---- the GPU ---------------------------------------------------------------------------- */

static void copy(struct gpu_world *world, struct gpu_command *command, uint64_t *random)
{
	uint64_t *words = gpu_slot_at(world, command->arena, command->offset);
	uint64_t count = command->bytes / 8;

	for (uint64_t half = 0; half < 2; half++) {
		if (!gpu_is_in_use(world, command->arena, command->serial))
			gpu_complain(world, "a copy into memory that was freed");
		else
			gpu_fill(words, half * count / 2, half ? count : count / 2,
				&command->key);
		if (load_random(random) % 4 == 0)
			usleep((useconds_t)(load_random(random) % 500));
		/* Behind long kernels: then whoever has queued it may be dead for a while. */
		if (load_random(random) % 32 == 0)
			usleep(20000);
	}
	ts_write_release(&command->state, COMMAND_DONE);
}

static int run_gpu(struct gpu_world *world)
{
	uint64_t random = 4711;

	while (!ts_load_acquire(&world->stop)) {
		for (uint32_t i = 0; i < GPU_JOBS * TS_DEVICE_HOLDS; i++) {
			struct gpu_command *command = &world->commands[0][0] + i;
			if (ts_load_acquire(&command->state) == COMMAND_QUEUED &&
				load_random(&random) % 4 != 0)
				copy(world, command, &random);
		}
		usleep(100);
	}
	return 0;
}

struct gpu_world *gpu_world_start(pid_t *ret_gpu)
{
	struct gpu_world *world = mmap(NULL, sizeof(*world), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (world == MAP_FAILED)
		return NULL;
	fflush(stderr);
	*ret_gpu = fork();
	if (*ret_gpu == 0)
		_exit(run_gpu(world));
	return world;
}

bool gpu_world_end(struct gpu_world *world, pid_t gpu)
{
	int status = -1;

	ts_write_release(&world->stop, 1);
	waitpid(gpu, &status, 0);
	return status == 0 && !ts_load_relaxed(&world->wrong);
}

enum gpu_flight_state { FLIGHT_NONE, FLIGHT_PUBLISH, FLIGHT_RELEASE };

#define WAIT_NS  UINT64_C(10000000)
#define DRAIN_NS UINT64_C(30000000000)
#define LEAVE_NS UINT64_C(200000000)

static const uint8_t uuid[TS_DEVICE_UUID] = "stress";

/* ---- the owner -------------------------------------------------------------------------- */

static int64_t allocate(struct gpu_world *world)
{
	for (uint32_t i = 0; i < GPU_ARENAS; i++) {
		uint64_t word = ts_load_relaxed(&world->arenas[i]);
		if (!(word & 1) && ts_cas(&world->arenas[i], &word, word + 3))
			return i;
	}
	return -1;
}

static void deallocate(struct gpu_world *world, int64_t arena)
{
	memset(world->memory[arena], 0xdd, sizeof(world->memory[arena]));
	ts_write_release(
		&world->arenas[arena], ts_load_relaxed(&world->arenas[arena]) & ~UINT64_C(1));
}

static void offer(struct gpu_job *job)
{
	uint8_t handle[TS_DEVICE_HANDLE] = {0};
	struct gpu_place at;
	int64_t arena = job->withdrawn < 0 ? allocate(job->world) : -1;

	if (arena < 0)
		return;
	at.arena = (uint64_t)arena;
	at.serial = ts_load_relaxed(&job->world->arenas[arena]) >> 1;
	memcpy(handle, &at, sizeof(at));
	if (ts_device_offer(job->device, job->ring, handle, GPU_SLOTS, GPU_SLOT_BYTES) == 0)
		ts_add_relaxed(&job->world->offered, 1);
	else
		deallocate(job->world, arena);
}

static void withdraw(struct gpu_job *job, uint64_t timeout_ns)
{
	struct ts_device_owner owner;
	struct gpu_place at;

	if (job->withdrawn < 0) {
		if (ts_device_owner(job->device, job->ring, &owner) < 0 || !owner.mine)
			return;
		memcpy(&at, owner.handle, sizeof(at));
		job->withdrawn = (int64_t)at.arena;
		job->withdrawn_generation = owner.generation;
	}
	int used = ts_device_withdraw(job->device, job->ring, timeout_ns);
	if (used > 0 && ts_device_owner(job->device, job->ring, &owner) == -ENODEV)
		job->withdrawn = -1; /* only lost slots keep the memory: for good */
	/* Not the first time: it is nobody's any more, but somebody had it mapped. */
	if ((used != 0 && used != -ENOENT) ||
		ts_device_is_mapped(job->device, job->ring, job->withdrawn_generation))
		return;
	deallocate(job->world, job->withdrawn);
	job->withdrawn = -1;
	ts_add_relaxed(&job->world->freed, 1);
}

/* Leave no memory behind that somebody maps who is just about to see that it has gone. */
static void withdraw_for_good(struct gpu_job *job)
{
	uint64_t limit = ts_now_ns() + LEAVE_NS;

	withdraw(job, WAIT_NS);
	while (job->withdrawn >= 0 && ts_now_ns() < limit) {
		usleep(1000);
		withdraw(job, 0);
	}
}

/* One thread at a time offers or withdraws. */
static void as_owner(struct gpu_job *job, bool offers)
{
	uint32_t idle = 0;

	if (!ts_cas(&job->owning, &idle, 1))
		return;
	if (offers)
		offer(job);
	else
		withdraw(job, 0);
	ts_write_release(&job->owning, 0);
}

/* ---- mapping ---------------------------------------------------------------------------- */

static bool unmap(struct gpu_job *job)
{
	bool right = job->mapped < 0 ||
		     gpu_is_in_use(job->world, job->mapped_arena, job->mapped_serial) ||
		     gpu_complain(job->world, "memory that is mapped was freed");

	if (job->mapped >= 0)
		ts_device_map_end(job->device, (uint32_t)job->mapped);
	job->mapped = -1;
	return right;
}

static bool map(struct gpu_job *job, const struct ts_device_owner *owner)
{
	struct gpu_place at;

	memcpy(&at, owner->handle, sizeof(at));
	job->mapped = ts_device_map_begin(job->device, job->ring, owner->generation);
	job->mapped_generation = owner->generation;
	job->mapped_arena = at.arena;
	job->mapped_serial = at.serial;
	if (job->mapped == -ESTALE)
		return true;
	if (job->mapped < 0)
		return gpu_complain(job->world, "a map word could not be had");
	return gpu_is_in_use(job->world, at.arena, at.serial) ||
	       gpu_complain(job->world, "memory was freed before it was mapped");
}

/* One thread at a time has @owner's memory mapped, or that of none (NULL), or keeps what was.
 */
static bool follow(struct gpu_job *job, const struct ts_device_owner *owner)
{
	uint32_t idle = 0;
	bool right = true;

	if (!ts_cas(&job->mapping, &idle, 1))
		return true;
	if (!owner || owner->generation != job->mapped_generation || job->mapped < 0) {
		right = unmap(job);
		if (owner && !owner->mine)
			right &= map(job, owner);
	}
	ts_write_release(&job->mapping, 0);
	return right;
}

/* ---- flights ---------------------------------------------------------------------------- */

static void take_off(struct gpu_job *job, const struct ts_device_hold *hold,
	const struct gpu_place *at, const struct ts_key *key, enum gpu_flight_state state,
	uint64_t delay_ns)
{
	struct gpu_flight *flight = &job->flights[hold->index];

	flight->hold = *hold;
	flight->key = *key;
	flight->arena = (uint32_t)at->arena;
	flight->serial = at->serial;
	flight->due_ns = ts_now_ns() + delay_ns;
	ts_write_release(&flight->state, state);
}

static bool publish(struct gpu_job *job, struct ts_device_hold *hold)
{
	int r = ts_device_publish(job->device, hold);

	if (r < 0 && r != -ESTALE)
		return gpu_complain(job->world, "a claim could not be published");
	ts_add_relaxed(r == 0 ? &job->world->published : &job->world->gone, 1);
	return true;
}

static bool land(struct gpu_job *job, struct gpu_flight *flight, uint32_t state)
{
	/* Copied: with the hold its number goes to another thread, and this with it. */
	struct ts_device_hold hold = flight->hold;
	const struct gpu_place at = {flight->arena, flight->serial};
	const struct ts_key key = flight->key;
	/* What was written for a ring that has gone with its owner is in memory still there. */
	bool right = gpu_verify(job->world, &hold, &at, &key);

	ts_write_release(&flight->state, FLIGHT_NONE);
	if (state == FLIGHT_PUBLISH)
		return publish(job, &hold) && right;
	ts_device_release(job->device, &hold);
	return right;
}

bool gpu_job_serve(struct gpu_job *job)
{
	bool right = true;

	for (uint32_t i = 0; i < TS_DEVICE_HOLDS; i++) {
		struct gpu_flight *flight = &job->flights[i];
		uint32_t state = ts_load_acquire(&flight->state);
		if (state == FLIGHT_NONE || ts_now_ns() < flight->due_ns)
			continue;
		if (state == FLIGHT_PUBLISH &&
			ts_load_acquire(&job->world->commands[job->number][i].state) ==
				COMMAND_QUEUED)
			continue;
		right &= land(job, flight, state);
	}
	return right;
}

/* ---- operations ------------------------------------------------------------------------- */

static bool consume(struct gpu_job *job, struct ts_device_hold *hold,
	const struct gpu_place *at, const struct ts_key *key, uint64_t *random)
{
	bool right = gpu_verify(job->world, hold, at, key);

	ts_add_relaxed(&job->world->hits, 1);
	if (load_random(random) % 2)
		take_off(job, hold, at, key, FLIGHT_RELEASE, load_random(random) % 2000000);
	else
		ts_device_release(job->device, hold);
	return right;
}

static bool produce(struct gpu_job *job, struct ts_device_hold *hold,
	const struct gpu_place *at, const struct ts_key *key, uint64_t *random)
{
	struct gpu_command *command = &job->world->commands[job->number][hold->index];

	if (load_random(random) % 16 == 0) {
		ts_device_abandon(job->device, hold);
		return true;
	}
	/* A dead job of our number may have left a copy in this place of the queue. */
	if (load_random(random) % 4 == 0 ||
		ts_load_acquire(&command->state) == COMMAND_QUEUED) {
		gpu_fill(gpu_slot_at(job->world, at->arena, hold->offset), 0, hold->bytes / 8,
			key);
		bool right = gpu_verify(job->world, hold, at, key);
		return publish(job, hold) && right;
	}
	command->arena = (uint32_t)at->arena;
	command->serial = at->serial;
	command->offset = hold->offset;
	command->bytes = hold->bytes;
	command->key = *key;
	ts_write_release(&command->state, COMMAND_QUEUED);
	take_off(job, hold, at, key, FLIGHT_PUBLISH, 0);
	return true;
}

static bool wait_for(struct gpu_job *job, const struct ts_device_take *take)
{
	uint64_t start = ts_now_ns();

	(void)ts_device_wait(job->device, take, WAIT_NS);
	ts_add_relaxed(&job->world->waited, 1);
	if (ts_now_ns() - start > WAIT_NS + LOAD_SLACK_NS)
		return gpu_complain(job->world, "a wait took too long");
	return true;
}

static bool take(struct gpu_job *job, const struct ts_device_owner *owner, uint64_t *random)
{
	static const uint64_t patience[] = {0, 2000000, UINT64_MAX, UINT64_MAX};
	/* The product of two prefers low numbers: some keys are hot, some are evicted. */
	uint64_t a = load_random(random) % job->keys, b = load_random(random) % job->keys;
	const struct ts_key key = gpu_key_of(a * b / job->keys);
	struct ts_device_take got;
	struct gpu_place at;

	memcpy(&at, owner->handle, sizeof(at));
	ts_device_take(job->device, job->ring, owner->generation, &key, gpu_bytes_of(&key),
		patience[load_random(random) % 4], &got);
	switch (got.verdict) {
	case TS_HIT:
		return consume(job, &got.hold, &at, &key, random);
	case TS_CLAIM:
		return produce(job, &got.hold, &at, &key, random);
	case TS_BUSY:
		return wait_for(job, &got);
	case TS_PASS:
		break;
	}
	ts_add_relaxed(&job->world->passed, 1);
	if (got.error == -ENODEV || got.error == -ESTALE || got.error == -ENOBUFS ||
		got.error == -EUSERS || got.error == -EAGAIN)
		return true;
	fprintf(stderr, "%s: ", strerror(-got.error));
	return gpu_complain(job->world, "taking failed");
}

bool gpu_job_operation(struct gpu_job *job, uint64_t *random)
{
	struct ts_device_owner owner;
	int r = ts_device_owner(job->device, job->ring, &owner);

	ts_add_relaxed(&job->world->operations, 1);
	if (r == -ENODEV)
		as_owner(job, true);
	else if (r == -EBUSY || load_random(random) % 1024 == 0)
		as_owner(job, false);
	bool right = r == -EBUSY || follow(job, r == 0 ? &owner : NULL);
	if (r == 0)
		return take(job, &owner, random) && right;
	usleep(50);
	if (r == -ENODEV || r == -EBUSY)
		return right;
	fprintf(stderr, "%s: ", strerror(-r));
	return gpu_complain(job->world, "asking for the owner failed");
}

/* ---- joining and leaving ---------------------------------------------------------------- */

int gpu_job_join(struct gpu_job *job, struct gpu_world *world, const char *group,
	uint64_t ring_bytes, uint32_t number)
{
	memset(job, 0, sizeof(*job));
	job->world = world;
	job->number = number;
	job->keys = 12;
	job->withdrawn = job->mapped = -1;
	int r = load_attach(group, ring_bytes, &job->store);
	if (r == 0)
		r = ts_device_attach(job->store, &job->device);
	if (r == 0)
		r = ts_device_find(job->device, uuid);
	if (r >= 0)
		job->ring = (uint32_t)r;
	else
		ts_store_detach(job->store);
	return r < 0 ? r : 0;
}

bool gpu_job_leave(struct gpu_job *job)
{
	uint64_t limit = ts_now_ns() + DRAIN_NS;
	bool right = true, flying = true;

	while (flying && ts_now_ns() < limit) {
		right &= gpu_job_serve(job);
		flying = false;
		for (uint32_t i = 0; i < TS_DEVICE_HOLDS; i++)
			flying |= ts_load_acquire(&job->flights[i].state) != FLIGHT_NONE;
		usleep(100);
	}
	if (flying)
		right = gpu_complain(job->world, "the GPU does not come to an end");
	right &= unmap(job);
	withdraw_for_good(job);
	ts_store_detach(job->store);
	return right;
}

static bool pair_shares(struct gpu_job *one, struct gpu_job *other)
{
	const struct ts_key key = gpu_key_of(UINT64_C(1) << 40);
	struct ts_device_owner owner;
	struct ts_device_take got;
	struct gpu_place at;

	offer(one);
	if (ts_device_owner(other->device, other->ring, &owner) < 0)
		return gpu_complain(one->world, "fresh pair: no owner");
	memcpy(&at, owner.handle, sizeof(at));
	ts_device_take(one->device, one->ring, owner.generation, &key, gpu_bytes_of(&key),
		UINT64_MAX, &got);
	if (got.verdict != TS_CLAIM)
		return gpu_complain(one->world, "fresh pair: no claim");
	gpu_fill(gpu_slot_at(one->world, at.arena, got.hold.offset), 0, got.hold.bytes / 8,
		&key);
	if (ts_device_publish(one->device, &got.hold) < 0)
		return gpu_complain(one->world, "fresh pair: cannot publish");
	ts_device_take(other->device, other->ring, owner.generation, &key, gpu_bytes_of(&key),
		UINT64_MAX, &got);
	if (got.verdict != TS_HIT)
		return gpu_complain(one->world, "fresh pair: no hit");
	bool right = gpu_verify(one->world, &got.hold, &at, &key);
	ts_device_release(other->device, &got.hold);
	return right;
}

bool gpu_group_is_healthy(struct gpu_world *world, const char *group, uint64_t ring_bytes)
{
	struct gpu_job one, other;

	if (gpu_job_join(&one, world, group, ring_bytes, 0) < 0 ||
		gpu_job_join(&other, world, group, ring_bytes, 1) < 0)
		return gpu_complain(world, "fresh pair: cannot join");
	bool right = pair_shares(&one, &other);
	right &= gpu_job_leave(&other);
	right &= gpu_job_leave(&one);
	return load_group_is_healthy(group, ring_bytes) && right;
}
