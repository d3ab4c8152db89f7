/* SPDX-License-Identifier: MIT */
/* The breaker of a peer: leader/peer/breaker.h explains it. */
#include "leader/peer/breaker.h"

#include "shim/sys.h"

/* splitmix64: any sequence will do that is another one for another seed. */
static uint64_t next_random(struct ts_breaker *breaker)
{
	uint64_t z = breaker->random += UINT64_C(0x9e3779b97f4a7c15);

	z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
	z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
	return z ^ (z >> 31);
}

void ts_breaker_init(
	struct ts_breaker *breaker, const struct ts_breaker_times *times, uint64_t seed)
{
	*breaker =
		(struct ts_breaker){.times = times, .state = TS_BREAKER_CLOSED, .random = seed};
}

static void enter(struct ts_breaker *breaker, enum ts_breaker_state state)
{
	breaker->state = state;
	breaker->ticket++;
	breaker->failures = 0;
	breaker->proven = 0;
	breaker->probing = false;
}

static void open_for_a_while(struct ts_breaker *breaker)
{
	uint64_t pause =
		breaker->pause_ns == 0 ? breaker->times->first_ns : breaker->pause_ns * 2;

	breaker->pause_ns = ts_min_u64(pause, breaker->times->last_ns);
	uint64_t half = breaker->pause_ns / 2;
	breaker->until_ns = ts_now_ns() + half + next_random(breaker) % (half + 1);
	enter(breaker, TS_BREAKER_OPEN);
}

void ts_breaker_close(struct ts_breaker *breaker)
{
	breaker->pause_ns = 0;
	breaker->failures = 0;
	if (breaker->state != TS_BREAKER_CLOSED)
		enter(breaker, TS_BREAKER_CLOSED);
}

bool ts_breaker_is_probed(const struct ts_breaker *breaker)
{
	return breaker->state == TS_BREAKER_HALF_OPEN && breaker->probing &&
	       ts_now_ns() < breaker->until_ns;
}

int ts_breaker_ask(struct ts_breaker *breaker, uint32_t *ret_ticket)
{
	uint64_t now = ts_now_ns();

	if (breaker->state == TS_BREAKER_OPEN) {
		if (now < breaker->until_ns)
			return -EAGAIN;
		enter(breaker, TS_BREAKER_HALF_OPEN);
	}
	if (breaker->state == TS_BREAKER_HALF_OPEN) {
		if (ts_breaker_is_probed(breaker))
			return -EAGAIN;
		/* One that was lost may still come back, with a ticket that is too old. */
		if (breaker->probing)
			breaker->ticket++;
		breaker->probing = true;
		breaker->until_ns = now + TS_BREAKER_LOST_NS;
	}
	*ret_ticket = breaker->ticket;
	return 0;
}

void ts_breaker_answered(struct ts_breaker *breaker, uint32_t ticket)
{
	if (ticket != breaker->ticket)
		return;
	breaker->failures = 0;
	if (breaker->state != TS_BREAKER_HALF_OPEN || !breaker->probing)
		return;
	breaker->probing = false;
	if (++breaker->proven == TS_BREAKER_PROBES)
		ts_breaker_close(breaker);
}

void ts_breaker_failed(struct ts_breaker *breaker, uint32_t ticket)
{
	if (ticket != breaker->ticket || breaker->state == TS_BREAKER_OPEN)
		return;
	if (breaker->state == TS_BREAKER_HALF_OPEN ||
		++breaker->failures >= TS_BREAKER_FAILURES)
		open_for_a_while(breaker);
}

void ts_breaker_returned(struct ts_breaker *breaker, uint32_t ticket)
{
	if (ticket == breaker->ticket && breaker->state == TS_BREAKER_HALF_OPEN)
		breaker->probing = false;
}
