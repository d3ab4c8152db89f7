/* SPDX-License-Identifier: MIT */
/*
 * The free order of one iterator of a loader: which item of a shuffled epoch comes next, and of
 * which draw.  A draw is the epoch of the strict order that a sample belongs to.  The process
 * that iterates the loader calls this through ctypes.
 *
 * For each place of the epoch the order chooses
 *   1. the newest record in the ring, as the journal says (leader/journal/journal.h), if this
 *      epoch lacks the item and the loader never had that draw of it;
 *   2. else the next item of the loader's own order that the epoch lacks.  Its draw is the
 *      latest of three epochs: the loader's own, that of the job in front, and the one after
 *      the last draw of the item that the loader had.  So a lone job goes through its own order
 *      with the draws of its own epochs.
 *
 * Several live iterators of one loader have orders beside each other.  Each lacks items of its
 * own, and none takes the draw of an item that another one took last.  (An order forgets what
 * it took before that, in an epoch that the program left.)  An epoch begins with what all
 * orders of earlier epochs had.  What these take later does not change its draws, so a lone job
 * has the same draws however its iterators overlap.
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
