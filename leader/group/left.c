/* SPDX-License-Identifier: MIT */
/* What dead jobs have left; leader/group/left.h explains it. */
#include "leader/group/left.h"
#include "leader/group/store_private.h"
#include "shim/identity.h"
#include "shim/log.h"
#include "shim/scratch.h"
#include "shim/sys.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* How often one group is asked again: each time is one at which others have left. */
#define ROUNDS 8

/* Too large for a stack that is the host's. */
struct look {
	const char *own;
	uint64_t end; /* ts_now_ns() from which no other group is looked at */
	struct ts_scope scope;
	struct ts_object ring, ledger_object;
	struct ts_ledger *ledger; /* of the object, NULL: not mapped */
	char directory[TS_PATH_BYTES], prefix[TS_PATH_BYTES]; /* "tsshim.<uid>.<scope>." */
	size_t prefix_length;
	_Alignas(struct dirent64) char entries[4096];
};
static_assert(sizeof(struct look) <= TS_SCRATCH_BYTES, "one block");

/* ---- whether it is used ----------------------------------------------------------------- */

static int read_header(int fd, const struct ts_scope *scope, struct ts_ring_header *ret_header)
{
	if (ts_sys_pread(fd, ret_header, sizeof(*ret_header), 0) != sizeof(*ret_header))
		return -EBADMSG;
	int r = ts_object_head_check(
		ret_header, TS_RING_MAGIC, TS_ABI, offsetof(struct ts_ring_header, check));
	if (r < 0)
		return r;
	if (memcmp(ret_header->head.boot_id, scope->boot_id, sizeof(scope->boot_id)) != 0)
		return -ESTALE;
	return ts_scope_check(scope, &ret_header->head);
}

/* Whether anybody else holds a lock on it; doubt counts as yes. */
static bool is_locked(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	return ts_sys_fcntl(fd, F_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

/* Whether a member is named whose process runs.  Errors: -EBADMSG. */
static int has_running_member(int fd, const struct ts_ring_header *header)
{
	uint32_t high = ts_load_relaxed(&header->member_high);
	uint64_t word;

	if (high > TS_MEMBER_MAX || high > header->member_count)
		high = header->member_count < TS_MEMBER_MAX ? header->member_count
							    : TS_MEMBER_MAX;
	for (uint32_t i = 0; i < high; i++) {
		uint64_t at = header->members_at + i * sizeof(struct ts_member);
		if (ts_sys_pread(fd, &word, sizeof(word), at) != sizeof(word))
			return -EBADMSG;
		if (ts_member_state(word) != TS_MEMBER_FREE && ts_member_is_running(word))
			return 1;
	}
	return 0;
}

int ts_ring_ask_use(int fd, const struct ts_scope *scope)
{
	struct ts_ring_header header;
	int r = read_header(fd, scope, &header);

	if (r < 0)
		return r;
	/* Dead is who is gone in both ways; who joins takes a lock before it is named. */
	if (is_locked(fd))
		return TS_RING_LOCKED;
	r = has_running_member(fd, &header);
	if (r != 0)
		return r < 0 ? r : TS_RING_MEMBER;
	return ts_now_ns() < ts_load_relaxed(&header.kept_until_ns) ? TS_RING_KEPT
								    : TS_RING_UNUSED;
}

/* ---- one group -------------------------------------------------------------------------- */

static bool is_left(struct look *look)
{
	return ts_object_is_named(&look->ring) && ts_object_is_named(&look->ledger_object) &&
	       !ts_ledger_has_live_job(look->ledger, 0) &&
	       ts_ring_ask_use(ts_load_relaxed(&look->ring.fd), &look->scope) == TS_RING_UNUSED;
}

/* Under the lock.  Its memory goes when our descriptor does, without the lock. */
static void remove_group(struct look *look)
{
	char path[TS_PATH_BYTES];
	size_t stem = (size_t)(strrchr(look->ring.path, '.') - look->ring.path) + 1;

	memcpy(path, look->ring.path, stem);
	for (uint32_t i = 0; i < TS_DEPENDENTS; i++) {
		ts_format(path + stem, sizeof(path) - stem, "%s", ts_dependents[i].suffix);
		ts_dependents[i].remove(path);
		TS_KILLPOINT(left_dependent);
	}
	ts_sys_unlink(look->ring.path);
	TS_KILLPOINT(left_unlink);
}

/* Returns whether we had the lock: then somebody may have left meanwhile, and relies on us. */
static bool settle_group(struct look *look)
{
	int fd = ts_load_relaxed(&look->ledger_object.fd);

	if (!is_left(look))
		return false;
	TS_KILLPOINT(left_asked);
	if (ts_object_lock_byte(fd, 0, F_WRLCK) < 0)
		return false;
	TS_KILLPOINT(left_locked);
	if (is_left(look))
		remove_group(look);
	ts_object_lock_byte(fd, 0, F_UNLCK);
	return true;
}

/* The same of the ring whose name is in look->ring; its ledger's is in look->ledger_object. */
static bool settle_ring(struct look *look)
{
	bool is_ours = false;

	if (ts_object_open(&look->ring) < 0)
		return false;
	/* Most are used, and by whom is seen at a lock. */
	if (!is_locked(ts_load_relaxed(&look->ring.fd)) &&
		ts_ledger_open(&look->scope, &look->ledger_object, &look->ledger) == 0) {
		is_ours = settle_group(look);
		munmap(look->ledger, TS_LEDGER_BYTES);
		ts_object_close(&look->ledger_object);
	}
	ts_object_close(&look->ring);
	return is_ours;
}

/* Its name is in look->ring. */
static void look_at_ring(struct look *look)
{
	size_t stem = (size_t)(strrchr(look->ring.path, '.') - look->ring.path) + 1;

	memcpy(look->ledger_object.path, look->ring.path, stem);
	memcpy(look->ledger_object.path + stem, "ledger", sizeof("ledger"));
	for (int i = 0; i < ROUNDS && settle_ring(look); i++)
		continue;
}

/* A half-made object is its maker's alone.  Its name is in look->ring. */
static void look_at_half_made(struct look *look, int maker)
{
	if (ts_process_id(maker, true) != 0 || ts_object_open(&look->ring) < 0)
		return;
	ts_sys_unlink(look->ring.path);
	ts_object_close(&look->ring);
}

/* ---- all of them ------------------------------------------------------------------------ */

/* The process that makes "<group>.new.<pid>", the end of which is @digits; 0: it is no such. */
static int maker_of(const char *group, const char *digits)
{
	int maker = 0;

	if (digits - group < 6 || memcmp(digits - 5, ".new.", 5) != 0 || digits[0] == '\0' ||
		strlen(digits) > 8)
		return 0;
	for (; *digits >= '0' && *digits <= '9'; digits++)
		maker = maker * 10 + (*digits - '0');
	return *digits == '\0' ? maker : 0;
}

static void look_at(struct look *look, const char *name)
{
	if (strncmp(name, look->prefix, look->prefix_length) != 0)
		return;
	const char *group = name + look->prefix_length, *dot = strrchr(group, '.');
	if (!dot)
		return;
	size_t length = (size_t)(dot - group);
	int maker = maker_of(group, dot + 1);
	bool is_ring = strcmp(dot, ".ring") == 0, is_own;

	if (!is_ring && maker == 0)
		return;
	is_own = is_ring && look->own && strlen(look->own) == length &&
		 memcmp(group, look->own, length) == 0;
	size_t bytes = ts_format(
		look->ring.path, sizeof(look->ring.path), "%s/%s", look->directory, name);
	/* The name of its ledger is longer than that of a ring. */
	if (is_own || bytes + sizeof("ledger") > sizeof(look->ring.path))
		return;
	if (is_ring)
		look_at_ring(look);
	else
		look_at_half_made(look, maker);
}

static int begin(struct look *look)
{
	int r = ts_object_path(look->directory, sizeof(look->directory), "x", "ring");

	if (r == 0)
		r = ts_scope_read(&look->scope);
	if (r < 0)
		return r;
	char *slash = strrchr(look->directory, '/');
	look->prefix_length = strlen(slash + 1) - strlen("x.ring");
	memcpy(look->prefix, slash + 1, look->prefix_length);
	*slash = '\0';
	ts_write_relaxed(&look->ring.fd, -1);
	ts_write_relaxed(&look->ledger_object.fd, -1);
	return ts_sys_open(look->directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
}

static void look_through(struct look *look, int directory)
{
	int64_t bytes;

	while ((bytes = ts_sys_list(directory, look->entries, sizeof(look->entries))) > 0)
		for (int64_t at = 0; at < bytes;) {
			const struct dirent64 *entry = (const void *)(look->entries + at);
			at += entry->d_reclen;
			if (ts_now_ns() >= look->end)
				return;
			look_at(look, entry->d_name);
		}
}

void ts_left_remove(const char *own, uint64_t budget_ns)
{
	struct look *look TS_SCRATCH = ts_scratch();
	uint64_t now = ts_now_ns();

	if (!look)
		return;
	memset(look, 0, offsetof(struct look, entries));
	look->own = own;
	look->end = budget_ns > UINT64_MAX - now ? UINT64_MAX : now + budget_ns;
	int directory = begin(look);
	if (directory >= 0) {
		look_through(look, directory);
		ts_sys_close(directory);
	}
}
