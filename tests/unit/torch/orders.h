/* SPDX-License-Identifier: MIT */
/* The free order of one loader in tests, and other jobs that make and say something. */
#ifndef TS_TESTS_TORCH_ORDERS_H
#define TS_TESTS_TORCH_ORDERS_H

#include "fixture.h"

#include "hooks/torch/order.h"

#define ORDER_TAG     UINT64_C(99)
#define ORDER_COUNT   40
#define ORDER_PAYLOAD UINT64_C(1000)

/** The own order of all jobs here. */
extern int64_t order_own[ORDER_COUNT];

/** Of what was chosen last. */
extern uint32_t order_occurrences[ORDER_COUNT];

/** The scope of the samples of @draw. */
void order_name_scope(uint32_t draw, unsigned char ret_scope[16]);

/** An order whose @epoch begins. */
struct ts_order *order_begun(uint32_t epoch);

/** Choose so many, and say the scopes that are wanted. */
uint64_t order_choose(
	struct ts_order *order, uint64_t count, int64_t *indices, uint32_t *draws);

/** What comes next; that nothing does. */
void order_expect_item(
	struct ts_order *order, int64_t index, uint32_t occurrence, uint32_t draw);
void order_expect_next(struct ts_order *order, int64_t index, uint32_t draw);
void order_expect_end(struct ts_order *order);

/** Another job says that it made it. */
void order_say(uint64_t tag, uint32_t index, uint32_t draw, uint32_t epoch);

/** Somebody at @epoch makes @index for @draw; @noted: this job itself, which notes that. */
void order_make_noted(
	int64_t index, uint32_t occurrence, uint32_t draw, uint32_t epoch, bool noted);

/** Another job makes it and says so. */
void order_make(int64_t index, uint32_t draw, uint32_t epoch);
void order_make_again(int64_t index, uint32_t occurrence, uint32_t draw, uint32_t epoch);

#endif
