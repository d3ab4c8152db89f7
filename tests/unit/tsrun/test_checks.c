/* SPDX-License-Identifier: MIT */
/* What `tsrun doctor` is made of: findings, command lines, and where things lie. */
#include "shim/isolation.h"
#include "shim/tsrun/check.h"
#include "shim/tsrun/units.h"
#include "shim/tsrun/library.h"
#include "tests/unit/valgrind.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static char directory[64];

static void begin(void)
{
	strcpy(directory, "/tmp/tsrun-checks-XXXXXX");
	cr_assert_not_null(mkdtemp(directory));
}

static void end(void)
{
	char command[128];
	snprintf(command, sizeof(command), "/bin/rm -rf '%s'", directory);
	cr_expect_eq(system(command), 0);
}

TestSuite(checks, .init = begin, .fini = end);

static const char *in_directory(const char *name)
{
	static char paths[16][256];
	static unsigned next;
	char *path = paths[next++ % TS_ARRAY_SIZE(paths)];

	snprintf(path, sizeof(paths[0]), "%s/%s", directory, name);
	return path;
}

static const char *make_file(const char *name, const char *text, size_t bytes, mode_t mode)
{
	const char *path = in_directory(name);
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, mode);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, text, bytes), (ssize_t)bytes);
	close(fd);
	return path;
}

/* ---- findings ---- */

Test(checks, the_worst_finding_is_the_state_and_all_are_told)
{
	struct ts_check check = {.state = TS_CHECK_ABSENT};

	ts_check_find(&check, TS_CHECK_OK, "one of %d", 3);
	cr_expect_eq(check.state, TS_CHECK_OK);
	ts_check_find(&check, TS_CHECK_FAIL, "two");
	ts_check_find(&check, TS_CHECK_WARN, "three");
	ts_check_find(&check, TS_CHECK_ABSENT, "four");
	cr_expect_eq(check.state, TS_CHECK_FAIL);
	cr_expect_str_eq(check.found, "one of 3; two; three; four");
	cr_expect_str_eq(check.fix, "");
	ts_check_advise(&check, "do %s", "it");
	cr_expect_str_eq(check.fix, "do it");
}

Test(checks, findings_that_do_not_fit_are_cut)
{
	struct ts_check check = {.state = TS_CHECK_ABSENT};

	for (int i = 0; i < 2000; i++)
		ts_check_find(&check, TS_CHECK_OK, "0123456789");
	cr_expect_lt(strlen(check.found), sizeof(check.found));
	cr_expect_eq(strncmp(check.found, "0123456789; 0123456789; ", 24), 0);
}

Test(checks, sizes_have_units)
{
	static const struct {
		uint64_t bytes;
		const char *text;
	} cases[] = {{0, "0 bytes"}, {1023, "1023 bytes"}, {1024, "1.0 KiB"},
		{UINT64_C(3) << 29, "1.5 GiB"}, {UINT64_MAX, "16777215.9 TiB"}};
	char text[TS_UNITS_BYTES];

	for (size_t i = 0; i < TS_ARRAY_SIZE(cases); i++)
		cr_expect_str_eq(ts_units_size(cases[i].bytes, text), cases[i].text);
}

/* ---- command lines ---- */

static struct ts_launch launch;

static int resolve(const char *const *words)
{
	return ts_launch_resolve((char *const *)(uintptr_t)words, &launch);
}

#define WORDS(...) ((const char *const[]){__VA_ARGS__, NULL})

static void expect_words(const char *const *wanted)
{
	size_t i = 0;

	for (; wanted[i] && launch.words[i]; i++)
		cr_expect_str_eq(launch.words[i], wanted[i]);
	cr_expect_null(wanted[i], "'%s' is missing", wanted[i]);
	cr_expect_null(launch.words[i], "'%s' is too much", launch.words[i]);
}

Test(checks, a_program_is_itself)
{
	const char *program = make_file("program", "no script", 9, 0755);

	cr_assert_eq(resolve(WORDS(program, "-a", "b")), 0);
	cr_expect_str_eq(launch.program, program);
	cr_expect_not(launch.script);
	expect_words(WORDS(program, "-a", "b"));
}

Test(checks, a_script_is_its_interpreter)
{
	char line[300];
	const char *program = make_file("program", "no script", 9, 0755);
	snprintf(line, sizeof(line), "#! %s  -a -b \nmore", program);
	const char *inner = make_file("inner", line, strlen(line), 0755);
	snprintf(line, sizeof(line), "#!%s\n", inner);
	const char *outer = make_file("outer", line, strlen(line), 0755);

	cr_assert_eq(resolve(WORDS(outer, "x")), 0);
	cr_expect_str_eq(launch.program, program);
	cr_expect(launch.script);
	/* What stands behind the interpreter is one word. */
	expect_words(WORDS(program, "-a -b", inner, outer, "x"));
}

Test(checks, env_is_followed)
{
	const char *program = make_file("program", "no script", 9, 0755);

	cr_assert_eq(resolve(WORDS("env", "-i", "A=b", "-u", "C", program, "-x", "D=e")), 0);
	expect_words(WORDS(program, "-x", "D=e"));
	char text[300];
	snprintf(text, sizeof(text), "-S A=b  %s -I", program);
	cr_assert_eq(resolve(WORDS("/usr/bin/env", text, "script")), 0);
	expect_words(WORDS(program, "-I", "script"));
	cr_assert_eq(resolve(WORDS("env", "-S", text + 3, "y")), 0);
	expect_words(WORDS(program, "-I", "y"));
	cr_assert_eq(resolve(WORDS("env", "A=b")), 0);
	expect_words(WORDS("env", "A=b"));
	cr_expect_eq(resolve(WORDS("env", "no-such-command-here")), -ENOENT);
	cr_expect_str_eq(launch.words[0], "no-such-command-here");
}

Test(checks, scripts_that_name_each_other_end)
{
	char line[300];
	snprintf(line, sizeof(line), "#!%s\n", in_directory("loop"));
	const char *loop = make_file("loop", line, strlen(line), 0755);

	cr_assert_eq(resolve(WORDS(loop)), 0);
	cr_expect_str_eq(launch.program, loop);
}

Test(checks, long_command_lines_are_cut)
{
	const char *words[3 * TS_LAUNCH_WORDS];

	for (size_t i = 0; i < TS_ARRAY_SIZE(words) - 1; i++)
		words[i] = "true";
	words[TS_ARRAY_SIZE(words) - 1] = NULL;
	cr_assert_eq(resolve(words), 0);
	cr_expect_null(launch.words[TS_LAUNCH_WORDS]);
	cr_expect_str_eq(launch.words[TS_LAUNCH_WORDS - 1], "true");
}

static const struct {
	const char *words[5];
	char option;
} interpreters[] = {
	{{"python"}, 0},
	{{"python", "train.py", "-I"}, 0},
	{{"python", "-I", "train.py"}, 'I'},
	{{"python", "-uE"}, 'E'},
	{{"python", "-bsS", "-"}, 'S'},
	{{"python", "-", "-I"}, 0},
	{{"python", "--", "-I"}, 0},
	{{"python", "-c", "-I"}, 0},
	{{"python", "-bc", "-I"}, 0},
	{{"python", "-m", "-I"}, 0},
	{{"python", "-W", "-I", "-E"}, 'E'},
	{{"python", "-WI", "train.py"}, 0},
	{{"python", "-XdevI", "-b", "-I"}, 'I'},
	{{"python", "--check-hash-based-pycs", "-I", "-S"}, 'S'},
	{{"python", "-X"}, 0},
};

Test(checks, options_that_isolate_python)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(interpreters); i++)
		cr_expect_eq(ts_isolation((char *const *)(uintptr_t)interpreters[i].words),
			interpreters[i].option, "case %zu", i);
}

/* ---- where things lie ---- */

Test(checks, libraries_are_found_in_the_cache_of_ld_so)
{
	char cache[700], found[PATH_MAX];
	const char *library = make_file("libx.so.1", "", 0, 0644);
	size_t bytes = (size_t)snprintf(cache, sizeof(cache),
		"table%clibx.so.1%c/none/libx.so.1%c%s/liby.so.1%c%s%clast", 0, 0, 0, directory,
		0, library, 0);
	const char *path = make_file("cache", cache, bytes, 0644);

	cr_assert(ts_find_library("libx.so.1", path, NULL, found));
	cr_expect_str_eq(found, library);
	cr_expect_not(ts_find_library("liby.so.1", path, NULL, found), "it is not there");
	cr_expect_not(ts_find_library("ibx.so.1", path, NULL, found), "that is another name");
	cr_expect_not(ts_find_library("last", path, NULL, found));
	cr_expect_not(ts_find_library("libx.so.1", in_directory("none"), NULL, found));
}

Test(checks, libraries_are_found_along_a_path)
{
	char search[300], found[PATH_MAX];
	const char *library = make_file("libx.so.1", "", 0, 0644);

	snprintf(search, sizeof(search), "/none:%s;/none", directory);
	cr_assert(ts_find_library("libx.so.1", "/none", search, found));
	cr_expect_str_eq(found, library);
	cr_expect_not(ts_find_library("libx.so.1", "/none", "/none:/no", found));
	cr_expect_not(ts_find_library("libx.so.1", "/none", "", found));
}

Test(checks, parts_of_gpus_are_counted)
{
	cr_expect_eq(ts_find_mig(in_directory("none")), -ENOENT);
	cr_assert_eq(mkdir(in_directory("nvidia"), 0755), 0);
	cr_expect_eq(ts_find_mig(in_directory("nvidia")), 0);
	static const char *const made[] = {"nvidia/capabilities", "nvidia/capabilities/mig",
		"nvidia/capabilities/gpu0", "nvidia/capabilities/gpu0/mig",
		"nvidia/capabilities/gpu1", "nvidia/capabilities/gpu1/mig"};
	for (size_t i = 0; i < TS_ARRAY_SIZE(made); i++)
		cr_assert_eq(mkdir(in_directory(made[i]), 0755), 0);
	cr_expect_eq(ts_find_mig(in_directory("nvidia")), 0);
	static const char *const parts[] = {"gpu0/mig/gi1", "gpu0/mig/gi2", "gpu1/mig/gi7"};
	for (size_t i = 0; i < TS_ARRAY_SIZE(parts); i++) {
		char name[100];
		snprintf(name, sizeof(name), "nvidia/capabilities/%s", parts[i]);
		cr_assert_eq(mkdir(in_directory(name), 0755), 0);
	}
	cr_expect_eq(ts_find_mig(in_directory("nvidia")), 3);
}

/* Paths, LD_PRELOAD, and what ELF files say about preloading. */

/* Path of @name in the directory; with @text it is made with that content. */
static const char *file(const char *name, const char *text, unsigned mode)
{
	const char *path = in_directory(name);

	if (text) {
		(void)unlink(path);
		cr_assert_eq(chmod(make_file(name, text, strlen(text), 0600), mode), 0);
	}
	return path;
}

TestSuite(preload, .init = begin, .fini = end);

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

Test(preload, what_is_there_stays_in_front)
{
	static const char *const cases[][2] = {{NULL, "/l/libtsshim.so"},
		{"", "/l/libtsshim.so"}, {" : ", "/l/libtsshim.so"},
		{"libasan.so.8", "libasan.so.8:/l/libtsshim.so"},
		{"/a/b.so /c/d.so", "/a/b.so /c/d.so:/l/libtsshim.so"}};

	for (size_t i = 0; i < TS_ARRAY_SIZE(cases); i++)
		cr_expect_str_eq(compose(cases[i][0], "/l/libtsshim.so"), cases[i][1]);
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
	/* A script is as good as its interpreter. */
	const char *const programs[] = {"/proc/self/exe", file("text", "hello", 0755),
		file("s", "#! /bin/sh -e\n", 0755), file("none", NULL, 0)};
	for (size_t i = 0; i < TS_ARRAY_SIZE(programs); i++)
		cr_expect_eq(ts_library_judge(programs[i], "/proc/self/exe"), TS_PRELOAD_WORKS,
			"%s", programs[i]);
	cr_assert_eq(ts_library_judge(file("loop", "#!/proc/self/exe", 0755), "/proc/self/exe"),
		TS_PRELOAD_WORKS);
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
