/* SPDX-License-Identifier: MIT */
/* What decides whether this process may open a file. */
#include "shim/rights.h"

#include "shim/atomic.h"
#include "shim/hash.h"
#include "shim/scratch.h"
#include "shim/sys.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define AGAIN_NS   UINT64_C(1000000000)
#define GROUPS_MAX 256

static _Atomic uint64_t known, known_until;
static _Atomic uint64_t place; /* where paths begin: a hash of root and mounts; 0: not known */

/* Whether paths lead elsewhere than when this was asked first: chroot, unshare, setns. */
static bool has_moved(void)
{
	struct stat root = {.st_ino = 0}, mounts = {.st_ino = 0};
	(void)ts_sys_stat("/", &root);
	(void)ts_sys_stat("/proc/self/ns/mnt", &mounts);
	const uint64_t numbers[] = {root.st_dev, root.st_ino, mounts.st_ino};
	uint64_t now = ts_hash64(numbers, sizeof(numbers)) | 1, first = 0;
	return !ts_cas(&place, &first, now) && first != now;
}

static uint64_t look(void)
{
	struct {
		uint32_t user, group, count, capabilities[2];
		gid_t groups[GROUPS_MAX];
	} *all TS_SCRATCH = ts_scratch();
	if (!all)
		return 0;
	memset(all, 0, sizeof(*all));
	int count = getgroups(GROUPS_MAX, all->groups);
	if (count < 0 || ts_sys_capabilities(all->capabilities) < 0)
		return 0;
	all->user = geteuid();
	all->group = getegid();
	all->count = (uint32_t)count;
	uint64_t hash = ts_hash64(all, sizeof(*all));
	return hash ? hash : 1;
}

uint64_t ts_rights(void)
{
	uint64_t now = ts_now_ns();
	/* Acquire: pairs with the release below, the rights before how long they are good. */
	if (TS_UNLIKELY(now >= ts_load_acquire(&known_until))) {
		int saved = errno;
		ts_write_relaxed(&known, has_moved() ? 0 : look());
		ts_write_release(&known_until, now + AGAIN_NS);
		errno = saved;
	}
	return ts_load_relaxed(&known);
}
