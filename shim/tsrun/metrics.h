/* SPDX-License-Identifier: MIT */
/*
 * The figures of a group, each once: its names, its unit, its meaning, and where it lies.  All
 * forms of `tsrun stats` print the rows of this table (shim/tsrun/report.c).  The reasons not
 * to share have a table of their own, shim/reasons.def.
 */
#ifndef TS_TSRUN_METRICS_H
#define TS_TSRUN_METRICS_H

#include "shim/base.h"

/** What a figure belongs to, and so the struct it lies in. */
enum ts_metric_of {
	TS_OF_TALLY,  /* a data set or job, and a kind of work: struct ts_tally */
	TS_OF_REASON, /* a reason not to share: its word of struct ts_ledger */
	TS_OF_JOBS,   /* the jobs of a group: struct ts_figures */
	TS_OF_RING,   /* struct ts_view_ring */
	TS_OF_GROUP,  /* struct ts_ledger */
	TS_OF_APART,  /* what jobs made apart: struct ts_figures */
	/* From here on nothing is printed where no job asks other nodes. */
	TS_OF_HELPER,  /* struct ts_figures */
	TS_OF_NODES,   /* all nodes together: struct ts_mail_table */
	TS_OF_SAMPLES, /* samples between nodes: struct ts_mail_flow */
	TS_OF_USE,     /* whether nodes fetch what is handed over: struct ts_mail_use */
	TS_OF_NODE,    /* one node: struct ts_mail_peer */
};

enum ts_unit {
	TS_UNIT_COUNT,
	TS_UNIT_BYTES,
	TS_UNIT_TIME,  /* nanoseconds, printed as seconds */
	TS_UNIT_CPU,   /* likewise, of CPU time; not known of files */
	TS_UNIT_UNTIL, /* a time of ts_now_ns(), printed as the seconds until then */
};

/** A row of the table. */
struct ts_metric {
	enum ts_metric_of of;
	enum ts_unit unit;
	size_t at;          /* offset of its word of 64 bits in that struct */
	const char *id;     /* its key in JSON, and its name for people; NULL: in neither */
	const char *metric; /* its name for Prometheus, behind "tsshim_"; NULL: not there */
	const char *meaning;
};

/** What is worked out from several words of shared memory. */
struct ts_figures {
	uint64_t jobs, helpers;                      /* that live */
	uint64_t drawn, alignable, strict, freeable; /* see leader/group/ledger.h */
};

/** All rows, those of a kind together; the table ends with a row without a meaning. */
extern const struct ts_metric ts_metrics[];

/** The next row of @of behind @metric, the first one behind NULL; NULL: there is none. */
const struct ts_metric *ts_metric_next(enum ts_metric_of of, const struct ts_metric *metric);

/** What @metric says of the struct at @base, a copy; 0 where @base is NULL. */
uint64_t ts_metric_value(const struct ts_metric *metric, const void *base);

/** Whether it is printed as seconds. */
static inline bool ts_metric_is_time(const struct ts_metric *metric)
{
	return metric->unit >= TS_UNIT_TIME;
}

#endif
