/* SPDX-License-Identifier: MIT */
/*
 * Another preload that stands in front of the same calls, counts them, and opens files in its
 * constructor, which runs before ours when it comes behind us.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

EXPORT int open(const char *path, int flags, ...);
EXPORT int openat(int directory, const char *path, int flags, ...);
EXPORT FILE *fopen(const char *path, const char *mode);
EXPORT FILE *freopen(const char *path, const char *mode, FILE *stream);
EXPORT void neighbour_report(void);

static int opens, openats, fopens, freopens;
static int early[5];

int open(const char *path, int flags, ...)
{
	int (*next)(const char *, int, ...) = dlsym(RTLD_NEXT, "open");
	va_list more;
	va_start(more, flags);
	unsigned mode = va_arg(more, unsigned);
	va_end(more);
	opens++;
	return next(path, flags, mode);
}

int openat(int directory, const char *path, int flags, ...)
{
	int (*next)(int, const char *, int, ...) = dlsym(RTLD_NEXT, "openat");
	va_list more;
	va_start(more, flags);
	unsigned mode = va_arg(more, unsigned);
	va_end(more);
	openats++;
	return next(directory, path, flags, mode);
}

FILE *fopen(const char *path, const char *mode)
{
	FILE *(*next)(const char *, const char *) = dlsym(RTLD_NEXT, "fopen");
	fopens++;
	return next(path, mode);
}

FILE *freopen(const char *path, const char *mode, FILE *stream)
{
	FILE *(*next)(const char *, const char *, FILE *) = dlsym(RTLD_NEXT, "freopen");
	freopens++;
	return next(path, mode, stream);
}

__attribute__((constructor)) static void begin(void)
{
	int fd = open("/dev/null", O_RDONLY);
	early[0] = fd >= 0 && close(fd) == 0;
	fd = openat(AT_FDCWD, "/dev/null", O_RDONLY);
	early[1] = fd >= 0 && close(fd) == 0;
	fd = creat("/dev/null", 0600);
	early[2] = fd >= 0 && close(fd) == 0;
	if (!getenv("NEIGHBOUR_NO_STREAM")) {
		FILE *file = fopen("/dev/null", "r");
		early[3] = file != NULL;
		file = file ? freopen("/dev/zero", "r", file) : NULL;
		early[4] = file && fgetc(file) == 0 && fclose(file) == 0;
	}
	opens = openats = fopens = freopens = 0; /* early ones may have had no one to pass */
}

void neighbour_report(void)
{
	printf("neighbour: early %d %d %d %d %d, then %d %d %d %d\n", early[0], early[1],
		early[2], early[3], early[4], opens, openats, fopens, freopens);
}
