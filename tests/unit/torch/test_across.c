/* SPDX-License-Identifier: MIT */
/* Samples between nodes: what becomes of those that other nodes are asked for. */
#include "fixture.h"
#include "hooks/torch/samples.h"
#include "shim/sys.h"
#include "hooks/torch/samples_private.h"
#include "tests/unit/across.h"

#define ACROSS_PAYLOAD UINT64_C(100000)
#define ACROSS_WAIT_US 1000u

#define GUARD_NS UINT64_C(30000000000)

static struct ts_mail across_mail;
static int places;

/* In front of each test; behind it fixture_finish(). */
static void across_init(void)
{
	across_set();
	setenv("TSSHIM_TEST_YOUNG_INPUTS", "1", 1);
	torch_init();
	struct ts_store *store = fixture_enter()->store;
	across_serve(store, &across_mail);
	places = across_open_places(store, &across_mail);
}

/* ---- the helper ------------------------------------------------------------------------- */

static unsigned char across_record[ACROSS_PAYLOAD + 4096];
static uint64_t across_record_bytes;

/* Publish @number here, @path being read meanwhile (unless NULL), and keep its record. */
static void across_make_record(int64_t number, unsigned char value, const char *path)
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
}

/* Take what is asked next, as the helper does; its slot. */
static uint32_t across_take_request(struct ts_mail_request *ret_request)
{
	uint64_t end_ns = ts_now_ns() + GUARD_NS;
	uint32_t index = 0;

	while (ts_mail_take(&across_mail, 0, &index, ret_request) < 0 && ts_now_ns() < end_ns)
		;
	return index;
}

/* What is asked next is of this kind, and of @sample; nothing is asked, no slot is taken. */
static void across_expect_request(enum ts_mail_kind kind, const struct ts_sample *sample)
{
	struct ts_mail_request request;
	uint32_t index = across_take_request(&request);

	cr_expect(eq(u32, request.kind, kind));
	cr_expect(eq(u64, request.name.lo, sample->key.lo));
	cr_expect(eq(u64, request.name.hi, sample->key.hi));
	ts_mail_answer(&across_mail, index, TS_MAIL_SAYS_NONE);
}

static void across_expect_no_request(void)
{
	across_expect_idle(&across_mail);
}

/* Answer @sample's request; what is GOT is the record above, which took @took_ns. */
static void across_answer(
	const struct ts_sample *sample, enum ts_mail_answer says, uint64_t took_ns)
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

/* One that is claimed and asked for. */
static struct ts_sample *across_seek(int64_t number)
{
	struct ts_sample *sample = torch_sample();

	cr_assert(ne(int, tsshim_sample_across(sample), 0));
	cr_assert(eq(int, torch_take(sample, number, 0), TS_CLAIM));
	cr_assert(ne(int, tsshim_sample_seek(sample), 0));
	cr_expect(eq(int, tsshim_sample_found(sample, 0), TS_BUSY));
	return sample;
}

/* How often that was counted. */
static uint64_t across_passed(enum ts_reason reason)
{
	return ts_load_relaxed(&fixture_ledger()->passed[reason]);
}

TestSuite(across, .init = across_init, .fini = torch_finish, .timeout = 60);

/* ---- what comes ------------------------------------------------------------------------- */

Test(across, what_another_node_has_is_taken_and_shared_here)
{
	across_make_record(1, 77, NULL);
	uint64_t produced = torch_produced();
	struct ts_sample *sample = across_seek(2), *other = torch_sample();
	const struct ts_sample_view *view = ts_sample_view(sample);

	cr_expect(eq(int, torch_take(other, 2, 0), TS_BUSY));
	across_answer(sample, TS_MAIL_SAYS_GOT, 1000);
	cr_assert(eq(int, tsshim_sample_found(sample, ACROSS_WAIT_US), TS_HIT));
	cr_expect(eq(u64, view->payload_bytes, ACROSS_PAYLOAD));
	cr_expect(eq(int, ((const unsigned char *)view->payload)[ACROSS_PAYLOAD - 1], 77));
	cr_expect(eq(u64, sample->take.lease.produce_ns, 4000000));
	tsshim_sample_taken(sample);
	cr_expect(eq(u64, torch_shared(), 1));
	cr_expect(eq(u64, torch_produced(), produced));
	cr_expect(eq(int, torch_take(other, 2, 0), TS_HIT));
	cr_expect(eq(u64, ts_load_relaxed(&across_mail.table->samples.got), 1));
	torch_destroy(sample);
	torch_destroy(other);
	across_expect_no_request();
}

Test(across, what_is_won_is_handed_over_once_it_is_published)
{
	struct ts_sample *sample = across_seek(2);

	across_answer(sample, TS_MAIL_SAYS_WON, 0);
	cr_assert(eq(int, tsshim_sample_found(sample, ACROSS_WAIT_US), TS_CLAIM));
	torch_publish(sample, ACROSS_PAYLOAD, 7);
	across_expect_request(TS_MAIL_SAMPLE_STORE, sample);
	across_expect_no_request();
}

Test(across, what_is_won_and_fails_is_given_back)
{
	struct ts_sample *sample = across_seek(2);

	across_answer(sample, TS_MAIL_SAYS_WON, 0);
	cr_assert(eq(int, tsshim_sample_found(sample, ACROSS_WAIT_US), TS_CLAIM));
	tsshim_sample_begin(sample, TS_SAMPLE_NEST);
	cr_expect(eq(int, tsshim_sample_end(sample, TS_SAMPLE_RAISED), -ECANCELED));
	across_expect_request(TS_MAIL_SAMPLE_RETURN, sample);
	across_expect_no_request();
}

Test(across, any_other_answer_leaves_it_to_us_alone)
{
	static const enum ts_mail_answer answers[] = {TS_MAIL_SAYS_NONE, TS_MAIL_SAYS_LATE,
		TS_MAIL_SAYS_CLOSED, TS_MAIL_SAYS_FAILED, TS_MAIL_SAYS_REFUSED,
		TS_MAIL_SAYS_UNFIT};

	for (unsigned i = 0; i < TS_ARRAY_SIZE(answers); i++) {
		struct ts_sample *sample = across_seek(10 + i);
		across_answer(sample, answers[i], 0);
		cr_expect(eq(int, tsshim_sample_found(sample, ACROSS_WAIT_US), TS_CLAIM));
		torch_publish(sample, ACROSS_PAYLOAD, 7);
		across_expect_no_request();
		torch_destroy(sample);
	}
	cr_expect(eq(u64, across_passed(TS_REASON_ACROSS_ALONE), TS_ARRAY_SIZE(answers)));
}

/* ---- files of other nodes --------------------------------------------------------------- */

static char path[] = "/tmp/tsshim-across-XXXXXX";

static void write_file(const char *text)
{
	int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);

	cr_assert(eq(i64, write(fd, text, strlen(text)), (ssize_t)strlen(text)));
	close(fd);
}

/* The device that the record has for its only file; behind magic, count and size. */
static uint64_t *device_of_record(void)
{
	return (uint64_t *)(void *)(across_record + sizeof(struct ts_record) + 8);
}

static void seal_record(void)
{
	struct ts_record head;

	memcpy(&head, across_record, sizeof(head));
	head.check = ts_record_check(&head, across_record + sizeof(head));
	memcpy(across_record, &head, sizeof(head));
}

Test(across, a_file_is_known_by_all_but_its_device)
{
	close(mkstemp(path));
	write_file("one");
	across_make_record(1, 77, path);
	uint64_t device = *device_of_record();
	cr_assert(ne(u64, device, 0));
	*device_of_record() = device + 1;
	seal_record();
	struct ts_sample *sample = across_seek(2);
	across_answer(sample, TS_MAIL_SAYS_GOT, 1000);
	cr_assert(eq(int, tsshim_sample_found(sample, ACROSS_WAIT_US), TS_HIT));
	/* From here on it is this node's. */
	cr_expect(eq(u64,
		*(const uint64_t *)((const unsigned char *)ts_sample_view(sample)->inputs + 8),
		device));
	torch_destroy(sample);
	unlink(path);
}

Test(across, one_of_a_file_that_changed_is_refused_and_given_back)
{
	close(mkstemp(path));
	write_file("one");
	across_make_record(1, 77, path);
	write_file("another");
	struct ts_sample *sample = across_seek(2);
	across_answer(sample, TS_MAIL_SAYS_GOT, 1000);
	cr_expect(eq(int, tsshim_sample_found(sample, ACROSS_WAIT_US), TS_CLAIM));
	cr_expect(eq(u64, across_passed(TS_REASON_TORCH_CHANGED), 1));
	across_expect_request(TS_MAIL_SAMPLE_RETURN, sample);
	torch_publish(sample, ACROSS_PAYLOAD, 7);
	across_expect_no_request();
	torch_destroy(sample);
	unlink(path);
}

Test(across, what_is_no_record_is_refused)
{
	across_make_record(1, 77, NULL);
	for (uint32_t at = 0; at < sizeof(struct ts_record); at += 4) {
		struct ts_sample *sample = across_seek(10 + at);
		across_record[at] ^= 0x41;
		across_answer(sample, TS_MAIL_SAYS_GOT, 1000);
		across_record[at] ^= 0x41;
		cr_expect(eq(int, tsshim_sample_found(sample, ACROSS_WAIT_US), TS_CLAIM), "%u",
			at);
		across_expect_request(TS_MAIL_SAMPLE_RETURN, sample);
		torch_destroy(sample);
	}
	across_record_bytes = 3;
	struct ts_sample *sample = across_seek(2);
	across_answer(sample, TS_MAIL_SAYS_GOT, 1000);
	cr_expect(eq(int, tsshim_sample_found(sample, ACROSS_WAIT_US), TS_CLAIM));
	across_expect_request(TS_MAIL_SAMPLE_RETURN, sample);
	torch_destroy(sample);
	across_expect_no_request();
}

/* ---- leaving ---------------------------------------------------------------------------- */

Test(across, who_leaves_gives_back_what_it_then_wins)
{
	struct ts_mail_request request;
	struct ts_sample *sample = across_seek(2), *other = torch_sample();
	uint32_t index = across_take_request(&request);

	tsshim_sample_drop(sample);
	cr_expect(eq(int, ts_mail_is_wanted(&across_mail, index), false));
	/* Its place is nobody's before the helper has said so. */
	cr_expect(ne(u64, ts_load_relaxed(&across_mail.table->slots[index].owner), 0));
	ts_mail_answer(&across_mail, index, TS_MAIL_SAYS_GOT);
	across_expect_no_request();
	cr_expect(eq(int, torch_take(other, 2, 0), TS_CLAIM), "the claim was given up");
	torch_destroy(other);

	other = across_seek(3);
	across_answer(other, TS_MAIL_SAYS_WON, 0);
	tsshim_sample_drop(other);
	across_expect_request(TS_MAIL_SAMPLE_RETURN, other);
	across_expect_no_request();
}

static struct ts_sample *of_parent;

static int destroy_in_child(void)
{
	torch_destroy(of_parent);
	return 0;
}

Test(across, a_fork_child_leaves_its_parent_what_that_has_won)
{
	struct ts_mail_request request;
	uint32_t index;

	of_parent = across_seek(2);
	across_answer(of_parent, TS_MAIL_SAYS_WON, 0);
	cr_assert(eq(int, tsshim_sample_found(of_parent, ACROSS_WAIT_US), TS_CLAIM));
	cr_assert(eq(int, fixture_fork(destroy_in_child), 0));
	cr_expect(eq(int, ts_mail_take(&across_mail, 0, &index, &request), -ENOENT));
	torch_publish(of_parent, ACROSS_PAYLOAD, 7);
	across_expect_request(TS_MAIL_SAMPLE_STORE, of_parent);
	across_expect_no_request();
}

Test(across, a_helper_that_has_gone_is_not_waited_for)
{
	struct ts_sample *sample = across_seek(2);
	int verdict = TS_BUSY;

	ts_write_release(
		&across_mail.table->helper, UINT64_C(1) << 62); /* no process has this id */
	while (verdict == TS_BUSY)
		verdict = tsshim_sample_found(sample, ACROSS_WAIT_US);
	cr_expect(eq(int, verdict, TS_CLAIM));
	torch_publish(sample, ACROSS_PAYLOAD, 7);
	across_expect_no_request();
}

/* He is not at work, but for what his node need not make. */
Test(across, who_waits_for_another_node_keeps_his_claim_as_long)
{
	(void)across_seek(2);
	struct ts_sample *other = torch_sample();
	uint64_t begin = ts_now_ns();

	cr_assert(ne(int, tsshim_sample_across(other), 0));
	cr_assert(eq(int, torch_take(other, 2, 0), TS_BUSY));
	cr_expect(eq(int, tsshim_sample_take(other, TS_SAMPLE_WAIT), TS_CLAIM));
	cr_expect(ge(u64, ts_now_ns() - begin, TS_MAIL_WAIT_NS));
}

/* Samples between nodes: which of them other nodes are asked for. */

TestSuite(across_asked, .init = across_init, .fini = torch_finish, .timeout = 60);

Test(across_asked, what_takes_longer_to_get_than_to_make_is_not_asked_for)
{
	struct ts_sample *sample = torch_sample();

	ts_write_relaxed(&across_mail.table->samples.off_until, UINT64_MAX);
	cr_expect(eq(int, tsshim_sample_across(sample), 0));
	cr_expect(eq(int, torch_take(sample, 5, 0), TS_CLAIM));
	cr_expect(eq(int, tsshim_sample_seek(sample), 0));
	cr_expect(eq(u64, across_passed(TS_REASON_ACROSS_SLOW), 1));
	/* It is off for all of a batch, whatever becomes of it meanwhile. */
	ts_write_relaxed(&across_mail.table->samples.off_until, 1);
	tsshim_sample_drop(sample);
	cr_expect(eq(int, torch_take(sample, 6, 0), TS_CLAIM));
	cr_expect(eq(int, tsshim_sample_seek(sample), 0));
	cr_expect(eq(u64, across_passed(TS_REASON_ACROSS_SLOW), 2));
	cr_expect(eq(u64, across_passed(TS_REASON_ACROSS_ALONE), 0));
	/* And again after a while. */
	cr_expect(ne(int, tsshim_sample_across(sample), 0));
	torch_destroy(sample);
	across_expect_no_request();
}

Test(across_asked, what_no_node_takes_is_not_asked_for)
{
	struct ts_sample *sample = torch_sample();

	ts_write_relaxed(&across_mail.table->use.unused_until, UINT64_MAX);
	cr_expect(eq(int, tsshim_sample_across(sample), 0));
	cr_expect(eq(int, torch_take(sample, 5, 0), TS_CLAIM));
	cr_expect(eq(int, tsshim_sample_seek(sample), 0));
	cr_expect(eq(u64, across_passed(TS_REASON_ACROSS_UNUSED), 1));
	across_expect_no_request();
	tsshim_sample_drop(sample);
	ts_write_relaxed(&across_mail.table->use.unused_until, ts_now_ns());
	cr_expect(ne(int, tsshim_sample_across(sample), 0));
}

Test(across_asked, a_lone_job_makes_for_other_nodes)
{
	const struct ts_session *session = fixture_enter();
	struct ts_demand *demand =
		&ts_ledger_dataset(fixture_ledger(), session->dataset)->demands[TS_KIND_SAMPLE];
	struct ts_sample *sample = torch_sample();

	ts_write_relaxed(&demand->capture, 0);
	cr_expect(eq(int, torch_take(sample, 5, 0), TS_PASS));
	cr_expect(ne(int, tsshim_sample_across(sample), 0));
	cr_expect(eq(int, torch_take(sample, 5, 0), TS_CLAIM));
	/* And for nobody, where they are not asked. */
	ts_write_relaxed(&across_mail.table->use.unused_until, UINT64_MAX);
	cr_expect(eq(int, tsshim_sample_across(sample), 0));
	cr_expect(eq(int, torch_take(sample, 6, 0), TS_PASS));
}
