/* SPDX-License-Identifier: MIT */
/* The same key belongs to the same server as libmemcached has it under KETAMA_WEIGHTED. */
#include "leader/peer/ketama.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <libmemcached/memcached.h>
#include <stdio.h>
#include <string.h>

#define KEYS    5000
#define SERVERS 100

static char names[SERVERS][64];
static struct ts_ketama_server servers[SERVERS];

static memcached_st *make_theirs(uint32_t count)
{
	memcached_st *theirs = memcached_create(NULL);

	cr_assert(ne(ptr, theirs, NULL));
	cr_assert(eq(int, memcached_behavior_set(theirs, MEMCACHED_BEHAVIOR_KETAMA_WEIGHTED, 1),
		MEMCACHED_SUCCESS));
	/* As a list: their continuum is made anew for each server that is added by itself. */
	memcached_server_list_st list = NULL;
	memcached_return_t error = MEMCACHED_SUCCESS;
	for (uint32_t i = 0; i < count; i++) {
		list = memcached_server_list_append_with_weight(
			list, servers[i].host, servers[i].port, servers[i].weight, &error);
		cr_assert(eq(int, error, MEMCACHED_SUCCESS));
	}
	cr_assert(eq(int, memcached_server_push(theirs, list), MEMCACHED_SUCCESS));
	memcached_server_list_free(list);
	return theirs;
}

static size_t make_key(char *key, size_t room, uint32_t number)
{
	/* Of many lengths, as MD5 has blocks. */
	int length =
		snprintf(key, room, "v1:%0*x:%u", (int)(1 + number % 200), number, number % 7);

	return (size_t)length;
}

static void compare(uint32_t count, const char *what)
{
	memcached_st *theirs = make_theirs(count);
	struct ts_ketama *ours = NULL;
	uint32_t used = 0;
	char key[251];

	cr_assert(eq(int, ts_ketama_create(servers, count, &ours), 0));
	for (uint32_t i = 0; i < KEYS; i++) {
		size_t length = make_key(key, sizeof(key), i);
		int here = ts_ketama_find(ours, key, length);
		cr_assert(eq(int, here, (int)memcached_generate_hash(theirs, key, length)),
			"%s, %u servers, %s", what, count, key);
		used += here == (int)(i % count);
	}
	cr_expect(gt(u32, used, 0), "%s", what);
	ts_ketama_destroy(ours);
	memcached_free(theirs);
}

static void name_servers(const char *format, uint16_t port)
{
	for (uint32_t i = 0; i < SERVERS; i++) {
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
		snprintf(names[i], sizeof(names[i]), format, i);
#pragma GCC diagnostic pop
		servers[i] = (struct ts_ketama_server){names[i], port, 1};
	}
}

static const struct {
	const char *format;
	uint16_t port;
} lists[] = {
	{"node%03u", 11300},
	{"node%u.cluster.example.org", 11211},
	{"10.0.0.%u", 11211},
	{"192.168.7.%u", 40000},
	{"fd00:1:2::%x", 11300},
	{"fe80::1:%x", 11211},
};

Test(ketama_same, lists_of_servers)
{
	static const uint32_t counts[] = {1, 2, 3, 4, 7, 8, 16, 41, 64, 100};

	for (size_t i = 0; i < TS_ARRAY_SIZE(lists); i++) {
		name_servers(lists[i].format, lists[i].port);
		for (size_t j = 0; j < TS_ARRAY_SIZE(counts); j++)
			compare(counts[j], lists[i].format);
	}
}

/* Where single precision may round a share down. */
Test(ketama_same, each_number_of_servers)
{
	name_servers("node%03u", 11300);
	for (uint32_t count = 1; count <= SERVERS; count++)
		compare(count, "all counts");
}

Test(ketama_same, weights)
{
	static const uint32_t weights[][4] = {{1, 2, 3, 4}, {1, 1, 1, 1000}, {7, 7, 7, 7},
		{256, 128, 512, 96}, {4096, 1, 1, 1}, {3, 5, 11, 13}};

	for (size_t i = 0; i < TS_ARRAY_SIZE(weights); i++) {
		name_servers("node%u", 11300);
		for (uint32_t j = 0; j < SERVERS; j++)
			servers[j].weight = weights[i][j % 4];
		compare(4, "weights");
		compare(9, "weights");
		compare(64, "weights");
	}
}

Test(ketama_same, ports_of_one_host)
{
	name_servers("node7", 11211);
	for (uint32_t i = 0; i < SERVERS; i++)
		servers[i].port = (uint16_t)(11200 + i);
	compare(64, "ports");
}
