/* SPDX-License-Identifier: MIT */
/* The GPU, which is a process, its memory, and bytes that follow from their key. */
#include "gpu_world.h"

#include "shim/atomic.h"

#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- bytes ------------------------------------------------------------------------------ */

struct ts_key gpu_key_of(uint64_t number)
{
	return (struct ts_key){.lo = (number + 1) * UINT64_C(0x9e3779b97f4a7c15), .hi = number};
}

uint64_t gpu_bytes_of(const struct ts_key *key)
{
	return 1024 + key->lo % (GPU_SLOT_BYTES - 1024) / 8 * 8;
}

static uint64_t word_of(const struct ts_key *key, uint64_t at)
{
	return (key->lo + at) * UINT64_C(0xd6e8feb86659fd93) ^ key->hi;
}

void gpu_fill(uint64_t *words, uint64_t from, uint64_t to, const struct ts_key *key)
{
	for (uint64_t i = from; i < to; i++)
		words[i] = word_of(key, i);
}

uint64_t *gpu_slot_at(struct gpu_world *world, uint64_t arena, uint64_t offset)
{
	return (uint64_t *)(world->memory[arena] + offset);
}

bool gpu_is_in_use(struct gpu_world *world, uint64_t arena, uint64_t serial)
{
	return ts_load_acquire(&world->arenas[arena]) == (serial << 1 | 1);
}

bool gpu_complain(struct gpu_world *world, const char *what)
{
	fprintf(stderr, "%s\n", what);
	ts_write_relaxed(&world->wrong, 1);
	return false;
}

/* Twice, because what must not happen is that bytes change while they are leased. */
bool gpu_verify(struct gpu_world *world, const struct ts_device_hold *hold,
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
