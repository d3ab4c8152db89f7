/* SPDX-License-Identifier: MIT */
/* Copies of large files: handing one to a stager, and the stager at work. */
#include "leader/files/stager.h"
#include "leader/files/index_private.h"
#include "leader/files/stage_private.h"
#include "leader/group/attach.h"
#include "shim/config.h"
#include "shim/helper.h"
#include "shim/identity.h"
#include "shim/log.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* A process 1 that is the job would find the stager among its children, were it started by a
 * worker. */
static bool is_possible(void)
{
	return ts_helper_is_possible() && TS_PROCESS_PID(ts_identity_job()) != 1;
}

/*
 * Whether fewer than TS_STAGER_SLOTS stagers work: asked with the @command F_OFD_GETLK; with
 * F_OFD_SETLK the caller is one of them from now on, until its end.
 */
static bool has_slot(struct ts_stage *stage, int command)
{
	int fd = ts_object_fd(&stage->index.object, NULL);

	for (int i = 0; fd >= 0 && i < TS_STAGER_SLOTS; i++) {
		struct flock lock = {
			.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = i, .l_len = 1};
		if (ts_sys_fcntl(fd, command, &lock) == 0 &&
			(command == F_OFD_SETLK || lock.l_type == F_UNLCK))
			return true;
	}
	return false;
}

static bool is_paused(const struct ts_stage *stage)
{
	return ts_now_ns() < ts_load_relaxed(&stage->index.head->stager_pause);
}

static void pause_all(struct ts_stage *stage)
{
	ts_write_relaxed(&stage->index.head->stager_pause, ts_now_ns() + TS_STAGER_PAUSE_NS);
}

/* NEW -> GROWING, unless it is further already. */
static int take_room(struct ts_stage *stage, int part, uint64_t bytes)
{
	struct stat st;
	int r = ts_sys_fstat(part, &st);

	if (r < 0 || st.st_size != 0)
		return r;
	if (!ts_limits_allow_file(bytes + TS_STAGER_MARK))
		return -ENOSPC;
	r = ts_stage_admit(stage, bytes);
	if (r < 0)
		return r;
	TS_KILLPOINT(stager_admitted);
	r = ts_sys_ftruncate(part, bytes + TS_STAGER_MARK);
	if (r < 0)
		ts_stage_index_return(&stage->index, bytes);
	TS_KILLPOINT(stager_sized);
	return r;
}

int ts_stager_take(struct ts_stage *stage, const struct ts_stage_source *source,
	const char *path, int *ret_part)
{
	char part_path[TS_STAGE_PATH];
	int part;

	ts_format(part_path, sizeof(part_path), "%s.part", path);
	int r = ts_stage_take_part(part_path, path, &part);
	if (r < 0)
		return r;
	r = take_room(stage, part, (uint64_t)source->stat->st_size);
	if (r < 0) {
		(void)ts_sys_unlink(part_path);
		ts_stage_release_part(part);
		return r;
	}
	*ret_part = part;
	return 0;
}

static int start(const struct ts_stage_source *source, const char *path, int part)
{
	const struct ts_config *config = ts_config();
	const int fds[] = {source->fd, part};
	char ring[24], bytes[24];

	ts_format(ring, sizeof(ring), "%llu", (unsigned long long)config->ring_bytes);
	ts_format(bytes, sizeof(bytes), "%llu", (unsigned long long)source->stat->st_size);
	/* In the order of ts_stager_main(). */
	char *const arguments[] = {(char *)"tsshim-stager", (char *)config->group,
		(char *)config->dataset, ring, (char *)source->path, (char *)path, bytes,
		(char *)(config->cluster ? "1" : "0"), NULL};
	return ts_helper_start(TS_HELPER_STAGER, arguments, fds, TS_ARRAY_SIZE(fds));
}

int ts_stager_begin(
	struct ts_stage *stage, const struct ts_stage_source *source, const char *path)
{
	int part;

	if (!is_possible() || is_paused(stage) || !has_slot(stage, F_OFD_GETLK))
		return -EFBIG;
	int r = ts_stager_take(stage, source, path, &part);
	if (r < 0)
		return r == -EBUSY ? -EFBIG : r;
	ts_stage_call_helper(stage);
	r = start(source, path, part);
	if (r < 0) {
		/* The .part stays for who can; it takes no memory yet, only its room. */
		pause_all(stage);
		ts_stage_release_part(part);
		return -EFBIG;
	}
	TS_KILLPOINT(stager_started);
	/* Not unlocked: the lock is the stager's now. */
	ts_sys_close(part);
	return -EFBIG;
}

/* Processes that read a chunk, and what each reads of it. */
#define READERS 4
#define PIECE   (TS_STAGER_CHUNK / READERS)

/* One read; between two of them the stager looks around. */
#define READ_BYTES (UINT64_C(1) << 20)

#define LOOK_NS UINT64_C(200000000)

/* Asking the machine reads dozens of files. */
#define ROOM_STEP (UINT64_C(64) << 20)

struct work {
	const struct ts_stager_task *task;
	struct ts_store *store;
	struct ts_stage *stage;
	struct stat stat;
	struct ts_stage_source source;
	char part_path[TS_STAGE_PATH];
	uint64_t look_at; /* ts_now_ns() of the next look around */
	bool is_mine;     /* the .part is what its name says, and nobody else's */
};

/* ---- joining ---------------------------------------------------------------------------- */

/* What it is now, freshly from the storage; the name of the copy says what it was. */
static int look_at_original(struct work *work)
{
	char path[TS_STAGE_PATH];
	int r = ts_sys_look(work->source.fd, AT_STATX_FORCE_SYNC, &work->stat);

	if (r < 0)
		return r;
	ts_stage_path_of(work->stage, &work->source, path);
	return strcmp(path, work->task->copy) == 0 ? ts_stage_check_path(&work->source)
						   : -ESTALE;
}

/* A descriptor of our own: the program's has a position and a way of reading ahead. */
static int open_source(struct work *work)
{
	char link[32];

	ts_format(link, sizeof(link), "/proc/self/fd/%d", work->task->source);
	work->source = (struct ts_stage_source){
		.fd = ts_sys_open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK, 0),
		.stat = &work->stat,
		.path = work->task->path,
	};
	ts_sys_close(work->task->source);
	if (work->source.fd < 0)
		return work->source.fd;
	ts_sys_sequential(work->source.fd);
	return 0;
}

static int attach(struct work *work)
{
	struct ts_attach_options options = {
		.ring_bytes = work->task->ring_bytes, .job = ts_process_id(getpid(), false)};
	enum ts_reason reason;

	ts_format(options.group, sizeof(options.group), "%s", work->task->group);
	int r = ts_store_attach(&options, &work->store, &reason);
	if (r == 0)
		r = ts_stage_attach_existing(work->task->group, &work->stage);
	if (r == 0 && work->task->asks_others)
		(void)ts_stage_use_others(work->stage, work->store);
	return r;
}

/*
 * Before we were a member the group may have ended, and another one of its name have begun:
 * from here on the name stays what it is.
 */
static int check_part(struct work *work)
{
	struct stat st;
	int r = ts_sys_fstat(work->task->part, &st);

	if (r < 0)
		return r;
	if (geteuid() != work->stage->index.uid || !ts_stage_is_named(work->part_path, &st))
		return -ECANCELED;
	work->is_mine = true;
	return 0;
}

/* ---- bytes ------------------------------------------------------------------------------ */

static int look_around(struct work *work)
{
	uint64_t now = ts_now_ns();
	struct statx unused;

	if (now < work->look_at)
		return 0;
	work->look_at = now + LOOK_NS;
	if (!ts_ledger_has_live_job(ts_store_ledger(work->store), 0))
		return -ECANCELED;
	return ts_stage_look(&work->source, AT_STATX_DONT_SYNC, &unused);
}

static int read_range(struct work *work, char *to, uint64_t at, uint64_t bytes)
{
	int r = 0;

	for (uint64_t done = 0; done < bytes && r == 0; done += READ_BYTES) {
		r = look_around(work);
		if (r == 0)
			r = ts_sys_read_all(work->source.fd, to + done,
				ts_min_u64(READ_BYTES, bytes - done), at + done);
	}
	return r;
}

/* A reader of its own: what it holds open, the lock among it, ends with it and with us. */
static _Noreturn void be_reader(struct work *work, char *to, uint64_t at, uint64_t bytes)
{
	pid_t parent = getppid();

	(void)prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (parent != getppid())
		_exit(1);
	_exit(-read_range(work, to, at, bytes));
}

/* Its error, or that it was killed. */
static int wait_for(pid_t reader)
{
	int status = 0;

	while (waitpid(reader, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return WIFEXITED(status) ? -WEXITSTATUS(status) : -ECANCELED;
}

/*
 * Storage answers late, so several parts of a chunk are asked for at once: by processes, as
 * threads would need a newer C library than the host's.  One that cannot be had is not missed.
 */
static int read_chunk(struct work *work, char *to, uint64_t at, uint64_t bytes)
{
	pid_t readers[READERS];
	int r = 0;

	for (uint64_t i = 0; i < READERS; i++) {
		uint64_t from = ts_min_u64(i * PIECE, bytes);
		uint64_t length = ts_min_u64(PIECE, bytes - from);
		readers[i] = i + 1 < READERS && length > 0 ? fork() : -1;
		if (readers[i] == 0)
			be_reader(work, to + from, at + from, length);
		if (readers[i] < 0 && r == 0)
			r = read_range(work, to + from, at + from, length);
	}
	for (int i = 0; i < READERS; i++) {
		int error = readers[i] > 0 ? wait_for(readers[i]) : 0;
		r = r == 0 ? error : r;
	}
	return r;
}

/* Read @range of the original. */
static int read_piece(struct work *work, const struct ts_stage_range *range)
{
	char *map = mmap(NULL, range->bytes, PROT_READ | PROT_WRITE, MAP_SHARED, range->part,
		(off_t)range->at);

	if (map == MAP_FAILED)
		return -ENOMEM;
	int r = look_around(work);
	if (r == 0)
		r = read_chunk(work, map, range->at, range->bytes);
	munmap(map, range->bytes);
	return r;
}

/*
 * As for small files: no buffer of ours, and EFAULT instead of a signal.  But through the page
 * cache, also of FUSE: a program that reads the same file now and the stager then ask the
 * storage once for both.
 */
static int copy_chunk(struct work *work, uint64_t at, uint64_t bytes)
{
	const struct ts_stage_range range = {.part = work->task->part,
		.piece = (uint32_t)(at / TS_STAGER_CHUNK),
		.at = at,
		.bytes = bytes};
	struct ts_stage_errand errand;
	int r = ts_sys_fallocate(range.part, at, bytes);

	if (r < 0)
		return r;
	TS_KILLPOINT(stager_allocated);
	r = ts_stage_ask_others(work->stage, &work->source, &range, &errand);
	if (r != 0)
		return r < 0 ? r : 0;
	r = read_piece(work, &range);
	/* Nobody waits for the end of the file to hand this piece over, so it is seen to now.
	 */
	if (r == 0 && errand.is_won)
		r = ts_stage_check(&work->source);
	ts_stage_tell_others(work->stage, &errand, r == 0);
	return r;
}

static int raise_mark(const struct work *work, uint64_t done)
{
	int64_t n = ts_sys_pwrite(work->task->part, &done, sizeof(done), work->task->bytes);

	return n < 0 ? (int)n : n == sizeof(done) ? 0 : -ENOSPC;
}

/* How many bytes are there; whatever the mark says, whole chunks within the file. */
static uint64_t read_mark(const struct work *work)
{
	uint64_t done = 0;

	if (ts_sys_pread(work->task->part, &done, sizeof(done), work->task->bytes) !=
			sizeof(done) ||
		done > work->task->bytes ||
		(done % TS_STAGER_CHUNK != 0 && done != work->task->bytes))
		return 0;
	return done;
}

/* GROWING -> FILLED. */
static int fill(struct work *work)
{
	uint64_t bytes = work->task->bytes;
	struct stat st;
	int r = ts_sys_fstat(work->task->part, &st);

	if (r < 0 || (uint64_t)st.st_size == bytes)
		return r;
	if ((uint64_t)st.st_size != bytes + TS_STAGER_MARK)
		return -EINVAL;
	for (uint64_t at = read_mark(work); at < bytes && r == 0;) {
		uint64_t chunk = ts_min_u64(TS_STAGER_CHUNK, bytes - at);
		if (at % ROOM_STEP == 0)
			r = ts_stage_index_recheck(&work->stage->index);
		if (r == 0)
			r = copy_chunk(work, at, chunk);
		TS_KILLPOINT(stager_chunk);
		at += chunk;
		if (r == 0)
			r = raise_mark(work, at);
		TS_KILLPOINT(stager_marked);
	}
	if (r == 0)
		r = ts_sys_ftruncate(work->task->part, bytes);
	TS_KILLPOINT(stager_filled);
	return r;
}

/* ---- all of it -------------------------------------------------------------------------- */

static int make_copy(struct work *work)
{
	struct statx attributes;
	struct ts_stage_attributes was;
	struct stat st = {.st_ino = 0};
	int r = ts_stage_look(&work->source, AT_STATX_DONT_SYNC, &attributes);

	if (r == 0)
		r = fill(work);
	if (r == 0)
		r = ts_stage_check(&work->source);
	if (r == 0) {
		ts_stage_attributes_of(&attributes, &was);
		r = ts_stage_finish(work->stage, work->task->path, work->task->part, &was);
	}
	if (r == 0)
		r = ts_sys_fstat(work->task->part, &st);
	if (r < 0)
		return r;
	ts_stage_index_confirm(&work->stage->index, st.st_ino);
	r = ts_sys_rename(work->part_path, work->task->copy);
	TS_KILLPOINT(stage_renamed);
	return r;
}

static void count(const struct work *work)
{
	struct ts_ledger *ledger = ts_store_ledger(work->store);
	int dataset = ts_ledger_find_dataset(ledger, work->task->dataset);

	ts_stage_index_count(&work->stage->index);
	if (dataset >= 0)
		ts_add_relaxed(&ts_ledger_dataset(ledger, (uint32_t)dataset)
					->kinds[TS_KIND_BYTES]
					.produced,
			1);
}

static int run(struct work *work)
{
	int r = open_source(work);
	int joined = attach(work);

	TS_KILLPOINT(stager_joined);
	if (joined == 0)
		joined = check_part(work);
	if (joined < 0)
		return joined;
	/* The slot ends with us. */
	if (r == 0 && !has_slot(work->stage, F_OFD_SETLK))
		r = -ECANCELED;
	if (r == 0)
		r = look_at_original(work);
	return r < 0 ? r : make_copy(work);
}

/* What the next one would find as well is left to nobody for a while. */
static void give_up(const struct work *work, int error)
{
	struct ts_stage_head *head = work->stage->index.head;

	(void)ts_sys_unlink(work->part_path);
	ts_stage_index_return(&work->stage->index, work->task->bytes);
	if (error != -ESTALE)
		ts_write_relaxed(&head->stager_pause, ts_now_ns() + TS_STAGER_PAUSE_NS);
}

/* In a process of its own, whose stack is no host's. */
#pragma GCC diagnostic ignored "-Wframe-larger-than="
int ts_stager_run(const struct ts_stager_task *task)
{
	struct work work = {.task = task, .source = {.fd = -1}};

	ts_format(work.part_path, sizeof(work.part_path), "%s.part", task->copy);
	int r = run(&work);
	if (r == 0)
		count(&work);
	else if (work.is_mine && r != -ECANCELED)
		give_up(&work, r);
	ts_stage_release_part(task->part);
	if (work.source.fd >= 0)
		ts_sys_close(work.source.fd);
	ts_stage_destroy(work.stage);
	ts_store_detach(work.store);
	return r;
}

/* ---- its program ------------------------------------------------------------------------ */

/*
 * tsshim-stager as a stager, started by start() above and never by a person:
 *
 *	tsshim-stager GROUP DATASET RING-BYTES ORIGINAL COPY BYTES OTHERS
 *
 * with the original as descriptor 3 and the locked .part as 4.  OTHERS is 1 where other nodes
 * are asked, else 0.
 */
int ts_stager_main(int argc, char **argv)
{
	if (argc != 8) {
		static const char text[] = "tsshim-stager is started by libtsshim.so only\n";
		(void)!write(STDERR_FILENO, text, sizeof(text) - 1);
		return 2;
	}
	const struct ts_stager_task task = {
		.group = argv[1],
		.dataset = argv[2],
		.ring_bytes = strtoull(argv[3], NULL, 10),
		.path = argv[4],
		.copy = argv[5],
		.bytes = strtoull(argv[6], NULL, 10),
		.asks_others = argv[7][0] == '1',
		.source = TS_HELPER_FD,
		.part = TS_HELPER_FD + 1,
	};
	return ts_stager_run(&task) == 0 ? 0 : 1;
}
