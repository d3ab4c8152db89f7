/* SPDX-License-Identifier: MIT */
/*
 * The client as a program: stores and fetches values of a real server.  One line for each
 * command, "ok ..." or the name of an error and what it means.
 *
 *	peer-driver HOST PORT SECRET TOKEN TLS COMMAND [ARGUMENT...]
 *
 * TOKEN is that of the secret (-), none (""), or a word; TLS a folder with ca.pem, client.pem,
 * client.key, or "".  Commands:
 *
 *	store KEY BYTES        a value made of its key
 *	fetch KEY BYTES        the same again, compared
 *	pairs COUNT BYTES      so many values, each followed at once by a question for it, all
 *	                       of them on their way together; compared
 */
#include "leader/peer/meta.h"
#include "leader/peer/value.h"
#include "shim/sys.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define CHUNKS 64

struct driver {
	const char *host, *port, *token;
	struct sockaddr_storage address;
	socklen_t address_bytes;
	struct ts_secrets secrets;
	struct ts_sealer *sealer;
	struct ssl_ctx_st *tls;
};

struct peer {
	struct ts_link link;
	struct ts_meta meta;
};

/* One chunk on its way. */
struct part {
	struct ts_meta_request request;
	struct ts_value_place place;
	struct ts_value_head head;
	char key[TS_META_KEY + 1];
};

static uint64_t deadline_ns = UINT64_C(30000000000);

static int say(int r)
{
	const char *text = ts_value_fault(r);

	if (!text)
		text = ts_meta_fault(r);
	printf("%s %s\n", strerrorname_np(-r), text ? text : strerror(-r));
	return 1;
}

/* ---- connections ------------------------------------------------------------------------ */

static int find_address(struct driver *driver)
{
	struct addrinfo *found,
		hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST};

	if (getaddrinfo(driver->host, driver->port, &hints, &found) != 0)
		return -EINVAL;
	memcpy(&driver->address, found->ai_addr, found->ai_addrlen);
	driver->address_bytes = found->ai_addrlen;
	freeaddrinfo(found);
	return 0;
}

static int begin(struct driver *driver, const char *secret, const char *tls)
{
	char files[3][512];
	int r = find_address(driver);

	if (r == 0)
		r = ts_secrets_read(secret, &driver->secrets);
	if (r == 0)
		r = ts_sealer_create(&driver->secrets, &driver->sealer);
	if (r < 0 || !tls[0])
		return r;
	snprintf(files[0], sizeof(files[0]), "%s/ca.pem", tls);
	snprintf(files[1], sizeof(files[1]), "%s/client.pem", tls);
	snprintf(files[2], sizeof(files[2]), "%s/client.key", tls);
	return ts_link_tls_create(files[0], files[1], files[2], &driver->tls);
}

static int open_peer(struct driver *driver, struct peer *peer)
{
	uint32_t seed = 0;
	const char *token = strcmp(driver->token, "-") == 0 ? driver->secrets.keys[0].token
			    : driver->token[0]              ? driver->token
							    : NULL;
	int r = ts_link_open(&peer->link, (struct sockaddr *)&driver->address,
		driver->address_bytes, driver->tls, driver->host);

	if (r < 0)
		return r;
	(void)getrandom(&seed, sizeof(seed), 0);
	return ts_meta_init(
		&peer->meta, &peer->link, "job", token, seed, ts_now_ns() + deadline_ns);
}

static void close_peer(struct peer *peer)
{
	ts_meta_finish(&peer->meta, -ECANCELED);
	ts_link_close(&peer->link);
}

/* ---- values ----------------------------------------------------------------------------- */

static void fill(char *bytes, size_t count, const char *key)
{
	uint64_t state = strlen(key);

	for (const char *at = key; *at; at++)
		state = state * 31 + (unsigned char)*at;
	for (size_t i = 0; i < count; i++) {
		state = state * UINT64_C(6364136223846793005) + 1442695040888963407u;
		bytes[i] = (char)(state >> 56);
	}
}

static void prepare(struct part *part, enum ts_meta_kind kind, const char *key, uint64_t total,
	uint32_t chunk, char *bytes)
{
	snprintf(part->key, sizeof(part->key), "%s:%u", key, chunk);
	part->place = (struct ts_value_place){key, strlen(key), total, chunk};
	part->request = (struct ts_meta_request){
		.kind = kind,
		.key = part->key,
		.parts = {{&part->head, sizeof(part->head)},
			{bytes + (size_t)chunk * TS_VALUE_CHUNK, ts_value_bytes(total, chunk)}},
		.until_ns = ts_now_ns() + deadline_ns,
	};
}

static int send_all(struct driver *driver, struct peer *peer, enum ts_meta_kind kind,
	const char *key, uint64_t total, char *bytes)
{
	static struct part parts[CHUNKS];
	uint32_t count = ts_value_count(total);
	int r = count > CHUNKS ? -EFBIG : 0;

	for (uint32_t i = 0; i < count && r == 0; i++) {
		struct part *part = &parts[i];
		prepare(part, kind, key, total, i, bytes);
		if (kind == TS_META_SET)
			r = ts_value_seal(driver->sealer, &part->place,
				part->request.parts[1].iov_base, &part->head);
		if (r == 0)
			r = ts_meta_submit(&peer->meta, &part->request);
	}
	for (uint32_t i = 0; i < count && r == 0; i++) {
		r = ts_meta_wait(&peer->meta, &parts[i].request);
		if (r == 0 && kind == TS_META_GET)
			r = ts_value_open(driver->sealer, &parts[i].place, &parts[i].head,
				parts[i].request.bytes, parts[i].request.parts[1].iov_base);
	}
	return r;
}

static int transfer(
	struct driver *driver, enum ts_meta_kind kind, const char *key, uint64_t total)
{
	struct peer peer;
	char *bytes = malloc(total + 1), *expected = malloc(total + 1);
	int r = bytes && expected ? open_peer(driver, &peer) : -ENOMEM;

	if (r < 0)
		return say(r);
	fill(expected, total, key);
	if (kind == TS_META_SET)
		memcpy(bytes, expected, total);
	else
		memset(bytes, 0, total + 1);
	r = send_all(driver, &peer, kind, key, total, bytes);
	close_peer(&peer);
	if (r == 0 && memcmp(bytes, expected, total) != 0)
		r = -EUCLEAN; /* what the tag must have noticed */
	free(bytes);
	free(expected);
	if (r < 0)
		return say(r);
	printf("ok %llu\n", (unsigned long long)total);
	return 0;
}

/* A value, a question for it, and where the answer goes. */
struct pair {
	struct part set, get;
	char *bytes; /* the value, then the answer */
};

static int submit_pair(struct driver *driver, struct peer *peer, struct pair *pair,
	unsigned long number, uint32_t bytes)
{
	char key[32];

	snprintf(key, sizeof(key), "pair%lu", number);
	pair->bytes = calloc(2, bytes);
	if (!pair->bytes)
		return -ENOMEM;
	fill(pair->bytes, bytes, key);
	prepare(&pair->set, TS_META_SET, key, bytes, 0, pair->bytes);
	prepare(&pair->get, TS_META_GET, key, bytes, 0, pair->bytes + bytes);
	int r = ts_value_seal(driver->sealer, &pair->set.place, pair->bytes, &pair->set.head);
	if (r == 0)
		r = ts_meta_submit(&peer->meta, &pair->set.request);
	return r < 0 ? r : ts_meta_submit(&peer->meta, &pair->get.request);
}

static int wait_for_pair(struct peer *peer, struct pair *pair, uint32_t bytes)
{
	int r = ts_meta_wait(&peer->meta, &pair->set.request);

	if (r == 0)
		r = ts_meta_wait(&peer->meta, &pair->get.request);
	if (r == 0 && (pair->get.request.bytes != sizeof(struct ts_value_head) + bytes ||
			      memcmp(pair->bytes, pair->bytes + bytes, bytes) != 0))
		r = -EUCLEAN;
	return r;
}

static int pairs(struct driver *driver, unsigned long count, uint32_t bytes)
{
	struct peer peer;
	struct pair *all = calloc(count, sizeof(*all));
	int r = all && ts_value_count(bytes) == 1 ? open_peer(driver, &peer) : -EINVAL;

	if (r < 0)
		return say(r);
	for (unsigned long i = 0; i < count && r == 0; i++)
		r = submit_pair(driver, &peer, &all[i], i, bytes);
	for (unsigned long i = 0; i < count && r == 0; i++)
		r = wait_for_pair(&peer, &all[i], bytes);
	close_peer(&peer);
	for (unsigned long i = 0; i < count; i++)
		free(all[i].bytes);
	free(all);
	if (r < 0)
		return say(r);
	printf("ok %lu\n", count);
	return 0;
}

/* ---- the program ------------------------------------------------------------------------ */

static int perform(struct driver *driver, int count, char **words)
{
	if (count == 3 && strcmp(words[0], "store") == 0)
		return transfer(driver, TS_META_SET, words[1], strtoull(words[2], NULL, 10));
	if (count == 3 && strcmp(words[0], "fetch") == 0)
		return transfer(driver, TS_META_GET, words[1], strtoull(words[2], NULL, 10));
	if (count == 3 && strcmp(words[0], "pairs") == 0)
		return pairs(driver, strtoul(words[1], NULL, 10),
			(uint32_t)strtoul(words[2], NULL, 10));
	return say(-EINVAL);
}

int main(int argc, char **argv)
{
	struct driver driver = {.host = NULL};
	const char *deadline = getenv("PEER_DEADLINE_MS");

	if (argc < 7)
		return say(-EINVAL);
	(void)signal(SIGPIPE, SIG_IGN);
	if (deadline)
		deadline_ns = strtoull(deadline, NULL, 10) * 1000000;
	driver.host = argv[1];
	driver.port = argv[2];
	driver.token = argv[4];
	int r = begin(&driver, argv[3], argv[5]);
	r = r < 0 ? say(r) : perform(&driver, argc - 6, argv + 6);
	ts_sealer_destroy(driver.sealer);
	ts_secrets_finish(&driver.secrets);
	ts_link_tls_destroy(driver.tls);
	return r;
}
