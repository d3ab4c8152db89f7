/* SPDX-License-Identifier: MIT */
/* The items of a loader's epochs. */
#include "hooks/torch/items.h"

#include <stdlib.h>
#include <string.h>

/* Further times of indices that there is room for at first. */
#define AGAIN_FIRST 64u

void ts_items_finish(struct ts_items *items)
{
	free(items->lacks);
	free(items->last);
	free(items->again);
	free(items->places);
	*items = (struct ts_items){.room = 0};
}

/* ---- further times ----------------------------------------------------------------------- */

/* Where a further time is, or would be; there is always a free place. */
static uint64_t place_of(const struct ts_items *items, uint32_t index, uint32_t occurrence)
{
	uint64_t mixed = ((uint64_t)index << 32 | occurrence) * UINT64_C(0x9e3779b97f4a7c15);
	uint64_t place = (mixed ^ mixed >> 32) % items->place_count;

	for (; items->places[place] != 0; place = (place + 1) % items->place_count) {
		const struct ts_item_again *again = &items->again[items->places[place] - 1];
		if (again->index == index && again->occurrence == occurrence)
			break;
	}
	return place;
}

/* Room for one more.  Errors: -ENOMEM. */
static int make_room_again(struct ts_items *items)
{
	if (items->again_count < items->again_room)
		return 0;
	uint32_t room = items->again_room ? 2 * items->again_room : AGAIN_FIRST;
	if (room >= TS_ITEM_AGAIN)
		return -ENOMEM;
	struct ts_item_again *again = realloc(items->again, room * sizeof(*again));
	if (!again)
		return -ENOMEM;
	memset(&again[items->again_room], 0, (room - items->again_room) * sizeof(*again));
	items->again = again;
	uint32_t *places = calloc(2 * (uint64_t)room, sizeof(*places));
	if (!places)
		return -ENOMEM;
	free(items->places);
	items->places = places;
	items->place_count = 2 * (uint64_t)room;
	items->again_room = room;
	for (uint32_t i = 0; i < items->again_count; i++)
		places[place_of(items, again[i].index, again[i].occurrence)] = i + 1;
	return 0;
}

/* Its place in @again, made when it is new.  Errors: -ENOMEM. */
static int64_t again_of(struct ts_items *items, uint32_t index, uint32_t occurrence)
{
	if (make_room_again(items) < 0)
		return -ENOMEM;
	uint32_t *place = &items->places[place_of(items, index, occurrence)];
	if (*place == 0) {
		items->again[items->again_count] =
			(struct ts_item_again){.index = index, .occurrence = occurrence};
		*place = ++items->again_count;
	}
	return *place - 1;
}

/* An index that came before comes again.  Returns the place of that time.  Errors: -ENOMEM. */
static int64_t come_again(struct ts_items *items, uint32_t index)
{
	int64_t first = again_of(items, index, 1);
	if (first < 0)
		return first;
	uint32_t occurrence = ++items->again[first].times;
	int64_t at = occurrence == 1 ? first : again_of(items, index, occurrence);
	if (at >= 0)
		items->again[at].lacks = true;
	return at;
}

/* ---- an epoch ---------------------------------------------------------------------------- */

static void set_lacking(struct ts_items *items, uint64_t index, bool lacking)
{
	uint64_t bit = UINT64_C(1) << (index % 64);

	if (lacking)
		items->lacks[index / 64] |= bit;
	else
		items->lacks[index / 64] &= ~bit;
}

/* Room for indices below @room.  Errors: -ENOMEM. */
static int make_room(struct ts_items *items, uint64_t room)
{
	if (room <= items->room)
		return 0;
	room = ts_align_up(room, 64);
	uint64_t *lacks = realloc(items->lacks, room / 8);
	if (!lacks)
		return -ENOMEM;
	items->lacks = lacks;
	memset(lacks + items->room / 64, 0, (room - items->room) / 8);
	uint32_t *last = realloc(items->last, room * sizeof(*last));
	if (!last)
		return -ENOMEM;
	items->last = last;
	memset(last + items->room, 0, (room - items->room) * sizeof(*last));
	items->room = room;
	return 0;
}

static void lack_nothing(struct ts_items *items)
{
	if (items->room)
		memset(items->lacks, 0, items->room / 8);
	for (uint32_t i = 0; i < items->again_count; i++) {
		items->again[i].lacks = false;
		items->again[i].times = 0;
	}
}

int ts_items_begin(
	struct ts_items *items, const int64_t *indices, uint64_t count, uint32_t *ret_numbers)
{
	uint64_t room = 0;

	for (uint64_t i = 0; i < count; i++) {
		if (indices[i] < 0 || indices[i] >= TS_ITEM_INDICES)
			return -ERANGE;
		room = ts_max_u64(room, (uint64_t)indices[i] + 1);
	}
	if (make_room(items, room) < 0)
		return -ENOMEM;
	lack_nothing(items);
	for (uint64_t i = 0; i < count; i++) {
		uint32_t index = (uint32_t)indices[i];
		ret_numbers[i] = index;
		if (!ts_items_lack(items, index)) {
			set_lacking(items, index, true);
			continue;
		}
		int64_t at = come_again(items, index);
		if (at < 0)
			return -ENOMEM;
		ret_numbers[i] = TS_ITEM_AGAIN | (uint32_t)at;
	}
	return 0;
}

static uint32_t later(uint32_t one, uint32_t other)
{
	return one > other ? one : other;
}

int ts_items_learn(struct ts_items *items, const struct ts_items *other)
{
	if (make_room(items, other->room) < 0)
		return -ENOMEM;
	for (uint64_t i = 0; i < other->room; i++)
		items->last[i] = later(items->last[i], other->last[i]);
	for (uint32_t i = 0; i < other->again_count; i++) {
		const struct ts_item_again *again = &other->again[i];
		int64_t at = again_of(items, again->index, again->occurrence);
		if (at < 0)
			return -ENOMEM;
		items->again[at].last = later(items->again[at].last, again->last);
	}
	return 0;
}

void ts_items_forget(struct ts_items *items)
{
	if (items->room)
		memset(items->last, 0, items->room * sizeof(*items->last));
	for (uint32_t i = 0; i < items->again_count; i++)
		items->again[i].last = 0;
}

/* ---- one item ---------------------------------------------------------------------------- */

static struct ts_item_again *as_again(const struct ts_items *items, uint32_t number)
{
	return number & TS_ITEM_AGAIN ? &items->again[number & ~TS_ITEM_AGAIN] : NULL;
}

uint32_t ts_items_find(const struct ts_items *items, uint64_t index, uint32_t occurrence)
{
	if (index >= items->room)
		return TS_ITEM_NONE;
	if (occurrence == 0)
		return (uint32_t)index;
	if (items->again_count == 0)
		return TS_ITEM_NONE;
	uint32_t at = items->places[place_of(items, (uint32_t)index, occurrence)];
	return at ? TS_ITEM_AGAIN | (at - 1) : TS_ITEM_NONE;
}

void ts_items_name(const struct ts_items *items, uint32_t number, uint32_t *ret_index,
	uint32_t *ret_occurrence)
{
	const struct ts_item_again *again = as_again(items, number);

	*ret_index = again ? again->index : number;
	*ret_occurrence = again ? again->occurrence : 0;
}

bool ts_items_lack(const struct ts_items *items, uint32_t number)
{
	const struct ts_item_again *again = as_again(items, number);

	return again ? again->lacks : (items->lacks[number / 64] >> (number % 64) & 1) != 0;
}

uint32_t ts_items_last(const struct ts_items *items, uint32_t number)
{
	const struct ts_item_again *again = as_again(items, number);

	return again ? again->last : items->last[number];
}

void ts_items_come(struct ts_items *items, uint32_t number, uint32_t draw)
{
	struct ts_item_again *again = as_again(items, number);

	if (again) {
		again->lacks = false;
		again->last = draw + 1;
	} else {
		set_lacking(items, number, false);
		items->last[number] = draw + 1;
	}
}
