/* SPDX-License-Identifier: MIT */
/* Requests to the helper for other nodes: who asks, who answers, and what the dead leave. */
#include "fixture.h"
#include "shim/identity.h"
#include "shim/sys.h"
#include "leader/mail/mail.h"
#include "shim/atomic.h"
#include "tests/unit/across.h"

#include <pthread.h>
#include <sys/inotify.h>
#include <sys/mman.h>

#define GUARD_NS UINT64_C(30000000000)

static struct ts_mail mail; /* of joined.a */
static uint32_t slot_index; /* of the request at hand */

static void begin(void)
{
	fixture_alone_init();
	cr_assert(eq(int, ts_mail_attach(joined.a, &mail), 0));
}

TestSuite(mail, .init = begin, .fini = fixture_finish, .timeout = 60);

static struct ts_mail_request request_of(uint64_t number, uint64_t wait_ns)
{
	return (struct ts_mail_request){.kind = TS_MAIL_FETCH,
		.name = {number, number + 1},
		.inode = number,
		.bytes = number,
		.until_ns = ts_now_ns() + wait_ns};
}

/* Become the helper; the descriptor keeps the lock. */
static int enter(void)
{
	int fd = open(mail.path, O_RDWR | O_CLOEXEC);

	cr_assert(ge(int, fd, 0));
	int r = ts_mail_enter(&mail, fd, ts_process_id(getpid(), false));
	if (r == 0)
		return fd;
	close(fd);
	return r;
}

static struct ts_mail_slot *slot_of(uint32_t index)
{
	return &mail.table->slots[index];
}

static void expect_all_free(void)
{
	for (uint32_t i = 0; i < TS_MAIL_SLOTS; i++) {
		cr_expect(eq(u32, ts_load_acquire(&slot_of(i)->state), TS_MAIL_FREE));
		cr_expect(eq(u64, ts_load_acquire(&slot_of(i)->owner), 0));
	}
}

static void count_returned(void *context, const struct ts_mail_request *request)
{
	uint64_t *sum = context;

	*sum += request->inode;
}

static uint64_t sweep(void)
{
	uint64_t sum = 0;

	ts_mail_sweep(&mail, count_returned, &sum);
	return sum;
}

/* ---- a helper in a thread --------------------------------------------------------------- */

struct desk {
	enum ts_mail_answer answer;
	uint32_t count; /* of requests to answer */
	struct ts_mail_request last;
};

/* Answer the first so many requests, whenever they come. */
static void *serve(void *context)
{
	struct desk *desk = context;
	uint64_t end_ns = ts_now_ns() + GUARD_NS;
	uint32_t index = 0, done = 0;

	while (done < desk->count && ts_now_ns() < end_ns) {
		if (ts_mail_take(&mail, index, &index, &desk->last) < 0)
			continue;
		(void)ts_mail_answer(&mail, index, desk->answer);
		done++;
	}
	return NULL;
}

static pthread_t begin_serving(struct desk *desk)
{
	pthread_t thread;

	cr_assert(eq(int, pthread_create(&thread, NULL, serve, desk), 0));
	return thread;
}

Test(mail, an_answer_comes_back)
{
	int lock = enter();

	for (int answer = 0; answer < TS_MAIL_ANSWER_COUNT; answer++) {
		struct desk desk = {.answer = (enum ts_mail_answer)answer, .count = 1};
		struct ts_mail_request request = request_of(40, GUARD_NS);
		pthread_t thread = begin_serving(&desk);
		cr_expect(eq(int, ts_mail_ask(&mail, &request, &slot_index), answer));
		pthread_join(thread, NULL);
		cr_expect(eq(u64, desk.last.inode, 40));
		if (answer == TS_MAIL_SAYS_WON) {
			cr_expect(eq(u32, ts_load_acquire(&slot_of(slot_index)->state),
				TS_MAIL_ANSWERED));
			desk = (struct desk){.count = 1};
			ts_mail_store(&mail, slot_index);
			serve(&desk);
			cr_expect(eq(u32, desk.last.kind, TS_MAIL_STORE));
		}
		expect_all_free();
	}
	close(lock);
}

Test(mail, what_was_won_and_is_not_made_is_returned)
{
	struct desk desk = {.answer = TS_MAIL_SAYS_WON, .count = 1};
	struct ts_mail_request request = request_of(3, GUARD_NS);
	/* Before the thread runs who asks may look whether there is a helper. */
	int lock = enter();
	pthread_t thread = begin_serving(&desk);

	cr_expect(eq(int, ts_mail_ask(&mail, &request, &slot_index), TS_MAIL_SAYS_WON));
	pthread_join(thread, NULL);
	ts_mail_return(&mail, slot_index);
	serve(&desk);
	cr_expect(eq(u32, desk.last.kind, TS_MAIL_RETURN));
	cr_expect(eq(u64, desk.last.inode, 3));
	expect_all_free();
	close(lock);
}

/* ---- deadlines -------------------------------------------------------------------------- */

/* A helper that nobody's death is told of: this process. */
static void pretend_helper(void)
{
	ts_write_release(&mail.table->helper, ts_process_id(getpid(), false));
}

Test(mail, nobody_waits_past_the_deadline)
{
	struct ts_mail_request request = request_of(1, 0);

	pretend_helper();
	cr_expect(eq(int, ts_mail_ask(&mail, &request, &slot_index), -EAGAIN));
	cr_expect(eq(u64, ts_load_relaxed(&mail.table->left), 1));
	/* And then nobody asks for a while. */
	cr_expect(eq(int, ts_mail_is_served(&mail, NULL, NULL), false));
	ts_write_relaxed(&mail.table->ask_at, 0);
	cr_expect(eq(int, ts_mail_is_served(&mail, NULL, NULL), true));
	expect_all_free();
}

/* Take one request, and do no more. */
static void *take_one(void *context)
{
	struct desk *desk = context;
	uint64_t end_ns = ts_now_ns() + GUARD_NS;
	uint32_t index = 0;

	while (ts_mail_take(&mail, index, &index, &desk->last) < 0 && ts_now_ns() < end_ns)
		;
	desk->count = index;
	return NULL;
}

/* Take one and be gone. */
static void *take_one_and_go(void *context)
{
	struct desk *desk = context;

	take_one(desk);
	ts_write_release(&mail.table->helper, JOB_B); /* no process has this id */
	return NULL;
}

/* Ask while @helper does what it does to the request, at the slot that is returned. */
static uint32_t ask_and_leave(void *(*helper)(void *desk))
{
	struct desk desk = {.count = 0};
	struct ts_mail_request request = request_of(1, GUARD_NS);
	pthread_t thread;

	pretend_helper();
	cr_assert(eq(int, pthread_create(&thread, NULL, helper, &desk), 0));
	cr_expect(eq(int, ts_mail_ask(&mail, &request, &slot_index), -ETIME));
	pthread_join(thread, NULL);
	return desk.count;
}

Test(mail, who_leaves_what_is_worked_at_is_told)
{
	uint32_t at = ask_and_leave(take_one_and_go);

	cr_expect(eq(int, ts_mail_is_wanted(&mail, at), false));
	cr_expect(eq(u32, ts_load_acquire(&slot_of(at)->state), TS_MAIL_LEFT));
	cr_expect(eq(int, ts_mail_answer(&mail, at, TS_MAIL_SAYS_WON), false));
	expect_all_free();
}

/* Do to a request what nobody does. */
static void *spoil_one(void *context)
{
	struct desk *desk = context;

	take_one(desk);
	ts_write_release(&slot_of(desk->count)->state, TS_MAIL_LEFT);
	ts_write_release(&mail.table->helper, JOB_B); /* no process has this id */
	return NULL;
}

Test(mail, a_damaged_slot_keeps_nobody)
{
	(void)ask_and_leave(spoil_one);
}

Test(mail, has_so_many_slots)
{
	struct ts_mail_request request = request_of(1, 0);

	pretend_helper();
	for (uint32_t i = 0; i < TS_MAIL_SLOTS; i++)
		ts_write_relaxed(&slot_of(i)->owner, JOB_B);
	cr_expect(eq(int, ts_mail_ask(&mail, &request, &slot_index), -EBUSY));
	cr_expect(eq(u64, ts_load_relaxed(&mail.table->unposted), 1));
	/* They belonged to one that is dead. */
	sweep();
	expect_all_free();
}

/* ---- one helper, started once ----------------------------------------------------------- */

static int starts;

static int start(const void *error)
{
	starts++;
	return error ? *(const int *)error : 0;
}

Test(mail, one_helper_is_started)
{
	const int error = -ENOENT;

	cr_expect(eq(int, ts_mail_is_served(&mail, NULL, NULL), false));
	cr_expect(eq(int, starts, 0));
	cr_expect(eq(int, ts_mail_is_served(&mail, start, NULL), false));
	cr_expect(eq(int, ts_mail_is_served(&mail, start, NULL), false));
	cr_expect(eq(int, starts, 1));
	uint64_t next = ts_load_relaxed(&mail.table->start_at);
	ts_write_relaxed(&mail.table->start_at, 0);
	cr_expect(eq(int, ts_mail_is_served(&mail, start, &error), false));
	cr_expect(eq(int, starts, 2));
	/* One that could not be started is left alone for longer. */
	cr_expect(gt(u64, ts_load_relaxed(&mail.table->start_at) - next, TS_MAIL_PAUSE_NS));
	int lock = enter();
	cr_assert(ge(int, lock, 0));
	cr_expect(eq(int, enter(), -EAGAIN));
	cr_expect(eq(int, ts_mail_is_served(&mail, start, NULL), true));
	ts_mail_resign(&mail, -EACCES);
	cr_expect(eq(u64, ts_load_relaxed(&mail.table->error), EACCES));
	cr_expect(eq(int, ts_mail_is_served(&mail, NULL, NULL), false));
	close(lock);
}

Test(mail, a_sleeping_helper_is_woken)
{
	int watch = inotify_init1(IN_NONBLOCK | IN_CLOEXEC), lock = enter();
	struct ts_mail_request request = request_of(1, 0);
	char event[512];

	cr_assert(ge(int, inotify_add_watch(watch, mail.path, IN_ATTRIB), 0));
	cr_expect(ts_mail_sleep(&mail));
	(void)ts_mail_ask(&mail, &request, &slot_index);
	cr_expect(gt(i64, (int64_t)read(watch, event, sizeof(event)), 0));
	ts_mail_wake(&mail);
	/* One that is awake is not. */
	request.until_ns = 0;
	(void)ts_mail_ask(&mail, &request, &slot_index);
	cr_expect(lt(i64, (int64_t)read(watch, event, sizeof(event)), 0));
	/* And one does not fall asleep over what is there. */
	ts_write_release(&slot_of(5)->state, TS_MAIL_POSTED);
	cr_expect(eq(int, ts_mail_sleep(&mail), false));
	cr_expect(eq(u32, ts_load_relaxed(&mail.table->asleep), 0));
	close(watch);
	close(lock);
}

/* ---- the dead --------------------------------------------------------------------------- */

/* Ask as a process of its own, and die where it is told. */
static int die_asking(void *point)
{
	struct ts_mail_request request = request_of(9, GUARD_NS);

	ts_identity_settle();
	setenv("TSSHIM_TEST_KILL", point, 1);
	if (ts_mail_ask(&mail, &request, &slot_index) == TS_MAIL_SAYS_WON)
		ts_mail_store(&mail, slot_index);
	return 0;
}

Test(mail, a_dead_owner_leaves_what_the_helper_sees_to)
{
	static const struct {
		const char *point;
		enum ts_mail_answer answer;
		uint64_t returned; /* by the sweep */
		bool is_stored;    /* there is a STORE to be done */
	} cases[] = {
		{"mail_owned", TS_MAIL_SAYS_GOT, 0, false},
		{"mail_posted", TS_MAIL_SAYS_GOT, 0, false},
		{"mail_rung", TS_MAIL_SAYS_GOT, 0, false},
		{"mail_answered", TS_MAIL_SAYS_GOT, 0, false},
		{"mail_freed", TS_MAIL_SAYS_GOT, 0, false},
		{"mail_answered", TS_MAIL_SAYS_WON, 9, false},
		{"mail_posted:2", TS_MAIL_SAYS_WON, 0, true},
		{"mail_rung:2", TS_MAIL_SAYS_WON, 0, true},
	};
	int lock = enter();

	for (size_t i = 0; i < TS_ARRAY_SIZE(cases); i++) {
		bool is_answered = strcmp(cases[i].point, "mail_owned") != 0 &&
				   strcmp(cases[i].point, "mail_posted") != 0 &&
				   strcmp(cases[i].point, "mail_rung") != 0;
		struct desk desk = {.answer = cases[i].answer, .count = is_answered};
		pthread_t thread = begin_serving(&desk);
		cr_assert(fixture_is_killed(die_asking, (void *)cases[i].point), "%s",
			cases[i].point);
		pthread_join(thread, NULL);
		cr_expect(eq(u64, sweep(), cases[i].returned), "%s", cases[i].point);
		int r = ts_mail_take(&mail, 0, &slot_index, &desk.last);
		cr_expect(eq(int, r, cases[i].is_stored ? 0 : -ENOENT), "%s", cases[i].point);
		if (r == 0) {
			cr_expect(eq(u32, desk.last.kind, TS_MAIL_STORE));
			ts_mail_answer(&mail, slot_index, TS_MAIL_SAYS_NONE);
		}
		expect_all_free();
	}
	close(lock);
}

Test(mail, what_is_worked_at_for_a_dead_owner_is_not_freed)
{
	struct ts_mail_slot *slot = slot_of(3);

	slot->request = request_of(1, 0);
	ts_write_relaxed(&slot->owner, JOB_B); /* no process has this id */
	for (uint32_t state = TS_MAIL_TAKEN; state <= TS_MAIL_LEFT; state++) {
		ts_write_release(&slot->state, state);
		sweep();
		cr_expect(eq(u32, ts_load_acquire(&slot->state), state));
	}
	cr_expect(eq(int, ts_mail_answer(&mail, 3, TS_MAIL_SAYS_NONE), false));
	expect_all_free();
}

static int die_helping(void *context)
{
	struct desk *desk = context;

	(void)enter();
	take_one(desk);
	raise(SIGKILL);
	return 0;
}

static void *ask(void *context)
{
	struct desk *desk = context;
	struct ts_mail_request request = request_of(9, GUARD_NS);

	desk->answer = (enum ts_mail_answer)ts_mail_ask(&mail, &request, &slot_index);
	return NULL;
}

Test(mail, the_next_helper_ends_what_a_dead_one_had_begun)
{
	struct ts_mail_slot *slot = slot_of(7);

	for (uint32_t state = TS_MAIL_TAKEN; state <= TS_MAIL_LEFT; state++) {
		slot->request = request_of(1, 0);
		ts_write_relaxed(&slot->owner, JOB_A);
		ts_write_release(&slot->state, state);
		int lock = enter();
		cr_assert(ge(int, lock, 0));
		cr_expect(eq(u32, ts_load_acquire(&slot->state),
			state == TS_MAIL_TAKEN ? TS_MAIL_ANSWERED : TS_MAIL_FREE));
		sweep();
		expect_all_free();
		close(lock);
	}
}

Test(mail, who_waits_for_a_dead_helper_leaves)
{
	struct desk asker = {.count = 0}, helper = asker;
	pthread_t thread;

	/* Who found none would leave before the child is there. */
	pretend_helper();
	cr_assert(eq(int, pthread_create(&thread, NULL, ask, &asker), 0));
	cr_assert(fixture_is_killed(die_helping, &helper));
	pthread_join(thread, NULL); /* long before its deadline, or the test's guard ends it */
	cr_expect(eq(int, (int)asker.answer, -ETIME));
	cr_expect(eq(u64, ts_load_relaxed(&mail.table->helper), 0));
	int lock = enter();
	cr_assert(ge(int, lock, 0));
	expect_all_free();
	close(lock);
}

/* Samples that other nodes are asked for: each is counted as what became of it, once. */

static void begin_samples(void)
{
	fixture_init();
	ts_identity_init();
	across_serve(fixture_attach(JOB_A), &mail);
}

TestSuite(mail_samples, .init = begin_samples, .fini = fixture_finish);

static struct ts_errand post(void)
{
	static uint64_t number;
	const struct ts_key key = {.lo = ++number};
	struct ts_errand errand = {.state = TS_ERRAND_NONE};
	enum ts_reason reason;

	cr_assert(eq(int, ts_errand_ask(&errand, &mail, &key, &reason), 0));
	return errand;
}

/* As the helper does. */
static uint32_t take(enum ts_mail_kind kind)
{
	struct ts_mail_request request;

	cr_assert(eq(int, ts_mail_take(&mail, 0, &slot_index, &request), 0));
	cr_assert(eq(u32, request.kind, (uint32_t)kind));
	return slot_index;
}

static struct ts_errand post_and_answer(enum ts_mail_answer answer)
{
	struct ts_errand errand = post();

	cr_assert(ts_mail_answer(&mail, take(TS_MAIL_SAMPLE), answer));
	return errand;
}

static void expect_counts(uint64_t won, uint64_t alone)
{
	struct ts_mail_flow *samples = &mail.table->samples;

	cr_expect(eq(u64, ts_load_relaxed(&samples->asked), won + alone));
	cr_expect(eq(u64, ts_load_relaxed(&samples->won), won));
	cr_expect(eq(u64, ts_load_relaxed(&samples->alone), alone));
	cr_expect(eq(u64, ts_load_relaxed(&samples->got), 0));
}

Test(mail_samples, what_is_not_waited_for_is_alone)
{
	struct ts_errand errand = post();

	ts_errand_drop(&errand); /* before it was taken */
	expect_counts(0, 1);
	errand = post();
	uint32_t index = take(TS_MAIL_SAMPLE);
	ts_errand_drop(&errand);
	cr_expect(not(ts_mail_answer(&mail, index, TS_MAIL_SAYS_GOT)));
	expect_counts(0, 2);
	errand = post_and_answer(TS_MAIL_SAYS_NONE);
	ts_errand_drop(&errand);
	expect_counts(0, 3);
}

Test(mail_samples, what_was_answered_and_is_not_used_is_returned)
{
	static const struct {
		enum ts_mail_answer answer;
		bool is_seen;
		uint64_t won, alone; /* so far */
	} cases[] = {
		{TS_MAIL_SAYS_WON, false, 1, 0},
		{TS_MAIL_SAYS_WON, true, 2, 0},
		{TS_MAIL_SAYS_GOT, true, 2, 1},
	};

	for (size_t i = 0; i < TS_ARRAY_SIZE(cases); i++) {
		struct ts_errand errand = post_and_answer(cases[i].answer);
		if (cases[i].is_seen)
			cr_assert(eq(int, ts_errand_look(&errand, 0), (int)cases[i].answer));
		if (cases[i].answer == TS_MAIL_SAYS_WON)
			ts_errand_drop(&errand);
		else
			ts_errand_refuse(&errand);
		(void)take(TS_MAIL_SAMPLE_RETURN);
		expect_counts(cases[i].won, cases[i].alone);
	}
}

/* ---- whether it pays -------------------------------------------------------------------- */

static enum ts_reason errand_asks(void)
{
	const struct ts_key key = {.lo = 7};
	struct ts_errand errand = {.state = TS_ERRAND_NONE};
	enum ts_reason reason;
	int r = ts_errand_ask(&errand, &mail, &key, &reason);

	cr_expect(eq(int, errand.state, r == 0 ? TS_ERRAND_ASKED : TS_ERRAND_NONE));
	ts_errand_drop(&errand);
	return r == 0 ? TS_REASON_COUNT : reason;
}

Test(mail_samples, nobody_asks_while_the_helper_says_so)
{
	ts_write_relaxed(&mail.table->samples.off_until, UINT64_MAX);
	ts_write_relaxed(&mail.table->use.unused_until, UINT64_MAX);
	cr_expect(eq(int, errand_asks(), TS_REASON_ACROSS_SLOW));
	ts_write_relaxed(&mail.table->samples.off_until, ts_now_ns());
	cr_expect(eq(int, errand_asks(), TS_REASON_ACROSS_UNUSED));
	ts_write_relaxed(&mail.table->use.unused_until, ts_now_ns());
	cr_expect(eq(int, errand_asks(), TS_REASON_COUNT));
}
