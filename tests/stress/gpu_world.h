/* SPDX-License-Identifier: MIT */
/* What a job needs of the GPU that gpu_world_start() made; see gpu_load.h. */
#ifndef TS_TESTS_STRESS_GPU_WORLD_H
#define TS_TESTS_STRESS_GPU_WORLD_H

#include "gpu_load.h"

enum gpu_command_state { COMMAND_IDLE, COMMAND_QUEUED, COMMAND_DONE };

/** What the handle of the memory says. */
struct gpu_place {
	uint64_t arena, serial;
};

/** The key of buffer @number, and how many bytes it has: a multiple of 8. */
struct ts_key gpu_key_of(uint64_t number);
uint64_t gpu_bytes_of(const struct ts_key *key);

/** Let the words @from .. @to - 1 be those of @key. */
void gpu_fill(uint64_t *words, uint64_t from, uint64_t to, const struct ts_key *key);

/** Memory of the GPU, and whether it is still what it was in use number @serial. */
uint64_t *gpu_slot_at(struct gpu_world *world, uint64_t arena, uint64_t offset);
bool gpu_is_in_use(struct gpu_world *world, uint64_t arena, uint64_t serial);

/** Something is wrong: say so, remember it. Returns false. */
bool gpu_complain(struct gpu_world *world, const char *what);

/** Whether what is held at @at is all of @key; complains if not. */
bool gpu_verify(struct gpu_world *world, const struct ts_device_hold *hold,
	const struct gpu_place *at, const struct ts_key *key);

#endif
