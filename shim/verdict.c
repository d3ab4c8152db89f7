/* SPDX-License-Identifier: MIT */
/* What `tsrun doctor --gpu` has found, and whether it holds here. */
#include "shim/verdict.h"

#include "shim/log.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define MARK     "tsshim-gpu "
#define HEAD     MARK "1\n"
#define END      "end "
#define DIGITS   16u
#define END_SIZE (sizeof(END) - 1 + DIGITS + 1)

#define MODULE "/sys/module/nvidia/version"

void ts_verdict_driver(char ret_version[TS_VERDICT_DRIVER])
{
	int n = ts_sys_read_file(MODULE, ret_version, TS_VERDICT_DRIVER);

	if (n > 0)
		ret_version[strcspn(ret_version, " \t\n")] = '\0';
	if (n <= 0 || ret_version[0] == '\0')
		memcpy(ret_version, TS_VERDICT_SOFTWARE, sizeof(TS_VERDICT_SOFTWARE));
}

static void write_digits(const unsigned char *bytes, size_t count, char *ret_digits)
{
	for (size_t i = 0; i < 2 * count; i++)
		ret_digits[i] = "0123456789abcdef"[bytes[i / 2] >> (i % 2 ? 0 : 4) & 15];
	ret_digits[2 * count] = '\0';
}

/* Whether the last line says what is before it. */
static bool is_whole(const char *text, size_t bytes)
{
	uint64_t digest = UINT64_C(0xcbf29ce484222325);
	unsigned char order[sizeof(digest)];
	char digits[DIGITS + 1];

	if (bytes < sizeof(HEAD) - 1 + END_SIZE)
		return false;
	const char *end = text + bytes - END_SIZE;
	for (const char *at = text; at < end; at++)
		digest = (digest ^ (unsigned char)*at) * UINT64_C(0x100000001b3);
	for (size_t i = 0; i < sizeof(order); i++)
		order[i] = (unsigned char)(digest >> (56 - 8 * i));
	write_digits(order, sizeof(order), digits);
	return memcmp(end, END, sizeof(END) - 1) == 0 &&
	       memcmp(end + sizeof(END) - 1, digits, DIGITS) == 0 && text[bytes - 1] == '\n';
}

static int read_from(int fd, char ret_text[TS_VERDICT_BYTES])
{
	struct stat st;
	int r = ts_sys_fstat(fd, &st);

	if (r < 0)
		return r;
	if (!S_ISREG(st.st_mode) || st.st_size <= 0 || st.st_size >= (off_t)TS_VERDICT_BYTES)
		return -EBADMSG;
	if (st.st_uid != geteuid() || (st.st_mode & (S_IWGRP | S_IWOTH)))
		return -EPERM;
	size_t bytes = (size_t)st.st_size;
	r = ts_sys_read_all(fd, ret_text, bytes, 0);
	if (r < 0)
		return r;
	ret_text[bytes] = '\0';
	if (memchr(ret_text, '\0', bytes) || strncmp(ret_text, MARK, sizeof(MARK) - 1) != 0)
		return -EBADMSG;
	if (strncmp(ret_text, HEAD, sizeof(HEAD) - 1) != 0)
		return -EPROTO;
	return is_whole(ret_text, bytes) ? 0 : -EBADMSG;
}

int ts_verdict_read(const char *path, char ret_text[TS_VERDICT_BYTES])
{
	/* O_NONBLOCK: a fifo of that name must not keep us waiting. */
	int fd =
		ts_sys_open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0);

	if (fd < 0)
		return fd;
	int r = read_from(fd, ret_text);
	(void)ts_sys_close(fd);
	return r;
}

/* A driver made of software proves nothing of a GPU. */
static bool is_real(const char *driver)
{
#ifdef TS_TEST_BUILD
	return true;
#else
	return strcmp(driver, TS_VERDICT_SOFTWARE) != 0;
#endif
}

bool ts_verdict_allows(const char *text, const unsigned char uuid[16], int cuda)
{
	char driver[TS_VERDICT_DRIVER], digits[33], line[160];

	ts_verdict_driver(driver);
	write_digits(uuid, 16, digits);
	size_t length =
		ts_format(line, sizeof(line), "\ngpu %s %d %s yes\n", digits, cuda, driver);
	return is_real(driver) && length < sizeof(line) - 1 && strstr(text, line) != NULL;
}
