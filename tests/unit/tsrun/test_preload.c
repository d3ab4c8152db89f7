/* SPDX-License-Identifier: MIT */
/* Paths, LD_PRELOAD, and what ELF files say about preloading. */
#include "shim/tsrun/library.h"
#include "tests/unit/valgrind.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[64];

static void make_directory(void)
{
	strcpy(directory, "/tmp/tsrun-test-XXXXXX");
	cr_assert_not_null(mkdtemp(directory));
}

static void remove_directory(void)
{
	char command[128];
	snprintf(command, sizeof(command), "/bin/rm -rf '%s'", directory);
	cr_assert_eq(system(command), 0);
}

/* Path of @name in the directory; with @text it is made with that content. */
static const char *file(const char *name, const char *text, unsigned mode)
{
	static char path[4][PATH_MAX];
	static unsigned turn;
	char *p = path[turn++ % 4];
	snprintf(p, PATH_MAX, "%s/%s", directory, name);
	if (text) {
		FILE *f = fopen(p, "w");
		cr_assert_not_null(f);
		fputs(text, f);
		fclose(f);
		cr_assert_eq(chmod(p, mode), 0);
	}
	return p;
}

TestSuite(preload, .init = make_directory, .fini = remove_directory);

/* What composing gives; "" when the library is in @present already. */
static const char *compose(const char *present, const char *library)
{
	static char value[PATH_MAX];
	char *made = NULL;
	cr_assert_eq(ts_library_compose(present, library, &made), 0);
	snprintf(value, sizeof(value), "%s", made ? made : "");
	free(made);
	return value;
}

Test(preload, nothing_there)
{
	cr_assert_str_eq(compose(NULL, "/l/libtsshim.so"), "/l/libtsshim.so");
	cr_assert_str_eq(compose("", "/l/libtsshim.so"), "/l/libtsshim.so");
	cr_assert_str_eq(compose(" : ", "/l/libtsshim.so"), "/l/libtsshim.so");
}

Test(preload, what_is_there_stays_in_front)
{
	cr_assert_str_eq(
		compose("libasan.so.8", "/l/libtsshim.so"), "libasan.so.8:/l/libtsshim.so");
	cr_assert_str_eq(compose("/a/b.so /c/d.so", "/l/libtsshim.so"),
		"/a/b.so /c/d.so:/l/libtsshim.so");
}

Test(preload, not_added_twice)
{
	const char *library = file("libtsshim.so", "x", 0644);
	char present[PATH_MAX * 2];
	cr_assert_str_eq(compose(library, library), "");
	snprintf(present, sizeof(present), "/a/first.so:%s/../%s", directory,
		strrchr(library, '/') + 1);
	cr_assert_str_neq(compose(present, library), "", "another path, no such file");
	snprintf(present, sizeof(present), "/a/first.so %s/./libtsshim.so", directory);
	cr_assert_str_eq(compose(present, library), "", "the same file by another path");
}

Test(preload, another_copy_is_enough)
{
	cr_assert_eq(mkdir(file("other", NULL, 0), 0755), 0);
	const char *other = file("other/libtsshim.so", "y", 0644);
	cr_assert_str_eq(compose(other, file("libtsshim.so", "x", 0644)), "");
	cr_assert_eq(unlink(other), 0);
	cr_assert_str_neq(compose(other, file("libtsshim.so", "x", 0644)), "",
		"one that is not there does nothing");
}

static const char *const unsayable[] = {"/a b/l.so", "/a:b/l.so", "/$LIB/l.so"};

Test(preload, paths_that_cannot_be_said_are_linked)
{
	cr_assert_eq(setenv("XDG_STATE_HOME", file("state", NULL, 0), 1), 0);
	for (size_t i = 0; i < TS_ARRAY_SIZE(unsayable); i++) {
		char target[PATH_MAX] = "", link[PATH_MAX];
		snprintf(link, sizeof(link), "%s", compose("x.so", unsayable[i]));
		cr_assert_eq(strncmp(link, "x.so:/", 6), 0, "%s", link);
		cr_expect_str_eq(compose("x.so", unsayable[i]), link, "once is enough");
		char *slash = strrchr(link, '/');
		cr_expect_str_eq(slash, "/l.so");
		*slash = '\0';
		cr_assert_gt(readlink(link + 5, target, sizeof(target) - 1), 0, "%s", link);
		cr_expect_eq(strncmp(unsayable[i], target, strlen(target)), 0, "%s", target);
		/* What leads elsewhere is put right. */
		cr_assert_eq(unlink(link + 5), 0);
		cr_assert_eq(symlink("/tmp", link + 5), 0);
		(void)compose(NULL, unsayable[i]);
		memset(target, 0, sizeof(target));
		cr_assert_gt(readlink(link + 5, target, sizeof(target) - 1), 0);
		cr_expect_str_neq(target, "/tmp");
	}
}

Test(preload, paths_that_cannot_be_said_and_not_linked)
{
	const char *const homes[] = {file("a b", NULL, 0), file("others", NULL, 0), "relative"};

	cr_assert_eq(mkdir(homes[1], 0755), 0);
	cr_assert_eq(mkdir(file("others/tsshim", NULL, 0), 0755), 0);
	cr_assert_eq(chmod(file("others/tsshim", NULL, 0), 0777), 0);
	unsetenv("HOME");
	for (size_t h = 0; h < TS_ARRAY_SIZE(homes); h++) {
		cr_assert_eq(setenv("XDG_STATE_HOME", homes[h], 1), 0);
		for (size_t i = 0; i < TS_ARRAY_SIZE(unsayable); i++) {
			char *value = (char *)"untouched";
			cr_expect_eq(ts_library_compose(NULL, unsayable[i], &value), -EINVAL,
				"%s", unsayable[i]);
			cr_expect_str_eq(value, "untouched");
		}
	}
}

Test(preload, library_is_relative_to_the_program)
{
	char found[PATH_MAX], expected[PATH_MAX];
	cr_assert_eq(ts_library_find("/opt/x/bin/tsrun", found), -ENOENT);
	cr_assert_eq(strncmp(found, "/opt/x/bin/../", 14), 0, "%s", found);
	cr_assert_not_null(strstr(found, "/tsshim/libtsshim.so"));

	cr_assert_eq(mkdir(file("shim", NULL, 0), 0755), 0);
	cr_assert_eq(mkdir(file("shim/tsrun", NULL, 0), 0755), 0);
	const char *library = file("libtsshim.so", "x", 0644);
	cr_assert_eq(ts_library_find(file("shim/tsrun/tsrun", NULL, 0), found), 0);
	cr_assert_not_null(realpath(library, expected));
	cr_assert_str_eq(found, expected);
	/* Two levels up of any other directory is nobody's business. */
	cr_assert_eq(mkdir(file("shim/bin", NULL, 0), 0755), 0);
	cr_assert_eq(ts_library_find(file("shim/bin/tsrun", NULL, 0), found), -ENOENT);
	cr_assert_eq(ts_library_find("tsrun", found), -ENOENT);
}

Test(preload, library_is_checked)
{
	cr_assert_not_null(ts_library_check(directory, "/proc/self/exe"));
	cr_assert_not_null(ts_library_check(file("nothing", NULL, 0), "/proc/self/exe"));
}

Test(preload, which_follows_path)
{
	char found[PATH_MAX];
	setenv("PATH", directory, 1);
	cr_assert_eq(ts_library_which("tool", found), -ENOENT);
	const char *tool = file("tool", "#!/bin/sh\n", 0644);
	/* Mode bits do not stop root from everything, but a file without any is not executable.
	 */
	cr_assert_eq(ts_library_which("tool", found), -EACCES);
	cr_assert_eq(chmod(tool, 0755), 0);
	cr_assert_eq(ts_library_which("tool", found), 0);
	cr_assert_str_eq(found, tool);
	cr_assert_eq(ts_library_which("/no/tool", found), -ENOENT);
}

Test(preload, verdicts_that_need_no_elf)
{
	NOT_EMULATED("/proc/self/exe is qemu's to stat(2)");
	/* This program itself may be linked with a shared AddressSanitizer, which is another
	 * verdict. */
	setenv("ASAN_OPTIONS", "verify_asan_link_order=0", 1);
	cr_assert_eq(ts_library_judge("/proc/self/exe", "/proc/self/exe"), TS_PRELOAD_WORKS);
	cr_assert_eq(ts_library_judge(file("text", "hello", 0755), "/proc/self/exe"),
		TS_PRELOAD_WORKS);
	/* A script is as good as its interpreter. */
	cr_assert_eq(ts_library_judge(file("s", "#! /bin/sh -e\n", 0755), "/proc/self/exe"),
		TS_PRELOAD_WORKS);
	cr_assert_eq(ts_library_judge(file("loop", "#!/proc/self/exe", 0755), "/proc/self/exe"),
		TS_PRELOAD_WORKS);
	cr_assert_eq(
		ts_library_judge(file("none", NULL, 0), "/proc/self/exe"), TS_PRELOAD_WORKS);
}

Test(preload, setuid_of_another_user_is_secure)
{
	const char *tool = file("tool", "hello", 0755);
	if (getuid() == 0)
		cr_assert_eq(chown(tool, 12345, 0), 0);
	cr_assert_eq(chmod(tool, 04755), 0);
	/* Our own setuid file changes nothing; that of another user does. */
	cr_assert_eq(ts_library_judge(tool, "/proc/self/exe"),
		getuid() == 0 ? TS_PRELOAD_SECURE : TS_PRELOAD_WORKS);
}
