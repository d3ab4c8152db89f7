/* SPDX-License-Identifier: MIT */
/* The file of an event log: one writer, whole lines, and what happens around it. */
#include "fixture.h"

#include "leader/object/killpoint.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

TestSuite(log_file, .init = fixture_init, .fini = fixture_finish);

#define LINE "{\"tsshim_events\":2,\"t\":1.000,\"group\":\"unit-events\"}\n"

static int append(struct ts_log_file *file, const char *text)
{
	return ts_log_file_append(file, text, strlen(text));
}

static struct ts_log_file another(void)
{
	return (struct ts_log_file){
		.path = fixture.path, .group = "unit-events", .max = FIXTURE_MAX, .fd = -1};
}

Test(log_file, one_writes_at_a_time)
{
	struct ts_log_file second = another();
	struct stat st;

	cr_assert(eq(int, ts_log_file_take(&fixture.file), 0));
	cr_expect(eq(int, ts_log_file_take(&second), -EAGAIN));
	cr_expect(eq(int, append(&fixture.file, LINE), 0));
	cr_assert(eq(int, stat(fixture.path, &st), 0));
	cr_expect(eq(uint, st.st_mode & 07777, 0600));
	ts_log_file_close(&fixture.file);
	cr_expect(eq(int, ts_log_file_take(&second), 0));
	cr_expect(eq(u64, second.bytes, strlen(LINE)));
	ts_log_file_close(&second);
}

Test(log_file, the_next_writer_begins_a_line_of_its_own)
{
	char *text;

	fixture_write(LINE "{\"t\":2.0");
	cr_assert(eq(int, ts_log_file_take(&fixture.file), 0));
	cr_assert(eq(int, append(&fixture.file, LINE), 0));
	text = fixture_read(fixture.path);
	cr_expect(eq(str, text, (char *)(LINE "{\"t\":2.0\n" LINE)));
	free(text);
}

/* What is in the file before. */
static char *read_before(void)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "%s.1", fixture.path);
	return fixture_read(path);
}

static void expect_files(const char *before, const char *now)
{
	char *texts[] = {read_before(), fixture_read(fixture.path)};

	cr_expect(eq(str, texts[0], (char *)before));
	cr_expect(eq(str, texts[1], (char *)now));
	free(texts[0]);
	free(texts[1]);
}

Test(log_file, one_that_is_full_becomes_the_one_before)
{
	fixture.file.max = 2 * strlen(LINE);
	for (int round = 0; round < 2; round++) {
		cr_assert(eq(int, ts_log_file_take(&fixture.file), 0));
		cr_assert(eq(int, append(&fixture.file, LINE), 0));
		cr_assert(eq(int, append(&fixture.file, LINE), 0));
		cr_expect(eq(int, append(&fixture.file, LINE), -ESTALE));
		cr_expect(not(fixture.file.is_ours));
	}
	cr_assert(eq(int, ts_log_file_take(&fixture.file), 0));
	cr_expect(eq(int, append(&fixture.file, LINE), 0));
	expect_files(LINE LINE, LINE);
}

Test(log_file, a_line_that_is_longer_than_a_file_is_written)
{
	fixture.file.max = 1;
	cr_assert(eq(int, ts_log_file_take(&fixture.file), 0));
	cr_expect(eq(int, append(&fixture.file, LINE), 0));
}

Test(log_file, who_waited_for_a_full_one_gets_the_next)
{
	struct ts_log_file second = another();

	fixture.file.max = strlen(LINE);
	cr_assert(eq(int, ts_log_file_take(&fixture.file), 0));
	cr_assert(eq(int, append(&fixture.file, LINE), 0));
	cr_assert(eq(int, ts_log_file_take(&second), -EAGAIN));
	cr_assert(eq(int, append(&fixture.file, LINE), -ESTALE));
	cr_expect(eq(int, ts_log_file_take(&second), 0));
	cr_expect(eq(int, ts_log_file_take(&fixture.file), -EAGAIN));
	cr_expect(eq(int, append(&second, LINE), 0));
	expect_files(LINE, LINE);
	ts_log_file_close(&second);
}

Test(log_file, what_is_no_log_keeps_its_place_before_it)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "%s.1", fixture.path);
	fixture_write("import torch\n");
	cr_assert(eq(int, rename(fixture.path, path), 0));
	fixture.file.max = strlen(LINE);
	cr_assert(eq(int, ts_log_file_take(&fixture.file), 0));
	cr_assert(eq(int, append(&fixture.file, LINE), 0));
	cr_expect(eq(int, append(&fixture.file, LINE), -EBADMSG));
	expect_files("import torch\n", LINE);
}

Test(log_file, one_of_an_older_format_becomes_the_one_before)
{
	static const char older[] =
		"{\"tsshim_events\":1,\"t\":1.000,\"group\":\"unit-events\"}\n";

	fixture_write(older);
	cr_assert(eq(int, ts_log_file_take(&fixture.file), 0));
	cr_expect(eq(int, append(&fixture.file, LINE), 0));
	expect_files(older, LINE);
}

static const char *const points[] = {
#define TS_X(name) #name,
	TS_EVENTS_KILLPOINTS(TS_X)
#undef TS_X
};

Test(log_file, after_a_kill_the_next_one_goes_on, .timeout = 60)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(points); i++) {
		int status = 0;
		pid_t pid = fork();
		if (pid == 0) {
			setenv("TSSHIM_TEST_KILL", points[i], 1);
			fixture.file.max = 2 * strlen(LINE);
			for (int n = 0; n < 4; n++)
				if (ts_log_file_take(&fixture.file) < 0 ||
					append(&fixture.file, LINE) > 0)
					_exit(2);
			_exit(1);
		}
		waitpid(pid, &status, 0);
		cr_assert(eq(int, WTERMSIG(status), SIGKILL), "%s: %x", points[i],
			(unsigned)status);
		struct ts_log_file next = another();
		cr_assert(eq(int, ts_log_file_take(&next), 0), "%s", points[i]);
		cr_assert(eq(int, append(&next, LINE), 0), "%s", points[i]);
		ts_log_file_close(&next);
	}
	expect_files(LINE LINE, LINE);
}

Test(log_file, a_file_that_is_gone_is_noticed)
{
	cr_assert(eq(int, ts_log_file_take(&fixture.file), 0));
	cr_assert(eq(int, append(&fixture.file, LINE), 0));
	cr_assert(eq(int, unlink(fixture.path), 0));
	cr_expect(eq(int, append(&fixture.file, LINE), -ESTALE));
	cr_expect(not(fixture.file.is_ours));
	cr_expect(eq(int, ts_log_file_take(&fixture.file), 0));
	cr_expect(eq(u64, fixture.file.bytes, 0));
}

Test(log_file, a_file_that_was_cut_is_noticed)
{
	cr_assert(eq(int, ts_log_file_take(&fixture.file), 0));
	cr_assert(eq(int, append(&fixture.file, LINE), 0));
	cr_assert(eq(int, truncate(fixture.path, 3), 0));
	cr_expect(eq(int, append(&fixture.file, LINE), -ESTALE));
}

Test(log_file, a_file_that_was_replaced_while_somebody_waited_is_noticed)
{
	struct ts_log_file second = another();
	char other[256];

	cr_assert(eq(int, ts_log_file_take(&fixture.file), 0));
	cr_assert(eq(int, append(&fixture.file, LINE), 0));
	cr_assert(eq(int, ts_log_file_take(&second), -EAGAIN));
	(void)snprintf(other, sizeof(other), "%s/other", fixture.directory);
	cr_assert(eq(int, rename(fixture.path, other), 0));
	fixture_write("");
	ts_log_file_close(&fixture.file);
	cr_expect(eq(int, ts_log_file_take(&second), 0));
	cr_expect(eq(u64, second.bytes, 0), "the one that has the name");
	ts_log_file_close(&second);
}

Test(log_file, a_limit_leaves_no_half_line)
{
	struct rlimit limit = {.rlim_cur = 2 * sizeof(LINE), .rlim_max = RLIM_INFINITY};
	char *text;

	signal(SIGXFSZ, SIG_IGN);
	cr_assert(eq(int, ts_log_file_take(&fixture.file), 0));
	cr_assert(eq(int, append(&fixture.file, LINE LINE), 0));
	cr_assert(eq(int, setrlimit(RLIMIT_FSIZE, &limit), 0));
	int r = append(&fixture.file, LINE);
	limit.rlim_cur = RLIM_INFINITY;
	cr_assert(eq(int, setrlimit(RLIMIT_FSIZE, &limit), 0));
	cr_expect(eq(int, r, -EFBIG));
	cr_expect(not(fixture.file.is_ours));
	text = fixture_read(fixture.path);
	cr_expect(eq(str, text, (char *)(LINE LINE)));
	free(text);
}

Test(log_file, a_directory_that_is_not_there_is_an_error)
{
	fixture.file.path = "/tmp/tsshim-events-none/none";
	cr_expect(eq(int, ts_log_file_take(&fixture.file), -ENOENT));
}
