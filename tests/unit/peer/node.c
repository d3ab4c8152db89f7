/* SPDX-License-Identifier: MIT */
/* A node: tests/unit/peer/node.h explains it. */
#include "node.h"
#include "shim/atomic.h"
#include "shim/sys.h"
#include "tests/unit/clock.h"

#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <sys/socket.h>
#include <unistd.h>

/* The server of a node: tests/unit/peer/node.h explains it. */

/* Of a command with its value. */
#define INBOX (2 << 20)

/* What came of a connection and is not a whole command yet. */
static struct {
	unsigned char *bytes;
	size_t count;
} inboxes[NODE_SERVERS];

/* ---- life ------------------------------------------------------------------------------- */

/* Without connections; end them, and forget all values. */
static void node_server_begin(struct node *node)
{
	for (int i = 0; i < NODE_SERVERS; i++) {
		node->ends[i] = -1;
		inboxes[i].bytes = realloc(inboxes[i].bytes, INBOX);
	}
}

static void node_server_end(struct node *node)
{
	for (int i = 0; i < NODE_SERVERS; i++)
		if (node->ends[i] >= 0)
			close(node->ends[i]);
	for (int i = 0; i < NODE_VALUES; i++)
		free(node->values[i].bytes);
}

/* Connection @index is another one, whose end, @end, is the server's from now on. */
static void node_server_accept(struct node *node, unsigned index, int end)
{
	if (node->ends[index] >= 0)
		close(node->ends[index]);
	node->ends[index] = end;
	inboxes[index].count = 0;
}

/* ---- what it says ----------------------------------------------------------------------- */

void node_say(struct node *node, const void *bytes, size_t count)
{
	int space = 8 << 20;

	(void)setsockopt(
		node->ends[node->speaker], SOL_SOCKET, SO_SNDBUFFORCE, &space, sizeof(space));
	for (size_t done = 0; done < count;) {
		ssize_t n = send(node->ends[node->speaker], (const char *)bytes + done,
			count - done, MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n <= 0)
			return; /* the client has gone, or takes no more */
		done += (size_t)n;
	}
}

void node_printf(struct node *node, const char *format, ...)
{
	char text[256];
	va_list arguments;

	va_start(arguments, format);
	int length = vsnprintf(text, sizeof(text), format, arguments);
	va_end(arguments);
	node_say(node, text, (size_t)length);
}

/* ---- what it has ------------------------------------------------------------------------ */

static int find(struct node *node, const char *key)
{
	for (int i = 0; i < NODE_VALUES; i++)
		if (strcmp(node->values[i].key, key) == 0)
			return i;
	return -1;
}

static void keep(struct node *node, const struct command *command)
{
	int i = find(node, command->key);

	if (i < 0)
		i = find(node, "");
	cr_assert(ge(int, i, 0));
	snprintf(node->values[i].key, sizeof(node->values[i].key), "%s", command->key);
	node->values[i].cas = ++node->kept;
	node->values[i].fetched = false;
	free(node->values[i].bytes);
	node->values[i].bytes = malloc(command->count + 1);
	node->values[i].bytes[command->count] = 0; /* for who makes it longer */
	memcpy(node->values[i].bytes, command->bytes, command->count);
	node->values[i].count = command->count;
}

/* What is a place says so as well.  A look is a fetch for the next one who looks. */
static void show(struct node *node, const struct command *command)
{
	int i = find(node, command->key);

	if (i < 0) {
		node_printf(node, "EN O%u\r\n", command->opaque);
		return;
	}
	node_printf(node, "HD h%d c%llu O%u%s\r\n", node->values[i].fetched,
		node->values[i].cas, command->opaque, node->values[i].count == 0 ? " Z" : "");
	node->values[i].fetched = true;
}

static void give(struct node *node, const struct command *command)
{
	int i = find(node, command->key);

	node->asked++;
	if (i < 0 && !command->vivifies) {
		node_printf(node, "EN O%u\r\n", command->opaque);
		return;
	}
	if (i < 0) {
		const struct command place = {.key = "", .bytes = (const unsigned char *)""};
		struct command empty = place;
		memcpy(empty.key, command->key, sizeof(empty.key));
		keep(node, &empty);
		node_printf(node, "VA 0 c%llu O%u W\r\n\r\n", node->kept, command->opaque);
		return;
	}
	node->values[i].fetched = true;
	node_printf(node, "VA %zu c%llu O%u%s\r\n", node->values[i].count, node->values[i].cas,
		command->opaque, node->values[i].count == 0 ? " Z" : "");
	node_say(node, node->values[i].bytes, node->values[i].count);
	node_say(node, "\r\n", 2);
}

static void take_away(struct node *node, const struct command *command)
{
	int i = find(node, command->key);
	bool is_another = i >= 0 && command->cas != 0 && command->cas != node->values[i].cas;

	node->deleted++;
	if (i >= 0 && !is_another) {
		node->values[i].key[0] = '\0';
		node->room += node->room != 0 ? node->values[i].count : 0;
	}
	node_printf(node, "%s O%u\r\n",
		is_another ? "EX"
		: i >= 0   ? "HD"
			   : "NF",
		command->opaque);
}

void node_keep(struct node *node, const struct command *command)
{
	node->stored++;
	node->room -= node->room != 0 ? command->count : 0;
	memcpy(node->last_stored, command->key, sizeof(node->last_stored));
	keep(node, command);
	node_printf(node, command->numbers ? "HD O%u c%llu\r\n" : "HD O%u\r\n", command->opaque,
		node->kept);
}

static void answer(struct node *node, const struct command *command)
{
	if (node->is_silent || (node->lies && node->lies(node, command)))
		return;
	if (command->looks) {
		show(node, command);
	} else if (strcmp(command->word, "mg") == 0) {
		give(node, command);
	} else if (strcmp(command->word, "md") == 0) {
		take_away(node, command);
	} else if (command->adds && find(node, command->key) >= 0) {
		node_printf(node, "NS O%u\r\n", command->opaque);
	} else if (node->room != 0 && command->count > node->room) {
		node_printf(node, "SERVER_ERROR out of memory storing object\r\n");
	} else {
		node_keep(node, command);
	}
}

/* ---- what it hears ---------------------------------------------------------------------- */

static void take_token(struct node *node, const char *text, size_t bytes)
{
	char wanted[128];

	node->tokens++;
	snprintf(wanted, sizeof(wanted), "job %s", node->token ? node->token : "");
	if (node->token && (bytes != strlen(wanted) || memcmp(text, wanted, bytes) != 0))
		node_printf(node, "CLIENT_ERROR authentication failure\r\n");
	else
		node_printf(node, "STORED\r\n");
}

/* The first command of an inbox; returns its bytes, or 0: it is not whole. */
static size_t next_command(struct node *node, char *text, size_t count)
{
	struct command command = {.word = ""};
	char *end = memchr(text, '\n', count);
	char rest[96] = "";
	size_t line = end ? (size_t)(end - text) + 1 : 0;

	if (line == 0)
		return 0;
	end[-1] = '\0'; /* the \r, and it is whole only with what follows */
	bool is_token = sscanf(text, "set auth 0 0 %zu", &command.count) == 1;
	bool is_value = !is_token && sscanf(text, "ms %79s %zu O%u", command.key,
					     &command.count, &command.opaque) == 3;
	if ((is_token || is_value) && count < line + command.count + 2) {
		end[-1] = '\r';
		return 0;
	}
	if (is_token) {
		take_token(node, text + line, command.count);
		return line + command.count + 2;
	}
	command.bytes = (const unsigned char *)text + line;
	command.numbers = is_value && strstr(text, " c") != NULL;
	command.adds = is_value && strstr(text, " ME") != NULL;
	if (!is_value)
		cr_assert(eq(int,
			sscanf(text, "%3s %79s%95[^\n]", command.word, command.key, rest), 3));
	else
		memcpy(command.word, "ms", 3);
	if (!is_value) {
		const char *opaque = strstr(rest, " O");
		cr_assert(ne(ptr, (void *)opaque, NULL));
		command.opaque = (unsigned)strtoul(opaque + 2, NULL, 10);
		command.vivifies = strstr(rest, " N") != NULL;
		command.looks = strstr(rest, " h") != NULL;
		const char *cas = strstr(rest, " C");
		command.cas = cas ? strtoull(cas + 2, NULL, 10) : 0;
	}
	answer(node, &command);
	return line + (is_value ? command.count + 2 : 0);
}

/* Hear and answer what has come; whether something has. */
static bool node_serve(struct node *node)
{
	bool has_heard = false;

	for (int i = 0; i < NODE_SERVERS; i++) {
		ssize_t n = node->ends[i] < 0
				    ? 0
				    : recv(node->ends[i], inboxes[i].bytes + inboxes[i].count,
					      INBOX - inboxes[i].count, MSG_DONTWAIT);
		if (n <= 0)
			continue;
		has_heard = true;
		node->speaker = i;
		inboxes[i].count += (size_t)n;
		size_t at = 0, bytes;
		while ((bytes = next_command(node, (char *)inboxes[i].bytes + at,
				inboxes[i].count - at)) > 0)
			at += bytes;
		memmove(inboxes[i].bytes, inboxes[i].bytes + at, inboxes[i].count - at);
		inboxes[i].count -= at;
	}
	return has_heard;
}

unsigned char *node_value(struct node *node, uint32_t chunk, size_t **ret_count)
{
	bool is_sample = node->request.kind >= TS_MAIL_SAMPLE;
	char key[80], piece[16] = "";

	if (!is_sample)
		snprintf(piece, sizeof(piece), ".%u", node->request.piece);
	snprintf(key, sizeof(key), "%s:%016llx%016llx%s:%u", is_sample ? "s1" : "f1",
		(unsigned long long)node->request.name.hi,
		(unsigned long long)node->request.name.lo, piece, chunk);
	int i = find(node, key);
	if (i < 0)
		return NULL;
	*ret_count = &node->values[i].count;
	return node->values[i].bytes;
}

/* The node. */

#define OWNER 1

static struct ts_mail_table table;
static struct node *current;

/* ---- links ------------------------------------------------------------------------------ */

static int open_link(struct ts_link *link, const struct sockaddr *address,
	unsigned address_bytes, struct ssl_ctx_st *tls, const char *name)
{
	static const struct ts_link_ops ops = {
		.read = fixture_read_link, .write = fixture_write_link};
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

void node_expect(
	struct node *node, const char *name, uint64_t bytes, enum ts_mail_answer answer)
{
	node_want(node, name, 0, bytes);
	cr_assert(eq(int, node_fetch(node), (int)answer), "%s", name);
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
