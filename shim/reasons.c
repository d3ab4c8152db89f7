/* SPDX-License-Identifier: MIT */
/* The table of reasons, once for all who print or read them. */
#include "shim/reasons.h"

#include <string.h>

const struct ts_reason_row ts_reasons[TS_REASON_COUNT] = {
#define TS_X(name, id, text, fix) {id, text, fix},
	TS_REASONS(TS_X)
#undef TS_X
};

enum ts_reason ts_reason_find(const char *id)
{
	unsigned i = 0;

	while (i < TS_REASON_COUNT && strcmp(id, ts_reasons[i].id) != 0)
		i++;
	return (enum ts_reason)i;
}
