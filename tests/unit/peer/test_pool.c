/* SPDX-License-Identifier: MIT */
/* Which server has a key. */
#include "leader/peer/pool.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>

#define KEYS 20000u
#define MOST 64u

static char names[MOST][16];
static struct ts_cluster_server servers[MOST];

static struct ts_pool *pool_of(uint32_t count)
{
	const struct ts_pool_hooks hooks = {.told = NULL};
	struct ts_pool *pool = NULL;

	cr_assert(eq(int, ts_pool_create(servers, count, NULL, &hooks, &pool), 0));
	return pool;
}

static void begin(void)
{
	for (uint32_t i = 0; i < MOST; i++) {
		snprintf(names[i], sizeof(names[i]), "10.1.0.%u", i);
		servers[i] = (struct ts_cluster_server){
			.host = names[i], .port = 11300, .weight = 1};
	}
}

TestSuite(pool_keys, .init = begin);

static const char *key_of(uint32_t number)
{
	static char key[32];

	snprintf(key, sizeof(key), "f1:%u.0:0", number);
	return key;
}

static void count_keys(uint32_t count, uint32_t *ret_keys)
{
	struct ts_pool *pool = pool_of(count);

	for (uint32_t i = 0; i < count; i++)
		ret_keys[i] = 0;
	for (uint32_t i = 0; i < KEYS; i++)
		ret_keys[ts_pool_server(pool, key_of(i))]++;
	ts_pool_destroy(pool);
}

/* The keys are given, so this is one outcome and no chance. */
Test(pool_keys, servers_have_a_part_by_their_weight)
{
	static const uint32_t weights[] = {1, 2, 7, 1};
	uint32_t keys[MOST];

	count_keys(16, keys);
	for (uint32_t i = 0; i < 16; i++)
		cr_expect(keys[i] > KEYS / 20 && keys[i] < KEYS / 12, "%u: %u", i, keys[i]);
	for (uint32_t i = 0; i < TS_ARRAY_SIZE(weights); i++)
		servers[i].weight = weights[i];
	count_keys(TS_ARRAY_SIZE(weights), keys);
	for (uint32_t i = 0; i < TS_ARRAY_SIZE(weights); i++) {
		uint32_t wanted = KEYS * weights[i] / 11;
		cr_expect(keys[i] > wanted - wanted / 10 && keys[i] < wanted + wanted / 10,
			"%u: %u", i, keys[i]);
	}
}

Test(pool_keys, a_server_that_leaves_moves_its_own_keys_and_no_others)
{
	for (uint32_t count = 2; count <= MOST; count *= 2) {
		servers[1].weight = 3;
		struct ts_pool *all = pool_of(count), *fewer = pool_of(count - 1);
		for (uint32_t i = 0; i < 1000; i++) {
			uint32_t before = ts_pool_server(all, key_of(i));
			uint32_t after = ts_pool_server(fewer, key_of(i));
			cr_expect(before == after || before == count - 1, "%u of %u", i, count);
		}
		ts_pool_destroy(all);
		ts_pool_destroy(fewer);
	}
}

/* All nodes have to find the same server, whatever is built where. */
Test(pool_keys, these_are_where_they_are_on_all_nodes)
{
	static const uint32_t wanted[] = {3, 1, 0, 1, 0, 0, 3, 1};
	struct ts_pool *pool = pool_of(5);

	for (uint32_t i = 0; i < TS_ARRAY_SIZE(wanted); i++)
		cr_expect(eq(u32, ts_pool_server(pool, key_of(i)), wanted[i]), "%u", i);
	ts_pool_destroy(pool);
}

Test(pool_keys, there_must_be_a_server_and_not_too_many)
{
	const struct ts_pool_hooks hooks = {.told = NULL};
	struct ts_pool *pool = NULL;

	cr_expect(eq(int, ts_pool_create(servers, 0, NULL, &hooks, &pool), -EINVAL));
	cr_expect(eq(int, ts_pool_create(servers, TS_CLUSTER_SERVERS + 1, NULL, &hooks, &pool),
		-EINVAL));
}
