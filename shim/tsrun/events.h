/* SPDX-License-Identifier: MIT */
/* The event log, as tsrun sees it before a job starts and in the statistics. */
#ifndef TS_TSRUN_EVENTS_H
#define TS_TSRUN_EVENTS_H

#include "leader/events/recorder.h"
#include "shim/tsrun/json.h"

/**
 * Look at the file that @config asks for.  Says what will keep a log from being written; that
 * is no reason not to run.  Errors: -EINVAL there is something else in that place.
 */
int ts_events_judge(const struct ts_config *config);

/** Print what became of the log of the job in row @index, if it is worth a word: "; ...". */
void ts_events_print(struct ts_ledger *ledger, uint32_t index, FILE *out);

/** The same for scripts, as member "events". */
void ts_events_json(struct ts_json *json, struct ts_ledger *ledger, uint32_t index);

#endif
