/* SPDX-License-Identifier: MIT */
/* Staged files at the border to the program: giving out copies, answering for originals. */
#include "hooks/file/staged.h"

#include "hooks/file/staged_root.h"
#include "leader/files/stage.h"
#include "leader/group/session.h"
#include "shim/atomic.h"
#include "shim/config.h"
#include "shim/hash.h"
#include "shim/helper.h"
#include "shim/identity.h"
#include "shim/scratch.h"
#include "shim/sys.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/fs.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#define RETRY_NS UINT64_C(1000000000)

/* Files this process may hold fcntl() locks on; with more of them nothing is staged any more.
 */
#define LOCKED_MAX 16u

/* Copies given back before we ask whether this process wants any. */
#define UNWANTED_MIN 4u

/* linux/loop.h; the last one is not in older headers. */
#define LOOP_SET_FD    0x4c00
#define LOOP_CHANGE_FD 0x4c06
#define LOOP_CONFIGURE 0x4c0a

_Atomic int ts_staged_on;

/* The group's copies as this process has them, or only asks for. */
static struct ts_stage *_Atomic stage;
static _Atomic uint32_t stage_serial; /* of the process that made sure of it */
static _Atomic pid_t attaching;       /* the process one thread of which is at it, or 0 */
static _Atomic uint64_t retry_at;

static _Atomic uint64_t locked[LOCKED_MAX]; /* inodes */
static _Atomic uint64_t beside[LOCKED_MAX]; /* hashes of the paths of their directories */
static _Atomic uint32_t locked_count;
static _Atomic uint32_t given, given_back; /* copies; a fork child goes on counting */

void ts_staged_begin(void)
{
	const struct ts_config *config = ts_config();
	bool named = config->dataset_dir && config->dataset_dir[0] == '/';
	if (config->stage == TS_STAGE_OFF || !named || config->stage_bytes == 0)
		return;
	ts_helper_find();
	ts_write_relaxed(&ts_staged_on, 1);
}

/* ---- the group's copies ------------------------------------------------------------------ */

/* The index of a group that had ended meanwhile is nobody's: a fork child may have it still. */
static struct ts_stage *still_valid(uint32_t serial)
{
	struct ts_stage *known = ts_load_acquire(&stage);
	if (!known || ts_load_relaxed(&stage_serial) == serial)
		return known;
	if (known->capacity == 0 || !ts_object_is_named(&known->index.object))
		return NULL;
	ts_write_relaxed(&stage_serial, serial);
	return known;
}

struct ts_stage *ts_staged_joined(void)
{
	struct ts_stage *known = ts_load_acquire(&stage);
	bool is_mine = known && known->capacity > 0 &&
		       ts_load_relaxed(&stage_serial) == ts_identity_serial();
	return TS_LIKELY(is_mine) ? known : NULL;
}

/* Old ones stay mapped: another thread may be asking them. */
static struct ts_stage *attach(const struct ts_session *session)
{
	const struct ts_config *config = ts_config();
	struct ts_stage *joined;
	if (ts_stage_attach(session->store, config->group, config->stage_dir,
		    config->stage_bytes, &joined) < 0) {
		ts_write_relaxed(&retry_at, ts_now_ns() + RETRY_NS);
		return NULL;
	}
	if (config->cluster)
		(void)ts_stage_use_others(joined, session->store);
	ts_write_relaxed(&stage_serial, ts_identity_serial());
	ts_write_release(&stage, joined); /* pairs with the loads of `stage` */
	return joined;
}

static bool begin_attaching(void)
{
	pid_t self = getpid(), holder = ts_load_relaxed(&attaching);
	return ts_now_ns() >= ts_load_relaxed(&retry_at) && holder != self &&
	       ts_cas(&attaching, &holder, self);
}

/* The copies of @session's group, joined when they are not yet; NULL while they cannot be. */
static struct ts_stage *join(const struct ts_session *session)
{
	uint32_t serial = ts_identity_serial();
	struct ts_stage *joined = still_valid(serial);
	if (joined && joined->capacity > 0)
		return joined;
	if (!begin_attaching())
		return NULL;
	joined = still_valid(serial);
	if (!joined || joined->capacity == 0)
		joined = attach(session);
	ts_write_release(&attaching, 0);
	return joined;
}

struct ts_stage *ts_staged_enter(void)
{
	struct ts_stage *joined = ts_staged_joined();
	enum ts_reason reason;
	if (TS_LIKELY(joined) || ts_identity_check() == TS_VFORK_CHILD)
		return joined;
	const struct ts_session *session = ts_session_enter_for_files(&reason);
	return session ? join(session) : NULL;
}

/*
 * A copy may come to a process that never opened one: from a shell, by exec, through a socket.
 * What has a copy's mode and owner is a reason to look for the group's index, which most
 * processes never meet.
 */
static const struct ts_stage *stage_to_ask(void)
{
	struct ts_stage *known = ts_load_acquire(&stage);
	if (TS_LIKELY(known) || ts_identity_check() != TS_SAME_PROCESS || !begin_attaching())
		return known;
	known = ts_load_acquire(&stage);
	if (!known && ts_stage_attach_existing(ts_config()->group, &known) == 0)
		ts_write_release(&stage, known);
	if (!known)
		ts_write_relaxed(&retry_at, ts_now_ns() + RETRY_NS);
	ts_write_release(&attaching, 0);
	return known;
}

/* Who only asks does not keep the index: when it has gone, there may be another one. */
static void forget_if_gone(const struct ts_stage *known)
{
	struct ts_stage *expected = (struct ts_stage *)known;
	if (known->capacity == 0 && !ts_object_is_named(&known->index.object))
		(void)ts_cas(&stage, &expected, NULL);
}

struct ts_stage *ts_staged_index(void)
{
	struct ts_stage *known = ts_load_acquire(&stage), *none = NULL;
	if (ts_identity_check() == TS_VFORK_CHILD)
		return ts_staged_joined();
	if (known)
		forget_if_gone(known);
	known = ts_load_acquire(&stage);
	if (known || ts_stage_attach_existing(ts_config()->group, &known) < 0)
		return known;
	if (ts_cas(&stage, &none, known))
		return known;
	ts_stage_destroy(known); /* another thread was first, and nobody has seen this one */
	return none;
}

/*
 * Whether a file with attributes @copy is a copy, what its original's are, and its path if
 * @ret_path (PATH_MAX bytes) is not NULL.  Looks for the group's index where this process has
 * not joined it.  Changes nothing in a vfork child.  Keeps errno.
 */
static bool find(
	const struct stat *copy, struct ts_stage_attributes *ret_attributes, char *ret_path)
{
	if (TS_LIKELY(copy->st_mode != (S_IFREG | 0400)))
		return false;
	int saved = errno;
	const struct ts_stage *known = stage_to_ask();
	errno = saved;
	if (!known || copy->st_uid != known->index.uid)
		return false;
	if (ts_stage_index_find(&known->index, copy, ret_attributes, ret_path))
		return true;
	forget_if_gone(known);
	return false;
}

/* ---- answering for originals ------------------------------------------------------------- */

void ts_staged_fill(const struct ts_stage_attributes *was, struct stat *stat)
{
	stat->st_dev = makedev(was->device_major, was->device_minor);
	stat->st_ino = was->inode;
	stat->st_mode = was->mode;
	stat->st_nlink = was->links;
	stat->st_uid = was->uid;
	stat->st_gid = was->gid;
	stat->st_size = (off_t)was->bytes;
	stat->st_blksize = (blksize_t)was->block_bytes;
	stat->st_blocks = (blkcnt_t)was->blocks;
	stat->st_atim =
		(struct timespec){was->accessed.seconds, (long)was->accessed.nanoseconds};
	stat->st_mtim =
		(struct timespec){was->modified.seconds, (long)was->modified.nanoseconds};
	stat->st_ctim = (struct timespec){was->changed.seconds, (long)was->changed.nanoseconds};
}

void ts_staged_answer(struct stat *stat)
{
	struct ts_stage_attributes was;
	if (find(stat, &was, NULL))
		ts_staged_fill(&was, stat);
}

static struct statx_timestamp time_x(int64_t seconds, uint64_t nanoseconds)
{
	return (struct statx_timestamp){.tv_sec = seconds, .tv_nsec = (uint32_t)nanoseconds};
}

static void answer_x(const struct ts_stage_attributes *was, struct statx *stat)
{
	stat->stx_mask &= was->mask;
	stat->stx_blksize = was->block_bytes;
	stat->stx_attributes = was->flags;
	stat->stx_attributes_mask = was->flags_mask;
	stat->stx_nlink = was->links;
	stat->stx_uid = was->uid;
	stat->stx_gid = was->gid;
	stat->stx_mode = (uint16_t)was->mode;
	stat->stx_ino = was->inode;
	stat->stx_size = was->bytes;
	stat->stx_blocks = was->blocks;
	stat->stx_atime = time_x(was->accessed.seconds, was->accessed.nanoseconds);
	stat->stx_mtime = time_x(was->modified.seconds, was->modified.nanoseconds);
	stat->stx_ctime = time_x(was->changed.seconds, was->changed.nanoseconds);
	stat->stx_btime = time_x(was->born.seconds, was->born.nanoseconds);
	stat->stx_dev_major = was->device_major;
	stat->stx_dev_minor = was->device_minor;
}

void ts_staged_answer_x(int fd, const char *path, struct statx *stat)
{
	struct ts_stage_attributes was;
	struct stat copy;
	/* The caller may have asked for less than what tells a copy. */
	if ((!path || path[0] == '\0') && ts_sys_fstat(fd, &copy) == 0 &&
		find(&copy, &was, NULL))
		answer_x(&was, stat);
}

static int64_t original_name(const struct stat *copy, char *buffer, size_t bytes)
{
	struct ts_stage_attributes was;
	char *path TS_SCRATCH = ts_scratch();
	if (!path || !find(copy, &was, path))
		return -ENOENT;
	size_t length = strlen(path);
	if (length > bytes)
		length = bytes;
	/* No NUL, as readlink(2).  NOLINTNEXTLINE(bugprone-not-null-terminated-result) */
	memcpy(buffer, path, length);
	return (int64_t)length;
}

/* Every path of a copy has this in it; it may be cut, but not so early. */
static bool may_be_copy(const char *name, int64_t length)
{
	return length > 0 && memmem(name, (size_t)length, "/tsshim.", 8);
}

int64_t ts_staged_answer_name(
	int directory, const char *path, char *buffer, size_t bytes, int64_t length)
{
	struct stat st;
	if (!may_be_copy(buffer, length) || ts_sys_stat_at(directory, path, &st) < 0)
		return length;
	int64_t r = original_name(&st, buffer, bytes);
	return r < 0 ? length : r;
}

/* ---- locks ------------------------------------------------------------------------------- */

/* Never 0, which is no directory. */
static uint64_t directory_of(const char *path)
{
	const char *slash = strrchr(path, '/');
	return ts_hash64(path, slash ? (size_t)(slash - path) : 0) | 1;
}

/*
 * Whether this process has set an fcntl(2) lock on the file with inode @inode, of the
 * directory's device, or on one beside @path, which is its path.
 */
static bool is_locked(uint64_t inode, const char *path)
{
	uint32_t count = ts_load_acquire(&locked_count);
	if (TS_LIKELY(count == 0))
		return false;
	uint64_t directory = directory_of(path);
	for (uint32_t i = 0; i < LOCKED_MAX; i++)
		if (ts_load_relaxed(&locked[i]) == inode ||
			ts_load_relaxed(&beside[i]) == directory)
			return true;
	return count > LOCKED_MAX;
}

/* HDF5 locks each file that it opens: to copy it first would be to read it twice. */
static bool is_unwanted(void)
{
	uint32_t back = ts_load_relaxed(&given_back);
	return TS_UNLIKELY(back >= UNWANTED_MIN) && back > ts_load_relaxed(&given) / 2;
}

bool ts_staged_wants_copies(void)
{
	return ts_load_relaxed(&locked_count) == 0 && !is_unwanted();
}

/* ---- going back to the original ---------------------------------------------------------- */

/*
 * Whether the file with attributes @now is the original.  sshfs and s3fs number a file anew
 * when the kernel has forgotten it, as it may while only a copy is open; then size and times
 * decide.
 */
static bool is_original(const struct stat *now, const struct ts_stage_attributes *was)
{
	if (now->st_dev != makedev(was->device_major, was->device_minor))
		return false;
	return now->st_ino == was->inode ||
	       (ts_staged_root_is_fuse() && ts_stage_index_agrees(was, now));
}

/* Open the original of the copy @copy with the open(2) @flags. */
static int open_original(const struct stat *copy, int flags)
{
	struct ts_stage_attributes was;
	struct stat st;
	char *path TS_SCRATCH = ts_scratch();
	if (!path)
		return -ENOMEM;
	if (!find(copy, &was, path))
		return -ENOENT;
	/* Whatever has come to that place meanwhile must not make us wait. */
	int fd = ts_sys_open(path, flags | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
	if (fd < 0)
		return fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP ? -ESTALE : fd;
	/* Its content may have changed, as it may under a descriptor; the file may not. */
	if (ts_sys_fstat(fd, &st) == 0 && is_original(&st, &was) &&
		ts_sys_fcntl(fd, F_SETFL, (void *)(intptr_t)flags) == 0)
		return fd;
	ts_sys_close(fd);
	return -ESTALE;
}

static int restore(int fd, int original)
{
	int flags = ts_sys_fcntl(fd, F_GETFD, NULL);
	int64_t at = ts_sys_seek(fd, 0, SEEK_CUR);
	if (flags < 0 || at < 0)
		return -EBADF;
	int64_t r = ts_sys_seek(original, at, SEEK_SET);
	if (r >= 0)
		r = ts_sys_dup3(original, fd, (flags & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0);
	return r < 0 ? (int)r : 0;
}

static bool give_back(int fd, const struct stat *copy)
{
	const int kept = O_NONBLOCK | O_NOATIME;
	int flags = ts_sys_fcntl(fd, F_GETFL, NULL);
	int original = flags < 0 ? flags : open_original(copy, O_RDONLY | (flags & kept));
	int r = original;
	if (original >= 0) {
		r = restore(fd, original);
		ts_sys_close(original);
	}
	ts_session_count_pass(TS_REASON_STAGE_ORIGINAL);
	ts_add_relaxed(&given_back, 1);
	if (r < 0)
		errno = -r;
	return r >= 0;
}

static bool is_copy(int fd, struct stat *ret_stat)
{
	struct ts_stage_attributes was;
	return ts_sys_fstat(fd, ret_stat) == 0 && find(ret_stat, &was, NULL);
}

bool ts_staged_give_back(int fd)
{
	struct stat st;
	return !is_copy(fd, &st) || give_back(fd, &st);
}

int ts_staged_ask_original(int fd)
{
	struct stat st;
	return is_copy(fd, &st) ? open_original(&st, O_RDONLY) : -ENOENT;
}

/* ---- locks on what lies beside ----------------------------------------------------------- */

/* Give back the original of @fd if it is a copy from @directory. */
static void give_back_from(int fd, uint64_t directory)
{
	struct ts_stage_attributes was;
	struct stat st;
	char *path TS_SCRATCH = ts_scratch();
	if (path && ts_sys_fstat(fd, &st) == 0 && find(&st, &was, path) &&
		directory_of(path) == directory)
		(void)give_back(fd, &st);
}

/* The same for all that is open here. */
static void give_back_all_from(uint64_t directory)
{
	char *buffer TS_SCRATCH = ts_scratch();
	int64_t bytes;
	int saved = errno;
	if (!buffer)
		return;
	int list = ts_sys_open("/proc/self/fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (list < 0)
		return;
	while ((bytes = ts_sys_list(list, buffer, TS_SCRATCH_BYTES)) > 0)
		for (int64_t at = 0; at < bytes;) {
			const struct dirent64 *entry = (const void *)(buffer + at);
			int fd = 0;
			for (const char *c = entry->d_name; *c >= '0' && *c <= '9'; c++)
				fd = fd * 10 + (*c - '0');
			if (entry->d_name[0] != '.')
				give_back_from(fd, directory);
			at += entry->d_reclen;
		}
	ts_sys_close(list);
	errno = saved; /* the program's call has not been made yet */
}

/*
 * Closing any descriptor of a file drops the process's fcntl() locks on it, and giving out a
 * copy closes one: so no copies of what was ever locked here.  Nor of what lies beside it: a
 * database may lock one file and learn in it where others have just written into the next.
 * LMDB's readers open the data, lock lock.mdb, and map the data; so what was given out goes
 * back.
 */
static void note_lock(int fd)
{
	char *path TS_SCRATCH = ts_scratch();
	struct stat st;
	if (ts_sys_fstat(fd, &st) < 0 || !ts_staged_root_has_device(fd, st.st_dev))
		return;
	uint32_t count = ts_load_acquire(&locked_count);
	for (uint32_t i = 0; i < LOCKED_MAX && i < count; i++)
		if (ts_load_relaxed(&locked[i]) == st.st_ino)
			return;
	uint64_t directory = ts_staged_root_path(fd, path) ? directory_of(path) : 0;
	uint32_t place = ts_add_relaxed(&locked_count, 1);
	if (place < LOCKED_MAX) {
		ts_write_relaxed(&beside[place], directory);
		ts_write_release(&locked[place], st.st_ino);
	}
	if (directory)
		give_back_all_from(directory);
}

/* ---- calls that sometimes are harmless --------------------------------------------------- */

bool ts_staged_before_lockf(int fd)
{
	bool may = ts_staged_give_back(fd);
	note_lock(fd);
	return may;
}

/* What a copy answers as its original does; all else, and what is not known here, is not. */
static bool is_harmless(int command, int argument)
{
	switch (command) {
	case F_DUPFD:
	case F_DUPFD_CLOEXEC:
	case F_GETFD:
	case F_SETFD:
	case F_GETFL:
	case F_GETOWN:
	case F_SETOWN:
	case F_GETSIG:
	case F_SETSIG:
	case F_GETOWN_EX:
	case F_SETOWN_EX:
		return true;
	case F_SETFL: /* a file system may refuse the first, and only an owner may set the other
		       */
		return (argument & (O_DIRECT | O_NOATIME)) == 0;
	default:
		return false;
	}
}

/* ---- names of descriptors ---------------------------------------------------------------- */

/* The number that all of @digits is, -1: it is none, or too large for a descriptor. */
static int number(const char *digits, const char **ret_rest)
{
	int64_t value = -1;
	for (; *digits >= '0' && *digits <= '9' && value < INT_MAX; digits++)
		value = (value < 0 ? 0 : value * 10) + (*digits - '0');
	*ret_rest = digits;
	return value > INT_MAX ? -1 : (int)value;
}

static const char *behind(const char *path, const char *beginning)
{
	size_t length = strlen(beginning);
	return strncmp(path, beginning, length) == 0 ? path + length : NULL;
}

/* The descriptor of this process that @path is a name of, or -1. */
static int descriptor_of(const char *path)
{
	static const char *const ways[] = {
		"/proc/self/fd/", "/proc/thread-self/fd/", "/dev/fd/"};
	const char *rest = NULL, *own = behind(path, "/proc/");
	if (strcmp(path, "/dev/stdin") == 0)
		return STDIN_FILENO;
	for (size_t i = 0; i < TS_ARRAY_SIZE(ways) && !rest; i++)
		rest = behind(path, ways[i]);
	if (!rest && own && number(own, &own) == (int)getpid())
		rest = behind(own, "/fd/");
	int fd = rest ? number(rest, &rest) : -1;
	return fd >= 0 && *rest == '\0' ? fd : -1;
}

bool ts_staged_is_itself(const char *path, int flags)
{
	return (flags & AT_EMPTY_PATH) != 0 &&
	       (!path || (!ts_staged_is_nowhere(path) && path[0] == '\0'));
}

bool ts_staged_before_path(int directory, const char *path, int flags)
{
	int fd = directory;
	if (!ts_staged_is_itself(path, flags))
		fd = ts_staged_is_nowhere(path) || path[0] != '/' ? -1 : descriptor_of(path);
	return fd < 0 || ts_staged_give_back(fd);
}

/* ---- calls that reach a copy by a number in an argument ---------------------------------- */

void ts_staged_before_clone(int from, int to)
{
	struct ts_stage_attributes was;
	struct stat copy, target;
	uint64_t type, wanted = ts_staged_root_type();
	int saved = errno;
	if (ts_sys_fstat(from, &copy) == 0 && find(&copy, &was, NULL) &&
		ts_sys_fstat(to, &target) == 0 && ts_sys_file_system(to, &type) == 0 &&
		(wanted == 0 || type == wanted || target.st_dev == copy.st_dev))
		(void)ts_staged_give_back(from);
	errno = saved;
}

static void give_back_number(int64_t fd)
{
	int saved = errno;
	if (fd >= 0 && fd <= INT_MAX)
		(void)ts_staged_give_back((int)fd);
	errno = saved;
}

static void before_argument(int fd, unsigned long request, const void *argument)
{
	const struct file_dedupe_range *dedupe = argument;
	switch ((unsigned)request) {
	case FICLONE:
		ts_staged_before_clone((int)(intptr_t)argument, fd);
		return;
	case LOOP_SET_FD:
	case LOOP_CHANGE_FD:
		give_back_number((int)(intptr_t)argument);
		return;
	default:
		break;
	}
	if (ts_staged_is_nowhere(argument))
		return;
	switch ((unsigned)request) {
	case FICLONERANGE:
		ts_staged_before_clone(
			(int)((const struct file_clone_range *)argument)->src_fd, fd);
		break;
	case LOOP_CONFIGURE:
		give_back_number(*(const uint32_t *)argument);
		break;
	case FIDEDUPERANGE:
		for (unsigned i = 0; i < dedupe->dest_count; i++)
			give_back_number(dedupe->info[i].dest_fd);
		break;
	default:
		break;
	}
}

bool ts_staged_before_fcntl(int fd, int command, const void *argument)
{
	if (command == F_SETLK || command == F_SETLKW)
		return ts_staged_before_lockf(fd);
	return is_harmless(command, (int)(intptr_t)argument) || ts_staged_give_back(fd);
}

bool ts_staged_before_ioctl(int fd, unsigned long request, const void *argument)
{
	before_argument(fd, request, argument);
	switch (request) {
	case TCGETS: /* isatty() of whoever buffers */
	case FIOCLEX:
	case FIONCLEX:
	case FIONBIO:
	case FIONREAD:
		return true;
	default:
		return ts_staged_give_back(fd);
	}
}

/* ---- opening ----------------------------------------------------------------------------- */

static bool is_plain_reading(int flags)
{
	/* O_SYNC has the bit of O_DSYNC in it, and O_TMPFILE that of O_DIRECTORY. */
	const int other = O_APPEND | O_CREAT | O_DIRECT | O_EXCL | O_PATH | O_SYNC | O_TMPFILE |
			  O_TRUNC | O_ASYNC;
	return (flags & O_ACCMODE) == O_RDONLY && (flags & other) == 0;
}

static enum ts_reason reason_of(int error)
{
	switch (error) {
	case -EFBIG:
		return TS_REASON_STAGE_LARGE;
	case -ENOSPC:
	case -EDQUOT:
		return TS_REASON_STAGE_FULL;
	case -EBUSY:
		return TS_REASON_STAGE_BUSY;
	case -ESTALE:
		return TS_REASON_STAGE_CHANGED;
	default:
		return TS_REASON_STAGE_FAILED;
	}
}

void ts_staged_count_shared(uint64_t bytes)
{
	ts_add_relaxed(&given, 1);
	ts_session_count_shared(TS_KIND_BYTES, &(struct ts_lease){.bytes = bytes});
}

static void count(const struct ts_stage_copy *copy, uint64_t bytes)
{
	if (!copy->fetched) {
		ts_staged_count_shared(bytes);
		return;
	}
	ts_add_relaxed(&given, 1);
	ts_session_count_produced(TS_KIND_BYTES, bytes, copy->fetch_ns);
}

/* Put the copy where the program's descriptor is; that one's original is closed by it. */
static int replace(int fd, int copy)
{
	int flags = ts_sys_fcntl(fd, F_GETFD, NULL);
	if (flags < 0)
		return flags;
	int r = ts_sys_dup3(copy, fd, (flags & FD_CLOEXEC) != 0 ? O_CLOEXEC : 0);
	return r < 0 ? r : 0;
}

static int give_copy(struct ts_stage *joined, const struct ts_stage_source *source, int flags,
	struct ts_staged_given *ret_given)
{
	uint64_t bytes = (uint64_t)source->stat->st_size;
	uint64_t wait_ns = ts_session_deadline_ns(TS_KIND_BYTES, bytes);
	struct ts_stage_copy copy;
	int r = ts_stage_open(joined, source, flags, wait_ns, &copy);
	if (r < 0)
		return r;
	r = replace(source->fd, copy.fd);
	ts_sys_close(copy.fd);
	if (r < 0)
		return r;
	count(&copy, bytes);
	*ret_given = (struct ts_staged_given){.copy = copy.inode, .is_made = copy.fetched};
	return 0;
}

/* A file under the directory; what is not staged from here on has a reason. */
static bool consider(
	const struct ts_stage_source *source, int flags, struct ts_staged_given *ret_given)
{
	enum ts_reason reason = TS_REASON_STAGE_YOUNG;
	if (is_unwanted() || is_locked(source->stat->st_ino, source->path)) {
		ts_session_count_pass(TS_REASON_STAGE_LOCKS);
		return false;
	}
	if (ts_staged_root_is_young(source->stat)) {
		ts_session_count_pass(reason);
		return false;
	}
	const struct ts_session *session = ts_session_enter_for_files(&reason);
	struct ts_stage *joined = session ? join(session) : NULL;
	if (session && !joined)
		reason = TS_REASON_STAGE_FAILED;
	int r = joined ? give_copy(joined, source, flags, ret_given) : 0;
	if (r < 0)
		reason = reason_of(r);
	if (!joined || r < 0)
		ts_session_count_pass(reason);
	return joined && r == 0;
}

/* Whether it was given; *ret_below: whether it is under the directory. */
static bool consider_path(int fd, const struct stat *st, int flags, bool *ret_below,
	struct ts_staged_given *ret_given)
{
	char *path TS_SCRATCH = ts_scratch();
	struct ts_stage_source source = {
		.fd = fd, .stat = st, .path = path, .is_fuse = ts_staged_root_is_fuse()};
	int saved = errno;
	*ret_below = ts_staged_root_path(fd, path);
	bool is_given = *ret_below && consider(&source, flags, ret_given);
	errno = saved;
	return is_given;
}

/* The descriptor says of many files that they are none of ours, and the path of some more. */
bool ts_staged_open(int fd, const char *path, int flags, struct ts_staged_given *ret_given)
{
	struct stat st;
	bool is_below = true, is_given = false;
	if (!is_plain_reading(flags) || ts_staged_root_is_outside(path) ||
		ts_sys_look(fd, AT_STATX_SYNC_AS_STAT, &st) < 0)
		return false;
	if (!ts_staged_root_has_device(fd, st.st_dev)) {
		ts_staged_root_note_outside(path, st.st_dev);
		return false;
	}
	if (!S_ISREG(st.st_mode) || st.st_size <= 0 || (st.st_mode & 0444) == 0)
		return false;
	if (ts_identity_check() != TS_VFORK_CHILD)
		is_given = consider_path(fd, &st, flags, &is_below, ret_given);
	if (!is_below)
		ts_staged_root_note_outside(path, st.st_dev);
	return is_given;
}
