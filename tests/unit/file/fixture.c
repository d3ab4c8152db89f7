/* SPDX-License-Identifier: MIT */
/* Files in a folder of the test's own, and items that open them. */
#include "fixture.h"

#include <ftw.h>
#include <limits.h>
#include <time.h>

static char folder[64];

void folder_make(void)
{
	strcpy(folder, "/tmp/tsshim-file.XXXXXX");
	cr_assert(mkdtemp(folder) != NULL);
	cr_assert(chdir(folder) == 0);
}

static int remove_one(const char *path, const struct stat *stat, int type, struct FTW *ftw)
{
	return remove(path);
}

void folder_remove(void)
{
	cr_assert(chdir("/") == 0);
	nftw(folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

const char *in_folder(const char *name)
{
	static char paths[2][PATH_MAX];
	static unsigned turn;
	char *path = paths[turn++ % 2];
	snprintf(path, PATH_MAX, "%s/%s", folder, name);
	return path;
}

void file_write(const char *name, const char *text)
{
	FILE *file = fopen(in_folder(name), "w");
	cr_assert(file != NULL);
	fputs(text, file);
	fclose(file);
}

/* Time stamps of files are of this clock, which ticks every few milliseconds. */
void file_clock_ticks(void)
{
	struct timespec begin, now;
	clock_gettime(CLOCK_REALTIME_COARSE, &begin);
	do {
		usleep(500);
		clock_gettime(CLOCK_REALTIME_COARSE, &now);
	} while (now.tv_sec == begin.tv_sec && now.tv_nsec == begin.tv_nsec);
}

int item_reads(struct ts_opens *opens, const char *path)
{
	ts_opens_begin(opens);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd >= 0)
		close(fd);
	return ts_opens_end(opens);
}

unsigned descriptors(void)
{
	unsigned count = 0;
	for (int fd = 0; fd < 1024; fd++)
		count += fcntl(fd, F_GETFD) >= 0;
	return count;
}
