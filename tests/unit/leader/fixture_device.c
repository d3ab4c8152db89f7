/* SPDX-License-Identifier: MIT */
/* Helpers of the unit tests of copies to a GPU. */
#include "fixture_device.h"
#include "tests/unit/valgrind.h"

struct fixture_device gpu;

static const uint8_t uuid[TS_DEVICE_UUID] = "GPU of the tests";
static const uint8_t handle[TS_DEVICE_HANDLE] = "where the memory is";

static void attach(uint64_t job, struct ts_store **ret_store, struct ts_device **ret_device)
{
	*ret_store = fixture_attach(job);
	cr_assert(eq(int, ts_device_attach(*ret_store, ret_device), 0));
}

void fixture_device_init(void)
{
	fixture_init();
	attach(JOB_A, &gpu.store_a, &gpu.a);
	attach(JOB_B, &gpu.store_b, &gpu.b);
	int row = ts_device_find(gpu.a, uuid);
	cr_assert(ge(int, row, 0));
	gpu.ring = (uint32_t)row;
}

void fixture_device_finish(void)
{
	fixture_detach(gpu.store_a);
	fixture_detach(gpu.store_b);
	fixture_finish();
}

struct ts_device *fixture_device_join(uint64_t job)
{
	struct ts_store *store;
	struct ts_device *device;

	attach(job, &store, &device);
	return device;
}

uint32_t fixture_offer(struct ts_device *device, uint32_t slots)
{
	struct ts_device_owner owner;

	cr_assert(eq(int, ts_device_offer(device, gpu.ring, handle, slots, SLOT_BYTES), 0));
	cr_assert(eq(int, ts_device_owner(device, gpu.ring, &owner), 0));
	cr_assert(eq(int, memcmp(owner.handle, handle, sizeof(handle)), 0));
	return owner.generation;
}

static uint32_t generation_of(struct ts_device *device)
{
	return ts_device_ring_generation(ts_load_acquire(&device->table->rows[gpu.ring].word));
}

int fixture_withdraw(struct ts_device *device, uint64_t timeout_ns)
{
	return ts_device_withdraw(device, gpu.ring, timeout_ns);
}

static struct ts_device_take take(struct ts_device *device, uint64_t number, uint64_t patience)
{
	struct ts_key key = {.lo = number, .hi = ~number};
	struct ts_device_take got;

	memset(&got, 0xee, sizeof(got));
	ts_device_take(
		device, gpu.ring, generation_of(device), &key, 10 + number, patience, &got);
	return got;
}

struct ts_device_take fixture_device_take(struct ts_device *device, uint64_t number)
{
	return take(device, number, FOREVER);
}

struct ts_device_take fixture_device_hurry(struct ts_device *device, uint64_t number)
{
	return take(device, number, 0);
}

uint32_t fixture_device_publish(struct ts_device *device, uint64_t number)
{
	struct ts_device_take got = fixture_device_take(device, number);

	cr_assert(eq(int, got.verdict, TS_CLAIM), "%s", strerror(-got.error));
	cr_assert(eq(u64, got.hold.offset, got.hold.slot * SLOT_BYTES));
	cr_assert(eq(int, ts_device_publish(device, &got.hold), 0));
	return got.hold.slot;
}

uint32_t fixture_device_hit(struct ts_device *device, uint64_t number)
{
	struct ts_device_take got = fixture_device_take(device, number);

	cr_assert(eq(int, got.verdict, TS_HIT), "%s", strerror(-got.error));
	cr_assert(eq(u64, got.hold.offset, got.hold.slot * SLOT_BYTES));
	cr_assert(eq(u64, got.hold.bytes, 10 + number));
	ts_device_release(device, &got.hold);
	return got.hold.slot;
}

enum ts_slot_state fixture_slot(uint32_t slot)
{
	return ts_device_slot_state(
		ts_load_acquire(&gpu.a->table->rows[gpu.ring].slots[slot].word));
}

void fixture_device_die(const char *point, void (*body)(struct ts_device *device))
{
	NOT_EMULATED("a child is told its parent's start time, so it counts as dead");
	int status;
	pid_t pid = fork();

	if (pid == 0) {
		struct ts_device *device = fixture_device_join(JOB_B);
		if (point)
			setenv("TSSHIM_TEST_KILL", point, 1);
		body(device);
		if (point)
			_exit(1); /* the point was not reached */
		kill(getpid(), SIGKILL);
	}
	cr_assert(eq(int, (int)waitpid(pid, &status, 0), (int)pid));
	bool killed = WIFSIGNALED(status);
	cr_assert(killed, "%s was not reached", point ? point : "the end");
	/* Whoever was seen alive just now is not asked again for a while. */
	for (uint32_t i = 0; i < TS_MEMBER_MAX; i++) {
		ts_write_relaxed(&gpu.a->alive_until[i], 0);
		ts_write_relaxed(&gpu.b->alive_until[i], 0);
	}
}

void fixture_device_stop(const char *point, int (*body)(struct ts_device *device),
	void (*meanwhile)(void), int status)
{
	NOT_EMULATED("a child is told its parent's start time, so it counts as dead");
	int ended;
	pid_t pid = fork();

	if (pid == 0) {
		struct ts_device *device = fixture_device_join(JOB_B);
		setenv("TSSHIM_TEST_STOP", point, 1);
		_exit(body(device));
	}
	cr_assert(eq(int, (int)waitpid(pid, &ended, WUNTRACED), (int)pid));
	bool stopped = WIFSTOPPED(ended);
	cr_assert(stopped, "%s was not reached", point);
	meanwhile();
	kill(pid, SIGCONT);
	cr_assert(eq(int, (int)waitpid(pid, &ended, 0), (int)pid));
	cr_expect(eq(int, WIFEXITED(ended) ? WEXITSTATUS(ended) : -1, status), "%s", point);
}
