/* SPDX-License-Identifier: MIT */
/* tsrun stats: gather what a group did, and have it printed. */
#include "shim/tsrun/stats.h"
#include "leader/group/store_private.h"
#include "shim/tsrun/baseline.h"
#include "shim/tsrun/message.h"
#include "shim/tsrun/names.h"
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

/* What was read of a group. */
struct found {
	struct ts_report report;
	struct ts_baseline_of of;
	/* The counters with nothing subtracted, where that is wanted. */
	struct ts_ledger *raw;
	struct ts_mail_table *raw_nodes; /* NULL: there are none */
};

/* Open "ledger", "ring" or "peers" of @group; 0 with *ret_fd -1 when there is none. */
static int open_part(const char *group, const char *suffix, int *ret_fd, struct stat *ret_stat)
{
	char path[TS_PATH_BYTES];

	*ret_fd = -1;
	int r = ts_object_path(path, sizeof(path), group, suffix);
	if (r == 0)
		r = ts_view_open(path, false, ret_fd, ret_stat);
	return r == -ENOENT ? 0 : r;
}

static void *copy(const void *from, size_t bytes)
{
	void *to = aligned_alloc(64, ts_align_up(bytes, 64));

	return to ? memcpy(to, from, bytes) : NULL;
}

/* Take off what was counted before the last reset, and keep all of it for the next one. */
static int count_anew(const struct ts_stats_options *options, struct found *found)
{
	struct ts_report *report = &found->report;

	/* Prometheus knows what to do with counters that begin anew, but gains nothing by it.
	 */
	if (options->form == TS_STATS_PROMETHEUS)
		return 0;
	if (options->reset) {
		found->raw = copy(report->ledger, TS_LEDGER_BYTES);
		if (report->nodes)
			found->raw_nodes = copy(report->nodes, sizeof(*report->nodes));
		if (!found->raw || (report->nodes && !found->raw_nodes))
			return -ENOMEM;
	}
	ts_baseline_subtract(&found->of, report->ledger, report->nodes, &report->since_ns);
	return 0;
}

static int read_ledger(const struct ts_stats_options *options, struct found *found)
{
	struct stat st;
	int fd;

	int r = open_part(options->group, "ledger", &fd, &st);
	if (r < 0 || fd < 0)
		return r;
	r = ts_view_ledger(fd, &found->report.ledger);
	(void)close(fd);
	if (r < 0)
		return r;
	found->of = (struct ts_baseline_of){
		.group = options->group, .device = st.st_dev, .inode = st.st_ino};
	return 0;
}

/* The counters are worth printing without the ring, and without what is told of nodes. */
static int fail_part(const struct ts_report *report, const char *what, int error)
{
	ts_message_say("cannot read %s of group '%s': %s", what, report->group,
		ts_view_explain(error));
	return error;
}

static int read_ring(struct ts_report *report)
{
	struct stat st;
	int fd;

	int r = open_part(report->group, "ring", &fd, &st);
	if (r == 0 && fd >= 0) {
		r = ts_view_ring(fd, &report->ring);
		(void)close(fd);
	}
	return r < 0 ? fail_part(report, "the ring", r) : 0;
}

static int read_nodes(struct found *found)
{
	struct ts_report *report = &found->report;
	struct stat st;
	int fd;

	int r = open_part(report->group, "peers", &fd, &st);
	if (r == 0 && fd >= 0) {
		r = ts_view_mail(fd, &report->nodes);
		(void)close(fd);
		found->of.nodes_inode = st.st_ino;
	}
	return r < 0 ? fail_part(report, "what is told of other nodes", r) : 0;
}

static int gather(const struct ts_stats_options *options, struct found *found)
{
	struct ts_report *report = &found->report;

	int r = read_ledger(options, found);
	if (r < 0) {
		ts_message_say("cannot read the counters of group '%s': %s", report->group,
			ts_view_explain(r));
		return r;
	}
	int of_nodes = read_nodes(found);
	r = report->ledger ? count_anew(options, found) : 0;
	if (r < 0)
		return r;
	r = read_ring(report);
	return r < 0 ? r : of_nodes;
}

static void print(const struct ts_report *report, enum ts_stats_form form, FILE *out)
{
	if (form == TS_STATS_JSON)
		ts_report_json(report, out);
	else if (form == TS_STATS_PROMETHEUS)
		ts_report_prometheus(report, out);
	else if (form == TS_STATS_VERBOSE)
		ts_report_verbose(report, out);
	else
		ts_report_text(report, out);
}

/* Print to @fd, or give back why it is none, and close it. */
static int print_to(const struct ts_report *report, enum ts_stats_form form, int fd)
{
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");

	if (!out) {
		int r = -errno;
		if (fd >= 0)
			(void)close(fd);
		return r;
	}
	errno = 0;
	print(report, form, out);
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
static int replace(const struct ts_report *report, enum ts_stats_form form, const char *path,
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

static int print_file(const struct ts_report *report, enum ts_stats_form form, const char *file)
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

/* Print, and where that is wanted and went well, count from there on. */
static int print_and_reset(const struct ts_stats_options *options, const struct found *found)
{
	int r = 0;

	if (options->file)
		r = print_file(&found->report, options->form, options->file);
	else
		print(&found->report, options->form, stdout);
	if (r < 0) {
		ts_message_say("cannot write to '%s': %s", options->file, strerror(-r));
		return r;
	}
	/* What nobody has seen must not be lost. */
	if (!found->raw || (!options->file && (fflush(stdout) != 0 || ferror(stdout))))
		return 0;
	r = ts_baseline_store(&found->of, found->raw, found->raw_nodes);
	if (r < 0)
		ts_message_say("cannot count anew: %s", strerror(-r));
	return r;
}

int ts_stats_print(const struct ts_stats_options *options)
{
	const char *group = options->group;
	struct found found = {
		.report = {.group = group, .elsewhere = ts_names_elsewhere(group)}};

	/* A limit for files is an error like a full disk, and leaves no half of a file behind.
	 */
	(void)signal(SIGXFSZ, SIG_IGN);
	int r = gather(options, &found);
	if (r == -EBADMSG || r == -EPROTO || r == -ESTALE)
		ts_message_hint("`tsrun gc --group %s` removes it when nobody uses it", group);
	if (r == 0 || found.report.ledger) {
		int written = print_and_reset(options, &found);
		r = written < 0 ? written : r;
	}
	free(found.raw);
	free(found.raw_nodes);
	free(found.report.ledger);
	free(found.report.nodes);
	free(found.report.ring.members);
	return r < 0 ? TS_EXIT_FAILED : 0;
}
