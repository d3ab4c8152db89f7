/* SPDX-License-Identifier: MIT */
/* What jobs say of their loaders: what is read is what was said, whole, or nothing. */
#include "fixture.h"

#include "leader/group/loaders.h"
#include "shim/identity.h"

#include <sys/mman.h>

#define ROW 3u /* of the ledger, whoever has it */

static const struct ts_loader_judgement shared = {
	.verdict = TS_LOADER_VERDICT_SAMPLES, .reason = TS_REASON_COUNT, .detail = ""};

static void says(const char *text, const char *wanted)
{
	cr_expect(strcmp(text, wanted) == 0, "%s, not %s", text, wanted);
}

static struct ts_loaders *table_of(struct ts_store *store)
{
	struct ts_loaders *table = NULL;

	cr_assert(eq(int, ts_loaders_attach(store, &table), 0));
	return table;
}

static struct ts_loaders *loaders; /* of joined.a */

static void begin(void)
{
	fixture_alone_init();
	loaders = table_of(joined.a);
}

TestSuite(loaders, .init = begin, .fini = fixture_finish);

static struct ts_loader_facts facts_of(uint64_t number, const char *name)
{
	return (struct ts_loader_facts){
		.numbers = {number, number + 1, number + 2, number + 3, number + 4},
		.texts = {name, "place", "sampler", ""}};
}

static void say(uint64_t job, uint32_t key)
{
	char name[32];

	snprintf(name, sizeof(name), "loader-%u", key);
	struct ts_loader_facts facts = facts_of(key, name);
	ts_loaders_say(loaders, ROW, job, key, &facts, &shared);
}

static void say_not(uint32_t key, enum ts_reason reason, const char *detail)
{
	struct ts_loader_facts facts = facts_of(key, "loader");
	struct ts_loader_judgement judgement = {
		.verdict = TS_LOADER_VERDICT_NOT, .reason = reason, .detail = detail};

	ts_loaders_say(loaders, ROW, JOB_A, key, &facts, &judgement);
}

static struct ts_loader read_first(uint64_t job)
{
	struct ts_loader loader;

	cr_assert(ts_loaders_read(loaders, ROW, job, 0, &loader));
	return loader;
}

static uint32_t count(uint64_t job)
{
	struct ts_loader loader;
	uint32_t found = 0;

	for (uint32_t i = 0; i < TS_LOADER_MAX; i++)
		found += ts_loaders_read(loaders, ROW, job, i, &loader);
	return found;
}

Test(loaders, are_read_as_they_were_said)
{
	say(JOB_A, 7);
	struct ts_loader loader = read_first(JOB_A);
	for (uint64_t i = 0; i < TS_LOADER_NUMBER_COUNT; i++)
		cr_expect(eq(u64, loader.numbers[i], 7 + i));
	says(loader.name, "loader-7");
	says(loader.place, "place");
	says(loader.sampler, "sampler");
	says(loader.collate, "");
	cr_expect(eq(int, (int)loader.verdict, TS_LOADER_VERDICT_SAMPLES));
	cr_expect(eq(u32, loader.reason, TS_REASON_SLOTS));
	cr_expect(eq(u32, count(JOB_A), 1));
}

/* Says a loader with @count parts, of which the one at @odd has another sum. */
static void say_parts(uint64_t job, uint32_t count, uint32_t odd)
{
	struct ts_loader_part parts[TS_LOADER_PARTS + 4];
	struct ts_loader_facts facts = facts_of(7, "loader");

	memset(parts, 0, sizeof(parts));
	for (uint32_t i = 0; i < count; i++) {
		parts[i] = (struct ts_loader_part){.sum = i == odd, .path = i + 1};
		snprintf(parts[i].text, sizeof(parts[i].text), "opt.%u\t%u\tmain", i,
			10 + (i == odd));
	}
	facts.parts = parts;
	facts.part_count = count;
	ts_loaders_say(loaders, ROW, job, 7, &facts, &shared);
}

static uint32_t count_parts(uint64_t job)
{
	struct ts_loader_part part;
	uint32_t count = 0;

	while (ts_loaders_read_part(loaders, ROW, job, 0, count, &part)) {
		cr_expect(eq(u32, part.path, count + 1));
		cr_expect(eq(u32, part.sum, count == 1));
		count++;
	}
	return count;
}

Test(loaders, parts_are_read_as_they_were_said)
{
	struct ts_loader_part part;

	say_parts(JOB_A, TS_LOADER_PARTS + 4, 1);
	cr_expect(eq(u32, count_parts(JOB_A), TS_LOADER_PARTS));
	cr_assert(ts_loaders_read_part(loaders, ROW, JOB_A, 0, 1, &part));
	says(part.text, "opt.1\t11\tmain");
	cr_expect(eq(u32, count_parts(JOB_B), 0));
	/* The next job that has the row says fewer, and what was there is none of them. */
	say_parts(JOB_B, 3, 1);
	cr_expect(eq(u32, count_parts(JOB_B), 3));
	cr_expect(eq(u32, count_parts(JOB_A), 0));
	say(JOB_B, 9);
	cr_expect(not(ts_loaders_read_part(loaders, ROW, JOB_B, 1, 0, &part)));
	cr_expect(not(ts_loaders_read_part(loaders, TS_JOB_MAX, JOB_B, 0, 0, &part)));
}

Test(loaders, of_another_job_or_row_are_none)
{
	struct ts_loader loader;

	say(JOB_A, 7);
	cr_expect(eq(u32, count(JOB_B), 0));
	cr_expect(eq(int, ts_loaders_read(loaders, ROW + 1, JOB_A, 0, &loader), false));
	cr_expect(eq(int, ts_loaders_read(loaders, TS_JOB_MAX, JOB_A, 0, &loader), false));
	cr_expect(eq(int, ts_loaders_read(loaders, ROW, JOB_A, TS_LOADER_MAX, &loader), false));
	/* The next job that has the row. */
	say(JOB_B, 9);
	cr_expect(eq(u32, count(JOB_A), 0));
	says(read_first(JOB_B).name, "loader-9");
}

Test(loaders, a_verdict_changes)
{
	say_not(1, TS_REASON_TORCH_DATASET, "dataset.lock");
	struct ts_loader loader = read_first(JOB_A);
	cr_expect(eq(int, (int)loader.verdict, TS_LOADER_VERDICT_NOT));
	cr_expect(eq(u32, loader.reason, TS_REASON_TORCH_DATASET));
	says(loader.detail, "dataset.lock");
	say_not(1, TS_REASON_TORCH_CHEAP, "0.1 ms");
	says(read_first(JOB_A).detail, "0.1 ms");
	/* The first text for a reason counts; beyond the room for texts a reason has none. */
	say_not(1, TS_REASON_TORCH_DATASET, "another");
	says(read_first(JOB_A).detail, "dataset.lock");
	say_not(1, TS_REASON_TORCH_SAMPLE, "too many");
	loader = read_first(JOB_A);
	cr_expect(eq(u32, loader.reason, TS_REASON_TORCH_SAMPLE));
	says(loader.detail, "");
	for (uint32_t i = 0; i < TS_REASON_SLOTS; i++)
		cr_expect(eq(int, ts_loader_was_given(&loader, i),
			i == TS_REASON_TORCH_DATASET || i == TS_REASON_TORCH_CHEAP ||
				i == TS_REASON_TORCH_SAMPLE));
	say(JOB_A, 1);
	cr_expect(eq(int, (int)read_first(JOB_A).verdict, TS_LOADER_VERDICT_SAMPLES));
	cr_expect(eq(u32, count(JOB_A), 1));
}

/* Each is known by a bit of its own, in one of several words. */
Test(loaders, every_reason_is_remembered)
{
	for (uint32_t given = 0; given < TS_REASON_COUNT; given++) {
		struct ts_loader loader;
		say_not(1, (enum ts_reason)given, "");
		loader = read_first(JOB_A);
		cr_expect(eq(u32, loader.reason, given));
		for (uint32_t i = 0; i < TS_REASON_SLOTS; i++)
			cr_expect(eq(int, ts_loader_was_given(&loader, i), i <= given));
	}
}

Test(loaders, beyond_the_room_are_counted)
{
	cr_expect(eq(u32, ts_loaders_more(loaders, ROW, JOB_A), 0));
	for (uint32_t key = 1; key <= TS_LOADER_MAX + 2; key++)
		say(JOB_A, key);
	cr_expect(eq(u32, count(JOB_A), TS_LOADER_MAX));
	cr_expect(eq(u32, ts_loaders_more(loaders, ROW, JOB_A), 2));
	cr_expect(eq(u32, ts_loaders_more(loaders, ROW, JOB_B), 0));
	cr_expect(eq(u32, ts_loaders_more(loaders, TS_JOB_MAX, JOB_A), 0));
}

Test(loaders, long_texts_are_cut_between_characters)
{
	char text[1024];

	/* Two bytes each, so one of two cuts would be within one. */
	for (size_t shift = 0; shift < 2; shift++) {
		memset(text, 'x', shift);
		for (size_t i = shift; i + 2 < sizeof(text); i += 2)
			memcpy(text + i, "\xc3\xa9", 3);
		struct ts_loader_facts facts = {.texts = {text, text, text, text}};
		ts_loaders_say(loaders, ROW + 1, JOB_A, 1 + (uint32_t)shift, &facts, &shared);
		struct ts_loader loader;
		cr_assert(ts_loaders_read(loaders, ROW + 1, JOB_A, (uint32_t)shift, &loader));
		size_t length = strlen(loader.sampler);
		cr_expect(eq(sz, length, sizeof(loader.sampler) - 1 - (shift == 0)));
		cr_expect(memcmp(loader.sampler, text, length) == 0);
		cr_expect(lt(sz, strlen(loader.place), sizeof(loader.place)));
	}
}

static int die_saying(void *point)
{
	setenv("TSSHIM_TEST_KILL", point, 1);
	say_not(5, TS_REASON_TORCH_DATASET, "dataset.lock");
	return 0;
}

Test(loaders, a_killed_one_leaves_what_the_next_completes)
{
	static const char *const points[] = {
		"loader_claimed", "loader_written", "loader_detail"};

	for (size_t i = 0; i < TS_ARRAY_SIZE(points); i++) {
		memset(&loaders->rows[ROW], 0, sizeof(loaders->rows[ROW]));
		cr_assert(fixture_is_killed(die_saying, (void *)points[i]), "%s", points[i]);
		/* Its facts are there with the last of the steps only. */
		cr_expect(eq(u32, count(JOB_A), i == 2), "%s", points[i]);
		say_not(5, TS_REASON_TORCH_DATASET, "dataset.lock");
		struct ts_loader loader = read_first(JOB_A);
		says(loader.name, "loader");
		cr_expect(eq(u32, loader.reason, TS_REASON_TORCH_DATASET), "%s", points[i]);
		/* The text that was being written is lost, the reason is not. */
		says(loader.detail, i == 2 ? "" : "dataset.lock");
		cr_expect(eq(u32, count(JOB_A), 1), "%s", points[i]);
	}
}

#define TURNS 20000u

/* Which job has the row, or is about to; shared with the child. */
static _Atomic uint32_t *turn;

/* One job after another has the row; none comes back, as no process does. */
static int say_by_turns(void)
{
	for (uint32_t i = 0; i < TURNS; i++) {
		ts_write_release(turn, i);
		say(JOB_A + i, i);
	}
	return 0;
}

Test(loaders, are_read_whole_or_not_at_all)
{
	struct ts_loader loader;

	turn = mmap(
		NULL, sizeof(*turn), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert(turn != MAP_FAILED);
	pid_t child = fork();
	cr_assert(ge(int, child, 0));
	if (child == 0)
		_exit(say_by_turns());
	while (waitpid(child, NULL, WNOHANG) == 0) {
		uint32_t now = ts_load_acquire(turn);
		char wanted[24];
		snprintf(wanted, sizeof(wanted), "loader-%u", now);
		if (ts_loaders_read(loaders, ROW, JOB_A + now, 0, &loader)) {
			says(loader.name, wanted);
			cr_assert(eq(u64, loader.numbers[3], now + 3));
		}
	}
	cr_expect(ts_loaders_read(loaders, ROW, JOB_A + TURNS - 1, 0, &loader), "the last");
}

static int speak_for_parent(void *context)
{
	uint64_t job = *(uint64_t *)context;
	struct ts_store *store = fixture_attach(job);

	int row = ts_ledger_find_job(ts_store_ledger(store), job);
	struct ts_loader_facts facts = facts_of(1, "of a worker");
	ts_loaders_say(table_of(store), (uint32_t)row, job, 1, &facts, &shared);
	(void)kill(getpid(), SIGKILL);
	return 0;
}

Test(loaders, of_workers_stay_when_their_job_comes_late)
{
	uint64_t job = ts_process_id(getpid(), false);
	struct ts_loader loader;

	fixture_detach(joined.a);
	cr_assert(fixture_is_killed(speak_for_parent, &job));
	/* Nobody has the ring any more, so this makes a new one. */
	struct ts_store *store = fixture_attach(job);
	int row = ts_ledger_find_job(ts_store_ledger(store), job);
	cr_assert(ge(int, row, 0));
	cr_assert(ts_loaders_read(table_of(store), (uint32_t)row, job, 0, &loader));
	says(loader.name, "of a worker");
	fixture_detach(store);
	cr_expect(not(fixture_exists("loaders")));
}

Test(loaders, garbage_is_no_loader)
{
	struct ts_loader loader;

	say(JOB_A, 1);
	struct ts_loader_place *place = &loaders->rows[ROW].places[0];
	uint64_t tag = place->said & ~UINT64_C(0xffffffff);
	/* A verdict, a reason and a detail that there are not. */
	const uint64_t words[] = {0xff, 0xff02, 0xff0103, 0x030103, UINT64_C(0xffffffff)};
	for (size_t i = 0; i < TS_ARRAY_SIZE(words); i++) {
		place->verdict = tag | words[i];
		cr_assert(ts_loaders_read(loaders, ROW, JOB_A, 0, &loader));
		cr_expect(lt(int, (int)loader.verdict, TS_LOADER_VERDICT_COUNT));
		cr_expect(le(u32, loader.reason, TS_REASON_SLOTS));
		says(loader.detail, "");
	}
	memset((void *)place->facts, 'x', sizeof(place->facts));
	cr_assert(ts_loaders_read(loaders, ROW, JOB_A, 0, &loader));
	cr_expect(eq(sz, strlen(loader.name), sizeof(loader.name) - 1));
}
