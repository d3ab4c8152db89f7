/* SPDX-License-Identifier: MIT */
/* The table of reasons, once for all who print or read them. */
#include "shim/reasons.h"

#include <string.h>

const struct ts_reason_row ts_reasons[TS_REASON_COUNT] = {
#define TS_REASON(name, id, text, fix) {id, text, fix},
#include "shim/reasons.def"
};

enum ts_reason ts_reason_find(const char *id)
{
	unsigned i = 0;

	while (i < TS_REASON_COUNT && strcmp(id, ts_reasons[i].id) != 0)
		i++;
	return (enum ts_reason)i;
}

const char *ts_reason_fix(enum ts_reason reason, bool aligned)
{
	if (reason >= TS_REASON_COUNT || !ts_reasons[reason].fix)
		return "";
	if (aligned)
		switch (reason) {
#define TS_REASON_ALIGNED(name, fix) \
	case TS_REASON_##name:       \
		return fix;
#include "shim/reasons.def"
		default:
			break;
		}
	return ts_reasons[reason].fix;
}

enum ts_reason_about ts_reason_about(enum ts_reason reason)
{
	static const struct {
		const char *begin;
		enum ts_reason_about about;
	} rows[] = {
		{"torch_isolated", TS_ABOUT_PROCESS},
		{"torch_locality", TS_ABOUT_ANY}, /* an epoch */
		{"torch_", TS_ABOUT_SAMPLES},
		{"jpeg_", TS_ABOUT_IMAGES},
		{"turbo_", TS_ABOUT_IMAGES},
		{"stage_", TS_ABOUT_FILES},
		{"copy_", TS_ABOUT_COPIES},
	};

	for (unsigned i = 0; reason < TS_REASON_COUNT && i < sizeof(rows) / sizeof(rows[0]);
		i++)
		if (strncmp(ts_reasons[reason].id, rows[i].begin, strlen(rows[i].begin)) == 0)
			return rows[i].about;
	return TS_ABOUT_ANY;
}

bool ts_reason_is_refusal(enum ts_reason reason)
{
	if (reason == TS_REASON_TOO_LARGE)
		return true;
	/* Who takes finds another file: it could be published, and was. */
	return ts_reason_about(reason) == TS_ABOUT_SAMPLES && ts_reasons[reason].fix &&
	       reason != TS_REASON_TORCH_CHANGED;
}
