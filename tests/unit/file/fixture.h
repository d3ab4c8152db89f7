/* SPDX-License-Identifier: MIT */
/* Files in a folder of the test's own, and items that open them. */
#ifndef TS_TESTS_UNIT_FILE_FIXTURE_H
#define TS_TESTS_UNIT_FILE_FIXTURE_H

#include "leader/inputs/opens.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

/** Make the folder and go there; remove it with all that is in it. */
void folder_make(void);
void folder_remove(void);

/** Absolute path of @name in the folder; good until the call after the next. */
const char *in_folder(const char *name);

/** Make a file of the folder, or write it anew. */
void file_write(const char *name, const char *text);

/** What is done to files from now on has a later time stamp than what was done before. */
void file_clock_ticks(void);

/** Make an item that opens @path to read; what ts_opens_end() says. */
int item_reads(struct ts_opens *opens, const char *path);

/** Descriptors that are open. */
unsigned descriptors(void);

#endif
