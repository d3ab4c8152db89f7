/* SPDX-License-Identifier: MIT */
/* What ELF files say of themselves, for `tsrun doctor`.  Without libelf they say nothing. */
#ifndef TS_TSRUN_INSPECT_H
#define TS_TSRUN_INSPECT_H

#include "shim/mark.h"

/**
 * Read what the library file @path says of itself into *ret_mark, its version terminated.
 * Errors: -ENOENT it says nothing; -ENOTSUP built without libelf; -EIO no ELF file, or damaged.
 */
int ts_inspect_mark(const char *path, struct ts_mark *ret_mark);

/** What is inside a program. */
struct ts_inspection {
	bool python;  /* its main() is that of CPython 3.8 or newer, which the library looks for
		       */
	bool decoder; /* a libjpeg of its own, which nothing can be put in front of */
};

/** Look into the program file @path.  Errors: -ENOTSUP; -EIO as above. */
int ts_inspect_program(const char *path, struct ts_inspection *ret_inspection);

#endif
