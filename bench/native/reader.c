/* SPDX-License-Identifier: MIT */
/*
 * Reads files on command, each from open to close, and says how long it took.
 *
 *	reader LIST                     LIST: a file with one path per line
 *	stdin:  read FIRST COUNT SEED   stdout: one line of JSON
 *	        sum FIRST COUNT SEED    the same, with a sum over all bytes
 *	        open FIRST COUNT SEED   only open and close
 *	        jump FIRST COUNT SEED   COUNT reads of 4 KiB anywhere in the file number FIRST
 *
 * Files are read in an order that SEED decides (0: as they are listed), on which the sum does
 * not depend.
 */
#include "common.h"

#include <fcntl.h>
#include <inttypes.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER ((size_t)1 << 20)
#define PIECE  4096

struct work {
	char **list;
	size_t files;
	uint64_t *buffer;
	uint64_t bytes, sum;
};

/* Xorshift: an order, and places, that differ from job to job. */
static uint64_t draw(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

/* FNV-1a over 64-bit words: only to see that bytes are the same. */
static uint64_t sum_of(const struct work *work, size_t bytes, uint64_t sum)
{
	for (size_t i = 0; i < bytes / 8; i++)
		sum = (sum ^ work->buffer[i]) * UINT64_C(0x100000001b3);
	return sum ^ bytes;
}

enum what { READ, SUM, OPEN };

static void read_one(struct work *work, const char *path, enum what what)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	uint64_t sum = UINT64_C(0xcbf29ce484222325);
	ssize_t got;

	if (fd < 0)
		die(path);
	while ((got = what == OPEN ? 0 : read(fd, work->buffer, BUFFER)) > 0) {
		work->bytes += (uint64_t)got;
		if (what == SUM)
			sum = sum_of(work, (size_t)got, sum);
	}
	if (got < 0)
		die(path);
	close(fd);
	work->sum += sum;
}

static void read_files(
	struct work *work, size_t first, size_t count, uint64_t seed, enum what what)
{
	char **order = malloc(count * sizeof(*order) + 1);

	if (order == NULL || first + count > work->files)
		die("files");
	memcpy(order, work->list + first, count * sizeof(*order));
	for (size_t i = count; seed != 0 && i > 1; i--) {
		size_t other = draw(&seed) % i;
		char *path = order[i - 1];
		order[i - 1] = order[other];
		order[other] = path;
	}
	for (size_t i = 0; i < count; i++)
		read_one(work, order[i], what);
	free(order);
}

static void jump(struct work *work, size_t first, size_t count, uint64_t seed)
{
	struct stat status;
	int fd = first < work->files ? open(work->list[first], O_RDONLY | O_CLOEXEC) : -1;

	if (fd < 0 || fstat(fd, &status) != 0 || status.st_size < PIECE || seed == 0)
		die("file");
	uint64_t pieces = (uint64_t)status.st_size / PIECE;
	for (size_t i = 0; i < count; i++) {
		if (pread(fd, work->buffer, PIECE, (off_t)(draw(&seed) % pieces * PIECE)) !=
			PIECE)
			die("pread");
		work->bytes += PIECE;
		work->sum += work->buffer[0];
	}
	close(fd);
}

int main(int argc, char **argv)
{
	struct work work = {.buffer = malloc(BUFFER)};
	char line[256], what[8];
	size_t first, count;
	uint64_t seed;

	if (argc != 2 || work.buffer == NULL)
		die("usage: reader LIST");
	work.list = read_list(argv[1], &work.files);
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) != NULL) {
		if (sscanf(line, "%7s %zu %zu %" SCNu64, what, &first, &count, &seed) != 4)
			die("question");
		work.bytes = work.sum = 0;
		uint64_t wall = now(CLOCK_MONOTONIC), cpu = now(CLOCK_PROCESS_CPUTIME_ID);
		if (strcmp(what, "jump") == 0)
			jump(&work, first, count, seed);
		else
			read_files(&work, first, count, seed,
				strcmp(what, "sum") == 0    ? SUM
				: strcmp(what, "open") == 0 ? OPEN
							    : READ);
		printf("{\"count\": %zu, \"bytes\": %" PRIu64 ", \"sum\": \"%016" PRIx64
		       "\", \"wall_ns\": %" PRIu64 ", \"cpu_ns\": %" PRIu64 "}\n",
			count, work.bytes, work.sum, now(CLOCK_MONOTONIC) - wall,
			now(CLOCK_PROCESS_CPUTIME_ID) - cpu);
		fflush(stdout);
	}
	return 0;
}
