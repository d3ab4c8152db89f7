/* SPDX-License-Identifier: MIT */
/* Samples that make room for newer ones at servers that are full. */
#include "samples.h"

#include "shim/atomic.h"
#include "tests/unit/clock.h"

#include <string.h>

static struct node node;

static void begin(void)
{
	samples_begin(&node, 1);
}

TestSuite(transfer_room, .init = begin, .fini = samples_end);

#define FEW 6 /* and four make room at a time */

/* They are there, and have been for so long; there is no more room. */
static void give_few(uint32_t first, uint64_t bytes, uint64_t ns)
{
	for (uint32_t i = 0; i < FEW; i++)
		sample_give(first + i, bytes);
	node.room = 1;
	clock_pass(ns);
}

Test(transfer_room, old_ones_make_room)
{
	static const uint64_t sizes[] = {1000, 2 * SAMPLE_CHUNK};

	for (uint32_t i = 0; i < TS_ARRAY_SIZE(sizes); i++) {
		uint32_t first = 10 * i, last = first + FEW;
		node.room = 0;
		give_few(first, sizes[i], TS_TRANSFER_KEEP_NS);
		sample_give(last, sizes[i]);
		cr_expect(eq(int, sample_seek(last), TS_MAIL_SAYS_GOT));
		sample_expect(last, sizes[i]);
		for (uint32_t j = first; i == 0 && j < last; j++)
			cr_expect(eq(int, sample_seek(j),
				j < 4 ? TS_MAIL_SAYS_WON : TS_MAIL_SAYS_GOT));
	}
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_REMOVED), 8));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_FULL), 0));
}

Test(transfer_room, young_ones_stay)
{
	give_few(0, 1000, TS_TRANSFER_KEEP_NS - 1);
	cr_assert(eq(int, sample_seek(10), TS_MAIL_SAYS_WON));
	sample_publish(10, TS_KIND_SAMPLE, 1000);
	sample_hand_over(10);
	cr_expect(eq(uint, node.deleted, 1), "its place");
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_FULL), 1));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_REMOVED), 0));
	for (uint32_t i = 0; i < FEW; i++)
		cr_expect(eq(int, sample_seek(i), TS_MAIL_SAYS_GOT));
}

static bool has_never_room(struct node *of, const struct command *command)
{
	if (strcmp(command->word, "ms") != 0)
		return false;
	node_printf(of, "SERVER_ERROR out of memory storing object\r\n");
	return true;
}

Test(transfer_room, where_removing_does_not_help_it_is_given_up)
{
	give_few(0, 2 * SAMPLE_CHUNK, TS_TRANSFER_KEEP_NS);
	node.lies = has_never_room;
	cr_assert(eq(int, sample_seek(10), TS_MAIL_SAYS_WON));
	sample_publish(10, TS_KIND_SAMPLE, 2 * SAMPLE_CHUNK);
	sample_hand_over(10);
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_FULL), 1));
	cr_expect(eq(u64, node_counter(&node, TS_MAIL_COUNT_REMOVED), 4));
	cr_expect(eq(u32, ts_transfers_count(node.transfers), 0));
	node.lies = NULL;
	cr_expect(eq(int, sample_seek(10), TS_MAIL_SAYS_WON));
}
