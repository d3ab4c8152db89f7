/* SPDX-License-Identifier: MIT */
/* The calls that change paths, before our constructor: nothing is searched for here. */
#include "hooks/file/next_private.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* What is more than a system call, and nothing that runs so early needs. */
static int no_such_call(void)
{
	errno = ENOSYS;
	return -1;
}

int ts_first_unlink(const char *path)
{
	return (int)syscall(SYS_unlinkat, AT_FDCWD, path, 0);
}

int ts_first_unlinkat(int directory, const char *path, int flags)
{
	return (int)syscall(SYS_unlinkat, directory, path, flags);
}

int ts_first_renameat2(
	int from_directory, const char *from, int directory, const char *to, unsigned flags)
{
	return (int)syscall(SYS_renameat2, from_directory, from, directory, to, flags);
}

int ts_first_renameat(int from_directory, const char *from, int directory, const char *to)
{
	return ts_first_renameat2(from_directory, from, directory, to, 0);
}

int ts_first_rename(const char *from, const char *to)
{
	return ts_first_renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int ts_first_linkat(
	int from_directory, const char *from, int directory, const char *to, int flags)
{
	return (int)syscall(SYS_linkat, from_directory, from, directory, to, flags);
}

int ts_first_link(const char *from, const char *to)
{
	return ts_first_linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int ts_first_truncate(const char *path, off_t bytes)
{
	return (int)syscall(SYS_truncate, path, bytes);
}

int ts_first_fchmodat(int directory, const char *path, unsigned mode, int flags)
{
	return flags ? no_such_call() : (int)syscall(SYS_fchmodat, directory, path, mode);
}

int ts_first_chmod(const char *path, unsigned mode)
{
	return ts_first_fchmodat(AT_FDCWD, path, mode, 0);
}

int ts_first_fchownat(int directory, const char *path, unsigned user, unsigned group, int flags)
{
	return (int)syscall(SYS_fchownat, directory, path, user, group, flags);
}

int ts_first_chown(const char *path, unsigned user, unsigned group)
{
	return ts_first_fchownat(AT_FDCWD, path, user, group, 0);
}

int ts_first_lchown(const char *path, unsigned user, unsigned group)
{
	return ts_first_fchownat(AT_FDCWD, path, user, group, AT_SYMLINK_NOFOLLOW);
}

int ts_first_utimes(const char *path, const void *times)
{
	return no_such_call();
}

int ts_first_utimensat(int directory, const char *path, const void *times, int flags)
{
	return (int)syscall(SYS_utimensat, directory, path, times, flags);
}

int ts_first_chroot(const char *path)
{
	return (int)syscall(SYS_chroot, path);
}

int ts_first_unshare(int flags)
{
	return (int)syscall(SYS_unshare, flags);
}

int ts_first_setns(int fd, int kind)
{
	return (int)syscall(SYS_setns, fd, kind);
}

int ts_first_mkdirat(int directory, const char *path, unsigned mode)
{
	return (int)syscall(SYS_mkdirat, directory, path, mode);
}

int ts_first_mkdir(const char *path, unsigned mode)
{
	return ts_first_mkdirat(AT_FDCWD, path, mode);
}

int ts_first_rmdir(const char *path)
{
	return (int)syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR);
}

int ts_first_mknodat(int directory, const char *path, unsigned mode, dev_t device)
{
	return (int)syscall(SYS_mknodat, directory, path, mode, (unsigned)device);
}

int ts_first_mknod(const char *path, unsigned mode, dev_t device)
{
	return ts_first_mknodat(AT_FDCWD, path, mode, device);
}

int ts_first_mkfifoat(int directory, const char *path, unsigned mode)
{
	return ts_first_mknodat(directory, path, (mode & 07777) | S_IFIFO, 0);
}

int ts_first_mkfifo(const char *path, unsigned mode)
{
	return ts_first_mkfifoat(AT_FDCWD, path, mode);
}

int ts_first_symlinkat(const char *target, int directory, const char *path)
{
	return (int)syscall(SYS_symlinkat, target, directory, path);
}

int ts_first_symlink(const char *target, const char *path)
{
	return ts_first_symlinkat(target, AT_FDCWD, path);
}

int ts_first_setxattr(
	const char *path, const char *name, const void *value, size_t bytes, int flags)
{
	return (int)syscall(SYS_setxattr, path, name, value, bytes, flags);
}

int ts_first_removexattr(const char *path, const char *name)
{
	return (int)syscall(SYS_removexattr, path, name);
}

int ts_first_lsetxattr(
	const char *path, const char *name, const void *value, size_t bytes, int flags)
{
	return (int)syscall(SYS_lsetxattr, path, name, value, bytes, flags);
}

int ts_first_lremovexattr(const char *path, const char *name)
{
	return (int)syscall(SYS_lremovexattr, path, name);
}
