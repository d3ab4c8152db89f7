/* SPDX-License-Identifier: MIT */
/* A node: tests/unit/peer/node.h explains it. */
#include "node.h"

#include "shim/atomic.h"
#include "shim/sys.h"
#include "tests/unit/clock.h"

#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define OWNER 1

static struct ts_mail_table table;
static struct node *current;

/* ---- links ------------------------------------------------------------------------------ */

static int64_t read_link(struct ts_link *link, void *to, size_t bytes)
{
	ssize_t n = recv(link->fd, to, bytes, MSG_DONTWAIT);

	return n < 0 ? -errno : n;
}

static int64_t write_link(struct ts_link *link, const void *from, size_t bytes, bool more)
{
	ssize_t n = send(link->fd, from, bytes, MSG_DONTWAIT | MSG_NOSIGNAL);

	return n < 0 ? -errno : n;
}

static int open_link(struct ts_link *link, const struct sockaddr *address,
	unsigned address_bytes, struct ssl_ctx_st *tls, const char *name)
{
	static const struct ts_link_ops ops = {.read = read_link, .write = write_link};
	unsigned index = current->next_end++ % NODE_SERVERS;
	int pair[2];

	cr_assert(eq(int, socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0));
	node_server_accept(current, index, pair[1]);
	*link = (struct ts_link){.ops = &ops,
		.state = TS_LINK_UP,
		.fd = pair[0],
		.read_wants = POLLIN,
		.write_wants = POLLOUT};
	return 0;
}

static void told(void *context, uint32_t server, bool is_open, int error)
{
	struct node *node = context;

	node->opened += is_open;
}

/* ---- life ------------------------------------------------------------------------------- */

void node_begin(struct node *node, const char *secrets, uint32_t count)
{
	static const struct ts_cluster_server servers[NODE_SERVERS] = {
		{.host = "a", .port = 1, .weight = 1}, {.host = "b", .port = 1, .weight = 1}};
	static char folder[32];
	const struct sockaddr address = {.sa_family = AF_UNIX};
	const struct ts_pool_hooks hooks = {.told = told, .context = node, .open = open_link};

	memset(node, 0, sizeof(*node));
	memset(&table, 0, sizeof(table));
	current = node;
	node->mail.table = &table;
	node_server_begin(node);
	snprintf(folder, sizeof(folder), "/tmp/tsshim-node-XXXXXX");
	cr_assert(ne(ptr, mkdtemp(folder), NULL));
	snprintf(node->stem, sizeof(node->stem), "%s/f.", folder);
	clock_begin();
	cr_assert(eq(int, ts_secrets_parse(secrets, strlen(secrets), &node->secrets), 0));
	cr_assert(eq(int, ts_pool_create(servers, count, NULL, &hooks, &node->pool), 0));
	ts_pool_set_secrets(node->pool, &node->secrets);
	for (uint32_t i = 0; i < count; i++)
		ts_pool_set_address(node->pool, i, &address, sizeof(address));
	cr_assert(eq(int,
		ts_transfers_create(
			&node->mail, node->pool, node->stem, &node->secrets, &node->transfers),
		0));
}

void node_end(struct node *node)
{
	char command[96];

	ts_pool_destroy(node->pool);
	ts_transfers_destroy(node->transfers);
	ts_secrets_finish(&node->secrets);
	node_server_end(node);
	*strrchr(node->stem, '/') = '\0';
	snprintf(command, sizeof(command), "rm -rf '%s'", node->stem);
	cr_expect(eq(int, system(command), 0));
	clock_end();
}

/* ---- files ------------------------------------------------------------------------------ */

void node_want(struct node *node, const char *name, uint64_t at, uint64_t bytes)
{
	static uint64_t count;
	struct stat st;

	node->request = (struct ts_mail_request){
		.name = ts_hash128(name, strlen(name)),
		.copy = {.lo = ++count},
		.at = at,
		.bytes = bytes,
		.until_ns = ts_now_ns() + 10 * SECOND,
	};
	ts_stage_path_with(node->stem, node->request.copy, node->copy);
	snprintf(node->part, sizeof(node->part), "%s.part", node->copy);
	int fd = open(node->part, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	cr_assert(eq(int, ftruncate(fd, (off_t)(at + bytes)), 0));
	cr_assert(eq(int, fstat(fd, &st), 0));
	node->request.inode = st.st_ino;
	close(fd);
}

static unsigned char *read_part(struct node *node)
{
	size_t all = node->request.at + node->request.bytes;
	unsigned char *bytes = malloc(all);
	int fd = open(node->part, O_RDONLY | O_CLOEXEC);

	cr_assert(eq(int, ts_sys_read_all(fd, bytes, all, 0), 0));
	close(fd);
	return bytes;
}

static unsigned char byte_at(const char *name, size_t at)
{
	return (unsigned char)((at * 2654435761u >> 7) +
			       (unsigned char)name[at % strlen(name)]);
}

void node_fill(struct node *node, const char *name)
{
	unsigned char *bytes = malloc(node->request.bytes);
	int fd = open(node->part, O_WRONLY | O_CLOEXEC);

	for (size_t i = 0; i < node->request.bytes; i++)
		bytes[i] = byte_at(name, i);
	cr_assert(eq(u64,
		(uint64_t)ts_sys_pwrite(fd, bytes, node->request.bytes, node->request.at),
		node->request.bytes));
	close(fd);
	free(bytes);
}

bool node_has(struct node *node, const char *name)
{
	unsigned char *bytes = read_part(node);
	bool is_equal = true;

	for (size_t i = 0; i < node->request.at; i++)
		is_equal = is_equal && bytes[i] == 0;
	for (size_t i = 0; i < node->request.bytes; i++)
		is_equal = is_equal && bytes[node->request.at + i] == byte_at(name, i);
	free(bytes);
	return is_equal;
}

bool node_is_untouched(struct node *node)
{
	unsigned char *bytes = read_part(node);
	bool is_zero = true;

	for (size_t i = 0; i < node->request.at + node->request.bytes; i++)
		is_zero = is_zero && bytes[i] == 0;
	free(bytes);
	return is_zero;
}

/* ---- the loop --------------------------------------------------------------------------- */

bool node_turn(struct node *node)
{
	struct pollfd fds[TS_CLUSTER_SERVERS];

	ts_transfers_step(node->transfers);
	ts_pool_flush(node->pool);
	bool happened = node_serve(node);
	uint32_t count = ts_pool_events(node->pool, fds);
	happened = poll(fds, count, 0) > 0 || happened;
	ts_pool_step(node->pool, fds, count);
	return happened;
}

/* Until something has to happen, or the server drips. */
static void sleep_node(struct node *node)
{
	uint64_t until = ts_min_u64(
		ts_pool_deadline(node->pool), ts_transfers_deadline(node->transfers));

	cr_assert(ne(u64, until, UINT64_MAX), "nothing to wait for");
	if (node->drips > 0) {
		node->drips--;
		clock_pass(10 * MS);
		node_say(node, "z", 1);
		return;
	}
	clock_pass(until - ts_min_u64(until, ts_now_ns()));
}

void node_post(struct node *node, enum ts_mail_kind kind)
{
	struct ts_mail_request taken;
	uint32_t index;
	uint64_t place = table.slots[0].request.place;

	ts_write_relaxed(&table.slots[0].owner, OWNER);
	table.slots[0].request = node->request;
	/* What was won in this slot is stored or returned in it. */
	if (!ts_mail_waits(kind))
		table.slots[0].request.place = place;
	table.slots[0].request.kind = kind;
	ts_write_relaxed(&table.slots[0].state, TS_MAIL_POSTED);
	cr_assert(eq(int, ts_mail_take(&node->mail, 0, &index, &taken), 0));
	ts_transfers_begin(node->transfers, index, &taken);
}

static bool is_waiting(void)
{
	uint32_t state = ts_load_relaxed(&table.slots[0].state);

	return state == TS_MAIL_TAKEN || state == TS_MAIL_LEFT;
}

int node_wait(struct node *node)
{
	unsigned turns = 0;

	while (is_waiting()) {
		cr_assert(lt(uint, turns++, 1000000), "waits for ever");
		if (!node_turn(node) && is_waiting())
			sleep_node(node);
	}
	if (ts_load_relaxed(&table.slots[0].state) != TS_MAIL_ANSWERED)
		return -1;
	return (int)ts_load_relaxed(&table.slots[0].answer);
}

int node_fetch(struct node *node)
{
	node_post(node, TS_MAIL_FETCH);
	return node_wait(node);
}

void node_rest(struct node *node)
{
	unsigned turns = 0;

	while (ts_transfers_count(node->transfers) > 0) {
		cr_assert(lt(uint, turns++, 1000000), "works for ever");
		if (!node_turn(node) && ts_transfers_count(node->transfers) > 0)
			sleep_node(node);
	}
}

void node_give(struct node *node, const char *name, uint64_t bytes)
{
	node_want(node, name, 0, bytes);
	cr_assert(eq(int, node_fetch(node), TS_MAIL_SAYS_WON));
	node_fill(node, name);
	node_post(node, TS_MAIL_STORE);
	cr_assert(eq(int, node_wait(node), -1));
	node_rest(node);
	node->asked = node->stored = node->deleted = 0;
}

uint64_t node_counter_of(struct node *node, uint32_t server, enum ts_mail_counter counter)
{
	return ts_load_relaxed(&node->mail.table->peers[server].counters[counter]);
}

uint64_t node_counter(struct node *node, enum ts_mail_counter counter)
{
	return node_counter_of(node, 0, counter);
}
