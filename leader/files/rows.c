/* SPDX-License-Identifier: MIT */
/* The index of a group's copies of files: room for them, and what each is a copy of. */
#include "leader/files/index_private.h"

#include "shim/hash.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <limits.h>
#include <string.h>

/* Slots looked at for one inode; the table is never fuller than seven eighths. */
#define PROBES 256u

/* Room is asked for in such steps, for asking the machine reads dozens of files. */
#define GRANT_STEP    (UINT64_C(64) << 20)
#define FULL_PAUSE_NS UINT64_C(100000000)

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
