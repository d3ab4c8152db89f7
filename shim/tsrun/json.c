/* SPDX-License-Identifier: MIT */
/* The JSON writer of tsrun (RFC 8259). */
#include "shim/tsrun/json.h"
#include "shim/utf8.h"

#include <assert.h>

static void write_string(FILE *out, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;

	putc('"', out);
	while (*s) {
		unsigned length = ts_utf8_length(s);
		if (length == 0) {
			fputs("\\ufffd", out);
			length = 1;
		} else if (*s == '"' || *s == '\\') {
			fprintf(out, "\\%c", *s);
		} else if (*s < 0x20 || *s == 0x7f) {
			fprintf(out, "\\u%04x", *s);
		} else {
			fwrite(s, 1, length, out);
		}
		s += length;
	}
	putc('"', out);
}

static void start_line(struct ts_json *json)
{
	if (!json->is_flat)
		fprintf(json->out, "\n%*s", (int)(2 * json->depth), "");
}

/* Comma, line and indentation in front of the next element, and its key. */
static void start_value(struct ts_json *json, const char *key)
{
	if (json->filled[json->depth])
		putc(',', json->out);
	json->filled[json->depth] = true;
	if (json->depth > 0)
		start_line(json);
	if (key) {
		write_string(json->out, key);
		fputs(json->is_flat ? ":" : ": ", json->out);
	}
}

void ts_json_open(struct ts_json *json, const char *key, char bracket)
{
	start_value(json, key);
	putc(bracket, json->out);
	assert(json->depth + 1 < TS_JSON_DEPTH);
	json->filled[++json->depth] = false;
}

void ts_json_close(struct ts_json *json, char bracket)
{
	assert(json->depth > 0);
	bool filled = json->filled[json->depth--];
	if (filled)
		start_line(json);
	putc(bracket, json->out);
	if (json->depth == 0)
		putc('\n', json->out);
}

void ts_json_string(struct ts_json *json, const char *key, const char *text)
{
	start_value(json, key);
	if (text)
		write_string(json->out, text);
	else
		fputs("null", json->out);
}

void ts_json_number(struct ts_json *json, const char *key, uint64_t value)
{
	start_value(json, key);
	fprintf(json->out, "%llu", (unsigned long long)value);
}

void ts_json_number_or_null(
	struct ts_json *json, const char *key, bool is_known, uint64_t value)
{
	if (is_known)
		ts_json_number(json, key, value);
	else
		ts_json_string(json, key, NULL);
}

void ts_json_seconds(struct ts_json *json, const char *key, uint64_t ns)
{
	start_value(json, key);
	fprintf(json->out, "%llu.%09llu", (unsigned long long)(ns / 1000000000u),
		(unsigned long long)(ns % 1000000000u));
}

void ts_json_bool(struct ts_json *json, const char *key, bool value)
{
	start_value(json, key);
	fputs(value ? "true" : "false", json->out);
}
