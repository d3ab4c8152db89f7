/* SPDX-License-Identifier: MIT */
/* A file and a group to copy it in; see fixture_stage.h. */
#include "fixture_stage.h"
#include "leader/files/names.h"

#include <glob.h>

struct fixture_files fixture_files;

static char folder[] = "/var/tmp/tsshim-unit-XXXXXX";

void fixture_write_file(char fill, size_t bytes)
{
	char *text = malloc(bytes);
	int fd = open(fixture_files.path, O_WRONLY | O_CREAT | O_TRUNC, 0644);

	memset(text, fill, bytes);
	cr_assert(eq(int, (int)write(fd, text, bytes), (int)bytes));
	close(fd);
	free(text);
}

void fixture_stage_init(void)
{
	fixture_init();
	cr_assert(mkdtemp(folder) != NULL);
	snprintf(fixture_files.path, sizeof(fixture_files.path), "%s/file", folder);
	fixture_write_file('a', BYTES);
	fixture_files.store = fixture_attach(JOB_A);
	cr_assert(eq(int,
		ts_stage_attach(fixture_files.store, fixture_group(), NULL, CAPACITY,
			&fixture_files.stage),
		0));
}

void fixture_stage_finish(void)
{
	ts_stage_destroy(fixture_files.stage);
	fixture_detach(fixture_files.store);
	unlink(fixture_files.path);
	rmdir(folder);
	fixture_finish();
}

int fixture_open_copy(uint64_t wait_ns, bool *ret_fetched)
{
	struct ts_stage_copy copy = {.fd = -1};
	int fd = open(fixture_files.path, O_RDONLY);

	cr_assert(eq(int, fstat(fd, &fixture_files.was), 0));
	struct ts_stage_source source = {
		.fd = fd, .stat = &fixture_files.was, .path = fixture_files.path};
	int r = ts_stage_open(fixture_files.stage, &source, O_RDONLY, wait_ns, &copy);
	close(fd);
	if (r == 0 && ret_fetched)
		*ret_fetched = copy.fetched;
	return r < 0 ? r : copy.fd;
}

bool fixture_holds(int fd, char fill, size_t bytes)
{
	char *text = malloc(bytes + 1);
	bool right = pread(fd, text, bytes + 1, 0) == (ssize_t)bytes;

	for (size_t i = 0; right && i < bytes; i++)
		right = text[i] == fill;
	free(text);
	return right;
}

uint64_t fixture_used(void)
{
	return ts_load_relaxed(&fixture_files.stage->index.head->used) - TS_STAGE_CHUNK;
}

void fixture_time_passes(unsigned ms)
{
	uint64_t until = ts_stage_now_ms() + ms;

	while (ts_stage_now_ms() <= until)
		usleep(500);
}

const char *fixture_name_of_copy(void)
{
	static char name[TS_STAGE_STEM + 48];
	char pattern[TS_STAGE_STEM + 8];
	glob_t found;

	snprintf(pattern, sizeof(pattern), "%s*", fixture_files.stage->index.stem);
	if (glob(pattern, 0, NULL, &found) != 0)
		return NULL;
	snprintf(name, sizeof(name), "%s", found.gl_pathv[0]);
	globfree(&found);
	return name;
}
