/* SPDX-License-Identifier: MIT */
/* What a running job has said of its loaders, and the two ways to print it. */
#ifndef TS_TSRUN_EXPLAIN_H
#define TS_TSRUN_EXPLAIN_H

#include "leader/line/line.h"
#include "shim/tsrun/json.h"
#include "shim/tsrun/view.h"

#include <limits.h>
#include <stdio.h>

#define TS_DECODERS_MAX    4u
#define TS_EXPLAIN_COMMAND 256u

/** Which decoders of pictures a process has loaded, as its memory map shows. */
struct ts_decoders {
	bool known;     /* the map could be read */
	bool preloaded; /* our library is in it */
	uint32_t shared_count, static_count;
	char shared[TS_DECODERS_MAX][PATH_MAX]; /* libjpeg, as a library */
	char inside[TS_DECODERS_MAX][PATH_MAX]; /* of those known for a libjpeg of their own */
};

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
