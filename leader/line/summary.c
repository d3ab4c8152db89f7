/* SPDX-License-Identifier: MIT */
/* What a job shared, in one block on stderr when it ends. */
#include "leader/line/line.h"

#include "shim/atomic.h"
#include "shim/log.h"
#include "shim/scratch.h"
#include "shim/sys.h"

#include <stdarg.h>
#include <unistd.h>

#define BLOCK_BYTES 2048u
#define REASONS_MAX 5 /* lines about what was not shared */

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
