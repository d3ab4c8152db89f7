/* SPDX-License-Identifier: MIT */
/* The reasons for which work is not shared, by the table shim/reasons.def. */
#ifndef TS_SHIM_REASONS_H
#define TS_SHIM_REASONS_H

#include <stdbool.h>

/* What helps against a reason that costs nothing: part of what is shared, or done on purpose.
 */
#define TS_NOT_LOST ((const char *)0)

enum ts_reason {
#define TS_REASON(name, id, text, fix) TS_REASON_##name,
#include "shim/reasons.def"
	TS_REASON_COUNT
};

/* Counters reserved for reasons in shared memory. */
#define TS_REASON_SLOTS 96

_Static_assert(TS_REASON_COUNT <= TS_REASON_SLOTS, "the ledger has room for 96 reasons");

/** A row of shim/reasons.def; @fix may be "" or TS_NOT_LOST. */
struct ts_reason_row {
	const char *id, *text, *fix;
};

/** All of them, by enum ts_reason; constant. */
extern const struct ts_reason_row ts_reasons[TS_REASON_COUNT];

/** What helps against @reason, in a job that is @aligned or not; "" where nothing does.  Any.
 */
const char *ts_reason_fix(enum ts_reason reason, bool aligned);

/** What a reason is counted for. */
enum ts_reason_about {
	TS_ABOUT_ANY,
	TS_ABOUT_SAMPLES,
	TS_ABOUT_IMAGES,
	TS_ABOUT_FILES,
	TS_ABOUT_COPIES,
	TS_ABOUT_PROCESS, /* once for all that a process does */
};

/** What @reason is counted for, as its id begins.  Threads, fork and signals: any. */
enum ts_reason_about ts_reason_about(enum ts_reason reason);

/** Whether @reason means that a sample cannot be published as it is.  Any, as above. */
bool ts_reason_is_refusal(enum ts_reason reason);

/**
 * The reason with that @id; TS_REASON_COUNT where there is none.
 * Threads, fork and signals: any; neither allocates nor locks.
 */
enum ts_reason ts_reason_find(const char *id);

#endif
