/* SPDX-License-Identifier: MIT */
/* What is read of a job in /proc: its program and script and nothing more, its mode, its time.
 */
#include "tests/unit/valgrind.h"

#include "shim/tsrun/log_line.h"
#include "shim/identity.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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
