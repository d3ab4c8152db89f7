/* SPDX-License-Identifier: MIT */
/* Checks of `tsrun doctor`: the library, what is preloaded beside it, and the settings. */
#include "leader/group/layout.h"
#include "shim/sys.h"
#include "shim/tsrun/check.h"
#include "shim/tsrun/inspect.h"
#include "shim/tsrun/library.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NS_PER_MS UINT64_C(1000000)

/* true(1) takes a thousandth of it on a busy machine. */
#define TRIAL_NS (10000 * NS_PER_MS)

/* Compare what the library says of itself with what this tsrun was built with. */
static void check_mark(const char *library, struct ts_check *check)
{
	struct ts_mark mark;

	int r = ts_inspect_mark(library, &mark);
	if (r == -ENOTSUP) {
		ts_check_find(check, TS_CHECK_OK,
			"%s is there; its version cannot be seen "
			"(tsrun was built without libelf)",
			library);
	} else if (r < 0) {
		ts_check_find(check, TS_CHECK_WARN, "%s does not say of which version it is",
			library);
		ts_check_advise(check, "install library and tsrun together");
	} else if (mark.abi != TS_ABI) {
		ts_check_find(check, TS_CHECK_FAIL,
			"%s, version %s, has layout %u in shared memory, tsrun has %u", library,
			mark.version, mark.abi, TS_ABI);
		ts_check_advise(check, "install library and tsrun together");
	} else {
		ts_check_find(check, TS_CHECK_OK, "%s, version %s, layout %u as tsrun", library,
			mark.version, mark.abi);
	}
}

void ts_check_library(const struct ts_check_scene *scene, struct ts_check *check)
{
	const char *fix = "reinstall tsshim";
	const char *wrong = scene->has_library
				    ? ts_library_check(scene->library, scene->program)
				    : "it is not there";
	char *value = NULL;

	if (!wrong && ts_library_compose(NULL, scene->library, &value) == -EINVAL) {
		wrong = "ld.so takes no blank, colon or '$' in its path, and a link to it "
			"could not be made";
		fix = TS_LIBRARY_UNSAYABLE;
	}
	free(value);
	if (wrong) {
		ts_check_find(
			check, TS_CHECK_FAIL, "%s cannot be used: %s", scene->library, wrong);
		ts_check_advise(check, "%s", fix);
		return;
	}
	check_mark(scene->library, check);
}

/* In the child: become @program with @preload, and its messages on @errors. */
static void become(const char *program, const char *preload, int errors)
{
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);

	if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(null, STDOUT_FILENO) >= 0 &&
		dup2(errors, STDERR_FILENO) >= 0 && setenv("LD_PRELOAD", preload, 1) == 0)
		(void)execl(program, program, (char *)NULL);
	_exit(127);
}

/* Read what comes from @fd until its end or the deadline, of which @text takes the first. */
static int read_messages(int fd, char *text, size_t bytes)
{
	const uint64_t deadline = ts_now_ns() + TRIAL_NS;
	char rest[256];
	size_t at = 0;

	text[0] = '\0';
	for (;;) {
		/* Whatever is too much is read as well: the child must not wait for us. */
		bool fits = at + 1 < bytes;
		uint64_t now = ts_now_ns();
		struct pollfd input = {.fd = fd, .events = POLLIN};
		if (now >= deadline)
			return -ETIMEDOUT;
		if (poll(&input, 1, (int)((deadline - now) / NS_PER_MS) + 1) <= 0)
			continue;
		ssize_t got = fits ? read(fd, text + at, bytes - 1 - at)
				   : read(fd, rest, sizeof(rest));
		if (got == 0 || (got < 0 && errno != EINTR))
			return 0;
		if (got > 0 && fits) {
			at += (size_t)got;
			text[at] = '\0';
		}
	}
}

/*
 * Run @program to its end; its first messages go into @text.  Returns its wait(2) status.
 * Errors: -ETIMEDOUT it was killed, for it did not end; those of fork(2) and pipe(2).
 */
static int try_program(const char *program, const char *preload, char *text, size_t bytes)
{
	int ends[2], status = 0;

	if (pipe2(ends, O_CLOEXEC) < 0)
		return -errno;
	pid_t child = fork();
	if (child == 0)
		become(program, preload, ends[1]);
	int r = child < 0 ? -errno : 0;
	(void)close(ends[1]);
	if (r == 0)
		r = read_messages(ends[0], text, bytes);
	(void)close(ends[0]);
	if (child < 0)
		return r;
	/* Who has closed stderr may live on, too: what counts is that true(1) does nothing. */
	if (r < 0)
		(void)kill(child, SIGKILL);
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return -errno;
	return r < 0 ? r : status;
}

void ts_check_preload(const struct ts_check_scene *scene, struct ts_check *check)
{
	char program[PATH_MAX], text[PATH_MAX + 300];
	const char *present = getenv("LD_PRELOAD");
	char *value = NULL;

	if (!scene->has_library || ts_library_which("true", program) < 0) {
		ts_check_find(check, TS_CHECK_ABSENT, "not tried: there is no %s",
			scene->has_library ? "program true" : "library");
		return;
	}
	if (ts_library_compose(present, scene->library, &value) < 0) {
		ts_check_find(check, TS_CHECK_FAIL, "LD_PRELOAD cannot be set");
		ts_check_advise(check, TS_LIBRARY_UNSAYABLE);
		return;
	}
	/* No new value: the library is named there already. */
	const char *preload = value ? value : present ? present : "";
	int status = try_program(program, preload, text, sizeof(text));
	free(value);
	/* ld.so goes on without what it cannot load and says so, of other preloads as well. */
	if (status == 0 && !strstr(text, "libtsshim")) {
		ts_check_find(
			check, TS_CHECK_OK, "%s starts with it, and ends with 0", program);
		return;
	}
	text[strcspn(text, "\n")] = '\0';
	if (status == -ETIMEDOUT)
		ts_check_find(check, TS_CHECK_FAIL, "%s does not end with it", program);
	else if (status < 0)
		ts_check_find(check, TS_CHECK_ABSENT, "%s could not be started: %s", program,
			strerror(-status));
	else if (WIFSIGNALED(status))
		ts_check_find(check, TS_CHECK_FAIL, "%s is killed by signal %d with it",
			program, WTERMSIG(status));
	else
		ts_check_find(check, TS_CHECK_FAIL, "%s ends with %d: %s", program,
			WEXITSTATUS(status), text[0] ? text : "it says nothing");
	if (check->state == TS_CHECK_FAIL)
		ts_check_advise(
			check, "reinstall tsshim; without other preloads, does it work?");
}

static bool is_same_file(const char *path, const char *other)
{
	struct stat st, theirs;

	return stat(path, &st) == 0 && stat(other, &theirs) == 0 &&
	       st.st_dev == theirs.st_dev && st.st_ino == theirs.st_ino;
}

/* One entry of LD_PRELOAD; ld.so searches for one without '/', and expands '$'. */
static void check_entry(
	const struct ts_check_scene *scene, struct ts_check *check, const char *entry)
{
	static const char own[] = "libtsshim";
	const char *slash = strrchr(entry, '/');

	if (slash && !strchr(entry, '$') && access(entry, F_OK) < 0) {
		ts_check_find(check, TS_CHECK_WARN,
			"%s is not there: ld.so complains in every program", entry);
		ts_check_advise(check, "take it out of LD_PRELOAD");
	} else if (slash && is_same_file(entry, scene->library)) {
		ts_check_find(check, TS_CHECK_OK, "this library, already");
	} else if (slash && strncmp(slash + 1, own, strlen(own)) == 0) {
		ts_check_find(check, TS_CHECK_WARN,
			"%s of another installation, which is used instead of this one", entry);
		ts_check_advise(check, "take it out of LD_PRELOAD");
	} else {
		ts_check_find(check, TS_CHECK_OK, "%s, which comes first", entry);
	}
}

void ts_check_preloads(const struct ts_check_scene *scene, struct ts_check *check)
{
	const char *at = getenv("LD_PRELOAD");
	char entry[PATH_MAX];

	for (at = at ? at : ""; *at;) {
		size_t length = strcspn(at, " :");
		if (length > 0 && length < sizeof(entry)) {
			memcpy(entry, at, length);
			entry[length] = '\0';
			check_entry(scene, check, entry);
		}
		at += length;
		at += strspn(at, " :");
	}
	if (check->found[0] == '\0')
		ts_check_find(check, TS_CHECK_OK, "LD_PRELOAD names no others");
	struct stat st;
	if (stat("/etc/ld.so.preload", &st) == 0 && st.st_size > 0)
		ts_check_find(check, TS_CHECK_OK, "/etc/ld.so.preload names some");
}
