/* SPDX-License-Identifier: MIT */
/* What the Python half says for `tsrun stats`. */
#include "hooks/torch/samples.h"
#include "leader/group/session.h"
#include "shim/hash.h"
#include "shim/reasons.h"

void tsshim_sample_pass(const char *reason, uint32_t count)
{
	enum ts_reason none, found = ts_reason_find(reason);

	/* A worker that shares nothing would take what it counts along when it ends. */
	(void)ts_session_enter(&none);
	for (; found < TS_REASON_COUNT && count > 0; count--)
		ts_session_count_pass(found);
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
