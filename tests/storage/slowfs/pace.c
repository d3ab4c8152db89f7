/* SPDX-License-Identifier: MIT */
/* Latency, bandwidth, stalls and faults; see slowfs.h. */
#include "slowfs.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#define SECOND_NS INT64_C(1000000000)

/* How often a waiting request looks whether anybody still wants it. */
#define LOOK_NS INT64_C(50000000)

/* What the link may catch up after it had nothing to send: a thread that was late is not to
 * make it slower than it was told to be. */
#define BURST_NS INT64_C(20000000)

/* PF_EXITING of the kernel's include/linux/sched.h, as field 9 of /proc/PID/stat shows it. */
#define FLAG_EXITING 0x4ul

/* What a kind's latency is called; the others have only the common one. */
static const enum slow_setting own_latency[SLOW_KIND_COUNT] = {
	[SLOW_KIND_LOOKUP] = SLOW_LATENCY_LOOKUP,
	[SLOW_KIND_READ] = SLOW_LATENCY_READ,
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed;
static int64_t link_free_ns;   /* when the link has sent all it was given; under the lock */
static int64_t link_bandwidth; /* what that was worked out with; under the lock */
static _Atomic uint64_t waiting;
static _Atomic bool stopping;

int slow_pace_init(void)
{
	pthread_condattr_t attributes;
	pthread_condattr_init(&attributes);
	int r = pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	if (r == 0)
		r = pthread_cond_init(&changed, &attributes);
	pthread_condattr_destroy(&attributes);
	return -r;
}

static int64_t now_ns(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * SECOND_NS + now.tv_nsec;
}

/*
 * Has the thread @pid been killed, or does it exit already?  The kernel passes on that there
 * is a signal, but not whether it is a deadly one, and nothing at all about the flush of an
 * exit.  Pid 0: the request is the kernel's own.
 */
static bool is_dying(pid_t pid)
{
	char path[32], line[512];
	if (pid <= 0)
		return false;
	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	FILE *file = fopen(path, "re");
	if (!file)
		return true;
	size_t bytes = fread(line, 1, sizeof(line) - 1, file);
	fclose(file);
	line[bytes] = '\0';
	/* The name in parentheses may contain anything, so from the last one on. */
	const char *rest = strrchr(line, ')');
	unsigned long flags, pending;
	if (!rest || sscanf(rest, ") %*c %*d %*d %*d %*d %*d %lu", &flags) != 1)
		return false;
	if (flags & FLAG_EXITING)
		return true;
	/* Field 31; a deadly signal of any number has become a SIGKILL there. */
	return sscanf(rest,
		       ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d"
		       " %*d %*d %*u %*u %*d %*u %*u %*u %*u %*u %*u %lu",
		       &pending) == 1 &&
	       (pending & (1ul << (SIGKILL - 1))) != 0;
}

static void sleep_locked(int64_t until)
{
	struct timespec time = {.tv_sec = until / SECOND_NS, .tv_nsec = until % SECOND_NS};
	pthread_cond_timedwait(&changed, &lock, &time);
}

/* When a read is due that is told to wait until it may go. */
#define HELD INT64_MAX

static bool is_due(int64_t now, int64_t due)
{
	if (slow_get(SLOW_STALL) != 0)
		return false;
	return now >= due || slow_get(SLOW_LET_GO) != 0;
}

static int wait_locked(pid_t pid, int64_t due)
{
	int64_t look = now_ns() + LOOK_NS;
	for (;;) {
		int64_t now = now_ns();
		if (atomic_load(&stopping))
			return -EIO;
		if (is_due(now, due))
			return 0;
		if (now >= look) {
			pthread_mutex_unlock(&lock);
			bool dying = is_dying(pid);
			pthread_mutex_lock(&lock);
			if (dying)
				return -EINTR;
			look = now + LOOK_NS;
		}
		sleep_locked(slow_get(SLOW_STALL) != 0 || look < due ? look : due);
	}
}

static int wait_until(fuse_req_t req, int64_t due)
{
	if (due == 0 && slow_get(SLOW_STALL) == 0 && !atomic_load(&stopping))
		return 0;
	atomic_fetch_add(&waiting, 1);
	pthread_mutex_lock(&lock);
	int r = wait_locked(fuse_req_ctx(req)->pid, due);
	pthread_mutex_unlock(&lock);
	atomic_fetch_sub(&waiting, 1);
	return r;
}

int slow_pace_begin(fuse_req_t req, enum slow_kind kind, struct slow_record *record)
{
	slow_count_arrival(kind, record);
	/* SLOW_LATENCY is 0, which is what a kind without a row has. */
	int64_t latency_us = slow_get(own_latency[kind]);
	if (latency_us < 0)
		latency_us = slow_get(SLOW_LATENCY);
	if (kind == SLOW_KIND_READ && slow_count_down(SLOW_HOLD_NTH))
		return wait_until(req, HELD);
	return wait_until(req, latency_us > 0 ? now_ns() + latency_us * 1000 : 0);
}

int slow_pace_transfer(fuse_req_t req, uint64_t bytes)
{
	int64_t bandwidth = slow_get(SLOW_BANDWIDTH);
	if (bandwidth == 0 || bytes == 0)
		return wait_until(req, 0);
	int64_t takes = (int64_t)((double)bytes * (double)SECOND_NS / (double)bandwidth);
	pthread_mutex_lock(&lock);
	int64_t begin = now_ns() - BURST_NS;
	/* What is under way keeps its time; a new bandwidth begins with a free link. */
	if (link_bandwidth != bandwidth)
		link_free_ns = begin + BURST_NS;
	link_bandwidth = bandwidth;
	int64_t due = (link_free_ns > begin ? link_free_ns : begin) + takes;
	link_free_ns = due;
	pthread_mutex_unlock(&lock);
	return wait_until(req, due);
}

int slow_pace_open_fault(void)
{
	return slow_get(SLOW_FAIL_OPENS) != 0 ? -EIO : 0;
}

int slow_pace_read_fault(uint64_t end)
{
	int64_t beyond = slow_get(SLOW_FAIL_BEYOND);
	return slow_get(SLOW_FAIL_READS) != 0 || (beyond >= 0 && end > (uint64_t)beyond) ? -EIO
											 : 0;
}

void slow_pace_wake(void)
{
	pthread_mutex_lock(&lock);
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

void slow_pace_stop(void)
{
	atomic_store(&stopping, true);
	slow_pace_wake();
}

uint64_t slow_pace_waiting(void)
{
	return atomic_load(&waiting);
}
