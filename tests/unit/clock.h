/* SPDX-License-Identifier: MIT */
/* A clock that passes only when a test says so, or when somebody sleeps. */
#ifndef TS_TESTS_UNIT_CLOCK_H
#define TS_TESTS_UNIT_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

/**
 * From now on this process and its later children have such a clock.  It begins with the
 * machine's time, so that what other processes have written lies in the past.
 */
void clock_begin(void);

/** Give the machine's clocks back. */
void clock_end(void);

/** So much time passes at once; nobody uses a CPU meanwhile but as clock_works() says. */
void clock_pass(uint64_t ns);

/** Set the clock of the calendar, which files have their times from, as an administrator may.
 */
void clock_set(int64_t real_ns);

/** What has passed since clock_begin(). */
uint64_t clock_passed(void);

/** From now on other processes use so many thousandths of a CPU. */
void clock_works(unsigned thousandths);

/** From now on CPUs are so scarce: ts_thread_stretch(). */
void clock_stretch(uint64_t times);

/**
 * Call @what once, in the first sleep that reaches this time after clock_begin(); that sleep
 * ends then, as one does that is woken.
 */
void clock_at(uint64_t ns, void (*what)(void *context), void *context);

/** How often somebody slept. */
unsigned clock_sleeps(void);

#endif
