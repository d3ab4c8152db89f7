/* SPDX-License-Identifier: MIT */
/* One test for each end that a test can have; outcomes.sh knows which of them fail. */
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <criterion/redirect.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static int made;

static void make(void)
{
	made = 1;
}

static void fail(void)
{
	cr_expect(eq(int, made, 2), "the fixture's end");
}

static void assert_in_vain(void)
{
	cr_assert(eq(int, made, 2), "the fixture's end");
}

TestSuite(fixture, .init = make);
TestSuite(bad_begin, .init = assert_in_vain);
TestSuite(bad_last, .fini = assert_in_vain);
TestSuite(bad_end, .fini = fail);

Test(plain, passes)
{
	cr_assert(eq(int, made, 0));
	made = 7; /* Which the next test must not see. */
}

Test(plain, sees_nothing_of_others)
{
	cr_expect(eq(int, made, 0));
}

Test(fixture, passes)
{
	cr_expect(not(eq(int, made, 0)));
}

Test(bad_end, fails)
{
}

Test(bad_begin, fails)
{
}

Test(bad_last, fails)
{
}

Test(fails, when_it_expects_in_vain)
{
	cr_expect(eq(int, made, 1));
}

Test(fails, when_it_asserts_in_vain)
{
	cr_assert(eq(str, (char *)"one", (char *)"two"), "%d", made);
}

Test(fails, in_an_older_macro)
{
	cr_expect_eq(made, 1);
}

Test(fails, in_a_child)
{
	pid_t pid = fork();

	if (pid == 0) {
		cr_expect(eq(int, made, 1));
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

Test(fails, by_a_signal)
{
	raise(SIGKILL);
}

Test(fails, by_an_early_end)
{
	exit(0);
}

Test(fails, by_an_early_end_past_handlers)
{
	_exit(0);
}

Test(fails, on_other_standard_error)
{
	cr_redirect_stderr();
	cr_assert_stderr_eq_str("text");
}

Test(plain, is_skipped)
{
	cr_skip_test("for once");
}
