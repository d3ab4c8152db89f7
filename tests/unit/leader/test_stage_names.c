/* SPDX-License-Identifier: MIT */
/* What a group knows of paths: for how long, what ends it, and what a damaged table says. */
#include "fixture_stage.h"
#include "leader/files/stage.h"
#include "shim/identity.h"

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

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
