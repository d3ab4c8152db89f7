/* SPDX-License-Identifier: MIT */
/* Who has which key; that it is as libmemcached has it says test_ketama_same.c. */
#include "leader/peer/ketama.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdio.h>
#include <string.h>

#define KEYS    20000
#define SERVERS 64

static char names[SERVERS][16];
static struct ts_ketama_server servers[SERVERS];

static void begin(void)
{
	for (unsigned i = 0; i < SERVERS; i++) {
		snprintf(names[i], sizeof(names[i]), "node%u", i);
		servers[i] = (struct ts_ketama_server){names[i], 11300, 1};
	}
}

TestSuite(ketama, .init = begin);

static struct ts_ketama *make(uint32_t count)
{
	struct ts_ketama *ketama = NULL;

	cr_assert(eq(int, ts_ketama_create(servers, count, &ketama), 0));
	return ketama;
}

static int find(struct ts_ketama *ketama, unsigned number)
{
	char key[32];
	int length = snprintf(key, sizeof(key), "v1:%08x:0", number * 2654435761u);

	return ts_ketama_find(ketama, key, (size_t)length);
}

Test(ketama, one_server_has_all)
{
	struct ts_ketama *ketama = make(1);

	for (unsigned i = 0; i < 100; i++)
		cr_expect(eq(int, find(ketama, i), 0));
	ts_ketama_destroy(ketama);
}

Test(ketama, what_cannot_be_is_refused)
{
	static char long_name[TS_KETAMA_HOST + 2];
	struct ts_ketama *ketama = NULL;
	struct ts_ketama_server wrong[] = {
		{"", 1, 1}, {NULL, 1, 1}, {"a", 0, 1}, {"a", 1, 0}, {long_name, 1, 1}};

	memset(long_name, 'a', TS_KETAMA_HOST + 1);
	cr_expect(eq(int, ts_ketama_create(servers, 0, &ketama), -EINVAL));
	cr_expect(eq(int, ts_ketama_create(servers, TS_KETAMA_SERVERS + 1, &ketama), -EINVAL));
	for (size_t i = 0; i < TS_ARRAY_SIZE(wrong); i++)
		cr_expect(eq(int, ts_ketama_create(&wrong[i], 1, &ketama), -EINVAL), "%zu", i);
	cr_expect(eq(ptr, ketama, NULL));
}

/* Servers that have as many points with and without the last one keep what they have. */
static bool is_even(uint32_t count)
{
	struct ts_ketama *all = make(count), *fewer = make(count - 1);
	bool even = true;

	for (uint32_t i = 0; i < count; i++)
		even = even && ts_ketama_points(all, i) == 160 &&
		       (i == count - 1 || ts_ketama_points(fewer, i) == 160);
	ts_ketama_destroy(all);
	ts_ketama_destroy(fewer);
	return even;
}

Test(ketama, a_server_that_leaves_moves_its_own_keys_only)
{
	unsigned looked_at = 0;

	for (uint32_t count = 2; count <= SERVERS; count++) {
		if (!is_even(count))
			continue;
		struct ts_ketama *all = make(count), *fewer = make(count - 1);
		unsigned moved = 0;
		for (unsigned i = 0; i < KEYS; i++) {
			int before = find(all, i), after = find(fewer, i);
			cr_assert(ne(int, before == after, before == (int)count - 1),
				"%u of %u: from %d to %d", i, count, before, after);
			moved += before != after;
		}
		looked_at++;
		/* The keys are given: one outcome, and no chance. */
		cr_expect(ge(uint, 2 * moved * count, KEYS), "%u of %u", moved, count);
		cr_expect(le(uint, moved * count, 2 * KEYS), "%u of %u", moved, count);
		ts_ketama_destroy(all);
		ts_ketama_destroy(fewer);
	}
	cr_expect(ge(uint, looked_at, 16));
}

Test(ketama, rounding_costs_a_server_four_points_at_most)
{
	for (uint32_t count = 1; count <= SERVERS; count++) {
		struct ts_ketama *ketama = make(count);
		for (uint32_t i = 0; i < count; i++)
			cr_expect(ge(u32, ts_ketama_points(ketama, i), 156));
		ts_ketama_destroy(ketama);
	}
}

Test(ketama, a_weight_is_a_share)
{
	servers[1].weight = 3;
	struct ts_ketama *ketama = make(2);

	cr_expect(eq(u32, ts_ketama_points(ketama, 0), 80));
	cr_expect(eq(u32, ts_ketama_points(ketama, 1), 240));
	ts_ketama_destroy(ketama);
}
