/* SPDX-License-Identifier: MIT */
/* What a job shared, in one block on stderr when it ends. */
#include "leader/group/summary.h"

#include "leader/group/store_private.h"
#include "shim/log.h"
#include "shim/scratch.h"
#include "shim/sys.h"

#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

#define BLOCK_BYTES 2048u
#define REASONS_MAX 5 /* lines about what was not shared */

bool ts_summary_has_group(const char *group)
{
	char path[TS_PATH_BYTES];
	struct stat found;
	return ts_object_path(path, sizeof(path), group, "ring") == 0 &&
	       ts_sys_stat(path, &found) == 0;
}

static struct ts_ledger *map_ledger(const char *group, int protection)
{
	struct ts_object object = {.fd = -1};
	if (ts_object_path(object.path, sizeof(object.path), group, "ledger") < 0 ||
		ts_object_open(&object) < 0)
		return NULL;
	void *map = MAP_FAILED;
	if (object.bytes == TS_LEDGER_BYTES)
		map = mmap(NULL, TS_LEDGER_BYTES, protection, MAP_SHARED,
			ts_load_relaxed(&object.fd), 0);
	ts_object_close(&object);
	if (map == MAP_FAILED)
		return NULL;
	if (ts_ledger_check(map) == 0)
		return map;
	ts_summary_unmap(map);
	return NULL;
}

struct ts_ledger *ts_summary_map(const char *group)
{
	return map_ledger(group, PROT_READ);
}

struct ts_ledger *ts_summary_map_to_count(const char *group)
{
	return map_ledger(group, PROT_READ | PROT_WRITE);
}

void ts_summary_unmap(struct ts_ledger *ledger)
{
	if (ledger)
		munmap(ledger, TS_LEDGER_BYTES);
}

bool ts_summary_has_job(const char *group, uint64_t id)
{
	struct ts_ledger *ledger = ts_summary_has_group(group) ? ts_summary_map(group) : NULL;
	bool found = ledger && ts_ledger_row_of(ledger, id);
	ts_summary_unmap(ledger);
	return found;
}

void ts_summary_end_job(const char *group, uint64_t id)
{
	struct ts_ledger *ledger = ts_summary_map_to_count(group);
	if (ledger)
		ts_ledger_end_job(ledger, id);
	ts_summary_unmap(ledger);
}

struct block {
	char text[BLOCK_BYTES];
	size_t length;
};

TS_PRINTF(2, 3)
static void line(struct block *block, const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	block->length += ts_format_v(block->text + block->length,
		sizeof(block->text) - block->length, format, arguments);
	va_end(arguments);
}

static void put_kind(struct block *block, const struct ts_tally *tally, uint32_t kind)
{
	const char *text = ts_kinds[kind].text;
	unsigned long long produced = ts_load_relaxed(&tally->produced);
	unsigned long long shared = ts_load_relaxed(&tally->shared);
	unsigned long long saved_ms = ts_load_relaxed(&tally->saved_ns) / 1000000;
	if (produced + shared == 0)
		return;
	if (kind == TS_KIND_BYTES) {
		line(block, "  %s: %llu copied here, %llu opened as copies (%llu %%)\n", text,
			produced, shared, shared * 100 / (produced + shared));
		return;
	}
	line(block, "  %s: %llu worked out here, %llu taken from the ring (%llu %%)\n", text,
		produced, shared, shared * 100 / (produced + shared));
	line(block, "  CPU time saved: %llu.%u%u s\n", saved_ms / 1000,
		(unsigned)(saved_ms / 100 % 10), (unsigned)(saved_ms / 10 % 10));
}

/* The most frequent reasons, largest first. */
static void put_reasons(struct block *block, struct ts_job_row *row)
{
	uint64_t below = UINT64_MAX;
	uint32_t last = 0;
	for (int n = 0; n < REASONS_MAX; n++) {
		uint32_t best = TS_REASON_COUNT;
		uint64_t count = 0;
		for (uint32_t i = 0; i < TS_REASON_COUNT; i++) {
			uint64_t c = ts_load_relaxed(&row->passed[i]);
			bool later = c < below || (c == below && i > last);
			if (c > count && later) {
				best = i;
				count = c;
			}
		}
		if (best == TS_REASON_COUNT)
			return;
		line(block, "  not shared %llu times: %s\n", (unsigned long long)count,
			ts_reasons[best].text);
		below = count;
		last = best;
	}
}

void ts_summary_print(struct ts_ledger *ledger, uint64_t id, struct ts_job_row *alone)
{
	struct block *block TS_SCRATCH = ts_scratch();
	struct ts_job_row *row = ledger ? ts_ledger_row_of(ledger, id) : NULL;
	if (!block)
		return;
	block->length = 0;
	line(block, "tsshim: what %s (%d) shared\n", program_invocation_short_name,
		(int)getpid());
	size_t title = block->length;
	if (!row)
		row = alone;
	for (uint32_t kind = 0; kind < TS_KIND_COUNT; kind++)
		put_kind(block, &row->kinds[kind], kind);
	put_reasons(block, row);
	if (block->length == title)
		line(block, "  nothing: no call of this job could be shared\n");
	(void)ts_sys_write(2, block->text, block->length);
}
