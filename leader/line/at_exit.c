/* SPDX-License-Identifier: MIT */
/* The end of a process: what it says on standard error, its last counts, and that it leaves. */
#include "leader/line/line.h"
#include "leader/group/attach.h"
#include "leader/group/left.h"
#include "leader/group/session_private.h"
#include "leader/group/store_private.h"
#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/log.h"
#include "shim/scratch.h"
#include "shim/sys.h"

#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

/*
 * What uses less is a tool, or a look at something; a job trains for longer.  Importing PyTorch
 * takes one to two.
 */
#define LONG_NS UINT64_C(5000000000)

static bool is_trainer; /* a library that trains was loaded */

void ts_line_note_trainer(void)
{
	is_trainer = true;
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
	int came = r == -EPIPE ? SIGPIPE : r == -EFBIG ? SIGXFSZ : 0;
	if (came && !sigismember(&before, came)) {
		sigemptyset(&ours);
		sigaddset(&ours, came);
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

/* Whether this process is the one that tsrun has become: it prints for all jobs below. */
static bool is_ours(const struct ts_line_place *place)
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

/* ---- of what is nothing to count -------------------------------------------------------- */

static uint64_t ns_of(const struct timeval *time)
{
	return ((uint64_t)time->tv_sec * 1000000 + (uint64_t)time->tv_usec) * 1000;
}

static bool is_long(int who)
{
	struct rusage use;

#ifdef TS_TEST_BUILD
	if (getenv("TSSHIM_TEST_LONG_JOB"))
		return true;
#endif
	return getrusage(who, &use) == 0 &&
	       ns_of(&use.ru_utime) + ns_of(&use.ru_stime) >= LONG_NS;
}

/*
 * Whether a job that met nothing is told so.  What tsrun became, when it or what it ran took
 * long; where that cannot print, the trainer right below it; without tsrun only a trainer:
 * shells and tools run below LD_PRELOAD, too, and others read what they print.
 */
static bool says_of_nothing(const struct ts_line_place *place, bool ours)
{
	if (!ours)
		return is_trainer && getppid() == TS_PROCESS_PID(place->launch) &&
		       is_long(RUSAGE_SELF);
	if (place->is_plain)
		return is_trainer && (is_long(RUSAGE_SELF) || is_long(RUSAGE_CHILDREN));
	return is_long(RUSAGE_SELF) || is_long(RUSAGE_CHILDREN);
}

/* Whether this process may have something to say at its end, though it has counted nothing. */
static bool may_speak(const struct ts_config *config)
{
	const struct ts_line_place *place = &config->line;

	return place->launch != 0 && !config->quiet && !config->summary &&
	       (is_ours(place) || (is_trainer && getppid() == TS_PROCESS_PID(place->launch)));
}

/* ---- the end ---------------------------------------------------------------------------- */

/* Where this process prints for itself and all below; false: it has no standard error. */
static bool find_own_place(struct ts_line_place *ret_place)
{
	struct stat found;

	if (ts_sys_fstat(2, &found) < 0)
		return false;
	*ret_place = (struct ts_line_place){.launch = ts_identity_self(),
		.device = found.st_dev,
		.inode = found.st_ino,
		.is_plain = true};
	return true;
}

/*
 * Whether a process that prints the line says so in our environment.  A batch system, ssh or
 * mpirun may have brought that of another node, which will never print here; what its
 * process and its standard error are called there is nobody here.
 */
static bool has_printer(const struct ts_line_place *place)
{
	struct stat found;

	if (place->launch == 0)
		return false;
	return (ts_sys_fstat(2, &found) == 0 && found.st_dev == place->device &&
		       found.st_ino == place->inode) ||
	       ts_process_is_alive(place->launch);
}

void ts_line_begin(void)
{
	const struct ts_config *config = ts_config();
	struct ts_line_place place;
	char value[96];

	if (config->disable || config->quiet || config->summary || has_printer(&config->line) ||
		!find_own_place(&place))
		return;
	ts_format(value, sizeof(value), "plain:%llu:%llu:%llu",
		(unsigned long long)place.launch, (unsigned long long)place.device,
		(unsigned long long)place.inode);
	if (setenv("TSSHIM_SUMMARY", value, 1) == 0)
		ts_config_set_line(&place);
}

static struct ts_loaders *map_loaders(const char *group)
{
	struct ts_object object = {.fd = -1};
	struct ts_dependent_head head;
	void *map = MAP_FAILED;

	if (ts_object_path(object.path, sizeof(object.path), group, "loaders") < 0 ||
		ts_object_open(&object) < 0)
		return NULL;
	if (object.bytes == sizeof(struct ts_loaders) &&
		ts_object_read_start(ts_load_relaxed(&object.fd), &head, sizeof(head)) == 0 &&
		ts_object_head_check(&head, TS_LOADERS_MAGIC, TS_LOADERS_ABI,
			offsetof(struct ts_dependent_head, check)) == 0)
		map = mmap(NULL, sizeof(struct ts_loaders), PROT_READ, MAP_SHARED,
			ts_load_relaxed(&object.fd), 0);
	ts_object_close(&object);
	return map == MAP_FAILED ? NULL : map;
}

/* What the loaders of the jobs of @launch say beyond the counts. */
static void look_at_loaders(struct ts_line_sum *sum, struct ts_ledger *ledger,
	const struct ts_config *config, uint64_t launch, uint64_t job)
{
	struct ts_loaders *loaders = map_loaders(config->group);

	if (!loaders)
		return;
	ts_line_add_loaders(sum, ledger, loaders, config, launch, job);
	munmap(loaders, sizeof(*loaders));
}

/* Of a program that tsrun has not started, and that is no interpreter, its own. */
static bool find_place(const struct ts_config *config, struct ts_line_place *ret_place)
{
	*ret_place = config->line;
	return has_printer(ret_place) || (is_long(RUSAGE_SELF) && find_own_place(ret_place));
}

/*
 * At the end of a process: print the line if it is for this one to print.  That is the process
 * that tsrun has become; or where that cannot, as it ends without a word to libraries (dash(1))
 * or closes its stderr (timeout(1)), each job, of which those that took nothing say so once.
 * @ledger is the one of the session, or NULL: then it is looked for.  @waiting is what was
 * counted outside of it.
 */
static void print_line(struct ts_ledger *ledger, struct ts_job_row *waiting)
{
	const struct ts_config *config = ts_config();
	struct ts_line_place place;
	struct ts_line_sum *sum TS_SCRATCH = ts_scratch();
	char *text TS_SCRATCH = ts_scratch();

	if (!text || !sum || config->quiet || config->summary || !find_place(config, &place))
		return;
	bool ours = is_ours(&place);
	if (!ours && !ends_unseen(place.launch))
		return;
	static_assert(sizeof(*sum) <= TS_SCRATCH_BYTES, "it lies in a block");
	memset(sum, 0, sizeof(*sum));
	uint64_t job = ours ? 0 : ts_identity_job();
	struct ts_ledger *map = ledger ? NULL : ts_ledger_map(config->group);
	ledger = ledger ? ledger : map;
	if (ledger) {
		ts_line_add_jobs(sum, ledger, place.launch, job);
		look_at_loaders(sum, ledger, config, place.launch, job);
	}
	ts_line_add(sum, waiting);
	bool told = !ours && is_told(sum, ledger, place.launch, job);
	ts_ledger_unmap(map);
	/* A tool that decoded a picture, of whose output others may read each line. */
	told |= place.is_plain && !is_trainer && !is_long(RUSAGE_SELF);
	size_t length = told ? 0 : ts_line_format(text, TS_LINE_BYTES, sum, config);
	if (length == 0 && !told && says_of_nothing(&place, ours))
		length = ts_line_format_nothing(text, TS_LINE_BYTES, config);
	if (length > 0)
		(void)ts_line_write(&place, text, length);
}

/* ---- the block of --summary ------------------------------------------------------------- */

#define BLOCK_BYTES 2048u
#define REASONS_MAX 5 /* lines about what was not shared */

struct block {
	char text[BLOCK_BYTES];
	size_t length;
};

TS_PRINTF(2, 3)
static void line(struct block *block, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	block->length += ts_format_v(block->text + block->length,
		sizeof(block->text) - block->length, format, arguments);
	va_end(arguments);
}

static void put_kind(struct block *block, const struct ts_tally *tally, uint32_t kind)
{
	const char *text = ts_kinds[kind].text;
	unsigned long long produced = ts_load_relaxed(&tally->produced);
	unsigned long long shared = ts_load_relaxed(&tally->shared);
	unsigned long long saved_ms = ts_load_relaxed(&tally->saved_ns) / 1000000;
	if (produced + shared == 0)
		return;
	if (kind == TS_KIND_BYTES) {
		line(block, "  %s: %llu copied here, %llu opened as copies (%llu %%)\n", text,
			produced, shared, shared * 100 / (produced + shared));
		return;
	}
	line(block, "  %s: %llu worked out here, %llu taken from the ring (%llu %%)\n", text,
		produced, shared, shared * 100 / (produced + shared));
	line(block, "  CPU time saved: %llu.%u%u s\n", saved_ms / 1000,
		(unsigned)(saved_ms / 100 % 10), (unsigned)(saved_ms / 10 % 10));
}

/* The most frequent reasons, largest first. */
static void put_reasons(struct block *block, struct ts_job_row *row)
{
	uint64_t below = UINT64_MAX;
	uint32_t last = 0;
	for (int n = 0; n < REASONS_MAX; n++) {
		uint32_t best = TS_REASON_COUNT;
		uint64_t count = 0;
		for (uint32_t i = 0; i < TS_REASON_COUNT; i++) {
			uint64_t c = ts_load_relaxed(&row->passed[i]);
			bool later = c < below || (c == below && i > last);
			if (c > count && later) {
				best = i;
				count = c;
			}
		}
		if (best == TS_REASON_COUNT)
			return;
		line(block, "  not shared %llu times: %s\n", (unsigned long long)count,
			ts_reasons[best].text);
		below = count;
		last = best;
	}
}

void ts_summary_print(struct ts_ledger *ledger, uint64_t id, struct ts_job_row *alone)
{
	struct block *block TS_SCRATCH = ts_scratch();
	struct ts_job_row *row = ledger ? ts_ledger_row_of(ledger, id) : NULL;
	if (!block)
		return;
	block->length = 0;
	line(block, "tsshim: what %s (%d) shared\n", program_invocation_short_name,
		(int)getpid());
	size_t title = block->length;
	if (!row)
		row = alone;
	for (uint32_t kind = 0; kind < TS_KIND_COUNT; kind++)
		put_kind(block, &row->kinds[kind], kind);
	put_reasons(block, row);
	if (block->length == title)
		line(block, "  nothing: no call of this job could be shared\n");
	(void)ts_sys_write(2, block->text, block->length);
}

/* ---- the end of the session ------------------------------------------------------------- */

/* So long a job that ends looks for what other groups have left. */
#define LEFT_NS UINT64_C(20000000)

/* Workers may have used the store for this job and be gone: then we are the last one out. */
static struct ts_session *join_to_leave(void)
{
	enum ts_reason reason = TS_REASON_NO_STORE;
	if (!ts_group_has_job(ts_config()->group, ts_identity_job()))
		return NULL;
	/* Before the lock is tried for, so that who holds it finds the ring left behind. */
	ts_group_end_job(ts_config()->group, ts_identity_job());
	if (ts_session_attach(&reason) < 0) {
		ts_add_relaxed(&ts_session_waiting.passed[reason], 1);
		return NULL;
	}
	ts_session_flush(ts_store_ledger(ts_session_own.store));
	return &ts_session_own;
}

/* Whether anything was counted that no ledger has. */
static bool has_waiting(void)
{
	uint64_t sum = 0;
	for (uint32_t i = 0; i < TS_REASON_COUNT; i++)
		sum += ts_load_relaxed(&ts_session_waiting.passed[i]);
	for (uint32_t i = 0; i < TS_KIND_COUNT; i++)
		sum += ts_load_relaxed(&ts_session_waiting.kinds[i].produced);
	return sum != 0;
}

/* Whether the store could not be had: then nobody has heard of this process. */
static bool was_refused(void)
{
	uint64_t sum = 0;
	for (uint32_t i = TS_REASON_NO_STORE; i <= TS_REASON_NO_MEMBER; i++)
		sum += ts_load_relaxed(&ts_session_waiting.passed[i]);
	return sum != 0;
}

static bool wants_summary(bool has_counts)
{
	const struct ts_config *config = ts_config();
	if (!config->summary)
		return false;
	/* What tsrun started may be a shell whose children are the jobs. */
	return has_counts || config->summary_pid == getpid();
}

void ts_session_finish(void)
{
	/* A fork child that never used the store has its parent's membership: not ours. */
	const struct ts_config *config = ts_config();
	if (config->disable || ts_identity_check() != TS_SAME_PROCESS)
		return;
	struct ts_session *joined = ts_load_acquire(&ts_session_shown);
	/* Most processes that end here are shells and tools: ask the cheapest question first.
	 */
	bool is_told = !config->quiet && (may_speak(config) || has_waiting());
	bool refused = !joined && was_refused();
	if (!joined && !config->summary && !is_told && !refused &&
		!ts_group_has_ring(config->group))
		return;
	bool is_job = ts_identity_self() == ts_identity_job();
	if (!joined && is_job)
		joined = join_to_leave();
	if (is_job && wants_summary(joined || has_waiting()))
		ts_summary_print(joined ? ts_store_ledger(joined->store) : NULL,
			ts_identity_job(), &ts_session_waiting);
	if (is_job && (is_told || joined))
		print_line(joined ? ts_store_ledger(joined->store) : NULL, &ts_session_waiting);
	if (!joined && refused)
		ts_session_leave_counts();
	ts_write_relaxed(&ts_session_shown, NULL);
	/* Two jobs that leave at once must not wait for each other to take the ring along. */
	if (joined && is_job)
		ts_ledger_end_job(ts_store_ledger(joined->store), ts_identity_job());
	if (joined)
		ts_store_detach(joined->store);
	if (joined && is_job)
		ts_left_remove(config->group, LEFT_NS);
}
