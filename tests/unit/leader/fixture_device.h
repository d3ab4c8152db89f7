/* SPDX-License-Identifier: MIT */
/* Two members of a group that see the same GPU, and short forms of what tests do with it. */
#ifndef TS_TESTS_LEADER_FIXTURE_DEVICE_H
#define TS_TESTS_LEADER_FIXTURE_DEVICE_H

#include "fixture.h"

#include "leader/slots/device_private.h"

#define SLOT_BYTES UINT64_C(1000)
#define FOREVER    UINT64_MAX

/** Members of jobs A and B, both of this process, and the row of their GPU. */
struct fixture_device {
	struct ts_store *store_a, *store_b;
	struct ts_device *a, *b;
	uint32_t ring;
};

extern struct fixture_device gpu;

void fixture_device_init(void);
void fixture_device_finish(void);

/** The device of another member of job @job. */
struct ts_device *fixture_device_join(uint64_t job);

/** Offer @slots slots by @device; fails the test when that fails. Returns the generation. */
uint32_t fixture_offer(struct ts_device *device, uint32_t slots);

/** Withdraw the generation there is. */
int fixture_withdraw(struct ts_device *device, uint64_t timeout_ns);

/** Take key @number in the generation there is. */
struct ts_device_take fixture_device_take(struct ts_device *device, uint64_t number);
struct ts_device_take fixture_device_hurry(struct ts_device *device, uint64_t number);

/** Take, expect a claim, and publish. Returns the slot. */
uint32_t fixture_device_publish(struct ts_device *device, uint64_t number);

/** Take, expect a hit, and release. Returns the slot. */
uint32_t fixture_device_hit(struct ts_device *device, uint64_t number);

/** State of slot @slot now. */
enum ts_slot_state fixture_slot(uint32_t slot);

/** In a forked child that is killed at @point, if not before: @body(a device of its own). */
void fixture_device_die(const char *point, void (*body)(struct ts_device *device));

/**
 * In a forked child that stops at @point: @body(a device of its own).  While it is stopped
 * @meanwhile is called here; the child is expected to exit with @status, which is what @body
 * returns.
 */
void fixture_device_stop(const char *point, int (*body)(struct ts_device *device),
	void (*meanwhile)(void), int status);

#endif
