/* SPDX-License-Identifier: MIT */
/* Puts our Python start-up file where an interpreter will find it, before main() runs. */
#include "hooks/torch/start.h"

#include "leader/line/line.h"
#include "leader/group/session.h"
#include "shim/config.h"
#include "shim/elf.h"
#include "shim/helper.h"
#include "shim/isolation.h"
#include "shim/log.h"
#include "shim/scratch.h"
#include "shim/sys.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define DIRECTORY  "/python"
#define START_FILE "/sitecustomize.py"

/* What main() of an interpreter calls since CPython 3.8; NULL in nearly every process. */
extern int Py_BytesMain(int argc, char **argv) __attribute__((weak));

/* Only glibc has it, and only glibc hands argc and argv to constructors. */
extern const char *gnu_get_libc_version(void) __attribute__((weak));

static bool interpreter;
static bool isolated; /* an interpreter that ignores PYTHONPATH or imports no `site` */

/*
 * The main program is the first object.  A debugger or a game with an embedded Python has
 * libpython too, but its own main(), environment rules and command line.
 */
static bool first_is_interpreter(const struct ts_elf_object *object, void *data)
{
	*(bool *)data = ts_elf_function(object, "Py_BytesMain") != 0 ||
			ts_elf_refers(object, "Py_BytesMain");
	return true;
}

static bool is_interpreter(void)
{
	bool is = false;
	if (Py_BytesMain && gnu_get_libc_version)
		ts_elf_each(first_is_interpreter, &is);
	return is;
}

/*
 * Our directory, absolute and without symbolic links: LD_PRELOAD may name the library
 * relatively, and the program may go elsewhere.
 */
static bool find_directory(char ret_path[PATH_MAX])
{
	struct ts_elf_object self;
	struct stat file;
	char *library TS_SCRATCH = ts_scratch(), *start TS_SCRATCH = ts_scratch();
	if (!library || !start || !ts_elf_containing((uintptr_t)find_directory, &self) ||
		!realpath(self.path, library))
		return false;
	char *slash = strrchr(library, '/');
	/* PYTHONPATH knows no way to write a colon. */
	if (!slash || strchr(library, ':') ||
		(size_t)(slash - library) + sizeof(DIRECTORY) > PATH_MAX)
		return false;
	*slash = '\0';
	ts_format(ret_path, PATH_MAX, "%s" DIRECTORY, library);
	ts_format(start, PATH_MAX + sizeof(START_FILE), "%s" START_FILE, ret_path);
	return ts_sys_stat(start, &file) == 0;
}

/* Whether @path begins with @directory, as after an exec by a program without `site`. */
static bool is_in_front(const char *path, const char *directory)
{
	size_t length = strlen(directory);
	if (strncmp(path, directory, length) != 0)
		return false;
	const char *rest = path + length;
	return *rest == '\0' || *rest == ':' || strcmp(rest, "/") == 0;
}

/*
 * Our sitecustomize.py has to restore what was there, so the value says it: DIRECTORY where
 * there was none, DIRECTORY/ where it was empty (which to Python is none), DIRECTORY:VALUE.
 */
static void put_in_front(const char *directory)
{
	const char *old = getenv("PYTHONPATH");
	if (old && is_in_front(old, directory))
		return;
	size_t bytes = strlen(directory) + (old ? strlen(old) : 0) + 2;
	char *value = malloc(bytes);
	if (!value)
		return;
	const char *between = !old ? "" : *old ? ":" : "/";
	ts_format(value, bytes, "%s%s%s", directory, between, old ? old : "");
	(void)setenv("PYTHONPATH", value, 1);
	free(value);
}

void ts_torch_begin(int argc, char *const *argv)
{
	char *directory TS_SCRATCH = ts_scratch();
	int saved_errno = errno;
	if (is_interpreter()) {
		interpreter = true;
		ts_line_begin();
		isolated = argc > 0 && ts_isolation(argv) != 0;
		if (!isolated && directory && find_directory(directory))
			put_in_front(directory);
		if (ts_config()->across != TS_ACROSS_OFF)
			ts_helper_find();
	}
	errno = saved_errno;
}

static bool is_torch(const struct ts_elf_object *object, void *data)
{
	static const char name[] = "libtorch_python.";
	(void)data;
	const char *slash = strrchr(object->path, '/');
	return slash && strncmp(slash + 1, name, sizeof(name) - 1) == 0;
}

void ts_torch_end(void)
{
	if (!interpreter || !ts_elf_each(is_torch, NULL))
		return;
	ts_line_note_trainer();
	if (isolated)
		ts_session_count_pass(TS_REASON_TORCH_ISOLATED);
}
