/* SPDX-License-Identifier: MIT */
/* What is read of a job in /proc: its program and script and nothing more, its settings, its
 * time. */
#include "fixture.h"
#include "tests/unit/valgrind.h"

#include "leader/events/process.h"
#include "shim/identity.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

TestSuite(event_process);

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
	static struct ts_event_start found;
	char *const nothing[] = {NULL};
	struct child child = start(words, nothing);

	ts_event_process_start(child.pid, &found);
	cr_expect(eq(str, found.program, (char *)program));
	end(&child);
}

#define WORDS(...)                \
	(char *const[])           \
	{                         \
		__VA_ARGS__, NULL \
	}

Test(event_process, of_a_command_line_the_program_and_its_script_are_told)
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

Test(event_process, a_long_program_is_cut)
{
	NOT_EMULATED("it runs no programs but the first");
	NOT_UNDER_VALGRIND("the command line of what it runs is its own");
	static struct ts_event_start found;
	static char name[PATH_MAX];
	char *const words[] = {name, NULL}, *const nothing[] = {NULL};

	memset(name, 'n', sizeof(name) - 1);
	struct child child = start(words, nothing);
	ts_event_process_start(child.pid, &found);
	cr_expect(eq(sz, strlen(found.program), TS_EVENT_PROGRAM - 1));
	end(&child);
}

Test(event_process, settings_are_those_it_was_started_with)
{
	NOT_EMULATED("it runs no programs but the first");
	static struct ts_event_start found;
	char *const environment[] = {(char *)"PATH=/bin", (char *)"TSSHIM_ALIGN=17",
		(char *)"TSSHIM_ORDER=free", NULL};
	struct child child = start(WORDS((char *)"job"), environment);

	ts_event_process_start(child.pid, &found);
	cr_expect(found.has_settings);
	cr_expect(found.settings.align);
	cr_expect(eq(u64, found.settings.align_seed, 17));
	cr_expect(eq(int, found.settings.order, TS_ORDER_FREE));
	end(&child);
}

Test(event_process, nobody_is_nobody)
{
	static struct ts_event_start found;
	struct ts_event_process process = {.id = 1};

	ts_event_process_look(0xfffff0, &process);
	cr_expect(eq(u64, process.id, 0));
	cr_expect(not(process.alive));
	ts_event_process_start(0xfffff0, &found);
	cr_expect(eq(str, found.program, (char *)""));
	cr_expect(not(found.has_settings));
}

Test(event_process, a_process_is_alive_until_it_is_a_zombie)
{
	NOT_EMULATED("a child is told its parent's start time");
	struct ts_event_process process;
	struct child child = start(WORDS((char *)"job"), (char *const[]){NULL});
	siginfo_t info;

	ts_event_process_look(child.pid, &process);
	cr_expect(eq(u64, process.id, ts_process_id(child.pid, false)));
	cr_expect(process.alive);
	close(child.input);
	cr_assert(eq(int, waitid(P_PID, (id_t)child.pid, &info, WEXITED | WNOWAIT), 0));
	ts_event_process_look(child.pid, &process);
	cr_expect(eq(u64, process.id, ts_process_id(child.pid, false)));
	cr_expect(not(process.alive));
	waitpid(child.pid, NULL, 0);
}

static void use_a_cpu(uint64_t ns)
{
	struct timespec now;

	do
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
	while ((uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec < ns);
}

Test(event_process, its_time_is_that_of_its_children_too)
{
	NOT_EMULATED("/proc/self is its own");
	struct ts_event_process process;
	pid_t pid = fork();

	if (pid == 0) {
		use_a_cpu(60000000);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	use_a_cpu(60000000);
	ts_event_process_look(getpid(), &process);
	cr_expect(ge(u64, process.cpu_ns, 100000000));
}

Test(event_process, it_began_before_now)
{
	struct timespec now;
	uint64_t began = ts_event_process_began(ts_process_id(getpid(), false));

	clock_gettime(CLOCK_REALTIME, &now);
	cr_expect(gt(u64, began, 1000000000000));
	cr_expect(
		le(u64, began, (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000));
}
