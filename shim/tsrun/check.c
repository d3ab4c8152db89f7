/* SPDX-License-Identifier: MIT */
/* How the checks of `tsrun doctor` say what they found. */
#include "shim/tsrun/check.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Put a text behind the one in @buffer, with "; " between. */
TS_PRINTF(3, 0)
static void append(char *buffer, size_t bytes, const char *format, va_list arguments)
{
	size_t at = strlen(buffer);

	if (at > 0 && at + 2 < bytes) {
		memcpy(buffer + at, "; ", 3);
		at += 2;
	}
	(void)vsnprintf(buffer + at, bytes - at, format, arguments);
}

void ts_check_find(struct ts_check *check, enum ts_check_state state, const char *format, ...)
{
	va_list arguments;

	if (state > check->state)
		check->state = state;
	va_start(arguments, format);
	append(check->found, sizeof(check->found), format, arguments);
	va_end(arguments);
}

void ts_check_advise(struct ts_check *check, const char *format, ...)
{
	va_list arguments;

	va_start(arguments, format);
	append(check->fix, sizeof(check->fix), format, arguments);
	va_end(arguments);
}

const char *ts_check_word(enum ts_check_state state)
{
	static const char *const words[] = {
#define TS_X(name, word) word,
		TS_CHECK_STATES(TS_X)
#undef TS_X
	};
	return words[state];
}
