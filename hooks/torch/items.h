/* SPDX-License-Identifier: MIT */
/*
 * The items of a loader's epochs: which of them an epoch lacks, and which draw of each was the
 * last one.
 *
 * An item is an index, and how often that came before in the epoch: a sampler with weights, or
 * one that draws with replacement, gives an index several times, and each time is an item of
 * its own, with draws of its own, in all epochs.  Items have numbers that stay theirs: the
 * first time of an index is its own number, further ones are numbered as they are met.
 *
 * Memory: 4 bytes and a bit for each index, some 28 bytes for each further time.  Threads: one
 * at a time.
 */
#ifndef TS_HOOKS_TORCH_ITEMS_H
#define TS_HOOKS_TORCH_ITEMS_H

#include "shim/base.h"

/** Of a number: it is that of a further time of an index. */
#define TS_ITEM_AGAIN (UINT32_C(1) << 31)

/** No item; no index and no number is as large. */
#define TS_ITEM_NONE UINT32_MAX

/** Indices are less. */
#define TS_ITEM_INDICES ((int64_t)TS_ITEM_AGAIN - 1)

/** A further time of an index. */
struct ts_item_again {
	uint32_t index, occurrence;
	uint32_t last;  /* as in struct ts_items */
	uint32_t times; /* with occurrence 1: how often the index came again in this epoch */
	bool lacks;
};

/** All 0: there are none. */
struct ts_items {
	/* By index: whether it is lacking, and the last draw that was chosen, + 1. */
	uint64_t *lacks;
	uint32_t *last;
	uint64_t room; /* indices these two are for */
	struct ts_item_again *again;
	uint32_t again_count, again_room;
	uint32_t *places; /* of a hash table: 0 or place in @again, + 1 */
	uint64_t place_count;
};

void ts_items_finish(struct ts_items *items);

/**
 * An epoch of the @count numbers at @indices begins, and lacks all of them.  Their items go to
 * @ret_numbers.  Errors: -ERANGE an index is no such number, and nothing has changed; -ENOMEM
 * this epoch is not to be gone through.
 */
int ts_items_begin(
	struct ts_items *items, const int64_t *indices, uint64_t count, uint32_t *ret_numbers);

/** The last draws that @other's epochs had were had by these, too.  Errors: -ENOMEM. */
int ts_items_learn(struct ts_items *items, const struct ts_items *other);

/** No draw of any item was had. */
void ts_items_forget(struct ts_items *items);

/** The number of the item, or TS_ITEM_NONE; @index may be any number. */
uint32_t ts_items_find(const struct ts_items *items, uint64_t index, uint32_t occurrence);

/** Index and occurrence of item @number. */
void ts_items_name(const struct ts_items *items, uint32_t number, uint32_t *ret_index,
	uint32_t *ret_occurrence);

/** Whether the epoch lacks item @number. */
bool ts_items_lack(const struct ts_items *items, uint32_t number);

/** The last draw of item @number that came, + 1. */
uint32_t ts_items_last(const struct ts_items *items, uint32_t number);

/** Item @number comes, with @draw. */
void ts_items_come(struct ts_items *items, uint32_t number, uint32_t draw);

#endif
