/* SPDX-License-Identifier: MIT */
/* Reading a copy of the table of nodes: shim/tsrun/nodes.h. */
#include "shim/tsrun/nodes.h"
#include "shim/atomic.h"
#include "shim/identity.h"

#include <string.h>

uint32_t ts_nodes_count(struct ts_mail_table *table)
{
	uint32_t count = ts_load_relaxed(&table->peer_count);

	return count < TS_MAIL_PEERS ? count : TS_MAIL_PEERS;
}

bool ts_nodes_read(struct ts_mail_table *table, uint32_t index, struct ts_node *ret_node)
{
	struct ts_mail_peer *peer = &table->peers[index % TS_MAIL_PEERS];
	struct ts_node node = {.name = ""};

	for (uint32_t i = 0; i < TS_ARRAY_SIZE(peer->name); i++) {
		uint64_t word = ts_load_relaxed(&peer->name[i]);
		memcpy(node.name + i * sizeof(word), &word, sizeof(word));
	}
	node.state = ts_load_relaxed(&peer->state);
	node.error = ts_load_relaxed(&peer->error);
	*ret_node = node;
	return node.name[0] != '\0';
}

int ts_nodes_helper(struct ts_mail_table *table)
{
	uint64_t helper = ts_load_relaxed(&table->helper);

	return ts_process_is_alive(helper) ? TS_PROCESS_PID(helper) : 0;
}

uint64_t ts_nodes_sum(struct ts_mail_table *table, enum ts_mail_counter counter)
{
	uint64_t sum = 0;

	for (uint32_t i = 0; i < ts_nodes_count(table); i++)
		sum += ts_load_relaxed(&table->peers[i].counters[counter]);
	return sum;
}

/* ---- words ------------------------------------------------------------------------------- */

static const struct {
	const char *word, *text;
} states[] = {
#define TS_X(name, word, text) [TS_MAIL_PEER_##name] = {word, text},
	TS_MAIL_PEER_STATES(TS_X)
#undef TS_X
};

const char *ts_nodes_state_word(uint64_t state)
{
	return state < TS_ARRAY_SIZE(states) ? states[state].word : "unknown";
}

const char *ts_nodes_state_text(uint64_t state)
{
	return state < TS_ARRAY_SIZE(states) ? states[state].text : "unknown";
}

struct meaning {
	int error;
	const char *text;
};

static const char *look_up(const struct meaning *meanings, size_t count, uint64_t error)
{
	for (size_t i = 0; i < count; i++)
		if (error == (uint64_t)meanings[i].error)
			return meanings[i].text;
	/* Foreign memory may say anything. */
	return error == 0 ? NULL : error < 4096 ? strerror((int)error) : "an unknown error";
}

const char *ts_nodes_explain(uint64_t error)
{
	static const struct meaning meanings[] = {
		{ECONNREFUSED, "no server there"},
		{ETIMEDOUT, "it did not answer in time"},
		{ETIME, "it did not answer in time"},
		{ECONNRESET, "it closed the connection"},
		{EPIPE, "it closed the connection"},
		{ENETUNREACH, "the network does not reach it"},
		{EHOSTUNREACH, "the network does not reach it"},
		{EACCES, "it refused our token, or has another certificate"},
		{EPROTO, "it answered what no memcached answers"},
		{EBADMSG, "it answered what no memcached answers"},
	};

	return look_up(meanings, TS_ARRAY_SIZE(meanings), error);
}

const char *ts_nodes_explain_helper(uint64_t error)
{
	static const struct meaning meanings[] = {
		{ENOENT, "the directory of the cluster, or a file in it, is not there"},
		{ESTALE, "the list of nodes, the settings or a certificate changed"},
		{EPERM, "the directory of the cluster, or a file in it, is open to others"},
		{EINVAL, "a file of the cluster has a fault"},
	};

	return look_up(meanings, TS_ARRAY_SIZE(meanings), error);
}
