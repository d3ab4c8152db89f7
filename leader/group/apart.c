/* SPDX-License-Identifier: MIT */
/* Which jobs ran side by side over data sets that look alike, and are named apart. */
#include "leader/group/apart.h"

#include "shim/atomic.h"
#include "shim/identity.h"
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

bool ts_apart_look_alike(const struct ts_loader *a, const struct ts_loader *b)
{
	return strcmp(a->name, b->name) == 0 && strcmp(a->place, b->place) == 0 &&
	       a->numbers[TS_LOADER_LENGTH] == b->numbers[TS_LOADER_LENGTH];
}

/*
 * The parts by which @mine differs from the loaders of the job in row @other that look alike;
 * 0: there are none, or one has the same name.
 */
static uint32_t differ(struct ts_ledger *ledger, struct ts_loaders *loaders,
	const struct ts_loader *mine, uint32_t other)
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
		if (parts == 0 && ts_apart_look_alike(mine, its))
			parts = ts_apart_parts(named, its->numbers[TS_LOADER_NAMED]);
	}
	return parts;
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

static void compare(struct ts_ledger *ledger, struct ts_loaders *loaders, uint32_t job,
	const struct ts_loader *mine, struct ts_apart *apart)
{
	for (uint32_t other = 0; other < TS_JOB_MAX; other++) {
		uint64_t id = ts_load_relaxed(&ts_ledger_job(ledger, other)->id);
		if (other == job || id == 0)
			continue;
		uint32_t parts = differ(ledger, loaders, mine, other);
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
			compare(ledger, loaders, job, mine, ret_apart);
}
