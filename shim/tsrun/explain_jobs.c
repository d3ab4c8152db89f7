/* SPDX-License-Identifier: MIT */
/* tsrun explain of jobs that run: whose they are, and what they have said. */
#include "shim/tsrun/explain.h"
#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/sys.h"
#include "shim/tsrun/library.h"
#include "shim/tsrun/commands.h"
#include "shim/tsrun/message.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- which libjpeg a process has --------------------------------------------------------- */

static const char *base_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash ? slash + 1 : path;
}

static bool begins(const char *text, const char *start)
{
	return strncmp(text, start, strlen(start)) == 0;
}

/*
 * A wheel has its copy under a name of its own: libjpeg-1b553e2d.so.62.4.0.  The plain names
 * are followed by ".so".
 */
static bool is_libjpeg(const char *path)
{
	const char *name = base_of(path);

	return begins(name, "libjpeg.") || begins(name, "libjpeg-") ||
	       begins(name, "libturbojpeg.") || begins(name, "libturbojpeg-");
}

/* To look into each library takes seconds; these are the ones that people use. */
static bool may_have_one(const char *path)
{
	static const char *const names[] = {"cv2.", "libtensorflow", "libdali",
		"_pywrap_tensorflow", "libopencv_imgcodecs", "libopencv_world", "_imaging.",
		"libffcv"};

	for (size_t i = 0; i < TS_ARRAY_SIZE(names); i++)
		if (begins(base_of(path), names[i]))
			return true;
	return false;
}

static bool has(char (*list)[PATH_MAX], uint32_t count, const char *path)
{
	for (uint32_t i = 0; i < count; i++)
		if (strcmp(list[i], path) == 0)
			return true;
	return false;
}

static void add_path(char (*list)[PATH_MAX], uint32_t *count, const char *path)
{
	if (*count < TS_DECODERS_MAX && !has(list, *count, path))
		(void)snprintf(list[(*count)++], PATH_MAX, "%s", path);
}

static void look_at(const char *path, struct ts_decoders *decoders)
{
	struct ts_inspection inspection = {.decoder = false};

	if (begins(base_of(path), "libtsshim"))
		decoders->preloaded = true;
	else if (is_libjpeg(path))
		add_path(decoders->shared, &decoders->shared_count, path);
	else if (may_have_one(path) && !has(decoders->inside, decoders->static_count, path) &&
		 ts_library_inspect(path, &inspection) == 0 && inspection.decoder)
		add_path(decoders->inside, &decoders->static_count, path);
}

/* Look at process @pid, which does not notice.  What cannot be read is not known. */
static void find_decoders(int pid, struct ts_decoders *ret_decoders)
{
	char path[64], last[PATH_MAX] = "";
	char *line = NULL;
	size_t room = 0;

	memset(ret_decoders, 0, sizeof(*ret_decoders));
	(void)snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	FILE *maps = fopen(path, "re");
	if (!maps)
		return;
	while (getline(&line, &room, maps) >= 0) {
		ret_decoders->known = true;
		char *file = strchr(line, '/');
		if (!file)
			continue;
		file[strcspn(file, "\n")] = '\0';
		/* Each library is there some five times in a row. */
		if (strcmp(file, last) == 0 || strlen(file) >= sizeof(last))
			continue;
		memcpy(last, file, strlen(file) + 1);
		look_at(file, ret_decoders);
	}
	free(line);
	(void)fclose(maps);
}

/* ---- the jobs ---------------------------------------------------------------------------- */

/* Where the printing of several jobs has come to. */
struct printing {
	struct ts_json json;
	bool is_json;
	int pid; /* of the only one; 0: all */
	uint32_t printed;
};

/* The words of process @pid, with blanks between; cut. */
static void read_command(int pid, char ret_command[TS_EXPLAIN_COMMAND])
{
	char path[64];

	(void)snprintf(path, sizeof(path), "/proc/%d/cmdline", pid);
	int bytes = ts_sys_read_file(path, ret_command, TS_EXPLAIN_COMMAND);
	if (bytes < 0)
		bytes = 0;
	while (bytes > 0 && ret_command[bytes - 1] == '\0')
		bytes--;
	for (int i = 0; i < bytes; i++)
		if (ret_command[i] == '\0')
			ret_command[i] = ' ';
	ret_command[bytes] = '\0';
}

/* The table of @group's loaders, mapped; NULL where there is none, or none that can be read. */
static struct ts_loaders *open_table(const char *group)
{
	char path[TS_PATH_BYTES];
	struct ts_loaders *loaders = NULL;
	struct stat st;
	int fd;

	int r = ts_object_path(path, sizeof(path), group, "loaders");
	if (r == 0)
		r = ts_view_open(path, false, &fd, &st);
	if (r == -ENOENT)
		return NULL;
	if (r == 0) {
		r = ts_view_loaders(fd, &loaders);
		(void)close(fd);
	}
	if (r < 0)
		ts_message_say(
			"cannot read what the jobs of group '%s' say of their loaders: %s",
			group, ts_view_explain(r));
	return r < 0 ? NULL : loaders;
}

static void read_loaders(struct ts_loaders *table, struct ts_explain_job *job)
{
	job->has_table = table != NULL;
	job->count = job->more = 0;
	for (uint32_t i = 0; table && i < TS_LOADER_MAX; i++)
		if (ts_loaders_read(table, job->row, job->id, i, &job->loaders[job->count]))
			job->count++;
	if (table)
		job->more = ts_loaders_more(table, job->row, job->id);
}

static void print_job(struct printing *printing, const struct ts_sample_group *group,
	struct ts_loaders *table, uint32_t row)
{
	static struct ts_explain_job job; /* too large for a stack frame */

	job.group = group->name;
	job.ledger = group->report.ledger;
	job.row = row;
	job.id = ts_load_relaxed(&ts_ledger_job(job.ledger, row)->id);
	int pid = (int)TS_PROCESS_PID(job.id);
	read_command(pid, job.command);
	find_decoders(pid, &job.decoders);
	read_loaders(table, &job);
	job.apart = (struct ts_apart){.found = false};
	if (table)
		ts_apart_find(job.ledger, table, row, &job.apart);
	if (printing->is_json)
		ts_explain_write(&printing->json, &job);
	else {
		if (printing->printed > 0)
			putchar('\n');
		ts_explain_print(&job);
	}
	printing->printed++;
}

/* Whether process @pid is the job @id or works for it. */
static bool is_of(const struct ts_report *report, uint64_t id, int pid)
{
	if (TS_PROCESS_PID(id) == pid)
		return true;
	for (uint32_t i = 0; i < report->ring.member_count; i++)
		if (report->ring.members[i].pid == pid && report->ring.members[i].live &&
			report->ring.members[i].job == id)
			return true;
	return false;
}

static void print_group(struct printing *printing, const struct ts_sample_group *group)
{
	struct ts_loaders *table = NULL;
	bool is_open = false;

	if (group->error < 0)
		ts_message_say("cannot read all of group '%s': %s", group->name,
			ts_view_explain(group->error));
	for (uint32_t i = 0; group->report.ledger && i < TS_JOB_MAX; i++) {
		uint64_t id = ts_load_relaxed(&ts_ledger_job(group->report.ledger, i)->id);
		if (!group->alive[i] ||
			(printing->pid != 0 && !is_of(&group->report, id, printing->pid)))
			continue;
		if (!is_open)
			table = open_table(group->name);
		is_open = true;
		print_job(printing, group, table, i);
	}
	if (table)
		(void)munmap(table, sizeof(*table));
}

/* Why there is nothing to be said of process @pid. */
static int report_missing(int pid)
{
	struct ts_decoders decoders;

	if (ts_process_id(pid, false) == 0) {
		ts_message_say("there is no process %d", pid);
		return TS_EXIT_FAILED;
	}
	find_decoders(pid, &decoders);
	ts_message_say("process %d is no job of a group of yours%s", pid,
		!decoders.known      ? ""
		: decoders.preloaded ? ": it has the library, and has shared nothing so far"
				     : ": it was started without the library");
	if (decoders.known && !decoders.preloaded)
		ts_message_hint("start it with `tsrun -- COMMAND`; `tsrun doctor -- COMMAND` "
				"checks the command before it runs");
	else
		ts_message_hint(
			"`tsrun explain` alone shows all jobs, `tsrun doctor` what is in "
			"the way of sharing");
	return TS_EXIT_FAILED;
}

/*
 * Print what the running jobs of @group, or of all groups of the user when it is NULL, have
 * said of their loaders; with @pid (not 0) only the job that this process is, or works for.
 */
static int explain_jobs(const char *group, int pid, bool is_json)
{
	struct printing printing = {.json = {.out = stdout}, .is_json = is_json, .pid = pid};
	struct ts_sample sample = {.groups = NULL};

	int r = ts_sample_take(group, &sample);
	if (r < 0) {
		ts_message_say("cannot list the shared memory: %s", strerror(-r));
		return TS_EXIT_FAILED;
	}
	if (is_json) {
		ts_json_open(&printing.json, NULL, '{');
		ts_json_open(&printing.json, "jobs", '[');
	}
	for (uint32_t i = 0; i < sample.count; i++)
		print_group(&printing, &sample.groups[i]);
	if (is_json) {
		ts_json_close(&printing.json, ']');
		ts_json_close(&printing.json, '}');
	}
	ts_sample_finish(&sample);
	if (printing.printed > 0)
		return 0;
	if (pid != 0)
		return report_missing(pid);
	if (!is_json)
		puts("No job runs that shares; `tsrun doctor -- python train.py` checks a "
		     "command before it runs.");
	return 0;
}

int ts_explain_command(const struct ts_arguments *arguments, const struct ts_config *config)
{
	const char *text = arguments->value[TS_FLAG_PID];
	char *end = NULL;
	long pid = text ? strtol(text, &end, 10) : 0;

	if (arguments->command || arguments->separated) {
		ts_message_say("explain looks at running jobs: check a command with `tsrun "
			       "doctor -- COMMAND`, or run it and type `tsrun explain`");
		return TS_EXIT_FAILED;
	}
	if (text && (*text < '0' || *text > '9' || *end != '\0' || pid <= 0 || pid > INT_MAX)) {
		ts_message_say("option '--pid' has a bad value '%s'", text);
		ts_message_hint(
			"it must be the number of a process, as `tsrun stats` shows them");
		return TS_EXIT_FAILED;
	}
	return explain_jobs(ts_arguments_group(arguments, config, true), (int)pid,
		arguments->flag[TS_FLAG_JSON]);
}
