/* SPDX-License-Identifier: MIT */
/* The server of a node: tests/unit/peer/node.h explains it. */
#include "node.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

/* Of a command with its value. */
#define INBOX (2 << 20)

/* What came of a connection and is not a whole command yet. */
static struct {
	unsigned char *bytes;
	size_t count;
} inboxes[NODE_SERVERS];

/* ---- life ------------------------------------------------------------------------------- */

void node_server_begin(struct node *node)
{
	for (int i = 0; i < NODE_SERVERS; i++) {
		node->ends[i] = -1;
		inboxes[i].bytes = realloc(inboxes[i].bytes, INBOX);
	}
}

void node_server_end(struct node *node)
{
	for (int i = 0; i < NODE_SERVERS; i++)
		if (node->ends[i] >= 0)
			close(node->ends[i]);
	for (int i = 0; i < NODE_VALUES; i++)
		free(node->values[i].bytes);
}

void node_server_accept(struct node *node, unsigned index, int end)
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

bool node_serve(struct node *node)
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
