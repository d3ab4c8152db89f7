/* SPDX-License-Identifier: MIT */
/* Lines of an event log, put together in a buffer; docs/rooms/events.md says what they mean. */
#ifndef TS_LEADER_EVENTS_LINE_H
#define TS_LEADER_EVENTS_LINE_H

#include "leader/events/events.h"

/** Lines to be written; begin with all zero.  One that does not fit is left out as a whole. */
struct ts_event_text {
	char *text;
	size_t room, length; /* @length: of whole lines, and of the one that is being made */
	size_t begin;        /* of the line that is being made */
	bool first, full;    /* of that line: nothing is in the object yet; it does not fit */
};

/** Begin a line with its time in milliseconds since the epoch, and what it is (NULL: a head).
 */
void ts_event_open(struct ts_event_text *text, uint64_t t_ms, const char *event);

/** End it. */
void ts_event_close(struct ts_event_text *text);

/** Add a member to the line that is being made. */
void ts_event_number(struct ts_event_text *text, const char *key, uint64_t value);
void ts_event_decimal(
	struct ts_event_text *text, const char *key, uint64_t whole, uint64_t billionths);
void ts_event_seconds(struct ts_event_text *text, const char *key, uint64_t ns);
void ts_event_null(struct ts_event_text *text, const char *key);
void ts_event_true(struct ts_event_text *text, const char *key);

/** @value up to a NUL, or NULL for null.  What is no UTF-8, and controls, become '?'. */
void ts_event_string(struct ts_event_text *text, const char *key, const char *value);

/** Begin and end an object in that line. */
void ts_event_object(struct ts_event_text *text, const char *key);
void ts_event_object_end(struct ts_event_text *text);

/** "PID.START" of a ts_process_id(). */
#define TS_EVENT_JOB 32
void ts_event_job(uint64_t id, char ret_name[TS_EVENT_JOB]);

#endif
