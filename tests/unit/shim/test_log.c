/* SPDX-License-Identifier: MIT */
/* What the formatter prints, and what is logged. */
#include "fixture.h"

#include "shim/log.h"

#include <limits.h>

TestSuite(log);

/* ---- formatter -------------------------------------------------------------------------- */

#define EXPECT_FORMAT(expected, ...)                                           \
	do {                                                                   \
		char text_[128];                                               \
		size_t length_ = ts_format(text_, sizeof(text_), __VA_ARGS__); \
		cr_expect(eq(str, text_, (char *)(expected)));                 \
		cr_expect(eq(sz, length_, strlen(expected)));                  \
	} while (0)

Test(log, conversions)
{
	char *volatile nothing = NULL;

	EXPECT_FORMAT("plain", "%s", "plain");
	EXPECT_FORMAT("a text, 100 %", "a %s, %d %%", "text", 100);
	EXPECT_FORMAT("-2147483648 2147483647 0", "%d %d %d", INT_MIN, INT_MAX, 0);
	EXPECT_FORMAT("4294967295", "%u", UINT_MAX);
	EXPECT_FORMAT("18446744073709551615!", "%llu!", ULLONG_MAX);
	EXPECT_FORMAT("(null)", "%s", nothing);
	EXPECT_FORMAT("", "%s", "");
}

Test(log, a_format_may_end_in_the_middle)
{
	/* Not through the macro: the compiler checks literal formats. */
	const char *volatile format = "end %";
	char text[16];

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
#pragma GCC diagnostic ignored "-Wformat-security"
	cr_expect(eq(sz, ts_format(text, sizeof(text), format), 4));
	cr_expect(eq(str, text, (char *)"end "));
	format = "%x";
	cr_expect(eq(sz, ts_format(text, sizeof(text), format), 1));
	cr_expect(eq(str, text, (char *)"x"));
#pragma GCC diagnostic pop
}

Test(log, what_does_not_fit_is_cut)
{
	char text[8];

	for (size_t bytes = 1; bytes <= sizeof(text); bytes++) {
		memset(text, '#', sizeof(text));
		size_t length = ts_format(text, bytes, "%s%llu", "ab", 1234567890ull);
		cr_expect(eq(sz, length, bytes - 1));
		cr_expect(eq(sz, strlen(text), bytes - 1));
		cr_expect(memcmp(text, "ab12345", bytes - 1) == 0);
		for (size_t i = bytes; i < sizeof(text); i++)
			cr_expect(eq(chr, text[i], '#'), "%zu of %zu", i, bytes);
	}
	text[0] = '#';
	cr_expect(eq(sz, ts_format(text, 0, "x"), 0));
	cr_expect(eq(chr, text[0], '#'));
}

/* ---- lines ------------------------------------------------------------------------------ */

/* Call @body with stderr going into @text. */
static void catch_lines(void (*body)(void), char *text, size_t bytes)
{
	int ends[2];

	cr_assert(eq(int, pipe(ends), 0));
	int saved = dup(2);
	dup2(ends[1], 2);
	close(ends[1]);
	body();
	dup2(saved, 2);
	size_t length = 0;
	ssize_t n;
	while ((n = read(ends[0], text + length, bytes - 1 - length)) > 0)
		length += (size_t)n;
	text[length] = '\0';
	close(ends[0]);
}

static void log_all_levels(void)
{
	errno = E2BIG;
	ts_log(TS_LEVEL_ERROR, "%s", "error");
	ts_log(TS_LEVEL_WARN, "%s", "warn");
	ts_log(TS_LEVEL_INFO, "%s", "info");
	ts_log(TS_LEVEL_DEBUG, "%s", "debug");
	cr_expect(eq(int, errno, E2BIG));
}

static void expect_lines(const char *level, const char *expected)
{
	char text[1024];

	if (level)
		setenv("TSSHIM_DEBUG", level, 1);
	else
		unsetenv("TSSHIM_DEBUG");
	catch_lines(log_all_levels, text, sizeof(text));
	cr_expect(eq(str, text, (char *)expected));
}

Test(log, warnings_are_shown_by_default)
{
	expect_lines(NULL, "tsshim: error\ntsshim: warn\n");
}

Test(log, only_errors)
{
	expect_lines("error", "tsshim: error\n");
}

Test(log, everything)
{
	expect_lines("debug", "tsshim: error\ntsshim: warn\ntsshim: info\ntsshim: debug\n");
}

static void log_often(void)
{
	for (int i = 0; i < TS_LOG_MAX + 5; i++) {
		ts_log(TS_LEVEL_DEBUG, "not shown, not counted");
		ts_log(TS_LEVEL_ERROR, "%d", i);
	}
}

Test(log, a_process_says_so_much_and_no_more)
{
	char text[4096];
	int lines = 0;

	catch_lines(log_often, text, sizeof(text));
	for (char *at = text; (at = strchr(at, '\n')); at++)
		lines++;
	cr_expect(eq(int, lines, TS_LOG_MAX));
	cr_expect(strstr(text, "tsshim: 19\n") != NULL);
}

static void log_long(void)
{
	char text[2000];

	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	ts_log(TS_LEVEL_ERROR, "%s", text);
}

Test(log, a_long_line_is_cut_and_still_a_line)
{
	char text[4096];

	catch_lines(log_long, text, sizeof(text));
	size_t length = strlen(text);
	cr_expect(eq(sz, length, 511));
	cr_expect(eq(chr, text[length - 1], '\n'));
	cr_expect(eq(ptr, strchr(text, '\n'), text + length - 1));
}
