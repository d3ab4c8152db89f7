/* SPDX-License-Identifier: MIT */
/*
 * opener FOLDER: every call of the open family, in every way that a preload could get wrong.
 * What it prints must not depend on what is preloaded, but for the calls that a neighbour
 * (neighbour.c) counted.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

int __open_2(const char *path, int flags);
int __open64_2(const char *path, int flags);
int __openat_2(int directory, const char *path, int flags);
int __openat64_2(int directory, const char *path, int flags);

static int read_result(int fd)
{
	char byte = '-';
	int error = errno;
	if (fd >= 0 && read(fd, &byte, 1) != 1)
		byte = '?';
	if (fd >= 0)
		close(fd);
	errno = 0;
	return fd >= 0 ? byte : -error;
}

static int stream_result(FILE *file)
{
	int result = file ? fgetc(file) : -errno;
	if (file)
		fclose(file);
	errno = 0;
	return result;
}

static int stream_stat(FILE *file)
{
	int result = file ? fputc('x', file) : -errno;
	if (file)
		fclose(file);
	return result;
}

#define READ(call)   printf("%s: %d\n", #call, read_result(call))
#define STREAM(call) printf("%s: %d\n", #call, stream_result(call))

static void read_by_every_name(const char *path)
{
	int root = open("/", O_RDONLY | O_DIRECTORY);
	READ(open(path, O_RDONLY));
	READ(open64(path, O_RDONLY));
	READ(openat(root, path + 1, O_RDONLY));
	READ(openat64(root, path + 1, O_RDONLY));
	READ(__open_2(path, O_RDONLY));
	READ(__open64_2(path, O_RDONLY));
	READ(__openat_2(root, path + 1, O_RDONLY));
	READ(__openat64_2(root, path + 1, O_RDONLY));
	STREAM(fopen(path, "r"));
	STREAM(fopen64(path, "rm"));
	STREAM(freopen(path, "r", fopen("/dev/null", "w")));
	STREAM(freopen64(path, "r", fopen("/dev/null", "w")));
	close(root);
}

static void make(const char *name, int fd)
{
	struct stat stat = {0};
	printf("%s: %d, mode %o\n", name, fd >= 0 ? fstat(fd, &stat) : -errno,
		(unsigned)stat.st_mode);
	if (fd >= 0)
		close(fd);
	unlink("made");
}

static void make_by_every_name(void)
{
	make("open", open("made", O_CREAT | O_RDWR, 0601));
	make("open64", open64("made", O_CREAT | O_RDWR, 0602));
	make("openat", openat(AT_FDCWD, "made", O_CREAT | O_RDWR, 0603));
	make("openat64", openat64(AT_FDCWD, "made", O_CREAT | O_RDWR, 0604));
	make("creat", creat("made", 0605));
	make("creat64", creat64("made", 0606));
	make("O_TMPFILE", open(".", O_TMPFILE | O_RDWR, 0607));
	printf("fopen: %d\n", stream_stat(fopen("made", "wx")));
	make("made by fopen", open("made", O_RDONLY));
}

/* __open_2 without the mode that it needs must end as it always does. */
static void misuse(void)
{
	int status = 0;
	fflush(stdout);
	pid_t child = fork();
	if (child == 0) {
		close(STDERR_FILENO);
		_exit(__open_2("made", O_CREAT | O_RDWR) >= 0);
	}
	waitpid(child, &status, 0);
	printf("misuse: %d\n", WIFSIGNALED(status) ? WTERMSIG(status) : -1);
	unlink("made");
}

static volatile int blocked; /* the thread that soon is */

/* Whether it waits in the open; proc(5), the state in stat.  No preload is to count this. */
static int is_blocked(void)
{
	char path[64], text[64] = "";
	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", blocked);
	int fd = (int)syscall(SYS_openat, AT_FDCWD, path, O_RDONLY);
	if (fd < 0)
		return 0;
	if (syscall(SYS_read, fd, text, sizeof(text) - 1) < 0)
		text[0] = 0;
	syscall(SYS_close, fd);
	return strstr(text, ") S") != NULL;
}

static void *block(void *unused)
{
	blocked = (int)syscall(SYS_gettid);
	return (void *)(long)open("fifo", O_RDONLY);
}

static void cancel(void)
{
	pthread_t thread;
	void *result = NULL;
	mkfifo("fifo", 0600);
	pthread_create(&thread, NULL, block, NULL);
	while (!is_blocked())
		usleep(1000);
	pthread_cancel(thread);
	pthread_join(thread, &result);
	printf("cancelled: %d\n", result == PTHREAD_CANCELED);
	unlink("fifo");
}

static volatile int opened_by_handler;

static void handler(int number)
{
	opened_by_handler = open("/dev/null", O_RDONLY);
}

static void interrupt(void)
{
	signal(SIGUSR1, handler);
	raise(SIGUSR1);
	printf("in a handler: %d\n", opened_by_handler >= 0);
	close(opened_by_handler);
}

static void vfork_child(const char *path)
{
	int status = 0;
	pid_t child = vfork();
	if (child == 0)
		_exit(open(path, O_RDONLY) < 0);
	waitpid(child, &status, 0);
	printf("after vfork: %d\n", status);
}

int main(int argc, char **argv)
{
	if (argc != 2 || chdir(argv[1]) != 0)
		return 2;
	char path[256];
	snprintf(path, sizeof(path), "%s/file", argv[1]);
	umask(0);
	read_by_every_name(path);
	read_by_every_name("/no/such/file");
	make_by_every_name();
	misuse();
	cancel();
	interrupt();
	vfork_child(path);
	void (*report)(void) = (void (*)(void))dlsym(RTLD_DEFAULT, "neighbour_report");
	if (report)
		report();
	return 0;
}
