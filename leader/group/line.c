/* SPDX-License-Identifier: MIT */
/* The one line on stderr when what tsrun has started ends. */
#include "leader/group/line.h"

#include "leader/group/summary.h"
#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/log.h"
#include "shim/scratch.h"
#include "shim/sys.h"

#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#define NS_PER_S UINT64_C(1000000000)

/* One in so many is enough for a reason that something helps against. */
#define WORTH_A_WORD 10

/* In the order in which they are told; opens of copies of files are told apart. */
static const struct {
	enum ts_kind kind;
	const char *noun;
} nouns[] = {
	{TS_KIND_SAMPLE, "samples"},
	{TS_KIND_PIXELS, "images"},
	{TS_KIND_DEVICE, "copies to a GPU"},
};
_Static_assert(TS_ARRAY_SIZE(nouns) + 1 == TS_KIND_COUNT, "all but files");

/* ---- the counts ------------------------------------------------------------------------- */

void ts_line_add(struct ts_line_sum *sum, struct ts_job_row *row)
{
	for (uint32_t i = 0; i < TS_KIND_COUNT; i++) {
		sum->made[i] += ts_load_relaxed(&row->kinds[i].produced);
		sum->taken[i] += ts_load_relaxed(&row->kinds[i].shared);
		if (i != TS_KIND_BYTES)
			sum->saved_ns += ts_load_relaxed(&row->kinds[i].saved_ns);
	}
	for (uint32_t i = 0; i < TS_REASON_COUNT; i++)
		sum->passed[i] += ts_load_relaxed(&row->passed[i]);
}

/* Whether a living job has the data set of the job in row @index, of which both draw. */
static bool has_twin(struct ts_ledger *ledger, uint32_t index)
{
	uint64_t identity = ts_load_relaxed(&ts_ledger_drawn(ledger, index)->identity);
	for (uint32_t i = 0; identity != 0 && i < TS_JOB_MAX; i++)
		if (i != index &&
			ts_load_relaxed(&ts_ledger_drawn(ledger, i)->identity) == identity &&
			ts_process_is_alive(ts_load_relaxed(&ts_ledger_job(ledger, i)->id)))
			return true;
	return false;
}

void ts_line_add_jobs(
	struct ts_line_sum *sum, struct ts_ledger *ledger, uint64_t launch, uint64_t job)
{
	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		struct ts_job_row *row = ts_ledger_job(ledger, i);
		if (!ts_ledger_is_of_launch(ledger, i, launch) ||
			(job != 0 && ts_load_relaxed(&row->id) != job))
			continue;
		ts_line_add(sum, row);
		if (!sum->apart)
			sum->apart = has_twin(ledger, i);
	}
}

/* ---- the words -------------------------------------------------------------------------- */

struct line {
	char *text;
	size_t bytes, length;
};

TS_PRINTF(2, 3)
static void put(struct line *line, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	line->length += ts_format_v(
		line->text + line->length, line->bytes - line->length, format, arguments);
	va_end(arguments);
}

/* With a comma between thousands. */
static void put_count(struct line *line, uint64_t value)
{
	char digits[32];
	size_t at = sizeof(digits) - 1, count = 0;
	digits[at] = '\0';
	do {
		if (count > 0 && count % 3 == 0)
			digits[--at] = ',';
		digits[--at] = (char)('0' + value % 10);
		value /= 10;
		count++;
	} while (value);
	put(line, "%s", digits + at);
}

/* As exact as it is of use. */
static void put_time(struct line *line, uint64_t ns)
{
	uint64_t s = ns / NS_PER_S;
	if (s < 10)
		put(line, "%llu.%llu%llu s", (unsigned long long)s,
			(unsigned long long)(ns / (NS_PER_S / 10) % 10),
			(unsigned long long)(ns / (NS_PER_S / 100) % 10));
	else if (s < 600)
		put(line, "%llu s", (unsigned long long)s);
	else if (s < 7200)
		put(line, "%llu min", (unsigned long long)(s / 60));
	else
		put(line, "%llu h %llu min", (unsigned long long)(s / 3600),
			(unsigned long long)(s / 60 % 60));
}

static void put_more(struct line *line, const struct ts_config *config)
{
	struct ts_config standard;
	ts_config_init(&standard);
	bool named = strcmp(config->group, standard.group) != 0;
	put(line, "; `tsrun stats%s%s` tells more\n", named ? " --group " : "",
		named ? config->group : "");
}

static void put_taken(
	struct line *line, const struct ts_line_sum *sum, const struct ts_config *config)
{
	const char *between = "";
	for (size_t i = 0; i < TS_ARRAY_SIZE(nouns); i++) {
		enum ts_kind kind = nouns[i].kind;
		if (sum->taken[kind] == 0)
			continue;
		put(line, "%s", between);
		put_count(line, sum->taken[kind]);
		put(line, " of ");
		put_count(line, sum->taken[kind] + sum->made[kind]);
		put(line, " %s", nouns[i].noun);
		between = ", ";
	}
	if (between[0] != '\0')
		/* In a kept ring is also what the job itself has put there. */
		put(line, " taken from %s", config->keep ? "the kept ring" : "other jobs");
	if (sum->saved_ns >= NS_PER_S / 100) {
		put(line, "%s", between);
		put_time(line, sum->saved_ns);
		put(line, " of CPU saved");
	}
	if (sum->taken[TS_KIND_BYTES] > 0) {
		put(line, "%s", between);
		put_count(line, sum->taken[TS_KIND_BYTES]);
		put(line, " opens of local copies of files");
	}
}

/*
 * The most frequent reason for which work was lost to sharing; one that nothing is to be done
 * about gives way to one that something helps against.  TS_REASON_COUNT: there is none.
 */
static uint32_t main_reason(const struct ts_line_sum *sum, uint64_t *ret_lost)
{
	uint32_t most = TS_REASON_COUNT, helped = TS_REASON_COUNT;
	*ret_lost = 0;
	for (uint32_t i = 0; i < TS_REASON_COUNT; i++) {
		uint64_t count = sum->passed[i];
		if (count == 0 || ts_reasons[i].fix == TS_NOT_LOST)
			continue;
		*ret_lost += count;
		if (most == TS_REASON_COUNT || count > sum->passed[most])
			most = i;
		if (ts_reasons[i].fix[0] != '\0' &&
			(helped == TS_REASON_COUNT || count > sum->passed[helped]))
			helped = i;
	}
	/* Counted once for all that a process does. */
	if (sum->passed[TS_REASON_TORCH_ISOLATED] > 0)
		return TS_REASON_TORCH_ISOLATED;
	bool is_worth_it =
		helped != TS_REASON_COUNT && sum->passed[helped] >= *ret_lost / WORTH_A_WORD;
	return is_worth_it ? helped : most;
}

/* With --verify 100 nothing of what others made is taken, but all of it was there. */
static bool put_verified(struct line *line, const struct ts_line_sum *sum)
{
	uint64_t made = 0;

	for (size_t i = 0; i < TS_ARRAY_SIZE(nouns); i++)
		made += sum->made[nouns[i].kind];
	if (made == 0 || sum->passed[TS_REASON_VERIFY] == 0)
		return false;
	put_count(line, sum->passed[TS_REASON_VERIFY]);
	put(line, " results of other jobs worked out again to compare (--verify)");
	return true;
}

/* What was made for others counts as shared, though this job took nothing. */
static bool put_given(struct line *line, const struct ts_line_sum *sum, uint64_t lost)
{
	uint64_t made = 0;
	size_t first = TS_ARRAY_SIZE(nouns);
	for (size_t i = TS_ARRAY_SIZE(nouns); i-- > 0;) {
		made += sum->made[nouns[i].kind];
		if (sum->made[nouns[i].kind] > 0)
			first = i;
	}
	if (made <= lost)
		return false;
	put(line, "none of ");
	put_count(line, sum->made[nouns[first].kind]);
	put(line, " %s taken from other jobs: made here first, for others to take",
		nouns[first].noun);
	return true;
}

static bool put_reason(struct line *line, uint32_t reason, bool apart)
{
	if (reason == TS_REASON_COUNT)
		return false;
	const char *text = ts_reasons[reason].text, *fix = ts_reasons[reason].fix;
	if (reason == TS_REASON_ALONE && apart) {
		text = "other jobs draw other random numbers for this data";
		fix = "--align takes them from one seed in all jobs";
	}
	put(line, "nothing shared: %s", text);
	if (fix[0] != '\0')
		put(line, "; fix: %s", fix);
	return true;
}

size_t ts_line_format(char *buffer, size_t bytes, const struct ts_line_sum *sum,
	const struct ts_config *config)
{
	struct line line = {.text = buffer, .bytes = bytes};
	uint64_t taken = 0, lost;

	for (uint32_t i = 0; i < TS_KIND_COUNT; i++)
		taken += sum->taken[i];
	uint32_t reason = main_reason(sum, &lost);
	put(&line, "tsshim: ");
	if (taken > 0)
		put_taken(&line, sum, config);
	else if (!put_verified(&line, sum) && !put_given(&line, sum, lost) &&
		 !put_reason(&line, reason, sum->apart))
		return 0;
	put_more(&line, config);
	return line.length;
}

/* ---- the descriptor --------------------------------------------------------------------- */

/* Write, and take back the signals that come of it when nobody reads or a limit is met. */
static int write_in_peace(const char *text, size_t bytes)
{
	static const struct timespec now = {0};
	sigset_t ours, before, old;

	sigemptyset(&ours);
	sigaddset(&ours, SIGPIPE);
	sigaddset(&ours, SIGXFSZ);
	/* A job in the background would be stopped where `stty tostop` is set. */
	sigaddset(&ours, SIGTTOU);
	if (sigpending(&before) < 0 || sigprocmask(SIG_BLOCK, &ours, &old) < 0)
		return -EINVAL;
	int64_t r = ts_sys_write(2, text, bytes);
	if (r == -EPIPE && !sigismember(&before, SIGPIPE)) {
		sigdelset(&ours, SIGXFSZ);
		sigdelset(&ours, SIGTTOU);
		(void)sigtimedwait(&ours, NULL, &now);
	} else if (r == -EFBIG && !sigismember(&before, SIGXFSZ)) {
		sigdelset(&ours, SIGPIPE);
		sigdelset(&ours, SIGTTOU);
		(void)sigtimedwait(&ours, NULL, &now);
	}
	(void)sigprocmask(SIG_SETMASK, &old, NULL);
	return r < 0 ? (int)r : 0;
}

int ts_line_write(const struct ts_line_place *place, const char *text, size_t bytes)
{
	struct stat found;
	if (ts_sys_fstat(2, &found) < 0 || found.st_dev != place->device ||
		found.st_ino != place->inode)
		return -EBADF;
	if (!ts_sys_takes_bytes(2))
		return -EAGAIN;
	int keep = errno;
	int r = write_in_peace(text, bytes);
	errno = keep;
	return r;
}

/* ---- who prints ------------------------------------------------------------------------- */

bool ts_line_is_ours(const struct ts_line_place *place)
{
	return place->launch != 0 && getpid() == TS_PROCESS_PID(place->launch) &&
	       ts_identity_self() == place->launch;
}

/* dash(1) runs no destructors when it ends; GNU's programs close their stderr before. */
static const char *const unseen[] = {"dash", "timeout", "xargs"};

static bool is_unseen(const char *name)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(unseen); i++)
		if (strcmp(name, unseen[i]) == 0)
			return true;
	return false;
}

/* Whether the process that tsrun has become cannot print the line when it ends. */
static bool ends_unseen(uint64_t launch)
{
	char path[32], *program TS_SCRATCH = ts_scratch();
	ts_format(path, sizeof(path), "/proc/%d/exe", (int)TS_PROCESS_PID(launch));
	if (!program || ts_sys_readlink(path, program, PATH_MAX) < 0)
		return false;
	const char *slash = strrchr(program, '/');
	return slash && is_unseen(slash + 1) && ts_process_is_alive(launch);
}

/* Of a loop over a thousand files one job says why nothing is shared, and the others are still.
 */
static bool is_told(
	const struct ts_line_sum *sum, struct ts_ledger *ledger, uint64_t launch, uint64_t job)
{
	for (uint32_t i = 0; i < TS_KIND_COUNT; i++)
		if (sum->taken[i] > 0)
			return false;
	for (uint32_t i = 0; ledger && i < TS_JOB_MAX; i++) {
		struct ts_job_row *row = ts_ledger_job(ledger, i);
		if (ts_load_relaxed(&row->id) != job && ts_load_relaxed(&row->ended) &&
			ts_ledger_is_of_launch(ledger, i, launch))
			return true;
	}
	return false;
}

void ts_line_finish(struct ts_ledger *ledger, struct ts_job_row *waiting)
{
	const struct ts_config *config = ts_config();
	const struct ts_line_place *place = &config->line;
	struct ts_line_sum sum = {0};
	char *text TS_SCRATCH = ts_scratch();

	bool is_ours = ts_line_is_ours(place);
	if (!text || place->launch == 0 || config->quiet ||
		(!is_ours && !ends_unseen(place->launch)))
		return;
	uint64_t job = is_ours ? 0 : ts_identity_job();
	struct ts_ledger *map = ledger ? NULL : ts_summary_map(config->group);
	ledger = ledger ? ledger : map;
	if (ledger)
		ts_line_add_jobs(&sum, ledger, place->launch, job);
	ts_line_add(&sum, waiting);
	bool told = !is_ours && is_told(&sum, ledger, place->launch, job);
	ts_summary_unmap(map);
	size_t length = told ? 0 : ts_line_format(text, TS_LINE_BYTES, &sum, config);
	if (length > 0)
		(void)ts_line_write(place, text, length);
}
