/* SPDX-License-Identifier: MIT */
/* What a recorder writes of other nodes. */
#include "fixture.h"

#include "leader/events/nodes.h"
#include "shim/atomic.h"
#include "shim/identity.h"
#include "shim/sys.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define T_MS UINT64_C(1795852123000)

static struct ts_mail_table table;
static struct ts_event_nodes now, told;
static char buffer[TS_EVENT_NODES_BYTES + 1];

static void begin(void)
{
	memset(&table, 0, sizeof(table));
	memset(&now, 0, sizeof(now));
	memset(&told, 0, sizeof(told));
	ts_write_relaxed(&table.helper, ts_process_id(getpid(), false));
}

TestSuite(event_nodes, .init = begin);

static void set(uint32_t row, const char *name, enum ts_mail_peer_state state, uint64_t error)
{
	struct ts_mail_peer *peer = &table.peers[row];

	memcpy(peer->name, name, strnlen(name, sizeof(peer->name)));
	ts_write_relaxed(&peer->state, state);
	ts_write_relaxed(&peer->error, error);
	if (ts_load_relaxed(&table.peer_count) <= row)
		ts_write_relaxed(&table.peer_count, row + 1);
}

/* What is written by the next look. */
static const char *look(void)
{
	struct ts_event_text text = {.text = buffer, .room = TS_EVENT_NODES_BYTES};

	ts_event_nodes_read(&table, &now);
	ts_event_nodes_put(&text, T_MS, &now, &told);
	buffer[text.length] = '\0';
	return buffer;
}

static void expect(const char *what, unsigned count)
{
	cr_expect(eq(uint, fixture_count(buffer, what), count), "%s in\n%s", what, buffer);
}

Test(event_nodes, without_a_table_nothing_is_said)
{
	struct ts_event_text text = {.text = buffer, .room = sizeof(buffer)};

	ts_event_nodes_put(&text, T_MS, &now, &told);
	cr_expect(eq(sz, text.length, 0));
}

Test(event_nodes, each_server_has_a_line_when_it_changes)
{
	set(0, "one:1", TS_MAIL_PEER_OPEN, 0);
	set(1, "two:2", TS_MAIL_PEER_UNUSED, 0);
	look();
	expect("\"e\":\"tier\",\"helper\":", 1);
	expect("\"e\":\"server\"", 2);
	expect("\"server\":\"one:1\",\"state\":\"open\",\"errno\":null}", 1);
	expect("\"server\":\"two:2\",\"state\":\"unused\",\"errno\":null}", 1);
	cr_expect(eq(sz, strlen(look()), 0), "nothing has changed: %s", buffer);

	set(1, "two:2", TS_MAIL_PEER_SHUT, ECONNREFUSED);
	look();
	expect("\"server\":\"two:2\",\"state\":\"shut\",\"errno\":111}", 1);
	expect("\"e\":", 1);
	set(1, "two:2", TS_MAIL_PEER_SHUT, ETIMEDOUT);
	look();
	expect("\"state\":\"shut\",\"errno\":110}", 1);
	/* The table still has why it had failed. */
	set(1, "two:2", TS_MAIL_PEER_OPEN, ETIMEDOUT);
	look();
	expect("\"server\":\"two:2\",\"state\":\"open\",\"errno\":null}", 1);
}

Test(event_nodes, the_tier_has_a_line_when_it_is_on_or_off)
{
	look();
	expect("\"samples\":\"on\"}", 1);
	/* Pictures are no samples. */
	ts_write_relaxed(&table.pictures.worth.off_until, UINT64_MAX);
	look();
	expect("", 0);
	ts_write_relaxed(&table.samples.worth.off_until, UINT64_MAX);
	look();
	expect("\"errno\":null,\"samples\":\"off\"}", 1);
	ts_write_relaxed(&table.use.unused_until, UINT64_MAX);
	look();
	expect("", 0);
	ts_write_relaxed(&table.samples.worth.off_until, ts_now_ns());
	look();
	expect("\"errno\":null,\"samples\":\"unused\"}", 1);
	ts_write_relaxed(&table.use.unused_until, 0);
	look();
	expect("\"samples\":\"on\"}", 1);
	ts_write_relaxed(&table.helper, 0);
	ts_write_relaxed(&table.error, ESTALE);
	look();
	expect("\"helper\":null,\"errno\":116,\"samples\":\"on\"}", 1);
	cr_expect(eq(sz, strlen(look()), 0), "%s", buffer);
}

Test(event_nodes, what_is_told_anew_is_all_of_it)
{
	set(0, "one:1", TS_MAIL_PEER_OPEN, 0);
	look();
	memset(&told, 0, sizeof(told));
	look();
	expect("\"e\":\"tier\"", 1);
	expect("\"e\":\"server\"", 1);
}

/* Who writes there may write anything. */
Test(event_nodes, damaged_tables_are_bounded)
{
	char name[TS_MAIL_PEER_NAME + 1];

	memset(name, '"', TS_MAIL_PEER_NAME);
	name[TS_MAIL_PEER_NAME] = '\0';
	memset(&table, 0xff, sizeof(table));
	for (uint32_t i = 0; i < TS_MAIL_PEERS; i++)
		memcpy(table.peers[i].name, name, TS_MAIL_PEER_NAME);
	look();
	expect("\"e\":\"tier\"", 1);
	expect("\"state\":\"unknown\"", TS_MAIL_PEERS);
	for (uint32_t i = 0; i < TS_MAIL_PEERS; i++)
		ts_write_relaxed(&table.peers[i].state, TS_MAIL_PEER_SHUT);
	look();
	expect("\"errno\":18446744073709551615}", TS_MAIL_PEERS);
	memset(table.peers, '\n', sizeof(table.peers));
	look();
	expect("\"server\":\"????", TS_MAIL_PEERS);
}
