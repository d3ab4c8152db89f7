/* SPDX-License-Identifier: MIT */
/* A JSON writer: commas, escapes and nesting, nothing else. */
#ifndef TS_TSRUN_JSON_H
#define TS_TSRUN_JSON_H

#include "shim/base.h"

#include <stdio.h>

#define TS_JSON_DEPTH 16

/**
 * Where the next value goes.  Start with { .out = stream }; every value takes the key it
 * gets in the object around it, NULL inside an array and at the top.
 * Errors of the stream stay in ferror(); nothing here looks at them.
 */
struct ts_json {
	FILE *out;
	bool is_flat; /* all in one line, without blanks */
	unsigned depth;
	bool filled[TS_JSON_DEPTH]; /* the object or array at this depth has an element */
};

void ts_json_open(struct ts_json *json, const char *key, char bracket); /* '{' or '[' */
void ts_json_close(struct ts_json *json, char bracket);                 /* '}' or ']' */

/** @text need not be valid UTF-8: bytes that are not become U+FFFD.  NULL is written as null.
 */
void ts_json_string(struct ts_json *json, const char *key, const char *text);
void ts_json_number(struct ts_json *json, const char *key, uint64_t value);
/** null where the number @is_known not. */
void ts_json_number_or_null(
	struct ts_json *json, const char *key, bool is_known, uint64_t value);
/** @ns nanoseconds, printed as seconds with all digits, whatever the locale. */
void ts_json_seconds(struct ts_json *json, const char *key, uint64_t ns);
void ts_json_bool(struct ts_json *json, const char *key, bool value);

#endif
