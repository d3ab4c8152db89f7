/* SPDX-License-Identifier: MIT */
/* The file of an event log: one writer, whole lines, and what happens around it. */
#include "fixture.h"
#include "leader/object/killpoint.h"
#include "shim/sys.h"
#include "tests/unit/valgrind.h"
#include "shim/tsrun/log_line.h"
#include "shim/identity.h"

#include <limits.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>

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

/* What is read of a job in /proc: its program and script and nothing more, its mode, its time.
 */

TestSuite(job_start);

struct child {
	pid_t pid;
	int input, output;
};

/* Run the program beside this one with such words and such an environment. */
static struct child start(char *const *words, char *const *environment)
{
	char path[PATH_MAX];
	int input[2], output[2];
	char byte;

	ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
	cr_assert(length > 0);
	path[length] = '\0';
	strcpy(strrchr(path, '/') + 1, "unit_events_program");
	cr_assert(eq(int, pipe(input), 0));
	cr_assert(eq(int, pipe(output), 0));
	pid_t pid = fork();
	if (pid == 0) {
		dup2(input[0], 0);
		dup2(output[1], 1);
		close(input[1]);
		execve(path, words, environment);
		_exit(127);
	}
	close(input[0]);
	close(output[1]);
	/* Now it is what it was started as. */
	cr_assert(eq(long, read(output[0], &byte, 1), 1L));
	return (struct child){pid, input[1], output[0]};
}

static void end(const struct child *child)
{
	close(child->input);
	close(child->output);
	waitpid(child->pid, NULL, 0);
}

static void expect_program(char *const *words, const char *program)
{
	static struct ts_job_start found;
	char *const nothing[] = {NULL};
	struct child child = start(words, nothing);

	ts_job_read_start(child.pid, &found);
	cr_expect(eq(str, found.program, (char *)program));
	end(&child);
}

#define WORDS(...)                \
	(char *const[])           \
	{                         \
		__VA_ARGS__, NULL \
	}

Test(job_start, of_a_command_line_the_program_and_its_script_are_told)
{
	NOT_EMULATED("it runs no programs but the first");
	NOT_UNDER_VALGRIND("the command line of what it runs is its own");
	expect_program(WORDS((char *)"python", (char *)"train.py", (char *)"--token=secret"),
		"python train.py");
	expect_program(
		WORDS((char *)"/usr/bin/python3.11", (char *)"-u", (char *)"-X", (char *)"dev",
			(char *)"-Wignore", (char *)"a/b.py", (char *)"secret"),
		"/usr/bin/python3.11 a/b.py");
	expect_program(
		WORDS((char *)"python", (char *)"-m", (char *)"torch.run", (char *)"secret"),
		"python -m torch.run");
	expect_program(
		WORDS((char *)"python", (char *)"-um", (char *)"trainer", (char *)"secret"),
		"python -m trainer");
	expect_program(WORDS((char *)"python", (char *)"-c", (char *)"secret()"), "python");
	expect_program(WORDS((char *)"python", (char *)"-csecret()"), "python");
	expect_program(WORDS((char *)"python", (char *)"-", (char *)"secret"), "python");
	expect_program(WORDS((char *)"python"), "python");
	expect_program(
		WORDS((char *)"./train", (char *)"--password", (char *)"secret"), "./train");
}

Test(job_start, a_long_program_is_cut)
{
	NOT_EMULATED("it runs no programs but the first");
	NOT_UNDER_VALGRIND("the command line of what it runs is its own");
	static struct ts_job_start found;
	static char name[PATH_MAX];
	char *const words[] = {name, NULL}, *const nothing[] = {NULL};

	memset(name, 'n', sizeof(name) - 1);
	struct child child = start(words, nothing);
	ts_job_read_start(child.pid, &found);
	cr_expect(eq(sz, strlen(found.program), TS_JOB_PROGRAM - 1));
	end(&child);
}

Test(job_start, its_mode_is_that_it_was_started_with)
{
	NOT_EMULATED("it runs no programs but the first");
	static struct ts_job_start found;
	char *const environment[] = {(char *)"PATH=/bin", (char *)"TSSHIM_ALIGN=17",
		(char *)"TSSHIM_ORDER=free", NULL};
	struct child child = start(WORDS((char *)"job"), environment);

	ts_job_read_start(child.pid, &found);
	cr_expect(eq(str, (char *)found.mode, (char *)"free"));
	cr_expect(eq(u64, found.seed, 17));
	end(&child);
}

Test(job_start, nobody_is_nobody)
{
	static struct ts_job_start found;

	cr_expect(eq(u64, ts_job_cpu_ns(0xfffff0), 0));
	ts_job_read_start(0xfffff0, &found);
	cr_expect(eq(str, found.program, (char *)""));
	cr_expect(eq(ptr, (void *)found.mode, NULL));
}

static void use_a_cpu(uint64_t ns)
{
	struct timespec now;

	do
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	while ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec < ns);
}

Test(job_start, its_time_is_that_of_its_children_too)
{
	NOT_EMULATED("/proc/self is its own");
	uint64_t self = ts_process_id(getpid(), false);
	pid_t pid = fork();

	if (pid == 0) {
		use_a_cpu(60000000);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	use_a_cpu(60000000);
	cr_expect(ge(u64, ts_job_cpu_ns(self), 100000000));
	cr_expect(eq(u64, ts_job_cpu_ns(self + (UINT64_C(1) << 24)), 0), "another one");
}

Test(job_start, it_began_before_now)
{
	struct timespec now;
	uint64_t began = ts_job_began_ms(ts_process_id(getpid(), false));

	clock_gettime(CLOCK_REALTIME, &now);
	cr_expect(gt(u64, began, 1000000000000));
	cr_expect(
		le(u64, began, (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000));
}
