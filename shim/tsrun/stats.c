/* SPDX-License-Identifier: MIT */
/*
 * tsrun stats: look at a group, and print what it did, into a file where one is named; or add
 * up what a batch job did in all groups.
 */
#include "leader/line/line.h"
#include "shim/atomic.h"
#include "shim/tsrun/commands.h"
#include "shim/tsrun/json.h"
#include "shim/tsrun/message.h"
#include "shim/tsrun/names.h"
#include "shim/tsrun/proof.h"
#include "shim/tsrun/report.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Print to @fd, or give back why it is none, and close it. */
static int print_to(const struct ts_report *report, enum ts_report_form form, int fd)
{
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");

	if (!out) {
		int r = -errno;
		if (fd >= 0)
			(void)close(fd);
		return r;
	}
	errno = 0;
	ts_report_print(report, form, out);
	bool failed = ferror(out) != 0;
	if (fclose(out) != 0 || failed)
		return errno != 0 ? -errno : -EIO;
	return 0;
}

/*
 * Whom @fd, a new file, belongs to and who may read it: as with @old, whose place it takes, or
 * where that is NULL as a shell's redirection makes one, for node_exporter is to read it.
 */
static void set_mode(int fd, const struct stat *old)
{
	mode_t mask = umask(0);

	(void)umask(mask);
	/* Only root can give files away. The mode comes last: a new owner takes bits of it. */
	if (old)
		(void)fchown(fd, old->st_uid, old->st_gid);
	(void)fchmod(fd, old ? old->st_mode & 0777 : 0666 & ~mask);
}

/* A new file beside @path takes its place, that of @old or of none, when it is complete. */
static int replace(const struct ts_report *report, enum ts_report_form form, const char *path,
	const struct stat *old)
{
	char beside[PATH_MAX];

	if (snprintf(beside, sizeof(beside), "%s.XXXXXX", path) >= (int)sizeof(beside))
		return -ENAMETOOLONG;
	int fd = mkostemp(beside, O_CLOEXEC);
	if (fd < 0)
		return -errno;
	set_mode(fd, old);
	int r = print_to(report, form, fd);
	if (r == 0 && rename(beside, path) < 0)
		r = -errno;
	if (r < 0)
		(void)unlink(beside);
	return r;
}

static int print_file(
	const struct ts_report *report, enum ts_report_form form, const char *file)
{
	char path[PATH_MAX];
	struct stat st;

	if (stat(file, &st) == 0) {
		/* A device or a pipe, perhaps /dev/stdout, must not be replaced. */
		if (!S_ISREG(st.st_mode))
			return print_to(
				report, form, open(file, O_WRONLY | O_CLOEXEC | O_NOCTTY));
		/* Where a link leads is meant, not the link. */
		return realpath(file, path) ? replace(report, form, path, &st) : -errno;
	}
	if (errno != ENOENT)
		return -errno;
	if (lstat(file, &st) == 0) /* a link to what is not there yet */
		return print_to(report, form,
			open(file, O_WRONLY | O_CREAT | O_CLOEXEC | O_NOCTTY, 0666));
	return replace(report, form, file, NULL);
}

static void say_error(const char *group, const char *part, int error)
{
	ts_message_say("cannot read %s of group '%s': %s", part, group, ts_view_explain(error));
	if (error == -EBADMSG || error == -EPROTO || error == -ESTALE)
		ts_message_hint("`tsrun gc --group %s` removes it when nobody uses it", group);
}

static int print_group(
	struct ts_sample_group *group, enum ts_report_form form, const char *file)
{
	int r = 0;

	if (group->error < 0)
		say_error(group->name, group->part, group->error);
	/* The counters are worth printing without what else could not be read. */
	if (group->error < 0 && !group->report.ledger)
		return group->error;
	group->report.elsewhere = ts_names_elsewhere(group->name);
	if (file)
		r = print_file(&group->report, form, file);
	else
		ts_report_print(&group->report, form, stdout);
	if (!file && (form == TS_REPORT_TEXT || form == TS_REPORT_VERBOSE))
		ts_proof_print(stdout);
	if (r < 0)
		ts_message_say("cannot write to '%s': %s", file, strerror(-r));
	return r < 0 ? r : group->error;
}

static int print_stats(const char *group, enum ts_report_form form, const char *file)
{
	struct ts_sample sample = {.groups = NULL};

	/* A limit for files is an error like a full disk, and leaves no half of a file behind.
	 */
	(void)signal(SIGXFSZ, SIG_IGN);
	int r = ts_sample_take(group, &sample);
	if (r < 0) {
		say_error(group, "the counters", r);
		return TS_EXIT_FAILED;
	}
	r = print_group(&sample.groups[0], form, file);
	ts_sample_finish(&sample);
	return r < 0 ? TS_EXIT_FAILED : 0;
}

/* ---- a batch job ------------------------------------------------------------------------ */

/* Add the programs of @batch that @ledger knows to @sum; returns how many these are. */
static uint64_t add_programs(struct ts_line_sum *sum, struct ts_ledger *ledger, uint64_t batch)
{
	uint64_t programs = 0;

	for (uint32_t i = 0; ledger && i < TS_JOB_MAX; i++) {
		if (!ts_ledger_is_of_batch(ledger, i, batch))
			continue;
		uint64_t id = ts_load_relaxed(&ts_ledger_job(ledger, i)->id);
		ts_line_add_jobs(sum, ledger, id, id);
		programs++;
	}
	return programs;
}

/* In one line: the epilog of Slurm compares it with a pattern (scripts/slurm/epilog). */
static void print_batch_json(const struct ts_line_sum *sum, uint64_t programs)
{
	static const char *const names[TS_KIND_COUNT] = {
		[TS_KIND_SAMPLE] = "samples",
		[TS_KIND_PIXELS] = "images",
		[TS_KIND_BYTES] = "files",
		[TS_KIND_DEVICE] = "copies",
	};
	struct ts_json json = {.out = stdout, .is_flat = true};

	ts_json_open(&json, NULL, '{');
	ts_json_number(&json, "programs", programs);
	for (int kind = 0; kind < TS_KIND_COUNT; kind++) {
		ts_json_open(&json, names[kind], '{');
		ts_json_number(&json, "made", sum->made[kind]);
		ts_json_number(&json, "taken", sum->taken[kind]);
		if (kind == TS_KIND_SAMPLE || kind == TS_KIND_PIXELS)
			ts_json_number(&json, "given", sum->given[kind]);
		ts_json_close(&json, '}');
	}
	ts_json_seconds(&json, "saved_seconds", sum->saved_ns);
	ts_json_close(&json, '}');
}

static int print_batch(const char *job, const struct ts_config *config, bool is_json)
{
	struct ts_sample sample = {.groups = NULL};
	struct ts_line_sum sum = {.saved_ns = 0};
	char text[TS_LINE_BYTES];
	uint64_t programs = 0;

	int r = ts_sample_take(NULL, &sample);
	if (r < 0) {
		ts_message_say("cannot list the shared memory: %s", strerror(-r));
		return TS_EXIT_FAILED;
	}
	for (uint32_t i = 0; i < sample.count; i++)
		programs += add_programs(
			&sum, sample.groups[i].report.ledger, ts_config_batch(job));
	ts_sample_finish(&sample);
	if (is_json) {
		print_batch_json(&sum, programs);
		return 0;
	}
	size_t length = programs > 0 ? ts_line_format(text, sizeof(text), &sum, config) : 0;
	if (length > 0)
		(void)fwrite(text, 1, length, stdout);
	else
		printf("tsshim: batch job %s has counted nothing on this node\n", job);
	return 0;
}

/* ---- the command ------------------------------------------------------------------------ */

/* Options that make no sense together; a message says which. */
static int check_options(const bool *flag, const char *file, bool is_of_batch)
{
	const char *other = flag[TS_FLAG_JSON]      ? "--json"
			    : flag[TS_FLAG_VERBOSE] ? "--verbose"
						    : NULL;

	if (flag[TS_FLAG_PROMETHEUS] && other) {
		ts_message_say("%s and --prometheus exclude each other", other);
		return -EINVAL;
	}
	if (flag[TS_FLAG_JSON] && flag[TS_FLAG_VERBOSE]) {
		ts_message_say("--verbose and --json exclude each other");
		ts_message_hint("--json has every counter as it is");
		return -EINVAL;
	}
	if (is_of_batch && (file || flag[TS_FLAG_PROMETHEUS] || flag[TS_FLAG_VERBOSE])) {
		ts_message_say("--batch-job goes with --json only");
		return -EINVAL;
	}
	if (file && file[0] == '\0') {
		ts_message_say("--output needs the name of a file");
		return -EINVAL;
	}
	return 0;
}

int ts_stats_command(const struct ts_arguments *arguments, const struct ts_config *config)
{
	const bool *flag = arguments->flag;
	const char *file = arguments->value[TS_FLAG_OUTPUT];
	const char *job = arguments->value[TS_FLAG_BATCH_JOB];

	if (check_options(flag, file, job != NULL) < 0)
		return TS_EXIT_FAILED;
	if (job)
		return print_batch(job, config, flag[TS_FLAG_JSON]);
	return print_stats(config->group,
		flag[TS_FLAG_PROMETHEUS] ? TS_REPORT_PROMETHEUS
		: flag[TS_FLAG_JSON]     ? TS_REPORT_JSON
		: flag[TS_FLAG_VERBOSE]  ? TS_REPORT_VERBOSE
					 : TS_REPORT_TEXT,
		file);
}
