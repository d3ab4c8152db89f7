/* SPDX-License-Identifier: MIT */
/* Shared-memory objects: names, making, checking, and keeping hold of their descriptor. */
#include "leader/object/object.h"

#include "leader/object/killpoint.h"
#include "leader/object/limits.h"
#include "shim/atomic.h"
#include "shim/hash.h"
#include "shim/log.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Hosts close and reuse low descriptor numbers without asking; ours live above. */
#define FD_BASE 512

/* O_NONBLOCK matters only for what we refuse anyway: opening a FIFO must not wait. */
#define OPEN_FLAGS (O_RDWR | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK)

static const char *directory(void)
{
#ifdef TS_TEST_BUILD
	const char *other = getenv("TSSHIM_TEST_SHM");
	if (other)
		return other;
#endif
	return TS_SHM_DIR;
}

static bool is_group(const char *group)
{
	size_t length = strlen(group);

	for (size_t i = 0; i < length; i++) {
		char c = group[i];
		bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
		if (!letter && !(c >= '0' && c <= '9') && c != '_' && c != '-' && c != '.')
			return false;
	}
	return length > 0 && length <= TS_GROUP_MAX && group[0] != '.';
}

/* The number in a link like "user:[4026531837]", which costs half of what stat(2) of it does.
 */
static int read_namespace(const char *path, uint64_t *ret_number)
{
	char text[64];
	uint64_t number = 0;
	int r = ts_sys_readlink(path, text, sizeof(text));

	if (r < 0)
		return r;
	const char *at = strchr(text, '[');
	if (!at || at[1] < '0' || at[1] > '9')
		return -EINVAL;
	for (at++; *at >= '0' && *at <= '9'; at++)
		number = number * 10 + (uint64_t)(*at - '0');
	*ret_number = number;
	return 0;
}

/* The numbers of our namespaces, as lsns(8) shows them. Errors: those of readlink(2). */
static int read_namespaces(uint64_t *ret_user_ns, uint64_t *ret_pid_ns)
{
	uint64_t user_ns = 0, pid_ns = 0;
	int r = read_namespace("/proc/self/ns/user", &user_ns);

	if (r == 0)
		r = read_namespace("/proc/self/ns/pid", &pid_ns);
	if (r < 0)
		return r;
	*ret_user_ns = user_ns;
	*ret_pid_ns = pid_ns;
	return 0;
}

/*
 * Two calls of 3.5 us each, and a process asks for several names: so the numbers are kept for
 * this process id.  Where that is not enough (a child with its parent's number in a new PID
 * namespace, unshare(2) in the middle of a program), what the name leads to is of another
 * scope than ours, and refused.
 */
static int own_namespaces(uint64_t *ret_user_ns, uint64_t *ret_pid_ns)
{
	static _Atomic uint64_t user_ns, pid_ns;
	static _Atomic int known;
	int self = getpid();

	/* C1 pairs with C2: the numbers are there before the process id that they belong to. */
	if (ts_load_acquire(&known) != self) { /* C1 */
		uint64_t user = 0, pid = 0;
		int r = read_namespaces(&user, &pid);
		if (r < 0)
			return r;
		ts_write_relaxed(&user_ns, user);
		ts_write_relaxed(&pid_ns, pid);
		ts_write_release(&known, self); /* C2 */
	}
	*ret_user_ns = ts_load_relaxed(&user_ns);
	*ret_pid_ns = ts_load_relaxed(&pid_ns);
	return 0;
}

int ts_object_path(char *buffer, size_t bytes, const char *group, const char *suffix)
{
	uint64_t user_ns = 0, pid_ns = 0;

	if (!is_group(group))
		return -EINVAL;
	int r = own_namespaces(&user_ns, &pid_ns);
	if (r < 0)
		return r;
	size_t length = ts_format(buffer, bytes, "%s/tsshim.%u.%llu-%llu.%s.%s", directory(),
		(unsigned)geteuid(), (unsigned long long)user_ns, (unsigned long long)pid_ns,
		group, suffix);
	return length + 1 < bytes ? 0 : -EINVAL;
}

/* Move @fd out of the host's way. Must come before any lock: closing a descriptor drops them.
 */
static int move_up(int fd)
{
	int moved = ts_sys_fcntl(fd, F_DUPFD_CLOEXEC, (void *)(intptr_t)FD_BASE);

	if (moved < 0)
		return fd; /* RLIMIT_NOFILE is lower than that */
	ts_sys_close(fd);
	return moved;
}

static int check_owner(const struct stat *st)
{
	if (!S_ISREG(st->st_mode) || st->st_uid != geteuid() || (st->st_mode & 077) != 0)
		return -EPERM;
	return 0;
}

static int open_checked(const char *path, struct stat *ret_stat)
{
	struct stat st = {.st_ino = 0};
	int fd = ts_sys_open(path, OPEN_FLAGS, 0);

	/* A link, a directory, a device or a file of somebody else sits on our name. */
	if (fd == -ELOOP || fd == -EISDIR || fd == -EACCES || fd == -ENXIO || fd == -ENODEV)
		return -EPERM;
	if (fd < 0)
		return fd;
	int r = ts_sys_fstat(fd, &st);
	if (r == 0)
		r = check_owner(&st);
	if (r < 0) {
		ts_sys_close(fd);
		return r;
	}
	*ret_stat = st;
	return move_up(fd);
}

static void remember(struct ts_object *object, int fd, const struct stat *st)
{
	object->device = st->st_dev;
	object->inode = st->st_ino;
	object->bytes = (uint64_t)st->st_size;
	ts_write_relaxed(&object->fd, fd);
}

int ts_object_open(struct ts_object *object)
{
	struct stat st = {0};
	int fd = open_checked(object->path, &st);

	if (fd < 0)
		return fd;
	remember(object, fd, &st);
	return 0;
}

/* Give the unnamed file @fd its name, unless the name is taken. Errors: -errno of linkat. */
static int link_unnamed(int fd, const char *path)
{
	char self[48];

	ts_format(self, sizeof(self), "/proc/self/fd/%d", fd);
	return ts_sys_link(self, path, AT_SYMLINK_FOLLOW);
}

static int fill_object(int fd, uint64_t bytes, uint64_t allocate,
	void (*fill)(void *context, void *start), void *context)
{
	int r = ts_sys_ftruncate(fd, bytes);

	if (r == 0)
		r = ts_sys_fallocate(fd, 0, allocate);
	if (r < 0)
		return r;
	void *start = mmap(NULL, allocate, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (start == MAP_FAILED)
		return -ENOMEM;
	fill(context, start);
	munmap(start, allocate);
	return 0;
}

/* Where unnamed files do not exist: a private name, which only this pid ever uses. */
static int open_private(const struct ts_object *object, char *private, size_t bytes)
{
	const char *dot = strrchr(object->path, '.');

	ts_format(private, bytes, "%s", object->path);
	size_t stem = (size_t)(dot - object->path);
	ts_format(private + stem, bytes - stem, ".new.%d", getpid());
	ts_sys_unlink(private); /* left by a killed process that had our pid */
	return ts_sys_open(private, OPEN_FLAGS | O_CREAT | O_EXCL, 0600);
}

int ts_object_make(struct ts_object *object, uint64_t bytes, uint64_t allocate,
	void (*fill)(void *context, void *start), void *context)
{
	char private[TS_PATH_BYTES + 16] = "";
	struct stat st = {.st_ino = 0};
	bool unnamed = true;

	/* Otherwise a signal would end the program. */
	if (!ts_limits_allow_file(bytes))
		return -ENOSPC;
	int fd = ts_sys_open(directory(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);

	if (fd < 0) {
		unnamed = false;
		fd = open_private(object, private, sizeof(private));
	}
	if (fd < 0)
		return fd;
	fd = move_up(fd);
	int r = fill_object(fd, bytes, allocate, fill, context);
	TS_KILLPOINT(attach_made);
	if (r == 0)
		r = unnamed ? link_unnamed(fd, object->path)
			    : ts_sys_link(private, object->path, 0);
	if (r == 0)
		r = ts_sys_fstat(fd, &st);
	if (!unnamed)
		ts_sys_unlink(private);
	if (r < 0) {
		ts_sys_close(fd);
		return r;
	}
	TS_KILLPOINT(attach_linked);
	remember(object, fd, &st);
	return 0;
}

static bool is_ours(const struct ts_object *object, int fd)
{
	struct stat st = {.st_ino = 0};

	return fd >= 0 && ts_sys_fstat(fd, &st) == 0 && st.st_dev == object->device &&
	       st.st_ino == object->inode;
}

int ts_object_fd(struct ts_object *object, bool *ret_reopened)
{
	struct stat st = {0};
	uint32_t idle = 0;
	int fd = ts_load_relaxed(&object->fd);

	if (is_ours(object, fd))
		return fd;
	if (!ts_cas(&object->repair, &idle, 1))
		return -EAGAIN;
	/* The old number, if open at all, is the host's now: it is not closed. */
	fd = open_checked(object->path, &st);
	if (fd >= 0 && (st.st_dev != object->device || st.st_ino != object->inode)) {
		ts_sys_close(fd);
		fd = -EBADF;
	}
	ts_write_relaxed(&object->fd, fd < 0 ? -1 : fd);
	ts_write_release(&object->repair, 0); /* pairs with the CAS above: a plain try-lock */
	if (fd < 0)
		return -EBADF;
	if (ret_reopened)
		*ret_reopened = true;
	return fd;
}

bool ts_object_is_named(const struct ts_object *object)
{
	struct stat st = {.st_ino = 0};

	return ts_sys_stat(object->path, &st) == 0 && st.st_dev == object->device &&
	       st.st_ino == object->inode;
}

void ts_object_close(struct ts_object *object)
{
	int fd = ts_load_relaxed(&object->fd);

	if (is_ours(object, fd))
		ts_sys_close(fd);
	ts_write_relaxed(&object->fd, -1);
}

int ts_object_lock_byte(int fd, int64_t byte, int type)
{
	struct flock lock = {
		.l_type = (short)type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
	int r = ts_sys_fcntl(fd, F_SETLK, &lock);

	return r == -EACCES ? -EAGAIN : r < 0 ? r : 0;
}

/* "8-4-4-4-12" hexadecimal digits to 16 bytes. */
static int parse_uuid(const char *text, uint8_t *bytes)
{
	uint32_t digits = 0;

	for (; *text && *text != '\n'; text++) {
		char c = *text;
		if (c == '-')
			continue;
		int value = c >= '0' && c <= '9'   ? c - '0'
			    : c >= 'a' && c <= 'f' ? c - 'a' + 10
						   : -1;
		if (value < 0 || digits >= 32)
			return -EINVAL;
		bytes[digits / 2] = (uint8_t)(bytes[digits / 2] << 4 | value);
		digits++;
	}
	return digits == 32 ? 0 : -EINVAL;
}

int ts_scope_read(struct ts_scope *ret_scope)
{
	struct ts_scope scope = {.uid = (uint32_t)geteuid()};
	char text[64];
	int r = ts_sys_read_file("/proc/sys/kernel/random/boot_id", text, sizeof(text));

	if (r >= 0)
		r = parse_uuid(text, scope.boot_id);
	if (r >= 0)
		r = read_namespaces(&scope.user_ns, &scope.pid_ns);
	if (r < 0)
		return r;
	*ret_scope = scope;
	return 0;
}

int ts_scope_check(const struct ts_scope *mine, const struct ts_object_head *head)
{
	if (head->uid != mine->uid)
		return -EPERM;
	if (memcmp(head->boot_id, mine->boot_id, sizeof(mine->boot_id)) != 0 ||
		head->user_ns != mine->user_ns || head->pid_ns != mine->pid_ns)
		return -EXDEV;
	return 0;
}

void ts_object_head_fill(
	void *start, uint64_t magic, uint32_t abi, const struct ts_scope *scope, size_t bytes)
{
	struct ts_object_head *head = start;

	head->magic = magic;
	head->abi = abi;
	head->uid = scope->uid;
	memcpy(head->boot_id, scope->boot_id, sizeof(head->boot_id));
	head->user_ns = scope->user_ns;
	head->pid_ns = scope->pid_ns;
	uint64_t check = ts_hash64(start, bytes);
	memcpy((char *)start + bytes, &check, sizeof(check));
}

int ts_object_head_check(const void *start, uint64_t magic, uint32_t abi, size_t bytes)
{
	const struct ts_object_head *head = start;
	uint64_t check;

	if (head->magic != magic)
		return -EBADMSG;
	/* Another version may have its check elsewhere: ask for the version first. */
	if (head->abi != abi)
		return -EPROTO;
	memcpy(&check, (const char *)start + bytes, sizeof(check));
	return check == ts_hash64(start, bytes) ? 0 : -EBADMSG;
}

int ts_object_read_start(int fd, void *buffer, size_t bytes)
{
	int64_t r = ts_sys_read(fd, buffer, bytes);

	return r == (int64_t)bytes ? 0 : -EBADMSG;
}

/* ---- kill points of the test build: die or stop at a named step of the protocol --------- */

#ifdef TS_TEST_BUILD

/* How often the awaited name was reached in this process (a fork inherits the count). */
static _Atomic uint32_t kill_count, stop_count;

/* Whether @setting, "<name>[:<count>]", names this visit of @name. */
static bool is_due(const char *setting, const char *name, _Atomic uint32_t *count)
{
	size_t length = strlen(name);

	if (!setting || strncmp(setting, name, length) != 0)
		return false;
	if (setting[length] != '\0' && setting[length] != ':')
		return false;
	uint32_t wanted = setting[length] == ':' ? (uint32_t)atoi(setting + length + 1) : 1;
	return ts_add_relaxed(count, 1) + 1 == wanted;
}

/* The environment is read at every visit, because tests set it between fork and attach. */
void ts_killpoint_reached(const char *name)
{
	if (is_due(getenv("TSSHIM_TEST_KILL"), name, &kill_count))
		ts_sys_kill(getpid(), SIGKILL);
	if (is_due(getenv("TSSHIM_TEST_STOP"), name, &stop_count))
		ts_sys_kill(getpid(), SIGSTOP);
}

#endif
