/* SPDX-License-Identifier: MIT */
/* What a record may hold: one row per kind, in the order of the counters in the ledger. */
#ifndef TS_LEADER_GROUP_KINDS_H
#define TS_LEADER_GROUP_KINDS_H

#define TS_KINDS(X)                                \
	X(PIXELS, "pixels", "decoded images")      \
	X(SAMPLE, "sample", "finished samples")    \
	X(BYTES, "bytes", "files of slow storage") \
	X(DEVICE, "device", "copies to a GPU")

/* Of BYTES a "produced" one is a file that was copied, a "shared" one an open that was given
 * the copy; what that saved is no CPU time. */

enum ts_kind {
#define TS_X(name, id, text) TS_KIND_##name,
	TS_KINDS(TS_X)
#undef TS_X
		TS_KIND_COUNT
};

/** A row of TS_KINDS: what scripts are told, and people. */
struct ts_kind_row {
	const char *id, *text;
};

/** All of them, by enum ts_kind; constant. */
extern const struct ts_kind_row ts_kinds[TS_KIND_COUNT];

#endif
