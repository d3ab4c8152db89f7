/* SPDX-License-Identifier: MIT */
/* Notes between nodes: leader/peer/notes.h explains it. */
#include "leader/peer/notes.h"

#include "leader/journal/journal.h"
#include "leader/peer/value.h"
#include "shim/atomic.h"
#include "shim/sys.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>

/* "j1:", 32 digits; behind it ":0". */
#define KEY_BYTES   40
#define CHUNK_BYTES (KEY_BYTES + 4)

#define GENERATION UINT64_C(1)
#define NOBODY     UINT32_MAX

#define NS_PER_S UINT64_C(1000000000)
static_assert(TS_NOTES_TELL_NS + TS_NOTES_TTL * NS_PER_S + TS_JOURNAL_TOLD_NS <=
		      TS_TRANSFER_SAMPLE * NS_PER_S,
	"what is chosen is there");

struct key {
	size_t bytes;
	char text[KEY_BYTES], chunk[CHUNK_BYTES];
};

/* A value of notes on its way. */
struct carried {
	struct ts_notes *all; /* NULL: not in use */
	uint32_t peer;        /* whose */
	struct ts_pool_request request;
	struct key key;
	struct ts_value_head head;
	struct ts_notes_value value;
};

/* What is known of the notes of another node. */
struct peer {
	uint64_t life, end; /* of its helper, and behind the last note */
	uint64_t at_ns, pause_ns;
	bool is_asked;
};

struct ts_notes {
	struct ts_mail *mail;
	struct ts_pool *pool;
	struct ts_transfers *transfers;
	struct ts_store *store;
	const char *group;
	const struct ts_cluster_nodes *nodes;
	struct ts_journal *journal; /* NULL: there is none yet */
	uint64_t read, read_ns; /* turns of its lap OWN before this one were read, and when */
	uint64_t period_ns, at_ns;
	uint32_t own; /* this node; or NOBODY */

	/* Ours: those from .end - TS_NOTES_MOST on, modulo that number; stored up to .told. */
	uint64_t life, end, told;
	uint64_t tell_at_ns, tell_pause_ns;
	bool is_there; /* a value of ours may be */
	struct {
		struct ts_notes_note note;
		uint64_t at_ns; /* it was made after that */
	} ours[TS_NOTES_MOST];

	struct carried telling, hearing[TS_NOTES_HEARINGS];
	struct peer peers[TS_KETAMA_SERVERS];
};

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
	all->own = NOBODY;
	all->life = random_life();
	all->period_ns = ts_max_u64(TS_NOTES_PERIOD_NS, nodes->count * TS_NOTES_EACH_NS);
	all->tell_pause_ns = all->period_ns;
	uint64_t now = ts_now_ns();
	for (uint32_t i = 0; i < nodes->count; i++) {
		all->peers[i].pause_ns = all->period_ns;
		/* One after the other. */
		all->peers[i].at_ns = now + all->period_ns * i / nodes->count;
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

/* What follows a time that brought something new, or did not. */
static uint64_t next_pause(const struct ts_notes *all, uint64_t pause_ns, bool is_new)
{
	uint64_t most = ts_max_u64(all->period_ns, TS_NOTES_SLOW_NS);

	return is_new ? all->period_ns : ts_min_u64(2 * pause_ns, most);
}

/* ---- values ----------------------------------------------------------------------------- */

int ts_notes_check(const struct ts_notes_value *value, uint64_t bytes)
{
	const size_t head = offsetof(struct ts_notes_value, notes);

	if (bytes < head || value->version != TS_NOTES_VERSION || value->life == 0 ||
		value->count > TS_NOTES_MOST || value->first > UINT64_MAX - TS_NOTES_MOST ||
		bytes != head + value->count * sizeof(value->notes[0]))
		return -EPROTO;
	for (uint32_t i = 0; i < value->count; i++) {
		const struct ts_notes_note *note = &value->notes[i];
		if (note->tag == 0 || note->index > INT32_MAX || note->draw >= TS_NOTES_DRAWS ||
			note->epoch > note->draw || note->zero != 0)
			return -EPROTO;
	}
	return 0;
}

static void set_key(const struct ts_notes *all, uint32_t node, struct key *ret_key)
{
	char name[TS_CLUSTER_NAME];
	struct ts_hasher hasher;

	ts_cluster_name_server(&all->nodes->servers[node], name);
	ts_hasher_init(&hasher);
	ts_hasher_add(&hasher, all->group, strlen(all->group) + 1);
	ts_hasher_add(&hasher, name, strlen(name));
	struct ts_hash128 hash = ts_hasher_digest(&hasher);
	ret_key->bytes = (size_t)snprintf(ret_key->text, sizeof(ret_key->text),
		"j1:%016llx%016llx", (unsigned long long)hash.hi, (unsigned long long)hash.lo);
	(void)snprintf(ret_key->chunk, sizeof(ret_key->chunk), "%s:0", ret_key->text);
}

static struct ts_value_place place_of(const struct carried *carried, uint64_t total)
{
	return (struct ts_value_place){.key = carried->key.text,
		.key_bytes = carried->key.bytes,
		.total = total,
		.generation = GENERATION};
}

/* Errors: those of ts_pool_submit(), with which it is not in use any more. */
static int submit(struct ts_notes *all, struct carried *carried, enum ts_meta_kind kind,
	uint64_t bytes, void (*done)(struct ts_pool_request *request))
{
	carried->request = (struct ts_pool_request){
		.meta = {.kind = kind,
			.key = carried->key.chunk,
			.parts = {{&carried->head, sizeof(carried->head)},
				{&carried->value, bytes}},
			.ttl = kind == TS_META_SET ? TS_NOTES_TTL : 0,
			.until_ns = ts_now_ns() + ts_pool_patience(TS_TRANSFER_ANSWER_NS)},
		.done = done,
		.context = carried,
	};
	carried->all = all;
	int r = ts_pool_submit(all->pool, &carried->request);
	if (r < 0)
		carried->all = NULL;
	return r;
}

/* Of a request that was sent: what is not there is no failure. */
static void count_failure(struct ts_notes *all, uint32_t server, int error)
{
	if (error < 0 && error != -ENOENT)
		(void)ts_transfers_explain(all->transfers, server, error);
}

/* ---- telling ---------------------------------------------------------------------------- */

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

static void told(struct ts_pool_request *request)
{
	struct carried *telling = request->context;
	struct ts_notes *all = telling->all;
	uint64_t end = telling->value.first + telling->value.count;
	bool is_stored = request->meta.result == 0;

	telling->all = NULL;
	if (is_stored) {
		ts_add_relaxed(&all->mail->table->use.notes_told,
			end - ts_max_u64(all->told, telling->value.first));
		all->told = end;
	}
	count_failure(all, request->server, request->meta.result);
	all->tell_pause_ns = next_pause(all, all->tell_pause_ns, is_stored);
	all->tell_at_ns = ts_now_ns() + all->tell_pause_ns;
	all->at_ns = 0;
}

static void tell(struct ts_notes *all, uint64_t now)
{
	struct carried *telling = &all->telling;

	if (all->own == NOBODY || telling->all || all->told == all->end)
		return;
	uint64_t bytes = write_value(all, now);
	set_key(all, all->own, &telling->key);
	struct ts_value_place place = place_of(telling, bytes);
	int r = ts_value_seal(
		ts_transfers_sealer(all->transfers), &place, &telling->value, &telling->head);
	if (r == 0)
		r = submit(all, telling, TS_META_SET, bytes, told);
	all->is_there = all->is_there || r == 0;
	if (r < 0)
		all->tell_pause_ns = next_pause(all, all->tell_pause_ns, false);
	all->tell_at_ns = now + all->tell_pause_ns;
}

static void cleared(struct ts_pool_request *request)
{
	struct carried *telling = request->context;

	telling->all = NULL;
}

bool ts_notes_clear(struct ts_notes *notes)
{
	struct carried *telling = &notes->telling;

	if (telling->all)
		return true;
	if (!notes->is_there)
		return false;
	notes->is_there = false;
	return submit(notes, telling, TS_META_DELETE, 0, cleared) == 0;
}

/* ---- hearing ---------------------------------------------------------------------------- */

/* Whether it has told of nothing for a while, or never. */
static bool is_silent(const struct ts_notes *all, const struct peer *peer)
{
	return peer->life == 0 ||
	       (peer->pause_ns > all->period_ns && peer->pause_ns >= TS_NOTES_SLOW_NS);
}

/* Write what is new of it; whether there is something. */
static bool take(struct ts_notes *all, struct peer *peer, const struct ts_notes_value *value)
{
	uint64_t end = value->first + value->count;
	bool was_silent = is_silent(all, peer);

	if (peer->life != value->life) {
		peer->life = value->life;
		peer->end = 0;
	}
	if (end <= peer->end)
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
static int open_value(struct ts_notes *all, struct carried *hearing)
{
	const struct ts_pool_request *request = &hearing->request;
	struct ts_value_place place = place_of(hearing, TS_VALUE_ANY_TOTAL);
	int r = ts_value_open(ts_transfers_sealer(all->transfers), &place, &hearing->head,
		request->meta.bytes, &hearing->value);

	if (r < 0) {
		ts_mail_count(all->mail, request->server, TS_MAIL_COUNT_REFUSED, 1);
		return r;
	}
	r = ts_notes_check(&hearing->value, hearing->head.total);
	count_failure(all, request->server, r);
	return r;
}

static void heard(struct ts_pool_request *request)
{
	struct carried *hearing = request->context;
	struct ts_notes *all = hearing->all;
	struct peer *peer = &all->peers[hearing->peer];
	int r = request->meta.result;

	count_failure(all, request->server, r);
	bool is_new =
		r == 0 && open_value(all, hearing) == 0 && take(all, peer, &hearing->value);
	hearing->all = NULL;
	peer->is_asked = false;
	peer->pause_ns = next_pause(all, peer->pause_ns, is_new);
	peer->at_ns = ts_now_ns() + peer->pause_ns;
	all->at_ns = 0;
}

static struct carried *free_hearing(struct ts_notes *all)
{
	for (uint32_t i = 0; i < TS_NOTES_HEARINGS; i++)
		if (!all->hearing[i].all)
			return &all->hearing[i];
	return NULL;
}

static void ask(struct ts_notes *all, struct carried *hearing, uint32_t node, uint64_t now)
{
	struct peer *peer = &all->peers[node];

	hearing->peer = node;
	set_key(all, node, &hearing->key);
	peer->is_asked = submit(all, hearing, TS_META_GET, sizeof(hearing->value), heard) == 0;
	if (peer->is_asked)
		return;
	peer->pause_ns = next_pause(all, peer->pause_ns, false);
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
		collect(notes, now);
		tell(notes, now);
	}
	notes->at_ns = ts_min_u64(notes->at_ns, notes->tell_at_ns);
	for (uint32_t i = 0; i < notes->nodes->count; i++) {
		struct peer *peer = &notes->peers[i];
		struct carried *hearing = free_hearing(notes);
		if (i == notes->own || peer->is_asked)
			continue;
		if (now >= peer->at_ns && hearing)
			ask(notes, hearing, i, now);
		/* Without one to hear with it goes on when one of them is done. */
		if (!peer->is_asked && hearing)
			notes->at_ns = ts_min_u64(notes->at_ns, peer->at_ns);
	}
}

uint64_t ts_notes_deadline(const struct ts_notes *notes)
{
	return notes->at_ns;
}
