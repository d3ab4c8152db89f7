/* SPDX-License-Identifier: MIT */
/* Opening, checking and copying what lies in shared memory. */
#include "shim/tsrun/view.h"
#include "leader/group/store_private.h"
#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/sys.h"
#include "shim/tsrun/names.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

int ts_view_open(const char *path, bool writable, int *ret_fd, struct stat *ret_stat)
{
	/* O_NONBLOCK: a fifo of that name must not keep us waiting. */
	int fd = open(
		path, (writable ? O_RDWR : O_RDONLY) | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		return errno == ELOOP || errno == EACCES || errno == ENXIO ? -EPERM : -errno;
	struct stat st;
	int r = fstat(fd, &st) < 0 ? -errno : 0;
	if (r == 0 && (!S_ISREG(st.st_mode) || st.st_uid != geteuid()))
		r = -EPERM;
	if (r < 0) {
		(void)close(fd);
		return r;
	}
	*ret_fd = fd;
	*ret_stat = st;
	return 0;
}

/* Where an object of this version was made, seen from here. */
static int find_origin(const struct ts_object_head *found, struct ts_view_origin *ret_origin)
{
	struct ts_scope scope;
	int r = ts_scope_read(&scope);

	if (r < 0)
		return r;
	bool same_pids = found->pid_ns == scope.pid_ns;
	*ret_origin = (struct ts_view_origin){
		.same_boot = memcmp(found->boot_id, scope.boot_id, sizeof(scope.boot_id)) == 0,
		.same_pids = same_pids,
		.same_scope =
			same_pids && found->user_ns == scope.user_ns && found->uid == scope.uid,
	};
	return 0;
}

/* Errors: -ESTALE it is of another boot; -EXDEV of other namespaces. */
static int check_origin(const struct ts_object_head *found)
{
	struct ts_view_origin origin;
	int r = find_origin(found, &origin);

	return r < 0 ? r : !origin.same_boot ? -ESTALE : !origin.same_scope ? -EXDEV : 0;
}

/*
 * Copy @bytes (a multiple of 8) from @offset of @fd, word by word: the writers use atomic
 * words, and so no word is torn.  *ret_copy is 64-byte aligned, for free().
 */
static int copy_words(int fd, uint64_t bytes, void **ret_copy)
{
	const _Atomic uint64_t *from = mmap(NULL, bytes, PROT_READ, MAP_SHARED, fd, 0);
	if (from == MAP_FAILED)
		return -errno;
	int r = -ENOMEM;
	uint64_t *to = aligned_alloc(64, ts_align_up(bytes, 64));
	if (to) {
		/* Relaxed: statistics; no word says anything about another one. */
		for (uint64_t i = 0; i < bytes / sizeof(*to); i++)
			to[i] = ts_load_relaxed(&from[i]);
		*ret_copy = to;
		r = 0;
	}
	(void)munmap((void *)(uintptr_t)from, bytes);
	return r;
}

int ts_view_ledger(int fd, struct ts_view_origin *ret_origin, struct ts_ledger **ret_ledger)
{
	struct stat st;
	void *copy = NULL;

	if (fstat(fd, &st) < 0)
		return -errno;
	if (st.st_size < (off_t)sizeof(struct ts_ledger) || (st.st_mode & 077) != 0)
		return -EBADMSG;
	/* One of another version may have another size; its head says so. */
	bool is_whole = st.st_size == TS_LEDGER_BYTES;
	int r = copy_words(fd, is_whole ? TS_LEDGER_BYTES : sizeof(struct ts_ledger), &copy);
	if (r < 0)
		return r;
	struct ts_ledger *ledger = copy;
	r = ts_ledger_check(ledger);
	if (r == 0 && !is_whole)
		r = -EBADMSG;
	if (r == 0)
		r = ret_origin ? find_origin(&ledger->head, ret_origin)
			       : check_origin(&ledger->head);
	if (r < 0) {
		free(ledger);
		return r;
	}
	*ret_ledger = ledger;
	return 0;
}

/*
 * Whether the object behind @fd is a dependent of a group (leader/group/attach.h) of this kind
 * and version, of @bytes, and made here.  Its version comes first: another one may be of
 * another size.
 */
static int check_belonging(int fd, uint64_t magic, uint32_t abi, uint64_t bytes)
{
	struct ts_dependent_head head;
	struct stat st;

	if (fstat(fd, &st) < 0)
		return -errno;
	if ((st.st_mode & 077) != 0 ||
		pread(fd, &head, sizeof(head), 0) != (ssize_t)sizeof(head))
		return -EBADMSG;
	int r = ts_object_head_check(
		&head, magic, abi, offsetof(struct ts_dependent_head, check));
	if (r == 0 && (head.total_bytes != bytes || (uint64_t)st.st_size != bytes))
		r = -EBADMSG;
	return r == 0 ? check_origin(&head.head) : r;
}

int ts_view_loaders(int fd, struct ts_loaders **ret_loaders)
{
	int r = check_belonging(
		fd, TS_LOADERS_MAGIC, TS_LOADERS_ABI, sizeof(struct ts_loaders));
	if (r < 0)
		return r;
	void *start = mmap(NULL, sizeof(struct ts_loaders), PROT_READ, MAP_SHARED, fd, 0);
	if (start == MAP_FAILED)
		return -errno;
	*ret_loaders = start;
	return 0;
}

int ts_view_mail(int fd, struct ts_mail_table **ret_table)
{
	void *copy = NULL;
	int r = check_belonging(fd, TS_MAIL_MAGIC, TS_MAIL_ABI, sizeof(struct ts_mail_table));

	if (r == 0)
		r = copy_words(fd, sizeof(struct ts_mail_table), &copy);
	if (r == 0)
		*ret_table = copy;
	return r;
}

/* Check the header and that all parts lie where the layout says, within @size bytes. */
static int check_header(const struct ts_ring_header *header, uint64_t size)
{
	int r = ts_object_head_check(
		header, TS_RING_MAGIC, TS_ABI, offsetof(struct ts_ring_header, check));

	if (r == 0)
		r = check_origin(&header->head);
	if (r < 0)
		return r;
	if (header->total_bytes != size || header->member_count == 0 ||
		header->member_count > TS_MEMBER_MAX || header->segment_count == 0 ||
		header->segment_count > TS_SEGMENT_MAX)
		return -EBADMSG;
	/* Each bound is checked by subtraction or against a small product: nothing wraps. */
	uint64_t limit = header->data_at;
	if (limit > size || header->members_at < sizeof(*header) ||
		header->members_at > limit || header->segments_at > limit ||
		header->members_at % 64 != 0 || header->segments_at % 64 != 0 ||
		limit - header->members_at < header->member_count * sizeof(struct ts_member) ||
		limit - header->segments_at <
			header->segment_count * sizeof(struct ts_segment) ||
		(size - limit) / header->segment_count < header->segment_bytes)
		return -EBADMSG;
	return 0;
}

/* Whether anybody else holds a lock on one of @bytes from @from on; of 0 bytes: to the end. */
static bool is_locked(int fd, int64_t from, int64_t bytes)
{
	struct flock lock = {
		.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = from, .l_len = bytes};

	/* When the kernel cannot say, nobody may conclude that the object is free. */
	return fcntl(fd, F_GETLK, &lock) < 0 || lock.l_type != F_UNLCK;
}

bool ts_view_is_locked(int fd)
{
	return is_locked(fd, 0, 0);
}

static void read_members(
	int fd, struct ts_member *from, uint32_t count, struct ts_view_ring *ring)
{
	for (uint32_t i = 0; i < count; i++) {
		uint64_t word = ts_load_relaxed(&from[i].word);
		if (ts_member_state(word) == TS_MEMBER_FREE)
			continue;
		int pid = ts_member_pid(word);
		/* Dead is who is gone in both ways (leader/group/layout.h, member word). */
		bool alive =
			is_locked(fd, ts_member_lock_byte(i), 1) || ts_member_is_running(word);
		ring->members[ring->member_count++] = (struct ts_view_member){
			.job = ts_load_relaxed(&from[i].job),
			.pid = pid,
			.alive = alive,
			.live = alive && ts_member_state(word) == TS_MEMBER_LIVE,
		};
	}
}

int ts_view_ring(int fd, struct ts_view_ring *ret_ring)
{
	struct stat st;
	struct ts_ring_header header;

	if (fstat(fd, &st) < 0)
		return -errno;
	if ((st.st_mode & 077) != 0 || (uint64_t)st.st_size < sizeof(header))
		return -EBADMSG;
	if (pread(fd, &header, sizeof(header), 0) != (ssize_t)sizeof(header))
		return -EIO;
	int r = check_header(&header, (uint64_t)st.st_size);
	if (r < 0)
		return r;

	/* The directory, by far the largest part, says nothing that is wanted here. */
	uint64_t members_end =
		header.members_at + header.member_count * sizeof(struct ts_member);
	uint64_t segments_end =
		header.segments_at + header.segment_count * sizeof(struct ts_segment);
	void *copy = NULL;
	r = copy_words(fd, ts_max_u64(members_end, segments_end), &copy);
	if (r < 0)
		return r;
	struct ts_view_ring ring = {
		.capacity = header.segment_count * header.segment_bytes,
		.why = header.why,
		.kept_until_ns = ts_load_relaxed(&header.kept_until_ns),
		.members = calloc(header.member_count, sizeof(*ring.members)),
	};
	if (!ring.members) {
		free(copy);
		return -ENOMEM;
	}
	read_members(fd, (struct ts_member *)((char *)copy + header.members_at),
		header.member_count, &ring);
	ring.used = ts_segments_used((struct ts_segment *)((char *)copy + header.segments_at),
		header.segment_count, header.segment_bytes);
	free(copy);
	*ret_ring = ring;
	return 0;
}

const char *ts_view_explain(int error)
{
	switch (error) {
	case -EPERM:
		return "it belongs to somebody else or is no regular file";
	case -EPROTO:
		return "it was made by another version of tsshim";
	case -EBADMSG:
		return "it is damaged";
	case -EXDEV:
		return "it is of another user or PID namespace than its name says";
	case -ESTALE:
		return "it is of another boot";
	default:
		return strerror(-error);
	}
}

/* ---- a group, and all groups ------------------------------------------------------------- */

void ts_sample_count(struct ts_sample_group *group)
{
	group->jobs = group->processes = 0;
	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		struct ts_ledger *ledger = group->report.ledger;
		group->alive[i] = ledger && ts_process_is_alive(ts_load_relaxed(
						    &ts_ledger_job(ledger, i)->id));
		group->jobs += group->alive[i];
	}
	for (uint32_t i = 0; i < group->report.ring.member_count; i++)
		group->processes += group->report.ring.members[i].live;
}

/* The first error counts; @part is what could not be read then, for people. */
static void note_error(struct ts_sample_group *group, const char *part, int error)
{
	if (error == 0 || error == -ENOENT || group->error < 0)
		return;
	group->error = error;
	group->part = part;
}

/* Open "ledger", "ring" or "peers" of the group at @stem.  Errors: -ENOENT; of ts_view_open().
 */
static int open_part(const char *stem, const char *suffix, int *ret_fd, struct stat *ret_stat)
{
	char path[TS_PATH_BYTES + 8];

	(void)snprintf(path, sizeof(path), "%s.%s", stem, suffix);
	return ts_view_open(path, false, ret_fd, ret_stat);
}

static void look_at(const char *stem, struct ts_sample_group *group)
{
	struct stat st = {0};
	int fd = -1;

	int r = open_part(stem, "ledger", &fd, &st);
	if (r == 0) {
		group->inode = (uint64_t)st.st_ino;
		group->at_ns = ts_now_ns();
		r = ts_view_ledger(fd, NULL, &group->report.ledger);
		(void)close(fd);
	}
	note_error(group, "the counters", r);
	r = open_part(stem, "ring", &fd, &st);
	if (r == 0) {
		r = ts_view_ring(fd, &group->report.ring);
		(void)close(fd);
	}
	note_error(group, "the ring", r);
	r = open_part(stem, "peers", &fd, &st);
	if (r == 0) {
		r = ts_view_mail(fd, &group->report.nodes);
		(void)close(fd);
	}
	note_error(group, "what is told of other nodes", r);
	ts_sample_count(group);
}

struct gathering {
	struct ts_sample sample;
	uint32_t room;
	int error;
};

static void add_group(struct gathering *gathering, const struct ts_name *name)
{
	struct ts_sample *sample = &gathering->sample;

	if (sample->count == gathering->room) {
		uint32_t room = gathering->room ? 2 * gathering->room : 8;
		void *groups = realloc(sample->groups, room * sizeof(*sample->groups));
		if (!groups) {
			gathering->error = -ENOMEM;
			return;
		}
		sample->groups = groups;
		gathering->room = room;
	}
	struct ts_sample_group *group = &sample->groups[sample->count++];
	memset(group, 0, sizeof(*group));
	memcpy(group->name, name->group, sizeof(group->name));
	look_at(name->stem, group);
}

static void visit_name(void *context, const struct ts_name *name)
{
	if (name->kind == TS_NAME_LEDGER && !name->foreign)
		add_group(context, name);
}

int ts_sample_take(const char *only, struct ts_sample *ret_sample)
{
	struct gathering gathering = {.room = 0};
	struct ts_name name;

	int r = only ? ts_names_own(only, &name) : ts_names_each(visit_name, &gathering);
	if (r == 0 && only)
		add_group(&gathering, &name);
	if (r == 0)
		r = gathering.error;
	if (r < 0) {
		ts_sample_finish(&gathering.sample);
		return r;
	}
	/* Not before: the groups have been moved. */
	for (uint32_t i = 0; i < gathering.sample.count; i++)
		gathering.sample.groups[i].report.group = gathering.sample.groups[i].name;
	*ret_sample = gathering.sample;
	return 0;
}

void ts_sample_finish(struct ts_sample *sample)
{
	for (uint32_t i = 0; i < sample->count; i++) {
		free(sample->groups[i].report.ledger);
		free(sample->groups[i].report.nodes);
		free(sample->groups[i].report.ring.members);
	}
	free(sample->groups);
	*sample = (struct ts_sample){.groups = NULL};
}

const struct ts_sample_group *ts_sample_find(const struct ts_sample *sample, const char *name)
{
	for (uint32_t i = 0; i < sample->count; i++)
		if (strcmp(sample->groups[i].name, name) == 0)
			return &sample->groups[i];
	return NULL;
}

uint64_t ts_sample_front(const struct ts_sample_group *group, uint64_t identity)
{
	uint64_t front = 0;

	for (uint32_t i = 0; i < TS_JOB_MAX; i++) {
		struct ts_progress_row *row = ts_ledger_progress(group->report.ledger, i);
		if (group->alive[i] && ts_load_relaxed(&row->identity) == identity)
			front = ts_max_u64(front, ts_load_relaxed(&row->position));
	}
	return front;
}

uint32_t ts_sample_processes(const struct ts_sample_group *group, uint64_t id)
{
	const struct ts_view_ring *ring = &group->report.ring;
	uint32_t count = 0;

	for (uint32_t i = 0; i < ring->member_count; i++)
		count += ring->members[i].live && ring->members[i].job == id;
	return count;
}
