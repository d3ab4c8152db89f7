/* SPDX-License-Identifier: MIT */
/* Settings as the environment gives them: which names are ours, and what mistyped ones meant.
 */
#include "fixture.h"

#include "shim/config.h"

static struct ts_config config;

TestSuite(environment);

/* ---- reading it ------------------------------------------------------------------------- */

static char complaints[1024];

static void complain(
	enum ts_option option, const char *name, const char *value, const char *suggestion)
{
	size_t length = strlen(complaints);

	snprintf(complaints + length, sizeof(complaints) - length, "%s %s %s %s\n",
		option == TS_OPTION_COUNT ? "unknown" : "bad", name, value,
		suggestion ? suggestion : "-");
}

static void load(const char *const *env,
	void (*report)(enum ts_option, const char *, const char *, const char *))
{
	ts_config_load(&config, (char *const *)(uintptr_t)env, report);
}

static void expect_complaints(const char *const *env, const char *expected)
{
	complaints[0] = '\0';
	load(env, complain);
	cr_expect(eq(str, complaints, (char *)expected));
}

Test(environment, an_empty_environment_gives_defaults)
{
	const char *env[] = {NULL};
	struct ts_config standard;

	ts_config_init(&standard);
	expect_complaints(env, "");
	cr_expect(memcmp(&config, &standard, sizeof(config)) == 0);
	expect_complaints(NULL, "");
	cr_expect(memcmp(&config, &standard, sizeof(config)) == 0);
}

Test(environment, the_batch_job_is_known_by_its_name)
{
	const char *slurm[] = {"JOB_ID=1", "PBS_JOBID=1.server", "SLURM_JOB_ID=4711", NULL};
	const char *pbs[] = {"JOB_ID=1", "PBS_JOBID=4711.server", "SLURM_JOB_IDS=1", NULL};
	const char *grid[] = {"A=1", "JOB_ID=4711", NULL};
	const char *none[] = {"SLURM_JOB_ID=", "SLURM_JOB_ID", "MY_JOB_ID=4711", NULL};

	load(slurm, NULL);
	cr_expect(eq(u64, config.batch, ts_config_batch("4711")));
	load(pbs, NULL);
	cr_expect(eq(u64, config.batch, ts_config_batch("4711.server")));
	cr_expect(ne(u64, ts_config_batch("4711"), ts_config_batch("4711.server")));
	load(grid, NULL);
	cr_expect(eq(u64, config.batch, ts_config_batch("4711")));
	load(none, NULL);
	cr_expect(eq(u64, config.batch, 0));
}

Test(environment, only_our_names_are_looked_at)
{
	const char *env[] = {"TSSHIM_GROUP=mine", "GROUP=other", "TSSHIM_RING",
		"XTSSHIM_GROUP=x", "TSSHIM=1", "=", "", "TSSHIM_TEST_ANY=1",
		"TSSHIM_BENCH_ANY=1", "TSSHIM_SLURM=array", NULL};

	expect_complaints(env, "");
	cr_expect(eq(str, config.group, (char *)"mine"));
	cr_expect(eq(u64, config.ring_bytes, TS_RING_AUTO));
}

Test(environment, bad_values_are_reported_and_the_default_is_used)
{
	const char *env[] = {"TSSHIM_RING=lots", "TSSHIM_VERIFY=100", "TSSHIM_SUMARY=1", NULL};

	expect_complaints(env, "bad TSSHIM_RING lots -\n"
			       "unknown TSSHIM_SUMARY 1 TSSHIM_SUMMARY\n");
	cr_expect(eq(u64, config.ring_bytes, TS_RING_AUTO));
	cr_expect(eq(u32, config.verify_ppm, 1000000));
	load(env, NULL);
	cr_expect(eq(u32, config.verify_ppm, 1000000));
}

Test(environment, of_two_the_first_counts_as_for_getenv)
{
	const char *env[] = {"TSSHIM_GROUP=one", "TSSHIM_GROUP=two", "TSSHIM_RING=bad",
		"TSSHIM_RING=1M", NULL};

	expect_complaints(env, "bad TSSHIM_RING bad -\n");
	cr_expect(eq(str, config.group, (char *)"one"));
	cr_expect(eq(u64, config.ring_bytes, TS_RING_AUTO));
}

Test(environment, long_unknown_names_are_reported_cut)
{
	const char *env[] = {
		"TSSHIM_0123456789012345678901234567890123456789012345678901234567890=x", NULL};

	expect_complaints(env,
		"unknown TSSHIM_01234567890123456789012345678901234567890123456789012345 "
		"x -\n");
}

/* ---- typing mistakes -------------------------------------------------------------------- */

static const char *const variables[] = {
#define TS_OPTION(name, ...) "TSSHIM_" #name,
#include "shim/options.def"
	NULL};
static const char *const commands[] = {"stats", "status", "top", "gc", "config", NULL};
static const char *const flags[] = {"--group", "--ring", "--verify", NULL};
static const char *const single[] = {"stats", NULL};
static const char too_long_name[] =
	"01234567890123456789012345678901234567890123456789012345678901234";

static const struct {
	const char *word;
	const char *const *candidates;
	const char *nearest;
} words[] = {
	{"TSSHIM_GROP", variables, "TSSHIM_GROUP"},
	{"TSSHIM_RNIG", variables, "TSSHIM_RING"},
	{"TSSHIM_DATASETS", variables, "TSSHIM_DATASET"},
	{"TSSHIM_VERFIY", variables, "TSSHIM_VERIFY"},
	{"TSSHIM_FOO", variables, NULL},
	{"TSSHIM_SIZE", variables, NULL},
	{"TSSHIM_X", variables, NULL},
	{"TSSHIM_", variables, NULL},
	{"stat", commands, "stats"},
	{"sttaus", commands, "status"},
	{"tp", commands, "top"},
	{"cg", commands, "gc"},
	{"x", commands, NULL},
	{"", commands, NULL},
	{"doctor", commands, NULL},
	{"--rnig", flags, "--ring"},
	{"--x", flags, NULL},
	{"statz", single, "stats"},
	{"stats", single, "stats"},
	{too_long_name, commands, NULL},
};

Test(environment, only_typing_mistakes_have_a_nearest_word)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(words); i++) {
		const char *found = ts_config_nearest(words[i].word, words[i].candidates);
		const char *expected = words[i].nearest;
		cr_expect(eq(str, (char *)(found ? found : "nothing"),
				  (char *)(expected ? expected : "nothing")),
			"'%s'", words[i].word);
	}
}

/* ---- this process ----------------------------------------------------------------------- */

Test(environment, this_process_reads_its_environment_once)
{
	setenv("TSSHIM_GROUP", "first", 1);
	const struct ts_config *mine = ts_config();
	cr_expect(eq(str, (char *)mine->group, (char *)"first"));
	setenv("TSSHIM_GROUP", "second", 1);
	cr_expect(eq(ptr, (void *)ts_config(), (void *)mine));
	cr_expect(eq(str, (char *)mine->group, (char *)"first"));
}

/* As programs do that give themselves a title: setproctitle, Perl's and Ruby's $0. */
Test(environment, directories_survive_the_environment)
{
	setenv("TSSHIM_DATASET", "photos=/data/photos", 1);
	setenv("TSSHIM_STAGE", "/fast", 1);
	const struct ts_config *mine = ts_config();
	memset(getenv("TSSHIM_DATASET"), 0, strlen("photos=/data/photos"));
	memset(getenv("TSSHIM_STAGE"), 'x', strlen("/fast"));
	cr_expect(eq(str, (char *)mine->dataset_dir, (char *)"/data/photos"));
	cr_expect(eq(str, (char *)mine->stage_dir, (char *)"/fast"));
}
