/* SPDX-License-Identifier: MIT */
/* What the unit tests of event logs need: a directory, a ledger in memory, and its lines. */
#ifndef TS_TESTS_UNIT_EVENTS_FIXTURE_H
#define TS_TESTS_UNIT_EVENTS_FIXTURE_H

#include "shim/tsrun/log_recorder.h"
#include "shim/tsrun/log_line.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define FIXTURE_MAX (UINT64_C(1) << 20)

struct fixture {
	char directory[64], path[128];
	struct ts_ledger *ledger;
	struct ts_sample_group group; /* with that ledger */
	struct ts_log_jobs jobs;
	struct ts_log_file file;
	char *line; /* the latest one */
};

extern struct fixture fixture;

void fixture_init(void);
void fixture_finish(void);

/** A job that the ledger has a row for and that lives; its id. */
uint64_t fixture_job(uint32_t row);

/** The file @path, NUL-terminated; to be freed. */
char *fixture_read(const char *path);

/** Put @text into the log's place, mode 0600. */
void fixture_write(const char *text);

/** The line of now; tests/e2e/events_common.py parses such lines. */
const char *fixture_line(uint64_t now_ms);

/** How often @what is in the latest line. */
unsigned fixture_count(const char *what);

/** The number behind "key": where the latest line tells of job @id; -1: it does not. */
int64_t fixture_number(uint64_t id, const char *key);

#endif
