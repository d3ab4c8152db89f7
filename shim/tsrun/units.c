/* SPDX-License-Identifier: MIT */
/* How tsrun writes numbers and foreign texts for people. */
#include "shim/tsrun/units.h"

#include <stdio.h>

const char *ts_units_size(uint64_t bytes, char buffer[TS_UNITS_BYTES])
{
	static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
	uint64_t scale = 1;
	unsigned unit = 0;

	while (unit + 1 < TS_ARRAY_SIZE(units) && bytes / scale >= 1024) {
		scale *= 1024;
		unit++;
	}
	if (unit == 0)
		(void)snprintf(buffer, TS_UNITS_BYTES, "%llu bytes", (unsigned long long)bytes);
	else
		(void)snprintf(buffer, TS_UNITS_BYTES, "%llu.%llu %s",
			(unsigned long long)(bytes / scale),
			(unsigned long long)(bytes % scale * 10 / scale), units[unit]);
	return buffer;
}

const char *ts_units_grouped(uint64_t value, char buffer[TS_UNITS_BYTES])
{
	char digits[24];
	int length = snprintf(digits, sizeof(digits), "%llu", (unsigned long long)value);
	char *to = buffer;

	for (int i = 0; i < length; i++) {
		if (i > 0 && (length - i) % 3 == 0)
			*to++ = ' ';
		*to++ = digits[i];
	}
	*to = '\0';
	return buffer;
}

void ts_units_make_printable(char *text)
{
	for (; *text; text++)
		if (*text < ' ' || *text > '~')
			*text = '?';
}
