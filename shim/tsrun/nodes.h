/* SPDX-License-Identifier: MIT */
/*
 * What the helper for other nodes tells of each (leader/mail/mail.h), as tsrun has copied it:
 * names that are cut and end, counts that are bounded, errors in words.
 */
#ifndef TS_TSRUN_NODES_H
#define TS_TSRUN_NODES_H

#include "leader/mail/mail.h"

/*
 * What is counted of all nodes together: a member of struct ts_mail_table, and its id.
 *
 *	 member    meaning
 */
#define TS_NODE_TOTALS(X)                                 \
	X(posted, "Requests of jobs, for all nodes.")     \
	X(unposted, "Those for which there was no slot.") \
	X(left, "Those that a job did not wait for to the end.")

/*
 * What is counted of samples between nodes (--across nodes), and of decoded pictures that are
 *no part of one: struct ts_mail_flow.
 *
 *	 member    printed as  in JSON  for Prometheus  meaning
 */
#define TS_NODE_FLOW(X)                                                                    \
	X(asked, number, "asked", "asked_total", "Those that other nodes were asked for.") \
	X(got, number, "got", "got_total", "Of these: that came.")                         \
	X(won, number, "won", "won_total", "Of these: that were ours to make.")            \
	X(alone, number, "alone", "alone_total",                                           \
		"Of these: that were made here all the same.")                             \
	X(stored, number, "stored", "stored_total", "Those that were handed over.")        \
	X(took_ns, seconds, "took_seconds", "took_seconds_total",                          \
		"How long it took to get those that came.")                                \
	X(made_ns, seconds, "made_seconds", "made_seconds_total",                          \
		"How long it had taken to make them.")                                     \
	X(times_off, number, "times_off", "times_off_total",                               \
		"Times that nobody asked for a while, as getting them took longer.")       \
	X(tried, number, "tried", "tried_total",                                           \
		"Of those asked for: while no node fetched ours.")

/*
 * What is counted of both together, and of notes: struct ts_mail_use, as above.
 */
#define TS_NODE_USE(X)                                                                      \
	X(looked, number, "looked", "looked_total",                                         \
		"Of those handed over, pictures as well: how many were looked at.")         \
	X(unused, number, "unused", "unused_total", "Of these: which no node had fetched.") \
	X(times_unused, number, "times_unused", "times_unused_total",                       \
		"Times that nobody asked for a while, as no node fetched them.")            \
	X(notes_told, number, "notes_told", "notes_told_total",                             \
		"Notes of samples that other nodes were told of, for free order.")          \
	X(notes_heard, number, "notes_heard", "notes_heard_total",                          \
		"Notes of samples that other nodes have told of.")

/** What the counters of a node are called, and mean: enum ts_mail_counter. */
extern const struct ts_node_counter {
	const char *id, *text;
} ts_node_counters[TS_MAIL_COUNTER_COUNT];

/** Whether it counts values that did not come, or were not kept there. */
bool ts_nodes_is_failure(enum ts_mail_counter counter);

/** One node. */
struct ts_node {
	char name[TS_MAIL_PEER_NAME + 1]; /* any bytes; who prints it escapes them */
	uint64_t state;                   /* may be none of enum ts_mail_peer_state */
	uint64_t error; /* why it failed last: a positive errno; 0: it has not */
	uint64_t counters[TS_MAIL_COUNTER_COUNT];
};

/** Rows of @table that may be read, whatever it says. */
uint32_t ts_nodes_count(struct ts_mail_table *table);

/** Row @index; false where it has no name. */
bool ts_nodes_read(struct ts_mail_table *table, uint32_t index, struct ts_node *ret_node);

/** The process that asks the nodes, or 0 where none lives. */
int ts_nodes_helper(struct ts_mail_table *table);

/** For how long from now on nobody asks for these, as getting them took longer, in nanoseconds.
 */
uint64_t ts_nodes_flow_off(struct ts_mail_flow *flow);

/** Likewise for any, as no node fetched them. */
uint64_t ts_nodes_unused(struct ts_mail_table *table);

/** What these two are called, and mean. */
#define TS_NODE_FLOW_OFF "off_seconds"
#define TS_NODE_FLOW_OFF_TEXT \
	"For so long nobody asks, from now on, as getting them took longer."
#define TS_NODE_UNUSED      "unused_seconds"
#define TS_NODE_UNUSED_TEXT "For so long nobody asks, from now on, as no node fetched them."

/** Of all rows together. */
uint64_t ts_nodes_sum(struct ts_mail_table *table, enum ts_mail_counter counter);

/** Word and text of a state; "unknown" of what is none. */
const char *ts_nodes_state_word(uint64_t state);
const char *ts_nodes_state_text(uint64_t state);

/** Why a node failed, for people; NULL where it has not. */
const char *ts_nodes_explain(uint64_t error);

/** Why there is no helper though jobs have asked for one, for people; NULL: nothing is known.
 */
const char *ts_nodes_explain_helper(uint64_t error);

#endif
