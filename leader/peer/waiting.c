/* SPDX-License-Identifier: MIT */
/* Whether somebody waits for another node: leader/peer/waiting.h explains it. */
#include "leader/peer/waiting.h"

static bool is_tired(const struct ts_waiting *waiting)
{
	return waiting->in_vain >= TS_WAITING_IN_VAIN;
}

bool ts_waiting_may(struct ts_waiting *waiting, uint64_t now, uint64_t most_ns)
{
	if (!is_tired(waiting))
		return true;
	if (now < waiting->again_ns)
		return false;
	/* A trial that does not come back is followed by another one. */
	waiting->again_ns = now + most_ns;
	return true;
}

void ts_waiting_was_in_vain(struct ts_waiting *waiting, uint64_t now, uint64_t since)
{
	if (since < waiting->judged_ns)
		return;
	waiting->judged_ns = now;
	if (!is_tired(waiting) && ++waiting->in_vain < TS_WAITING_IN_VAIN)
		return;
	waiting->pause_ns = waiting->pause_ns == 0
				    ? TS_WAITING_FIRST_NS
				    : ts_min_u64(2 * waiting->pause_ns, TS_WAITING_LAST_NS);
	waiting->again_ns = now + waiting->pause_ns;
}

void ts_waiting_has_got(struct ts_waiting *waiting)
{
	waiting->in_vain = 0;
	waiting->pause_ns = 0;
}
