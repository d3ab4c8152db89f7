/* SPDX-License-Identifier: MIT */
/* The index of a group's copies of files: making and checking it, room, rows, removing. */
#include "leader/files/index_private.h"
#include "leader/files/index.h"
#include "shim/hash.h"
#include "shim/log.h"
#include "shim/scratch.h"
#include "shim/sys.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MAGIC      UINT64_C(0x7473737461676532) /* "tsstage2" */
#define SLOTS_MIN  (UINT64_C(1) << 14)
#define SLOTS_MAX  (UINT64_C(1) << 20)
#define ROWS_EACH  320u /* bytes of rows for a slot: a path of a hundred letters */
#define NAMES_EACH 2u   /* names for a slot: followed to the end of links, and not */

/* Files smaller than this on the average fill the index before the room for copies. */
#define FILE_BYTES UINT64_C(16384)

/* ---- walking through the copies --------------------------------------------------------- */

#define DIGITS 32u

/* "<beginning><32 hexadecimal digits>", or with ".part" behind. */
static bool is_copy_name(const char *name, const char *beginning)
{
	size_t length = strlen(beginning);

	if (strncmp(name, beginning, length) != 0 ||
		strspn(name + length, "0123456789abcdef") != DIGITS)
		return false;
	const char *rest = name + length + DIGITS;
	return rest[0] == '\0' || strcmp(rest, ".part") == 0;
}

void ts_stage_each_copy(
	const char *stem, bool (*visit)(void *context, const char *path), void *context)
{
	/* The C library's readdir allocates, which a host may not like. */
	char *buffer TS_SCRATCH = ts_scratch();
	char directory[TS_STAGE_STEM], path[TS_STAGE_STEM + DIGITS + 8];
	bool go_on = true;
	int64_t bytes;

	if (!buffer)
		return;
	memcpy(directory, stem, sizeof(directory));
	char *slash = strrchr(directory, '/');
	const char *beginning = stem + (slash - directory) + 1;
	*slash = '\0';
	int fd = ts_sys_open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);
	while (fd >= 0 && go_on && (bytes = ts_sys_list(fd, buffer, TS_SCRATCH_BYTES)) > 0) {
		for (int64_t at = 0; at < bytes && go_on;) {
			const struct dirent64 *entry = (const void *)(buffer + at);
			at += entry->d_reclen;
			if (!is_copy_name(entry->d_name, beginning))
				continue;
			ts_format(path, sizeof(path), "%s/%s", directory, entry->d_name);
			go_on = visit(context, path);
		}
	}
	if (fd >= 0)
		ts_sys_close(fd);
}

struct removal {
	bool dry_run;
	struct ts_stage_usage *usage;
};

static bool remove_one(void *context, const char *path)
{
	const struct removal *removal = context;
	struct stat st;

	if (ts_sys_stat(path, &st) < 0)
		return true;
	removal->usage->files++;
	removal->usage->bytes += (uint64_t)st.st_blocks * 512;
	if (!removal->dry_run)
		(void)ts_sys_unlink(path);
	return true;
}

/* Remove copies whose paths begin with @stem, finished or not; adds to *usage. */
static void remove_copies(const char *stem, bool dry_run, struct ts_stage_usage *usage)
{
	struct removal removal = {.dry_run = dry_run, .usage = usage};

	ts_stage_each_copy(stem, remove_one, &removal);
}

/* Slots looked at for one inode; the table is never fuller than seven eighths. */
#define PROBES 256u

/* Room is asked for in such steps, for asking the machine reads dozens of files. */
#define GRANT_STEP    (UINT64_C(64) << 20)
#define FULL_PAUSE_NS UINT64_C(100000000)

/* ---- making and opening ----------------------------------------------------------------- */

struct plan {
	struct ts_scope scope;
	uint64_t slot_count, rows_at, names_at, name_count, total_bytes;
	bool in_memory;
	char stem[TS_STAGE_STEM];
};

static uint64_t total_for(struct plan *plan)
{
	plan->rows_at = ts_align_up(
		TS_PAGE_BYTES + plan->slot_count * sizeof(struct ts_stage_slot), TS_PAGE_BYTES);
	plan->names_at =
		ts_align_up(plan->rows_at + plan->slot_count * ROWS_EACH, TS_PAGE_BYTES);
	plan->name_count = plan->slot_count * NAMES_EACH;
	return ts_align_up(plan->names_at + plan->name_count * sizeof(struct ts_stage_name),
		TS_STAGE_CHUNK);
}

/* Mapped in every process, so no larger than a finite RLIMIT_AS makes bearable. */
static void make_plan(struct plan *plan, uint64_t capacity)
{
	uint64_t limit = ts_limits_address_space();

	plan->slot_count = SLOTS_MIN;
	while (plan->slot_count < SLOTS_MAX && plan->slot_count * FILE_BYTES < capacity)
		plan->slot_count *= 2;
	while (plan->slot_count > SLOTS_MIN && total_for(plan) > limit)
		plan->slot_count /= 2;
	plan->total_bytes = total_for(plan);
}

static void fill_head(void *context, void *start)
{
	const struct plan *plan = context;
	struct ts_stage_head *head = start;

	head->slot_count = plan->slot_count;
	head->rows_at = plan->rows_at;
	head->names_at = plan->names_at;
	head->name_count = plan->name_count;
	head->total_bytes = plan->total_bytes;
	head->in_memory = plan->in_memory;
	ts_format(head->stem, sizeof(head->stem), "%s", plan->stem);
	ts_object_head_fill(
		head, MAGIC, TS_ABI, &plan->scope, offsetof(struct ts_stage_head, check));
	ts_write_relaxed(&head->used, TS_STAGE_CHUNK);
	ts_write_relaxed(&head->chunks[0], 1);
}

/* Whether the sizes can be true; all that is read later is compared with them. */
static bool has_shape(const struct ts_stage_head *head, uint64_t file_bytes)
{
	uint64_t slots = head->slot_count, names = head->name_count;

	return slots >= SLOTS_MIN && slots <= SLOTS_MAX && (slots & (slots - 1)) == 0 &&
	       head->rows_at >= TS_PAGE_BYTES + slots * sizeof(struct ts_stage_slot) &&
	       head->rows_at < head->names_at && head->names_at % TS_PAGE_BYTES == 0 &&
	       head->names_at < head->total_bytes && names > 0 && (names & (names - 1)) == 0 &&
	       names <= (head->total_bytes - head->names_at) / sizeof(struct ts_stage_name) &&
	       head->total_bytes == file_bytes &&
	       head->total_bytes <= TS_STAGE_CHUNK * TS_STAGE_CHUNK_WORDS * 64 &&
	       memchr(head->stem, '\0', sizeof(head->stem)) && head->stem[0] == '/';
}

/* With a @scope of NULL, wherever it was made. */
static int check_head(const struct ts_object *object, const struct ts_scope *scope,
	struct ts_stage_head *ret_head)
{
	int r = ts_object_read_start(ts_load_relaxed(&object->fd), ret_head, sizeof(*ret_head));

	if (r == 0)
		r = ts_object_head_check(
			ret_head, MAGIC, TS_ABI, offsetof(struct ts_stage_head, check));
	if (r == 0 && !has_shape(ret_head, object->bytes))
		r = -EBADMSG;
	return r < 0 || !scope ? r : ts_scope_check(scope, &ret_head->head);
}

/* Directory of the copies: ours alone, or shared memory itself. */
static int check_directory(const char *path, bool in_memory, uint64_t *ret_device)
{
	struct stat st = {.st_ino = 0};
	int fd = ts_sys_open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC, 0);

	if (fd < 0)
		return fd == -ELOOP || fd == -ENOTDIR ? -EPERM : fd;
	int r = ts_sys_fstat(fd, &st);
	ts_sys_close(fd);
	if (r == 0 && !in_memory && (st.st_uid != geteuid() || (st.st_mode & 077) != 0))
		r = -EPERM;
	if (r == 0)
		*ret_device = st.st_dev;
	return r;
}

/* Path of the copies without their digits; a directory of ours is made in @directory. */
static int make_stem(const char *group, const char *directory, char stem[TS_STAGE_STEM])
{
	char path[TS_PATH_BYTES];
	int r = ts_object_path(path, sizeof(path), group, "f.");

	if (r < 0 || !directory) {
		ts_format(stem, TS_STAGE_STEM, "%s", path);
		return r;
	}
	const char *name = strrchr(path, '/') + 1;
	size_t length = ts_format(stem, TS_STAGE_STEM, "%s/%s", directory, name);
	if (length + 1 >= TS_STAGE_STEM)
		return -ENAMETOOLONG;
	stem[length - 3] = '\0'; /* without ".f." */
	r = ts_sys_mkdir(stem, 0700);
	if (r < 0 && r != -EEXIST)
		return r;
	ts_format(stem + length - 3, TS_STAGE_STEM - (length - 3), "/f.");
	return 0;
}

static int make(struct ts_stage_index *index, struct plan *plan, const char *group,
	const char *directory, uint64_t capacity)
{
	uint64_t device;
	int r = make_stem(group, directory, plan->stem);

	if (r < 0)
		return r;
	plan->in_memory = !directory;
	char *slash = strrchr(plan->stem, '/');
	*slash = '\0';
	r = check_directory(plan->stem, plan->in_memory, &device);
	*slash = '/';
	if (r < 0)
		return r;
	remove_copies(plan->stem, false, &(struct ts_stage_usage){0});
	make_plan(plan, capacity);
	return ts_object_make(
		&index->object, plan->total_bytes, TS_STAGE_CHUNK, fill_head, plan);
}

static int map(struct ts_stage_index *index, const struct ts_stage_head *head)
{
	char directory[TS_STAGE_STEM];

	memcpy(index->stem, head->stem, sizeof(index->stem));
	memcpy(directory, head->stem, sizeof(directory));
	*strrchr(directory, '/') = '\0';
	if (head->total_bytes > ts_limits_address_space())
		return -ENOMEM;
	index->uid = head->head.uid;
	index->in_memory = head->in_memory != 0;
	int r = check_directory(directory, index->in_memory, &index->device);
	if (r < 0)
		return r;
	void *start = mmap(NULL, head->total_bytes, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_NORESERVE, ts_load_relaxed(&index->object.fd), 0);
	if (start == MAP_FAILED)
		return -ENOMEM;
	madvise(start, head->total_bytes, MADV_DONTDUMP);
	index->head = start;
	index->slot_count = head->slot_count;
	index->rows_at = head->rows_at;
	index->rows_end = head->names_at;
	index->name_count = head->name_count;
	index->total_bytes = head->total_bytes;
	return 0;
}

int ts_stage_index_init(struct ts_stage_index *index, const char *group, const char *directory,
	uint64_t capacity)
{
	struct plan plan = {.slot_count = 0};
	struct ts_stage_head *head TS_SCRATCH = ts_scratch();

	memset(index, 0, sizeof(*index));
	ts_write_relaxed(&index->object.fd, -1);
	int r = head ? ts_object_path(index->object.path, TS_PATH_BYTES, group, "stage")
		     : -ENOMEM;
	if (r == 0)
		r = ts_scope_read(&plan.scope);
	if (r == 0)
		r = ts_object_open(&index->object);
	if (r == -ENOENT && capacity > 0)
		r = make(index, &plan, group, directory, capacity);
	if (r == 0)
		r = check_head(&index->object, &plan.scope, head);
	if (r == 0)
		r = map(index, head);
	if (r < 0)
		ts_object_close(&index->object);
	return r;
}

void ts_stage_index_finish(struct ts_stage_index *index)
{
	if (index->head)
		munmap(index->head, index->total_bytes);
	index->head = NULL;
	ts_object_close(&index->object);
}

/* ---- chunks ----------------------------------------------------------------------------- */

bool ts_stage_index_has(const struct ts_stage_index *index, uint64_t at, uint64_t bytes)
{
	if (bytes == 0 || at > index->total_bytes || bytes > index->total_bytes - at)
		return false;
	for (uint64_t i = at / TS_STAGE_CHUNK; i <= (at + bytes - 1) / TS_STAGE_CHUNK; i++)
		/* A0, pairs with I0: whoever sees the bit finds memory there. */
		if (!(ts_load_acquire(&index->head->chunks[i / 64]) >> i % 64 & 1))
			return false;
	return true;
}

int ts_stage_index_need(struct ts_stage_index *index, uint64_t at, uint64_t bytes)
{
	if (ts_stage_index_has(index, at, bytes))
		return 0;
	if (at > index->total_bytes || bytes > index->total_bytes - at)
		return -ENOSPC;
	int fd = ts_object_fd(&index->object, NULL);
	if (fd < 0)
		return fd;
	uint64_t first = at / TS_STAGE_CHUNK, last = (at + bytes - 1) / TS_STAGE_CHUNK;
	/* Two processes may both do so: allocating what is there changes nothing. */
	int r = ts_sys_fallocate(
		fd, first * TS_STAGE_CHUNK, (last - first + 1) * TS_STAGE_CHUNK);
	for (uint64_t i = first; r == 0 && i <= last; i++)
		atomic_fetch_or_explicit(&index->head->chunks[i / 64], UINT64_C(1) << i % 64,
			memory_order_release); /* I0 */
	return r;
}

/* ---- room ------------------------------------------------------------------------------- */

/* What the machine leaves for copies, those that are there included. Errors: those of open(2).
 */
static int ask_machine(struct ts_stage_index *index, uint64_t *ret_limit)
{
	uint64_t used = ts_load_relaxed(&index->head->used);
	char directory[TS_STAGE_STEM];

	memcpy(directory, index->stem, sizeof(directory));
	*strrchr(directory, '/') = '\0';
	int fd = ts_sys_open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0);
	if (fd < 0)
		return fd;
	*ret_limit = ts_limits_files(fd, used, index->in_memory);
	ts_sys_close(fd);
	return 0;
}

/* Ask the machine whether @wanted bytes in all are in order, and note some more at once. */
static int ask_for_room(struct ts_stage_index *index, uint64_t capacity, uint64_t wanted)
{
	uint64_t now = ts_now_ns(), limit;

	if (now < ts_load_relaxed(&index->full_until) || ask_machine(index, &limit) < 0)
		return -ENOSPC;
	limit = ts_min_u64(limit, capacity);
	if (wanted > limit) {
		ts_write_relaxed(&index->full_until, now + FULL_PAUSE_NS);
		return -ENOSPC;
	}
	ts_write_relaxed(&index->head->granted, ts_min_u64(limit, wanted + GRANT_STEP));
	return 0;
}

int ts_stage_index_recheck(struct ts_stage_index *index)
{
	uint64_t limit;

	return ask_machine(index, &limit) == 0 && ts_load_relaxed(&index->head->used) <= limit
		       ? 0
		       : -ENOSPC;
}

int ts_stage_index_admit(struct ts_stage_index *index, uint64_t capacity, uint64_t bytes)
{
	uint64_t used = ts_load_relaxed(&index->head->used);

	do {
		uint64_t wanted = used + bytes;
		if (bytes > capacity || wanted > capacity || wanted < used)
			return -ENOSPC;
		if (wanted > ts_load_relaxed(&index->head->granted) &&
			ask_for_room(index, capacity, wanted) < 0)
			return -ENOSPC;
	} while (!ts_cas(&index->head->used, &used, used + bytes));
	return 0;
}

void ts_stage_index_return(struct ts_stage_index *index, uint64_t bytes)
{
	ts_sub_relaxed(&index->head->used, bytes);
}

/* ---- rows ------------------------------------------------------------------------------- */

static uint64_t slot_at(uint64_t place)
{
	return TS_PAGE_BYTES + place * sizeof(struct ts_stage_slot);
}

static struct ts_stage_slot *slot_of(const struct ts_stage_index *index, uint64_t place)
{
	return (struct ts_stage_slot *)((char *)index->head + slot_at(place));
}

static uint64_t first_place(const struct ts_stage_index *index, uint64_t inode)
{
	return ts_hash64(&inode, sizeof(inode)) & (index->slot_count - 1);
}

/* The slot of @inode, taken for it when there is none. */
static int take_slot(
	struct ts_stage_index *index, uint64_t inode, struct ts_stage_slot **ret_slot)
{
	uint64_t first = first_place(index, inode);

	if (ts_load_relaxed(&index->head->slots_used) >= index->slot_count / 8 * 7)
		return -ENOSPC;
	for (uint32_t i = 0; i < PROBES; i++) {
		uint64_t place = (first + i) & (index->slot_count - 1), found = 0;
		int r = ts_stage_index_need(
			index, slot_at(place), sizeof(struct ts_stage_slot));
		if (r < 0)
			return r;
		struct ts_stage_slot *slot = slot_of(index, place);
		bool taken = ts_cas(&slot->inode, &found, inode);
		if (taken)
			ts_add_relaxed(&index->head->slots_used, 1);
		if (!taken && found != inode)
			continue;
		*ret_slot = slot;
		return 0;
	}
	return -ENOSPC;
}

/* Room for a row with a path of @length bytes; returns its place, or an error. */
static int64_t new_row(struct ts_stage_index *index, size_t length)
{
	uint64_t bytes = ts_align_up(sizeof(struct ts_stage_row) + length + 1, 8);
	uint64_t at = index->rows_at + ts_add_relaxed(&index->head->rows_used, bytes);
	/* The counter is in shared memory: damaged, it must not lead out of the rows. */
	if (at < index->rows_at || at % 8 != 0 || at > index->rows_end ||
		bytes > index->rows_end - at)
		return -ENOSPC;
	int r = ts_stage_index_need(index, at, bytes);
	return r < 0 ? r : (int64_t)at;
}

int64_t ts_stage_index_new_row(struct ts_stage_index *index,
	const struct ts_stage_attributes *attributes, const char *path)
{
	size_t length = strlen(path);
	int64_t at = new_row(index, length);
	if (at < 0)
		return at;
	struct ts_stage_row *row = (struct ts_stage_row *)((char *)index->head + at);
	row->attributes = *attributes;
	ts_write_relaxed(&row->confirmed, 0);
	row->path_bytes = length;
	memcpy(row->path, path, length + 1);
	return at;
}

int ts_stage_index_add(struct ts_stage_index *index, uint64_t inode,
	const struct ts_stage_attributes *attributes, const char *path)
{
	size_t length = strlen(path);
	struct ts_stage_slot *slot;

	if (length == 0 || length >= PATH_MAX || inode == 0)
		return -EINVAL;
	int r = take_slot(index, inode, &slot);
	if (r < 0)
		return r;
	TS_KILLPOINT(stage_slot);
	int64_t at = ts_stage_index_new_row(index, attributes, path);
	if (at < 0)
		return (int)at;
	TS_KILLPOINT(stage_row);
	ts_write_release(&slot->row, (uint64_t)at); /* I1, pairs with A1 */
	return 0;
}

void ts_stage_index_count(struct ts_stage_index *index)
{
	ts_add_relaxed(&index->head->files, 1);
}

struct ts_stage_row *ts_stage_index_row_at(const struct ts_stage_index *index, uint64_t at)
{
	if (at < index->rows_at || at % 8 != 0 || at >= index->rows_end ||
		!ts_stage_index_has(index, at, sizeof(struct ts_stage_row)))
		return NULL;
	return (struct ts_stage_row *)((char *)index->head + at);
}

uint64_t ts_stage_index_row_of(const struct ts_stage_index *index, uint64_t inode)
{
	uint64_t first = first_place(index, inode);

	for (uint32_t i = 0; i < PROBES; i++) {
		uint64_t place = (first + i) & (index->slot_count - 1);
		if (!ts_stage_index_has(index, slot_at(place), sizeof(struct ts_stage_slot)))
			return 0;
		struct ts_stage_slot *slot = slot_of(index, place);
		uint64_t found = ts_load_relaxed(&slot->inode);
		if (found == inode)
			return ts_load_acquire(&slot->row); /* A1, pairs with I1 */
		if (found == 0)
			return 0;
	}
	return 0;
}

static struct ts_stage_row *find_row(const struct ts_stage_index *index, uint64_t inode)
{
	return ts_stage_index_row_at(index, ts_stage_index_row_of(index, inode));
}

const char *ts_stage_index_path(
	const struct ts_stage_index *index, const struct ts_stage_row *row)
{
	uint64_t length = row->path_bytes;
	uint64_t at = (uint64_t)((const char *)row->path - (const char *)index->head);
	if (length == 0 || length >= PATH_MAX || !ts_stage_index_has(index, at, length + 1) ||
		row->path[length] != '\0')
		return NULL;
	return row->path;
}

bool ts_stage_index_is_confirmed(const struct ts_stage_index *index, uint64_t inode)
{
	const struct ts_stage_row *row = find_row(index, inode);

	/* Nothing else is read because of it, so no order is asked for. */
	return row && ts_load_relaxed(&row->confirmed) != 0;
}

void ts_stage_index_confirm(struct ts_stage_index *index, uint64_t inode)
{
	struct ts_stage_row *row = find_row(index, inode);

	if (row)
		ts_write_relaxed(&row->confirmed, 1);
}

/* Names of inodes come back: what is no copy of ours any more must not be taken for one. */
static bool is_copy(const struct stat *copy, const struct ts_stage_attributes *original)
{
	return copy->st_mode == (S_IFREG | 0400) &&
	       (uint64_t)copy->st_size == original->bytes &&
	       copy->st_mtim.tv_sec == original->modified.seconds &&
	       (uint64_t)copy->st_mtim.tv_nsec == original->modified.nanoseconds;
}

bool ts_stage_index_agrees(const struct ts_stage_attributes *was, const struct stat *now)
{
	return was->bytes == (uint64_t)now->st_size &&
	       was->modified.seconds == now->st_mtim.tv_sec &&
	       was->modified.nanoseconds == (uint64_t)now->st_mtim.tv_nsec &&
	       was->changed.seconds == now->st_ctim.tv_sec &&
	       was->changed.nanoseconds == (uint64_t)now->st_ctim.tv_nsec;
}

bool ts_stage_index_find(const struct ts_stage_index *index, const struct stat *copy,
	struct ts_stage_attributes *ret_attributes, char *ret_path)
{
	if (copy->st_dev != index->device || copy->st_mode != (S_IFREG | 0400))
		return false;
	const struct ts_stage_row *row = find_row(index, copy->st_ino);
	if (!row || !is_copy(copy, &row->attributes))
		return false;
	const char *path = ts_stage_index_path(index, row);
	if (!path)
		return false;
	*ret_attributes = row->attributes;
	if (ret_path) {
		/* Measured once: what lies in shared memory may be another length now. */
		size_t length = strnlen(path, PATH_MAX - 1);
		memcpy(ret_path, path, length);
		ret_path[length] = '\0';
	}
	return true;
}

/* ---- removing --------------------------------------------------------------------------- */

/* Where the copies lie, if that is an index of ours at all. */
static int read_stem(struct ts_object *object, char stem[TS_STAGE_STEM])
{
	struct ts_stage_head *head TS_SCRATCH = ts_scratch();
	int r = ts_object_open(object);

	if (r < 0)
		return r;
	r = head ? check_head(object, NULL, head) : -ENOMEM;
	if (r == 0)
		memcpy(stem, head->stem, TS_STAGE_STEM);
	ts_object_close(object);
	return r;
}

/* Where copies in shared memory lie, for an index that does not tell: "<path>.stage". */
static void guess_stem(const char *path, char stem[TS_STAGE_STEM])
{
	size_t length = ts_format(stem, TS_STAGE_STEM, "%s", path);

	length -= ts_min_u64(length, strlen("stage"));
	ts_format(stem + length, TS_STAGE_STEM - length, "f.");
}

int ts_stage_remove(const char *path, bool dry_run, struct ts_stage_usage *ret_usage)
{
	struct ts_stage_usage usage = {.files = 0};
	struct ts_object object = {.fd = -1};
	char stem[TS_STAGE_STEM];

	ts_format(object.path, sizeof(object.path), "%s", path);
	int r = read_stem(&object, stem);
	if (r == -ENOENT || r == -EPERM)
		return r;
	if (r < 0)
		guess_stem(path, stem);
	remove_copies(stem, dry_run, &usage);
	if (ret_usage)
		*ret_usage = usage;
	if (dry_run)
		return 0;
	size_t end = strlen(stem);
	/* A directory of ours holds nothing else: "<directory>/f." */
	if (end > 3 && memcmp(stem + end - 3, "/f.", 3) == 0) {
		stem[end - 3] = '\0';
		(void)ts_sys_rmdir(stem);
	}
	(void)ts_sys_unlink(path);
	return 0;
}
