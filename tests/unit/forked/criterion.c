/* SPDX-License-Identifier: MIT */
/*
 * A stand-in for libcriterion.so that forks for each test where Criterion starts the program
 * anew. valgrind bears Criterion itself, but with it a test takes 1.5 s of CPU time where it
 * takes 0.15 s here, and there are 1,100 tests; the emulator of AArch64 starts no programs at
 * all. It has what our unit tests use of Criterion 2.4 and no more: a test that needs another
 * symbol does not start with it.  The step `unit` of scripts/test runs the same tests with
 * Criterion itself.
 *
 * The runner has one thread and has touched nothing of the code under test when it forks, so
 * that a test finds what it finds in a new process.  What a test, or a child of a test, failed
 * of its assertions is in memory that they share with the runner.
 */
#include <criterion/criterion.h>
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "assertions.h"
#include "sections.h"

__attribute__((visibility("default"))) int main(int argc, char **argv);

struct outcome {
	int failures; /* Assertions that did not hold, counted atomically. */
	int skipped;
	int ended; /* The test and what takes down its fixture came to their ends. */
};

static struct outcome *outcome;
static const struct criterion_test *running;
static const struct criterion_suite *running_suite;
static jmp_buf *way_out; /* Of the test, or of what sets it up and takes it down. */

void criterion_continue_test(void)
{
}

void criterion_abort_test(void)
{
	longjmp(*way_out, 1);
}

void criterion_skip_test(const char *format, ...)
{
	va_list list;

	fputs("# skipped: ", stderr);
	va_start(list, format);
	vfprintf(stderr, format, list);
	va_end(list);
	fputc('\n', stderr);
	outcome->skipped = 1;
	outcome->ended = 1; /* as with Criterion, without what takes down the fixture */
	exit(0);
}

void forked_failure(void)
{
	__atomic_fetch_add(&outcome->failures, 1, __ATOMIC_RELAXED);
}

void criterion_internal_test_setup(void)
{
	if (running_suite && running_suite->data->init)
		running_suite->data->init();
	if (running->data->init)
		running->data->init();
}

void criterion_internal_test_main(void (*test)(void))
{
	jmp_buf *outer = way_out, here;

	way_out = &here;
	if (setjmp(here) == 0)
		test();
	way_out = outer;
}

void criterion_internal_test_teardown(void)
{
	if (running->data->fini)
		running->data->fini();
	if (running_suite && running_suite->data->fini)
		running_suite->data->fini();
}

static void find_suite(const struct section *suites)
{
	running_suite = NULL;
	for (size_t i = 0; i < suites->count; i++) {
		const struct criterion_suite *suite = suites->entries[i];

		if (suite && suite->data && strcmp(suite->name, running->category) == 0)
			running_suite = suite;
	}
}

/* The test in this process, which is a child of the runner's. */
static void perform(void)
{
	jmp_buf here;

	/* A failed assertion of a fixture comes here. */
	way_out = &here;
	if (setjmp(here) == 0)
		running->test();
	outcome->ended = 1;
	exit(0);
}

/* 0, or 1 when the test failed; one line of TAP. */
static int run(int number)
{
	const struct criterion_test_extra_data *data = running->data;
	int status = 0;
	int passed;
	pid_t pid;

	memset(outcome, 0, sizeof(*outcome));
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		perform();
	while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (data->signal)
		passed = WIFSIGNALED(status) && WTERMSIG(status) == data->signal;
	else
		passed = WIFEXITED(status) && WEXITSTATUS(status) == data->exit_code &&
			 (outcome->ended || data->exit_code);
	passed = passed && pid > 0 && outcome->failures == 0;
	printf("%sok %d - %s::%s%s\n", passed ? "" : "not ", number, running->category,
		running->name, outcome->skipped ? " # SKIP" : "");
	if (!passed)
		fprintf(stderr, "%s::%s: wait status %#x, %d assertions failed\n",
			running->category, running->name, (unsigned)status, outcome->failures);
	return !passed;
}

/* Runs the tests of the program that was started, the file argv[0]; takes no option. */
int main(int argc, char **argv)
{
	struct section tests;
	struct section suites;
	int failed = 0;

	(void)argc;
	outcome = mmap(NULL, sizeof(*outcome), PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (outcome == MAP_FAILED || sections_find(argv[0], "cr_tst", &tests) < 0 ||
		sections_find(argv[0], "cr_sts", &suites) < 0 || tests.count == 0) {
		puts("Bail out! no tests in this program");
		return 1;
	}
	printf("1..%zu\n", tests.count);
	for (size_t i = 0; i < tests.count; i++) {
		running = tests.entries[i];
		find_suite(&suites);
		failed |= run((int)i + 1);
	}
	return failed;
}
