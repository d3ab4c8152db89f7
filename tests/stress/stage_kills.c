/* SPDX-License-Identifier: MIT */
/*
 * At every step of the making of a copy of a file (leader/files/stage.h), a process dies (-k)
 * or stops and is woken (-s) while others open the same files.
 *
 *	stage_kills -k|-s [-c visit] [name...]
 *
 * Whoever gets a copy must find in it what the original holds, no copy may be made twice but by
 * those who take over from the dead, nobody may wait longer than its deadline, and in the end
 * the room that is counted must be the room that is taken.  Exit status: 0, 1, or 77 without
 * shared memory.
 */
#include "load.h"
#include "wound.h"

#include "leader/files/index_private.h"
#include "leader/files/stage.h"
#include "shim/atomic.h"
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

#define FILES      6
#define FILE_BYTES 20000u
#define PEERS      4
#define ROUNDS     3
#define WAIT_NS    UINT64_C(200000000)
#define CAPACITY   (UINT64_C(64) << 20)

/* Beyond the deadline: a guard against waiting for ever. */
#define LATE_NS UINT64_C(30000000000)

static const char *const points[] = {
#define TS_X(name) #name,
	TS_STAGE_KILLPOINTS(TS_X)
#undef TS_X
};

static char group[32], folder[64];

/** What the children did, for the parent. */
struct tally {
	_Atomic uint32_t fetched, passed, late;
};

static struct tally *tally;

static void path_of(int file, char *path)
{
	snprintf(path, 96, "%s/%d", folder, file);
}

static bool make_files(void)
{
	char path[96], bytes[FILE_BYTES];

	for (int i = 0; i < FILES; i++) {
		path_of(i, path);
		memset(bytes, 'a' + i, sizeof(bytes));
		int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
		if (fd < 0 || write(fd, bytes, sizeof(bytes)) != (ssize_t)sizeof(bytes))
			return false;
		close(fd);
	}
	return true;
}

static void remove_files(void)
{
	char path[TS_PATH_BYTES];

	if (ts_object_path(path, sizeof(path), group, "ledger") == 0)
		unlink(path);

	for (int i = 0; i < FILES; i++) {
		path_of(i, path);
		unlink(path);
	}
	rmdir(folder);
}

static bool holds(int fd, int file)
{
	char bytes[FILE_BYTES + 1];

	if (pread(fd, bytes, sizeof(bytes), 0) != FILE_BYTES)
		return false;
	for (unsigned i = 0; i < FILE_BYTES; i++)
		if (bytes[i] != 'a' + file)
			return false;
	return true;
}

/* Open the copy of file @file; false when what it holds is wrong. */
static bool open_one(struct ts_stage *stage, int file)
{
	struct ts_stage_source source;
	struct ts_stage_copy copy;
	struct stat st;
	char path[96];

	path_of(file, path);
	int fd = open(path, O_RDONLY);
	if (fd < 0 || fstat(fd, &st) < 0)
		return false;
	source = (struct ts_stage_source){.fd = fd, .stat = &st, .path = path};
	uint64_t start = ts_now_ns();
	int r = ts_stage_open(stage, &source, O_RDONLY, WAIT_NS, &copy);
	if (ts_now_ns() - start > WAIT_NS + LATE_NS)
		ts_add_relaxed(&tally->late, 1);
	close(fd);
	if (r < 0) {
		ts_add_relaxed(&tally->passed, 1);
		if (r != -EBUSY)
			fprintf(stderr, "file %d: %s\n", file, strerror(-r));
		return r == -EBUSY;
	}
	if (copy.fetched)
		ts_add_relaxed(&tally->fetched, 1);
	bool right = holds(copy.fd, file);
	close(copy.fd);
	return right;
}

static int share(void)
{
	struct ts_store *store;
	struct ts_stage *stage;

	if (load_attach(group, WOUND_RING_BYTES, &store) < 0 ||
		ts_stage_attach(store, group, NULL, CAPACITY, &stage) < 0)
		return EXIT_UNATTACHED;
	int status = 0;
	for (int round = 0; round < ROUNDS; round++)
		for (int i = 0; i < FILES; i++)
			if (!open_one(stage, (i + (int)getpid()) % FILES))
				status = EXIT_WRONG;
	ts_stage_destroy(stage);
	ts_store_detach(store);
	return status;
}

static int run_victim(int point)
{
	wound_arm(points[point]);
	return share();
}

static int run_peer(int unused)
{
	return share();
}

/* Whether the room that is counted is what the copies take, and no .part is left. */
static bool is_tidy(struct ts_stage *stage)
{
	char pattern[TS_STAGE_STEM + 8];
	glob_t found;
	bool tidy = true;

	snprintf(pattern, sizeof(pattern), "%s*", stage->index.stem);
	if (glob(pattern, 0, NULL, &found) != 0)
		return false;
	for (size_t i = 0; i < found.gl_pathc; i++)
		tidy &= !strstr(found.gl_pathv[i], ".part");
	tidy &= found.gl_pathc == FILES;
	if (!tidy)
		fprintf(stderr, "%zu files of copies, or a part\n", found.gl_pathc);
	globfree(&found);
	return tidy;
}

/* The one step at which a death costs room: it was counted, and nothing shows for what. */
static uint64_t lost_at(const char *point)
{
	return wound_mode == 'k' && strcmp(point, "stage_admitted") == 0 ? FILE_BYTES : 0;
}

static bool has_counted(struct ts_stage *stage, const char *point, uint64_t before)
{
	uint64_t used = ts_load_relaxed(&stage->index.head->used) - before;
	uint64_t wanted = (uint64_t)FILES * FILE_BYTES + lost_at(point);

	if (used != wanted)
		fprintf(stderr, "%llu bytes counted, not %llu\n", (unsigned long long)used,
			(unsigned long long)wanted);
	return used == wanted;
}

static bool try_point(int point)
{
	struct ts_store *store;
	struct ts_stage *stage;

	memset(tally, 0, sizeof(*tally));
	if (!make_files() || load_attach(group, WOUND_RING_BYTES, &store) < 0 ||
		ts_stage_attach(store, group, NULL, CAPACITY, &stage) < 0)
		return false;
	uint64_t before = ts_load_relaxed(&stage->index.head->used);
	bool good = wound_beside_peers(run_victim, point, run_peer, PEERS);
	good &= is_tidy(stage) && has_counted(stage, points[point], before);
	uint32_t fetched = ts_load_relaxed(&tally->fetched),
		 late = ts_load_relaxed(&tally->late);
	uint32_t passed = ts_load_relaxed(&tally->passed);
	if (fetched > FILES || late > 0 || (wound_mode == 'k' && passed > 0)) {
		fprintf(stderr, "%u fetched, %u passed, %u late\n", fetched, passed, late);
		good = false;
	}
	ts_stage_destroy(stage);
	ts_store_detach(store);
	return good;
}

int main(int argc, char **argv)
{
	int status;

	tally = wound_begin(argc, argv, "stage-kills", sizeof(*tally), group, &status);
	if (!tally)
		return status;
	snprintf(folder, sizeof(folder), "/var/tmp/tsshim-stage-%d", (int)getpid());
	if (mkdir(folder, 0700) < 0)
		return 1;
	int failed = wound_each(points, TS_ARRAY_SIZE(points), argv + optind, try_point);
	remove_files();
	return failed;
}
