/* SPDX-License-Identifier: MIT */
/* The file of an event log: one writer, whole lines, and what happens around it. */
#include "fixture.h"

#include "shim/sys.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(event_log, .init = fixture_init, .fini = fixture_finish);

#define LINE "{\"tsshim_events\":1,\"t\":1.000,\"group\":\"unit-events\"}\n"

static int append(struct ts_event_log *log, const char *text)
{
	return ts_event_log_append(log, text, strlen(text));
}

static struct ts_event_log another(void)
{
	return (struct ts_event_log){
		.path = fixture.path, .group = "unit-events", .max = FIXTURE_MAX, .fd = -1};
}

Test(event_log, one_writes_at_a_time)
{
	struct ts_event_log second = another();
	struct stat st;

	cr_assert(eq(int, ts_event_log_take(&fixture.log), 0));
	cr_expect(eq(int, ts_event_log_take(&second), -EAGAIN));
	cr_expect(eq(int, append(&fixture.log, LINE), 0));
	cr_assert(eq(int, stat(fixture.path, &st), 0));
	cr_expect(eq(uint, st.st_mode & 07777, 0600));
	ts_event_log_close(&fixture.log);
	cr_expect(eq(int, ts_event_log_take(&second), 0));
	cr_expect(eq(u64, second.bytes, strlen(LINE)));
	ts_event_log_close(&second);
}

Test(event_log, the_next_writer_begins_a_line_of_its_own)
{
	char *text;

	fixture_write(LINE "{\"t\":2.0");
	cr_assert(eq(int, ts_event_log_take(&fixture.log), 0));
	cr_assert(eq(int, append(&fixture.log, LINE), 0));
	text = fixture_read(fixture.path, NULL);
	cr_expect(eq(str, text, (char *)(LINE "{\"t\":2.0\n" LINE)));
	free(text);
}

Test(event_log, what_was_left_beside_it_is_removed)
{
	char path[256];

	(void)snprintf(path, sizeof(path), "%s.shorter", fixture.path);
	close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
	cr_assert(eq(int, ts_event_log_take(&fixture.log), 0));
	cr_expect(eq(int, access(path, F_OK), -1));
}

Test(event_log, a_file_that_is_gone_is_noticed)
{
	cr_assert(eq(int, ts_event_log_take(&fixture.log), 0));
	cr_assert(eq(int, append(&fixture.log, LINE), 0));
	cr_assert(eq(int, unlink(fixture.path), 0));
	cr_expect(eq(int, append(&fixture.log, LINE), -ESTALE));
	cr_expect(not(fixture.log.is_ours));
	cr_expect(eq(int, ts_event_log_take(&fixture.log), 0));
	cr_expect(eq(u64, fixture.log.bytes, 0));
}

Test(event_log, a_file_that_was_cut_is_noticed)
{
	cr_assert(eq(int, ts_event_log_take(&fixture.log), 0));
	cr_assert(eq(int, append(&fixture.log, LINE), 0));
	cr_assert(eq(int, truncate(fixture.path, 3), 0));
	cr_expect(eq(int, append(&fixture.log, LINE), -ESTALE));
}

Test(event_log, a_file_that_was_replaced_while_somebody_waited_is_noticed)
{
	struct ts_event_log second = another();
	char other[256];

	cr_assert(eq(int, ts_event_log_take(&fixture.log), 0));
	cr_assert(eq(int, append(&fixture.log, LINE), 0));
	cr_assert(eq(int, ts_event_log_take(&second), -EAGAIN));
	(void)snprintf(other, sizeof(other), "%s/other", fixture.directory);
	cr_assert(eq(int, rename(fixture.path, other), 0));
	fixture_write("");
	ts_event_log_close(&fixture.log);
	cr_expect(eq(int, ts_event_log_take(&second), 0));
	cr_expect(eq(u64, second.bytes, 0), "the one that has the name");
	ts_event_log_close(&second);
}

Test(event_log, a_limit_leaves_no_half_line)
{
	struct rlimit limit = {.rlim_cur = 2 * sizeof(LINE), .rlim_max = RLIM_INFINITY};
	char *text;

	signal(SIGXFSZ, SIG_IGN);
	cr_assert(eq(int, ts_event_log_take(&fixture.log), 0));
	cr_assert(eq(int, append(&fixture.log, LINE LINE), 0));
	cr_assert(eq(int, setrlimit(RLIMIT_FSIZE, &limit), 0));
	int r = append(&fixture.log, LINE);
	limit.rlim_cur = RLIM_INFINITY;
	cr_assert(eq(int, setrlimit(RLIMIT_FSIZE, &limit), 0));
	cr_expect(eq(int, r, -EFBIG));
	cr_expect(not(fixture.log.is_ours));
	text = fixture_read(fixture.path, NULL);
	cr_expect(eq(str, text, (char *)(LINE LINE)));
	free(text);
}

Test(event_log, a_directory_that_is_not_there_is_an_error)
{
	fixture.log.path = "/tmp/tsshim-events-none/none";
	cr_expect(eq(int, ts_event_log_take(&fixture.log), -ENOENT));
}
