/* SPDX-License-Identifier: MIT */
/*
 * Stands in for libFuzzer where it is not used: runs every file of a folder and a fixed
 * number of pseudo-random mutations of each.  The same ones in every run, so that what
 * fails once fails again; `-f FILE` runs one input that was found elsewhere.
 *
 *	replay [-n MUTATIONS] [-t SECONDS] FOLDER
 *	replay -f FILE
 */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define INPUT_MAX 4096

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A guard: no input takes a hundredth of it. SIGALRM ends the process and so fails the test. */
#define INPUT_SECONDS 60

static uint64_t state;

/* xorshift64*: any sequence will do, as long as it is always the same. */
static uint64_t next_random(void)
{
	state ^= state >> 12;
	state ^= state << 25;
	state ^= state >> 27;
	return state * UINT64_C(0x2545f4914f6cdd1d);
}

static void run_one(const uint8_t *data, size_t size)
{
	/* A copy of exact size lets the sanitizers see reads past the end. */
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		abort();
	memcpy(copy, data, size);
	alarm(INPUT_SECONDS);
	LLVMFuzzerTestOneInput(copy, size);
	alarm(0);
	free(copy);
}

static size_t read_input(const char *path, uint8_t *buffer)
{
	FILE *file = fopen(path, "rb");

	if (!file) {
		perror(path);
		exit(2);
	}
	size_t size = fread(buffer, 1, INPUT_MAX, file);
	fclose(file);
	return size;
}

/* Flip, overwrite, repeat, cut or grow: what libFuzzer does first, too. */
static size_t mutate(uint8_t *data, size_t size)
{
	static const uint8_t favourites[] = {0, 1, 2, 3, 0x3f, 0x40, 0x7f, 0x80, 0xfe, 0xff};

	for (uint64_t i = next_random() % 8 + 1; i > 0; i--) {
		uint64_t r = next_random();
		size_t at = size ? r % size : 0;
		switch ((r >> 32) % 5) {
		case 0:
			if (size)
				data[at] ^= (uint8_t)(1u << (r >> 40) % 8);
			break;
		case 1:
			if (size)
				data[at] = (uint8_t)next_random();
			break;
		case 2:
			if (size)
				data[at] = favourites[(r >> 40) % sizeof(favourites)];
			break;
		case 3:
			size = at;
			break;
		default:
			for (int n = 0; n < 16 && size < INPUT_MAX; n++)
				data[size++] = (uint8_t)next_random();
		}
	}
	return size;
}

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

/* Names of the files in @folder, sorted: the order must not depend on the file system. */
static size_t list_folder(const char *folder, char **names, size_t room)
{
	DIR *dir = opendir(folder);
	struct dirent *entry;
	size_t count = 0;

	if (!dir) {
		perror(folder);
		exit(2);
	}
	while (count < room && (entry = readdir(dir))) {
		if (entry->d_name[0] != '.')
			names[count++] = strdup(entry->d_name);
	}
	closedir(dir);
	qsort(names, count, sizeof(*names), by_name);
	return count;
}

int main(int argc, char **argv)
{
	static uint8_t seed[INPUT_MAX], work[INPUT_MAX];
	static char *names[1024];
	unsigned long mutations = 200, seconds = 8, ran = 0;
	int option;

	while ((option = getopt(argc, argv, "n:t:f:")) != -1) {
		if (option == 'n') {
			mutations = strtoul(optarg, NULL, 10);
		} else if (option == 't') {
			seconds = strtoul(optarg, NULL, 10);
		} else if (option == 'f') {
			run_one(seed, read_input(optarg, seed));
			return 0;
		} else {
			return 2;
		}
	}
	if (optind + 1 != argc) {
		fprintf(stderr, "usage: %s [-n MUTATIONS] [-t SECONDS] FOLDER | -f FILE\n",
			argv[0]);
		return 2;
	}
	size_t count = list_folder(argv[optind], names, sizeof(names) / sizeof(names[0]));
	if (count == 0) {
		fprintf(stderr, "%s: no inputs\n", argv[optind]);
		return 1;
	}
	time_t start = time(NULL);
	for (size_t i = 0; i < count; i++) {
		char path[4096];
		snprintf(path, sizeof(path), "%s/%s", argv[optind], names[i]);
		size_t size = read_input(path, seed);
		run_one(seed, size);
		ran++;
		state = UINT64_C(0x9e3779b97f4a7c15) + i;
		for (unsigned long n = 0; n < mutations; n++) {
			/* Every file has its turn; only mutations are cut on a slow machine. */
			if (time(NULL) - start >= (time_t)seconds)
				break;
			memcpy(work, seed, size);
			run_one(work, mutate(work, size));
			ran++;
		}
		free(names[i]);
	}
	printf("%lu inputs, %zu of them files, %ld s\n", ran, count,
		(long)(time(NULL) - start));
	return 0;
}
