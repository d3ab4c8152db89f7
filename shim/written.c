/* SPDX-License-Identifier: MIT */
/* Whether memory was written to: userfaultfd and the page map. */
#include "shim/written.h"

#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

/* ---- the kernel's, newer than the headers that we may be built with ---------------------- */

/* linux/userfaultfd.h */
#define USER_MODE_ONLY         1 /* what an ordinary user may have, see the manual */
#define API                    UINT64_C(0xaa)
#define FEATURE_WP_SHMEM       (UINT64_C(1) << 12)
#define FEATURE_WP_UNPOPULATED (UINT64_C(1) << 13)
#define FEATURE_WP_ASYNC       (UINT64_C(1) << 15)
#define REGISTER_MODE_WP       (UINT64_C(1) << 1)
#define WRITEPROTECT_MODE_WP   UINT64_C(1)

struct api {
	uint64_t api, features, ioctls;
};

struct range {
	uint64_t start, bytes;
};

struct registration {
	struct range range;
	uint64_t mode, ioctls;
};

struct protection {
	struct range range;
	uint64_t mode;
};

#define IOCTL_API      _IOWR(0xaa, 0x3f, struct api)
#define IOCTL_REGISTER _IOWR(0xaa, 0x00, struct registration)
#define IOCTL_PROTECT  _IOWR(0xaa, 0x06, struct protection)

/* linux/fs.h */
#define PAGE_IS_WATCHED (UINT64_C(1) << 0) /* PAGE_IS_WPALLOWED */
#define PAGE_IS_WRITTEN (UINT64_C(1) << 1)
#define PAGE_IS_PRESENT (UINT64_C(1) << 3)

struct region {
	uint64_t start, end, categories;
};

struct scan {
	uint64_t size, flags, start, end, walk_end, regions, region_count, max_pages;
	uint64_t category_inverted, category_mask, category_anyof_mask, return_mask;
};

#define IOCTL_SCAN _IOWR('f', 16, struct scan)

/* ---- what is open ------------------------------------------------------------------------ */

/*
 * Both stay open as long as the process lives.  A program that closes what it does not know
 * ends the watch: the kernel lets go of the pages then, and says that all were written.
 */
enum { UNKNOWN, OPENING, OPEN, CANNOT };

static _Atomic int state;
static int watch_fd, map_fd;
static _Atomic uint32_t serial; /* of the process that opened them */

static bool open_both(void)
{
	struct api api = {.api = API,
		.features = FEATURE_WP_SHMEM | FEATURE_WP_UNPOPULATED | FEATURE_WP_ASYNC};
	watch_fd = (int)syscall(SYS_userfaultfd, O_CLOEXEC | O_NONBLOCK | USER_MODE_ONLY);
	if (watch_fd < 0)
		return false;
	map_fd = syscall(SYS_ioctl, watch_fd, IOCTL_API, &api) < 0
			 ? -1
			 : ts_sys_open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0);
	if (map_fd < 0)
		(void)ts_sys_close(watch_fd);
	return map_fd >= 0;
}

/* Errors: -ENOTSUP; -ECHILD; -EAGAIN another thread is just trying. */
static int ready(void)
{
	int unknown = UNKNOWN;
	if (ts_load_acquire(&state) == UNKNOWN && ts_cas(&state, &unknown, OPENING)) {
		ts_write_relaxed(&serial, ts_identity_serial());
		int old_errno = errno;
		/* Pairs with the load below: the descriptors before. */
		ts_write_release(&state, open_both() ? OPEN : CANNOT);
		errno = old_errno;
	}
	switch (ts_load_acquire(&state)) {
	case OPEN:
		return ts_load_relaxed(&serial) == ts_identity_serial() ? 0 : -ECHILD;
	case CANNOT:
		return -ENOTSUP;
	default:
		return -EAGAIN;
	}
}

static int ask(int fd, unsigned long request, void *argument)
{
	int old_errno = errno;
	int r = (int)syscall(SYS_ioctl, fd, request, argument); /* ioctl() is a hook of ours */
	if (r < 0)
		r = -errno;
	errno = old_errno;
	return r;
}

int ts_written_watch(void *start, uint64_t bytes)
{
	struct registration registration = {
		.range = {(uintptr_t)start, bytes}, .mode = REGISTER_MODE_WP};
	int r = ready();
	return r < 0 ? r : ask(watch_fd, IOCTL_REGISTER, &registration);
}

int ts_written_protect(void *start, uint64_t bytes)
{
	struct protection protection = {
		.range = {(uintptr_t)start, bytes}, .mode = WRITEPROTECT_MODE_WP};
	int r = ready();
	return r < 0 ? r : ask(watch_fd, IOCTL_PROTECT, &protection);
}

int ts_written_since(const void *start, uint64_t bytes)
{
	/* The pages from the first on of which it is known that they are as they were: they are
	 * watched and there, for of a page that was taken away after a write nothing is left.
	 */
	struct region region = {0, 0, 0};
	struct scan scan = {.size = sizeof(scan),
		.start = (uintptr_t)start,
		.end = (uintptr_t)start + bytes,
		.regions = (uintptr_t)&region,
		.region_count = 1,
		.category_inverted = PAGE_IS_WRITTEN,
		.category_mask = PAGE_IS_WATCHED | PAGE_IS_WRITTEN | PAGE_IS_PRESENT,
		.return_mask = PAGE_IS_PRESENT};
	int r = ready();
	if (r == 0)
		r = ask(map_fd, IOCTL_SCAN, &scan);
	if (r < 0)
		return r;
	return r != 1 || region.start != scan.start || region.end != scan.end;
}
