/* SPDX-License-Identifier: MIT */
/* The JSON writer: nesting, escapes, numbers. */
#include "shim/tsrun/json.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

static char *text;
static size_t length;

static struct ts_json start(void)
{
	return (struct ts_json){.out = open_memstream(&text, &length)};
}

/* What was written without blanks and line ends outside of strings that hold none. */
static const char *finish(struct ts_json *json)
{
	fclose(json->out);
	char *to = text;
	for (const char *from = text; *from; from++)
		if (*from != ' ' && *from != '\n')
			*to++ = *from;
	*to = '\0';
	return text;
}

Test(json, commas_and_nesting)
{
	struct ts_json json = start();
	ts_json_open(&json, NULL, '{');
	ts_json_number(&json, "a", 1);
	ts_json_open(&json, "b", '[');
	ts_json_string(&json, NULL, NULL);
	ts_json_bool(&json, NULL, true);
	ts_json_open(&json, NULL, '{');
	ts_json_close(&json, '}');
	ts_json_close(&json, ']');
	ts_json_bool(&json, "c", false);
	ts_json_close(&json, '}');
	cr_assert_str_eq(finish(&json), "{\"a\":1,\"b\":[null,true,{}],\"c\":false}");
	free(text);
}

Test(json, numbers_keep_all_digits)
{
	struct ts_json json = start();
	ts_json_open(&json, NULL, '[');
	ts_json_number(&json, NULL, UINT64_MAX);
	ts_json_seconds(&json, NULL, 0);
	ts_json_seconds(&json, NULL, 1);
	ts_json_seconds(&json, NULL, 12345678901234567890u);
	ts_json_close(&json, ']');
	cr_assert_str_eq(finish(&json),
		"[18446744073709551615,0.000000000,0.000000001,12345678901.234567890]");
	free(text);
}

static const struct {
	const char *in, *out;
} strings[] = {
	{"", "\"\""}, {"plain", "\"plain\""}, {"q\"b\\", "\"q\\\"b\\\\\""},
	{"\n\t\x01\x7f", "\"\\u000a\\u0009\\u0001\\u007f\""},
	{"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", "\"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\""},
	{"a\xff"
	 "b",
		"\"a\\ufffdb\""},
	{"\xc0\xaf", "\"\\ufffd\\ufffd\""},            /* overlong */
	{"\xed\xa0\x80", "\"\\ufffd\\ufffd\\ufffd\""}, /* surrogate */
	{"\xf4\x90\x80\x80", "\"\\ufffd\\ufffd\\ufffd\\ufffd\""},
	{"\xe2\x82", "\"\\ufffd\\ufffd\""}, /* cut off */
};

Test(json, strings_are_valid_utf8)
{
	for (size_t i = 0; i < sizeof(strings) / sizeof(strings[0]); i++) {
		struct ts_json json = start();
		ts_json_string(&json, NULL, strings[i].in);
		cr_expect_str_eq(finish(&json), strings[i].out, "case %zu", i);
		free(text);
	}
}
