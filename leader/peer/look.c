/* SPDX-License-Identifier: MIT */
/* Asks servers for their statistics: leader/peer/look.h. */
#include "leader/peer/look.h"

#include "leader/peer/link.h"
#include "leader/peer/secret.h"
#include "shim/sys.h"

#include <netdb.h>
#include <openssl/crypto.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define ANSWER_MAX 65536u /* memcached's is 3 KB */
#define ASKERS     64u

/* One connection until it has told what we want to know. */
struct talk {
	struct ts_link link;
	uint64_t until_ns;
	char *text; /* what has come, NUL-terminated; ANSWER_MAX + 1 bytes */
	size_t bytes;
};

/* ---- bytes ------------------------------------------------------------------------------ */

static int say(struct talk *talk, const char *text)
{
	size_t left = strlen(text);

	while (left > 0) {
		int64_t n = talk->link.ops->write(&talk->link, text, left, false);
		if (n == -EAGAIN)
			n = talk->link.ops->wait(&talk->link, true, talk->until_ns);
		if (n < 0)
			return (int)n;
		text += n;
		left -= (size_t)n;
	}
	return 0;
}

/* Until what has come ends with one of the lines @ends.  Errors: -EPROTO it is something else.
 */
static int hear(struct talk *talk, const char *const *ends)
{
	for (;;) {
		for (const char *const *end = ends; *end; end++) {
			size_t length = strlen(*end);
			if (talk->bytes >= length &&
				strcmp(talk->text + talk->bytes - length, *end) == 0)
				return 0;
		}
		if (talk->bytes == ANSWER_MAX)
			return -EPROTO;
		int64_t n = talk->link.ops->read(
			&talk->link, talk->text + talk->bytes, ANSWER_MAX - talk->bytes);
		if (n == 0)
			return talk->bytes ? -EPROTO : -ECONNRESET;
		if (n == -EAGAIN) {
			n = talk->link.ops->wait(&talk->link, false, talk->until_ns);
			if (n < 0)
				return (int)n;
			continue;
		}
		if (n < 0)
			return (int)n;
		talk->bytes += (size_t)n;
		talk->text[talk->bytes] = '\0';
	}
}

/* ---- words ------------------------------------------------------------------------------ */

/* Errors: -EACCES it does not take the token. */
static int give_token(struct talk *talk, const char *token)
{
	static const char *const ends[] = {"\r\n", NULL};
	char text[TS_SECRET_TOKEN + 64];
	size_t bytes = strlen(token) + strlen("job ");

	if (bytes > TS_SECRET_TOKEN + 4)
		return -EINVAL;
	(void)snprintf(text, sizeof(text), "set auth 0 0 %zu\r\njob %s\r\n", bytes, token);
	int r = say(talk, text);
	OPENSSL_cleanse(text, sizeof(text));
	if (r == 0)
		r = hear(talk, ends);
	if (r < 0)
		return r;
	if (strncmp(talk->text, "STORED\r\n", 8) == 0)
		return 0;
	return strncmp(talk->text, "CLIENT_ERROR ", 13) == 0 ? -EACCES : -EPROTO;
}

/* The number behind "STAT @name ".  Errors: -EPROTO there is none. */
static int read_number(const struct talk *talk, const char *name, uint64_t *ret_number)
{
	char line[64];
	char *end;

	(void)snprintf(line, sizeof(line), "STAT %s ", name);
	const char *at = strstr(talk->text, line);
	if (!at || (at != talk->text && at[-1] != '\n'))
		return -EPROTO;
	at += strlen(line);
	if (*at < '0' || *at > '9')
		return -EPROTO;
	errno = 0;
	unsigned long long number = strtoull(at, &end, 10);
	if (errno != 0 || *end != '\r')
		return -EPROTO;
	*ret_number = number;
	return 0;
}

static int ask(struct talk *talk, const char *token, struct ts_look *look)
{
	static const char *const ends[] = {"END\r\n", "ERROR\r\n", NULL};
	const struct {
		const char *name;
		uint64_t *number;
	} wanted[] = {{"bytes", &look->used}, {"limit_maxbytes", &look->limit},
		{"curr_items", &look->items}, {"get_hits", &look->hits},
		{"get_misses", &look->misses}};
	int r = give_token(talk, token);

	if (r < 0)
		return r;
	talk->bytes = 0;
	talk->text[0] = '\0';
	r = say(talk, "stats\r\n");
	if (r == 0)
		r = hear(talk, ends);
	for (size_t i = 0; r == 0 && i < TS_ARRAY_SIZE(wanted); i++)
		r = read_number(talk, wanted[i].name, wanted[i].number);
	return r;
}

/* ---- one server -------------------------------------------------------------------------- */

static enum ts_look_state judge(int error, bool is_refusal)
{
	switch (-error) {
	case 0:
		return TS_LOOK_UP;
	case EACCES:
		return is_refusal ? TS_LOOK_REFUSED : TS_LOOK_CERTIFICATE;
	case ETIMEDOUT:
		return TS_LOOK_SILENT;
	case ECONNREFUSED:
		return TS_LOOK_DOWN;
	case EHOSTUNREACH:
	case ENETUNREACH:
	case ENETDOWN:
	case EHOSTDOWN:
	case EADDRNOTAVAIL:
		return TS_LOOK_UNREACHABLE;
	default:
		return TS_LOOK_STRANGE;
	}
}

/* With TLS 1.3 a server refuses our certificate when our side of the handshake is over. */
static int look_at(const struct ts_look_asker *asker, const char *host,
	const struct addrinfo *address, struct ts_look *look)
{
	struct talk talk = {.until_ns = ts_now_ns() + asker->within_ns};
	int r;

	talk.text = calloc(1, ANSWER_MAX + 1);
	if (!talk.text)
		return -ENOMEM;
	r = ts_link_open(&talk.link, address->ai_addr, address->ai_addrlen, asker->tls, host);
	if (r == 0) {
		r = ask(&talk, asker->token, look);
		look->state = judge(r, talk.bytes > 0);
		/* Whoever closes a handshake speaks something else. */
		if (asker->tls && talk.bytes == 0 && look->state == TS_LOOK_STRANGE)
			look->state = TS_LOOK_CERTIFICATE;
		ts_link_close(&talk.link);
	} else {
		look->state = judge(r, false);
	}
	free(talk.text);
	return r;
}

void ts_look_at(const struct ts_look_asker *asker, const char *host, uint16_t port,
	struct ts_look *ret_look)
{
	const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
	struct addrinfo *found;
	char text[8];

	*ret_look = (struct ts_look){.state = TS_LOOK_UNKNOWN};
	(void)snprintf(text, sizeof(text), "%u", port);
	if (getaddrinfo(host, text, &hints, &found) != 0)
		return;
	/* A name may have several, of which not all lead there. */
	for (const struct addrinfo *at = found; at; at = at->ai_next)
		if (look_at(asker, host, at, ret_look) == 0)
			break;
	freeaddrinfo(found);
}

/* ---- all of them --------------------------------------------------------------------------
 */

struct round {
	const struct ts_look_asker *asker;
	const struct ts_cluster_nodes *nodes;
	struct ts_look *looks;
	uint32_t next;
};

static void *ask_next(void *argument)
{
	struct round *round = argument;
	uint32_t i;

	while ((i = __atomic_fetch_add(&round->next, 1, __ATOMIC_RELAXED)) <
		round->nodes->count)
		ts_look_at(round->asker, round->nodes->servers[i].host,
			round->nodes->servers[i].port, &round->looks[i]);
	return NULL;
}

int ts_look_at_all(const struct ts_look_asker *asker, const struct ts_cluster_nodes *nodes,
	struct ts_look *ret_looks)
{
	struct round round = {.asker = asker, .nodes = nodes, .looks = ret_looks};
	pthread_t threads[ASKERS];
	uint32_t count = 0;

	while (count < ASKERS && count < nodes->count &&
		pthread_create(&threads[count], NULL, ask_next, &round) == 0)
		count++;
	for (uint32_t i = 0; i < count; i++)
		(void)pthread_join(threads[i], NULL);
	return count ? 0 : -EAGAIN;
}
