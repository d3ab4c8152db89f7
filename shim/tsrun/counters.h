/* SPDX-License-Identifier: MIT */
/*
 * What the counters of a group are called and what they mean, for every way to print them; the
 * kinds of work are in leader/group/kinds.h, the reasons not to share in shim/reasons.def.
 */
#ifndef TS_TSRUN_COUNTERS_H
#define TS_TSRUN_COUNTERS_H

/*
 * Of each data set and job, and of each kind of work: struct ts_tally.
 *
 *	 member  printed as  in JSON  for Prometheus  meaning
 */
#define TS_COUNTERS(X)                                                                  \
	X(produced, number, "produced", "made_total", "Results that a job worked out.") \
	X(shared, number, "shared", "taken_total", "Results that were taken instead.")  \
	X(shared_bytes, number, "shared_bytes", "taken_bytes_total",                    \
		"Bytes of what was taken.")                                             \
	X(saved_ns, seconds, "saved_seconds", "saved_cpu_seconds_total",                \
		"CPU time that the producers had spent on what was taken.")

/*
 * Of the whole group: struct ts_ledger.
 *
 *	 member      in JSON       for Prometheus      meaning
 */
#define TS_GROUP_COUNTERS(X)                                             \
	X(verified, "verified", "verified_total",                        \
		"Shared results that were worked out again to compare.") \
	X(mismatched, "mismatched", "mismatched_total", "Those of them that differed.")

#endif
