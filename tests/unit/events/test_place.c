/* SPDX-License-Identifier: MIT */
/* Where an event log is, and what may lie there. */
#include "fixture.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

TestSuite(event_place, .init = fixture_init, .fini = fixture_finish);

#define HEAD                                                                                  \
	"{\"tsshim_events\":2,\"t\":1.000,\"version\":\"9\",\"group\":\"%s\",\"node\":\"n\"}" \
	"\n"

static int open_log(void)
{
	int fd = -1, r = ts_events_open(fixture.path, "unit-events", 0, &fd);

	if (r == 0)
		close(fd);
	return r;
}

static int open_with(const char *text)
{
	fixture_write(text);
	return open_log();
}

Test(event_place, the_log_of_a_group_is_a_file_of_the_node)
{
	char path[TS_EVENTS_PATH], expected[TS_EVENTS_PATH];
	struct ts_config config;
	struct utsname node;
	char *state[] = {(char *)"HOME=/home/a", (char *)"XDG_STATE_HOME=/state", NULL};
	char *home[] = {(char *)"HOMER=/x", (char *)"HOME=/home/a",
		(char *)"XDG_STATE_HOME=relative", NULL};
	char *none[] = {(char *)"HOME=", NULL};

	ts_config_init(&config);
	cr_expect(eq(int, ts_events_path(&config, home, path), -ENOENT));
	cr_assert(eq(int, ts_config_set(&config, TS_OPTION_EVENTS, "on"), 0));
	cr_assert(eq(int, ts_config_set(&config, TS_OPTION_GROUP, "g"), 0));
	uname(&node);
	cr_expect(eq(int, ts_events_path(&config, state, path), 0));
	(void)snprintf(expected, sizeof(expected), "/state/tsshim/g@%s.events", node.nodename);
	cr_expect(eq(str, path, expected));
	cr_expect(eq(int, ts_events_path(&config, home, path), 0));
	(void)snprintf(expected, sizeof(expected), "/home/a/.local/state/tsshim/g@%s.events",
		node.nodename);
	cr_expect(eq(str, path, expected));
	cr_expect(eq(int, ts_events_path(&config, none, path), -ENOTDIR));
	cr_expect(eq(int, ts_events_path(&config, NULL, path), -ENOTDIR));
	cr_assert(eq(int, ts_config_set(&config, TS_OPTION_EVENTS, "/a/b"), 0));
	cr_expect(eq(int, ts_events_path(&config, none, path), 0));
	cr_expect(eq(str, path, (char *)"/a/b"));
}

Test(event_place, a_home_that_is_too_long_is_none)
{
	static char home[2 * TS_EVENTS_PATH] = "HOME=/";
	char path[TS_EVENTS_PATH];
	struct ts_config config;
	char *env[] = {home, NULL};

	memset(home + 6, 'h', sizeof(home) - 7);
	ts_config_init(&config);
	cr_assert(eq(int, ts_config_set(&config, TS_OPTION_EVENTS, "on"), 0));
	cr_expect(eq(int, ts_events_path(&config, env, path), -ENAMETOOLONG));
}

Test(event_place, what_is_no_log_is_refused)
{
	static char long_line[2048];
	char text[256];

	memset(long_line, 'x', sizeof(long_line) - 1);
	cr_expect(eq(int, open_log(), -ENOENT));
	cr_expect(eq(int, open_with(""), 0), "nothing was written yet");
	(void)snprintf(text, sizeof(text), HEAD, "unit-events");
	cr_expect(eq(int, open_with(text), 0));
	cr_expect(eq(int, open_with("{\"tsshim_ev"), 0), "a first line that was torn");
	cr_expect(eq(int, open_with("{\"tsshim_events\":2,\"t\":1.0"), 0));
	(void)snprintf(text, sizeof(text), HEAD, "unit-events-2");
	cr_expect(eq(int, open_with(text), -EXDEV));
	(void)snprintf(text, sizeof(text), HEAD, "unit");
	cr_expect(eq(int, open_with(text), -EXDEV));
	cr_expect(eq(int, open_with("import torch\n"), -EBADMSG));
	cr_expect(eq(int, open_with("{\"tsshim_events\":2}\n"), -EBADMSG), "of which group?");
	cr_expect(eq(int, open_with(long_line), -EBADMSG));
	memcpy(long_line, "{\"tsshim_events\":", 17);
	cr_expect(eq(int, open_with(long_line), -EBADMSG), "of which group?");
	for (int error = 1; error < 200; error++)
		cr_expect(eq(int, ts_events_is_refusal(-error),
			error == ELOOP || error == EINVAL || error == EPERM ||
				error == EBADMSG || error == EXDEV));
}

Test(event_place, what_is_no_file_of_ours_is_refused)
{
	char other[160];

	(void)snprintf(other, sizeof(other), "%s/other", fixture.directory);
	fixture_write("");
	cr_assert(eq(int, rename(fixture.path, other), 0));
	cr_assert(eq(int, symlink(other, fixture.path), 0));
	cr_expect(eq(int, open_log(), -ELOOP));
	cr_assert(eq(int, unlink(fixture.path), 0));
	cr_assert(eq(int, mkfifo(fixture.path, 0600), 0));
	cr_expect(eq(int, open_log(), -EINVAL));
	cr_assert(eq(int, unlink(fixture.path), 0));
	cr_assert(eq(int, mkdir(fixture.path, 0700), 0));
	cr_expect(eq(int, open_log(), -EINVAL));
	cr_assert(eq(int, rmdir(fixture.path), 0));
	fixture_write("");
	if (geteuid() == 0 && chown(fixture.path, 4711, 4711) == 0)
		cr_expect(eq(int, open_log(), -EPERM));
}
