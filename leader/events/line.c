/* SPDX-License-Identifier: MIT */
/* Lines of an event log, put together in a buffer. */
#include "leader/events/line.h"

#include "shim/identity.h"
#include "shim/utf8.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define NS_PER_S UINT64_C(1000000000)

TS_PRINTF(2, 3)
static void put(struct ts_event_text *text, const char *format, ...)
{
	size_t room = text->room - text->length;
	va_list arguments;

	va_start(arguments, format);
	int length =
		text->full ? 0 : vsnprintf(text->text + text->length, room, format, arguments);
	va_end(arguments);
	if (length < 0 || (size_t)length >= room)
		text->full = true;
	else
		text->length += (size_t)length;
}

static void put_key(struct ts_event_text *text, const char *key)
{
	put(text, "%s\"%s\":", text->first ? "" : ",", key);
	text->first = false;
}

void ts_event_open(struct ts_event_text *text, uint64_t t_ms, const char *event)
{
	text->begin = text->length;
	text->first = true;
	text->full = false;
	put(text, "{");
	if (!event)
		ts_event_number(text, "tsshim_events", TS_EVENTS_FORMAT);
	put_key(text, "t");
	put(text, "%llu.%03u", (unsigned long long)(t_ms / 1000), (unsigned)(t_ms % 1000));
	if (event)
		ts_event_string(text, "e", event);
}

void ts_event_close(struct ts_event_text *text)
{
	put(text, "}\n");
	if (text->full || text->length - text->begin > TS_EVENTS_LINE)
		text->length = text->begin;
}

void ts_event_number(struct ts_event_text *text, const char *key, uint64_t value)
{
	put_key(text, key);
	put(text, "%llu", (unsigned long long)value);
}

void ts_event_decimal(
	struct ts_event_text *text, const char *key, uint64_t whole, uint64_t billionths)
{
	put_key(text, key);
	put(text, "%llu.%09llu", (unsigned long long)whole, (unsigned long long)billionths);
}

void ts_event_seconds(struct ts_event_text *text, const char *key, uint64_t ns)
{
	ts_event_decimal(text, key, ns / NS_PER_S, ns % NS_PER_S);
}

void ts_event_null(struct ts_event_text *text, const char *key)
{
	put_key(text, key);
	put(text, "null");
}

void ts_event_true(struct ts_event_text *text, const char *key)
{
	put_key(text, key);
	put(text, "true");
}

void ts_event_string(struct ts_event_text *text, const char *key, const char *value)
{
	if (!value) {
		ts_event_null(text, key);
		return;
	}
	put_key(text, key);
	put(text, "\"");
	for (const unsigned char *s = (const unsigned char *)value; *s;) {
		unsigned length = ts_utf8_length(s);
		if (length == 0 || *s < ' ' || *s == 0x7f)
			put(text, "?");
		else if (*s == '"' || *s == '\\')
			put(text, "\\%c", *s);
		else
			put(text, "%.*s", (int)length, (const char *)s);
		s += length ? length : 1;
	}
	put(text, "\"");
}

void ts_event_object(struct ts_event_text *text, const char *key)
{
	put_key(text, key);
	put(text, "{");
	text->first = true;
}

void ts_event_object_end(struct ts_event_text *text)
{
	put(text, "}");
	text->first = false;
}

void ts_event_job(uint64_t id, char ret_name[TS_EVENT_JOB])
{
	(void)snprintf(ret_name, TS_EVENT_JOB, "%d.%llu", (int)TS_PROCESS_PID(id),
		(unsigned long long)(id >> 24));
}
