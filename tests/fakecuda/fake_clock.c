/* SPDX-License-Identifier: MIT */
/*
 * Time of the stand-in: the machine's, or with VIRTUAL_CLOCK one of its own, which passes only
 * when nothing else can go on.  Then a program that waits in the driver and streams that are
 * under way are all that there is, so the next of these that is due ends at once, and what
 * took how long is exact on any machine.
 */
#include "driver.h"

#include <time.h>

/* A thread of the program that waits in the driver: for a point, or until a time. */
struct waiter {
	struct waiter *next;
	struct fake_point point;
	int64_t until_ns; /* 0: for the point */
};

static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; /* for waits under fake_lock */
static int64_t virtual_ns;
static struct waiter *waiters;

static bool is_virtual(void)
{
	return fake_number(FAKE_VIRTUAL_CLOCK) != 0;
}

static void sooner(int64_t *next_ns, int64_t at_ns)
{
	if (*next_ns == 0 || at_ns < *next_ns)
		*next_ns = at_ns;
}

/* Whether all streams wait for something; if so, the first that waits for a time. */
static bool streams_rest_locked(int64_t *next_ns)
{
	for (CUcontext c = fake_contexts_locked(); c; c = c->next) {
		for (CUstream s = c->streams; s; s = s->next) {
			if (s->wakes_ns > virtual_ns)
				sooner(next_ns, s->wakes_ns);
			else if (s->executing || fake_stream_can_go_on_locked(s))
				return false;
		}
	}
	return true;
}

/* The same of the program; somebody has to wait, or it is doing something. */
static bool program_rests_locked(int64_t *next_ns)
{
	for (struct waiter *w = waiters; w; w = w->next) {
		if (w->until_ns > virtual_ns)
			sooner(next_ns, w->until_ns);
		else if (w->until_ns != 0 || fake_point_reached_locked(w->point) ||
			 w->point.stream->context->broken != CUDA_SUCCESS)
			return false;
	}
	return waiters != NULL;
}

/* Let time pass, if nothing else can happen; whether it did, so that there is news for all. */
static bool advance_locked(void)
{
	int64_t next_ns = 0;
	if (!is_virtual() || fake_is_ending_locked() || !program_rests_locked(&next_ns) ||
		!streams_rest_locked(&next_ns) || next_ns == 0)
		return false;
	fake_count(FAKE_CLOCK_US, (uint64_t)((next_ns - virtual_ns) / 1000));
	virtual_ns = next_ns;
	fake_news_locked();
	return true;
}

static void wait_as_locked(struct waiter *waiter)
{
	waiter->next = waiters;
	waiters = waiter;
	if (!advance_locked())
		pthread_cond_wait(&changed, &fake_lock);
	struct waiter **place = &waiters;
	while (*place != waiter)
		place = &(*place)->next;
	*place = waiter->next;
	/* The others may have waited for this one only. */
	(void)advance_locked();
}

void fake_clock_wait_locked(struct fake_point point)
{
	struct waiter waiter = {.point = point};
	wait_as_locked(&waiter);
}

void fake_clock_idle_locked(CUstream stream)
{
	if (!advance_locked())
		pthread_cond_wait(is_virtual() ? &changed : &stream->news, &fake_lock);
}

void fake_news_locked(void)
{
	pthread_cond_broadcast(&changed);
	/* Streams wait for that, too, then: the last one to find nothing lets time pass. */
	if (is_virtual())
		return;
	for (CUcontext c = fake_contexts_locked(); c; c = c->next)
		for (CUstream s = c->streams; s; s = s->next)
			if (s->running && !s->executing &&
				(s->destroyed || fake_is_ending_locked() ||
					fake_stream_can_go_on_locked(s)))
				pthread_cond_signal(&s->news);
}

static void sleep_really(int64_t us)
{
	struct timespec time = {us / 1000000, us % 1000000 * 1000};
	while (nanosleep(&time, &time) != 0) {
	}
}

void fake_sleep_us_locked(int64_t us)
{
	if (us <= 0)
		return;
	if (is_virtual()) {
		struct waiter waiter = {.until_ns = virtual_ns + us * 1000};
		while (virtual_ns < waiter.until_ns)
			wait_as_locked(&waiter);
		return;
	}
	pthread_mutex_unlock(&fake_lock);
	sleep_really(us);
	pthread_mutex_lock(&fake_lock);
}

void fake_work_us(CUstream stream, int64_t us)
{
	if (us <= 0)
		return;
	if (!is_virtual()) {
		sleep_really(us);
		return;
	}
	pthread_mutex_lock(&fake_lock);
	stream->wakes_ns = virtual_ns + us * 1000;
	while (virtual_ns < stream->wakes_ns)
		fake_clock_idle_locked(stream);
	stream->wakes_ns = 0;
	pthread_mutex_unlock(&fake_lock);
}

int64_t fake_now_ns(void)
{
	struct timespec now;
	/* It stands still while the caller's stream is at work. */
	if (is_virtual())
		return virtual_ns;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}
