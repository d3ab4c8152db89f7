/* SPDX-License-Identifier: MIT */
/* What a group knows of paths, for a time: the table of leader/files/names.h. */
#include "leader/files/names.h"

#include "leader/files/index_private.h"

#include <string.h>
#include <time.h>

/* Names looked at for one hash; the table is never fuller than three quarters. */
#define PROBES 64u

#define FORBIDDEN  UINT64_MAX
#define ROW_MASK   ((UINT64_C(1) << TS_STAGE_ROW_BITS) - 1)
#define MOMENT_MAX ((UINT64_C(1) << (64 - TS_STAGE_ROW_BITS)) - 2)

static_assert(
	TS_STAGE_CHUNK * TS_STAGE_CHUNK_WORDS * 64 / 8 <= ROW_MASK + 1, "rows have numbers");

uint64_t ts_stage_now_ms(void)
{
	struct timespec now;

	if (clock_gettime(CLOCK_BOOTTIME, &now) < 0)
		return 0;
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* ---- the table -------------------------------------------------------------------------- */

static uint64_t name_at(const struct ts_stage_index *index, uint64_t place)
{
	return index->rows_end + place * sizeof(struct ts_stage_name);
}

static struct ts_stage_name *name_of(const struct ts_stage_index *index, uint64_t place)
{
	return (struct ts_stage_name *)((char *)index->head + name_at(index, place));
}

/* 0 says that a name is free. */
static uint64_t first_half(struct ts_hash128 hash)
{
	return hash.lo ? hash.lo : 1;
}

/* The name with @hash, or NULL. */
static struct ts_stage_name *find(const struct ts_stage_index *index, struct ts_hash128 hash)
{
	uint64_t lo = first_half(hash);

	for (uint32_t i = 0; i < PROBES; i++) {
		uint64_t place = (lo + i) & (index->name_count - 1);
		if (!ts_stage_index_has(
			    index, name_at(index, place), sizeof(struct ts_stage_name)))
			return NULL;
		struct ts_stage_name *name = name_of(index, place);
		uint64_t found = ts_load_relaxed(&name->lo);
		if (found == 0)
			return NULL;
		if (found == lo && ts_load_relaxed(&name->hi) == hash.hi)
			return name;
	}
	return NULL;
}

/* The name with @hash, taken when there is none; NULL where there is no room. */
static struct ts_stage_name *take(struct ts_stage_index *index, struct ts_hash128 hash)
{
	uint64_t lo = first_half(hash);

	for (uint32_t i = 0; i < PROBES; i++) {
		uint64_t place = (lo + i) & (index->name_count - 1), found = 0, none = 0;
		if (ts_stage_index_need(
			    index, name_at(index, place), sizeof(struct ts_stage_name)) < 0)
			return NULL;
		struct ts_stage_name *name = name_of(index, place);
		if (ts_load_relaxed(&name->lo) == 0 &&
			ts_load_relaxed(&index->head->names_used) >= index->name_count / 4 * 3)
			return NULL;
		if (ts_cas(&name->lo, &found, lo))
			ts_add_relaxed(&index->head->names_used, 1);
		else if (found != lo)
			continue;
		TS_KILLPOINT(name_taken);
		bool is_ours = ts_cas(&name->hi, &none, hash.hi) || none == hash.hi;
		TS_KILLPOINT(name_hashed);
		if (is_ours)
			return name;
	}
	return NULL;
}

/* ---- asking ----------------------------------------------------------------------------- */

static bool read_row(
	const struct ts_stage_index *index, uint64_t at, struct ts_stage_known *ret_known)
{
	const struct ts_stage_row *row = ts_stage_index_row_at(index, at);

	if (!row)
		return false;
	ret_known->attributes = row->attributes;
	ret_known->path = ts_stage_index_path(index, row);
	ret_known->row = at;
	return true;
}

bool ts_stage_name_find(const struct ts_stage_index *index, struct ts_hash128 hash,
	uint64_t after_ms, uint64_t seconds, struct ts_stage_known *ret_known)
{
	const struct ts_stage_name *name = find(index, hash);
	uint64_t word = name ? ts_load_acquire(&name->word) : 0; /* B1, pairs with N1 */

	if (word == 0 || word == FORBIDDEN)
		return false;
	/* The clock after the word: what is known is never of the future. */
	uint64_t asked = word >> TS_STAGE_ROW_BITS, now = ts_stage_now_ms();
	if (now < asked || now - asked >= seconds * 1000 || asked <= after_ms ||
		asked <= ts_load_relaxed(&index->head->forgotten))
		return false;
	return read_row(index, (word & ROW_MASK) * 8, ret_known);
}

/* ---- noting ----------------------------------------------------------------------------- */

/* Let @name lead to the row at @at as of @asked_ms, unless something later is known. */
static void lead(struct ts_stage_name *name, uint64_t asked_ms, uint64_t at)
{
	uint64_t was = ts_load_relaxed(&name->word), moment = ts_min_u64(asked_ms, MOMENT_MAX);
	uint64_t word = moment << TS_STAGE_ROW_BITS | at / 8;

	/* FORBIDDEN is later than every moment. */
	while (was >> TS_STAGE_ROW_BITS < moment)
		if (ts_cas(&name->word, &was, word)) /* N1 */
			return;
}

void ts_stage_name_note(
	struct ts_stage_index *index, struct ts_hash128 hash, uint64_t asked_ms, uint64_t inode)
{
	uint64_t at = ts_stage_index_row_of(index, inode);
	struct ts_stage_name *name =
		ts_stage_index_row_at(index, at) ? take(index, hash) : NULL;

	if (name)
		lead(name, asked_ms, at);
}

/* In what stat(2) tells; but for the time of the last use, of which nobody expects news. */
static bool are_same(
	const struct ts_stage_attributes *one, const struct ts_stage_attributes *other)
{
	return one->inode == other->inode && one->bytes == other->bytes &&
	       one->blocks == other->blocks && one->mode == other->mode &&
	       one->uid == other->uid && one->gid == other->gid && one->links == other->links &&
	       one->block_bytes == other->block_bytes &&
	       one->device_major == other->device_major &&
	       one->device_minor == other->device_minor &&
	       memcmp(&one->modified, &other->modified, sizeof(one->modified)) == 0 &&
	       memcmp(&one->changed, &other->changed, sizeof(one->changed)) == 0;
}

void ts_stage_name_note_attributes(struct ts_stage_index *index, struct ts_hash128 hash,
	uint64_t asked_ms, const struct ts_stage_attributes *attributes)
{
	struct ts_stage_name *name = take(index, hash);
	struct ts_stage_known known;

	if (!name)
		return;
	uint64_t word = ts_load_acquire(&name->word); /* B1 */
	int64_t at = (int64_t)((word & ROW_MASK) * 8);
	if (word == FORBIDDEN)
		return;
	/* A row is never given back, so what has not changed keeps its, and its copy. */
	if (word == 0 || !read_row(index, (uint64_t)at, &known) ||
		!are_same(&known.attributes, attributes))
		at = ts_stage_index_new_row(index, attributes, "");
	if (at > 0)
		lead(name, asked_ms, (uint64_t)at);
}

void ts_stage_name_forbid(struct ts_stage_index *index, struct ts_hash128 hash)
{
	struct ts_stage_name *name = take(index, hash);

	if (name)
		ts_write_release(&name->word, FORBIDDEN);
	else
		/* No room to say so of one: then of all. */
		ts_write_relaxed(&index->head->forgotten, UINT64_MAX);
}

bool ts_stage_name_is_forbidden(const struct ts_stage_index *index, struct ts_hash128 hash)
{
	const struct ts_stage_name *name = find(index, hash);

	return name && ts_load_acquire(&name->word) == FORBIDDEN;
}

struct ts_hash128 ts_stage_name_of_written(uint64_t device, uint64_t directory, uint64_t inode)
{
	const uint64_t text[] = {device, directory, TS_STAGE_NAME_WRITTEN, inode};

	return ts_hash128(text, sizeof(text));
}

void ts_stage_names_forget(struct ts_stage_index *index)
{
	uint64_t now = ts_stage_now_ms(), was = ts_load_relaxed(&index->head->forgotten);

	while (was < now && !ts_cas(&index->head->forgotten, &was, now))
		continue;
}
