/* SPDX-License-Identifier: MIT */
/* What the unit tests of event logs need. */
#include "fixture.h"

#include "shim/atomic.h"
#include "shim/identity.h"

#include <sys/mman.h>

struct fixture fixture;

void fixture_init(void)
{
	memset(&fixture, 0, sizeof(fixture));
	strcpy(fixture.directory, "/tmp/tsshim-events-XXXXXX");
	cr_assert(mkdtemp(fixture.directory) != NULL);
	(void)snprintf(fixture.path, sizeof(fixture.path), "%s/log", fixture.directory);
	fixture.ledger = mmap(NULL, TS_LEDGER_BYTES, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	cr_assert(fixture.ledger != MAP_FAILED);
	fixture.group = (struct ts_sample_group){.name = "unit-events",
		.report = {.group = "unit-events", .ledger = fixture.ledger}};
	fixture.file = (struct ts_log_file){
		.path = fixture.path, .group = "unit-events", .max = FIXTURE_MAX, .fd = -1};
}

void fixture_finish(void)
{
	char command[128];

	ts_log_file_close(&fixture.file);
	free(fixture.line);
	(void)snprintf(command, sizeof(command), "rm -rf %s", fixture.directory);
	cr_assert(eq(int, system(command), 0));
}

uint64_t fixture_job(uint32_t row)
{
	/* Beyond any pid: /proc has nothing to say of them. */
	static uint64_t start;
	uint64_t id = (UINT64_C(1000) + ++start) << 24 | 0xfffff0;

	cr_assert(eq(int, ts_ledger_find_job(fixture.ledger, id), (int)row));
	fixture.group.alive[row] = true;
	return id;
}

char *fixture_read(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	off_t bytes = fd < 0 ? -1 : lseek(fd, 0, SEEK_END);

	cr_assert(bytes >= 0, "%s", path);
	char *text = malloc((size_t)bytes + 1);
	cr_assert(eq(long, pread(fd, text, (size_t)bytes, 0), (long)bytes));
	text[bytes] = '\0';
	close(fd);
	return text;
}

void fixture_write(const char *text)
{
	int fd = open(fixture.path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);

	cr_assert(fd >= 0);
	cr_assert(eq(long, write(fd, text, strlen(text)), (long)strlen(text)));
	close(fd);
}

const char *fixture_line(uint64_t now_ms)
{
	size_t bytes;

	free(fixture.line);
	FILE *out = open_memstream(&fixture.line, &bytes);
	cr_assert(out != NULL);
	ts_log_write(&fixture.jobs, &fixture.group, now_ms, 1000, out);
	cr_assert(eq(int, fclose(out), 0));
	cr_assert(eq(ptr, strchr(fixture.line, '\n'), fixture.line + bytes - 1));
	return fixture.line;
}

unsigned fixture_count(const char *what)
{
	unsigned count = 0;

	for (const char *at = fixture.line; (at = strstr(at, what)); at++)
		count++;
	return count;
}

int64_t fixture_number(uint64_t id, const char *key)
{
	char job[64], member[64];

	(void)snprintf(job, sizeof(job), "{\"job\":\"%d.%llu\"", (int)TS_PROCESS_PID(id),
		(unsigned long long)(id >> 24));
	(void)snprintf(member, sizeof(member), "\"%s\":", key);
	const char *at = strstr(fixture.line, job);
	const char *end = at ? strstr(at + 1, "{\"job\"") : NULL;
	at = at ? strstr(at, member) : NULL;
	return at && (!end || at < end) ? strtoll(at + strlen(member), NULL, 10) : -1;
}
