/* SPDX-License-Identifier: MIT */
/* The ledger of a group: what of a job's data keeps its samples from being shared. */
#include "leader/group/ledger.h"
#include "shim/atomic.h"

#include <string.h>

enum { NOTHING, IN_WRITING, SAID };

void ts_refusal_clear(struct ts_refusal_row *row)
{
	ts_write_relaxed(&row->state, NOTHING);
}

void ts_ledger_refuse(struct ts_ledger *ledger, uint32_t job, const char *text)
{
	uint64_t words[TS_REFUSAL_WORDS] = {0}, nothing = NOTHING;

	if (job >= TS_JOB_MAX)
		return;
	struct ts_refusal_row *row = ts_ledger_refusal_row(ledger, job);
	if (!ts_cas(&row->state, &nothing, IN_WRITING))
		return;
	memcpy(words, text, strnlen(text, sizeof(words) - 1));
	for (uint32_t i = 0; i < TS_REFUSAL_WORDS; i++)
		ts_write_relaxed(&row->words[i], words[i]);
	/* Release: the text before the word that it is there.  Pairs with ts_ledger_refusal().
	 */
	ts_write_release(&row->state, SAID);
}

bool ts_ledger_refusal(struct ts_ledger *ledger, uint32_t job, char ret_text[TS_REFUSAL_BYTES])
{
	uint64_t words[TS_REFUSAL_WORDS];
	struct ts_refusal_row *row = ts_ledger_refusal_row(ledger, job);

	if (ts_load_acquire(&row->state) != SAID)
		return false;
	for (uint32_t i = 0; i < TS_REFUSAL_WORDS; i++)
		words[i] = ts_load_relaxed(&row->words[i]);
	memcpy(ret_text, words, sizeof(words));
	ret_text[TS_REFUSAL_BYTES - 1] = '\0';
	/* It goes to a terminal, and anybody of the group may have written it. */
	for (char *at = ret_text; *at; at++)
		if (*at < ' ' || *at > '~')
			*at = '?';
	return ret_text[0] != '\0';
}
