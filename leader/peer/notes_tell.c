/* SPDX-License-Identifier: MIT */
/* Telling other nodes what jobs here made: leader/peer/notes.h explains it. */
#include "leader/peer/notes_private.h"

#include "shim/atomic.h"
#include "shim/sys.h"

#define NS_PER_S UINT64_C(1000000000)

/* Of a value that was stored: so long it is there, and behind that it is not. */
#define TS_NOTES_SURE_NS ((TS_NOTES_TTL - 5) * NS_PER_S)
#define TS_NOTES_GONE_NS ((TS_NOTES_TTL + 2) * NS_PER_S)

/* What jobs here have handed over since the last time. */
static void collect(struct ts_notes *all, uint64_t now)
{
	uint64_t end = ts_journal_end(all->journal, TS_JOURNAL_OWN);
	uint64_t begin = ts_journal_begin(all->journal, TS_JOURNAL_OWN, end);
	struct ts_note_made made;

	/* One that was overtaken goes on with the oldest that is there. */
	if (all->read < begin || all->read > end)
		all->read = begin;
	for (; all->read < end; all->read++) {
		if (!ts_journal_read(all->journal, TS_JOURNAL_OWN, all->read, &made) ||
			!made.is_shared)
			continue;
		uint64_t place = all->end++ % TS_NOTES_MOST;
		all->ours[place].at_ns = all->read_ns;
		all->ours[place].note = (struct ts_notes_note){.tag = made.tag,
			.index = made.index,
			.draw = made.draw,
			.epoch = made.epoch};
	}
	all->read_ns = now;
}

/* Into all->telling.value, whose size it returns. */
static uint64_t write_value(struct ts_notes *all, uint64_t now)
{
	struct ts_notes_value *value = &all->telling.value;
	uint64_t first = all->end - ts_min_u64(all->end, TS_NOTES_MOST);

	while (first < all->end &&
		now - all->ours[first % TS_NOTES_MOST].at_ns > TS_NOTES_TELL_NS)
		first++;
	value->version = TS_NOTES_VERSION;
	value->life = all->life;
	value->first = first;
	value->count = (uint32_t)(all->end - first);
	for (uint32_t i = 0; i < value->count; i++)
		value->notes[i] = all->ours[(first + i) % TS_NOTES_MOST].note;
	return offsetof(struct ts_notes_value, notes) + value->count * sizeof(value->notes[0]);
}

/*
 * One of those at our server is ours as long as it is there.  When it may not be any more, it
 * is not stored until it is not, and then taken as a new one: what another helper has put there
 * meanwhile stays.
 */
static bool may_tell(struct ts_notes *all, uint64_t now)
{
	uint64_t age = now - all->stored_ns;

	if (all->share == TS_NOTES_NOBODY || age < TS_NOTES_SURE_NS)
		return true;
	if (age < TS_NOTES_GONE_NS)
		return false;
	all->share = TS_NOTES_NOBODY;
	all->next_share = 0;
	return true;
}

/* What came of storing at @share. */
static void note_share(struct ts_notes *all, uint32_t share, int result)
{
	if (result == 0) {
		all->share = share;
		all->stored_ns = ts_now_ns();
	} else if (result == -EEXIST && all->share == TS_NOTES_NOBODY) {
		/* It is another helper's, or one of an earlier one. */
		all->next_share = (share + 1) % TS_NOTES_SHARES;
	}
}

static void told(struct ts_pool_request *request)
{
	struct ts_notes_carried *telling = request->context;
	struct ts_notes *all = telling->all;
	uint64_t end = telling->value.first + telling->value.count;
	bool is_stored = request->meta.result == 0;

	telling->all = NULL;
	note_share(all, telling->share, request->meta.result);
	if (is_stored) {
		ts_add_relaxed(&all->mail->table->use.notes_told,
			end - ts_max_u64(all->told, telling->value.first));
		all->told = end;
	}
	ts_notes_count_failure(all, request->server, request->meta.result);
	all->tell_pause_ns = ts_notes_next_pause(all, all->tell_pause_ns, is_stored);
	all->tell_at_ns = ts_now_ns() + all->tell_pause_ns;
	all->at_ns = 0;
}

static void tell(struct ts_notes *all, uint64_t now)
{
	struct ts_notes_carried *telling = &all->telling;

	if (all->own == TS_NOTES_NOBODY || telling->all || all->told == all->end ||
		!may_tell(all, now))
		return;
	uint64_t bytes = write_value(all, now);
	bool is_new = all->share == TS_NOTES_NOBODY;
	telling->share = is_new ? all->next_share : all->share;
	ts_notes_set_key(all, all->own, telling->share, &telling->key);
	struct ts_value_place place = ts_notes_place(telling, bytes);
	int r = ts_value_seal(
		ts_transfers_sealer(all->transfers), &place, &telling->value, &telling->head);
	if (r == 0)
		r = ts_notes_submit(all, telling,
			(struct ts_meta_request){
				.kind = TS_META_SET, .ttl = TS_NOTES_TTL, .only_new = is_new},
			bytes, told);
	if (r < 0)
		all->tell_pause_ns = ts_notes_next_pause(all, all->tell_pause_ns, false);
	all->tell_at_ns = now + all->tell_pause_ns;
}

static void cleared(struct ts_pool_request *request)
{
	struct ts_notes_carried *telling = request->context;

	telling->all = NULL;
}

bool ts_notes_clear(struct ts_notes *notes)
{
	struct ts_notes_carried *telling = &notes->telling;

	if (telling->all)
		return true;
	/* Not what may be another's by now. */
	bool is_there = notes->share != TS_NOTES_NOBODY &&
			ts_now_ns() - notes->stored_ns < TS_NOTES_SURE_NS;
	if (is_there)
		ts_notes_set_key(notes, notes->own, notes->share, &telling->key);
	notes->share = TS_NOTES_NOBODY;
	notes->next_share = 0;
	if (!is_there)
		return false;
	return ts_notes_submit(notes, telling, (struct ts_meta_request){.kind = TS_META_DELETE},
		       0, cleared) == 0;
}

void ts_notes_tell(struct ts_notes *all, uint64_t now)
{
	collect(all, now);
	tell(all, now);
}
