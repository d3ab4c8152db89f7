/* SPDX-License-Identifier: MIT */
/* The tables of words: whoever looks for one finds its own row, and no other. */
#include "fixture.h"

#include "leader/group/kinds.h"
#include "shim/config.h"
#include "shim/reasons.h"

#include <string.h>

TestSuite(tables);

Test(tables, each_reason_is_found_by_its_id)
{
	for (int i = 0; i < TS_REASON_COUNT; i++)
		cr_expect(eq(int, (int)ts_reason_find(ts_reasons[i].id), i), "%s",
			ts_reasons[i].id);
	cr_expect(eq(str, (char *)ts_reasons[TS_REASON_ALONE].id, (char *)"alone"));
	cr_expect(eq(str, (char *)ts_reasons[TS_REASON_TORCH_AGAIN].id, (char *)"torch_again"));
}

Test(tables, what_is_no_reason_is_not_found)
{
	static const char *const none[] = {"", "alon", "alone ", "ALONE", "torch_"};

	for (size_t i = 0; i < TS_ARRAY_SIZE(none); i++)
		cr_expect(
			eq(int, (int)ts_reason_find(none[i]), TS_REASON_COUNT), "%s", none[i]);
}

Test(tables, each_kind_has_its_row)
{
	cr_expect(eq(str, (char *)ts_kinds[TS_KIND_PIXELS].id, (char *)"pixels"));
	cr_expect(eq(str, (char *)ts_kinds[TS_KIND_DEVICE].text, (char *)"copies to a GPU"));
}

Test(tables, an_order_that_is_none_has_no_word)
{
	cr_expect(eq(str, (char *)ts_order_word(TS_ORDER_STRICT), (char *)"strict"));
	cr_expect(eq(str, (char *)ts_order_word(TS_ORDER_FREE), (char *)"free"));
	cr_expect(ts_order_word(TS_ORDER_FREE + 1) == NULL, "the list's end");
	cr_expect(ts_order_word(TS_ORDER_FREE + 2) == NULL);
	cr_expect(ts_order_word(UINT64_MAX) == NULL);
}
