/* SPDX-License-Identifier: MIT */
/* What an event log tells of other nodes: leader/events/nodes.h. */
#include "leader/events/nodes.h"

#include "leader/object/object.h"
#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/sys.h"

#include <string.h>
#include <sys/mman.h>

/* ---- looking ---------------------------------------------------------------------------- */

static void read_server(struct ts_mail_peer *peer, struct ts_event_server *ret_server)
{
	struct ts_event_server server = {.state = ts_load_relaxed(&peer->state)};

	for (size_t i = 0; i < TS_ARRAY_SIZE(peer->name); i++) {
		uint64_t word = ts_load_relaxed(&peer->name[i]);
		memcpy(server.name + i * sizeof(word), &word, sizeof(word));
	}
	/* That of an earlier failure stays in the table. */
	if (server.state == TS_MAIL_PEER_SHUT)
		server.error = ts_load_relaxed(&peer->error);
	*ret_server = server;
}

enum { ON, OFF, UNUSED };
static const char *const sample_words[] = {"on", "off", "unused"};

static uint32_t look_at_samples(struct ts_mail_table *table)
{
	uint64_t now = ts_now_ns();

	if (now < ts_load_relaxed(&table->samples.worth.off_until))
		return OFF;
	return now < ts_load_relaxed(&table->use.unused_until) ? UNUSED : ON;
}

void ts_event_nodes_read(struct ts_mail_table *table, struct ts_event_nodes *ret_nodes)
{
	uint64_t helper = ts_load_relaxed(&table->helper);
	uint32_t count = ts_load_relaxed(&table->peer_count);

	ret_nodes->is_there = true;
	ret_nodes->helper = ts_process_is_alive(helper) ? TS_PROCESS_PID(helper) : 0;
	ret_nodes->error = ret_nodes->helper ? 0 : ts_load_relaxed(&table->error);
	ret_nodes->samples = look_at_samples(table);
	for (uint32_t i = 0; i < TS_MAIL_PEERS; i++) {
		if (i < count)
			read_server(&table->peers[i], &ret_nodes->servers[i]);
		else
			ret_nodes->servers[i] = (struct ts_event_server){.name = ""};
	}
}

/* Whether the table at @start is whole, and was made here. */
static int check(const struct ts_scope *scope, const struct ts_mail_table *table)
{
	int r = ts_object_head_check(&table->head, TS_MAIL_MAGIC, TS_MAIL_ABI,
		offsetof(struct ts_belonging_head, check));

	if (r == 0 && table->head.total_bytes != sizeof(*table))
		r = -EBADMSG;
	return r == 0 ? ts_scope_check(scope, &table->head.head) : r;
}

void ts_event_nodes_look(
	const struct ts_scope *scope, const char *group, struct ts_event_nodes *ret_nodes)
{
	struct ts_object object = {.fd = -1};
	struct stat st;

	ret_nodes->helper = 0;
	if (ts_object_path(object.path, sizeof(object.path), group, "peers") < 0 ||
		ts_object_open(&object) < 0)
		return;
	int fd = ts_load_relaxed(&object.fd);
	if (ts_sys_fstat(fd, &st) == 0 && st.st_size == sizeof(struct ts_mail_table)) {
		struct ts_mail_table *table =
			mmap(NULL, sizeof(*table), PROT_READ, MAP_SHARED, fd, 0);
		if (table != MAP_FAILED) {
			if (check(scope, table) == 0)
				ts_event_nodes_read(table, ret_nodes);
			(void)munmap(table, sizeof(*table));
		}
	}
	ts_object_close(&object);
}

/* ---- telling ---------------------------------------------------------------------------- */

static const char *word_of(uint64_t state)
{
	static const char *const words[] = {
#define TS_X(name, word, text) [TS_MAIL_PEER_##name] = (word),
		TS_MAIL_PEER_STATES(TS_X)
#undef TS_X
	};

	return state < TS_ARRAY_SIZE(words) ? words[state] : "unknown";
}

static void put_number_or_null(struct ts_event_text *text, const char *key, uint64_t number)
{
	if (number > 0)
		ts_event_number(text, key, number);
	else
		ts_event_null(text, key);
}

static void put_tier(
	struct ts_event_text *text, uint64_t t_ms, const struct ts_event_nodes *now)
{
	ts_event_open(text, t_ms, "tier");
	put_number_or_null(text, "helper", (uint64_t)now->helper);
	put_number_or_null(text, "errno", now->error);
	ts_event_string(text, "samples", sample_words[now->samples]);
	ts_event_close(text);
}

static void put_server(
	struct ts_event_text *text, uint64_t t_ms, const struct ts_event_server *server)
{
	ts_event_open(text, t_ms, "server");
	ts_event_string(text, "server", server->name);
	ts_event_string(text, "state", word_of(server->state));
	put_number_or_null(text, "errno", server->error);
	ts_event_close(text);
}

void ts_event_nodes_put(struct ts_event_text *text, uint64_t t_ms,
	const struct ts_event_nodes *now, struct ts_event_nodes *told)
{
	if (now->is_there != told->is_there || now->helper != told->helper ||
		now->error != told->error || now->samples != told->samples)
		put_tier(text, t_ms, now);
	for (uint32_t i = 0; i < TS_MAIL_PEERS; i++) {
		const struct ts_event_server *server = &now->servers[i];
		if (server->name[0] == '\0' ||
			memcmp(server, &told->servers[i], sizeof(*server)) == 0)
			continue;
		put_server(text, t_ms, server);
	}
	*told = *now;
}
