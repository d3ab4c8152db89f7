/* SPDX-License-Identifier: MIT */
/* Decoded pictures between nodes, for tests: tests/unit/jpeg/across.h explains it. */
#include "across.h"

#include "tests/unit/across.h"
#include "tests/unit/shim/fixture.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const struct drive_picture across_large = {
	.width = 320, .height = 240, .quality = 85, .h = 2, .v = 2, .seed = 1};
const struct drive_plan across_whole = {.rows = 1, .colour = -1};

struct ts_mail across_mail;
uint8_t *across_data;
size_t across_bytes;
static int places;

void across_init(void)
{
	across_set();
	setenv("TSSHIM_VERIFY", "0", 1);
	/* The helper is a thread, which a busy machine lets run when it likes. */
	setenv("TSSHIM_TEST_PATIENCE", "20", 1);
	fixture_init();
	struct ts_store *store = fixture_enter()->store;
	across_serve(store, &across_mail);
	places = across_open_places(store, &across_mail);
	across_data = drive_encode(&across_large, &across_bytes);
}

void across_finish(void)
{
	free(across_data);
	close(places);
	fixture_finish();
}

/* ---- the helper ------------------------------------------------------------------------- */

struct across_helper across_helper;
uint8_t across_record[1 << 20];
uint64_t across_record_bytes;

static void write_record(uint32_t index)
{
	const struct ts_mail_sample head = {
		.version = TS_MAIL_SAMPLE_VERSION, .made_ns = 5000000, .produce_ns = 4000000};
	off_t at = (off_t)ts_mail_place_at(index);

	if (pwrite(places, &head, sizeof(head), at) != (ssize_t)sizeof(head) ||
		pwrite(places, across_record, across_record_bytes, at + (off_t)sizeof(head)) !=
			(ssize_t)across_record_bytes)
		abort();
	ts_mail_set_found(&across_mail, index, across_record_bytes, across_helper.took_ns);
}

static void *help(void *unused)
{
	uint32_t index;

	while (!ts_load_acquire(&across_helper.ends)) {
		if (ts_mail_take(&across_mail, 0, &index, &across_helper.request) < 0)
			continue;
		across_helper.was_asked = true;
		usleep(across_helper.delay_us);
		if (across_helper.says == TS_MAIL_SAYS_GOT)
			write_record(index);
		ts_mail_answer(&across_mail, index, across_helper.says);
		break;
	}
	return unused;
}

void across_begin_helper(enum ts_mail_answer says)
{
	across_helper = (struct across_helper){.says = says, .took_ns = 1000};
	cr_assert(eq(int, pthread_create(&across_helper.thread, NULL, help, NULL), 0));
}

bool across_end_helper(void)
{
	ts_write_release(&across_helper.ends, 1);
	pthread_join(across_helper.thread, NULL);
	return across_helper.was_asked;
}

void across_expect_request(enum ts_mail_kind kind)
{
	struct ts_mail_request request;
	uint32_t index;

	cr_assert(eq(int, ts_mail_take(&across_mail, 0, &index, &request), 0));
	cr_expect(eq(u32, request.kind, kind));
	cr_expect(eq(u64, request.name.lo, across_helper.request.name.lo));
	cr_expect(eq(u64, request.name.hi, across_helper.request.name.hi));
	ts_mail_answer(&across_mail, index, TS_MAIL_SAYS_NONE);
}

void across_expect_nothing_open(void)
{
	across_expect_idle(&across_mail);
}

/* ---- decodes ---------------------------------------------------------------------------- */

uint64_t across_passed(enum ts_reason reason)
{
	return ts_load_relaxed(&fixture_ledger()->passed[reason]);
}

static struct ts_dataset_row *row(void)
{
	return ts_ledger_dataset(fixture_ledger(), fixture_enter()->dataset);
}

uint64_t across_made(void)
{
	return ts_load_relaxed(&row()->kinds[TS_KIND_PIXELS].produced);
}

uint64_t across_shared(void)
{
	return ts_load_relaxed(&row()->kinds[TS_KIND_PIXELS].shared);
}

void across_decode(const struct drive_plan *plan)
{
	struct drive_log expected = drive(&drive_real, plan, across_data, across_bytes);
	struct drive_log seen = drive(&drive_hooked, plan, across_data, across_bytes);

	cr_expect(eq(int, expected.how, seen.how));
	cr_expect(eq(u64, expected.pixels, seen.pixels));
	cr_expect(eq(u64, expected.sequence, seen.sequence));
	cr_expect(eq(u64, expected.fields, seen.fields));
	cr_expect(eq(sz, expected.position, seen.position));
}

void across_decode_asking(enum ts_mail_answer says)
{
	across_begin_helper(says);
	across_decode(&across_whole);
	cr_assert(across_end_helper());
	bool is_on = ts_mail_is_used(&across_mail);
	cr_expect(eq(
		u32, across_helper.request.kind, is_on ? TS_MAIL_SAMPLE : TS_MAIL_SAMPLE_FIND));
}

void across_make_record(void)
{
	struct ts_take take;

	across_decode_asking(TS_MAIL_SAYS_WON);
	const struct ts_key key = {
		.lo = across_helper.request.name.lo, .hi = across_helper.request.name.hi};
	across_expect_request(TS_MAIL_SAMPLE_STORE);
	ts_store_find(fixture_enter()->store, &key, &take);
	cr_assert(eq(int, take.verdict, TS_HIT));
	across_record_bytes = take.lease.bytes;
	cr_assert(le(u64, across_record_bytes, sizeof(across_record)));
	memcpy(across_record, take.lease.data, across_record_bytes);
	ts_lease_release(fixture_enter()->store, &take.lease);
}

void across_rename_picture(unsigned number)
{
	char value[16];

	snprintf(value, sizeof(value), "%u", number);
	setenv("JSIMD_NAME_OF_TEST", value, 1);
}
