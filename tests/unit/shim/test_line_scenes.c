/* SPDX-License-Identifier: MIT */
/*
 * Which words the line at the end of a job has for which counts: each that it may have in a
 * scene in which it is true, and not in one that looks like it.
 */
#include "fixture.h"

#include "leader/line/line.h"
#include "shim/identity.h"

#include <sys/resource.h>
#include <sys/stat.h>

static struct ts_line_sum sum;
static struct ts_config config;
static char text[TS_LINE_BYTES];

static void begin(void)
{
	memset(&sum, 0, sizeof(sum));
	ts_config_init(&config);
}

TestSuite(line_scenes, .init = begin);
TestSuite(line, .init = begin);

static char *line(void)
{
	size_t length = ts_line_format(text, sizeof(text), &sum, &config);
	text[length] = '\0';
	return text;
}

static void took(enum ts_kind kind, uint64_t taken, uint64_t made)
{
	sum.taken[kind] = taken;
	sum.made[kind] = made;
}

/* ---- which words for which counts ------------------------------------------------------- */

/* Counts of a job, and words that its line has, or must not have. */
struct scene {
	const char *about;
	uint64_t samples, images, files; /* made */
	uint64_t taken_samples, taken_images, given_samples, given_images, own;
	struct {
		enum ts_reason reason;
		uint64_t count;
	} passed[3];
	enum { DEFAULT, ALIGNED, KEPT } mode;
	enum { TOGETHER, DRAWN_APART, NAMED_APART } others;
	const char *detail;
	enum ts_reason kept; /* by which all loaders are; 0, which is none of these: by none */
	const char *shown[3], *hidden[4];
};

#define REASON(name) TS_REASON_##name

/* A scene in which something is said stands before one that looks like it. */
static const struct scene scenes[] = {
	{.about = "files too young: each job made all, and nobody could take any of it",
		.samples = 600,
		.images = 600,
		.passed = {{REASON(TORCH_YOUNG), 594}, {REASON(NESTED), 600}},
		.mode = ALIGNED,
		.shown = {"nothing shared: an input file was changed", "; fix: "},
		.hidden = {"made here first", "no other job"}},
	{.about = "a few were young, the others were taken by other jobs",
		.samples = 600,
		.given_samples = 580,
		.passed = {{REASON(TORCH_YOUNG), 20}},
		.mode = ALIGNED,
		.shown = {"none of 600 samples taken from other jobs: made here first, and "
			  "taken "
			  "by others 580 times"},
		.hidden = {"just before or while", "no other job"}},
	{.about = "a tenth is told beside what was given",
		.samples = 600,
		.given_samples = 500,
		.passed = {{REASON(TORCH_YOUNG), 60}},
		.shown = {"made here first",
			"; 60 samples not shared: an input file was changed", "; fix: "}},
	{.about = "and beside what was taken",
		.samples = 200,
		.taken_samples = 400,
		.passed = {{REASON(TORCH_YOUNG), 20}},
		.shown = {"400 of 600 samples taken from other jobs",
			"; 20 samples not shared: an input file was changed", "; fix: "}},
	{.about = "less than a tenth is not",
		.samples = 200,
		.taken_samples = 400,
		.passed = {{REASON(TORCH_YOUNG), 19}},
		.shown = {"400 of 600 samples taken from other jobs"},
		.hidden = {"just before or while", "not shared"}},
	{.about = "what nothing helps against is not told beside what was shared",
		.samples = 200,
		.taken_samples = 400,
		.passed = {{REASON(TORCH_CHEAP), 200}},
		.shown = {"400 of 600 samples taken"},
		.hidden = {"costs less", "not shared"}},
	{.about = "who has met others was not alone",
		.samples = 200,
		.taken_samples = 400,
		.passed = {{REASON(ALONE), 200}},
		.shown = {"400 of 600 samples taken"},
		.hidden = {"no other job"}},
	{.about = "samples too large for the ring",
		.samples = 60,
		.images = 480,
		.passed = {{REASON(TOO_LARGE), 59}, {REASON(ALONE), 1}},
		.mode = ALIGNED,
		.shown = {"nothing shared: the result is larger than half of the ring",
			"; fix: a larger --ring"},
		.hidden = {"made here first", "no other job"}},
	{.about = "published, and nobody has asked for any of it",
		.samples = 600,
		.mode = ALIGNED,
		.shown = {"nothing shared: no other job was asking for this data when it was "
			  "made"},
		.hidden = {"made here first", "all with --align"}},
	{.about = "the same without --align",
		.samples = 600,
		.shown = {"no other job was asking", "all with --align"},
		.hidden = {"made here first"}},
	{.about = "nobody would have had use for it",
		.samples = 32,
		.passed = {{REASON(ALONE), 32}, {REASON(TORCH_CHEAP), 4}},
		.mode = ALIGNED,
		.others = NAMED_APART,
		.kept = REASON(TORCH_CHEAP),
		.detail = "an item takes 0.12 ms",
		.shown = {"nothing shared: preparing a sample costs less than sharing it (an "
			  "item "
			  "takes 0.12 ms)"},
		.hidden = {"no other job", "side by side", "; fix"}},
	{.about = "what another reason has cost is told before",
		.samples = 32,
		.passed = {{REASON(TORCH_YOUNG), 20}},
		.mode = ALIGNED,
		.kept = REASON(TORCH_CHEAP),
		.shown = {"nothing shared: an input file was changed"},
		.hidden = {"costs less"}},
	{.about = "a rare reason does not hide that nobody has asked",
		.samples = 600,
		.passed = {{REASON(TORCH_YOUNG), 3}},
		.shown = {"no other job was asking"},
		.hidden = {"just before or while"}},
	{.about = "refused samples come before the images inside of them",
		.samples = 600,
		.images = 97,
		.taken_images = 503,
		.passed = {{REASON(TORCH_DATASET), 600}},
		.mode = ALIGNED,
		.detail = "dataset.tokenizer: shows nothing of what it holds",
		.shown = {"tsshim: none of 600 samples shared: the dataset contains something "
			  "whose "
			  "equality cannot be proven (dataset.tokenizer: shows nothing of what "
			  "it "
			  "holds); fix: keep what",
			"; 503 of 600 images taken from other jobs"},
		.hidden = {"--align", "--share samples"}},
	{.about = "the same without --align, which helps",
		.samples = 600,
		.images = 97,
		.taken_images = 503,
		.passed = {{REASON(TORCH_DATASET), 600}},
		.shown = {"none of 600 samples shared: ", "; fix: --align, or --share samples",
			"503 of 600 images"}},
	{.about = "some samples were shared: they come first",
		.samples = 300,
		.images = 97,
		.taken_samples = 300,
		.taken_images = 503,
		.passed = {{REASON(TORCH_DATASET), 300}},
		.shown = {"tsshim: 300 of 600 samples, 503 of 600 images taken",
			"; 300 samples not shared: the dataset"}},
	{.about = "other names for data that looks the same",
		.samples = 600,
		.images = 97,
		.passed = {{REASON(ALONE), 600}},
		.mode = ALIGNED,
		.others = NAMED_APART,
		.shown = {"nothing shared: the data sets (Photos) of jobs 4711 and 4733, side "
			  "by side "
			  "for 42 s, have other names: they differ in their code or what they "
			  "hold",
			"; fix: the same code", "`tsrun explain`"},
		.hidden = {"no other job", "made here first"}},
	{.about = "also where what was made for others was not taken",
		.samples = 600,
		.images = 97,
		.taken_images = 503,
		.passed = {{REASON(TORCH_YOUNG), 6}},
		.mode = ALIGNED,
		.others = NAMED_APART,
		.shown = {"none of 600 samples shared: the data sets (Photos)",
			"; 503 of 600 images taken from other jobs"},
		.hidden = {"just before or while"}},
	{.about = "names do not matter where samples could not be shared",
		.samples = 600,
		.passed = {{REASON(TORCH_YOUNG), 594}},
		.mode = ALIGNED,
		.others = NAMED_APART,
		.shown = {"just before or while"},
		.hidden = {"other names"}},
	{.about = "nor where some samples were taken: of another data set of both",
		.samples = 300,
		.taken_samples = 300,
		.mode = ALIGNED,
		.others = NAMED_APART,
		.shown = {"300 of 600 samples taken"},
		.hidden = {"other names"}},
	{.about = "other seeds",
		.samples = 10,
		.passed = {{REASON(ALONE), 10}},
		.others = DRAWN_APART,
		.shown = {"nothing shared: other jobs draw other random numbers for this data; "
			  "fix: "
			  "--align takes them from one seed in all jobs"},
		.hidden = {"no other job"}},
	{.about = "other seeds do not matter where samples are refused",
		.samples = 10,
		.passed = {{REASON(TORCH_DATASET), 10}},
		.others = DRAWN_APART,
		.shown = {"equality cannot be proven"},
		.hidden = {"random numbers"}},
	{.about = "images alone",
		.images = 10,
		.passed = {{REASON(ALONE), 4}, {REASON(NO_SPACE), 6}, {REASON(NESTED), 100}},
		.shown = {"nothing shared: not enough shared memory",
			"; fix: a larger /dev/shm or memory limit; `tsrun doctor` says which; "
			"`tsrun "
			"stats` tells more"}},
	{.about = "images that were made here first",
		.images = 10,
		.given_images = 20,
		.shown = {"none of 10 images taken from other jobs: made here first, and taken "
			  "by "
			  "others 20 times"}},
	{.about = "a lone job's own earlier work",
		.samples = 100,
		.taken_samples = 300,
		.own = 300,
		.shown = {"300 of 400 samples taken from what this job itself made before"},
		.hidden = {"other jobs"}},
	{.about = "some of it its own",
		.samples = 100,
		.taken_samples = 300,
		.own = 100,
		.shown = {"taken from other jobs and from what this job itself made before"}},
	{.about = "all of it from others",
		.samples = 100,
		.taken_samples = 300,
		.shown = {"taken from other jobs"},
		.hidden = {"itself"}},
	{.about = "an isolated interpreter",
		.passed = {{REASON(ALONE), 1000}, {REASON(TORCH_ISOLATED), 1}},
		.shown = {"nothing shared: Python was started with -I",
			"; fix: start Python without -I, -E and -S;"}},
	{.about = "an isolated interpreter whose images were shared",
		.images = 10,
		.taken_images = 10,
		.passed = {{REASON(TORCH_ISOLATED), 1}},
		.shown = {"10 of 20 images taken from other jobs; samples not shared: Python "
			  "was "
			  "started with -I"}},
	{.about = "what needs no remedy is told where it is the one",
		.samples = 100,
		.passed = {{REASON(TORCH_CHEAP), 100}},
		.shown = {"nothing shared: preparing a sample costs less than sharing it; "
			  "`tsrun"},
		.hidden = {"fix"}},
	{.about = "one that something helps against is worth a word from a tenth on",
		.samples = 111,
		.passed = {{REASON(TORCH_CHEAP), 100}, {REASON(TORCH_YOUNG), 11}},
		.shown = {"just before or while"}},
	{.about = "and not below",
		.samples = 110,
		.passed = {{REASON(TORCH_CHEAP), 100}, {REASON(TORCH_YOUNG), 10}},
		.hidden = {"just before or while"}},
	{.about = "copies of files that are too large are nothing to mend",
		.images = 10,
		.taken_images = 10,
		.files = 10,
		.passed = {{REASON(STAGE_LARGE), 10}},
		.shown = {"10 of 20 images"},
		.hidden = {"too large"}},
	{.about = "opens that could have been of copies",
		.images = 10,
		.taken_images = 10,
		.files = 10,
		.passed = {{REASON(STAGE_FULL), 10}},
		.shown = {"; 10 opens of files not shared: there is no room", "; fix: "}},
};

static void set_scene(const struct scene *scene)
{
	static const struct ts_apart apart = {.found = true,
		.mine = 4711,
		.other = 4733,
		.beside_ns = UINT64_C(42900000000),
		.parts = 1u << TS_APART_DATA,
		.name = "Photos"};

	begin();
	took(TS_KIND_SAMPLE, scene->taken_samples, scene->samples);
	took(TS_KIND_PIXELS, scene->taken_images, scene->images);
	took(TS_KIND_BYTES, 0, scene->files);
	sum.given[TS_KIND_SAMPLE] = scene->given_samples;
	sum.given[TS_KIND_PIXELS] = scene->given_images;
	sum.own = scene->own;
	for (size_t i = 0; i < TS_ARRAY_SIZE(scene->passed); i++)
		if (scene->passed[i].count > 0)
			sum.passed[scene->passed[i].reason] = scene->passed[i].count;
	sum.kept = scene->kept ? scene->kept + 1 : 0;
	sum.drawn_apart = scene->others == DRAWN_APART;
	if (scene->others == NAMED_APART)
		sum.apart = apart;
	if (scene->detail)
		strncpy(sum.detail, scene->detail, sizeof(sum.detail) - 1);
	config.align = scene->mode == ALIGNED;
	config.keep = scene->mode == KEPT ? 60 : 0;
}

Test(line_scenes, says_what_is_true_of_the_counts)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(scenes); i++) {
		const struct scene *scene = &scenes[i];
		set_scene(scene);
		(void)line();
		for (size_t k = 0; k < TS_ARRAY_SIZE(scene->shown) && scene->shown[k]; k++)
			cr_expect(strstr(text, scene->shown[k]) != NULL,
				"%s: '%s' is not in %s", scene->about, scene->shown[k], text);
		for (size_t k = 0; k < TS_ARRAY_SIZE(scene->hidden) && scene->hidden[k]; k++)
			cr_expect(strstr(text, scene->hidden[k]) == NULL, "%s: '%s' is in %s",
				scene->about, scene->hidden[k], text);
	}
}

/* How many were made of what @reason is about, so that a count of it is a part of that. */
static void make_for(enum ts_reason reason, uint64_t made)
{
	switch (ts_reason_about(reason)) {
	case TS_ABOUT_FILES:
		sum.made[TS_KIND_BYTES] = made;
		break;
	case TS_ABOUT_COPIES:
		sum.made[TS_KIND_DEVICE] = made;
		break;
	case TS_ABOUT_IMAGES:
		sum.made[TS_KIND_PIXELS] = made;
		break;
	default:
		sum.made[TS_KIND_SAMPLE] = made;
		break;
	}
}

/* Every reason is told where it is the one, with the fix of the mode; and in no look-alike. */
Test(line_scenes, each_reason_has_a_scene_and_a_look_alike)
{
	for (int i = 0; i < TS_REASON_COUNT; i++) {
		enum ts_reason reason = (enum ts_reason)i;
		const char *words = ts_reasons[i].text;
		for (int aligned = 0; aligned < 2; aligned++) {
			const char *fix = ts_reason_fix(reason, aligned);
			begin();
			config.align = aligned;
			make_for(reason, 100);
			sum.passed[i] = 100;
			(void)line();
			if (!ts_reasons[i].fix) {
				cr_expect(strstr(text, words) == NULL, "%s: %s",
					ts_reasons[i].id, text);
				continue;
			}
			cr_expect(
				strstr(text, words) != NULL, "%s: %s", ts_reasons[i].id, text);
			cr_expect(strstr(text, fix) != NULL, "%s: %s", ts_reasons[i].id, text);
			/* It has cost next to nothing of what was made. */
			if (ts_reason_about(reason) == TS_ABOUT_PROCESS ||
				reason == TS_REASON_ALONE)
				continue;
			sum.passed[i] = 9;
			cr_expect(strstr(line(), words) == NULL, "%s: %s", ts_reasons[i].id,
				text);
		}
	}
}

/* To say --align is no advice to a job that has it. */
Test(line_scenes, fixes_of_aligned_jobs_are_of_use_to_them)
{
	for (int i = 0; i < TS_REASON_COUNT; i++) {
		const char *fix = ts_reason_fix((enum ts_reason)i, true);
		const char *align = strstr(fix, "--align");
		bool is_against =
			align && align - fix >= 3 && strncmp(align - 3, "no ", 3) == 0;
		bool is_good = !align || is_against;
		cr_expect(is_good, "%s: %s", ts_reasons[i].id, fix);
		cr_expect(strstr(fix, "--share samples") == NULL, "%s: %s", ts_reasons[i].id,
			fix);
	}
}

Test(line_scenes, a_program_that_met_nothing_is_told_so)
{
	size_t length = ts_line_format_nothing(text, sizeof(text), &config);
	text[length] = '\0';
	cr_expect(
		strstr(text, "tsshim: nothing shared: met no batch of a PyTorch loader, and no "
			     "JPEG picture") == text);
	cr_expect(text[length - 1] == '\n');
	/* Nothing can be met where it is switched off. */
	config.share = TS_SHARE_OFF;
	text[ts_line_format_nothing(text, sizeof(text), &config)] = '\0';
	cr_expect(strstr(text, "sharing is switched off") != NULL, "%s", text);
	cr_expect(strstr(text, "met no batch") == NULL, "%s", text);
}

/* What differs between two names, each part by itself, and all together. */
Test(line_scenes, names_every_part_by_which_names_differ)
{
	for (unsigned part = 0; part < TS_APART_PART_COUNT; part++) {
		begin();
		took(TS_KIND_SAMPLE, 0, 10);
		sum.apart = (struct ts_apart){.found = true, .parts = 1u << part};
		(void)line();
		for (unsigned i = 0; i < TS_APART_PART_COUNT; i++) {
			bool is_there = strstr(text, ts_apart_texts[i].text) != NULL;
			cr_expect(is_there == (i == part), "%s", text);
			is_there = strstr(text, ts_apart_texts[i].fix) != NULL;
			cr_expect(is_there == (i == part), "%s", text);
		}
	}
	/* What exactly stands in the place of what is said in general, once. */
	begin();
	took(TS_KIND_SAMPLE, 0, 10);
	sum.apart = (struct ts_apart){.found = true,
		.parts = 1u << TS_APART_DATA | 1u << TS_APART_OPTIONS,
		.what = "opt.lr (1, 2)"};
	(void)line();
	cr_expect(strstr(text, "they differ in opt.lr (1, 2); fix: ") != NULL, "%s", text);
	cr_expect(strstr(text, "or --ignore for options") != NULL, "%s", text);
	cr_expect(eq(u32, ts_apart_parts(0, UINT64_MAX),
		((1u << TS_APART_PART_COUNT) - 1) & ~(1u << TS_APART_OPTIONS)));
	cr_expect(eq(u32, ts_apart_parts(0, UINT64_MAX << 12),
		((1u << TS_APART_PART_COUNT) - 1) & ~(1u << TS_APART_SEED)));
	cr_expect(eq(u32, ts_apart_parts(4711, 4711), 0));
	cr_expect(eq(u32, ts_apart_parts(0, 1), 1u << TS_APART_SEED));
	cr_expect(eq(u32, ts_apart_parts(0, UINT64_C(1) << 63), 1u << TS_APART_DATA));
}

/* The one line when what tsrun has started ends: its words, whose counts, and where it goes. */

/* ---- words ------------------------------------------------------------------------------ */

Test(line, says_what_was_taken_and_what_that_saved)
{
	took(TS_KIND_SAMPLE, 11459, 3614);
	sum.saved_ns = UINT64_C(43900000000);
	cr_expect(eq(str, line(),
		(char *)"tsshim: 11,459 of 15,073 samples taken from other jobs, 43 s of CPU "
			"saved; `tsrun stats` tells more\n"));
}

Test(line, has_every_kind_that_something_was_taken_of)
{
	took(TS_KIND_PIXELS, 999, 1);
	took(TS_KIND_SAMPLE, 1000000, 234567);
	took(TS_KIND_DEVICE, 5, 0);
	took(TS_KIND_BYTES, 30, 10);
	sum.saved_ns = UINT64_C(740000000);
	cr_expect(eq(str, line(),
		(char *)"tsshim: 1,000,000 of 1,234,567 samples, 999 of 1,000 images, 5 of 5 "
			"copies to a GPU taken from other jobs, 0.74 s of CPU saved, 30 opens "
			"of local copies of files; `tsrun stats` tells more\n"));
}

Test(line, files_save_no_CPU_time)
{
	took(TS_KIND_BYTES, 30, 10);
	cr_expect(eq(str, line(),
		(char *)"tsshim: 30 opens of local copies of files; `tsrun stats` tells "
			"more\n"));
}

Test(line, a_kept_ring_may_have_been_filled_by_the_job_itself)
{
	took(TS_KIND_PIXELS, 6, 0);
	config.keep = 60;
	cr_expect(eq(str, line(),
		(char *)"tsshim: 6 of 6 images taken from the kept ring; `tsrun stats` tells "
			"more\n"));
}

Test(line, names_the_group_for_who_looks_further)
{
	took(TS_KIND_PIXELS, 6, 0);
	cr_assert(eq(int, ts_config_set(&config, TS_OPTION_GROUP, "a"), 0));
	cr_expect(eq(str, line(),
		(char *)"tsshim: 6 of 6 images taken from other jobs; `tsrun stats --group a` "
			"tells more\n"));
}

Test(line, times_are_as_exact_as_it_is_of_use)
{
	static const struct {
		uint64_t ns;
		const char *shown;
	} cases[] = {
		{UINT64_C(10000000), ", 0.01 s of"},
		{UINT64_C(9999999999), ", 9.99 s of"},
		{UINT64_C(10000000000), ", 10 s of"},
		{UINT64_C(599000000000), ", 599 s of"},
		{UINT64_C(600000000000), ", 10 min of"},
		{UINT64_C(7199000000000), ", 119 min of"},
		{UINT64_C(13260000000000), ", 3 h 41 min of"},
	};

	took(TS_KIND_PIXELS, 1, 1);
	for (size_t i = 0; i < TS_ARRAY_SIZE(cases); i++) {
		sum.saved_ns = cases[i].ns;
		cr_expect(
			strstr(line(), cases[i].shown) != NULL, "%s %s", cases[i].shown, text);
	}
	/* What cannot be shown is not said to be nothing. */
	sum.saved_ns = 9999999;
	cr_expect(strstr(line(), "CPU") == NULL, "%s", text);
}

Test(line, says_nothing_of_a_program_that_had_nothing_to_share)
{
	cr_expect(eq(str, line(), (char *)""));
	/* Pixels of samples that are shared as a whole say nothing by themselves. */
	sum.passed[TS_REASON_NESTED] = 100;
	sum.passed[TS_REASON_VERIFY] = 1;
	sum.passed[TS_REASON_TORCH_AGAIN] = 1;
	cr_expect(eq(str, line(), (char *)""));
}

/* One write of less than a pipe takes at once, and its end is never cut off. */
Test(line, what_was_all_verified_was_there)
{
	sum.made[TS_KIND_SAMPLE] = 80;
	sum.passed[TS_REASON_VERIFY] = 80;
	sum.passed[TS_REASON_ALONE] = 80;
	cr_expect(eq(str, line(),
		(char *)"tsshim: 80 results of other jobs worked out again to compare "
			"(--verify); `tsrun stats` tells more\n"));
}

Test(line, the_longest_one_fits)
{
	cr_assert(eq(int,
		ts_config_set(&config, TS_OPTION_GROUP,
			"0123456789012345678901234567890123456789012345678901234567890123"),
		0));
	for (int reason = 0; reason < TS_REASON_COUNT; reason++) {
		begin();
		memset(config.group, 'g', TS_NAME_MAX);
		sum.passed[reason] = UINT64_MAX;
		size_t length = strlen(line());
		cr_expect(length == 0 || text[length - 1] == '\n', "%s", text);
		cr_expect(lt(sz, length, TS_LINE_BYTES - 1));
	}
	begin();
	memset(config.group, 'g', TS_NAME_MAX);
	for (int kind = 0; kind < TS_KIND_COUNT; kind++)
		took((enum ts_kind)kind, UINT64_MAX / 2, UINT64_MAX / 2);
	sum.saved_ns = UINT64_MAX;
	sum.own = 1;
	sum.passed[TS_REASON_TORCH_DATASET] = UINT64_MAX;
	memset(sum.detail, 'd', sizeof(sum.detail) - 1);
	size_t length = strlen(line());
	cr_expect(text[length - 1] == '\n', "%s", text);
	cr_expect(lt(sz, length, TS_LINE_BYTES - 1));
}

/* ---- whose counts ----------------------------------------------------------------------- */

static struct ts_ledger *book;

static void make_book(void)
{
	begin();
	book = mmap(NULL, TS_LEDGER_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		-1, 0);
	cr_assert(book != MAP_FAILED);
}

TestSuite(launch, .init = make_book);

/* Job @id in row @index, with @taken images, from @launch. */
static void job(uint32_t index, uint64_t id, uint64_t launch, uint64_t taken)
{
	ts_write_relaxed(&ts_ledger_job(book, index)->id, id);
	ts_write_relaxed(&ts_ledger_job(book, index)->kinds[TS_KIND_PIXELS].shared, taken);
	ts_ledger_set_launch(book, index, launch);
}

Test(launch, jobs_of_one_tsrun_are_added_up)
{
	job(0, 7, 7, 1);
	job(1, 8, 7, 10);
	job(2, 9, 0, 100);
	job(3, 10, 11, 1000);
	ts_line_add_jobs(&sum, book, 7, 0);
	cr_expect(eq(u64, sum.taken[TS_KIND_PIXELS], 11));
	begin();
	ts_line_add_jobs(&sum, book, 7, 8);
	cr_expect(eq(u64, sum.taken[TS_KIND_PIXELS], 10));
	begin();
	ts_line_add_jobs(&sum, book, 12, 0);
	cr_expect(eq(u64, sum.taken[TS_KIND_PIXELS], 0));
}

/* As an older tsshim would, which shares the group and knows nothing of that word. */
Test(launch, a_row_that_went_to_another_job_is_of_nobody)
{
	job(0, 8, 7, 10);
	ts_write_relaxed(&ts_ledger_job(book, 0)->id, 9);
	cr_expect(not(ts_ledger_is_of_launch(book, 0, 7)));
	cr_expect(not(ts_ledger_is_of_launch(book, 1, 7)));
	ts_ledger_set_launch(book, TS_JOB_MAX, 7);
	ts_ledger_set_launch(book, 0, 0);
	cr_expect(not(ts_ledger_is_of_launch(book, 0, 7)));
	/* Who tsrun has become is its own. */
	cr_expect(ts_ledger_is_of_launch(book, 0, 9));
}

Test(launch, a_new_job_in_an_old_row_is_of_no_tsrun)
{
	for (uint32_t i = 0; i < TS_JOB_MAX; i++)
		job(i, 1 + i, 7, 1); /* of pids that have another start time */
	int mine = ts_ledger_find_job(book, ts_identity_self());
	cr_assert(ge(int, mine, 0));
	cr_expect(eq(u64, ts_ledger_launch_row(book, (uint32_t)mine)->launch_xor_id, 0));
}

Test(launch, a_row_is_of_its_own_batch_job_only)
{
	job(0, 7, 7, 1);
	job(1, 8, 7, 1);
	ts_ledger_set_batch(book, 0, 4711);
	cr_expect(ts_ledger_is_of_batch(book, 0, 4711));
	cr_expect(not(ts_ledger_is_of_batch(book, 0, 4712)));
	cr_expect(not(ts_ledger_is_of_batch(book, 1, 4711)));
	/* The process that has the row now is another one. */
	ts_write_relaxed(&ts_ledger_job(book, 0)->id, 9);
	cr_expect(not(ts_ledger_is_of_batch(book, 0, 4711)));
	ts_ledger_set_batch(book, 0, 4711);
	ts_ledger_set_batch(book, TS_JOB_MAX, 4711);
	cr_expect(ts_ledger_is_of_batch(book, 0, 4711));
	ts_ledger_set_batch(book, 0, 0);
	cr_expect(not(ts_ledger_is_of_batch(book, 0, 4711)));
	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		job(i, 1 + i, 7, 1); /* of pids that have another start time */
		ts_ledger_set_batch(book, i, 4711);
	}
	int mine = ts_ledger_find_job(book, ts_identity_self());
	cr_assert(ge(int, mine, 0));
	cr_expect(not(ts_ledger_is_of_batch(book, (uint32_t)mine, 4711)));
}

Test(launch, a_living_job_with_the_same_data_is_a_twin)
{
	job(0, 7, 7, 0);
	job(1, ts_identity_self(), 0, 0);
	ts_write_relaxed(&ts_ledger_job(book, 0)->ended, UINT64_MAX); /* it is still there */
	ts_ledger_add_drawn(book, 0, 4711, 10, 10);
	ts_line_add_jobs(&sum, book, 7, 0);
	cr_expect(not(sum.drawn_apart));
	ts_ledger_add_drawn(book, 1, 4711, 10, 10);
	ts_line_add_jobs(&sum, book, 7, 0);
	cr_expect(sum.drawn_apart);
	begin();
	ts_write_relaxed(&ts_ledger_job(book, 1)->id, 1);
	ts_line_add_jobs(&sum, book, 7, 0);
	cr_expect(not(sum.drawn_apart), "it is dead, and nobody knows since when");
	begin();
	/* Of a process that is gone, whose id says that it began with the machine. */
	ts_write_relaxed(&ts_ledger_job(book, 1)->ended, ts_meeting_now_ns());
	ts_line_add_jobs(&sum, book, 7, 0);
	cr_expect(sum.drawn_apart, "it was there when this one ran");
}

/* ---- where it goes ---------------------------------------------------------------------- */

TestSuite(descriptor, .init = begin);

static struct ts_line_place place_of(int fd)
{
	struct stat found;
	cr_assert(eq(int, fstat(fd, &found), 0));
	return (struct ts_line_place){
		.launch = 1, .device = found.st_dev, .inode = found.st_ino};
}

#define WORDS  "words\n"
#define LENGTH (sizeof(WORDS) - 1)

Test(descriptor, takes_the_line)
{
	int end = fixture_catch_stderr();
	struct ts_line_place place = place_of(2);
	cr_expect(eq(int, ts_line_write(&place, WORDS, LENGTH), 0));
	cr_expect(eq(int, fixture_lines(end), 1));
}

Test(descriptor, of_something_else_is_left_alone)
{
	int end = fixture_catch_stderr();
	struct ts_line_place place = place_of(2);
	int other = fixture_catch_stderr();
	cr_expect(eq(int, ts_line_write(&place, WORDS, LENGTH), -EBADF));
	close(2);
	cr_expect(eq(int, ts_line_write(&place, WORDS, LENGTH), -EBADF));
	cr_expect(eq(int, fixture_lines(end), 0));
	cr_expect(eq(int, fixture_lines(other), 0));
}

Test(descriptor, that_is_full_is_not_waited_for)
{
	int ends[2];
	cr_assert(eq(int, pipe(ends), 0));
	dup2(ends[1], 2);
	cr_assert(eq(int, fcntl(2, F_SETFL, O_NONBLOCK), 0));
	while (write(2, text, sizeof(text)) > 0)
		;
	cr_assert(eq(int, fcntl(2, F_SETFL, 0), 0));
	struct ts_line_place place = place_of(2);
	cr_expect(eq(int, ts_line_write(&place, WORDS, LENGTH), -EAGAIN));
}

Test(descriptor, that_nobody_reads_brings_no_signal)
{
	struct ts_line_place place;
	close(fixture_catch_stderr());
	place = place_of(2);
	cr_expect(eq(int, ts_line_write(&place, WORDS, LENGTH), -EAGAIN));
}

Test(descriptor, of_a_full_disk_is_an_error)
{
	int full = open("/dev/full", O_WRONLY);
	dup2(full, 2);
	struct ts_line_place place = place_of(2);
	errno = 4711;
	cr_expect(eq(int, ts_line_write(&place, WORDS, LENGTH), -ENOSPC));
	cr_expect(eq(int, errno, 4711));
}

/* SIGXFSZ would end the process with another status; one of its own stays what it was. */
Test(descriptor, of_a_file_at_its_limit_brings_no_signal)
{
	struct rlimit none = {0, 0};
	sigset_t set, pending;
	FILE *file = tmpfile();
	cr_assert(file != NULL);
	dup2(fileno(file), 2);
	struct ts_line_place place = place_of(2);
	cr_assert(eq(int, setrlimit(RLIMIT_FSIZE, &none), 0));
	cr_expect(eq(int, ts_line_write(&place, WORDS, LENGTH), -EFBIG));
	sigpending(&pending);
	cr_expect(not(sigismember(&pending, SIGXFSZ)));
	sigemptyset(&set);
	sigaddset(&set, SIGXFSZ);
	sigprocmask(SIG_BLOCK, &set, NULL);
	raise(SIGXFSZ);
	cr_expect(eq(int, ts_line_write(&place, WORDS, LENGTH), -EFBIG));
	sigpending(&pending);
	cr_expect(sigismember(&pending, SIGXFSZ));
	sigprocmask(SIG_BLOCK, NULL, &set);
	cr_expect(sigismember(&set, SIGXFSZ));
	cr_expect(not(sigismember(&set, SIGPIPE)));
}
