/* SPDX-License-Identifier: MIT */
/* Lines of an event log: what they escape, and where they end. */
#include "fixture.h"

#include <string.h>

TestSuite(event_line);

static char buffer[2 * TS_EVENTS_LINE];

static const char *string_line(const char *value)
{
	struct ts_event_text text = {.text = buffer, .room = sizeof(buffer)};

	ts_event_open(&text, 1234, "x");
	ts_event_string(&text, "s", value);
	ts_event_close(&text);
	buffer[text.length] = '\0';
	return buffer;
}

Test(event_line, strings_are_json)
{
	static const struct {
		const char *value, *line;
	} rows[] = {
		{"a b", "{\"t\":1.234,\"e\":\"x\",\"s\":\"a b\"}\n"},
		{"a\"b\\c", "{\"t\":1.234,\"e\":\"x\",\"s\":\"a\\\"b\\\\c\"}\n"},
		{"a\nb\x1b\x7f", "{\"t\":1.234,\"e\":\"x\",\"s\":\"a?b??\"}\n"},
		{"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80",
			"{\"t\":1.234,\"e\":\"x\",\"s\":"
			"\"\xc3\xa4\xe2\x82\xac\xf0\x9f\x98\x80\"}"
			"\n"},
		/* Bytes that begin nothing, sequences that are cut, overlong ones, surrogates.
		 */
		{"\xff\x80z", "{\"t\":1.234,\"e\":\"x\",\"s\":\"??z\"}\n"},
		{"\xc3", "{\"t\":1.234,\"e\":\"x\",\"s\":\"?\"}\n"},
		{"\xe2\x82z", "{\"t\":1.234,\"e\":\"x\",\"s\":\"??z\"}\n"},
		{"\xc0\xaf", "{\"t\":1.234,\"e\":\"x\",\"s\":\"??\"}\n"},
		{"\xe0\x80\xaf", "{\"t\":1.234,\"e\":\"x\",\"s\":\"???\"}\n"},
		{"\xed\xa0\x80", "{\"t\":1.234,\"e\":\"x\",\"s\":\"???\"}\n"},
		{"\xf4\x90\x80\x80", "{\"t\":1.234,\"e\":\"x\",\"s\":\"????\"}\n"},
		{NULL, "{\"t\":1.234,\"e\":\"x\",\"s\":null}\n"},
	};

	for (size_t i = 0; i < TS_ARRAY_SIZE(rows); i++)
		cr_expect(eq(str, (char *)string_line(rows[i].value), (char *)rows[i].line));
}

Test(event_line, numbers_are_as_exact_as_the_counters)
{
	struct ts_event_text text = {.text = buffer, .room = sizeof(buffer)};

	ts_event_open(&text, 1795852123005, NULL);
	ts_event_number(&text, "n", UINT64_MAX);
	ts_event_object(&text, "o");
	ts_event_seconds(&text, "s", 12000000034);
	ts_event_null(&text, "z");
	ts_event_object_end(&text);
	ts_event_true(&text, "b");
	ts_event_close(&text);
	buffer[text.length] = '\0';
	cr_expect(eq(str, buffer,
		(char *)"{\"tsshim_events\":1,\"t\":1795852123.005,"
			"\"n\":18446744073709551615,\"o\":{\"s\":12.000000034,\"z\":null},"
			"\"b\":true}\n"));
	cr_expect(fixture_is_line(buffer, text.length));
}

Test(event_line, a_line_that_is_too_long_is_none)
{
	static char value[TS_EVENTS_LINE];
	struct ts_event_text text = {.text = buffer, .room = sizeof(buffer)};

	ts_event_open(&text, 1, "kept");
	ts_event_close(&text);
	size_t length = text.length;
	memset(value, 'v', sizeof(value) - 1);
	ts_event_open(&text, 1, "long");
	ts_event_string(&text, "s", value);
	ts_event_close(&text);
	cr_expect(eq(sz, text.length, length));
}

Test(event_line, a_line_without_room_is_none)
{
	struct ts_event_text text = {.text = buffer, .room = 40};

	ts_event_open(&text, 1, "kept");
	ts_event_close(&text);
	size_t length = text.length;
	ts_event_open(&text, 1, "without room");
	ts_event_close(&text);
	cr_expect(eq(sz, text.length, length));
	cr_expect(fixture_is_line(buffer, length));
}

Test(event_line, a_job_is_its_pid_and_start)
{
	char name[TS_EVENT_JOB];

	ts_event_job(UINT64_C(1476897) << 24 | 29046, name);
	cr_expect(eq(str, name, (char *)"29046.1476897"));
}
