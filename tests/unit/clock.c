/* SPDX-License-Identifier: MIT */
/* A clock that passes only when a test says so, or when somebody sleeps. */
#include "clock.h"

#include "shim/sys.h"

#include <errno.h>

static struct {
	uint64_t begin_ns, passed_ns;
	int64_t real_ns; /* at the begin */
	uint64_t cpu_ns; /* of every other process */
	uint64_t stretch;
	unsigned thousandths, sleeps;
	uint64_t at_ns;
	void (*what)(void *context);
	void *context;
} own;

static uint64_t now_ns(void)
{
	return own.begin_ns + own.passed_ns;
}

static int64_t real_ns(void)
{
	return own.real_ns + (int64_t)own.passed_ns;
}

static uint64_t thread_cpu_ns(void)
{
	return own.passed_ns;
}

static uint64_t process_cpu_ns(int pid)
{
	return pid > 0 ? own.cpu_ns : 0;
}

static uint64_t thread_stretch(void)
{
	return own.stretch;
}

static int futex_wait(const volatile void *word, uint32_t expected, uint64_t timeout_ns)
{
	if (*(const volatile uint32_t *)word != expected)
		return -EAGAIN;
	own.sleeps++;
	if (!own.what || own.passed_ns + timeout_ns < own.at_ns) {
		clock_pass(timeout_ns);
		return -ETIMEDOUT;
	}
	void (*what)(void *context) = own.what;
	own.what = NULL;
	clock_pass(own.at_ns - ts_min_u64(own.at_ns, own.passed_ns));
	what(own.context);
	return 0;
}

void clock_begin(void)
{
	static const struct ts_test_clock stands_in = {
		.now_ns = now_ns,
		.real_ns = real_ns,
		.thread_cpu_ns = thread_cpu_ns,
		.process_cpu_ns = process_cpu_ns,
		.thread_stretch = thread_stretch,
		.futex_wait = futex_wait,
	};

	clock_end();
	own = (typeof(own)){
		.begin_ns = ts_now_ns(), .real_ns = ts_real_ns(), .cpu_ns = 1, .stretch = 1};
	ts_test_clock = &stands_in;
}

void clock_end(void)
{
	ts_test_clock = NULL;
}

void clock_set(int64_t real_ns)
{
	own.real_ns = real_ns - (int64_t)own.passed_ns;
}

void clock_pass(uint64_t ns)
{
	own.passed_ns += ns;
	own.cpu_ns += ns / 1000 * own.thousandths;
}

uint64_t clock_passed(void)
{
	return own.passed_ns;
}

void clock_works(unsigned thousandths)
{
	own.thousandths = thousandths;
}

void clock_stretch(uint64_t times)
{
	own.stretch = times;
}

void clock_at(uint64_t ns, void (*what)(void *context), void *context)
{
	own.at_ns = ns;
	own.what = what;
	own.context = context;
}

unsigned clock_sleeps(void)
{
	return own.sleeps;
}
