/* SPDX-License-Identifier: MIT */
/*
 * The list of opened files in a record.  First byte odd: the rest is the record.  Even: the
 * rest changes a good one (each 4 bytes: offset 2, what to do, value).
 */
#include "fuzz.h"

#include "leader/inputs/opens.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

static unsigned char good[TS_OPENS_ENCODED_MAX];
static size_t good_size;

/* Two files, one of them not there, of which the first is this program. */
static void make_good(void)
{
	struct ts_opens opens;
	char path[4096];
	ssize_t bytes = readlink("/proc/self/exe", path, sizeof(path) - 1);
	FUZZ_CHECK(bytes > 0);
	path[bytes] = '\0';
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ts_opens_begin(&opens);
	ts_opens_note(&opens, AT_FDCWD, path, O_RDONLY, fd, NULL);
	errno = ENOENT;
	ts_opens_note(&opens, AT_FDCWD, "/no/such/file", O_RDONLY, -1, NULL);
	FUZZ_CHECK(ts_opens_end(&opens) == 0);
	close(fd);
	good_size = (size_t)ts_opens_encode(&opens, good, sizeof(good));
	FUZZ_CHECK(good_size > 0 && good_size <= sizeof(good));
}

/* Of exact size, so that the sanitizers see a byte too many. */
static int check(const unsigned char *record, size_t size)
{
	unsigned char *copy = malloc(size ? size : 1);
	FUZZ_CHECK(copy != NULL);
	memcpy(copy, record, size);
	int before = dup(STDERR_FILENO);
	close(before);
	int r = ts_opens_check(copy, size);
	int after = dup(STDERR_FILENO);
	close(after);
	FUZZ_CHECK(r <= 0 && r > -4096);
	FUZZ_CHECK(before == after);
	free(copy);
	return r;
}

static void check_changed(const uint8_t *data, size_t size)
{
	unsigned char record[sizeof(good)];
	size_t record_size = good_size;

	memcpy(record, good, good_size);
	for (; size >= 4; data += 4, size -= 4) {
		size_t at = ((size_t)data[0] | (size_t)data[1] << 8) % good_size;
		if (data[2] & 1)
			record[at] ^= data[3];
		else if (data[2] & 2)
			record[at] = data[3];
		else
			record_size = at;
	}
	int r = check(record, record_size);
	if (record_size == good_size && memcmp(record, good, good_size) == 0)
		FUZZ_CHECK(r == 0);
	else if (record_size != good_size)
		FUZZ_CHECK(r < 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (good_size == 0)
		make_good();
	if (size == 0 || data[0] & 1)
		check(size ? data + 1 : data, size ? size - 1 : 0);
	else
		check_changed(data + 1, size - 1);
	return 0;
}
