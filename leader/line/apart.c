/* SPDX-License-Identifier: MIT */
/* Which jobs ran side by side over data sets that look alike, and are named apart. */
#include "leader/line/line.h"

#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/log.h"
#include "shim/scratch.h"

#include <string.h>

const struct ts_apart_text ts_apart_texts[TS_APART_PART_COUNT] = {
#define TS_X(name, id, shift, bits, text, fix) {id, text, fix},
	TS_APART_PARTS(TS_X)
#undef TS_X
};

uint32_t ts_apart_parts(uint64_t a, uint64_t b)
{
	uint64_t differ = a ^ b;
	uint32_t parts = 0;

#define TS_X(name, id, shift, bits, text, fix)                 \
	if (differ >> (shift) & ((UINT64_C(1) << (bits)) - 1)) \
		parts |= 1u << TS_APART_##name;
	TS_APART_PARTS(TS_X)
#undef TS_X
	/* Under --align fewer options count. */
	return parts & 1u << TS_APART_SEED ? parts & ~(1u << TS_APART_OPTIONS) : parts;
}

/* Whether two loaders look alike: the class of the data set, and its length. */
static bool look_alike(const struct ts_loader *a, const struct ts_loader *b)
{
	return strcmp(a->name, b->name) == 0 &&
	       a->numbers[TS_LOADER_LENGTH] == b->numbers[TS_LOADER_LENGTH];
}

/*
 * The parts by which @mine differs from the loaders of the job in row @other that look alike,
 * of which the first has place *ret_index; 0: there are none, or one has the same name.
 */
static uint32_t differ(struct ts_ledger *ledger, struct ts_loaders *loaders,
	const struct ts_loader *mine, uint32_t other, uint32_t *ret_index)
{
	uint64_t id = ts_load_relaxed(&ts_ledger_job(ledger, other)->id);
	uint64_t named = mine->numbers[TS_LOADER_NAMED];
	struct ts_loader *its TS_SCRATCH = ts_scratch();
	uint32_t parts = 0;

	for (uint32_t i = 0; its && i < TS_LOADER_MAX; i++) {
		if (!ts_loaders_read(loaders, other, id, i, its) ||
			its->numbers[TS_LOADER_NAMED] == 0)
			continue;
		if (its->numbers[TS_LOADER_NAMED] == named)
			return 0;
		if (parts == 0 && look_alike(mine, its)) {
			parts = ts_apart_parts(named, its->numbers[TS_LOADER_NAMED]);
			*ret_index = i;
		}
	}
	return parts;
}

/* ---- what differs -------------------------------------------------------------------------
 */

#define SHOWN 3u /* names of what differs */

/* A place of the table: the loader at @index of job @id in row @job. */
struct place {
	struct ts_loaders *loaders;
	uint64_t id;
	uint32_t job, index;
};

static bool read_part(
	const struct place *place, uint32_t number, struct ts_loader_part *ret_part)
{
	return ts_loaders_read_part(
		place->loaders, place->job, place->id, place->index, number, ret_part);
}

/* The part of @place that has the same path as @wanted; false: there is none. */
static bool find_part(const struct place *place, const struct ts_loader_part *wanted,
	struct ts_loader_part *ret_part)
{
	for (uint32_t i = 0; read_part(place, i, ret_part); i++)
		if (ret_part->path == wanted->path)
			return true;
	return false;
}

/* The field number @number of @part's text, *ret_length bytes; "" where there is none. */
static const char *field(const struct ts_loader_part *part, uint32_t number, size_t *ret_length)
{
	const char *from = part->text;

	for (; number > 0 && from; number--) {
		from = strchr(from, '\t');
		from = from ? from + 1 : NULL;
	}
	*ret_length = from ? strcspn(from, "\t") : 0;
	return from ? from : "";
}

/* Append @length bytes @from to what is told, as far as there is room. */
static void append(struct ts_apart *apart, const char *from, size_t length)
{
	size_t at = strlen(apart->what), room = TS_APART_WHAT - 1 - at;

	if (length > room)
		length = room;
	memcpy(apart->what + at, from, length);
	apart->what[at + length] = '\0';
}

static void append_text(struct ts_apart *apart, const char *text)
{
	append(apart, text, strlen(text));
}

static void append_field(
	struct ts_apart *apart, const struct ts_loader_part *part, uint32_t number)
{
	size_t length;
	const char *text = field(part, number, &length);

	append(apart, text, length);
}

/* "opt.lr (0.1, 0.3; used by read)", as far as that is known. */
static void append_part(struct ts_apart *apart, const struct ts_loader_part *mine,
	const struct ts_loader_part *its)
{
	size_t reader;

	append_field(apart, mine, 0);
	if (!its || !strchr(mine->text, '\t') || !strchr(its->text, '\t'))
		return;
	append_text(apart, " (");
	append_field(apart, mine, 1);
	append_text(apart, ", ");
	append_field(apart, its, 1);
	(void)field(mine, 2, &reader);
	append_text(apart, reader > 0 ? "; used by " : "");
	append_field(apart, mine, 2);
	append_text(apart, ")");
}

/* Nobody else's bytes go to a terminal as they are. */
static void make_printable(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}

/* Which parts of @mine @its has otherwise, or has not. */
static void tell_what(struct ts_apart *apart, const struct place *mine, const struct place *its)
{
	struct ts_loader_part part, other;
	uint32_t found = 0;

	for (uint32_t i = 0; read_part(mine, i, &part); i++) {
		bool is_there = find_part(its, &part, &other);
		if (is_there && other.sum == part.sum)
			continue;
		if (found++ >= SHOWN)
			continue;
		append_text(apart, found > 1 ? ", " : "");
		append_part(apart, &part, is_there ? &other : NULL);
	}
	char more[32] = "";
	if (found > SHOWN)
		(void)ts_format(more, sizeof(more), " and %u more", found - SHOWN);
	append_text(apart, more);
	make_printable(apart->what);
}

/* The last of it is what the user wrote: the class, without its module. */
static void copy_name(const char *from, char ret_name[TS_APART_NAME])
{
	const char *dot = strrchr(from, '.');
	size_t length = 0;

	for (from = dot ? dot + 1 : from; *from && length < TS_APART_NAME - 1; from++)
		ret_name[length++] = *from < ' ' || *from > '~' ? '?' : *from;
	ret_name[length] = '\0';
}

/* @mine was read from @place. */
static void compare(struct ts_ledger *ledger, const struct place *place,
	const struct ts_loader *mine, struct ts_apart *apart)
{
	struct ts_loaders *loaders = place->loaders;
	uint32_t job = place->job;

	for (uint32_t other = 0; other < TS_JOB_MAX; other++) {
		uint64_t id = ts_load_relaxed(&ts_ledger_job(ledger, other)->id);
		if (other == job || id == 0)
			continue;
		uint32_t index = 0, parts = differ(ledger, loaders, mine, other, &index);
		uint64_t beside = parts ? ts_ledger_beside_ns(ledger, job, other) : 0;
		if (beside <= apart->beside_ns)
			continue;
		*apart = (struct ts_apart){.found = true,
			.mine = (int)TS_PROCESS_PID(
				ts_load_relaxed(&ts_ledger_job(ledger, job)->id)),
			.other = (int)TS_PROCESS_PID(id),
			.beside_ns = beside,
			.parts = parts};
		copy_name(mine->name, apart->name);
		if (parts & (1u << TS_APART_DATA | 1u << TS_APART_OPTIONS))
			tell_what(apart, place, &(struct place){loaders, id, other, index});
	}
}

void ts_apart_find(struct ts_ledger *ledger, struct ts_loaders *loaders, uint32_t job,
	struct ts_apart *ret_apart)
{
	struct ts_loader *mine TS_SCRATCH = ts_scratch();

	static_assert(sizeof(*mine) <= TS_SCRATCH_BYTES, "it lies in a block");

	*ret_apart = (struct ts_apart){.found = false};
	if (!mine || job >= TS_JOB_MAX)
		return;
	uint64_t id = ts_load_relaxed(&ts_ledger_job(ledger, job)->id);
	for (uint32_t i = 0; i < TS_LOADER_MAX && !ret_apart->found; i++)
		if (ts_loaders_read(loaders, job, id, i, mine) &&
			mine->numbers[TS_LOADER_NAMED] != 0)
			compare(ledger, &(struct place){loaders, id, job, i}, mine, ret_apart);
}
