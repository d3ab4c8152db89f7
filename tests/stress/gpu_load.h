/* SPDX-License-Identifier: MIT */
/*
 * A job that shares copies to a GPU, with host memory in the place of the GPU's.
 *
 * The GPU is a process of its own that nobody kills: copies that were queued are done, in two
 * halves and late, also when the process that queued them is dead.  Memory that is freed is
 * overwritten, and a copy into it is an error; so is freeing what another process has mapped.
 */
#ifndef TS_TESTS_STRESS_GPU_LOAD_H
#define TS_TESTS_STRESS_GPU_LOAD_H

#include "load.h"

#include "leader/slots/device.h"

#include <stdatomic.h>
#include <sys/types.h>

#define GPU_JOBS       16
#define GPU_SLOTS      4
#define GPU_SLOT_BYTES 32768u
#define GPU_ARENAS     512 /* those of dead owners are never used again */

/** A copy that was queued. */
struct gpu_command {
	_Atomic uint32_t state; /* enum gpu_command_state */
	uint32_t arena;
	uint64_t serial, offset, bytes;
	struct ts_key key;
};

/** Seen by all processes. */
struct gpu_world {
	_Atomic uint32_t stop, wrong;
	_Atomic uint64_t operations, hits, published, waited, passed, gone, offered, freed;
	_Atomic uint64_t arenas[GPU_ARENAS]; /* number of its use << 1 | in use */
	struct gpu_command commands[GPU_JOBS][TS_DEVICE_HOLDS];
	unsigned char memory[GPU_ARENAS][GPU_SLOTS * GPU_SLOT_BYTES];
};

/** A hold that ends later. */
struct gpu_flight {
	_Atomic uint32_t state; /* enum gpu_flight_state */
	struct ts_device_hold hold;
	struct ts_key key;
	uint32_t arena;
	uint64_t serial;
	uint64_t due_ns;
};

/** One process's part; any of its threads may use it. */
struct gpu_job {
	struct gpu_world *world;
	struct ts_store *store;
	struct ts_device *device;
	uint32_t ring, number; /* row of the GPU; of the job, below GPU_JOBS */
	uint64_t keys;
	_Atomic uint32_t owning; /* a thread offers or withdraws */
	int64_t withdrawn;       /* arena that could not be freed yet, -1: none */
	uint32_t withdrawn_generation;
	_Atomic uint32_t mapping; /* a thread maps or unmaps */
	int mapped;               /* what it said, -1: nothing */
	uint32_t mapped_generation;
	uint64_t mapped_arena, mapped_serial;
	struct gpu_flight flights[TS_DEVICE_HOLDS];
};

/** A world and its GPU, before any other child. NULL: no memory. */
struct gpu_world *gpu_world_start(pid_t *ret_gpu);

/** End the GPU; whether nothing was wrong. */
bool gpu_world_end(struct gpu_world *world, pid_t gpu);

/** Join @group as job @number. Returns -errno. */
int gpu_job_join(struct gpu_job *job, struct gpu_world *world, const char *group,
	uint64_t ring_bytes, uint32_t number);

/**
 * Bring a random buffer to the GPU, by the help of others or for them.  Returns false, after a
 * message, when a byte was wrong or a wait took longer than the deadline and the slack.
 */
bool gpu_job_operation(struct gpu_job *job, uint64_t *random);

/** End the holds that are due; one thread at a time. False as above. */
bool gpu_job_serve(struct gpu_job *job);

/** End all holds, give the ring up, leave. False as above. */
bool gpu_job_leave(struct gpu_job *job);

/** Whether two fresh members share, and nothing of the group is left after them. */
bool gpu_group_is_healthy(struct gpu_world *world, const char *group, uint64_t ring_bytes);

#endif
