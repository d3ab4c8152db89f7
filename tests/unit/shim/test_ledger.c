/* SPDX-License-Identifier: MIT */
/* Rows of the ledger: who gets which, who leads, and what garbage does. */
#include "fixture.h"
#include "shim/hash.h"
#include "shim/identity.h"
#include "leader/group/layout.h"
#include "leader/group/store_private.h"
#include "leader/group/attach.h"
#include "leader/line/line.h"

#include <pthread.h>

/* Beyond any pid: these processes do not exist. */
#define DEAD(n) ((UINT64_C(77) + (n)) << 24 | 0xfffff0)

static struct ts_ledger *book;

static void make_ledger(void)
{
	book = mmap(NULL, TS_LEDGER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		-1, 0);
	cr_assert(book != MAP_FAILED);
}

TestSuite(ledger, .init = make_ledger);

static uint64_t self(void)
{
	return ts_process_id(getpid(), false);
}

/* ---- datasets --------------------------------------------------------------------------- */

Test(ledger, a_dataset_keeps_its_row)
{
	cr_expect(eq(int, ts_ledger_find_dataset(book, "one"), 0));
	cr_expect(eq(int, ts_ledger_find_dataset(book, "two"), 1));
	cr_expect(eq(int, ts_ledger_find_dataset(book, "one"), 0));
	cr_expect(eq(str, ts_ledger_dataset(book, 1)->name, (char *)"two"));
	cr_expect(eq(int, ts_ledger_find_dataset(book, "tw"), 2), "a prefix is another name");
}

Test(ledger, long_names_are_cut)
{
	char name[2 * TS_DATASET_NAME];

	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	cr_expect(eq(int, ts_ledger_find_dataset(book, name), 0));
	cr_expect(eq(sz, strlen(ts_ledger_dataset(book, 0)->name), TS_DATASET_NAME - 1));
	name[TS_DATASET_NAME - 1] = '\0';
	cr_expect(eq(int, ts_ledger_find_dataset(book, name), 0));
}

Test(ledger, too_many_datasets_share_the_last_row_and_are_called_so)
{
	char name[16];

	for (int i = 0; i < (int)TS_DATASET_MAX + 3; i++) {
		int expected = i < (int)TS_DATASET_MAX - 1 ? i : (int)TS_DATASET_MAX - 1;
		snprintf(name, sizeof(name), "set%d", i);
		cr_expect(eq(int, ts_ledger_find_dataset(book, name), expected));
	}
	cr_expect(eq(str, ts_ledger_dataset(book, TS_DATASET_MAX - 1)->name,
		(char *)TS_DATASET_OTHERS));
	cr_expect(eq(int, ts_ledger_find_dataset(book, "set5"), 5));
}

Test(ledger, a_row_without_a_name_gets_it_from_the_next_member)
{
	struct ts_dataset_row *row = ts_ledger_dataset(book, 0);

	/* Its maker was killed between taking the row and naming it. */
	ts_write_relaxed(&row->name_hash, ts_hash64("one", 3) | 1);
	memset(row->name, 'z', sizeof(row->name));
	cr_expect(eq(int, ts_ledger_find_dataset(book, "one"), 0));
	cr_expect(eq(str, row->name, (char *)"one"));
	cr_expect(eq(u32, ts_load_relaxed(&row->named), 1));
}

Test(ledger, a_name_that_does_not_end_is_nobodys)
{
	struct ts_dataset_row *row = ts_ledger_dataset(book, 0);

	ts_write_relaxed(&row->name_hash, ts_hash64("zzz", 3) | 1);
	ts_write_relaxed(&row->named, 1);
	memset(row->name, 'z', sizeof(row->name));
	cr_expect(eq(int, ts_ledger_find_dataset(book, "zzz"), 1));
}

/* ---- jobs ------------------------------------------------------------------------------- */

Test(ledger, a_job_keeps_its_row)
{
	cr_expect(eq(int, ts_ledger_find_job(book, DEAD(1)), 0));
	cr_expect(eq(int, ts_ledger_find_job(book, DEAD(2)), 1));
	cr_expect(eq(int, ts_ledger_find_job(book, DEAD(1)), 0));
	cr_expect(eq(int, ts_ledger_find_job(book, 0), -EINVAL));
}

static void fill_with_dead(void)
{
	for (uint32_t i = 0; i < TS_JOB_MAX; i++)
		cr_assert(eq(int, ts_ledger_find_job(book, DEAD(i)), (int)i));
}

Test(ledger, the_oldest_dead_job_makes_room_and_its_counts_go)
{
	struct ts_job_row *row = ts_ledger_job(book, 0);

	fill_with_dead();
	ts_write_relaxed(&row->passed[TS_REASON_ALONE], 5);
	ts_write_relaxed(&row->kinds[TS_KIND_PIXELS].saved_ns, 5);
	ts_ledger_note(book, 0, 0);
	cr_expect(eq(int, ts_ledger_find_job(book, self()), 0));
	cr_expect(eq(u64, ts_load_relaxed(&row->id), self()));
	cr_expect(eq(u64, ts_load_relaxed(&row->passed[TS_REASON_ALONE]), 0));
	cr_expect(eq(u64, ts_load_relaxed(&row->kinds[TS_KIND_PIXELS].saved_ns), 0));
	cr_expect(eq(u64, ts_load_relaxed(&row->dataset[0]), 0));
	cr_expect(eq(int, ts_ledger_find_job(book, DEAD(100)), 1), "now the next one");
}

Test(ledger, live_jobs_keep_their_rows)
{
	for (uint32_t i = 0; i < TS_JOB_MAX; i++)
		ts_write_relaxed(&ts_ledger_job(book, i)->id, self());
	cr_expect(eq(int, ts_ledger_find_job(book, DEAD(1)), -ENOSPC));
}

#define RACERS 3
#define ROUNDS 100

static pthread_barrier_t barrier;

struct racer {
	uint64_t id;
	int result;
};

static void *race(void *context)
{
	struct racer *racer = context;

	pthread_barrier_wait(&barrier);
	racer->result = ts_ledger_find_job(book, racer->id);
	return NULL;
}

static void run_race(struct racer *racers)
{
	pthread_t threads[RACERS];

	memset(book, 0, TS_LEDGER_BYTES);
	fill_with_dead();
	for (int i = 0; i < RACERS; i++)
		cr_assert(eq(int, pthread_create(&threads[i], NULL, race, &racers[i]), 0));
	for (int i = 0; i < RACERS; i++)
		pthread_join(threads[i], NULL);
}

/* A job that is alive until it is killed. */
static pid_t start_job(void)
{
	pid_t pid = fork();

	if (pid == 0) {
		fixture_end_with_parent();
		for (;;)
			pause();
	}
	return pid;
}

/* Of three, one wins each time, so that the third time is the last one's at the latest. */
Test(ledger, a_lost_race_for_a_row_is_run_again)
{
	struct racer racers[RACERS];
	pid_t jobs[RACERS];

	for (int i = 0; i < RACERS; i++) {
		jobs[i] = start_job();
		racers[i].id = ts_process_id(jobs[i], false);
	}
	pthread_barrier_init(&barrier, NULL, RACERS);
	for (int round = 0; round < ROUNDS; round++) {
		run_race(racers);
		for (int i = 0; i < RACERS; i++)
			cr_assert(ge(int, racers[i].result, 0), "round %d", round);
		cr_assert(ne(int, racers[0].result, racers[1].result));
		cr_assert(ne(int, racers[1].result, racers[2].result));
		cr_assert(ne(int, racers[0].result, racers[2].result));
	}
	for (int i = 0; i < RACERS; i++) {
		kill(jobs[i], SIGKILL);
		waitpid(jobs[i], NULL, 0);
	}
}

/* ---- leaders ---------------------------------------------------------------------------- */

static int leader(uint32_t dataset, bool *ret_alive)
{
	*ret_alive = false;
	return ts_ledger_leader(book, dataset, ret_alive);
}

Test(ledger, nobody_leads_what_nobody_uses)
{
	bool alive = true;

	cr_expect(eq(int, ts_ledger_leader(book, 0, &alive), -ENOENT));
	cr_expect(alive, "untouched on failure");
	cr_expect(not(ts_ledger_has_live_job(book, 0)));
}

Test(ledger, who_joined_the_dataset_first_leads)
{
	bool alive;
	int one = ts_ledger_find_job(book, self());
	int two = ts_ledger_find_job(book, ts_process_id(getppid(), false));

	cr_assert(ne(int, one, two));
	ts_ledger_note(book, (uint32_t)two, 3);
	ts_ledger_note(book, (uint32_t)one, 3);
	ts_ledger_note(book, (uint32_t)one, 4);
	ts_ledger_note(book, (uint32_t)two, 3); /* again: the first note counts */
	cr_expect(eq(int, leader(3, &alive), two));
	cr_expect(alive);
	cr_expect(eq(int, leader(4, &alive), one));
	cr_expect(eq(int, leader(5, &alive), -ENOENT));
	cr_expect(ts_ledger_has_live_job(book, 0));
}

Test(ledger, the_living_lead_before_the_dead)
{
	bool alive;
	int dead = ts_ledger_find_job(book, DEAD(1));
	int later = ts_ledger_find_job(book, DEAD(2));

	ts_ledger_note(book, (uint32_t)dead, 0);
	ts_ledger_note(book, (uint32_t)later, 0);
	cr_expect(eq(int, leader(0, &alive), dead));
	cr_expect(not(alive));
	int live = ts_ledger_find_job(book, self());
	ts_ledger_note(book, (uint32_t)live, 0);
	cr_expect(eq(int, leader(0, &alive), live));
	cr_expect(alive);
}

Test(ledger, a_job_may_use_eight_datasets)
{
	bool alive;
	int job = ts_ledger_find_job(book, self());

	for (uint32_t i = 0; i < TS_JOB_DATASETS + 2; i++)
		ts_ledger_note(book, (uint32_t)job, i);
	cr_expect(eq(int, leader(TS_JOB_DATASETS - 1, &alive), job));
	cr_expect(eq(int, leader(TS_JOB_DATASETS, &alive), -ENOENT));
}

Test(ledger, rows_that_do_not_exist_are_not_noted)
{
	unsigned char *bytes = (unsigned char *)book;

	ts_ledger_note(book, TS_JOB_MAX, 0);
	ts_ledger_note(book, 0, TS_DATASET_MAX);
	for (uint32_t i = 0; i < TS_LEDGER_BYTES; i++)
		cr_assert(eq(u8, bytes[i], 0), "byte %u", i);
}

/* Whatever is in there: answers within bounds, and no row is taken twice. */
Test(ledger, garbage_gives_rows_or_refusals)
{
	uint64_t random = 88172645463325252u;
	bool alive;

	for (int round = 0; round < 20; round++) {
		uint64_t *words = (uint64_t *)book;
		for (uint32_t i = 0; i < TS_LEDGER_BYTES / sizeof(*words); i++) {
			random ^= random << 13;
			random ^= random >> 7;
			random ^= random << 17;
			words[i] = random;
		}
		int job = ts_ledger_find_job(book, self());
		int dataset = ts_ledger_find_dataset(book, "one");
		cr_assert(ge(int, job, 0), "no garbage row is alive");
		cr_assert(lt(int, job, (int)TS_JOB_MAX));
		cr_assert(eq(int, dataset, -ENOSPC), "all rows have other names");
		ts_ledger_note(book, (uint32_t)job, 2);
		cr_assert(eq(int, leader(2, &alive), job));
		cr_assert(alive);
	}
}

/* ---- what --align would share ------------------------------------------------------------ */

static void expect_alignable(uint64_t alignable, uint64_t samples)
{
	uint64_t found = 1;

	cr_expect(eq(u64, ts_ledger_alignable(book, &found), alignable));
	cr_expect(eq(u64, found, samples));
}

Test(ledger, a_job_that_draws_alone_has_nobody_to_share_with)
{
	expect_alignable(0, 0);
	ts_ledger_add_drawn(book, 3, 77, 100, 100);
	ts_ledger_add_drawn(book, 4, 78, 100, 100);
	expect_alignable(0, 0);
}

Test(ledger, all_but_the_most_of_one_job_would_be_shared)
{
	ts_ledger_add_drawn(book, 3, 77, 100, 100);
	ts_ledger_add_drawn(book, 0, 77, 60, 60);
	ts_ledger_add_drawn(book, 0, 77, 20, 20);
	ts_ledger_add_drawn(book, 55, 78, 30, 30);
	ts_ledger_add_drawn(book, 54, 78, 30, 30);
	expect_alignable(80 + 30, 180 + 60);
}

Test(ledger, what_equal_seeds_shared_is_not_counted_again)
{
	ts_ledger_add_drawn(book, 3, 77, 50, 100);
	ts_ledger_add_drawn(book, 4, 77, 50, 100);
	expect_alignable(0, 100);
}

Test(ledger, only_the_first_data_set_that_a_job_draws_for_counts)
{
	ts_ledger_add_drawn(book, 3, 77, 10, 10);
	ts_ledger_add_drawn(book, 3, 78, 10, 10);
	ts_ledger_add_drawn(book, 4, 78, 10, 10);
	ts_ledger_add_drawn(book, TS_JOB_MAX, 77, 10, 10);
	expect_alignable(0, 0);
}

Test(ledger, a_new_job_in_an_old_row_has_drawn_nothing)
{
	fill_with_dead();
	for (uint32_t i = 0; i < TS_JOB_MAX; i++)
		ts_ledger_add_drawn(book, i, 77, 10, 10);
	cr_assert(ge(int, ts_ledger_find_job(book, ts_identity_self()), 0));
	expect_alignable(10 * (TS_JOB_MAX - 2), 10 * (TS_JOB_MAX - 1));
}

/* ---- how far aligned jobs are, and what --order free would share --------------------------
 */

/* The job in row @job made and took so many, from one time to another, in strict order. */
static void strict_job(uint32_t job, uint64_t made, uint64_t taken, uint64_t from, uint64_t to)
{
	struct ts_progress_row *row = ts_ledger_progress(book, job);

	ts_ledger_advance(book, job, 77, TS_EPOCH, TS_ORDER_STRICT);
	row->began_ns = from;
	row->latest_ns = to;
	ts_ledger_job(book, job)->kinds[TS_KIND_SAMPLE].produced = made;
	ts_ledger_job(book, job)->kinds[TS_KIND_SAMPLE].shared = taken;
	/* All of it could be had by others, and one of them asked for the same names. */
	if (ts_ledger_job(book, job)->id == 0)
		ts_ledger_job(book, job)->id = 1 + job;
	*ts_ledger_meeting_row(book, job) =
		(struct ts_meeting_row){.id = ts_ledger_job(book, job)->id};
	ts_ledger_meeting_row(book, job)->published = made;
	ts_ledger_meeting_row(book, job)->met = 1;
}

static void expect_freeable(uint64_t freeable, uint64_t samples)
{
	uint64_t found = 1;

	cr_expect(eq(u64, ts_ledger_freeable(book, &found), freeable));
	cr_expect(eq(u64, found, samples));
}

Test(ledger, strict_jobs_that_are_apart_would_share_in_free_order)
{
	expect_freeable(0, 0);
	strict_job(5, 300, 0, 0, 100);
	expect_freeable(0, 0);
	strict_job(3, 100, 0, 0, 100);
	strict_job(9, 60, 0, 0, 100);
	expect_freeable(160, 460);
}

Test(ledger, strict_jobs_in_step_share_as_it_is)
{
	strict_job(3, 50, 50, 0, 100);
	strict_job(4, 50, 50, 0, 100);
	expect_freeable(0, 100);
}

Test(ledger, who_came_after_another_had_gone_would_share_nothing)
{
	strict_job(3, 100, 0, 0, 100);
	strict_job(4, 90, 0, 100, 200);
	expect_freeable(0, 190);
	strict_job(4, 90, 0, 70, 170); /* three tenths of it together */
	expect_freeable(27, 190);
}

Test(ledger, what_is_refused_no_order_shares)
{
	strict_job(3, 600, 0, 0, 100);
	strict_job(4, 300, 0, 0, 100);
	expect_freeable(300, 900);
	/* 594 of 600 were too young, and 299 of 300. */
	ts_ledger_job(book, 3)->passed[TS_REASON_TORCH_YOUNG] = 594;
	ts_ledger_job(book, 4)->passed[TS_REASON_TOO_LARGE] = 299;
	ts_ledger_meeting_row(book, 3)->published = 6;
	ts_ledger_meeting_row(book, 4)->published = 1;
	expect_freeable(1, 7);
	ts_ledger_meeting_row(book, 3)->published = 0;
	ts_ledger_meeting_row(book, 4)->published = 0;
	expect_freeable(0, 0);
	/* A file that was another one here says nothing of what could be published. */
	strict_job(3, 600, 0, 0, 100);
	strict_job(4, 300, 0, 0, 100);
	ts_ledger_job(book, 3)->passed[TS_REASON_TORCH_YOUNG] = 0;
	ts_ledger_job(book, 4)->passed[TS_REASON_TOO_LARGE] = 0;
	ts_ledger_job(book, 4)->passed[TS_REASON_TORCH_CHANGED] = 299;
	expect_freeable(300, 900);
}

Test(ledger, what_nobody_asked_for_by_its_name_no_order_shares)
{
	strict_job(3, 600, 0, 0, 100);
	strict_job(4, 300, 0, 0, 100);
	ts_ledger_meeting_row(book, 3)->met = 0;
	expect_freeable(300, 900);
	ts_ledger_meeting_row(book, 4)->met = 0;
	expect_freeable(0, 0);
	ts_ledger_meeting_row(book, 3)->given_samples = 1;
	expect_freeable(300, 900);
	/* The row of an older version's job says nothing of its own. */
	ts_ledger_meeting_row(book, 3)->id = 4711;
	expect_freeable(0, 0);
}

Test(ledger, a_record_is_given_by_the_job_that_made_it)
{
	for (uint32_t i = 0; i < 3; i++)
		strict_job(i, 10, 0, 0, 100);
	ts_ledger_give(book, 0, 2, TS_KIND_SAMPLE, 1);
	ts_ledger_give(book, 0, 2, TS_KIND_PIXELS, 1);
	ts_ledger_give(book, 0, 2, TS_KIND_BYTES, 1);
	ts_ledger_give(book, 0, 1, TS_KIND_PIXELS, 1);
	ts_ledger_give(book, 0, 0, TS_KIND_SAMPLE, 1);
	ts_ledger_give(book, 0, 4711, TS_KIND_SAMPLE, 1);
	ts_ledger_give(book, TS_JOB_MAX, 2, TS_KIND_SAMPLE, 1);
	cr_expect(eq(u64, ts_ledger_meeting_row(book, 1)->given_samples, 1));
	cr_expect(eq(u64, ts_ledger_meeting_row(book, 1)->given_images, 1));
	cr_expect(eq(u64, ts_ledger_meeting_row(book, 0)->own, 1));
	cr_expect(eq(u64, ts_ledger_meeting_row(book, 0)->given_images, 0));
	cr_expect(eq(ptr, ts_ledger_meeting(book, TS_JOB_MAX), NULL));
}

Test(ledger, jobs_run_side_by_side_while_both_are_there)
{
	int mine = ts_ledger_find_job(book, ts_identity_self());
	cr_assert(ge(int, mine, 0));
	uint32_t me = (uint32_t)mine, other = me == 7 ? 8 : 7;
	struct ts_job_row *row = ts_ledger_job(book, other);

	/* One that started with the machine and ended a moment after this one had begun. */
	row->id = 1;
	cr_expect(eq(u64, ts_ledger_beside_ns(book, me, other), 0), "nobody knows when");
	row->ended = 1;
	cr_expect(eq(u64, ts_ledger_beside_ns(book, me, other), 0), "long ago");
	uint64_t began = (ts_identity_self() >> 24) * 10000000;
	row->ended = began + 5;
	cr_expect(eq(u64, ts_ledger_beside_ns(book, me, other), 5));
	cr_expect(eq(u64, ts_ledger_beside_ns(book, other, me), 5));
	row->ended = 0;
	row->id = ts_identity_self();
	cr_expect(gt(u64, ts_ledger_beside_ns(book, me, other), 0));
	cr_expect(eq(u64, ts_ledger_beside_ns(book, TS_JOB_MAX, me), 0));
}

Test(ledger, free_jobs_and_other_data_sets_are_not_among_them)
{
	strict_job(3, 100, 0, 0, 100);
	strict_job(4, 100, 0, 0, 100);
	ts_ledger_advance(book, 4, 77, TS_EPOCH, TS_ORDER_FREE);
	expect_freeable(0, 100 - 100);
	strict_job(5, 100, 0, 0, 100);
	ts_ledger_progress(book, 5)->identity = 78;
	expect_freeable(0, 0);
}

Test(ledger, who_is_behind_is_told_how_far_the_first_is)
{
	int mine = ts_ledger_find_job(book, ts_identity_self());
	cr_assert(ge(int, mine, 0));
	uint32_t other = mine == 7 ? 8 : 7; /* of a job that is over: nobody is behind it */

	cr_expect(eq(u64, ts_ledger_front(book, (uint32_t)mine), 0));
	ts_ledger_advance(book, (uint32_t)mine, 77, 2 * TS_EPOCH, TS_ORDER_STRICT);
	ts_ledger_advance(book, other, 77, 9 * TS_EPOCH, TS_ORDER_STRICT);
	cr_expect(eq(u64, ts_ledger_front(book, (uint32_t)mine), 2 * TS_EPOCH));
	ts_ledger_job(book, other)->id = ts_identity_self();
	cr_expect(eq(u64, ts_ledger_front(book, (uint32_t)mine), 9 * TS_EPOCH));
	/* The data set that it began with is the one that is told of. */
	ts_ledger_advance(book, other, 78, 20 * TS_EPOCH, TS_ORDER_STRICT);
	ts_ledger_advance(book, TS_JOB_MAX, 77, 20 * TS_EPOCH, TS_ORDER_STRICT);
	cr_expect(eq(u64, ts_ledger_front(book, (uint32_t)mine), 9 * TS_EPOCH));
}

Test(ledger, a_new_job_in_an_old_row_is_nowhere)
{
	fill_with_dead();
	for (uint32_t i = 0; i < TS_JOB_MAX; i++)
		strict_job(i, 10, 0, 0, 100);
	int mine = ts_ledger_find_job(book, ts_identity_self());
	cr_assert(ge(int, mine, 0));
	cr_expect(eq(u64, ts_ledger_progress(book, (uint32_t)mine)->identity, 0));
	expect_freeable(10 * (TS_JOB_MAX - 2), 10 * (TS_JOB_MAX - 1));
}

/* The end of a job: the ledger that it is found in, and the block that it prints. */

/* ---- the block: every kind of work, and its largest size --------------------------------- */

static struct ts_job_row alone; /* what was counted outside the ledger */
static char printed[8192];

static void begin(void)
{
	memset(&alone, 0, sizeof(alone));
}

TestSuite(block, .init = begin);

static void fill(enum ts_kind kind, uint64_t produced, uint64_t shared, uint64_t saved_ns)
{
	ts_write_relaxed(&alone.kinds[kind].produced, produced);
	ts_write_relaxed(&alone.kinds[kind].shared, shared);
	ts_write_relaxed(&alone.kinds[kind].saved_ns, saved_ns);
}

/* The block of job @id, without its title. */
static const char *print(struct ts_ledger *of, uint64_t id)
{
	char title[256];
	int lines = fixture_catch_stderr();

	ts_summary_print(of, id, &alone);
	ssize_t length = read(lines, printed, sizeof(printed) - 1);
	cr_assert(gt(long, (long)length, 0));
	printed[length] = '\0';
	snprintf(title, sizeof(title), "tsshim: what %s (%d) shared\n",
		program_invocation_short_name, (int)getpid());
	cr_assert(strncmp(printed, title, strlen(title)) == 0, "%s", printed);
	return printed + strlen(title);
}

static void expect_block(struct ts_ledger *of, const char *wanted)
{
	cr_expect(eq(str, (char *)print(of, 4711), (char *)wanted));
}

Test(block, each_kind_has_its_lines)
{
	fill(TS_KIND_BYTES, 10, 30, 0);
	expect_block(
		NULL, "  files of slow storage: 10 copied here, 30 opened as copies (75 %)\n");
	begin();
	fill(TS_KIND_PIXELS, 3, 0, 0);
	fill(TS_KIND_SAMPLE, 25, 75, UINT64_C(12340000000));
	ts_write_relaxed(&alone.passed[TS_REASON_TORCH_YOUNG], 7);
	expect_block(NULL,
		"  decoded images: 3 worked out here, 0 taken from the ring (0 %)\n"
		"  CPU time saved: 0.00 s\n"
		"  finished samples: 25 worked out here, 75 taken from the ring (75 %)\n"
		"  CPU time saved: 12.34 s\n"
		"  not shared 7 times: an input file was changed just before or while it was "
		"read\n");
}

/* The last line is whole, whatever the numbers: the block has a fixed size. */
Test(block, the_longest_block_fits)
{
	/* Files have one line, all other kinds two. */
	for (int kind = 0; kind < TS_KIND_COUNT; kind++)
		fill((enum ts_kind)kind, UINT64_MAX / 200, UINT64_MAX / 200, UINT64_MAX);
	/* The longest texts are counted most, and so are the five that are printed. */
	for (int i = 0; i < TS_REASON_COUNT; i++)
		ts_write_relaxed(
			&alone.passed[i], UINT64_MAX - 1000 + strlen(ts_reasons[i].text));
	const char *rest = print(NULL, 1);
	size_t lines = 0;
	for (const char *at = rest; *at; at++)
		lines += *at == '\n';
	cr_expect(eq(int, (int)lines, 2 * TS_KIND_COUNT - 1 + 5), "%s", printed);
	cr_expect(printed[strlen(printed) - 1] == '\n', "%s", printed);
}

/* ---- the ledger of a group, looked at when a job ends ------------------------------------ */

TestSuite(summary, .init = fixture_init, .fini = fixture_finish);

/* Change @bytes at @offset of the group's ledger, and its check when @forge. */
static void patch(size_t offset, const void *data, size_t bytes, bool forge)
{
	char path[TS_PATH_BYTES];
	struct ts_ledger head;

	cr_assert(eq(
		int, ts_object_path(path, sizeof(path), getenv("TSSHIM_GROUP"), "ledger"), 0));
	int fd = open(path, O_RDWR);
	cr_assert(eq(int, (int)pread(fd, &head, sizeof(head), 0), (int)sizeof(head)));
	memcpy((char *)&head + offset, data, bytes);
	if (forge)
		head.check = ts_hash64(&head, offsetof(struct ts_ledger, check));
	cr_assert(eq(int, (int)pwrite(fd, &head, sizeof(head), 0), (int)sizeof(head)));
	close(fd);
}

Test(summary, a_job_is_found_in_a_ledger_of_ours_only)
{
	static const uint64_t magic = 1;
	static const uint32_t ours = TS_ABI, abi = TS_ABI + 1, uid = 12345;
	const char *group = getenv("TSSHIM_GROUP");

	cr_expect(not(ts_group_has_ring(group)));
	cr_expect(not(ts_group_has_job(group, ts_identity_job())));
	fixture_enter();
	cr_expect(ts_group_has_ring(group));
	cr_expect(ts_group_has_job(group, ts_identity_job()));
	cr_expect(not(ts_group_has_job(group, ts_identity_job() + 1)));
	patch(offsetof(struct ts_ledger, head.uid), &uid, sizeof(uid), false);
	cr_expect(not(ts_group_has_job(group, ts_identity_job())), "check");
	patch(offsetof(struct ts_ledger, head.uid), &uid, sizeof(uid), true);
	cr_expect(ts_group_has_job(group, ts_identity_job()));
	patch(offsetof(struct ts_ledger, head.abi), &abi, sizeof(abi), true);
	cr_expect(not(ts_group_has_job(group, ts_identity_job())), "abi");
	patch(offsetof(struct ts_ledger, head.abi), &ours, sizeof(ours), true);
	cr_expect(ts_group_has_job(group, ts_identity_job()));
	patch(offsetof(struct ts_ledger, head.magic), &magic, sizeof(magic), true);
	cr_expect(not(ts_group_has_job(group, ts_identity_job())), "magic");
}

/* ---- the block of a job that is in a ledger, or in none ------------------------------------
 */

Test(block, says_what_was_shared_and_what_not)
{
	static const char nothing[] = "  nothing: no call of this job could be shared\n";

	make_ledger();
	struct ts_job_row *row = ts_ledger_job(book, 3);
	struct ts_tally *pixels = &row->kinds[TS_KIND_PIXELS];

	expect_block(NULL, nothing); /* there is no ledger, or no row in it */
	expect_block(book, nothing);
	ts_write_relaxed(&row->id, 4711);
	ts_write_relaxed(&pixels->produced, 25);
	ts_write_relaxed(&pixels->shared, 75);
	ts_write_relaxed(&pixels->saved_ns, UINT64_C(12340000000));
	ts_write_relaxed(&row->passed[TS_REASON_JPEG_SMALL], 7);
	ts_write_relaxed(&row->passed[TS_REASON_ALONE], 9);
	ts_write_relaxed(&row->passed[TS_REASON_MEMORY], 7);
	expect_block(book,
		"  decoded images: 25 worked out here, 75 taken from the ring (75 %)\n"
		"  CPU time saved: 12.34 s\n"
		"  not shared 9 times: no other job was asking for this data when it was made\n"
		"  not shared 7 times: decoding costs less than sharing would\n"
		"  not shared 7 times: no private memory left\n");
	/* Why there is no ledger. */
	fill(TS_KIND_PIXELS, 3, 0, 0);
	ts_write_relaxed(&alone.passed[TS_REASON_NO_SPACE], 3);
	expect_block(NULL,
		"  decoded images: 3 worked out here, 0 taken from the ring (0 %)\n"
		"  CPU time saved: 0.00 s\n"
		"  not shared 3 times: not enough shared memory (/dev/shm, memory limit, "
		"RLIMIT_AS)\n");
}

Test(block, names_the_five_most_frequent_reasons)
{
	static const uint64_t huge = 1000000000000000000u;
	int lines = 0;

	make_ledger();
	ts_write_relaxed(&ts_ledger_job(book, 0)->id, 1);
	for (uint32_t i = 0; i < TS_REASON_COUNT; i++)
		ts_write_relaxed(&ts_ledger_job(book, 0)->passed[i], huge - i);
	for (const char *at = print(book, 1); (at = strchr(at, '\n')); at++)
		lines++;
	cr_expect(eq(int, lines, 5));
	cr_expect(strstr(printed, "not shared 999999999999999996 times") != NULL);
	cr_expect(strstr(printed, "999999999999999995") == NULL);
}
