/* SPDX-License-Identifier: MIT */
/* The tables of pointers that Criterion's macros make in sections of a program. */
#ifndef TS_TESTS_UNIT_FORKED_SECTIONS_H
#define TS_TESTS_UNIT_FORKED_SECTIONS_H

#include <stddef.h>

struct section {
	/* In the program's memory; of a section that is not there NULL. */
	void *const *entries;
	size_t count;
};

/** Find a section of this process's program by name; -1 where its file @path is no ELF file. */
int sections_find(const char *path, const char *name, struct section *ret_section);

#endif
