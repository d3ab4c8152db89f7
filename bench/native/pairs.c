/* SPDX-License-Identifier: MIT */
/*
 * Reads several files in turn, in small pieces, so that whatever happens to the machine
 * meanwhile happens to all of them; says how long each took.
 *
 *	pairs LIST                      LIST: a file with one path per line
 *	stdin:  front PASSES SEED N...  stdout: one line of JSON.  The files number N... from
 *	                                front to end, PASSES times
 *	        jump COUNT SEED N...    COUNT reads of 4 KiB each, at the same places in all
 *	        open COUNT SEED N...    opened and closed COUNT times
 *
 * Who is first changes with every piece.  "ns" is what to compare, by a clock on the wall,
 * which also sees waiting.  Of front it is the sum over the pieces of 1 MiB of the shortest
 * time that the piece took in any pass: once in a few passes each was left alone.  Of jump and
 * open, where no piece is like another, it is the median.  "wall_ns" and "cpu_ns" are sums of
 * everything.  "copy" says that what was opened is a copy of the group's: its name, which the
 * kernel is asked for past the C library, is one of tsshim's.
 */
#include "common.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define BUFFER ((size_t)1 << 20)
#define PIECE  4096
#define BATCH  16 /* jumps between two looks at the clock */
#define FILES  4

struct file {
	const char *path;
	int fd;
	bool is_copy;
	uint64_t wall, cpu, result;
	uint64_t *times; /* one for each piece */
};

static char *buffer;

/* Xorshift. */
static uint64_t draw(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static uint64_t median(uint64_t *times, size_t count)
{
	qsort(times, count, sizeof(*times), by_value);
	return times[count / 2];
}

static void open_one(struct file *file)
{
	char link[32], name[4096] = "";

	file->fd = open(file->path, O_RDONLY | O_CLOEXEC);
	if (file->fd < 0)
		die(file->path);
	snprintf(link, sizeof(link), "/proc/self/fd/%d", file->fd);
	if (syscall(SYS_readlink, link, name, sizeof(name) - 1) < 0)
		die(link);
	file->is_copy = strstr(name, "/tsshim.") != NULL;
}

static uint64_t size_of(const struct file *file)
{
	struct stat status;

	if (fstat(file->fd, &status) != 0)
		die(file->path);
	return (uint64_t)status.st_size;
}

/* The files in the order of the piece number @turn: forwards, backwards, and so on. */
static struct file *next(struct file *files, size_t count, size_t turn, size_t i)
{
	return &files[turn % 2 ? count - 1 - i : i];
}

static uint64_t read_piece(struct file *file, uint64_t at, size_t bytes)
{
	uint64_t cpu = now(CLOCK_THREAD_CPUTIME_ID), wall = now(CLOCK_MONOTONIC);

	if (pread(file->fd, buffer, bytes, (off_t)at) != (ssize_t)bytes)
		die(file->path);
	wall = now(CLOCK_MONOTONIC) - wall;
	file->cpu += now(CLOCK_THREAD_CPUTIME_ID) - cpu;
	file->wall += wall;
	return wall;
}

/* All files are as large as the first one; what does not fill the buffer is left out. */
static void front(struct file *files, size_t count, size_t passes)
{
	size_t pieces = size_of(&files[0]) / BUFFER;

	for (size_t pass = 0; pass < passes; pass++)
		for (size_t piece = 0; piece < pieces; piece++)
			for (size_t i = 0; i < count; i++) {
				struct file *file = next(files, count, pass + piece, i);
				uint64_t *best = &file->times[piece];
				uint64_t took = read_piece(file, piece * BUFFER, BUFFER);
				if (pass == 0 || took < *best)
					*best = took;
			}
	for (size_t i = 0; i < count; i++)
		for (size_t piece = 0; piece < pieces; piece++)
			files[i].result += files[i].times[piece];
}

static uint64_t jump_batch(struct file *file, const uint64_t *places)
{
	uint64_t cpu = now(CLOCK_THREAD_CPUTIME_ID), wall = now(CLOCK_MONOTONIC);

	for (int i = 0; i < BATCH; i++)
		if (pread(file->fd, buffer, PIECE, (off_t)places[i]) != PIECE)
			die(file->path);
	wall = now(CLOCK_MONOTONIC) - wall;
	file->cpu += now(CLOCK_THREAD_CPUTIME_ID) - cpu;
	file->wall += wall;
	return wall;
}

static void jump(struct file *files, size_t count, size_t reads, uint64_t seed)
{
	uint64_t pieces = size_of(&files[0]) / PIECE, places[BATCH];
	size_t batches = reads / BATCH;

	for (size_t batch = 0; batch < batches; batch++) {
		for (int i = 0; i < BATCH; i++)
			places[i] = draw(&seed) % pieces * PIECE;
		for (size_t i = 0; i < count; i++) {
			struct file *file = next(files, count, batch, i);
			file->times[batch] = jump_batch(file, places);
		}
	}
	for (size_t i = 0; i < count; i++)
		files[i].result = median(files[i].times, batches) / BATCH;
}

static void open_often(struct file *files, size_t count, size_t times)
{
	for (size_t turn = 0; turn < times; turn++)
		for (size_t i = 0; i < count; i++) {
			struct file *file = next(files, count, turn, i);
			uint64_t wall = now(CLOCK_MONOTONIC);
			int fd = open(file->path, O_RDONLY | O_CLOEXEC);
			if (fd < 0)
				die(file->path);
			close(fd);
			file->times[turn] = now(CLOCK_MONOTONIC) - wall;
			file->wall += file->times[turn];
		}
	for (size_t i = 0; i < count; i++)
		files[i].result = median(files[i].times, times);
}

static void answer(const struct file *files, size_t count)
{
	for (size_t i = 0; i < count; i++)
		printf("%s{\"ns\": %" PRIu64 ", \"wall_ns\": %" PRIu64 ", \"cpu_ns\": %" PRIu64
		       ", \"copy\": %s}",
			i == 0 ? "{\"files\": [" : ", ", files[i].result, files[i].wall,
			files[i].cpu, files[i].is_copy ? "true" : "false");
	printf("]}\n");
	fflush(stdout);
}

/* The files whose numbers are in @text, open. How many. */
static size_t choose(
	const char *text, char **list, size_t known, size_t pieces, struct file files[FILES])
{
	size_t count = 0, number;
	int used;

	while (sscanf(text, "%zu%n", &number, &used) == 1) {
		if (count == FILES || number >= known)
			die("files");
		files[count] = (struct file){.path = list[number]};
		open_one(&files[count]);
		size_t most = pieces > 0 ? pieces : size_of(&files[count]) / BUFFER + 1;
		files[count].times = calloc(most, sizeof(uint64_t));
		if (files[count++].times == NULL)
			die("memory");
		text += used;
	}
	if (count == 0 || size_of(&files[0]) < BUFFER)
		die("files");
	return count;
}

int main(int argc, char **argv)
{
	char line[256], what[8];
	size_t known, amount;
	uint64_t seed;
	int used;

	if (argc != 2 || (buffer = malloc(BUFFER)) == NULL)
		die("usage: pairs LIST");
	memset(buffer, 1, BUFFER);
	char **list = read_list(argv[1], &known);
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) != NULL) {
		struct file files[FILES];
		if (sscanf(line, "%7s %zu %" SCNu64 "%n", what, &amount, &seed, &used) != 3 ||
			amount < BATCH * (what[0] == 'j') || amount == 0 || seed == 0)
			die("question");
		bool is_front = strcmp(what, "front") == 0;
		size_t count = choose(line + used, list, known, is_front ? 0 : amount, files);
		if (is_front)
			front(files, count, amount);
		else if (strcmp(what, "jump") == 0)
			jump(files, count, amount, seed);
		else
			open_often(files, count, amount);
		answer(files, count);
		for (size_t i = 0; i < count; i++) {
			close(files[i].fd);
			free(files[i].times);
		}
	}
	return 0;
}
