/* SPDX-License-Identifier: MIT */
/* The one line when what tsrun has started ends: its words, whose counts, and where it goes. */
#include "fixture.h"

#include "leader/line/line.h"
#include "shim/identity.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static struct ts_line_sum sum;
static struct ts_config config;
static char text[TS_LINE_BYTES];

static void begin(void)
{
	memset(&sum, 0, sizeof(sum));
	ts_config_init(&config);
}

TestSuite(line, .init = begin);

static char *line(void)
{
	size_t length = ts_line_format(text, sizeof(text), &sum, &config);
	text[length] = '\0';
	return text;
}

static void took(enum ts_kind kind, uint64_t taken, uint64_t made)
{
	sum.taken[kind] = taken;
	sum.made[kind] = made;
}

/* ---- words ------------------------------------------------------------------------------ */

Test(line, says_what_was_taken_and_what_that_saved)
{
	took(TS_KIND_SAMPLE, 11459, 3614);
	sum.saved_ns = UINT64_C(43900000000);
	cr_expect(eq(str, line(),
		(char *)"tsshim: 11,459 of 15,073 samples taken from other jobs, 43 s of CPU "
			"saved; `tsrun stats` tells more\n"));
}

Test(line, has_every_kind_that_something_was_taken_of)
{
	took(TS_KIND_PIXELS, 999, 1);
	took(TS_KIND_SAMPLE, 1000000, 234567);
	took(TS_KIND_DEVICE, 5, 0);
	took(TS_KIND_BYTES, 30, 10);
	sum.saved_ns = UINT64_C(740000000);
	cr_expect(eq(str, line(),
		(char *)"tsshim: 1,000,000 of 1,234,567 samples, 999 of 1,000 images, 5 of 5 "
			"copies to a GPU taken from other jobs, 0.74 s of CPU saved, 30 opens "
			"of local copies of files; `tsrun stats` tells more\n"));
}

Test(line, files_save_no_CPU_time)
{
	took(TS_KIND_BYTES, 30, 10);
	cr_expect(eq(str, line(),
		(char *)"tsshim: 30 opens of local copies of files; `tsrun stats` tells "
			"more\n"));
}

Test(line, a_kept_ring_may_have_been_filled_by_the_job_itself)
{
	took(TS_KIND_PIXELS, 6, 0);
	config.keep = 60;
	cr_expect(eq(str, line(),
		(char *)"tsshim: 6 of 6 images taken from the kept ring; `tsrun stats` tells "
			"more\n"));
}

Test(line, names_the_group_for_who_looks_further)
{
	took(TS_KIND_PIXELS, 6, 0);
	cr_assert(eq(int, ts_config_set(&config, TS_OPTION_GROUP, "a"), 0));
	cr_expect(eq(str, line(),
		(char *)"tsshim: 6 of 6 images taken from other jobs; `tsrun stats --group a` "
			"tells more\n"));
}

Test(line, times_are_as_exact_as_it_is_of_use)
{
	static const struct {
		uint64_t ns;
		const char *shown;
	} cases[] = {
		{UINT64_C(10000000), ", 0.01 s of"},
		{UINT64_C(9999999999), ", 9.99 s of"},
		{UINT64_C(10000000000), ", 10 s of"},
		{UINT64_C(599000000000), ", 599 s of"},
		{UINT64_C(600000000000), ", 10 min of"},
		{UINT64_C(7199000000000), ", 119 min of"},
		{UINT64_C(13260000000000), ", 3 h 41 min of"},
	};

	took(TS_KIND_PIXELS, 1, 1);
	for (size_t i = 0; i < TS_ARRAY_SIZE(cases); i++) {
		sum.saved_ns = cases[i].ns;
		cr_expect(
			strstr(line(), cases[i].shown) != NULL, "%s %s", cases[i].shown, text);
	}
	/* What cannot be shown is not said to be nothing. */
	sum.saved_ns = 9999999;
	cr_expect(strstr(line(), "CPU") == NULL, "%s", text);
}

Test(line, says_nothing_of_a_program_that_had_nothing_to_share)
{
	cr_expect(eq(str, line(), (char *)""));
	/* Pixels of samples that are shared as a whole say nothing by themselves. */
	sum.passed[TS_REASON_NESTED] = 100;
	sum.passed[TS_REASON_VERIFY] = 1;
	sum.passed[TS_REASON_TORCH_AGAIN] = 1;
	cr_expect(eq(str, line(), (char *)""));
}

/* One write of less than a pipe takes at once, and its end is never cut off. */
Test(line, what_was_all_verified_was_there)
{
	sum.made[TS_KIND_SAMPLE] = 80;
	sum.passed[TS_REASON_VERIFY] = 80;
	sum.passed[TS_REASON_ALONE] = 80;
	cr_expect(eq(str, line(),
		(char *)"tsshim: 80 results of other jobs worked out again to compare "
			"(--verify); `tsrun stats` tells more\n"));
}

Test(line, the_longest_one_fits)
{
	cr_assert(eq(int,
		ts_config_set(&config, TS_OPTION_GROUP,
			"0123456789012345678901234567890123456789012345678901234567890123"),
		0));
	for (int reason = 0; reason < TS_REASON_COUNT; reason++) {
		begin();
		memset(config.group, 'g', TS_NAME_MAX);
		sum.passed[reason] = UINT64_MAX;
		size_t length = strlen(line());
		cr_expect(length == 0 || text[length - 1] == '\n', "%s", text);
		cr_expect(lt(sz, length, TS_LINE_BYTES - 1));
	}
	begin();
	memset(config.group, 'g', TS_NAME_MAX);
	for (int kind = 0; kind < TS_KIND_COUNT; kind++)
		took((enum ts_kind)kind, UINT64_MAX / 2, UINT64_MAX / 2);
	sum.saved_ns = UINT64_MAX;
	sum.own = 1;
	sum.passed[TS_REASON_TORCH_DATASET] = UINT64_MAX;
	memset(sum.detail, 'd', sizeof(sum.detail) - 1);
	size_t length = strlen(line());
	cr_expect(text[length - 1] == '\n', "%s", text);
	cr_expect(lt(sz, length, TS_LINE_BYTES - 1));
}

/* ---- whose counts ----------------------------------------------------------------------- */

static struct ts_ledger *book;

static void make_book(void)
{
	begin();
	book = mmap(NULL, TS_LEDGER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		-1, 0);
	cr_assert(book != MAP_FAILED);
}

TestSuite(launch, .init = make_book);

/* Job @id in row @index, with @taken images, from @launch. */
static void job(uint32_t index, uint64_t id, uint64_t launch, uint64_t taken)
{
	ts_write_relaxed(&ts_ledger_job(book, index)->id, id);
	ts_write_relaxed(&ts_ledger_job(book, index)->kinds[TS_KIND_PIXELS].shared, taken);
	ts_ledger_set_launch(book, index, launch);
}

Test(launch, jobs_of_one_tsrun_are_added_up)
{
	job(0, 7, 7, 1);
	job(1, 8, 7, 10);
	job(2, 9, 0, 100);
	job(3, 10, 11, 1000);
	ts_line_add_jobs(&sum, book, 7, 0);
	cr_expect(eq(u64, sum.taken[TS_KIND_PIXELS], 11));
	begin();
	ts_line_add_jobs(&sum, book, 7, 8);
	cr_expect(eq(u64, sum.taken[TS_KIND_PIXELS], 10));
	begin();
	ts_line_add_jobs(&sum, book, 12, 0);
	cr_expect(eq(u64, sum.taken[TS_KIND_PIXELS], 0));
}

/* As an older tsshim would, which shares the group and knows nothing of that word. */
Test(launch, a_row_that_went_to_another_job_is_of_nobody)
{
	job(0, 8, 7, 10);
	ts_write_relaxed(&ts_ledger_job(book, 0)->id, 9);
	cr_expect(not(ts_ledger_is_of_launch(book, 0, 7)));
	cr_expect(not(ts_ledger_is_of_launch(book, 1, 7)));
	ts_ledger_set_launch(book, TS_JOB_MAX, 7);
	ts_ledger_set_launch(book, 0, 0);
	cr_expect(not(ts_ledger_is_of_launch(book, 0, 7)));
	/* Who tsrun has become is its own. */
	cr_expect(ts_ledger_is_of_launch(book, 0, 9));
}

Test(launch, a_new_job_in_an_old_row_is_of_no_tsrun)
{
	for (uint32_t i = 0; i < TS_JOB_MAX; i++)
		job(i, 1 + i, 7, 1); /* of pids that have another start time */
	int mine = ts_ledger_find_job(book, ts_identity_self());
	cr_assert(ge(int, mine, 0));
	cr_expect(eq(u64, ts_ledger_launch_row(book, (uint32_t)mine)->launch_xor_id, 0));
}

Test(launch, a_living_job_with_the_same_data_is_a_twin)
{
	job(0, 7, 7, 0);
	job(1, ts_identity_self(), 0, 0);
	ts_write_relaxed(&ts_ledger_job(book, 0)->ended, UINT64_MAX); /* it is still there */
	ts_ledger_add_drawn(book, 0, 4711, 10, 10);
	ts_line_add_jobs(&sum, book, 7, 0);
	cr_expect(not(sum.drawn_apart));
	ts_ledger_add_drawn(book, 1, 4711, 10, 10);
	ts_line_add_jobs(&sum, book, 7, 0);
	cr_expect(sum.drawn_apart);
	begin();
	ts_write_relaxed(&ts_ledger_job(book, 1)->id, 1);
	ts_line_add_jobs(&sum, book, 7, 0);
	cr_expect(not(sum.drawn_apart), "it is dead, and nobody knows since when");
	begin();
	/* Of a process that is gone, whose id says that it began with the machine. */
	ts_write_relaxed(&ts_ledger_job(book, 1)->ended, ts_meeting_now_ns());
	ts_line_add_jobs(&sum, book, 7, 0);
	cr_expect(sum.drawn_apart, "it was there when this one ran");
}

/* ---- where it goes ---------------------------------------------------------------------- */

TestSuite(descriptor, .init = begin);

static struct ts_line_place place_of(int fd)
{
	struct stat found;
	cr_assert(eq(int, fstat(fd, &found), 0));
	return (struct ts_line_place){
		.launch = 1, .device = found.st_dev, .inode = found.st_ino};
}

#define WORDS  "words\n"
#define LENGTH (sizeof(WORDS) - 1)

Test(descriptor, takes_the_line)
{
	int end = fixture_catch_stderr();
	struct ts_line_place place = place_of(2);
	cr_expect(eq(int, ts_line_write(&place, WORDS, LENGTH), 0));
	cr_expect(eq(int, fixture_lines(end), 1));
}

Test(descriptor, of_something_else_is_left_alone)
{
	int end = fixture_catch_stderr();
	struct ts_line_place place = place_of(2);
	int other = fixture_catch_stderr();
	cr_expect(eq(int, ts_line_write(&place, WORDS, LENGTH), -EBADF));
	close(2);
	cr_expect(eq(int, ts_line_write(&place, WORDS, LENGTH), -EBADF));
	cr_expect(eq(int, fixture_lines(end), 0));
	cr_expect(eq(int, fixture_lines(other), 0));
}

Test(descriptor, that_is_full_is_not_waited_for)
{
	int ends[2];
	cr_assert(eq(int, pipe(ends), 0));
	dup2(ends[1], 2);
	cr_assert(eq(int, fcntl(2, F_SETFL, O_NONBLOCK), 0));
	while (write(2, text, sizeof(text)) > 0)
		;
	cr_assert(eq(int, fcntl(2, F_SETFL, 0), 0));
	struct ts_line_place place = place_of(2);
	cr_expect(eq(int, ts_line_write(&place, WORDS, LENGTH), -EAGAIN));
}

Test(descriptor, that_nobody_reads_brings_no_signal)
{
	struct ts_line_place place;
	close(fixture_catch_stderr());
	place = place_of(2);
	cr_expect(eq(int, ts_line_write(&place, WORDS, LENGTH), -EAGAIN));
}

Test(descriptor, of_a_full_disk_is_an_error)
{
	int full = open("/dev/full", O_WRONLY);
	dup2(full, 2);
	struct ts_line_place place = place_of(2);
	errno = 4711;
	cr_expect(eq(int, ts_line_write(&place, WORDS, LENGTH), -ENOSPC));
	cr_expect(eq(int, errno, 4711));
}

/* SIGXFSZ would end the process with another status; one of its own stays what it was. */
Test(descriptor, of_a_file_at_its_limit_brings_no_signal)
{
	struct rlimit none = {0, 0};
	sigset_t set, pending;
	FILE *file = tmpfile();
	cr_assert(file != NULL);
	dup2(fileno(file), 2);
	struct ts_line_place place = place_of(2);
	cr_assert(eq(int, setrlimit(RLIMIT_FSIZE, &none), 0));
	cr_expect(eq(int, ts_line_write(&place, WORDS, LENGTH), -EFBIG));
	sigpending(&pending);
	cr_expect(not(sigismember(&pending, SIGXFSZ)));
	sigemptyset(&set);
	sigaddset(&set, SIGXFSZ);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGXFSZ);
	cr_expect(eq(int, ts_line_write(&place, WORDS, LENGTH), -EFBIG));
	sigpending(&pending);
	cr_expect(sigismember(&pending, SIGXFSZ));
	sigprocmask(SIG_BLOCK, NULL, &set);
	cr_expect(sigismember(&set, SIGXFSZ));
	cr_expect(not(sigismember(&set, SIGPIPE)));
}
