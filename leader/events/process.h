/* SPDX-License-Identifier: MIT */
/* What /proc says of a job. */
#ifndef TS_LEADER_EVENTS_PROCESS_H
#define TS_LEADER_EVENTS_PROCESS_H

#include "leader/events/events.h"

/* Of "python train.py", with its NUL; the log has no more of it. */
#define TS_EVENT_PROGRAM 200

/** A process at one time. */
struct ts_event_process {
	uint64_t id;     /* ts_process_id(), a zombie's too; 0: it is gone */
	bool alive;      /* and no zombie, as ts_process_is_alive() has it */
	uint64_t cpu_ns; /* of it and of the children that it has waited for */
};

/** Look at @pid: some 15 us.  Without /proc nobody is there. */
void ts_event_process_look(int pid, struct ts_event_process *ret_process);

/** How the job @pid was started.  Threads: one at a time. */
struct ts_event_start {
	char program[TS_EVENT_PROGRAM]; /* empty: not known */
	bool has_settings;              /* its environment could be read */
	struct ts_config settings;
};

/**
 * Read how @pid was started: its program and the name of its script, but no other argument, as
 * these may hold secrets; and what is set in its environment.
 */
void ts_event_process_start(int pid, struct ts_event_start *ret_start);

/** When the process with this ts_process_id() began, in milliseconds since the epoch; 0: not
 * known.
 */
uint64_t ts_event_process_began(uint64_t id);

#endif
