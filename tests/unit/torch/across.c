/* SPDX-License-Identifier: MIT */
/* Samples between nodes, for tests: tests/unit/across.h explains it. */
#include "across.h"

#include "fixture.h"
#include "hooks/torch/samples.h"
#include "shim/sys.h"
#include "tests/unit/across.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define GUARD_NS UINT64_C(30000000000)

struct ts_mail across_mail;
static int places;

void across_init(void)
{
	across_set();
	setenv("TSSHIM_TEST_YOUNG_INPUTS", "1", 1);
	torch_init();
	struct ts_store *store = fixture_enter()->store;
	across_serve(store, &across_mail);
	places = across_open_places(store, &across_mail);
}

/* ---- the helper ------------------------------------------------------------------------- */

unsigned char across_record[ACROSS_PAYLOAD + 4096];
uint64_t across_record_bytes;

void across_make_record(int64_t number, unsigned char value, const char *path)
{
	struct ts_sample *sample = torch_sample();
	char meta[META_BYTES] = "what samples look like";
	struct ts_take take;

	cr_assert(eq(int, torch_take(sample, number, 0), TS_CLAIM));
	meta[META_BYTES - 1] = (char)value;
	tsshim_sample_begin(sample, TS_SAMPLE_NEST);
	if (path && sample->listing) {
		int fd = open(path, O_RDONLY | O_CLOEXEC);
		ts_opens_note(&sample->opens, AT_FDCWD, path, O_RDONLY, fd, NULL);
		close(fd);
	}
	cr_assert(eq(int, tsshim_sample_end(sample, TS_SAMPLE_MADE), 0));
	void *room = tsshim_sample_reserve(sample, meta, META_BYTES, ACROSS_PAYLOAD);
	cr_assert(room != NULL);
	memset(room, value, ACROSS_PAYLOAD);
	tsshim_sample_publish(sample);
	ts_store_find(sample->store, &sample->key, &take);
	cr_assert(eq(int, take.verdict, TS_HIT));
	across_record_bytes = take.lease.bytes;
	cr_assert(le(u64, across_record_bytes, sizeof(across_record)));
	memcpy(across_record, take.lease.data, across_record_bytes);
	ts_lease_release(sample->store, &take.lease);
	tsshim_sample_destroy(sample);
}

uint32_t across_take_request(struct ts_mail_request *ret_request)
{
	uint64_t end_ns = ts_now_ns() + GUARD_NS;
	uint32_t index = 0;

	while (ts_mail_take(&across_mail, 0, &index, ret_request) < 0 && ts_now_ns() < end_ns)
		;
	return index;
}

void across_expect_request(enum ts_mail_kind kind, const struct ts_sample *sample)
{
	struct ts_mail_request request;
	uint32_t index = across_take_request(&request);

	cr_expect(eq(u32, request.kind, kind));
	cr_expect(eq(u64, request.name.lo, sample->key.lo));
	cr_expect(eq(u64, request.name.hi, sample->key.hi));
	ts_mail_answer(&across_mail, index, TS_MAIL_SAYS_NONE);
}

void across_expect_no_request(void)
{
	across_expect_idle(&across_mail);
}

void across_answer(const struct ts_sample *sample, enum ts_mail_answer says, uint64_t took_ns)
{
	const struct ts_mail_sample head = {
		.version = TS_MAIL_SAMPLE_VERSION, .made_ns = 5000000, .produce_ns = 4000000};
	struct ts_mail_request request;
	uint32_t index = across_take_request(&request);
	off_t at = (off_t)ts_mail_place_at(index);

	cr_assert(eq(u32, request.kind, TS_MAIL_SAMPLE));
	cr_assert(lt(u32, index, TS_MAIL_PLACES));
	cr_expect(eq(u64, request.name.lo, sample->key.lo));
	if (says == TS_MAIL_SAYS_GOT) {
		cr_assert(eq(i64, pwrite(places, &head, sizeof(head), at), sizeof(head)));
		at += (off_t)sizeof(head);
		cr_assert(eq(i64, pwrite(places, across_record, across_record_bytes, at),
			across_record_bytes));
		ts_mail_set_found(&across_mail, index, across_record_bytes, took_ns);
	}
	ts_mail_answer(&across_mail, index, says);
}

struct ts_sample *across_seek(int64_t number)
{
	struct ts_sample *sample = torch_sample();

	cr_assert(ne(int, tsshim_sample_across(sample), 0));
	cr_assert(eq(int, torch_take(sample, number, 0), TS_CLAIM));
	cr_assert(ne(int, tsshim_sample_seek(sample), 0));
	cr_expect(eq(int, tsshim_sample_found(sample, 0), TS_BUSY));
	return sample;
}

uint64_t across_passed(enum ts_reason reason)
{
	return ts_load_relaxed(&fixture_ledger()->passed[reason]);
}
