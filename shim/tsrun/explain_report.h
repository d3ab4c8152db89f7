/* SPDX-License-Identifier: MIT */
/* The two ways to print what a running job has said of its loaders. */
#ifndef TS_TSRUN_EXPLAIN_REPORT_H
#define TS_TSRUN_EXPLAIN_REPORT_H

#include "leader/line/line.h"
#include "shim/tsrun/decoders.h"
#include "shim/tsrun/json.h"
#include "shim/tsrun/view.h"

#include <stdio.h>

#define TS_EXPLAIN_COMMAND 256u

/** A running job; copies of what was in shared memory. */
struct ts_explain_job {
	const char *group;
	struct ts_ledger *ledger;
	uint32_t row; /* of the job in it */
	uint64_t id;
	char command[TS_EXPLAIN_COMMAND]; /* its words, cut; "" not known */
	struct ts_decoders decoders;
	bool has_table; /* there is a table of loaders that could be read */
	uint32_t count, more;
	struct ts_loader loaders[TS_LOADER_MAX];
	struct ts_apart apart; /* from another job with data that looks the same */
};

/** Print for people on stdout. */
void ts_explain_print(const struct ts_explain_job *job);

/** Print as one object. */
void ts_explain_write(struct ts_json *json, const struct ts_explain_job *job);

#endif
