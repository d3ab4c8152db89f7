/* SPDX-License-Identifier: MIT */
/*
 * The only place that names memory orders.  An atomic store is called a write here: the store
 * is what jobs share (ts_store_take() and its like).
 *
 * Every use outside carries a label in a comment ("R1", "A1", ...) that names its partner;
 * the pairs are listed in leader/group/layout.h, beside the states they protect.  Nothing uses
 * sequential consistency by default: ts_fence_full() is the one Dekker fence and each site
 * says which store must be seen before which load.
 */
#ifndef TS_SHIM_ATOMIC_H
#define TS_SHIM_ATOMIC_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define ts_load_relaxed(p)     atomic_load_explicit((p), memory_order_relaxed)
#define ts_load_acquire(p)     atomic_load_explicit((p), memory_order_acquire)
#define ts_write_relaxed(p, v) atomic_store_explicit((p), (v), memory_order_relaxed)
#define ts_write_release(p, v) atomic_store_explicit((p), (v), memory_order_release)
#define ts_add_relaxed(p, v)   atomic_fetch_add_explicit((p), (v), memory_order_relaxed)
#define ts_or_relaxed(p, v)    atomic_fetch_or_explicit((p), (v), memory_order_relaxed)
#define ts_and_release(p, v)   atomic_fetch_and_explicit((p), (v), memory_order_release)
#define ts_sub_relaxed(p, v)   atomic_fetch_sub_explicit((p), (v), memory_order_relaxed)
#define ts_swap_relaxed(p, v)  atomic_exchange_explicit((p), (v), memory_order_relaxed)

/* Strong compare-and-swap, acquire on both outcomes and release on success. */
#define ts_cas(p, expected, desired)             \
	atomic_compare_exchange_strong_explicit( \
		(p), (expected), (desired), memory_order_acq_rel, memory_order_acquire)

/* Store-load fence between one's own announcement and the look at the other side's. */
#define ts_fence_full() atomic_thread_fence(memory_order_seq_cst)

/*
 * ThreadSanitizer sees one process.  Where the order between two of its threads goes through
 * another process, the first says so here: whoever loads @p with acquire comes after it.
 */
#ifdef __SANITIZE_THREAD__
void __tsan_release(void *address); /* from sanitizer/tsan_interface.h */
#define ts_ordered_by_others(p) __tsan_release((void *)(p))
#else
#define ts_ordered_by_others(p) ((void)(p))
#endif

#endif
