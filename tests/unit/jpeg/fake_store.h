/* SPDX-License-Identifier: MIT */
/*
 * Stands in for leader/group/session.h and leader/group/store.h: a store in private memory that
 * always answers at once, and knows at any time what has been taken and not been given back.
 */
#ifndef TS_TESTS_FAKE_STORE_H
#define TS_TESTS_FAKE_STORE_H

#include "leader/group/session.h"

struct fake_store {
	bool on;     /* false: ts_session_enter_for_pixels() has no store */
	bool verify; /* every hit is to be verified */

	unsigned hits, shared, published, abandoned, equal, different;
	unsigned passes[TS_REASON_COUNT];
	unsigned leases, claims; /* open now */
	bool overrun;            /* somebody wrote behind a reservation */
	struct ts_key last_key;  /* that was asked for */
};

extern struct fake_store fake;

/** Forget all records and counts; sharing is on. */
void fake_store_clear(void);

/** The bytes of the last published record, to be damaged by tests. */
uint8_t *fake_store_last(uint64_t *ret_bytes);

#endif
