/* SPDX-License-Identifier: MIT */
/* Free orders in tests: tests/unit/torch/orders.h explains them. */
#include "orders.h"

#include "hooks/torch/samples_private.h"
#include "leader/journal/journal_private.h"

#include <stdlib.h>
#include <string.h>

int64_t order_own[ORDER_COUNT];

/* The scope of the samples of @draw. */
void order_name_scope(uint32_t draw, unsigned char ret_scope[16])
{
	memset(ret_scope, 0, 16);
	memcpy(ret_scope, &draw, sizeof(draw));
	ret_scope[15] = 1;
}

struct ts_order *order_begun(uint32_t epoch)
{
	struct ts_order *order = tsshim_order_create(NULL);

	cr_assert(order != NULL);
	for (int i = 0; i < ORDER_COUNT; i++)
		order_own[i] = (i * 7 + 3) % ORDER_COUNT;
	cr_assert(eq(
		int, tsshim_order_begin(order, order_own, ORDER_COUNT, epoch, ORDER_TAG), 0));
	return order;
}

uint32_t order_occurrences[ORDER_COUNT];

/* Choose so many, and say the scopes that are wanted. */
uint64_t order_choose(struct ts_order *order, uint64_t count, int64_t *indices, uint32_t *draws)
{
	uint64_t chosen = 0;
	unsigned char scope[16];
	uint32_t wanted;

	cr_assert(le(u64, count, ORDER_COUNT));
	for (;;) {
		chosen = tsshim_order_choose(
			order, chosen, count, indices, order_occurrences, draws, &wanted);
		if (wanted == TS_ORDER_NO_DRAW)
			return chosen;
		order_name_scope(wanted, scope);
		tsshim_order_scope(order, wanted, scope);
	}
}

void order_expect_item(
	struct ts_order *order, int64_t index, uint32_t occurrence, uint32_t draw)
{
	int64_t indices[1];
	uint32_t draws[1];

	cr_assert(eq(u64, order_choose(order, 1, indices, draws), 1));
	cr_expect(eq(i64, indices[0], index));
	cr_expect(eq(u32, draws[0], draw));
	cr_expect(eq(u32, order_occurrences[0], occurrence));
}

void order_expect_next(struct ts_order *order, int64_t index, uint32_t draw)
{
	order_expect_item(order, index, 0, draw);
}

/* Another job says that it made it. */
void order_say(uint64_t tag, uint32_t index, uint32_t draw, uint32_t epoch)
{
	struct ts_note_made note = {.tag = tag, .index = index, .draw = draw, .epoch = epoch};
	struct ts_journal *journal;

	cr_assert(eq(int, ts_journal_attach(fixture_enter()->store, &journal), 0));
	struct ts_journal others = *journal;
	others.job++;
	ts_journal_write(&others, &note);
}

/* Somebody at @epoch makes @index for @draw; @noted: this job itself, which notes that. */
void order_make_noted(
	int64_t index, uint32_t occurrence, uint32_t draw, uint32_t epoch, bool noted)
{
	static struct ts_sample *sample;
	unsigned char scope[16], name[9] = {'i'};

	if (!sample)
		sample = torch_sample();
	order_name_scope(draw, scope);
	memcpy(name + 1, &index, sizeof(index));
	tsshim_sample_name(sample, scope, torch_stream, name, sizeof(name), occurrence, 0);
	if (noted)
		tsshim_sample_note(sample, ORDER_TAG, (uint32_t)index, draw, epoch);
	cr_assert(eq(int, tsshim_sample_take(sample, 0), TS_CLAIM));
	torch_publish(sample, ORDER_PAYLOAD, 1);
}

void order_make(int64_t index, uint32_t draw, uint32_t epoch)
{
	order_make_noted(index, 0, draw, epoch, false);
	order_say(ORDER_TAG, (uint32_t)index, draw, epoch);
}

void order_make_again(int64_t index, uint32_t occurrence, uint32_t draw, uint32_t epoch)
{
	order_make_noted(index, occurrence, draw, epoch, false);
	order_say(ts_note_tag(ORDER_TAG, occurrence), (uint32_t)index, draw, epoch);
}

void order_expect_end(struct ts_order *order)
{
	int64_t none[1];
	uint32_t draws[1];

	cr_expect(eq(u64, order_choose(order, 1, none, draws), 0));
}
