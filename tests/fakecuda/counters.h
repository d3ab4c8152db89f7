/* SPDX-License-Identifier: MIT */
/*
 * What reached the driver, summed over all processes that name the same file in
 * FAKECUDA_COUNTERS ("%p" in it is the process's number, for one file each).
 *
 * The file says itself what it holds: entries of 64 bytes, a name of up to 55 bytes and NULs,
 * then the count in 8 bytes of this machine's order.  counters.py reads it.  First come the
 * counters of the table, then "call.SYMBOL" for every exported function: calls that came in,
 * those that failed too.  Copies are counted when the driver accepts them.
 */
#ifndef TS_TESTS_FAKECUDA_COUNTERS_H
#define TS_TESTS_FAKECUDA_COUNTERS_H

#include "functions.h"

#include <stdint.h>

/* clang-format off */
#define FAKE_COUNTERS(X) \
	X(H2D_COPIES, h2d_copies) \
	X(H2D_BYTES, h2d_bytes) \
	X(H2D_PAGEABLE, h2d_pageable)          /* of the copies, from memory that is not pinned */ \
	X(H2D_OF_ONE, h2d_of_one)              /* of the copies, of a single byte */ \
	X(H2D_CAPTURED, h2d_captured)          /* recorded in a graph, not among the copies */ \
	X(D2H_COPIES, d2h_copies) \
	X(D2H_BYTES, d2h_bytes) \
	X(D2D_COPIES, d2d_copies)              /* within a device */ \
	X(D2D_BYTES, d2d_bytes) \
	X(PEER_COPIES, peer_copies)            /* between devices */ \
	X(PEER_BYTES, peer_bytes) \
	X(H2H_COPIES, h2h_copies) \
	X(FILLS, fills) \
	X(BATCHES, batches)                    /* cuMemcpyBatchAsync, whatever is in them */ \
	X(GRAPH_LAUNCHES, graph_launches)      /* their copies are counted at each */ \
	X(ALLOCATIONS, allocations) \
	X(ALLOCATED_BYTES, allocated_bytes) \
	X(FREES, frees) \
	X(USED_BYTES, used_bytes)              /* of device memory; the dead never give back */ \
	X(IPC_EXPORTS, ipc_exports) \
	X(IPC_OPENS, ipc_opens)                /* that mapped something */ \
	X(IPC_REOPENS, ipc_reopens)            /* that found it mapped */ \
	X(IPC_CLOSES, ipc_closes) \
	X(FREED_WHILE_OPEN, freed_while_open)  /* another process still had it mapped */ \
	X(POISONED_READS, poisoned_reads)      /* copies from imported memory that was freed */ \
	X(VANISHED_USES, vanished_uses)        /* of memory whose exporter had died, VANISHES */ \
	X(LATE_USES, late_uses)                /* copies that ran after their memory was gone */ \
	X(INJECTED, injected)                  /* errors that FAKECUDA_FAIL asked for */ \
	X(RESOLVED, resolved)                  /* addresses that cuGetProcAddress gave out */ \
	X(LINK_FREE_US, link_free_us)          /* when the link is free, LINK_SHARED */ \
	X(CLOCK_US, clock_us)                  /* what has passed, VIRTUAL_CLOCK */
/* clang-format on */

/* The exported functions, twins too. */
enum fake_call {
#define X(symbol, ...) FAKE_CALL_##symbol,
	FAKE_PLAIN(X) FAKE_PTDS(X) FAKE_PTSZ(X)
#undef X
#define X(symbol, ...) FAKE_CALL_##symbol##_ptds,
		FAKE_PTDS(X)
#undef X
#define X(symbol, ...) FAKE_CALL_##symbol##_ptsz,
			FAKE_PTSZ(X)
#undef X
				FAKE_CALL_COUNT
};

enum fake_counter {
#define X(id, name) FAKE_##id,
	FAKE_COUNTERS(X)
#undef X
		FAKE_COUNTER_COUNT
};

/** Open the file, if one is named. Once, after the settings. Ends the process if it cannot. */
void fake_counters_init(void);

/** Add to a counter. Any thread, any process. */
void fake_count(enum fake_counter id, uint64_t by);

/** What a counter is at. */
uint64_t fake_counted(enum fake_counter id);

/**
 * Take @by of what is used one after another, from @now on or when those before are done.
 * Returns when that ends.  Any thread, any process.
 */
uint64_t fake_reserve(enum fake_counter id, uint64_t now, uint64_t by);

/** Count a call; returns which one it is in this process, from 1. Any thread. */
uint64_t fake_count_call(enum fake_call id);

/** Name of an exported function. */
const char *fake_call_name(enum fake_call id);

#endif
