/* SPDX-License-Identifier: MIT */
/* What the Python half says for `tsrun stats`. */
#include "hooks/torch/samples.h"
#include "leader/group/session.h"
#include "shim/hash.h"
#include "shim/reasons.h"

#include <string.h>

static const char *const reason_ids[] = {
#define TS_X(name, id, text, fix) id,
	TS_REASONS(TS_X)
#undef TS_X
};

void tsshim_sample_pass(const char *reason, uint32_t count)
{
	enum ts_reason none;
	unsigned i = 0;

	/* A worker that shares nothing would take what it counts along when it ends. */
	(void)ts_session_enter(&none);
	while (i < TS_REASON_COUNT && strcmp(reason, reason_ids[i]) != 0)
		i++;
	for (; i < TS_REASON_COUNT && count > 0; count--)
		ts_session_count_pass((enum ts_reason)i);
}

void tsshim_sample_refused(const char *text)
{
	enum ts_reason none;

	(void)ts_session_enter(&none);
	ts_session_refuse(text);
}

void tsshim_sample_drawn(const void *identity, uint64_t computed, uint64_t delivered)
{
	ts_session_count_drawn(ts_hash64(identity, 16) | 1, computed, delivered);
}

void tsshim_sample_progress(
	const void *identity, uint64_t epoch, uint64_t done, uint64_t count, int is_free)
{
	enum ts_reason none;

	/* The trainer itself may share nothing: its workers do. */
	(void)ts_session_enter(&none);
	ts_session_advance(ts_hash64(identity, 16) | 1, epoch, done, count,
		is_free ? TS_ORDER_FREE : TS_ORDER_STRICT);
}
