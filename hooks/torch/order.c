/* SPDX-License-Identifier: MIT */
/* The free order: own order, what is lacking, what others made lately. */
#include "hooks/torch/order.h"

#include "hooks/torch/samples_private.h"
#include "leader/group/session.h"
#include "leader/journal/journal.h"

#include <stdlib.h>
#include <string.h>

/* In an entry of the own order: this index came before in this epoch. */
#define REPEATED (UINT32_C(1) << 31)

/* Such an entry that has come out of its turn; no index is as large. */
#define GONE      UINT32_MAX
#define INDEX_END ((int64_t)REPEATED - 1)

/* Draws whose names are known: those of the last so many epochs, of which few are in use. */
#define SCOPES 64u

/* Notes that are remembered until they are chosen; of more, the oldest are likely to be gone.
 */
#define READY 65536u

struct scope {
	uint64_t of; /* draw + 1; 0: none */
	unsigned char name[16];
};

struct ready {
	uint32_t index, draw;
};

struct ts_order {
	/* The own order. */
	uint32_t *own;
	uint64_t count, cursor;
	/* By index: whether it is lacking, and the last draw that was chosen, + 1. */
	uint64_t *lacks;
	uint32_t *last;
	uint64_t room; /* indices these two are for */
	uint32_t epoch, front;
	uint64_t tag, read; /* turns of the journal before this one were read */
	bool has_begun;
	struct scope scopes[SCOPES];
	/* A stack of the newest, in a circle. */
	struct ready ready[READY];
	uint64_t low, high;
};

struct ts_order *tsshim_order_create(void)
{
	return calloc(1, sizeof(struct ts_order));
}

void tsshim_order_destroy(struct ts_order *order)
{
	free(order->own);
	free(order->lacks);
	free(order->last);
	free(order);
}

/* ---- an epoch --------------------------------------------------------------------------- */

static bool is_lacking(const struct ts_order *order, uint64_t index)
{
	return index < order->room && (order->lacks[index / 64] >> (index % 64) & 1) != 0;
}

static void set_lacking(struct ts_order *order, uint64_t index, bool lacking)
{
	uint64_t bit = UINT64_C(1) << (index % 64);

	if (lacking)
		order->lacks[index / 64] |= bit;
	else
		order->lacks[index / 64] &= ~bit;
}

/* Room for indices below @room.  Errors: -ENOMEM. */
static int make_room(struct ts_order *order, uint64_t room)
{
	if (room <= order->room)
		return 0;
	room = ts_align_up(room, 64);
	uint64_t *lacks = realloc(order->lacks, room / 8);
	if (!lacks)
		return -ENOMEM;
	order->lacks = lacks;
	uint32_t *last = realloc(order->last, room * sizeof(*last));
	if (!last)
		return -ENOMEM;
	order->last = last;
	memset(last + order->room, 0, (room - order->room) * sizeof(*last));
	order->room = room;
	return 0;
}

/* How many come again. */
static uint64_t take_over(struct ts_order *order, const int64_t *indices)
{
	uint64_t repeated = 0;

	memset(order->lacks, 0, order->room / 8);
	for (uint64_t i = 0; i < order->count; i++) {
		uint64_t index = (uint64_t)indices[i];
		bool again = is_lacking(order, index);
		order->own[i] = (uint32_t)index | (again ? REPEATED : 0);
		set_lacking(order, index, true);
		repeated += again;
	}
	return repeated;
}

int tsshim_order_begin(struct ts_order *order, const int64_t *indices, uint64_t count,
	uint32_t epoch, uint64_t tag)
{
	uint64_t room = 0;

	for (uint64_t i = 0; i < count; i++) {
		if (indices[i] < 0 || indices[i] >= INDEX_END)
			return -ERANGE;
		room = ts_max_u64(room, (uint64_t)indices[i] + 1);
	}
	uint32_t *own = malloc(ts_max_u64(count, 1) * sizeof(*own));
	if (!own || make_room(order, room) < 0) {
		free(own);
		return -ENOMEM;
	}
	free(order->own);
	order->own = own;
	order->count = count;
	if (order->has_begun && epoch <= order->epoch)
		memset(order->last, 0, order->room * sizeof(*order->last));
	if (tag != order->tag || !order->has_begun)
		order->front = 0;
	order->has_begun = true;
	order->epoch = epoch;
	order->tag = tag;
	/* What was read for the epoch before is looked through again, for what it lacks. */
	order->cursor = order->read = order->low = order->high = 0;
	return take_over(order, indices) > TS_ORDER_REPEATED ? -E2BIG : 0;
}

/* The next place where @index comes again; there are few of them.  Errors: -ENOENT. */
static int drop_repeated(struct ts_order *order, uint32_t index)
{
	for (uint64_t i = order->cursor; i < order->count; i++) {
		if (order->own[i] == (index | REPEATED)) {
			order->own[i] = GONE;
			return 0;
		}
	}
	return -ENOENT;
}

int tsshim_order_had(struct ts_order *order, int64_t index, uint32_t draw)
{
	if (index < 0 || index >= INDEX_END)
		return -ENOENT;
	if (!is_lacking(order, (uint64_t)index))
		return drop_repeated(order, (uint32_t)index);
	set_lacking(order, (uint64_t)index, false);
	order->last[index] = draw + 1;
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
static int peek(
	struct look *look, uint32_t index, uint32_t draw, enum ts_presence *ret_presence)
{
	const struct scope *scope = &look->order->scopes[draw % SCOPES];

	if (scope->of != (uint64_t)draw + 1) {
		look->wanted = draw;
		return -EAGAIN;
	}
	struct ts_key key = ts_sample_key(scope->name, index);
	*ret_presence = ts_store_peek(look->store, &key);
	return 0;
}

static bool is_new(const struct ts_order *order, uint32_t index, uint32_t draw)
{
	return is_lacking(order, index) && draw >= order->last[index];
}

static void push(struct ts_order *order, uint32_t index, uint32_t draw)
{
	order->ready[order->high++ % READY] = (struct ready){.index = index, .draw = draw};
	if (order->high - order->low > READY)
		order->low++;
}

/* Whether the note is one of ours to look at; where it says who is in front, that it is true.
 */
static int read_note(struct look *look, const struct ts_note_made *note)
{
	struct ts_order *order = look->order;
	enum ts_presence presence;

	if (note->mine || note->tag != order->tag || note->index >= REPEATED ||
		note->draw >= TS_ORDER_NO_DRAW || note->epoch > note->draw)
		return 0;
	if (note->epoch > ts_max_u64(order->front, order->epoch)) {
		int r = peek(look, note->index, note->draw, &presence);
		if (r < 0)
			return r;
		if (presence == TS_ABSENT)
			return 0;
		order->front = note->epoch;
	}
	if (is_new(order, note->index, note->draw))
		push(order, note->index, note->draw);
	return 0;
}

/* What the journal has of new.  Errors: -EAGAIN. */
static int read_journal(struct look *look)
{
	struct ts_order *order = look->order;
	struct ts_note_made note;

	if (!look->journal)
		return 0;
	uint64_t begin = ts_journal_begin(look->journal), end = ts_journal_end(look->journal);
	/* One that was overtaken goes on with the oldest that is there. */
	if (order->read < begin || order->read > end)
		order->read = begin;
	for (; order->read < end; order->read++) {
		int r = ts_journal_read(look->journal, order->read, &note)
				? read_note(look, &note)
				: 0;
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

	while (order->high > order->low) {
		struct ready *newest = &order->ready[(order->high - 1) % READY];
		if (!is_new(order, newest->index, newest->draw)) {
			order->high--;
			continue;
		}
		int r = peek(look, newest->index, newest->draw, &presence);
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
	for (; order->cursor < order->count; order->cursor++) {
		uint32_t entry = order->own[order->cursor], index = entry & ~REPEATED;
		if (entry == GONE || ((entry & REPEATED) == 0 && !is_lacking(order, index)))
			continue;
		order->cursor++;
		uint64_t draw = ts_max_u64(order->epoch, order->front);
		if ((entry & REPEATED) != 0)
			draw = order->epoch;
		else
			draw = ts_max_u64(draw, order->last[index]);
		*ret_chosen = (struct ready){.index = index, .draw = (uint32_t)draw};
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
	int64_t *ret_indices, uint32_t *ret_draws, uint32_t *ret_wanted)
{
	struct look look;
	struct ready chosen;

	begin_look(&look, order);
	int r = read_journal(&look);
	for (; r == 0 && from < count; from++) {
		r = look.journal ? choose_made(&look, &chosen) : -ENOENT;
		if (r == -ENOENT)
			r = choose_own(order, &chosen);
		if (r < 0)
			break;
		ret_indices[from] = chosen.index;
		ret_draws[from] = chosen.draw;
		if (is_lacking(order, chosen.index)) {
			set_lacking(order, chosen.index, false);
			order->last[chosen.index] = chosen.draw + 1;
		}
	}
	*ret_wanted = look.wanted;
	return from;
}
