/* SPDX-License-Identifier: MIT */
/* What a report prints: tests/unit/tsrun/printed.h. */
#include "printed.h"

#include <criterion/criterion.h>
#include <stdlib.h>

const char *printed(char **text, const struct ts_report *report,
	void (*how)(const struct ts_report *report, FILE *out))
{
	size_t length;

	free(*text);
	FILE *out = open_memstream(text, &length);
	cr_assert_not_null(out);
	how(report, out);
	cr_assert_eq(fclose(out), 0);
	return *text;
}
