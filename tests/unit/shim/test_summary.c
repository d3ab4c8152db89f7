/* SPDX-License-Identifier: MIT */
/* The end of a job: the ledger that it is found in, and the block that it prints. */
#include "fixture.h"

#include "leader/group/layout.h"
#include "leader/group/store_private.h"
#include "leader/group/attach.h"
#include "leader/line/line.h"
#include "shim/hash.h"
#include "shim/identity.h"

#include <criterion/redirect.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- the block: every kind of work, and its largest size --------------------------------- */

static struct ts_job_row alone; /* what was counted outside the ledger */
static char printed[8192];

static void begin(void)
{
	memset(&alone, 0, sizeof(alone));
}

TestSuite(block, .init = begin);

static void fill(enum ts_kind kind, uint64_t produced, uint64_t shared, uint64_t saved_ns)
{
	ts_write_relaxed(&alone.kinds[kind].produced, produced);
	ts_write_relaxed(&alone.kinds[kind].shared, shared);
	ts_write_relaxed(&alone.kinds[kind].saved_ns, saved_ns);
}

/* What is printed of @alone, without the title. */
static const char *print(void)
{
	int lines = fixture_catch_stderr();
	ts_summary_print(NULL, 1, &alone);
	ssize_t length = read(lines, printed, sizeof(printed) - 1);
	cr_assert(gt(long, (long)length, 0));
	printed[length] = '\0';
	cr_assert(strncmp(printed, "tsshim: what ", 13) == 0, "%s", printed);
	const char *rest = strchr(printed, '\n');
	cr_assert(rest != NULL);
	return rest + 1;
}

Test(block, samples_and_pixels_have_a_line_each)
{
	fill(TS_KIND_PIXELS, 3, 0, 0);
	fill(TS_KIND_SAMPLE, 25, 75, UINT64_C(12340000000));
	ts_write_relaxed(&alone.passed[TS_REASON_TORCH_YOUNG], 7);
	cr_expect(eq(str, (char *)print(),
		(char *)"  decoded images: 3 worked out here, 0 taken from the ring (0 %)\n"
			"  CPU time saved: 0.00 s\n"
			"  finished samples: 25 worked out here, 75 taken from the ring (75 "
			"%)\n"
			"  CPU time saved: 12.34 s\n"
			"  not shared 7 times: an input file was changed just before or "
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
	/* Files have one line, all other kinds two. */
	for (int kind = 0; kind < TS_KIND_COUNT; kind++)
		fill((enum ts_kind)kind, UINT64_MAX / 200, UINT64_MAX / 200, UINT64_MAX);
	/* The longest texts are counted most, and so are the five that are printed. */
	for (int i = 0; i < TS_REASON_COUNT; i++)
		ts_write_relaxed(
			&alone.passed[i], UINT64_MAX - 1000 + strlen(ts_reasons[i].text));
	const char *rest = print();
	size_t lines = 0;
	for (const char *at = rest; *at; at++)
		lines += *at == '\n';
	cr_expect(eq(int, (int)lines, 2 * TS_KIND_COUNT - 1 + 5), "%s", printed);
	cr_expect(printed[strlen(printed) - 1] == '\n', "%s", printed);
}

/* ---- the ledger of a group, looked at when a job ends ------------------------------------ */

TestSuite(summary, .init = fixture_init, .fini = fixture_finish);

/* Change @bytes at @offset of the group's ledger, and its check when @forge. */
static void patch(size_t offset, const void *data, size_t bytes, bool forge)
{
	char path[TS_PATH_BYTES];
	struct ts_ledger head;

	cr_assert(eq(
		int, ts_object_path(path, sizeof(path), getenv("TSSHIM_GROUP"), "ledger"), 0));
	int fd = open(path, O_RDWR);
	cr_assert(eq(int, (int)pread(fd, &head, sizeof(head), 0), (int)sizeof(head)));
	memcpy((char *)&head + offset, data, bytes);
	if (forge)
		head.check = ts_hash64(&head, offsetof(struct ts_ledger, check));
	cr_assert(eq(int, (int)pwrite(fd, &head, sizeof(head), 0), (int)sizeof(head)));
	close(fd);
}

Test(summary, a_job_is_found_in_a_ledger_of_ours_only)
{
	static const uint64_t magic = 1;
	static const uint32_t ours = TS_ABI, abi = TS_ABI + 1, uid = 12345;
	const char *group = getenv("TSSHIM_GROUP");

	cr_expect(not(ts_group_has_ring(group)));
	cr_expect(not(ts_group_has_job(group, ts_identity_job())));
	fixture_enter();
	cr_expect(ts_group_has_ring(group));
	cr_expect(ts_group_has_job(group, ts_identity_job()));
	cr_expect(not(ts_group_has_job(group, ts_identity_job() + 1)));
	patch(offsetof(struct ts_ledger, head.uid), &uid, sizeof(uid), false);
	cr_expect(not(ts_group_has_job(group, ts_identity_job())), "check");
	patch(offsetof(struct ts_ledger, head.uid), &uid, sizeof(uid), true);
	cr_expect(ts_group_has_job(group, ts_identity_job()));
	patch(offsetof(struct ts_ledger, head.abi), &abi, sizeof(abi), true);
	cr_expect(not(ts_group_has_job(group, ts_identity_job())), "abi");
	patch(offsetof(struct ts_ledger, head.abi), &ours, sizeof(ours), true);
	cr_expect(ts_group_has_job(group, ts_identity_job()));
	patch(offsetof(struct ts_ledger, head.magic), &magic, sizeof(magic), true);
	cr_expect(not(ts_group_has_job(group, ts_identity_job())), "magic");
	ts_session_finish();
}

/* ---- the block of a job that is in a ledger, or in none ------------------------------------
 */

static struct ts_ledger *book;

static void make_book(void)
{
	book = mmap(NULL, TS_LEDGER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		-1, 0);
	cr_assert(book != MAP_FAILED);
}

/* The block on the redirected stderr is that of this process, with these lines. */
static void expect_block(const char *lines)
{
	char text[1024];

	snprintf(text, sizeof(text), "tsshim: what %s (%d) shared\n%s",
		program_invocation_short_name, (int)getpid(), lines);
	cr_assert_stderr_eq_str(text);
}

Test(summary, says_what_was_shared_and_what_not)
{
	make_book();
	struct ts_job_row *row = ts_ledger_job(book, 3);
	struct ts_tally *pixels = &row->kinds[TS_KIND_PIXELS];

	ts_write_relaxed(&row->id, 4711);
	ts_write_relaxed(&pixels->produced, 25);
	ts_write_relaxed(&pixels->shared, 75);
	ts_write_relaxed(&pixels->saved_ns, UINT64_C(12340000000));
	ts_write_relaxed(&row->passed[TS_REASON_JPEG_SMALL], 7);
	ts_write_relaxed(&row->passed[TS_REASON_ALONE], 9);
	ts_write_relaxed(&row->passed[TS_REASON_MEMORY], 7);
	cr_redirect_stderr();
	ts_summary_print(book, 4711, &alone);
	expect_block(
		"  decoded images: 25 worked out here, 75 taken from the ring (75 %)\n"
		"  CPU time saved: 12.34 s\n"
		"  not shared 9 times: no other job was asking for this data when it was made\n"
		"  not shared 7 times: decoding costs less than sharing would\n"
		"  not shared 7 times: no private memory left\n");
}

static const char nothing[] = "  nothing: no call of this job could be shared\n";

Test(summary, says_so_when_there_is_no_row)
{
	make_book();
	cr_redirect_stderr();
	ts_summary_print(book, 4711, &alone);
	expect_block(nothing);
}

Test(summary, says_so_when_there_is_no_ledger)
{
	cr_redirect_stderr();
	ts_summary_print(NULL, 4711, &alone);
	expect_block(nothing);
}

Test(summary, says_why_there_is_no_ledger)
{
	ts_write_relaxed(&alone.kinds[TS_KIND_PIXELS].produced, 3);
	ts_write_relaxed(&alone.passed[TS_REASON_NO_SPACE], 3);
	cr_redirect_stderr();
	ts_summary_print(NULL, 4711, &alone);
	expect_block("  decoded images: 3 worked out here, 0 taken from the ring (0 %)\n"
		     "  CPU time saved: 0.00 s\n"
		     "  not shared 3 times: not enough shared memory (/dev/shm, memory limit, "
		     "RLIMIT_AS)\n");
}

Test(summary, names_the_five_most_frequent_reasons)
{
	static const uint64_t huge = 1000000000000000000u;
	char text[2048] = {0};
	int ends[2], lines = 0;

	make_book();
	ts_write_relaxed(&ts_ledger_job(book, 0)->id, 1);
	for (uint32_t i = 0; i < TS_REASON_COUNT; i++)
		ts_write_relaxed(&ts_ledger_job(book, 0)->passed[i], huge - i);
	cr_assert(eq(int, pipe(ends), 0));
	dup2(ends[1], 2);
	ts_summary_print(book, 1, &alone);
	cr_assert(gt(int, (int)read(ends[0], text, sizeof(text) - 1), 0));
	for (char *at = text; (at = strchr(at, '\n')); at++)
		lines++;
	cr_expect(eq(int, lines, 6));
	cr_expect(strstr(text, "not shared 999999999999999996 times") != NULL);
	cr_expect(strstr(text, "999999999999999995") == NULL);
}
