/* SPDX-License-Identifier: MIT */
/* The continuum: leader/peer/ketama.h explains it. */
#include "leader/peer/ketama.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define POINTS     160
#define PER_DIGEST 4
#define MD5_BYTES  16

struct point {
	uint32_t value, server;
};

struct ts_ketama {
	EVP_MD *md5;
	EVP_MD_CTX *context;
	uint32_t servers, count, room;
	struct point points[];
};

static int digest(struct ts_ketama *ketama, const void *bytes, size_t length,
	unsigned char ret_digest[MD5_BYTES])
{
	if (EVP_DigestInit_ex2(ketama->context, ketama->md5, NULL) != 1 ||
		EVP_DigestUpdate(ketama->context, bytes, length) != 1 ||
		EVP_DigestFinal_ex(ketama->context, ret_digest, NULL) != 1)
		return -ENOTSUP;
	return 0;
}

static uint32_t little_endian(const unsigned char *bytes)
{
	return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
	       (uint32_t)bytes[3] << 24;
}

/* Names of a server are compared byte by byte with those of others, so each step is as there.
 */
static uint32_t digests_of(uint32_t weight, uint64_t weights, uint32_t servers)
{
	float share = (float)weight / (float)weights;

	return (uint32_t)(share * POINTS / PER_DIGEST * (float)servers + 0.0000000001F);
}

static int add_server(struct ts_ketama *ketama, const struct ts_ketama_server *server,
	uint32_t number, uint32_t digests)
{
	char name[TS_KETAMA_HOST + 32];
	unsigned char md5[MD5_BYTES];

	for (uint32_t i = 0; i < digests; i++) {
		int length = server->port == TS_KETAMA_PORT
				     ? snprintf(name, sizeof(name), "%s-%u", server->host, i)
				     : snprintf(name, sizeof(name), "%s:%u-%u", server->host,
					       (unsigned)server->port, i);
		int r = digest(ketama, name, (size_t)length, md5);
		if (r < 0)
			return r;
		for (uint32_t j = 0; j < PER_DIGEST && ketama->count < ketama->room; j++)
			ketama->points[ketama->count++] =
				(struct point){little_endian(md5 + (size_t)4 * j), number};
	}
	return 0;
}

static int compare(const void *a, const void *b)
{
	const struct point *one = a, *other = b;

	if (one->value != other->value)
		return one->value < other->value ? -1 : 1;
	return one->server < other->server ? -1 : one->server > other->server;
}

static bool is_good(const struct ts_ketama_server *server)
{
	size_t length = server->host ? strnlen(server->host, TS_KETAMA_HOST + 1) : 0;

	return length > 0 && length <= TS_KETAMA_HOST && server->port != 0 &&
	       server->weight != 0;
}

static int fill(struct ts_ketama *ketama, const struct ts_ketama_server *servers)
{
	uint64_t weights = 0;
	int r = 0;

	for (uint32_t i = 0; i < ketama->servers; i++)
		weights += servers[i].weight;
	for (uint32_t i = 0; i < ketama->servers && r == 0; i++)
		r = add_server(ketama, &servers[i], i,
			digests_of(servers[i].weight, weights, ketama->servers));
	if (r == 0)
		qsort(ketama->points, ketama->count, sizeof(ketama->points[0]), compare);
	return r;
}

int ts_ketama_create(
	const struct ts_ketama_server *servers, uint32_t count, struct ts_ketama **ret_ketama)
{
	if (count == 0 || count > TS_KETAMA_SERVERS)
		return -EINVAL;
	for (uint32_t i = 0; i < count; i++)
		if (!is_good(&servers[i]))
			return -EINVAL;
	/* Shares are rounded down; one more, lest a share itself was rounded up. */
	uint32_t room = (count + 1) * POINTS;
	struct ts_ketama *ketama = calloc(1, sizeof(*ketama) + room * sizeof(struct point));
	if (!ketama)
		return -ENOMEM;
	ketama->servers = count;
	ketama->room = room;
	/* Names of places, no secrets: where a policy forbids MD5 for secrets it may serve. */
	ketama->md5 = EVP_MD_fetch(NULL, "MD5", "-fips");
	ketama->context = EVP_MD_CTX_new();
	int r = ketama->md5 && ketama->context ? fill(ketama, servers) : -ENOTSUP;
	if (r < 0) {
		ts_ketama_destroy(ketama);
		return r;
	}
	*ret_ketama = ketama;
	return 0;
}

void ts_ketama_destroy(struct ts_ketama *ketama)
{
	if (!ketama)
		return;
	EVP_MD_CTX_free(ketama->context);
	EVP_MD_free(ketama->md5);
	free(ketama);
}

int ts_ketama_find(struct ts_ketama *ketama, const void *key, size_t bytes)
{
	unsigned char md5[MD5_BYTES];
	uint32_t low = 0, high = ketama->count;

	if (ketama->servers == 1)
		return 0;
	int r = digest(ketama, key, bytes, md5);
	if (r < 0)
		return r;
	uint32_t value = little_endian(md5);
	while (low < high) {
		uint32_t middle = low + (high - low) / 2;
		if (ketama->points[middle].value < value)
			low = middle + 1;
		else
			high = middle;
	}
	return (int)ketama->points[low == ketama->count ? 0 : low].server;
}

uint32_t ts_ketama_points(const struct ts_ketama *ketama, uint32_t number)
{
	uint32_t count = 0;

	for (uint32_t i = 0; i < ketama->count; i++)
		count += ketama->points[i].server == number;
	return count;
}
