/* SPDX-License-Identifier: MIT */
/* Helpers of the unit tests of leader/. */
#include "fixture.h"
#include "tests/unit/own_shm.h"

static char group[32];
static struct ts_store *stores[64]; /* that are attached */
static size_t store_count;

struct fixture_joined joined;

void fixture_init(void)
{
	snprintf(group, sizeof(group), "unit-%d", (int)getpid());
	cr_assert(own_shm_begin());
}

void fixture_alone_init(void)
{
	fixture_init();
	joined.a = fixture_attach(JOB_A);
}

void fixture_captured_init(void)
{
	fixture_alone_init();
	fixture_capture(joined.a, true);
}

void fixture_pair_init(void)
{
	fixture_captured_init();
	joined.b = fixture_attach(JOB_B);
}

const char *fixture_group(void)
{
	return group;
}

const char *fixture_path(const char *suffix)
{
	static char paths[4][TS_PATH_BYTES];
	static unsigned next;
	char *path = paths[next++ % 4];

	ts_object_path(path, TS_PATH_BYTES, fixture_group(), suffix);
	return path;
}

void fixture_finish(void)
{
	while (store_count > 0)
		fixture_detach(stores[store_count - 1]);
	own_shm_end();
}

void fixture_forget(struct ts_store *store)
{
	for (size_t i = 0; i < store_count; i++)
		if (stores[i] == store)
			stores[i] = stores[--store_count];
}

void fixture_detach(struct ts_store *store)
{
	fixture_forget(store);
	ts_store_detach(store);
}

static struct ts_attach_options options_for(uint64_t job, uint64_t ring_bytes)
{
	struct ts_attach_options options = {.ring_bytes = ring_bytes, .job = job};

	snprintf(options.group, sizeof(options.group), "%s", fixture_group());
	return options;
}

struct ts_store *fixture_attach(uint64_t job)
{
	return fixture_attach_sized(job, RING_BYTES);
}

struct ts_store *fixture_attach_sized(uint64_t job, uint64_t ring_bytes)
{
	struct ts_attach_options options = options_for(job, ring_bytes);
	struct ts_store *store = NULL;
	enum ts_reason reason = TS_REASON_COUNT;
	int r = ts_store_attach(&options, &store, &reason);

	cr_assert(eq(int, r, 0), "attach: %s, reason %d", strerror(-r), (int)reason);
	if (store_count < TS_ARRAY_SIZE(stores))
		stores[store_count++] = store;
	return store;
}

int fixture_refused(uint64_t ring_bytes, enum ts_reason *ret_reason)
{
	struct ts_attach_options options = options_for(JOB_A, ring_bytes);
	struct ts_store *store = NULL;
	int r = ts_store_attach(&options, &store, ret_reason);

	cr_assert(lt(int, r, 0), "attached to what must be refused");
	cr_assert(store == NULL);
	return r;
}

struct ts_key fixture_key(uint32_t set, uint32_t tag)
{
	/* The way at which a victim is looked for first depends on higher bits; spread them. */
	return (struct ts_key){
		.lo = ((uint64_t)tag << 40) | set, .hi = ((uint64_t)tag << 32) | 5};
}

void fixture_capture(struct ts_store *store, bool on)
{
	struct ts_dataset_row *row = ts_ledger_dataset(ts_store_ledger(store), 0);

	for (uint32_t i = 0; i < TS_DEMANDS; i++)
		ts_write_relaxed(&row->demands[i].capture, on);
}

struct ts_take fixture_take(struct ts_store *store, struct ts_key key)
{
	struct ts_take take;

	memset(&take, 0xee, sizeof(take));
	ts_store_take(store, &key, 0, TS_KIND_PIXELS, &take);
	return take;
}

void fixture_publish(struct ts_store *store, struct ts_key key, uint64_t bytes, int value)
{
	struct ts_take take = fixture_take(store, key);
	void *buffer;

	cr_assert(eq(int, take.verdict, TS_CLAIM), "reason %d", (int)take.reason);
	cr_assert(eq(int, ts_claim_reserve(store, &take.claim, bytes, &buffer), 0));
	memset(buffer, value, bytes);
	cr_assert(eq(int, ts_claim_publish(store, &take.claim, bytes, 1000), 0));
}

bool fixture_hits(struct ts_store *store, struct ts_key key, uint64_t bytes, int value)
{
	struct ts_take take = fixture_take(store, key);

	if (take.verdict == TS_CLAIM)
		ts_claim_abandon(store, &take.claim);
	if (take.verdict != TS_HIT)
		return false;
	const unsigned char *data = take.lease.data;
	bool right = take.lease.bytes == bytes;
	for (uint64_t i = 0; right && i < bytes; i++)
		right = data[i] == (unsigned char)value;
	ts_lease_release(store, &take.lease);
	return right;
}

void fixture_usage(struct ts_store *store, uint64_t *ret_capacity, uint64_t *ret_used)
{
	const struct ts_shape *shape = &store->shape;

	*ret_capacity = shape->segment_count * shape->segment_bytes;
	*ret_used =
		ts_segments_used(store->segments, shape->segment_count, shape->segment_bytes);
}

int fixture_fork(int (*body)(void *context), void *context)
{
	int status = -1;
	pid_t pid = fork();

	if (pid == 0)
		_exit(body(context));
	waitpid(pid, &status, 0);
	return status;
}

bool fixture_is_killed(int (*body)(void *context), void *context)
{
	int status = fixture_fork(body, context);

	return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

struct fixture_child fixture_child_begin(
	void *(*begin)(void *context), int (*finish)(void *begun), void *context)
{
	int ready[2], order[2];
	char byte;

	cr_assert(eq(int, pipe(ready), 0));
	cr_assert(eq(int, pipe(order), 0));
	pid_t pid = fork();
	if (pid == 0) {
		close(order[1]);
		void *begun = begin(context);
		bool told =
			begun && write(ready[1], "x", 1) == 1 && read(order[0], &byte, 1) == 0;
		/* Without leaving, as a worker of torch's ends. */
		_exit(!told ? 1 : finish ? finish(begun) : 0);
	}
	close(order[0]);
	close(ready[1]);
	cr_assert(eq(int, (int)read(ready[0], &byte, 1), 1));
	close(ready[0]);
	return (struct fixture_child){.pid = pid, .order = order[1]};
}

void fixture_child_end(const struct fixture_child *child, int status)
{
	int ended = -1;

	close(child->order);
	cr_assert(eq(int, waitpid(child->pid, &ended, 0), child->pid));
	cr_expect(eq(int, WIFEXITED(ended) ? WEXITSTATUS(ended) : -1, status));
}

void fixture_child_kill(const struct fixture_child *child)
{
	kill(child->pid, SIGKILL);
	cr_assert(eq(int, waitpid(child->pid, NULL, 0), child->pid));
	close(child->order);
}

bool fixture_exists(const char *suffix)
{
	struct stat st;

	return lstat(fixture_path(suffix), &st) == 0;
}
