/* SPDX-License-Identifier: MIT */
/*
 * The free order of one iterator of a loader: which index of a shuffled epoch comes next, and
 * which making (draw) of it.  Called through ctypes by the process that iterates the loader.
 *
 * For each place of the epoch it is
 *   1. of what others made, as the journal says (leader/journal/journal.h), the newest record
 *      that is in the ring, whose item is lacking in this epoch and whose draw of that item
 *      this loader never had;
 *   2. else the next item that is lacking of the loader's own order, drawn for the epoch that
 *      is the latest of its own, of the job in front, and of the one behind the last draw of
 *      the item that this loader had.  So who is alone goes through its own order with the
 *      draws of its own epochs.
 *
 * Iterators of one loader that live at a time have orders beside each other.  Each lacks items
 * of its own, and none takes the draw of an item that another one took last.  (What that took
 * before, in an epoch that was left while this one goes on, is not remembered.)  An epoch
 * begins with what all orders of earlier epochs had; what they take later does not change its
 * own draws, so that a lone job has the same ones however its iterators overlap.
 *
 * An item is an index and its occurrence: how often that index came before
 * (hooks/torch/order.c). Indices are numbers below 2^31 - 1.  Memory: 8 bytes and a bit for
 * each index.  Threads: one at a time.
 */
#ifndef TS_HOOKS_TORCH_ORDER_H
#define TS_HOOKS_TORCH_ORDER_H

#include "shim/base.h"

struct ts_order;

/** From malloc(), beside @beside and its neighbours or NULL; NULL when there is no memory. */
TS_EXPORT struct ts_order *tsshim_order_create(struct ts_order *beside);
/** Its neighbours go on, and begin later epochs without what it had. */
TS_EXPORT void tsshim_order_destroy(struct ts_order *order);

/**
 * Epoch @epoch begins, whose own order are the @count numbers at @indices, which are copied.
 * @tag: whose notes in the journal are meant; 0: nobody's.  An epoch that is not later than
 * another one has the draws of that one anew.  Errors: -ERANGE an index is no such number, and
 * the epoch before goes on; -ENOMEM the epoch is not to be gone through.
 */
TS_EXPORT int tsshim_order_begin(struct ts_order *order, const int64_t *indices, uint64_t count,
	uint32_t epoch, uint64_t tag);

/**
 * The sample of @index, @occurrence and @draw comes now, whatever the rule says: a recording
 * has it.  Errors: -ENOENT that is not lacking in this epoch.
 */
TS_EXPORT int tsshim_order_had(
	struct ts_order *order, int64_t index, uint32_t occurrence, uint32_t draw);

/** The samples with @draw are named by the 16 bytes of @scope, as in tsshim_sample_name(). */
TS_EXPORT void tsshim_order_scope(struct ts_order *order, uint32_t draw, const void *scope);

/** Of *ret_wanted: none. */
#define TS_ORDER_NO_DRAW UINT32_MAX

/**
 * Choose what comes at places @from to before @count of a batch.  Returns how many of the batch
 * are chosen now.  Fewer than @count: with *ret_wanted a draw, that one's scope is to be said
 * first, and the call made again from there; else the epoch is over.
 */
TS_EXPORT uint64_t tsshim_order_choose(struct ts_order *order, uint64_t from, uint64_t count,
	int64_t *ret_indices, uint32_t *ret_occurrences, uint32_t *ret_draws,
	uint32_t *ret_wanted);

#endif
