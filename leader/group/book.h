/* SPDX-License-Identifier: MIT */
/* The ledger's object, as an attached store has it, and the lock of the group. */
#ifndef TS_LEADER_GROUP_BOOK_H
#define TS_LEADER_GROUP_BOOK_H

struct ts_ledger;
struct ts_store;

/**
 * Open the ledger at store->book.path, making it when it is not there, and lock it.
 *
 * Ownership: the store's, until ts_book_leave().  Threads: one at a time per process.
 * Errors: those of ts_store_attach(); -EAGAIN it was held, or replaced, for too long.
 */
int ts_book_enter(struct ts_store *store);

/** Give the ledger back, and its lock with its descriptor. Accepts a store without one. */
void ts_book_leave(struct ts_store *store);

/**
 * Hold what serialises making, replacing and removing what belongs to the group; tried for 50
 * ms.  One thread at a time per process.  Errors: -EAGAIN somebody else holds it; -EBADF.
 */
int ts_store_lock(struct ts_store *store);
void ts_store_unlock(struct ts_store *store);

/** The ledger that belongs to this store; lives as long as the store. */
struct ts_ledger *ts_store_ledger(struct ts_store *store);

#endif
