/* SPDX-License-Identifier: MIT */
/*
 * What is known of other nodes: tsrun's copy of the table that the helper writes
 * (leader/mail/mail.h).  These functions bound its rows, end its names, and put its errors into
 * words.  shim/tsrun/metrics.h says what the counters mean.
 */
#ifndef TS_TSRUN_NODES_H
#define TS_TSRUN_NODES_H

#include "leader/mail/mail.h"

/** One node. */
struct ts_node {
	char name[TS_MAIL_PEER_NAME + 1]; /* any bytes; who prints it escapes them */
	uint64_t state;                   /* may be none of enum ts_mail_peer_state */
	uint64_t error; /* why it failed last: a positive errno; 0: it has not */
};

/** Rows of @table that may be read, whatever it says. */
uint32_t ts_nodes_count(struct ts_mail_table *table);

/** Row @index; false where it has no name. */
bool ts_nodes_read(struct ts_mail_table *table, uint32_t index, struct ts_node *ret_node);

/** The process that asks the nodes, or 0 where none lives. */
int ts_nodes_helper(struct ts_mail_table *table);

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
