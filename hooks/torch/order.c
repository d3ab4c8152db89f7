/* SPDX-License-Identifier: MIT */
/* The free order: own order, what is lacking, what others made lately. */
#include "hooks/torch/order.h"

#include "hooks/torch/items.h"
#include "hooks/torch/samples_private.h"
#include "leader/group/session.h"
#include "leader/journal/journal.h"

#include <stdlib.h>
#include <string.h>

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
	struct ts_items items;
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
	ts_items_finish(&order->items);
	free(order->own);
	free(order);
}

/* ---- an epoch --------------------------------------------------------------------------- */

/* What an epoch later than those of its neighbours does not take again.  Errors: -ENOMEM. */
static int remember(struct ts_order *order, uint32_t epoch)
{
	int r = 0;

	if (order->has_begun && epoch <= order->epoch)
		ts_items_forget(&order->items);
	for (const struct ts_order *other = order->next; other != order && r == 0;
		other = other->next)
		if (other->has_begun && other->epoch < epoch)
			r = ts_items_learn(&order->items, &other->items);
	return r;
}

int tsshim_order_begin(struct ts_order *order, const int64_t *indices, uint64_t count,
	uint32_t epoch, uint64_t tag)
{
	uint32_t *own = malloc(ts_max_u64(count, 1) * sizeof(*own));
	int r = own ? ts_items_begin(&order->items, indices, count, own) : -ENOMEM;

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
	uint32_t item = ts_items_find(&order->items, (uint64_t)index, occurrence);

	if (item == TS_ITEM_NONE || !ts_items_lack(&order->items, item))
		return -ENOENT;
	ts_items_come(&order->items, item, draw);
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

	ts_items_name(&order->items, item, &index, &occurrence);
	for (const struct ts_order *other = order->next; other != order; other = other->next) {
		uint32_t its = ts_items_find(&other->items, index, occurrence);
		if (its != TS_ITEM_NONE && ts_items_last(&other->items, its) == draw + 1)
			return true;
	}
	return false;
}

static bool is_new(const struct ts_order *order, uint32_t item, uint32_t draw)
{
	return ts_items_lack(&order->items, item) &&
	       draw >= ts_items_last(&order->items, item) &&
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
	uint32_t item = ts_items_find(&order->items, note->index, occurrence);
	if (item != TS_ITEM_NONE && is_new(order, item, note->draw))
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
		ts_items_name(&order->items, newest->item, &index, &occurrence);
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
		if (!ts_items_lack(&order->items, item))
			continue;
		uint64_t draw = ts_max_u64(order->epoch, order->front);
		draw = ts_max_u64(draw, ts_items_last(&order->items, item));
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
		ts_items_name(&order->items, chosen.item, &index, &ret_occurrences[from]);
		ret_indices[from] = index;
		ret_draws[from] = chosen.draw;
		ts_items_come(&order->items, chosen.item, chosen.draw);
	}
	*ret_wanted = look.wanted;
	return from;
}
