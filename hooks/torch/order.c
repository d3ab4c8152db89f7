/* SPDX-License-Identifier: MIT */
/* The free order: own order, what is lacking, what others made lately. */
#include "hooks/torch/order.h"

#include "hooks/torch/samples_private.h"
#include "leader/group/session.h"
#include "leader/journal/journal.h"

#include <stdlib.h>
#include <string.h>

/* ---- items --------------------------------------------------------------------------- */

/*
 * The items of a loader's epochs: which of them an epoch lacks, and which draw of each was the
 * last one.
 *
 * An item is an index, and how often that came before in the epoch: a sampler with weights, or
 * one that draws with replacement, gives an index several times, and each time is an item of
 * its own, with draws of its own, in all epochs.  Items have numbers that stay theirs: the
 * first time of an index is its own number, further ones are numbered as they are met.
 *
 * Memory: 4 bytes and a bit for each index, some 28 bytes for each further time.
 */

/* Of a number: it is that of a further time of an index. */
#define ITEM_AGAIN (UINT32_C(1) << 31)

/* No item; no index and no number is as large. */
#define ITEM_NONE UINT32_MAX

/* Indices are less. */
#define ITEM_INDICES ((int64_t)ITEM_AGAIN - 1)

/* A further time of an index. */
struct again {
	uint32_t index, occurrence;
	uint32_t last;  /* as in struct items */
	uint32_t times; /* with occurrence 1: how often the index came again in this epoch */
	bool lacks;
};

/* All 0: there are none. */
struct items {
	/* By index: whether it is lacking, and the last draw that was chosen, + 1. */
	uint64_t *lacks;
	uint32_t *last;
	uint64_t room; /* indices these two are for */
	struct again *again;
	uint32_t again_count, again_room;
	uint32_t *places; /* of a hash table: 0 or place in @again, + 1 */
	uint64_t place_count;
};

/* Further times of indices that there is room for at first. */
#define AGAIN_FIRST 64u

static void items_finish(struct items *items)
{
	free(items->lacks);
	free(items->last);
	free(items->again);
	free(items->places);
}

/* ---- further times ----------------------------------------------------------------------- */

/* Where a further time is, or would be; there is always a free place. */
static uint64_t place_of(const struct items *items, uint32_t index, uint32_t occurrence)
{
	uint64_t mixed = ((uint64_t)index << 32 | occurrence) * UINT64_C(0x9e3779b97f4a7c15);
	uint64_t place = (mixed ^ mixed >> 32) % items->place_count;

	for (; items->places[place] != 0; place = (place + 1) % items->place_count) {
		const struct again *again = &items->again[items->places[place] - 1];
		if (again->index == index && again->occurrence == occurrence)
			break;
	}
	return place;
}

/* Room for one more.  Errors: -ENOMEM. */
static int make_room_again(struct items *items)
{
	if (items->again_count < items->again_room)
		return 0;
	uint32_t room = items->again_room ? 2 * items->again_room : AGAIN_FIRST;
	if (room >= ITEM_AGAIN)
		return -ENOMEM;
	struct again *again = realloc(items->again, room * sizeof(*again));
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
static int64_t again_of(struct items *items, uint32_t index, uint32_t occurrence)
{
	if (make_room_again(items) < 0)
		return -ENOMEM;
	uint32_t *place = &items->places[place_of(items, index, occurrence)];
	if (*place == 0) {
		items->again[items->again_count] =
			(struct again){.index = index, .occurrence = occurrence};
		*place = ++items->again_count;
	}
	return *place - 1;
}

/* An index that came before comes again.  Returns the place of that time.  Errors: -ENOMEM. */
static int64_t come_again(struct items *items, uint32_t index)
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

/* ---- one item ---------------------------------------------------------------------------- */

static void set_lacking(struct items *items, uint64_t index, bool lacking)
{
	uint64_t bit = UINT64_C(1) << (index % 64);

	if (lacking)
		items->lacks[index / 64] |= bit;
	else
		items->lacks[index / 64] &= ~bit;
}

static struct again *as_again(const struct items *items, uint32_t number)
{
	return number & ITEM_AGAIN ? &items->again[number & ~ITEM_AGAIN] : NULL;
}

/* The number of the item, or ITEM_NONE; @index may be any number. */
static uint32_t items_find(const struct items *items, uint64_t index, uint32_t occurrence)
{
	if (index >= items->room)
		return ITEM_NONE;
	if (occurrence == 0)
		return (uint32_t)index;
	if (items->again_count == 0)
		return ITEM_NONE;
	uint32_t at = items->places[place_of(items, (uint32_t)index, occurrence)];
	return at ? ITEM_AGAIN | (at - 1) : ITEM_NONE;
}

static void items_name(const struct items *items, uint32_t number, uint32_t *ret_index,
	uint32_t *ret_occurrence)
{
	const struct again *again = as_again(items, number);

	*ret_index = again ? again->index : number;
	*ret_occurrence = again ? again->occurrence : 0;
}

static bool items_lack(const struct items *items, uint32_t number)
{
	const struct again *again = as_again(items, number);

	return again ? again->lacks : (items->lacks[number / 64] >> (number % 64) & 1) != 0;
}

/* The last draw of item @number that came, + 1. */
static uint32_t items_last(const struct items *items, uint32_t number)
{
	const struct again *again = as_again(items, number);

	return again ? again->last : items->last[number];
}

static void items_come(struct items *items, uint32_t number, uint32_t draw)
{
	struct again *again = as_again(items, number);

	if (again) {
		again->lacks = false;
		again->last = draw + 1;
	} else {
		set_lacking(items, number, false);
		items->last[number] = draw + 1;
	}
}

/* ---- an epoch ---------------------------------------------------------------------------- */

/* Room for indices below @room.  Errors: -ENOMEM. */
static int make_room(struct items *items, uint64_t room)
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

static void lack_nothing(struct items *items)
{
	if (items->room)
		memset(items->lacks, 0, items->room / 8);
	for (uint32_t i = 0; i < items->again_count; i++) {
		items->again[i].lacks = false;
		items->again[i].times = 0;
	}
}

/*
 * An epoch of the @count numbers at @indices begins, and lacks all of them.  Their items go to
 * @ret_numbers.  Errors: -ERANGE an index is no such number, and nothing has changed; -ENOMEM
 * this epoch is not to be gone through.
 */
static int items_begin(
	struct items *items, const int64_t *indices, uint64_t count, uint32_t *ret_numbers)
{
	uint64_t room = 0;

	for (uint64_t i = 0; i < count; i++) {
		if (indices[i] < 0 || indices[i] >= ITEM_INDICES)
			return -ERANGE;
		room = ts_max_u64(room, (uint64_t)indices[i] + 1);
	}
	if (make_room(items, room) < 0)
		return -ENOMEM;
	lack_nothing(items);
	for (uint64_t i = 0; i < count; i++) {
		uint32_t index = (uint32_t)indices[i];
		ret_numbers[i] = index;
		if (!items_lack(items, index)) {
			set_lacking(items, index, true);
			continue;
		}
		int64_t at = come_again(items, index);
		if (at < 0)
			return -ENOMEM;
		ret_numbers[i] = ITEM_AGAIN | (uint32_t)at;
	}
	return 0;
}

static uint32_t later(uint32_t one, uint32_t other)
{
	return one > other ? one : other;
}

/* The last draws that @other's epochs had were had by these, too.  Errors: -ENOMEM. */
static int items_learn(struct items *items, const struct items *other)
{
	if (make_room(items, other->room) < 0)
		return -ENOMEM;
	for (uint64_t i = 0; i < other->room; i++)
		items->last[i] = later(items->last[i], other->last[i]);
	for (uint32_t i = 0; i < other->again_count; i++) {
		const struct again *again = &other->again[i];
		int64_t at = again_of(items, again->index, again->occurrence);
		if (at < 0)
			return -ENOMEM;
		items->again[at].last = later(items->again[at].last, again->last);
	}
	return 0;
}

/* No draw of any item was had. */
static void items_forget(struct items *items)
{
	if (items->room)
		memset(items->last, 0, items->room * sizeof(*items->last));
	for (uint32_t i = 0; i < items->again_count; i++)
		items->again[i].last = 0;
}

/* ---- orders -------------------------------------------------------------------------- */

/* Draws whose names are known: those of the last so many epochs, of which few are in use. */
#define SCOPES 64u

/* Notes that are remembered until they are chosen; of more, the oldest are likely to be gone.
 */
#define READY 65536u

/* Nobody comes so far: behind that a draw that others say could pass TS_ORDER_NO_DRAW, and
 * begin again with what was had. */
#define DRAW_MAX (TS_ORDER_NO_DRAW / 2)

struct scope {
	uint64_t of; /* draw + 1; 0: none */
	unsigned char name[16];
};

struct ready {
	uint32_t item, draw;
};

struct ts_order {
	struct ts_order *next; /* beside this one, in a circle */
	struct items items;
	/* The own order: numbers of items. */
	uint32_t *own;
	uint64_t count, cursor;
	uint32_t epoch, front;
	uint64_t tag, read; /* turns of the journal before this one were read */
	bool has_begun;
	struct scope scopes[SCOPES];
	/* A stack of the newest, in a circle. */
	struct ready ready[READY];
	uint64_t low, high;
};

struct ts_order *tsshim_order_create(struct ts_order *beside)
{
	struct ts_order *order = calloc(1, sizeof(struct ts_order));

	if (!order)
		return NULL;
	order->next = beside ? beside->next : order;
	if (beside)
		beside->next = order;
	return order;
}

void tsshim_order_destroy(struct ts_order *order)
{
	struct ts_order *before = order;

	while (before->next != order)
		before = before->next;
	before->next = order->next;
	items_finish(&order->items);
	free(order->own);
	free(order);
}

/* ---- an epoch --------------------------------------------------------------------------- */

/* What an epoch later than those of its neighbours does not take again.  Errors: -ENOMEM. */
static int remember(struct ts_order *order, uint32_t epoch)
{
	int r = 0;

	if (order->has_begun && epoch <= order->epoch)
		items_forget(&order->items);
	for (const struct ts_order *other = order->next; other != order && r == 0;
		other = other->next)
		if (other->has_begun && other->epoch < epoch)
			r = items_learn(&order->items, &other->items);
	return r;
}

int tsshim_order_begin(struct ts_order *order, const int64_t *indices, uint64_t count,
	uint32_t epoch, uint64_t tag)
{
	uint32_t *own = malloc(ts_max_u64(count, 1) * sizeof(*own));
	int r = own ? items_begin(&order->items, indices, count, own) : -ENOMEM;

	if (r == 0)
		r = remember(order, epoch);
	if (r < 0) {
		free(own);
		return r;
	}
	free(order->own);
	order->own = own;
	order->count = count;
	if (tag != order->tag || !order->has_begun)
		order->front = 0;
	order->has_begun = true;
	order->epoch = epoch;
	order->tag = tag;
	/* What was read for the epoch before is looked through again, for what it lacks. */
	order->cursor = order->read = order->low = order->high = 0;
	return 0;
}

int tsshim_order_had(struct ts_order *order, int64_t index, uint32_t occurrence, uint32_t draw)
{
	uint32_t item = items_find(&order->items, (uint64_t)index, occurrence);

	if (item == ITEM_NONE || !items_lack(&order->items, item))
		return -ENOENT;
	items_come(&order->items, item, draw);
	return 0;
}

void tsshim_order_scope(struct ts_order *order, uint32_t draw, const void *scope)
{
	struct scope *place = &order->scopes[draw % SCOPES];

	place->of = (uint64_t)draw + 1;
	memcpy(place->name, scope, sizeof(place->name));
}

/* ---- what others made ------------------------------------------------------------------- */

/* A look at the ring and its journal, during one call. */
struct look {
	struct ts_order *order;
	struct ts_store *store;
	struct ts_journal *journal; /* NULL: nobody says anything */
	uint32_t wanted;            /* a draw without a name, or TS_ORDER_NO_DRAW */
};

/* Errors: -EAGAIN the name of that draw is wanted first. */
static int peek(struct look *look, uint32_t index, uint32_t occurrence, uint32_t draw,
	enum ts_presence *ret_presence)
{
	const struct scope *scope = &look->order->scopes[draw % SCOPES];

	if (scope->of != (uint64_t)draw + 1) {
		look->wanted = draw;
		return -EAGAIN;
	}
	struct ts_key key = ts_sample_key(scope->name, index, occurrence);
	*ret_presence = ts_store_peek(look->store, &key);
	return 0;
}

/* Whether an order beside this one took that draw of the item as its last one. */
static bool is_taken_beside(const struct ts_order *order, uint32_t item, uint32_t draw)
{
	uint32_t index, occurrence;

	items_name(&order->items, item, &index, &occurrence);
	for (const struct ts_order *other = order->next; other != order; other = other->next) {
		uint32_t its = items_find(&other->items, index, occurrence);
		if (its != ITEM_NONE && items_last(&other->items, its) == draw + 1)
			return true;
	}
	return false;
}

static bool is_new(const struct ts_order *order, uint32_t item, uint32_t draw)
{
	return items_lack(&order->items, item) && draw >= items_last(&order->items, item) &&
	       !is_taken_beside(order, item, draw);
}

static void push(struct ts_order *order, uint32_t item, uint32_t draw)
{
	order->ready[order->high++ % READY] = (struct ready){.item = item, .draw = draw};
	if (order->high - order->low > READY)
		order->low++;
}

/* Whether the note is one of ours to look at. */
static bool is_ours(
	const struct ts_order *order, const struct ts_note_made *note, uint32_t *ret_occurrence)
{
	return !note->mine && ts_note_is_of(note->tag, order->tag, ret_occurrence) &&
	       note->draw <= DRAW_MAX && note->epoch <= note->draw;
}

/* What another job made; where it says who is in front, that has to be true.  Errors: -EAGAIN.
 */
static int read_note(struct look *look, const struct ts_note_made *note)
{
	struct ts_order *order = look->order;
	enum ts_presence presence;
	uint32_t occurrence;

	if (!is_ours(order, note, &occurrence))
		return 0;
	if (note->epoch > ts_max_u64(order->front, order->epoch)) {
		int r = peek(look, note->index, occurrence, note->draw, &presence);
		if (r < 0)
			return r;
		if (presence == TS_ABSENT)
			return 0;
		order->front = note->epoch;
	}
	uint32_t item = items_find(&order->items, note->index, occurrence);
	if (item != ITEM_NONE && is_new(order, item, note->draw))
		push(order, item, note->draw);
	return 0;
}

/* What the journal has of new.  Errors: -EAGAIN. */
static int read_journal(struct look *look)
{
	uint64_t *at = &look->order->read;
	struct ts_note_made note;

	if (!look->journal)
		return 0;
	uint64_t end = ts_journal_end(look->journal);
	uint64_t begin = ts_journal_begin(look->journal, end);
	/* One that was overtaken goes on with the oldest that is there. */
	if (*at < begin || *at > end)
		*at = begin;
	for (; *at < end; (*at)++) {
		int r = ts_journal_read(look->journal, *at, &note) ? read_note(look, &note) : 0;
		if (r < 0)
			return r;
	}
	return 0;
}

/* The newest that is there.  Errors: -ENOENT none is; -EAGAIN. */
static int choose_made(struct look *look, struct ready *ret_chosen)
{
	struct ts_order *order = look->order;
	enum ts_presence presence;
	uint32_t index, occurrence;

	while (order->high > order->low) {
		struct ready *newest = &order->ready[(order->high - 1) % READY];
		if (!is_new(order, newest->item, newest->draw)) {
			order->high--;
			continue;
		}
		items_name(&order->items, newest->item, &index, &occurrence);
		int r = peek(look, index, occurrence, newest->draw, &presence);
		if (r < 0)
			return r;
		order->high--;
		if (presence == TS_PRESENT) {
			*ret_chosen = *newest;
			return 0;
		}
	}
	return -ENOENT;
}

/* ---- choosing --------------------------------------------------------------------------- */

/* The next of the own order.  Errors: -ENOENT the epoch is over. */
static int choose_own(struct ts_order *order, struct ready *ret_chosen)
{
	while (order->cursor < order->count) {
		uint32_t item = order->own[order->cursor++];
		if (!items_lack(&order->items, item))
			continue;
		uint64_t draw = ts_max_u64(order->epoch, order->front);
		draw = ts_max_u64(draw, items_last(&order->items, item));
		while (is_taken_beside(order, item, (uint32_t)draw))
			draw++;
		*ret_chosen = (struct ready){.item = item, .draw = (uint32_t)draw};
		return 0;
	}
	return -ENOENT;
}

static void begin_look(struct look *look, struct ts_order *order)
{
	enum ts_reason none;
	const struct ts_session *session = order->tag ? ts_session_enter(&none) : NULL;

	*look = (struct look){.order = order, .wanted = TS_ORDER_NO_DRAW};
	if (!session)
		return;
	look->store = session->store;
	if (ts_journal_attach(session->store, &look->journal) < 0)
		look->journal = NULL;
}

uint64_t tsshim_order_choose(struct ts_order *order, uint64_t from, uint64_t count,
	int64_t *ret_indices, uint32_t *ret_occurrences, uint32_t *ret_draws,
	uint32_t *ret_wanted)
{
	struct look look;
	struct ready chosen;
	uint32_t index;

	begin_look(&look, order);
	int r = read_journal(&look);
	for (; r == 0 && from < count; from++) {
		r = look.journal ? choose_made(&look, &chosen) : -ENOENT;
		if (r == -ENOENT)
			r = choose_own(order, &chosen);
		if (r < 0)
			break;
		items_name(&order->items, chosen.item, &index, &ret_occurrences[from]);
		ret_indices[from] = index;
		ret_draws[from] = chosen.draw;
		items_come(&order->items, chosen.item, chosen.draw);
	}
	*ret_wanted = look.wanted;
	return from;
}
