/* SPDX-License-Identifier: MIT */
/* What the files of an event log's file share. */
#ifndef TS_LEADER_EVENTS_LOG_PRIVATE_H
#define TS_LEADER_EVENTS_LOG_PRIVATE_H

#include "leader/events/log.h"

/** Name of the file that is to take the place of @log's. */
void ts_event_log_new_path(const struct ts_event_log *log, char ret_path[TS_EVENTS_PATH]);

#endif
