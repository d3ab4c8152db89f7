/* SPDX-License-Identifier: MIT */
/* Copies that come from other nodes: what the helper puts there, and what becomes of the rest.
 */
#include "fixture_stage.h"
#include "leader/files/stage_private.h"
#include "leader/mail/mail.h"
#include "shim/identity.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static void init(void)
{
	fixture_stage_init();
	cr_assert(eq(int, ts_stage_use_others(fixture_files.stage, fixture_files.store), 0));
}

TestSuite(others, .init = init, .fini = fixture_stage_finish, .timeout = 60);

#define GUARD_NS UINT64_C(30000000000)

/* A helper in a thread, which does one thing. */
struct desk {
	enum ts_mail_answer answer;
	const char *bytes; /* to be written before it: so many of this letter; NULL: none */
	bool dies;         /* after that */
	uint32_t count;    /* of requests that are waited for */
	struct ts_mail_request requests[4];
	uint32_t done;
	pthread_t thread;
};

static void write_bytes(const struct desk *desk, const struct ts_mail_request *request)
{
	char path[TS_STAGE_PATH + 8], text[BYTES];

	ts_stage_path_with(fixture_files.stage->index.stem, request->copy, path);
	strcat(path, ".part");
	int fd = open(path, O_WRONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st = {.st_ino = 0};
	cr_assert(eq(int, fstat(fd, &st), 0));
	cr_expect(eq(u64, (uint64_t)st.st_ino, request->inode));
	cr_expect(eq(u64, request->bytes, BYTES));
	memset(text, desk->bytes[0], sizeof(text));
	cr_expect(eq(i64, (int64_t)pwrite(fd, text, sizeof(text), (off_t)request->at), BYTES));
	close(fd);
}

static void *serve(void *context)
{
	struct ts_mail *mail = &fixture_files.stage->mail;
	struct desk *desk = context;
	uint64_t end_ns = ts_now_ns() + GUARD_NS;
	uint32_t index = 0;

	while (desk->done < desk->count && ts_now_ns() < end_ns) {
		struct ts_mail_request *request = &desk->requests[desk->done];
		if (ts_mail_take(mail, index, &index, request) < 0)
			continue;
		if (desk->bytes && request->kind == TS_MAIL_FETCH)
			write_bytes(desk, request);
		if (!desk->dies)
			ts_mail_answer(mail, index, desk->answer);
		desk->done++;
	}
	if (desk->dies) /* no process has this id */
		ts_write_release(&mail->table->helper, JOB_B);
	return NULL;
}

static void begin(struct desk *desk)
{
	ts_write_release(
		&fixture_files.stage->mail.table->helper, ts_process_id(getpid(), false));
	cr_assert(eq(int, pthread_create(&desk->thread, NULL, serve, desk), 0));
}

static void end(struct desk *desk)
{
	pthread_join(desk->thread, NULL);
	cr_expect(eq(u32, desk->done, desk->count));
}

static void expect_no_request(void)
{
	struct ts_mail_request request;
	uint32_t index;

	cr_expect(eq(
		int, ts_mail_take(&fixture_files.stage->mail, 0, &index, &request), -ENOENT));
}

Test(others, what_another_node_has_is_not_read_here)
{
	struct desk desk = {.answer = TS_MAIL_SAYS_GOT, .bytes = "z", .count = 1};
	bool fetched = true;

	begin(&desk);
	int fd = fixture_open_copy(0, &fetched);
	end(&desk);
	/* Other bytes than the file's, so they are the helper's. */
	cr_expect(fixture_holds(fd, 'z', BYTES));
	cr_expect(eq(int, fetched, false));
	cr_expect(eq(u64, fixture_used(), BYTES));
	close(fd);
	expect_no_request();
}

Test(others, what_was_won_is_handed_over)
{
	struct desk desk = {.answer = TS_MAIL_SAYS_WON, .count = 2};
	bool fetched = false;

	begin(&desk);
	int fd = fixture_open_copy(0, &fetched);
	end(&desk);
	cr_expect(fixture_holds(fd, 'a', BYTES) && fetched);
	cr_expect(eq(u32, desk.requests[1].kind, TS_MAIL_STORE));
	cr_expect(eq(u64, desk.requests[1].bytes, BYTES));
	cr_expect(memcmp(&desk.requests[0].name, &desk.requests[1].name,
			  sizeof(desk.requests[0].name)) == 0);
	close(fd);
}

/* Only where it lies tells two equal files apart: for other nodes, not even the inode. */
Test(others, a_name_is_of_path_size_and_times)
{
	struct desk one = {.answer = TS_MAIL_SAYS_NONE, .count = 1}, two = one;

	begin(&one);
	close(fixture_open_copy(0, NULL));
	end(&one);
	fixture_write_file('b', BYTES);
	begin(&two);
	close(fixture_open_copy(0, NULL));
	end(&two);
	cr_expect(memcmp(&one.requests[0].name, &two.requests[0].name,
			  sizeof(one.requests[0].name)) != 0);
}

Test(others, every_other_answer_means_the_storage)
{
	for (int answer = TS_MAIL_SAYS_NONE; answer < TS_MAIL_ANSWER_COUNT; answer++) {
		struct desk desk = {.answer = (enum ts_mail_answer)answer, .count = 1};
		bool fetched = false;
		fixture_write_file((char)('a' + answer), BYTES);
		begin(&desk);
		int fd = fixture_open_copy(0, &fetched);
		end(&desk);
		cr_expect(fixture_holds(fd, (char)('a' + answer), BYTES) && fetched);
		close(fd);
		expect_no_request();
	}
}

/* Between the answer and the last look. */
static void *serve_and_change(void *context)
{
	struct ts_mail *mail = &fixture_files.stage->mail;
	struct desk *desk = context;
	uint64_t end_ns = ts_now_ns() + GUARD_NS;
	uint32_t index = 0;

	while (ts_mail_take(mail, index, &index, &desk->requests[0]) < 0 &&
		ts_now_ns() < end_ns)
		;
	fixture_write_file('b', BYTES + 1);
	ts_mail_answer(mail, index, desk->answer);
	desk->done++;
	return NULL;
}

Test(others, what_was_won_and_has_changed_is_returned)
{
	struct desk desk = {.answer = TS_MAIL_SAYS_WON, .count = 1}, after = {.count = 1};

	ts_write_release(
		&fixture_files.stage->mail.table->helper, ts_process_id(getpid(), false));
	cr_assert(eq(int, pthread_create(&desk.thread, NULL, serve_and_change, &desk), 0));
	cr_expect(eq(int, fixture_open_copy(0, NULL), -ESTALE));
	end(&desk);
	begin(&after);
	end(&after);
	cr_expect(eq(u32, after.requests[0].kind, TS_MAIL_RETURN));
	cr_expect(eq(u64, fixture_used(), 0));
}

/* What a helper that is stopped may still write to is nobody's copy. */
Test(others, a_request_that_was_left_begins_another_file)
{
	struct desk desk = {.answer = TS_MAIL_SAYS_GOT, .bytes = "z", .dies = true, .count = 1};
	bool fetched = false;
	struct stat copy;

	begin(&desk);
	int fd = fixture_open_copy(0, &fetched);
	end(&desk);
	cr_expect(fixture_holds(fd, 'a', BYTES) && fetched);
	cr_assert(eq(int, fstat(fd, &copy), 0));
	cr_expect(ne(u64, (uint64_t)copy.st_ino, desk.requests[0].inode));
	cr_expect(eq(u64, fixture_used(), BYTES));
	close(fd);
	expect_no_request();
}

/* ---- killed makers ---------------------------------------------------------------------- */

static int die_making(void *context)
{
	ts_identity_settle();
	setenv("TSSHIM_TEST_KILL", context, 1);
	close(fixture_open_copy(0, NULL));
	return 0;
}

static void count_returned(void *context, const struct ts_mail_request *request)
{
	(void)request;
	++*(uint32_t *)context;
}

Test(others, a_killed_maker_gives_back_what_it_had_won)
{
	static const char *const points[] = {"stage_asked", "stage_filled", "stage_finished",
		"stage_noted", "stage_renamed"};

	for (size_t i = 0; i < TS_ARRAY_SIZE(points); i++) {
		struct desk desk = {.answer = TS_MAIL_SAYS_WON, .count = 1};
		uint32_t returned = 0;
		bool fetched = false;
		fixture_write_file((char)('a' + i), BYTES);
		begin(&desk);
		int status = fixture_fork(die_making, (void *)points[i]);
		end(&desk);
		bool is_killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
		cr_assert(is_killed, "%s", points[i]);
		ts_mail_sweep(&fixture_files.stage->mail, count_returned, &returned);
		cr_expect(eq(u32, returned, 1), "%s", points[i]);
		/* The next one takes the .part over, and asks again. */
		desk = (struct desk){.answer = TS_MAIL_SAYS_GOT,
			.bytes = "z",
			.count = i + 1 < TS_ARRAY_SIZE(points)};
		begin(&desk);
		int fd = fixture_open_copy(0, &fetched);
		end(&desk);
		cr_expect(fixture_holds(fd, desk.count ? 'z' : (char)('a' + i), BYTES), "%s",
			points[i]);
		close(fd);
	}
}
