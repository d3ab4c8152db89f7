/* SPDX-License-Identifier: MIT */
/*
 * meanwhile DIR MILLISECONDS [FILE]: look at DIR/f0, that long after another thread has begun
 * to open FILE for writing, and then four times at DIR/f2.  It opens no file before, so that
 * these threads are the first to meet DIR.
 */
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static void *begin_writing(void *path)
{
	int fd = open(path, O_WRONLY | O_TRUNC);

	if (fd < 0)
		perror(path);
	else
		close(fd);
	return NULL;
}

static void look(const char *directory, const char *name)
{
	char path[4096];
	struct stat st;

	snprintf(path, sizeof(path), "%s/%s", directory, name);
	if (stat(path, &st) != 0)
		perror(path);
	else
		printf("%s %lld\n", name, (long long)st.st_size);
}

int main(int argc, char **argv)
{
	pthread_t thread;

	if (argc < 3)
		return 2;
	if (argc > 3 && pthread_create(&thread, NULL, begin_writing, argv[3]) != 0)
		return 1;
	usleep((unsigned)atoi(argv[2]) * 1000u);
	look(argv[1], "f0");
	if (argc > 3)
		pthread_join(thread, NULL);
	for (int i = 0; i < 4; i++)
		look(argv[1], "f2");
	return 0;
}
