/* SPDX-License-Identifier: MIT */
/* The file of a request: leader/peer/transfer.h says what it has to be. */
#include "leader/peer/transfer_private.h"

#include "leader/files/stage_private.h"
#include "shim/log.h"
#include "shim/sys.h"

#include <fcntl.h>

static int check(int fd, uint32_t uid, const struct ts_mail_request *request)
{
	struct stat st;
	int r = ts_sys_fstat(fd, &st);

	if (r < 0)
		return r;
	if (!S_ISREG(st.st_mode) || st.st_uid != uid || st.st_ino != request->inode)
		return -ESTALE;
	return (uint64_t)st.st_size >= request->at + request->bytes ? 0 : -ESTALE;
}

static int open_and_check(const char *path, int flags, uint32_t uid,
	const struct ts_mail_request *request, int *ret_fd)
{
	/* Not blocking: it may be a pipe. */
	int fd = ts_sys_open(path, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);

	if (fd < 0)
		return fd;
	int r = check(fd, uid, request);
	if (r < 0)
		ts_sys_close(fd);
	else
		*ret_fd = fd;
	return r;
}

int ts_transfer_open(const struct ts_transfers *transfers,
	const struct ts_mail_request *request, int *ret_fd)
{
	char path[TS_STAGE_PATH], part[TS_STAGE_PATH];
	bool is_store = request->kind == TS_MAIL_STORE;
	int r = -ENOENT;

	if (!transfers->stem) /* no files are staged here */
		return r;
	ts_stage_path_with(transfers->stem, request->copy, path);
	ts_format(part, sizeof(part), "%s.part", path);
	/* What is complete is never written to; what was made may have its name by now, */
	if (is_store)
		r = open_and_check(path, O_RDONLY, transfers->uid, request, ret_fd);
	if (r < 0)
		r = open_and_check(
			part, is_store ? O_RDONLY : O_WRONLY, transfers->uid, request, ret_fd);
	/* or get it between the two looks. */
	if (r == -ENOENT && is_store)
		r = open_and_check(path, O_RDONLY, transfers->uid, request, ret_fd);
	return r;
}

int ts_transfer_write(int fd, const void *from, size_t bytes, uint64_t at)
{
	for (size_t done = 0; done < bytes;) {
		int64_t n =
			ts_sys_pwrite(fd, (const char *)from + done, bytes - done, at + done);
		if (n == -EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? (int)n : -ENOSPC;
		done += (size_t)n;
	}
	return 0;
}
