/* SPDX-License-Identifier: MIT */
/* The table of kinds, once for all who print them. */
#include "leader/group/kinds.h"

const struct ts_kind_row ts_kinds[TS_KIND_COUNT] = {
#define TS_X(name, id, text) {id, text},
	TS_KINDS(TS_X)
#undef TS_X
};
