/* SPDX-License-Identifier: MIT */
/*
 * A damaged JPEG in a strange feed: libjpeg alone, then the same through the hooks as producer,
 * consumer and verifier, then a consumer that is fed in another way.  What the program
 * sees must be the same each time, and in the end nothing may be held.
 *
 * Input: 6 bytes of feed (see plan_of), then the stream.
 */
#include "fuzz.h"

#include "tests/unit/jpeg/drive.h"
#include "tests/unit/jpeg/fake_store.h"

#include <string.h>

#define HEAD_BYTES 6

/* libjpeg-turbo takes that long for hostile progressive files: not our business. */
#define SCANS_MAX 40u

static struct drive_plan plan_of(const uint8_t *head)
{
	static const unsigned rows[] = {1, 2, 3, 16, 64, 0};
	return (struct drive_plan){
		.feed = (enum drive_feed)(head[0] % 3),
		.init_fills = head[0] & 0x80 && head[0] % 3 == DRIVE_PULL,
		.first = head[1] * 16u + 1,
		.chunk = head[2] * 16u + 1,
		.rows = rows[head[3] % 6],
		.colour = -1,
		.scale = head[4] % 4 == 3 ? 2 : 0,
		.clear_warnings = head[4] & 0x10,
		.same_row = head[4] & 0x20,
	};
}

/* Errors and starved sources end at different places; only what came before is compared. */
static void check_same(const struct drive_log *a, const struct drive_log *b)
{
	FUZZ_CHECK(a->how == b->how);
	FUZZ_CHECK(a->message_code == b->message_code);
	FUZZ_CHECK(a->rows == b->rows);
	FUZZ_CHECK(a->pixels == b->pixels);
	FUZZ_CHECK(a->sequence == b->sequence);
	FUZZ_CHECK(a->fields == b->fields);
	FUZZ_CHECK(a->warnings == b->warnings);
	FUZZ_CHECK(a->messages == b->messages);
	FUZZ_CHECK(a->position == b->position);
}

static void check_nothing_open(void)
{
	FUZZ_CHECK(fake.leases == 0);
	FUZZ_CHECK(fake.claims == 0);
	FUZZ_CHECK(!fake.overrun);
	FUZZ_CHECK(fake.different == 0);
}

static bool has_many_scans(const uint8_t *data, size_t bytes)
{
	unsigned scans = 0;
	for (size_t i = 0; i + 1 < bytes; i++)
		scans += data[i] == 0xff && data[i + 1] == 0xda;
	return scans > SCANS_MAX;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size < HEAD_BYTES || has_many_scans(data + HEAD_BYTES, size - HEAD_BYTES))
		return 0;
	struct drive_plan plan = plan_of(data);
	struct drive_plan other = plan;
	other.feed = (enum drive_feed)((plan.feed + 1 + data[5] % 2) % 3);
	other.init_fills = false;
	data += HEAD_BYTES;
	size -= HEAD_BYTES;

	fake_store_clear();
	struct drive_log expected = drive(&drive_real, &plan, data, size);
	struct drive_log expected_other = drive(&drive_real, &other, data, size);
	for (int turn = 0; turn < 3; turn++) {
		fake.verify = turn == 2;
		struct drive_log seen = drive(&drive_hooked, &plan, data, size);
		check_same(&expected, &seen);
		check_nothing_open();
		seen = drive(&drive_hooked, &other, data, size);
		check_same(&expected_other, &seen);
		check_nothing_open();
	}
	return 0;
}
