/* SPDX-License-Identifier: MIT */
/*
 * Garbage in the shared memory of a group, written behind the back of a member.
 *
 * A store with one record, one ghost and one open claim is made; then the input overwrites
 * words of it (12 bytes each: where 1, what 1, index 2, value 8); then the member goes on,
 * and a second one attaches and works as well.  Whatever the words say, nobody may crash, wait
 * past a deadline, or see bytes outside of the segments.
 */
#include "fuzz.h"

#include "leader/group/attach.h"
#include "leader/group/store_private.h"
#include "shim/hash.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define RING_BYTES (UINT64_C(8) << 20)
#define JOB_A      UINT64_C(0x100000000001)
#define JOB_B      UINT64_C(0x200000000002)
#define WAIT_NS    UINT64_C(2000000)
/* A guard against waiting for ever; how long waits are test_wait.c has. */
#define LATE_NS UINT64_C(30000000000)

/** Words an input can overwrite; low indices meet what the operations below touch. */
enum target {
	HEADER,
	HEADER_CHECKED,
	MEMBER,
	SEGMENT,
	ENTRY_USED,
	ENTRY,
	RECORD,
	LEDGER,
	TARGETS
};

static const struct ts_key keys[] = {{1, 1}, {2, 2}, {1, 3}, {UINT64_C(1) << 40, 1}};

static struct ts_store *attach(uint64_t job)
{
	struct ts_attach_options options = {
		.group = "fuzz", .ring_bytes = RING_BYTES, .job = job};
	struct ts_store *store = NULL;
	enum ts_reason reason;

	return ts_store_attach(&options, &store, &reason) == 0 ? store : NULL;
}

/* Leave, and unmap what leaving keeps for other threads: there are none here. */
static void detach(struct ts_store *store)
{
	if (!store)
		return;
	struct ts_store copy = *store;
	bool joined = store->member >= 0;

	ts_store_detach(store);
	if (!joined)
		return;
	munmap(copy.header, copy.shape.data_at);
	munmap((void *)copy.data, copy.shape.total_bytes - copy.shape.data_at);
	munmap(copy.ledger, TS_LEDGER_BYTES);
	/* A member that could not leave keeps its descriptor until the process ends. */
	ts_object_close(&store->ring);
	munmap(store, sizeof(*store));
}

/* Every byte of a hit must lie in the segments and be readable. */
static void look_at(const struct ts_store *store, const struct ts_lease *lease)
{
	uint64_t data = store->shape.total_bytes - store->shape.data_at;
	const unsigned char *at = lease->data;
	volatile unsigned char sum = 0;

	FUZZ_CHECK(at >= store->data && (uint64_t)(at - store->data) <= data);
	FUZZ_CHECK(lease->bytes <= data - (uint64_t)(at - store->data));
	FUZZ_CHECK(lease->dataset < TS_DATASET_MAX && lease->kind < TS_KIND_COUNT);
	for (uint64_t i = 0; i < lease->bytes; i++)
		sum ^= at[i];
	(void)sum;
}

static void produce(struct ts_store *store, struct ts_claim *claim, uint64_t bytes)
{
	void *buffer;

	if (ts_claim_reserve(store, claim, bytes, &buffer) < 0)
		return;
	memset(buffer, 0x5a, bytes);
	if (bytes % 3 == 0)
		ts_claim_abandon(store, claim);
	else
		ts_claim_publish(store, claim, bytes, 1000);
}

static void work(struct ts_store *store, uint64_t bytes)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(keys); i++) {
		struct ts_take take;
		ts_store_take(store, &keys[i], 0, TS_KIND_PIXELS, &take);
		if (take.verdict == TS_BUSY) {
			uint64_t start = ts_now_ns();
			ts_store_wait(
				store, &keys[i], WAIT_NS, &(struct ts_patience){0}, &take);
			FUZZ_CHECK(ts_now_ns() - start < LATE_NS);
			FUZZ_CHECK(take.verdict != TS_BUSY);
		}
		if (take.verdict == TS_HIT) {
			look_at(store, &take.lease);
			ts_lease_release(store, &take.lease);
		} else if (take.verdict == TS_CLAIM) {
			produce(store, &take.claim, bytes << (8 * i));
		}
	}
}

/* Index of the @n-th entry in use, counted round. */
static uint32_t used_entry(const struct ts_store *store, uint32_t n)
{
	uint32_t used[8], count = 0, all = store->shape.set_count * TS_WAYS;

	for (uint32_t i = 0; i < all && count < TS_ARRAY_SIZE(used); i++) {
		if (ts_load_relaxed(&store->entries[i].word) != 0)
			used[count++] = i;
	}
	return count ? used[n % count] : 0;
}

static void overwrite(const struct ts_store *store, int fd, enum target target, uint32_t index,
	uint64_t value)
{
	const struct ts_shape *shape = &store->shape;
	char *control = (char *)store->header;
	uint64_t at;

	switch (target) {
	case HEADER:
	case HEADER_CHECKED:
		at = index % sizeof(struct ts_ring_header) / 8 * 8;
		break;
	case MEMBER:
		at = shape->members_at + index % (3 * sizeof(struct ts_member)) / 8 * 8;
		break;
	case SEGMENT:
		at = shape->segments_at +
		     index % (shape->segment_count * sizeof(struct ts_segment)) / 8 * 8;
		break;
	case ENTRY_USED:
		at = shape->directory_at + used_entry(store, index) * sizeof(struct ts_entry) +
		     (index & 0x8000 ? 8 : 0);
		break;
	case ENTRY:
		at = shape->directory_at + index % (64 * sizeof(struct ts_entry)) / 8 * 8;
		break;
	case LEDGER:
		memcpy((char *)store->ledger + index % TS_LEDGER_BYTES / 8 * 8, &value, 8);
		return;
	default: /* RECORD: the segments are mapped read-only, even for a vandal */
		at = shape->data_at + (index & 3) * shape->segment_bytes +
		     (index >> 2) % 1024 * 8;
		if (pwrite(fd, &value, 8, (off_t)at) != 8)
			abort();
		return;
	}
	memcpy(control + at, &value, 8);
	if (target == HEADER_CHECKED)
		store->header->check =
			ts_hash64(store->header, offsetof(struct ts_ring_header, check));
}

static void overwrite_all(const struct ts_store *store, const uint8_t *data, size_t size)
{
	int fd = open(store->ring.path, O_RDWR | O_CLOEXEC);

	if (fd < 0)
		abort();
	for (; size >= 12; data += 12, size -= 12) {
		uint64_t value;
		memcpy(&value, data + 4, sizeof(value));
		/* `data[1]` narrows the value: most words have few meaningful bits. */
		value = data[1] & 0x80 ? value : value & ((UINT64_C(1) << (data[1] % 64)) - 1);
		overwrite(store, fd, (enum target)(data[0] % TARGETS),
			(uint32_t)data[2] << 8 | data[3], value);
	}
	close(fd);
}

/* One record, one ghost and one claim that is never ended. */
static struct ts_store *prepare(void)
{
	struct ts_store *store = attach(JOB_A);
	struct ts_take take;

	FUZZ_CHECK(store != NULL);
	ts_store_take(store, &keys[0], 0, TS_KIND_PIXELS, &take);
	struct ts_dataset_row *row = ts_ledger_dataset(store->ledger, 0);
	ts_write_relaxed(&row->demands[TS_KIND_PIXELS].capture, 1);
	ts_store_take(store, &keys[1], 0, TS_KIND_PIXELS, &take);
	FUZZ_CHECK(take.verdict == TS_CLAIM);
	produce(store, &take.claim, 5000);
	ts_store_take(store, &keys[2], 0, TS_KIND_PIXELS, &take);
	FUZZ_CHECK(take.verdict == TS_CLAIM);
	return store;
}

static void clear(void)
{
	char path[TS_PATH_BYTES];

	if (ts_object_path(path, sizeof(path), "fuzz", "ring") == 0)
		unlink(path);
	if (ts_object_path(path, sizeof(path), "fuzz", "ledger") == 0)
		unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	fuzz_private_shm();
	struct ts_store *first = prepare();

	overwrite_all(first, data, size);
	work(first, size ? data[size - 1] : 1);
	struct ts_store *second = attach(JOB_B);
	if (second) {
		const struct ts_shape *shape = &second->shape;
		work(second, 7);
		FUZZ_CHECK(ts_segments_used(second->segments, shape->segment_count,
				   shape->segment_bytes) <=
			   shape->segment_count * shape->segment_bytes);
	}
	detach(second);
	detach(first);
	clear();
	return 0;
}
