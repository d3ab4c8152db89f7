/* SPDX-License-Identifier: MIT */
/* What the small programs of the benchmarks have in common. */
#ifndef TS_BENCH_COMMON_H
#define TS_BENCH_COMMON_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static inline void die(const char *what)
{
	perror(what);
	exit(1);
}

/** Nanoseconds of @clock. */
static inline uint64_t now(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/** The lines of the file @path, each the path of a file; the caller's for good. */
static inline char **read_list(const char *path, size_t *ret_count)
{
	FILE *file = fopen(path, "r");
	char **list = NULL;
	size_t count = 0;
	char line[4096];

	if (file == NULL)
		die(path);
	while (fgets(line, sizeof(line), file) != NULL) {
		line[strcspn(line, "\n")] = '\0';
		if (count % 1024 == 0)
			list = realloc(list, (count + 1024) * sizeof(*list));
		if (list == NULL || (list[count] = strdup(line)) == NULL)
			die("memory");
		count++;
	}
	fclose(file);
	*ret_count = count;
	return list;
}

#endif
