/* SPDX-License-Identifier: MIT */
/* Garbage in the ledger (each 12 bytes: offset 2, padding 2, value 8), then all its functions.
 */
#include "fuzz.h"

#include "leader/group/ledger.h"

#include <string.h>

static void check(struct ts_ledger *ledger, const char *name)
{
	bool alive;
	int dataset = ts_ledger_find_dataset(ledger, name);
	int job = ts_ledger_find_job(ledger, UINT64_C(0x300000000003));

	FUZZ_CHECK(dataset == -ENOSPC || (dataset >= 0 && dataset < (int)TS_DATASET_MAX));
	FUZZ_CHECK(job == -ENOSPC || (job >= 0 && job < (int)TS_JOB_MAX));
	if (dataset >= 0 && job >= 0)
		ts_ledger_note(ledger, (uint32_t)job, (uint32_t)dataset);
	for (uint32_t row = 0; row < TS_DATASET_MAX; row++) {
		int leader = ts_ledger_leader(ledger, row, &alive);
		FUZZ_CHECK(leader == -ENOENT || (leader >= 0 && leader < (int)TS_JOB_MAX));
	}
	(void)ts_ledger_has_live_job(ledger, 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	/* Of exact size, so that the sanitizers see a row too many. */
	struct ts_ledger *ledger = aligned_alloc(64, TS_LEDGER_BYTES);

	FUZZ_CHECK(ledger != NULL);
	memset(ledger, size && data[0] & 1 ? 0xff : 0, TS_LEDGER_BYTES);
	for (; size >= 12; data += 12, size -= 12) {
		uint32_t at = (uint32_t)data[0] << 8 | data[1];
		memcpy((char *)ledger + at / 8 * 8, data + 4, 8);
	}
	check(ledger, "default");
	check(ledger, "another");
	free(ledger);
	return 0;
}
