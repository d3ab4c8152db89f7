/* SPDX-License-Identifier: MIT */
/*
 * At every step of the copying of a large file (leader/files/stager.h), a stager dies (-k) or
 * stops and is woken (-s) while others open the file and want to go on with it.
 *
 *	stager_kills -k|-s [-c visit] [name...]
 *
 * Whoever gets a copy must find in it what the original holds; who takes over from the dead
 * goes on where they were; and in the end there is one copy, no .part, and the room that is
 * counted is the room that is taken.  Exit status: 0, 1, or 77 without shared memory.
 */
#include "load.h"
#include "wound.h"

#include "leader/group/ledger.h"
#include "leader/files/index_private.h"
#include "leader/files/stage_private.h"
#include "leader/files/stager.h"
#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <glob.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* Three chunks, the last one small. */
#define FILE_BYTES (2 * TS_STAGER_CHUNK + 12345)
#define PEERS      3
#define NAP_US     20000
#define GUARD_NS   UINT64_C(30000000000) /* a busy machine comes to it later */
#define CAPACITY   (UINT64_C(64) << 20)

static const char *const all[] = {
#define TS_X(name) #name,
	TS_STAGE_KILLPOINTS(TS_X) TS_STAGER_KILLPOINTS(TS_X)
#undef TS_X
};

/* Steps of the copying of small files, and one behind which another program goes on. */
static const char *const others[] = {
	"stage_admitted", "stage_allocated", "stage_asked", "stage_filled", "stager_started"};

static const char *points[TS_ARRAY_SIZE(all)]; /* all but the others */
static char group[32], folder[64], path[96];

/** What the children did, for the parent. */
struct tally {
	_Atomic uint32_t completed, gone_on;
};

static struct tally *tally;

static unsigned char byte_at(uint64_t at)
{
	return (unsigned char)(at * 31 >> 7 ^ at);
}

static bool make_file(void)
{
	unsigned char *bytes = malloc(FILE_BYTES);
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	for (uint64_t i = 0; bytes && i < FILE_BYTES; i++)
		bytes[i] = byte_at(i);
	bool good = bytes && fd >= 0 && write(fd, bytes, FILE_BYTES) == (ssize_t)FILE_BYTES;
	close(fd);
	free(bytes);
	return good;
}

static bool holds(int fd)
{
	const unsigned char *map = mmap(NULL, FILE_BYTES, PROT_READ, MAP_SHARED, fd, 0);
	struct stat st;
	bool good = map != MAP_FAILED && fstat(fd, &st) == 0 && st.st_size == FILE_BYTES;

	for (uint64_t i = 0; good && i < FILE_BYTES; i++)
		good = map[i] == byte_at(i);
	if (map != MAP_FAILED)
		munmap((void *)map, FILE_BYTES);
	return good;
}

/* ---- what the processes do -------------------------------------------------------------- */

/* Errors: -EAGAIN the group's lock is held for longer than one waits; any other is wrong. */
static int attach(struct ts_store **ret_store, struct ts_stage **ret_stage)
{
	int r = load_attach(group, WOUND_RING_BYTES, ret_store);

	if (r < 0)
		return r == -EAGAIN ? r : -ENOTCONN;
	r = ts_stage_attach(*ret_store, group, NULL, CAPACITY, ret_stage);
	if (r < 0)
		ts_store_detach(*ret_store);
	return r == 0 || r == -EAGAIN ? r : -ENOTCONN;
}

static bool open_source(struct ts_stage_source *source, struct stat *st)
{
	*source = (struct ts_stage_source){
		.fd = open(path, O_RDONLY | O_CLOEXEC), .stat = st, .path = path};
	return source->fd >= 0 && fstat(source->fd, st) == 0;
}

/* As a stager that was given @part; it closes both descriptors. */
static int be_stager(const struct ts_stage_source *source, const char *copy, int part)
{
	struct ts_stager_task task = {.group = group,
		.dataset = "files",
		.ring_bytes = WOUND_RING_BYTES,
		.path = path,
		.copy = copy,
		.bytes = FILE_BYTES,
		.source = source->fd,
		.part = part};
	struct stat st;
	uint64_t mark = 0;

	if (fstat(part, &st) == 0 && (uint64_t)st.st_size == FILE_BYTES + TS_STAGER_MARK &&
		pread(part, &mark, sizeof(mark), FILE_BYTES) == sizeof(mark) && mark > 0)
		ts_add_relaxed(&tally->gone_on, 1);
	int r = ts_stager_run(&task);
	if (r == 0)
		ts_add_relaxed(&tally->completed, 1);
	return r;
}

/* Take the .part as a program does, leave the group, be its stager. */
static int take_and_copy(void)
{
	struct ts_stage_source source;
	struct ts_store *store;
	struct ts_stage *stage;
	struct stat st;
	char copy[TS_STAGE_PATH];
	int part = -1;
	int r = attach(&store, &stage);

	if (r < 0 || !open_source(&source, &st))
		return r < 0 ? r : -ENOTCONN;
	ts_stage_path_of(stage, &source, copy);
	r = ts_stager_take(stage, &source, copy, &part);
	ts_stage_destroy(stage);
	ts_store_detach(store);
	return r < 0 ? r : be_stager(&source, copy, part);
}

static int run_victim(int point)
{
	wound_arm(points[point]);
	int r = take_and_copy();
	/* Stopped before it had the lock, it finds that others were faster. */
	return r == 0 || r == -EBUSY || r == -EAGAIN ? 0 : EXIT_WRONG;
}

/* 1: there is a copy, 0: none yet, -1: it is wrong, or opening it fails otherwise. */
static int look_for_copy(void)
{
	struct ts_stage_source source;
	struct ts_stage_copy copy;
	struct ts_store *store;
	struct ts_stage *stage;
	struct stat st;

	int r = attach(&store, &stage);

	if (r < 0 || !open_source(&source, &st))
		return r == -EAGAIN ? 0 : -1;
	r = ts_stage_open(stage, &source, O_RDONLY, 0, &copy);
	int found = r == 0 ? (holds(copy.fd) ? 1 : -1) : r == -EFBIG ? 0 : -1;
	if (r == 0)
		close(copy.fd);
	close(source.fd);
	ts_stage_destroy(stage);
	ts_store_detach(store);
	return found;
}

static int run_peer(int unused)
{
	for (uint64_t end = ts_now_ns() + GUARD_NS; ts_now_ns() < end;) {
		int found = look_for_copy();
		if (found != 0)
			return found > 0 ? 0 : EXIT_WRONG;
		int r = take_and_copy();
		if (r == -EBUSY && wound_mode == 's')
			return 0; /* the stopped one has it */
		if (r != 0 && r != -EBUSY && r != -EAGAIN)
			return EXIT_WRONG;
		usleep(NAP_US);
	}
	return EXIT_WRONG;
}

/* ---- points ----------------------------------------------------------------------------- */

static bool is_tidy(const struct ts_stage *stage, const char *point, uint64_t before)
{
	/* Killed between counting room and showing it, it leaves that much unused. */
	uint64_t lost =
		wound_mode == 'k' && strcmp(point, "stager_admitted") == 0 ? FILE_BYTES : 0;
	uint64_t used = ts_load_relaxed(&stage->index.head->used) - before;
	char pattern[TS_STAGE_STEM + 2];
	glob_t found;

	snprintf(pattern, sizeof(pattern), "%s*", stage->index.stem);
	bool one = glob(pattern, 0, NULL, &found) == 0 && found.gl_pathc == 1 &&
		   !strstr(found.gl_pathv[0], ".part");
	globfree(&found);
	if (!one || used != FILE_BYTES + lost)
		fprintf(stderr, "%s, %llu bytes counted\n", one ? "one copy" : "not one copy",
			(unsigned long long)used);
	return one && used == FILE_BYTES + lost;
}

/* Behind these at least one chunk was there and marked, which nobody copies again. */
static bool goes_on(const char *point)
{
	return wound_mode != 'k' || strcmp(point, "stager_marked") != 0 ||
	       ts_load_relaxed(&tally->gone_on) == 1;
}

static bool try_point(int index)
{
	const char *point = points[index];
	struct ts_store *store;
	struct ts_stage *stage;

	memset(tally, 0, sizeof(*tally));
	if (!make_file() || load_attach(group, WOUND_RING_BYTES, &store) < 0 ||
		ts_stage_attach(store, group, NULL, CAPACITY, &stage) < 0)
		return false;
	/* A stager works only while there is a job. */
	uint64_t self = ts_process_id(getpid(), false);
	(void)ts_ledger_find_job(ts_store_ledger(store), self);
	uint64_t before = ts_load_relaxed(&stage->index.head->used);
	bool good = wound_beside_peers(run_victim, index, run_peer, PEERS);
	good &= is_tidy(stage, point, before) && goes_on(point);
	uint32_t completed = ts_load_relaxed(&tally->completed);
	if (completed > 1 || (completed == 0 && strcmp(point, "stage_renamed") != 0)) {
		fprintf(stderr, "completed %u times\n", completed);
		good = false;
	}
	ts_ledger_end_job(ts_store_ledger(store), self);
	ts_stage_destroy(stage);
	ts_store_detach(store);
	return good;
}

static bool is_other(const char *point)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(others); i++)
		if (strcmp(others[i], point) == 0)
			return true;
	return false;
}

static size_t choose_points(void)
{
	size_t count = 0;

	for (size_t i = 0; i < TS_ARRAY_SIZE(all); i++)
		if (!is_other(all[i]))
			points[count++] = all[i];
	return count;
}

static void remove_files(void)
{
	char ledger[TS_PATH_BYTES];

	if (ts_object_path(ledger, sizeof(ledger), group, "ledger") == 0)
		unlink(ledger);
	unlink(path);
	rmdir(folder);
}

int main(int argc, char **argv)
{
	int status;

	tally = wound_begin(argc, argv, "stager-kills", sizeof(*tally), group, &status);
	if (!tally)
		return status;
	snprintf(folder, sizeof(folder), "/var/tmp/tsshim-stager-%d", (int)getpid());
	snprintf(path, sizeof(path), "%s/file", folder);
	if (mkdir(folder, 0700) < 0)
		return 1;
	int failed = wound_each(points, choose_points(), argv + optind, try_point);
	remove_files();
	return failed;
}
