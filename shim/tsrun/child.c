/* SPDX-License-Identifier: MIT */
/* Runs programs for what they print: shim/tsrun/child.h. */
#include "shim/tsrun/child.h"
#include "shim/sys.h"
#include "shim/tsrun/library.h"
#include "shim/tsrun/message.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NS_PER_MS UINT64_C(1000000)

/* 1024 names for the resolver, 64 at once and each with two tries. */
#define SECRET_NS UINT64_C(300000000000)

static _Noreturn void become(
	const char *program, const char *const *words, char *const *env, int out)
{
	if (dup2(out, STDOUT_FILENO) == STDOUT_FILENO)
		(void)execve(program, (char *const *)words, env);
	_exit(errno == ENOENT ? TS_EXIT_NOT_FOUND : TS_EXIT_NOT_RUNNABLE);
}

static int read_until(int fd, uint64_t until_ns, char *text, size_t bytes)
{
	size_t at = 0;

	for (;;) {
		struct pollfd one = {.fd = fd, .events = POLLIN};
		uint64_t now_ns = ts_now_ns();
		if (now_ns >= until_ns)
			return -ETIMEDOUT;
		int ready = poll(&one, 1, (int)((until_ns - now_ns) / NS_PER_MS) + 1);
		if (ready < 0 && errno != EINTR)
			return -errno;
		if (ready <= 0)
			continue;
		if (at + 1 == bytes)
			return -EFBIG;
		ssize_t n = read(fd, text + at, bytes - 1 - at);
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return 0;
		at += n > 0 ? (size_t)n : 0;
		text[at] = '\0';
	}
}

int ts_child_run(const char *program, const char *const *words, char *const *env,
	uint64_t within_ns, char *ret_text, size_t bytes)
{
	uint64_t until_ns = ts_now_ns() + within_ns;
	int ends[2], status = 0;

	ret_text[0] = '\0';
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	pid_t child = fork();
	if (child == 0)
		become(program, words, env, ends[1]);
	int r = child < 0 ? -errno : 0;
	(void)close(ends[1]);
	if (r == 0)
		r = read_until(ends[0], until_ns, ret_text, bytes);
	(void)close(ends[0]);
	if (child < 0)
		return r;
	if (r < 0)
		(void)kill(child, SIGKILL);
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (r < 0)
		return r;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int ts_child_run_secret(const char **words, char *ret_text, size_t bytes)
{
	static char *const none[] = {NULL};
	char program[PATH_MAX], path[PATH_MAX];

	int r = ts_sys_readlink("/proc/self/exe", program, sizeof(program));
	if (r >= 0) {
		r = ts_library_find(program, path);
		char *slash = r == -ENAMETOOLONG ? NULL : strrchr(path, '/');
		r = slash && slash + sizeof("/tsshim-secret") < path + sizeof(path) ? 0
										    : -ENOENT;
		if (r == 0)
			memcpy(slash, "/tsshim-secret", sizeof("/tsshim-secret"));
	}
	if (r == 0 && access(path, X_OK) < 0)
		r = -errno;
	if (r < 0) {
		ts_message_say("%s: %s", r == -ENOENT ? "tsshim-secret" : path, strerror(-r));
		ts_message_hint("it is part of tsshim where that was built with OpenSSL 3");
		return TS_EXIT_FAILED;
	}
	words[0] = path;
	/* Nothing of the environment: it needs none, and it reads a secret. */
	r = ts_child_run(path, words, none, SECRET_NS, ret_text, bytes);
	if (r < 0 || r > TS_EXIT_FAILED)
		ts_message_say("%s: %s", path, r < 0 ? strerror(-r) : "has ended badly");
	return r == 0 ? 0 : TS_EXIT_FAILED;
}
