/* SPDX-License-Identifier: MIT */
/* What a group knows of paths: for how long, what ends it, and what a damaged table says. */
#include "fixture_stage.h"
#include "leader/files/stage.h"
#include "shim/identity.h"
#include "leader/files/stage_private.h"
#include "leader/mail/mail.h"
#include "shim/sys.h"
#include "leader/files/remote.h"

#include <limits.h>
#include <pthread.h>
#include <sys/sysmacros.h>

#define SECONDS 600u

static const struct ts_hash128 name = {7, 9};

static struct ts_stage_index *table(void)
{
	return &fixture_files.stage->index;
}

static bool is_known(struct ts_hash128 of)
{
	struct ts_stage_known known;
	return ts_stage_name_find(table(), of, SECONDS, &known);
}

/* Make the copy, and note that @name led to it at @asked_ms. */
static void know(uint64_t asked_ms)
{
	struct stat copy;
	int fd = fixture_open_copy(0, NULL);

	cr_assert(ge(int, fd, 0));
	cr_assert(eq(int, fstat(fd, &copy), 0));
	close(fd);
	ts_stage_name_note(table(), name, asked_ms, copy.st_ino);
}

static int open_known(void)
{
	uint64_t bytes = 0;
	int fd = ts_stage_open_known(fixture_files.stage, name, SECONDS, O_RDONLY, &bytes);

	if (fd >= 0)
		cr_expect(eq(u64, bytes, BYTES));
	return fd;
}

TestSuite(stage_names, .init = fixture_stage_init, .fini = fixture_stage_finish);

Test(stage_names, a_known_name_gives_the_copy)
{
	cr_expect(eq(int, open_known(), -ENOENT));
	know(ts_stage_now_ms());
	int fd = open_known();
	cr_expect(fixture_holds(fd, 'a', BYTES));
	cr_expect(eq(int, fcntl(fd, F_GETFL) & ~O_LARGEFILE & 0xfff, O_RDONLY));
	close(fd);
	cr_expect(not(is_known((struct ts_hash128){7, 8})), "half a hash is no name");
	cr_expect(not(is_known((struct ts_hash128){8, 9})));
}

/* A machine that began a second ago is told of what another one asked minutes before. */
Test(stage_names, moments_before_the_machine_began_are_numbers)
{
	know(ts_stage_now_ms() - (SECONDS - 60) * 1000);
	cr_expect(is_known(name));
	cr_expect(ge(u64, ts_stage_now_ms(), 2 * SECONDS * 1000));
}

Test(stage_names, knowledge_ends_with_its_seconds)
{
	struct ts_stage_known known;
	uint64_t now = ts_stage_now_ms();

	know(now - 5000);
	cr_expect(ts_stage_name_find(table(), name, 3600, &known));
	cr_expect(not(ts_stage_name_find(table(), name, 4, &known)));
	cr_expect(not(ts_stage_name_find(table(), name, 0, &known)));
	know(now + 100000);
	cr_expect(not(is_known(name)), "of the future");
}

Test(stage_names, an_old_answer_does_not_come_back)
{
	struct ts_stage_attributes first = {.inode = 1, .bytes = 1}, second = {.inode = 2};
	struct ts_stage_known known;
	uint64_t now = ts_stage_now_ms();

	ts_stage_name_note_attributes(table(), name, now, &second);
	ts_stage_name_note_attributes(table(), name, now - 1, &first);
	cr_assert(ts_stage_name_find(table(), name, SECONDS, &known));
	cr_expect(eq(u64, known.attributes.inode, 2));
	cr_expect(known.path == NULL);
	cr_expect(eq(int, open_known(), -ENOENT), "there is no copy");
}

Test(stage_names, attributes_that_did_not_change_keep_the_copy)
{
	struct ts_stage_known known, again;
	uint64_t now = ts_stage_now_ms();

	know(now - 10);
	cr_assert(ts_stage_name_find(table(), name, SECONDS, &known));
	struct ts_stage_attributes same = known.attributes;
	same.accessed.seconds++;
	same.flags_mask = 0;
	ts_stage_name_note_attributes(table(), name, now, &same);
	ts_write_relaxed(&table()->head->forgotten, now - 1);
	cr_assert(ts_stage_name_find(table(), name, SECONDS, &again), "as of now");
	cr_expect(eq(u64, again.row, known.row));
	same.bytes++;
	ts_stage_name_note_attributes(table(), name, now + 1, &same);
	fixture_time_passes(1);
	cr_assert(ts_stage_name_find(table(), name, SECONDS, &again));
	cr_expect(ne(u64, again.row, known.row));
	cr_expect(eq(u64, again.attributes.bytes, same.bytes));
}

/* An id as that of a job that lives, another one for each @number. */
static uint64_t job(uint64_t number)
{
	static pid_t children[TS_STAGE_LEFT + 2];

	if (children[number] == 0) {
		children[number] = fork();
		if (children[number] == 0)
			for (;;)
				pause();
	}
	return ts_process_id(children[number], true);
}

static void end_job(uint64_t id)
{
	kill(TS_PROCESS_PID(id), SIGKILL);
	waitpid(TS_PROCESS_PID(id), NULL, 0);
}

Test(stage_names, what_was_known_is_nothing_when_a_job_leaves)
{
	uint64_t leaves = job(0), stays = job(1);

	know(ts_stage_now_ms());
	ts_stage_names_leave(table(), leaves);
	cr_expect(not(is_known(name)));
	cr_expect(ts_stage_names_were_left(table(), leaves));
	cr_expect(not(ts_stage_names_were_left(table(), stays)));
	fixture_time_passes(1);
	know(ts_stage_now_ms());
	cr_expect(is_known(name), "to the others");
	end_job(leaves);
	end_job(stays);
}

Test(stage_names, the_place_of_a_job_that_left_and_ended_is_free)
{
	for (uint64_t i = 0; i < 3 * TS_STAGE_LEFT; i++)
		ts_stage_names_leave(table(), i + 1); /* nobody alive has such an id */
	fixture_time_passes(1);
	know(ts_stage_now_ms());
	cr_expect(is_known(name));
}

Test(stage_names, more_jobs_than_can_be_noted_end_it_for_all)
{
	for (uint64_t i = 0; i <= TS_STAGE_LEFT; i++) {
		fixture_time_passes(1);
		know(ts_stage_now_ms());
		cr_expect(is_known(name), "%lu", (unsigned long)i);
		ts_stage_names_leave(table(), job(i));
		ts_stage_names_leave(table(), job(i));
	}
	fixture_time_passes(1);
	know(ts_stage_now_ms());
	cr_expect(not(is_known(name)));
	for (uint64_t i = 0; i <= TS_STAGE_LEFT; i++)
		end_job(job(i));
}

Test(stage_names, a_job_that_is_not_known_ends_it_for_all)
{
	ts_stage_names_leave(table(), 0);
	fixture_time_passes(1);
	know(ts_stage_now_ms());
	cr_expect(not(is_known(name)));
}

Test(stage_names, a_full_table_knows_no_more)
{
	struct ts_stage_attributes some = {.inode = 1};
	uint64_t count = table()->name_count, noted = 0;

	for (uint64_t i = 0; i < count; i++)
		ts_stage_name_note_attributes(
			table(), (struct ts_hash128){i * 64 + 1, i}, ts_stage_now_ms(), &some);
	for (uint64_t i = 0; i < count; i++)
		noted += is_known((struct ts_hash128){i * 64 + 1, i});
	cr_expect(gt(u64, noted, 0));
	cr_expect(lt(u64, noted, count));
}

/* Whatever stands in the table, asking it stays within the index. */
Test(stage_names, a_damaged_table_knows_nothing)
{
	const uint64_t rows[] = {0, 1, 512, UINT64_C(1) << 20, (UINT64_C(1) << 26) - 1};

	know(ts_stage_now_ms());
	struct ts_stage_name *names =
		(struct ts_stage_name *)((char *)table()->head + table()->rows_end);
	uint64_t at = 0;
	while (names[at].lo != name.lo)
		at++;
	uint64_t right = ts_load_relaxed(&names[at].word);
	for (size_t i = 0; i < TS_ARRAY_SIZE(rows); i++) {
		ts_write_relaxed(&names[at].word,
			right >> TS_STAGE_ROW_BITS << TS_STAGE_ROW_BITS | rows[i]);
		cr_expect(lt(int, open_known(), 0));
	}
	ts_write_relaxed(&names[at].word, right);
	cr_expect(is_known(name));
	close(open_known());
}

/* Another file under the name of the copy, or a pipe that nobody writes to. */
Test(stage_names, what_is_no_copy_is_not_given_out)
{
	know(ts_stage_now_ms());
	const char *path = fixture_name_of_copy();
	unlink(path);
	cr_expect(eq(int, open_known(), -ENOENT));
	cr_assert(eq(int, mkfifo(path, 0400), 0));
	cr_expect(eq(int, open_known(), -ENOENT));
	unlink(path);
	cr_assert(eq(int, symlink(fixture_files.path, path), 0));
	cr_expect(eq(int, open_known(), -ENOENT));
	unlink(path);
}

/* Two writers of one name: a reader sees one of the two answers, never a mixture. */
static void *note_in_turns(void *argument)
{
	uint64_t which = (uint64_t)(uintptr_t)argument;
	struct ts_stage_attributes mine = {.inode = which, .bytes = which * 1000};

	for (uint64_t i = 0; i < 2000; i++)
		ts_stage_name_note_attributes(table(), name, 1 + 2 * i + which % 2, &mine);
	return NULL;
}

Test(stage_names, an_answer_is_of_one_piece)
{
	struct ts_stage_known known;
	pthread_t threads[2];

	for (uintptr_t i = 0; i < 2; i++)
		pthread_create(&threads[i], NULL, note_in_turns, (void *)(i + 1));
	for (int i = 0; i < 20000; i++)
		if (ts_stage_name_find(table(), name, UINT64_C(1) << 40, &known))
			cr_assert(
				eq(u64, known.attributes.bytes, known.attributes.inode * 1000));
	for (int i = 0; i < 2; i++)
		pthread_join(threads[i], NULL);
}

/* Copies that come from other nodes: what the helper puts there, and what becomes of the rest.
 */

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

static void begin_doing(struct desk *desk, void *(*what)(void *desk))
{
	ts_write_release(
		&fixture_files.stage->mail.table->helper, ts_process_id(getpid(), false));
	cr_assert(eq(int, pthread_create(&desk->thread, NULL, what, desk), 0));
}

static void begin(struct desk *desk)
{
	begin_doing(desk, serve);
}

/* Open the copy while the helper does what @desk says. */
static int open_beside(struct desk *desk, bool *ret_fetched)
{
	begin(desk);
	int fd = fixture_open_copy(0, ret_fetched);
	pthread_join(desk->thread, NULL);
	cr_expect(eq(u32, desk->done, desk->count));
	return fd;
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

	int fd = open_beside(&desk, &fetched);
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

	int fd = open_beside(&desk, &fetched);
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

	close(open_beside(&one, NULL));
	fixture_write_file('b', BYTES);
	close(open_beside(&two, NULL));
	cr_expect(memcmp(&one.requests[0].name, &two.requests[0].name,
			  sizeof(one.requests[0].name)) != 0);
}

Test(others, every_other_answer_means_the_storage)
{
	for (int answer = TS_MAIL_SAYS_NONE; answer < TS_MAIL_ANSWER_COUNT; answer++) {
		struct desk desk = {.answer = (enum ts_mail_answer)answer, .count = 1};
		bool fetched = false;
		fixture_write_file((char)('a' + answer), BYTES);
		int fd = open_beside(&desk, &fetched);
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

	begin_doing(&desk, serve_and_change);
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

	int fd = open_beside(&desk, &fetched);
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
		bool is_killed = fixture_is_killed(die_making, (void *)points[i]);
		end(&desk);
		cr_assert(is_killed, "%s", points[i]);
		ts_mail_sweep(&fixture_files.stage->mail, count_returned, &returned);
		cr_expect(eq(u32, returned, 1), "%s", points[i]);
		/* The next one takes the .part over, and asks again. */
		desk = (struct desk){.answer = TS_MAIL_SAYS_GOT,
			.bytes = "z",
			.count = i + 1 < TS_ARRAY_SIZE(points)};
		int fd = open_beside(&desk, &fetched);
		cr_expect(fixture_holds(fd, desk.count ? 'z' : (char)('a' + i), BYTES), "%s",
			points[i]);
		close(fd);
	}
}

/* What is told of paths on other nodes, and the copies that are made of it. */

TestSuite(bring, .init = fixture_stage_init, .fini = fixture_stage_finish, .timeout = 60);

static const struct ts_hash128 known_as = {0x1234, 0x5678};

static unsigned char told[TS_STAGE_TOLD_BYTES];

static uint64_t device(void)
{
	return (uint64_t)fixture_files.was.st_dev;
}

/* What a node with a copy of the fixture's file tells; how many bytes. */
static size_t tell(void)
{
	struct stat copy;
	int fd = fixture_open_copy(0, NULL);

	cr_assert(eq(int, fstat(fd, &copy), 0));
	close(fd);
	int r = ts_stage_tell(fixture_files.stage, copy.st_ino, device(), told);
	cr_assert(gt(int, r, 0));
	return (size_t)r;
}

/* The same of a file that this group has no copy of. */
static size_t tell_of_another(void)
{
	struct ts_stage_told head;
	size_t bytes = tell();

	memcpy(&head, told, sizeof(head));
	head.attributes.inode++;
	memcpy(told, &head, sizeof(head));
	return bytes;
}

static bool told_is_known(struct ts_stage_known *ret_known)
{
	return ts_stage_name_find(&fixture_files.stage->index, known_as, SECONDS, ret_known);
}

static int note(const struct ts_stage_remote *bringing)
{
	return ts_stage_remote_note(fixture_files.stage, bringing, known_as, SECONDS);
}

/* Begin with what was told of a file that is opened here by now. */
static void bring_begin(size_t bytes, struct ts_stage_remote *ret)
{
	cr_assert(eq(int,
		ts_stage_remote_begin(fixture_files.stage, told, bytes, device(), ret), 0));
}

Test(bring, what_is_told_does_not_name_a_device)
{
	struct ts_stage_told head;
	size_t bytes = tell();

	memcpy(&head, told, sizeof(head));
	cr_expect(eq(sz, bytes, sizeof(head) + strlen(fixture_files.path)));
	cr_expect(memcmp(told + sizeof(head), fixture_files.path, head.path_bytes) == 0);
	cr_expect(eq(u32, head.attributes.device_major | head.attributes.device_minor, 0));
	cr_expect(eq(u64, head.attributes.bytes, BYTES));
	cr_expect(eq(int, ts_stage_tell(fixture_files.stage, 1, device(), told), -ENOENT));
}

Test(bring, a_file_beyond_a_mount_point_is_not_told)
{
	struct stat copy;
	int fd = fixture_open_copy(0, NULL);

	cr_assert(eq(int, fstat(fd, &copy), 0));
	close(fd);
	cr_expect(eq(int, ts_stage_tell(fixture_files.stage, copy.st_ino, device() + 1, told),
		-ENOENT));
}

Test(bring, a_copy_that_is_there_is_only_noted)
{
	struct ts_stage_remote bringing;
	struct ts_stage_known known;

	bring_begin(tell(), &bringing);
	cr_expect(eq(int, bringing.part, -1));
	cr_expect(eq(int, ts_stage_remote_end(fixture_files.stage, &bringing, 0), 0));
	cr_expect(eq(int, note(&bringing), 0));
	cr_assert(told_is_known(&known));
	cr_expect(eq(str, (char *)known.path, fixture_files.path));
	cr_expect(eq(u64, fixture_used(), BYTES));
}

Test(bring, a_new_copy_is_opened_by_its_path_alone)
{
	struct ts_stage_remote bringing;
	char text[BYTES];
	uint64_t bytes = 0;

	bring_begin(tell_of_another(), &bringing);
	cr_assert(ge(int, bringing.part, 0));
	memset(text, 'z', sizeof(text));
	cr_assert(eq(i64, (int64_t)pwrite(bringing.part, text, sizeof(text), 0), BYTES));
	cr_expect(eq(int, ts_stage_remote_end(fixture_files.stage, &bringing, 0), 0));
	cr_expect(eq(int, note(&bringing), 0));
	int fd = ts_stage_open_known(fixture_files.stage, known_as, SECONDS, O_RDONLY, &bytes);
	cr_assert(ge(int, fd, 0));
	cr_expect(eq(u64, bytes, BYTES));
	cr_expect(fixture_holds(fd, 'z', BYTES));
	close(fd);
	cr_expect(eq(u64, fixture_used(), 2 * BYTES));
}

Test(bring, what_could_not_be_had_leaves_nothing)
{
	struct ts_stage_remote bringing, second;
	size_t bytes = tell_of_another();

	cr_assert(eq(int,
		ts_stage_remote_begin(fixture_files.stage, told, bytes, device(), &bringing),
		0));
	cr_expect(eq(u64, fixture_used(), 2 * BYTES));
	/* Somebody else makes it. */
	cr_expect(eq(int,
		ts_stage_remote_begin(fixture_files.stage, told, bytes, device(), &second),
		-EBUSY));
	cr_expect(eq(int, ts_stage_remote_end(fixture_files.stage, &bringing, -EIO), -EIO));
	cr_expect(eq(u64, fixture_used(), BYTES));
	cr_assert(eq(int,
		ts_stage_remote_begin(fixture_files.stage, told, bytes, device(), &second), 0));
	cr_expect(eq(int, ts_stage_remote_end(fixture_files.stage, &second, -EIO), -EIO));
}

/* Half of the time is for the server to keep it: half of it is left. */
Test(bring, it_is_known_as_of_when_it_may_have_been_asked_for)
{
	struct ts_stage_remote bringing;
	struct ts_stage_known known;

	bring_begin(tell(), &bringing);
	cr_expect(eq(int, note(&bringing), 0));
	cr_expect(eq(int,
		ts_stage_name_find(&fixture_files.stage->index, known_as, SECONDS / 2, &known),
		false));
	cr_expect(told_is_known(&known));
	ts_stage_names_leave(&fixture_files.stage->index, 1);
	cr_expect(eq(int, note(&bringing), 0));
	cr_expect(eq(int, told_is_known(&known), false),
		"it may be older than what a job has written");
}

Test(bring, nonsense_is_refused)
{
	struct ts_stage_told good, bad;
	struct ts_stage_remote bringing;
	size_t bytes = tell_of_another();

	memcpy(&good, told, sizeof(good));
	for (int i = 0; i < 8; i++) {
		size_t count = bytes;
		bad = good;
		memcpy(told + sizeof(good), fixture_files.path, good.path_bytes);
		switch (i) {
		case 0:
			bad.version++;
			break;
		case 1:
			bad.path_bytes++;
			break;
		case 2:
			bad.path_bytes = 0;
			count = sizeof(bad);
			break;
		case 3:
			bad.attributes.mode = S_IFDIR | 0755;
			break;
		case 4:
			bad.attributes.bytes = 0;
			break;
		case 5:
			told[sizeof(bad)] = 'x'; /* not absolute */
			break;
		case 6:
			told[sizeof(bad) + 2] = '\0';
			break;
		default:
			count = sizeof(bad) - 1;
		}
		memcpy(told, &bad, sizeof(bad));
		cr_expect(eq(int,
				  ts_stage_remote_begin(fixture_files.stage, told, count,
					  device(), &bringing),
				  -EBADMSG),
			"%d", i);
	}
	good.attributes.bytes = TS_STAGE_AT_ONCE + 1;
	memcpy(told, &good, sizeof(good));
	memcpy(told + sizeof(good), fixture_files.path, good.path_bytes);
	cr_expect(eq(int,
		ts_stage_remote_begin(fixture_files.stage, told, bytes, device(), &bringing),
		-EFBIG));
	cr_expect(eq(u64, fixture_used(), BYTES));
}

Test(bring, short_times_are_not_told)
{
	cr_expect(eq(u32, ts_stage_told_for(0), 0));
	cr_expect(eq(u32, ts_stage_told_for(TS_STAGE_TELL_SECONDS - 1), 0));
	cr_expect(eq(u32, ts_stage_told_for(TS_STAGE_TELL_SECONDS), TS_STAGE_TELL_SECONDS / 2));
	cr_expect(eq(u32, ts_stage_told_for(601), 300));
}
