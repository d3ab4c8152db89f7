/* SPDX-License-Identifier: MIT */
/* The index of a group's copies of files: making it, opening it, checking it, removing it. */
#include "leader/files/index_private.h"

#include "shim/log.h"
#include "shim/scratch.h"
#include "shim/sys.h"

#include <fcntl.h>
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
	ts_stage_remove_copies(plan->stem, false, &(struct ts_stage_usage){0});
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
	ts_stage_remove_copies(stem, dry_run, &usage);
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
