/* SPDX-License-Identifier: MIT */
/* Running the tests of the stand-in; see test.h. */
#include "test.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define TIMEOUT 60 /* seconds */

static char counters[] = "/tmp/fakecuda-test.XXXXXX";

void test_fail(const char *file, int line, const char *what, long got)
{
	printf("# %s:%d: %s gave %ld\n", file, line, what, got);
	fflush(stdout);
	_exit(1);
}

static void apply(const char *settings)
{
	char copy[512], name[600], *next = NULL;
	snprintf(copy, sizeof(copy), "%s", settings);
	for (char *word = strtok_r(copy, " ", &next); word; word = strtok_r(NULL, " ", &next)) {
		char *equals = strchr(word, '=');
		*equals = '\0';
		/* One is not ours. */
		snprintf(name, sizeof(name), "%s%s",
			strcmp(word, "CUDA_VISIBLE_DEVICES") == 0 ? "" : "FAKECUDA_", word);
		setenv(name, equals + 1, 1);
	}
	setenv("FAKECUDA_COUNTERS", counters, 1);
}

static bool run(const struct test *test)
{
	int status = -1;
	if (truncate(counters, 0) != 0)
		return false;
	pid_t pid = fork();
	if (pid == 0) {
		alarm(TIMEOUT);
		apply(test->settings);
		test->run();
		exit(0);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && status == 0;
}

int test_main(const struct test *tests)
{
	int count = 0, failed = 0;
	close(mkstemp(counters));
	while (tests[count].name)
		count++;
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("1..%d\n", count);
	for (int i = 0; i < count; i++) {
		fflush(stdout);
		bool good = run(&tests[i]);
		printf("%sok %d - %s\n", good ? "" : "not ", i + 1, tests[i].name);
		failed += !good;
	}
	unlink(counters);
	return failed > 0;
}

CUcontext test_begin(int device)
{
	CUcontext context;
	OK(cuInit(0));
	OK(cuDevicePrimaryCtxRetain(&context, device));
	OK(cuCtxSetCurrent(context));
	return context;
}

CUdeviceptr test_device(size_t bytes, int value)
{
	CUdeviceptr pointer;
	OK(cuMemAlloc_v2(&pointer, bytes));
	OK(cuMemsetD8_v2(pointer, (unsigned char)value, bytes));
	OK(cuCtxSynchronize());
	return pointer;
}

unsigned char *test_pinned(size_t bytes, int value)
{
	void *memory;
	OK(cuMemHostAlloc(&memory, bytes, 0));
	memset(memory, value, bytes);
	return memory;
}

int test_host_value(const unsigned char *memory, size_t bytes)
{
	for (size_t i = 1; i < bytes; i++)
		if (memory[i] != memory[0])
			return -1;
	return memory[0];
}

int test_value(CUdeviceptr pointer, size_t bytes)
{
	unsigned char *copy = malloc(bytes);
	CHECK(copy);
	OK(cuCtxSynchronize());
	OK(cuMemcpyDtoH_v2(copy, pointer, bytes));
	int value = test_host_value(copy, bytes);
	free(copy);
	return value;
}

int64_t test_now_us(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t test_clock_us(void)
{
	return (int64_t)test_counter("clock_us");
}

uint64_t test_counter(const char *name)
{
	struct {
		char name[56];
		uint64_t value;
	} entry;
	FILE *file = fopen(counters, "re");
	CHECK(file);
	while (fread(&entry, sizeof(entry), 1, file) == 1) {
		if (strcmp(entry.name, name) == 0) {
			fclose(file);
			return entry.value;
		}
	}
	test_fail(__FILE__, __LINE__, name, 0);
}

pid_t test_fork(void (*other)(int fd), int *ret_fd)
{
	int fds[2];
	CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
	fflush(stdout);
	pid_t pid = fork();
	CHECK(pid >= 0);
	if (pid == 0) {
		alarm(TIMEOUT);
		close(fds[0]);
		other(fds[1]);
		exit(0);
	}
	close(fds[1]);
	*ret_fd = fds[0];
	return pid;
}

void test_join(pid_t pid)
{
	int status = -1;
	CHECK(waitpid(pid, &status, 0) == pid);
	CHECK(status == 0);
}

void test_send(int fd, const void *bytes, size_t size)
{
	CHECK(write(fd, bytes, size) == (ssize_t)size);
}

void test_receive(int fd, void *bytes, size_t size)
{
	CHECK(recv(fd, bytes, size, MSG_WAITALL) == (ssize_t)size);
}
