/* SPDX-License-Identifier: MIT */
/* The block that a job prints when it ends: every kind of work, and its largest size. */
#include "fixture.h"

#include "leader/group/summary.h"

#include <string.h>
#include <unistd.h>

static struct ts_job_row row;
static char text[8192];

static void begin(void)
{
	memset(&row, 0, sizeof(row));
}

TestSuite(block, .init = begin);

static void fill(enum ts_kind kind, uint64_t produced, uint64_t shared, uint64_t saved_ns)
{
	ts_write_relaxed(&row.kinds[kind].produced, produced);
	ts_write_relaxed(&row.kinds[kind].shared, shared);
	ts_write_relaxed(&row.kinds[kind].saved_ns, saved_ns);
}

/* What is printed of `row`, without the title. */
static const char *print(void)
{
	int lines = fixture_catch_stderr();
	ts_summary_print(NULL, 1, &row);
	ssize_t length = read(lines, text, sizeof(text) - 1);
	cr_assert(gt(long, (long)length, 0));
	text[length] = '\0';
	cr_assert(strncmp(text, "tsshim: what ", 13) == 0, "%s", text);
	const char *rest = strchr(text, '\n');
	cr_assert(rest != NULL);
	return rest + 1;
}

Test(block, samples_and_pixels_have_a_line_each)
{
	fill(TS_KIND_PIXELS, 3, 0, 0);
	fill(TS_KIND_SAMPLE, 25, 75, UINT64_C(12340000000));
	ts_write_relaxed(&row.passed[TS_REASON_TORCH_YOUNG], 7);
	cr_expect(eq(str, (char *)print(),
		(char *)"  decoded images: 3 worked out here, 0 taken from the ring (0 %)\n"
			"  CPU time saved: 0.00 s\n"
			"  finished samples: 25 worked out here, 75 taken from the ring (75 "
			"%)\n"
			"  CPU time saved: 12.34 s\n"
			"  not shared 7 times: an input file is younger than 60 s or changed "
			"while it was read\n"));
}

Test(block, files_are_copied_and_opened)
{
	fill(TS_KIND_BYTES, 10, 30, 0);
	cr_expect(eq(str, (char *)print(),
		(char *)"  files of slow storage: 10 copied here, 30 opened as copies (75 "
			"%)\n"));
}

/* The last line is whole, whatever the numbers: the block has a fixed size. */
Test(block, the_longest_block_fits)
{
	static const char *const reasons[] = {
#define TS_X(name, id, what, fix) what,
		TS_REASONS(TS_X)
#undef TS_X
	};
	/* Files have one line, all other kinds two. */
	for (int kind = 0; kind < TS_KIND_COUNT; kind++)
		fill((enum ts_kind)kind, UINT64_MAX / 200, UINT64_MAX / 200, UINT64_MAX);
	/* The longest texts are counted most, and so are the five that are printed. */
	for (int i = 0; i < TS_REASON_COUNT; i++)
		ts_write_relaxed(&row.passed[i], UINT64_MAX - 1000 + strlen(reasons[i]));
	const char *rest = print();
	size_t lines = 0;
	for (const char *at = rest; *at; at++)
		lines += *at == '\n';
	cr_expect(eq(int, (int)lines, 2 * TS_KIND_COUNT - 1 + 5), "%s", text);
	cr_expect(text[strlen(text) - 1] == '\n', "%s", text);
}
