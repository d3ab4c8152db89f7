/* SPDX-License-Identifier: MIT */
/* Notes between nodes: leader/peer/notes.h explains it. */
#include "leader/peer/notes_private.h"

#include "shim/atomic.h"
#include "shim/sys.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

#define NS_PER_S UINT64_C(1000000000)
static_assert(TS_NOTES_TELL_NS + TS_NOTES_TTL * NS_PER_S + TS_JOURNAL_TOLD_NS <=
		      TS_TRANSFER_SAMPLE * NS_PER_S,
	"what is chosen is there");

/* ---- life ------------------------------------------------------------------------------- */

static uint64_t random_life(void)
{
	uint64_t life = 0;

	if (getrandom(&life, sizeof(life), GRND_NONBLOCK) != sizeof(life))
		life = ts_now_ns();
	return life | 1;
}

int ts_notes_create(struct ts_mail *mail, struct ts_pool *pool, struct ts_transfers *transfers,
	struct ts_store *store, const char *group, const struct ts_cluster_nodes *nodes,
	struct ts_notes **ret_notes)
{
	/* Zeroed, and memory only where it is touched. */
	struct ts_notes *all = mmap(
		NULL, sizeof(*all), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (all == MAP_FAILED)
		return -ENOMEM;
	all->mail = mail;
	all->pool = pool;
	all->transfers = transfers;
	all->store = store;
	all->group = group;
	all->nodes = nodes;
	all->own = all->share = TS_NOTES_NOBODY;
	all->life = random_life();
	all->period_ns = ts_max_u64(TS_NOTES_PERIOD_NS, nodes->count * TS_NOTES_EACH_NS);
	all->tell_pause_ns = all->period_ns;
	uint64_t now = ts_now_ns();
	for (uint32_t i = 0; i < nodes->count * TS_NOTES_SHARES; i++) {
		struct ts_notes_peer *peer =
			&all->peers[i / TS_NOTES_SHARES][i % TS_NOTES_SHARES];
		peer->pause_ns = all->period_ns;
		/* One after the other. */
		peer->at_ns = now + all->period_ns * (i / TS_NOTES_SHARES) / nodes->count;
	}
	*ret_notes = all;
	return 0;
}

void ts_notes_destroy(struct ts_notes *notes)
{
	if (notes)
		munmap(notes, sizeof(*notes));
}

void ts_notes_tell_as(struct ts_notes *notes, uint32_t own)
{
	notes->own = own;
}

/* ---- hearing ---------------------------------------------------------------------------- */

/* Whether it has told of nothing for a while, or never. */
static bool is_silent(const struct ts_notes *all, const struct ts_notes_peer *peer)
{
	return peer->life == 0 ||
	       (peer->pause_ns > all->period_ns && peer->pause_ns >= TS_NOTES_SLOW_NS);
}

/* Behind the last note of that helper, which may have told as several shares of its node. */
static uint64_t end_of(const struct ts_notes *all, uint32_t node, uint64_t life)
{
	uint64_t end = 0;

	for (uint32_t share = 0; share < TS_NOTES_SHARES; share++)
		if (all->peers[node][share].life == life)
			end = ts_max_u64(end, all->peers[node][share].end);
	return end;
}

/*
 * Whether they are ours.  Where they are not though the share is, the server had lost it, and
 * another helper has it now: we take another one.
 */
static bool is_ours(struct ts_notes *all, uint32_t node, uint32_t share, uint64_t life)
{
	if (node == all->own && share == all->share && life != all->life) {
		all->share = TS_NOTES_NOBODY;
		all->next_share = 0;
	}
	return life == all->life;
}

/* Write what is new of it; whether there is something. */
static bool take(struct ts_notes *all, const struct ts_notes_carried *hearing)
{
	const struct ts_notes_value *value = &hearing->value;
	uint32_t node = hearing->node;
	struct ts_notes_peer *peer = &all->peers[node][hearing->share];
	uint64_t end = value->first + value->count;
	bool was_silent = is_silent(all, peer);

	if (peer->life != value->life) {
		peer->life = value->life;
		/* What lies at our server already may be of a helper before us. */
		peer->end = node == all->own ? end : 0;
	}
	peer->end = end_of(all, node, value->life);
	if (is_ours(all, node, hearing->share, value->life))
		return false;
	/* Of one whose notes are all too old by now, there are none. */
	if (value->count == 0 || end <= peer->end)
		return false;
	uint64_t from = ts_max_u64(value->first, peer->end), count = end - from;
	const struct ts_notes_note *first = &value->notes[from - value->first];
	for (uint64_t i = 0; i < count; i++) {
		/* Choosers take the last one first; not all nodes the same. */
		const struct ts_notes_note *note = &first[(all->life + i) % count];
		const struct ts_note_made made = {.tag = note->tag,
			.index = note->index,
			.draw = note->draw,
			.epoch = note->epoch};
		ts_journal_tell(all->journal, &made);
	}
	peer->end = end;
	ts_add_relaxed(&all->mail->table->use.notes_heard, count);
	if (was_silent)
		ts_transfers_note_heard(all->transfers);
	return true;
}

/* What came.  Errors, counted: it is not made by who may, or makes no sense. */
static int open_value(struct ts_notes *all, struct ts_notes_carried *hearing)
{
	const struct ts_pool_request *request = &hearing->request;
	struct ts_value_place place = ts_notes_place(hearing, TS_VALUE_ANY_TOTAL);
	int r = ts_value_open(ts_transfers_sealer(all->transfers), &place, &hearing->head,
		request->meta.bytes, &hearing->value);

	if (r < 0) {
		ts_mail_count(all->mail, request->server, TS_MAIL_COUNT_REFUSED, 1);
		return r;
	}
	r = ts_notes_check(&hearing->value, hearing->head.total);
	ts_notes_count_failure(all, request->server, r);
	return r;
}

static void heard(struct ts_pool_request *request)
{
	struct ts_notes_carried *hearing = request->context;
	struct ts_notes *all = hearing->all;
	struct ts_notes_peer *peer = &all->peers[hearing->node][hearing->share];
	int r = request->meta.result;

	ts_notes_count_failure(all, request->server, r);
	bool is_new = r == 0 && open_value(all, hearing) == 0 && take(all, hearing);
	/* In front of ours there is a share that is free: readers begin there. */
	if (r == -ENOENT && hearing->node == all->own && all->share != TS_NOTES_NOBODY &&
		hearing->share < all->share) {
		all->share = TS_NOTES_NOBODY;
		all->next_share = 0;
	}
	hearing->all = NULL;
	peer->is_asked = false;
	peer->pause_ns = ts_notes_next_pause(all, peer->pause_ns, is_new);
	peer->at_ns = ts_now_ns() + peer->pause_ns;
	all->at_ns = 0;
}

static struct ts_notes_carried *free_hearing(struct ts_notes *all)
{
	for (uint32_t i = 0; i < TS_NOTES_HEARINGS; i++)
		if (!all->hearing[i].all)
			return &all->hearing[i];
	return NULL;
}

static void ask(struct ts_notes *all, struct ts_notes_carried *hearing, uint32_t node,
	uint32_t share, uint64_t now)
{
	struct ts_notes_peer *peer = &all->peers[node][share];

	hearing->node = node;
	hearing->share = share;
	ts_notes_set_key(all, node, share, &hearing->key);
	peer->is_asked =
		ts_notes_submit(all, hearing, (struct ts_meta_request){.kind = TS_META_GET},
			sizeof(hearing->value), heard) == 0;
	if (peer->is_asked)
		return;
	peer->pause_ns = ts_notes_next_pause(all, peer->pause_ns, false);
	peer->at_ns = now + peer->pause_ns;
}

/* ---- the loop --------------------------------------------------------------------------- */

/* Whether somebody here has use for notes. */
static bool is_wanted(struct ts_notes *all)
{
	if (!all->journal) {
		if (ts_journal_attach_existing(all->store, &all->journal) < 0) {
			all->journal = NULL;
			return false;
		}
		/* What is there already is older than we know. */
		all->read_ns = ts_now_ns();
		all->read = ts_journal_end(all->journal, TS_JOURNAL_OWN);
	}
	return ts_load_relaxed(&all->mail->table->samples.asked) > 0;
}

/*
 * Ask for what it is time for of @node.  Where nobody was ever heard as one share, nobody tells
 * as the next one.
 */
static void hear(struct ts_notes *notes, uint32_t node, uint64_t now)
{
	for (uint32_t share = 0; share < TS_NOTES_SHARES; share++) {
		struct ts_notes_peer *peer = &notes->peers[node][share];
		struct ts_notes_carried *hearing = free_hearing(notes);
		if (share > 0 && notes->peers[node][share - 1].life == 0)
			return;
		if (!peer->is_asked && now >= peer->at_ns && hearing)
			ask(notes, hearing, node, share, now);
		/* Without one to hear with it goes on when one of them is done. */
		if (!peer->is_asked && hearing)
			notes->at_ns = ts_min_u64(notes->at_ns, peer->at_ns);
	}
}

void ts_notes_step(struct ts_notes *notes)
{
	uint64_t now = ts_now_ns();

	if (now < notes->at_ns)
		return;
	notes->at_ns = now + notes->period_ns;
	if (!is_wanted(notes))
		return;
	if (now >= notes->tell_at_ns) {
		notes->tell_at_ns = now + notes->tell_pause_ns;
		ts_notes_tell(notes, now);
	}
	notes->at_ns = ts_min_u64(notes->at_ns, notes->tell_at_ns);
	for (uint32_t i = 0; i < notes->nodes->count; i++)
		hear(notes, i, now);
}

uint64_t ts_notes_deadline(const struct ts_notes *notes)
{
	return notes->at_ns;
}
