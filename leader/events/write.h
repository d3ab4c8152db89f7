/* SPDX-License-Identifier: MIT */
/* What a recorder writes: the jobs of a group, and what has changed since it looked last. */
#ifndef TS_LEADER_EVENTS_WRITE_H
#define TS_LEADER_EVENTS_WRITE_H

#include "leader/events/line.h"
#include "leader/events/log.h"
#include "leader/events/look.h"
#include "leader/events/nodes.h"
#include "leader/events/process.h"
#include "leader/group/recorder.h"

/** The numbers of a job, as they were written last. */
struct ts_event_counts {
	struct {
		uint64_t produced, shared, shared_bytes, saved_ns;
	} kinds[TS_KIND_COUNT];
	uint64_t cpu_ns;
};

struct ts_event_order {
	uint64_t identity; /* 0: none */
	uint64_t position, behind, order;
};

/** What a recorder knows of the job in one row. */
struct ts_event_row {
	uint64_t id; /* 0: none */
	bool told;   /* the log has its "job" line, */
	bool named;  /* with a data set */
	bool over;   /* the log has its end, or it is not to be told of */
	bool alive;  /* as of this look */
	struct ts_event_counts counts;
	uint64_t passed[TS_REASON_COUNT];
	struct ts_event_order order;
};

/** A recorder that writes.  Begin with all zero but the first fields. */
struct ts_event_writer {
	struct ts_ledger *ledger;
	struct ts_event_log *log;
	struct ts_scope scope;
	const char *group;
	/* How a job was started that may be over when it is told of; NULL: none such. */
	const struct ts_event_start *own;
	uint64_t own_id;
	/* Whether job @id lives, and what CPU time it and its waited-for children have used;
	 * for tests NULL is ts_event_process_look(). */
	bool (*look)(uint64_t id, uint64_t *ret_cpu_ns);
	struct ts_event_row rows[TS_JOB_MAX];
	struct ts_event_ring ring;
	uint64_t ring_capacity, ring_used; /* as written last */
	struct ts_event_nodes nodes, told; /* and of them what was written last */
	bool headed;                       /* the log has a head of ours */
	bool forgets;                      /* at the next look */
	struct ts_event_text text;
	char buffer[131072];
};

/**
 * Look at the group and write what has changed, as of @t_ms (milliseconds since the epoch).
 * What begins, and what follows ts_event_writer_forget(), begins with a head and tells of every
 * job anew.  Errors: those of ts_event_log_append() and ts_event_log_thin().
 */
int ts_event_writer_look(struct ts_event_writer *writer, uint64_t t_ms);

/** The log may lack what was written: tell it again. */
void ts_event_writer_forget(struct ts_event_writer *writer);

#endif
