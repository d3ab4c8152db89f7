/* SPDX-License-Identifier: MIT */
/* A file, a group of its own, and the copies of that file in it, for tests of leader/stage. */
#ifndef TS_TESTS_LEADER_FIXTURE_STAGE_H
#define TS_TESTS_LEADER_FIXTURE_STAGE_H

#include "fixture.h"
#include "leader/files/stage.h"
#include "leader/files/index_private.h"

#define CAPACITY (UINT64_C(4) << 20)
#define BYTES    10000u /* of the file at first */

extern struct fixture_files {
	char path[128]; /* of the file */
	struct ts_store *store;
	struct ts_stage *stage;
	struct stat was; /* the file when fixture_open_copy() opened it last */
} fixture_files;

void fixture_stage_init(void);
void fixture_stage_finish(void);

/** Give the file @bytes bytes, all of them @fill. */
void fixture_write_file(char fill, size_t bytes);

/** Open the copy of the file as it is now; the error, or its descriptor. */
int fixture_open_copy(uint64_t wait_ns, bool *ret_fetched);

/** Whether @fd has @bytes bytes, all of them @fill. */
bool fixture_holds(int fd, char fill, size_t bytes);

/** Bytes that copies take, as the index has it. */
uint64_t fixture_used(void);

/** Wait until more than so many ms have passed for what is noted in the index. */
void fixture_time_passes(unsigned ms);

/** Name of the first copy, or of its .part; NULL when there is none. */
const char *fixture_name_of_copy(void);

#endif
