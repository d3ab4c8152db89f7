/* SPDX-License-Identifier: MIT */
/* How much memory the ring and the copies of files may take on this machine. */
#ifndef TS_LEADER_OBJECT_LIMITS_H
#define TS_LEADER_OBJECT_LIMITS_H

#include "shim/base.h"

/* Of the free space of the file system that a ring lies on. */
#define TS_LIMITS_TMPFS_PERCENT 25u

/**
 * Most bytes this machine lets a ring have now: 25 % of the free space of the file system
 * of @fd, 10 % of the tightest memory cgroup's headroom, 5 % of a finite RLIMIT_AS.
 * @allocated bytes of the ring exist already and count as free.
 */
uint64_t ts_limits_machine(int fd, uint64_t allocated);

/**
 * The same for copies of files, 85 % of it: they lie on the file system of @fd, which is
 * charged to a cgroup where it is shared memory (@in_memory); nothing maps them all.
 */
uint64_t ts_limits_files(int fd, uint64_t allocated, bool in_memory);

/** Whether a file may grow to @bytes here: beyond RLIMIT_FSIZE the kernel sends a signal. */
bool ts_limits_allow_file(uint64_t bytes);

/** 5 % of a finite RLIMIT_AS, or UINT64_MAX. */
uint64_t ts_limits_address_space(void);

/**
 * Smallest headroom of the memory cgroups above us: limit - (usage - clean page cache); with
 * @all the smallest limit, whatever is used of it.  @list is /proc/self/cgroup and @root
 * /sys/fs/cgroup but for tests.  UINT64_MAX: no limit.
 */
uint64_t ts_limits_cgroup(const char *list, const char *root, bool all);

/*
 * Why a ring is as large as it is, for people: this bit where limits allowed no more, and MiB
 * of the memory that the size follows from; 0 of them: it was asked for.
 */
#define TS_RING_CUT (UINT32_C(1) << 31)

/**
 * Bytes of a ring for which @wanted was set, before this machine's limits cut it: those of
 * TS_RING_AUTO follow from the @memory that the job may use.
 */
uint64_t ts_limits_ring(uint64_t wanted, uint64_t memory, uint32_t *ret_why);

/** Bytes of memory that this job may use: of its cgroups, or of the machine. */
uint64_t ts_limits_memory(void);

/** The part of @limit up to which something may still grow. */
uint64_t ts_limits_growth(uint64_t limit);

#endif
