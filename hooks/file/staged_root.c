/* SPDX-License-Identifier: MIT */
/* Which files are to be staged: those under the directory of --dataset NAME=DIR. */
#include "hooks/file/staged_root.h"

#include "leader/inputs/age.h"
#include "shim/atomic.h"
#include "shim/config.h"
#include "shim/hash.h"
#include "shim/log.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

#define RETRY_NS UINT64_C(1000000000)

/* Places outside that are remembered, and for how long. */
#define PLACES   64u
#define PLACE_MS 1000u

/*
 * f_type of file systems whose reads go to another machine or process.  Numbers, because most
 * of them are in no header: linux/magic.h has the first few, the others' sources the rest.
 */
static const uint32_t slow[] = {
	0x6969,     /* NFS */
	0x517b,     /* SMB */
	0xff534d42, /* CIFS */
	0xfe534d42, /* SMB2 */
	TS_FUSE,    /* sshfs, s3fs, gcsfuse, JuiceFS, GlusterFS, DAOS, ... */
	0x01021997, /* 9p */
	0x5346414f, /* AFS */
	0x6b414653, /* kAFS */
	0x00c36400, /* CephFS */
	0x0bd00bd0, /* Lustre */
	0x47504653, /* GPFS, Spectrum Scale */
	0x19830326, /* BeeGFS */
	0x20030528, /* OrangeFS */
	0x73757245, /* Coda */
	0xaad7aaea, /* PanFS */
	0x786f4256, /* shared folders of VirtualBox */
	0xbacbacbc, /* and of VMware */
};

enum state { UNKNOWN, LOOKING, FOUND, REFUSED };

static struct {
	_Atomic int state;
	_Atomic uint64_t retry_at;
	_Atomic uint64_t fast_device; /* of a file met while UNKNOWN; 0: none */
	dev_t device;
	ino_t inode;
	uint64_t type; /* of its file system */
	struct ts_hash128 across;
	size_t length; /* of @path; 0: the root directory */
	char path[PATH_MAX];
} root;

static bool is_slow(uint64_t type)
{
	for (size_t i = 0; i < TS_ARRAY_SIZE(slow); i++)
		if (type == slow[i])
			return true;
	return false;
}

static int path_of(int fd, char *path)
{
	char link[32];

	ts_format(link, sizeof(link), "/proc/self/fd/%d", fd);
	return ts_sys_readlink(link, path, PATH_MAX);
}

/** What is known of a file's storage: all files of one device are of one type. */
struct storage {
	dev_t device; /* 0: nothing */
	uint64_t type;
};

static struct ts_hash128 across(const struct stat *st, size_t length)
{
	const int64_t times[] = {st->st_mtim.tv_sec, st->st_mtim.tv_nsec, st->st_ctim.tv_sec,
		st->st_ctim.tv_nsec};
	struct ts_hash128 path = ts_hash128(root.path, length), time;

	time = ts_hash128(times, sizeof(times));
	return (struct ts_hash128){.lo = path.lo ^ time.lo, .hi = path.hi ^ time.hi};
}

/* Errors: what the directory is not there for. */
static int look(const struct storage *known, enum state *ret_state)
{
	const struct ts_config *config = ts_config();
	struct stat st = {.st_ino = 0};
	uint64_t type = 0;
	/* O_PATH: its own attributes are all we want, and may be all we are allowed. */
	int fd = ts_sys_open(config->dataset_dir, O_PATH | O_DIRECTORY | O_CLOEXEC, 0);

	if (fd < 0)
		return fd;
	/* Device and inode are known from finding it; asking for more would be a request more.
	 */
	int r = ts_sys_look(fd, AT_STATX_DONT_SYNC, &st);
	if (r == 0)
		r = path_of(fd, root.path);
	if (known->device != 0 && known->device == st.st_dev)
		type = known->type;
	else
		(void)ts_sys_file_system(fd, &type);
	ts_sys_close(fd);
	if (r < 0)
		return r;
	bool wanted = config->stage != TS_STAGE_AUTO || is_slow(type);
	root.device = st.st_dev;
	root.inode = st.st_ino;
	root.type = type;
	root.length = r == 1 ? 0 : (size_t)r;
	root.across = across(&st, root.length);
	*ret_state = wanted ? FOUND : REFUSED;
	return 0;
}

/* One thread looks; the others go on as if there were nothing. */
static enum state find(const struct storage *known)
{
	int unknown = UNKNOWN;
	enum state found = UNKNOWN;
	uint64_t now = ts_now_ns();

	if (now < ts_load_relaxed(&root.retry_at) || !ts_cas(&root.state, &unknown, LOOKING))
		return UNKNOWN;
	if (look(known, &found) < 0)
		ts_write_relaxed(&root.retry_at, now + RETRY_NS);
	ts_write_release(&root.state, (int)found); /* pairs with the load below */
	return found;
}

static enum state find_if_slow(int fd, dev_t device)
{
	struct storage known = {.device = 0};

	if (fd < 0 || ts_config()->stage != TS_STAGE_AUTO || device == 0)
		return find(&known);
	if (device == ts_load_relaxed(&root.fast_device))
		return UNKNOWN;
	if (ts_sys_file_system(fd, &known.type) < 0)
		return find(&known);
	if (is_slow(known.type)) {
		known.device = device;
		return find(&known);
	}
	ts_write_relaxed(&root.fast_device, device);
	return UNKNOWN;
}

bool ts_staged_root_has_device(int fd, dev_t device)
{
	enum state state = (enum state)ts_load_acquire(&root.state);

	if (TS_UNLIKELY(state == UNKNOWN))
		state = find_if_slow(fd, device);
	return state == FOUND && device == root.device;
}

bool ts_staged_root_is_pending(void)
{
	return ts_load_acquire(&root.state) == LOOKING;
}

bool ts_staged_root_is_fuse(void)
{
	return root.type == TS_FUSE;
}

uint64_t ts_staged_root_type(void)
{
	return ts_load_acquire(&root.state) == FOUND ? root.type : 0;
}

bool ts_staged_root_is_young(const struct stat *st)
{
	return ts_age_is_young(ts_age_is_near(ts_staged_root_type()), ts_age_ns(st->st_mtim),
		ts_age_ns(st->st_ctim), ts_real_ns());
}

bool ts_staged_root_path(int fd, char *path)
{
	int length = path ? path_of(fd, path) : 0;

	return length > 0 && (size_t)length >= root.length &&
	       memcmp(path, root.path, root.length) == 0 &&
	       (path[root.length] == '/' || path[root.length] == '\0');
}

void ts_staged_root_identity(uint64_t *ret_device, uint64_t *ret_inode)
{
	*ret_device = root.device;
	*ret_inode = root.inode;
}

struct ts_hash128 ts_staged_root_across(void)
{
	return root.across;
}

static bool is_below(const char *path, const char *directory, size_t length)
{
	return strncmp(path, directory, length) == 0 && path[length] == '/';
}

bool ts_staged_root_below(const char *path, const char **ret_rest)
{
	const char *given = ts_config()->dataset_dir;
	size_t length = strlen(given);
	enum state state = (enum state)ts_load_acquire(&root.state);

	while (length > 0 && given[length - 1] == '/')
		length--;
	bool is_given = is_below(path, given, length);
	if (TS_UNLIKELY(state == UNKNOWN) && is_given)
		state = find(&(struct storage){.device = 0});
	if (state != FOUND || (!is_given && !is_below(path, root.path, root.length)))
		return false;
	*ret_rest = path + (is_given ? length : root.length);
	return true;
}

/* ---- places outside --------------------------------------------------------------------- */

/* Upper half: of the hash of a directory's path; lower half: milliseconds, which wrap around.
 */
static _Atomic uint64_t places[PLACES];

static uint32_t now_ms(void)
{
	return (uint32_t)(ts_now_ns() / 1000000);
}

/* Hash of the directory part of @path, 0: none. */
static uint64_t place_of(const char *path)
{
	if (!path || path[0] != '/')
		return 0;
	return ts_hash64(path, (size_t)(strrchr(path, '/') - path));
}

void ts_staged_root_note_outside(const char *path, dev_t device)
{
	uint64_t place = place_of(path);
	enum state state = (enum state)ts_load_relaxed(&root.state);
	bool is_known = state == FOUND || state == REFUSED ||
			(device != 0 && device == ts_load_relaxed(&root.fast_device));

	/* Until the directory was found nothing is known of what may be on its storage. */
	if (place != 0 && is_known)
		ts_write_relaxed(
			&places[place % PLACES], (place >> 32) << 32 | (uint64_t)now_ms());
}

bool ts_staged_root_is_outside(const char *path)
{
	uint64_t place = place_of(path);

	if (place == 0)
		return false;
	uint64_t known = ts_load_relaxed(&places[place % PLACES]);
	return known >> 32 == place >> 32 && now_ms() - (uint32_t)known < PLACE_MS;
}
