/* SPDX-License-Identifier: MIT */
/* What the unit tests of event logs need: a directory, a ledger in memory, a writer for it. */
#ifndef TS_TESTS_UNIT_EVENTS_FIXTURE_H
#define TS_TESTS_UNIT_EVENTS_FIXTURE_H

#include "leader/events/write.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>

/* The smallest that a writer's lines always fit into. */
#define FIXTURE_MAX (UINT64_C(1) << 20)

struct fixture {
	char directory[64], path[128];
	struct ts_ledger *ledger;
	struct ts_event_log log;
	struct ts_event_writer *writer;
	bool alive[TS_JOB_MAX]; /* whether the job in that row lives */
	uint64_t cpu_ns;        /* that each of them has used */
};

extern struct fixture fixture;

void fixture_init(void);
void fixture_finish(void);

/** A job that the ledger has a row for and that lives; its id. */
uint64_t fixture_job(uint32_t row);

/** The file @path, NUL-terminated; to be freed. */
char *fixture_read(const char *path, size_t *ret_bytes);

/** Put @text into the log's place, mode 0600. */
void fixture_write(const char *text);

/** Whether @line, of @bytes with its newline, is one JSON object of a log, as far as a look
 * without a parser tells; tests/e2e/events_common.py parses them. */
bool fixture_is_line(const char *line, size_t bytes);

/** The digits from @at on.  A sanitizer that is strict about strings has strtoll() look at all
 * of a log for each number, and strchr() for each line. */
int64_t fixture_number(const char *at);

/** The number behind the last "key": of the last line that has @what and @more; -1: no line. */
int64_t fixture_last(const char *text, const char *what, const char *more, const char *key);

/** How many lines of @text have @what; all are sound. */
unsigned fixture_count(const char *text, const char *what);

#endif
