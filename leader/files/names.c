/* SPDX-License-Identifier: MIT */
/* What a group knows of paths, for a time: the table of leader/files/names.h. */
#include "leader/files/names.h"

#include "leader/files/index_private.h"
#include "shim/identity.h"

#include <string.h>
#include <time.h>

/* Names looked at for one hash; the table is never fuller than three quarters. */
#define PROBES 64u

#define ROW_MASK   ((UINT64_C(1) << TS_STAGE_ROW_BITS) - 1)
#define MOMENT_MAX ((UINT64_C(1) << (64 - TS_STAGE_ROW_BITS)) - 2)

/* Moments before the machine began are numbers as well: an answer may be older than its uptime.
 */
#define BEGAN_MS (UINT64_C(86400) * 1000)

static_assert(
	TS_STAGE_CHUNK * TS_STAGE_CHUNK_WORDS * 64 / 8 <= ROW_MASK + 1, "rows have numbers");

uint64_t ts_stage_now_ms(void)
{
	struct timespec now;

	if (clock_gettime(CLOCK_BOOTTIME, &now) < 0)
		return 0;
	return BEGAN_MS + (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
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

bool ts_stage_names_still_hold(
	const struct ts_stage_index *index, uint64_t asked_ms, uint64_t seconds)
{
	/* The caller has the moment before the clock is read: it is never of the future. */
	uint64_t now = ts_stage_now_ms();

	return now >= asked_ms && now - asked_ms < seconds * 1000 &&
	       asked_ms > ts_load_relaxed(&index->head->forgotten);
}

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
	uint64_t seconds, struct ts_stage_known *ret_known)
{
	const struct ts_stage_name *name = find(index, hash);
	uint64_t word = name ? ts_load_acquire(&name->word) : 0; /* B1, pairs with N1 */

	if (word == 0 || !ts_stage_names_still_hold(index, word >> TS_STAGE_ROW_BITS, seconds))
		return false;
	return read_row(index, (word & ROW_MASK) * 8, ret_known);
}

/* ---- noting ----------------------------------------------------------------------------- */

/* Let @name lead to the row at @at as of @asked_ms, unless something later is known. */
static void lead(struct ts_stage_name *name, uint64_t asked_ms, uint64_t at)
{
	uint64_t was = ts_load_relaxed(&name->word), moment = ts_min_u64(asked_ms, MOMENT_MAX);
	uint64_t word = moment << TS_STAGE_ROW_BITS | at / 8;

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
	/* A row is never given back, so what has not changed keeps its, and its copy. */
	if (word == 0 || !read_row(index, (uint64_t)at, &known) ||
		!are_same(&known.attributes, attributes))
		at = ts_stage_index_new_row(index, attributes, "");
	if (at > 0)
		lead(name, asked_ms, (uint64_t)at);
}

/* ---- jobs that change what is there ----------------------------------------------------- */

static void forget(struct ts_stage_index *index, uint64_t moment)
{
	uint64_t was = ts_load_relaxed(&index->head->forgotten);

	while (was < moment && !ts_cas(&index->head->forgotten, &was, moment))
		continue;
}

/* Whether @job has @place now: it had it, or nobody alive has. */
static bool take_place(_Atomic uint64_t *place, uint64_t job)
{
	uint64_t was = ts_load_relaxed(place);

	if (was != 0 && was != job && ts_process_is_alive(was))
		return false;
	return was == job || ts_cas(place, &was, job) || was == job;
}

void ts_stage_names_leave(struct ts_stage_index *index, uint64_t job)
{
	bool noted = false;

	for (uint32_t i = 0; job != 0 && !noted && i < TS_STAGE_LEFT; i++)
		noted = take_place(&index->head->left[i], job);
	/* Where there is no room to say so of one job, all of them do without. */
	forget(index, noted ? ts_stage_now_ms() : UINT64_MAX);
}

bool ts_stage_names_were_left(const struct ts_stage_index *index, uint64_t job)
{
	for (uint32_t i = 0; i < TS_STAGE_LEFT; i++)
		if (ts_load_relaxed(&index->head->left[i]) == job)
			return true;
	return false;
}
