/* SPDX-License-Identifier: MIT */
/* Files that several nodes make at once: leader/peer/place.h explains it. */
#include "leader/peer/place.h"

#include "shim/sys.h"

#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <unistd.h>

static int write_all(int fd, const char *text, size_t bytes)
{
	while (bytes > 0) {
		int64_t n = ts_sys_write(fd, text, bytes);
		if (n < 0 && n != -EINTR)
			return (int)n;
		text += n > 0 ? n : 0;
		bytes -= n > 0 ? (size_t)n : 0;
	}
	/* Another node must not find a name without its bytes, whatever happens to this one. */
	return fsync(fd) < 0 ? -errno : 0;
}

/* Give @from the name @path; it has no other one afterwards. */
static int name(const char *from, const char *path, enum ts_place_how how)
{
	int r;

	if (how == TS_PLACE_REPLACE) {
		r = ts_sys_rename(from, path);
		if (r == 0)
			return 0;
	} else {
		r = ts_sys_link(from, path, 0);
	}
	(void)ts_sys_unlink(from);
	return r;
}

int ts_place(const char *path, const void *text, size_t bytes, enum ts_place_how how)
{
	char own[PATH_MAX];
	uint64_t random;

	if (getrandom(&random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	if (snprintf(own, sizeof(own), "%s.new.%016" PRIx64, path, random) >= (int)sizeof(own))
		return -ENAMETOOLONG;
	int fd = ts_sys_open(own, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	if (fd < 0)
		return fd;
	int r = write_all(fd, text, bytes);
	ts_sys_close(fd);
	if (r == 0)
		return name(own, path, how);
	(void)ts_sys_unlink(own);
	return r;
}

static int64_t read_open(int fd, size_t max, char **ret_text)
{
	struct stat st;
	int r = ts_sys_fstat(fd, &st);

	if (r < 0)
		return r;
	if (!S_ISREG(st.st_mode))
		return -EINVAL;
	if ((uint64_t)st.st_size > max)
		return -EFBIG;
	char *text = malloc((size_t)st.st_size + 1);
	if (!text)
		return -ENOMEM;
	r = ts_sys_read_all(fd, text, (uint64_t)st.st_size, 0);
	if (r < 0) {
		OPENSSL_cleanse(text, (size_t)st.st_size);
		free(text);
		return r;
	}
	text[st.st_size] = '\0';
	*ret_text = text;
	return st.st_size;
}

int64_t ts_place_read(const char *path, size_t max, char **ret_text)
{
	int fd =
		ts_sys_open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY, 0);

	if (fd < 0)
		return fd;
	int64_t r = read_open(fd, max, ret_text);
	ts_sys_close(fd);
	return r;
}
