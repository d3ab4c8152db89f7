/* SPDX-License-Identifier: MIT */
/* What the unit tests of event logs need. */
#include "fixture.h"

#include "shim/atomic.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct fixture fixture;

static bool look(uint64_t id, uint64_t *ret_cpu_ns)
{
	*ret_cpu_ns = fixture.cpu_ns;
	for (uint32_t i = 0; i < TS_JOB_MAX; i++)
		if (ts_load_relaxed(&ts_ledger_job(fixture.ledger, i)->id) == id)
			return fixture.alive[i];
	return false;
}

void fixture_init(void)
{
	memset(&fixture, 0, sizeof(fixture));
	strcpy(fixture.directory, "/tmp/tsshim-events-XXXXXX");
	cr_assert(mkdtemp(fixture.directory) != NULL);
	(void)snprintf(fixture.path, sizeof(fixture.path), "%s/log", fixture.directory);
	fixture.ledger = mmap(NULL, TS_LEDGER_BYTES, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert(fixture.ledger != MAP_FAILED);
	fixture.log = (struct ts_event_log){
		.path = fixture.path, .group = "unit-events", .max = FIXTURE_MAX, .fd = -1};
	fixture.writer = calloc(1, sizeof(*fixture.writer));
	fixture.writer->ledger = fixture.ledger;
	fixture.writer->log = &fixture.log;
	fixture.writer->group = "unit-events";
	fixture.writer->look = look;
}

void fixture_finish(void)
{
	char command[128];

	ts_event_log_close(&fixture.log);
	free(fixture.writer);
	(void)snprintf(command, sizeof(command), "rm -rf %s", fixture.directory);
	cr_assert(eq(int, system(command), 0));
}

uint64_t fixture_job(uint32_t row)
{
	/* Beyond any pid: /proc has nothing to say of them. */
	static uint64_t start;
	uint64_t id = (UINT64_C(1000) + ++start) << 24 | 0xfffff0;

	cr_assert(eq(int, ts_ledger_find_job(fixture.ledger, id), (int)row));
	fixture.alive[row] = true;
	return id;
}

char *fixture_read(const char *path, size_t *ret_bytes)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	off_t bytes = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);

	cr_assert(bytes >= 0, "%s", path);
	char *text = malloc((size_t)bytes + 1);
	cr_assert(eq(long, pread(fd, text, (size_t)bytes, 0), (long)bytes));
	text[bytes] = '\0';
	close(fd);
	if (ret_bytes)
		*ret_bytes = (size_t)bytes;
	return text;
}

void fixture_write(const char *text)
{
	int fd = open(fixture.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	cr_assert(fd >= 0);
	cr_assert(eq(long, write(fd, text, strlen(text)), (long)strlen(text)));
	close(fd);
}

bool fixture_is_line(const char *line, size_t bytes)
{
	bool in_string = false;
	int depth = 0;

	if (bytes < 3 || bytes > TS_EVENTS_LINE || line[0] != '{' || line[bytes - 1] != '\n' ||
		line[bytes - 2] != '}')
		return false;
	for (size_t i = 0; i < bytes - 1; i++) {
		if (line[i] == '"')
			in_string = !in_string;
		else if (in_string && line[i] == '\\')
			i++;
		else if (!in_string)
			depth += (line[i] == '{') - (line[i] == '}');
		if (depth == 0 && i < bytes - 2)
			return false;
	}
	return depth == 0 && !in_string && memmem(line, bytes, "\"t\":", 4) != NULL;
}

int64_t fixture_number(const char *at)
{
	int64_t number = 0;

	for (; *at >= '0' && *at <= '9'; at++)
		number = number * 10 + (*at - '0');
	return number;
}

int64_t fixture_last(const char *text, const char *what, const char *more, const char *key)
{
	char member[64];
	int64_t value = -1;
	const char *end = text + strlen(text);

	(void)snprintf(member, sizeof(member), "\"%s\":", key);
	for (const char *line = text, *next; line < end; line = next + 1) {
		next = memchr(line, '\n', (size_t)(end - line));
		size_t bytes = (size_t)(next - line);
		if (!memmem(line, bytes, what, strlen(what)) ||
			!memmem(line, bytes, more, strlen(more)))
			continue;
		const char *at = memmem(line, bytes, member, strlen(member));
		if (at)
			value = fixture_number(at + strlen(member));
	}
	return value;
}

unsigned fixture_count(const char *text, const char *what)
{
	unsigned count = 0;
	const char *end = text + strlen(text);

	for (const char *line = text; line < end;) {
		const char *last = memchr(line, '\n', (size_t)(end - line));
		cr_assert(last != NULL, "torn: %s", line);
		size_t bytes = (size_t)(last - line) + 1;
		cr_assert(fixture_is_line(line, bytes), "%.*s", (int)bytes, line);
		count += memmem(line, bytes, what, strlen(what)) != NULL;
		line = last + 1;
	}
	return count;
}
