/* SPDX-License-Identifier: MIT */
/* Runs programs for what they print: shim/tsrun/child.h. */
#include "shim/tsrun/child.h"
#include "leader/peer/look.h"
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

static _Noreturn void become(const struct ts_child *child, int out)
{
	bool is_led = dup2(out, STDOUT_FILENO) == STDOUT_FILENO &&
		      (!child->takes_messages || dup2(out, STDERR_FILENO) == STDERR_FILENO);

	if (is_led)
		(void)execve(child->words[0], (char *const *)child->words, child->env);
	_exit(errno == ENOENT ? TS_EXIT_NOT_FOUND : TS_EXIT_NOT_RUNNABLE);
}

static int read_until(int fd, uint64_t until_ns, bool is_cut, char *text, size_t bytes)
{
	char rest[256];
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
		bool fits = at + 1 < bytes;
		if (!fits && !is_cut)
			return -EFBIG;
		ssize_t n = fits ? read(fd, text + at, bytes - 1 - at)
				 : read(fd, rest, sizeof(rest));
		if (n < 0 && errno != EINTR)
			return -errno;
		if (n == 0)
			return 0;
		if (n > 0 && fits)
			at += (size_t)n;
		text[at] = '\0';
	}
}

int ts_child_run(const struct ts_child *child, uint64_t within_ns, char *ret_text, size_t bytes)
{
	uint64_t until_ns = ts_now_ns() + within_ns;
	int ends[2], status = 0;

	ret_text[0] = '\0';
	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	pid_t pid = fork();
	if (pid == 0)
		become(child, ends[1]);
	int r = pid < 0 ? -errno : 0;
	(void)close(ends[1]);
	if (r == 0)
		r = read_until(ends[0], until_ns, child->is_cut, ret_text, bytes);
	(void)close(ends[0]);
	if (pid < 0)
		return r;
	if (r < 0)
		(void)kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	if (r < 0)
		return r;
	return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int ts_child_find(const char *name, char ret_path[PATH_MAX])
{
	int r = ts_library_beside(name, ret_path);

	return r == 0 && access(ret_path, X_OK) < 0 ? -errno : r;
}

/* Nothing of the environment: it needs none, and it reads a secret. */
static char *const nothing[] = {NULL};

int ts_child_ask_secret(const char **words, uint64_t within_ns, char *ret_text, size_t bytes)
{
	char path[PATH_MAX];
	int r = ts_child_find("tsshim-secret", path);

	if (r < 0)
		return r;
	words[0] = path;
	const struct ts_child child = {.words = words, .env = nothing, .takes_messages = true};
	return ts_child_run(&child, within_ns, ret_text, bytes);
}

int ts_child_run_secret(const char **words, char *ret_text, size_t bytes)
{
	char path[PATH_MAX] = "tsshim-secret";
	int r = ts_child_find("tsshim-secret", path);

	if (r < 0) {
		ts_message_say("%s: %s", path, strerror(-r));
		ts_message_hint(TS_CHILD_WITHOUT_OPENSSL);
		return TS_EXIT_FAILED;
	}
	words[0] = path;
	r = ts_child_run(
		&(struct ts_child){.words = words, .env = nothing}, SECRET_NS, ret_text, bytes);
	if (r < 0 || r > TS_EXIT_FAILED)
		ts_message_say("%s: %s", path, r < 0 ? strerror(-r) : "has ended badly");
	return r == 0 ? 0 : TS_EXIT_FAILED;
}

const char *ts_child_explain_look(const char *state)
{
	static const struct {
		const char *state, *text;
	} texts[] = {
#define ONE(name, word, meaning) {word, meaning},
		TS_LOOKS(ONE)
#undef ONE
	};

	for (size_t i = 0; i < TS_ARRAY_SIZE(texts); i++)
		if (strcmp(texts[i].state, state) == 0)
			return texts[i].text;
	return "";
}
