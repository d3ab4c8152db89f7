/* SPDX-License-Identifier: MIT */
/* Whole samples for the Python glue: naming, taking, making, counting. */
#include "hooks/torch/samples_private.h"

#include "leader/group/loaders.h"
#include "leader/group/session.h"
#include "shim/atomic.h"
#include "shim/config.h"
#include "shim/hash.h"
#include "shim/identity.h"
#include "shim/reasons.h"
#include "shim/stream.h"
#include "shim/sys.h"

#include <stdlib.h>
#include <string.h>

#define SAMPLE_ABI 21u

#define INDEX_BYTES 9u

/*
 * A batch so large has left the second level of the caches, and mostly the third, when the
 * trainer comes to it: copied past them 602 KB take 80 us instead of 108 (eight processes that
 * copy and read on two cores of a Zen 3, batches of 8 to 64), while batches of half this size
 * cost the trainer more than is saved.
 */
#define STREAM_FROM (UINT64_C(4) << 20)

/* The glue takes a sample of this size from the ring although it has just put it there
 * (sharing/batch/fetch.py), which is not counted as a hit. */
#define LARGE (UINT64_C(16) << 20)

/* Of a scope or a stream. */
#define NAME_BYTES 16u

static_assert(TS_SAMPLE_TAKEN == (int)TS_HIT && TS_SAMPLE_CLAIMED == (int)TS_CLAIM &&
		      TS_SAMPLE_BUSY == (int)TS_BUSY && TS_SAMPLE_PASSED == (int)TS_PASS,
	"the verdicts of the store, which the glue knows too");

uint32_t tsshim_sample_abi(void)
{
	return SAMPLE_ABI;
}

void tsshim_sample_settings(uint32_t *ret_aligned, uint64_t *ret_seed, uint64_t *ret_epoch,
	uint32_t *ret_share, uint32_t *ret_free, uint32_t *ret_across)
{
	const struct ts_config *config = ts_config();

	*ret_aligned = config->align && !config->disable;
	*ret_seed = config->align_seed;
	*ret_epoch = config->epoch;
	*ret_free = config->order == TS_ORDER_FREE;
	*ret_across = config->across == TS_ACROSS_NODES && config->cluster && !config->disable;
	*ret_share = config->disable ? TS_SHARE_OFF : (uint32_t)config->share;
}

struct ts_sample *tsshim_sample_create(void)
{
	struct ts_sample *sample = calloc(1, sizeof(struct ts_sample));

	if (sample)
		sample->part = sample->whole = 1;
	return sample;
}

void tsshim_sample_destroy(struct ts_sample *sample)
{
	tsshim_sample_drop(sample);
	free(sample);
}

void tsshim_sample_hash(const void *data, uint64_t bytes, void *ret_digest)
{
	struct ts_hash128 digest = ts_hash128(data, bytes);

	memcpy(ret_digest, &digest, sizeof(digest));
}

bool tsshim_sample_are_words(const uint64_t *const *at, uint64_t *values, uint64_t count)
{
	uint64_t others = 0;

	for (uint64_t i = 0; i < count; i++) {
		others |= *at[i] ^ values[i];
		values[i] = *at[i];
	}
	return others == 0;
}

/* ---- naming ------------------------------------------------------------------------------ */

/* Of short ones in one piece, which is the same number and a fifth of the time. */
static struct ts_hash128 hash_item(
	const void *prefix, const void *index, uint64_t index_bytes, uint32_t occurrence)
{
	unsigned char room[64];
	const size_t before = 16 + sizeof(occurrence);
	struct ts_hasher hasher;

	if (index_bytes <= sizeof(room) - before) {
		memcpy(room, prefix, 16);
		memcpy(room + 16, &occurrence, sizeof(occurrence));
		memcpy(room + before, index, index_bytes);
		return ts_hash128(room, before + index_bytes);
	}
	ts_hasher_init(&hasher);
	ts_hasher_add(&hasher, prefix, 16);
	ts_hasher_add(&hasher, &occurrence, sizeof(occurrence));
	ts_hasher_add(&hasher, index, index_bytes);
	return ts_hasher_digest(&hasher);
}

static struct ts_key key_of(const void *scope, const void *index, uint64_t index_bytes,
	uint32_t occurrence, int drawn)
{
	struct ts_hash128 key = hash_item(scope, index, index_bytes, occurrence);

	return (struct ts_key){
		.lo = (key.lo & ~TS_KEY_DRAWN) | (drawn ? TS_KEY_DRAWN : 0) | 1, .hi = key.hi};
}

/* The number @index with its type, as it is in names: "i" and the number, little endian. */
static void name_index(int64_t index, unsigned char ret_bytes[INDEX_BYTES])
{
	ret_bytes[0] = 'i';
	for (unsigned i = 0; i < 8; i++)
		ret_bytes[1 + i] = (unsigned char)((uint64_t)index >> (8 * i));
}

struct ts_key ts_sample_key(const void *scope, int64_t index, uint32_t occurrence)
{
	unsigned char bytes[INDEX_BYTES];

	name_index(index, bytes);
	return key_of(scope, bytes, sizeof(bytes), occurrence, 0);
}

static void set_seeds(struct ts_sample *sample, const void *stream, const void *index,
	uint64_t index_bytes, uint32_t occurrence)
{
	struct ts_hash128 seed = hash_item(stream, index, index_bytes, occurrence);

	sample->note.tag = 0;
	sample->occurrence = occurrence;
	sample->view.torch_seed = seed.lo >> 1;
	sample->view.python_seed = seed.hi;
	/* Its own bits: two generators must not run in step. */
	sample->view.numpy_seed = (uint32_t)(ts_hash64(&seed, sizeof(seed)) >> 32);
}

void tsshim_sample_name(struct ts_sample *sample, const void *scope, const void *stream,
	const void *index, uint64_t index_bytes, uint32_t occurrence, int drawn)
{
	tsshim_sample_drop(sample);
	sample->key = key_of(scope, index, index_bytes, occurrence, drawn);
	sample->view = (struct ts_sample_view){.meta = NULL};
	sample->part = sample->whole = 1;
	set_seeds(sample, stream, index, index_bytes, occurrence);
}

void tsshim_sample_weigh(struct ts_sample *sample, uint32_t part, uint32_t whole)
{
	sample->part = part;
	sample->whole = whole > 0 ? whole : 1;
}

void tsshim_sample_note(
	struct ts_sample *sample, uint64_t tag, uint32_t index, uint32_t draw, uint32_t epoch)
{
	sample->note = (struct ts_note_made){.tag = ts_note_tag(tag, sample->occurrence),
		.index = index,
		.draw = draw,
		.epoch = epoch};
}

/* ---- samples that were made ahead of their batches --------------------------------------- */

#define AHEAD_MAX 256u

static _Atomic uint64_t ahead[AHEAD_MAX]; /* a ring of names; 0: none */
static _Atomic uint64_t ahead_count;      /* that were ever noted */

static uint64_t name_of(const struct ts_sample *sample)
{
	return ts_hash64(sample->view.origin, sizeof(sample->view.origin)) | 1;
}

/* The record of @sample, just published, is for a batch of this process's that is to come. */
static void note_ahead(const struct ts_sample *sample)
{
	uint64_t count = ts_load_relaxed(&ahead_count);

	ts_write_relaxed(&ahead[count % AHEAD_MAX], name_of(sample));
	ts_write_relaxed(&ahead_count, count + 1);
}

/*
 * Whether the record of @sample, which was taken, is one of the last that this process
 * published ahead of the batch that takes it; says so once.  Any thread; a child of fork() has
 * a copy.
 */
static bool was_ahead(const struct ts_sample *sample)
{
	uint64_t count = ts_min_u64(ts_load_relaxed(&ahead_count), AHEAD_MAX);
	uint64_t name = count ? name_of(sample) : 0;

	for (uint64_t i = 0; i < count; i++) {
		if (ts_load_relaxed(&ahead[i]) == name) {
			ts_write_relaxed(&ahead[i], 0);
			return true;
		}
	}
	return false;
}

/* ---- a record that is there ---------------------------------------------------------- */

uint64_t ts_record_check(const struct ts_record *record, const void *behind)
{
	struct ts_hasher hasher;

	ts_hasher_init(&hasher);
	ts_hasher_add(&hasher, record, offsetof(struct ts_record, check));
	ts_hasher_add(&hasher, behind, record->input_bytes + record->meta_bytes);
	return ts_hasher_digest(&hasher).lo;
}

int ts_record_read(const unsigned char *at, uint64_t bytes, struct ts_record *ret_record)
{
	struct ts_record record;

	if (bytes < sizeof(record))
		return -EBADMSG;
	memcpy(&record, at, sizeof(record));
	if (record.magic != TS_RECORD_MAGIC || record.meta_bytes > TS_RECORD_META_MAX ||
		record.input_bytes > TS_RECORD_META_MAX || record.payload_bytes > bytes)
		return -EBADMSG;
	uint64_t payload = ts_record_payload_at(record.input_bytes, record.meta_bytes);
	if (payload + record.payload_bytes != bytes ||
		record.check != ts_record_check(&record, at + sizeof(record)))
		return -EBADMSG;
	*ret_record = record;
	return 0;
}

/* Look into the leased record.  Errors: -EBADMSG; those of ts_opens_check(). */
static int read_record(struct ts_sample *sample)
{
	const struct ts_lease *lease = &sample->take.lease;
	const unsigned char *at = lease->data;
	struct ts_record record;

	if (ts_record_read(at, lease->bytes, &record) < 0)
		return -EBADMSG;
	uint64_t payload = ts_record_payload_at(record.input_bytes, record.meta_bytes);
	sample->view.meta = at + sizeof(record) + record.input_bytes;
	sample->view.meta_bytes = record.meta_bytes;
	sample->view.payload = at + payload;
	sample->view.payload_bytes = record.payload_bytes;
	sample->view.inputs = at + sizeof(record);
	sample->view.input_bytes = record.input_bytes;
	ts_sample_set_origin(sample, lease->origin);
	return ts_opens_check(at + sizeof(record), record.input_bytes);
}

static int accept_hit(struct ts_sample *sample)
{
	sample->held = TS_HELD_LEASE;
	int r = read_record(sample);
	if (r < 0) {
		tsshim_sample_drop(sample);
		ts_session_count_passes(
			r == -EBADMSG ? TS_REASON_STORE_DAMAGED : TS_REASON_TORCH_CHANGED,
			sample->part);
		return TS_PASS;
	}
	sample->record_bytes = sample->take.lease.bytes;
	sample->view.verify = ts_session_verify_this_hit();
	return TS_HIT;
}

static void await(struct ts_sample *sample, int wait)
{
	uint64_t deadline = ts_session_deadline_ns(TS_KIND_SAMPLE, sample->record_bytes);

	deadline = ts_min_u64(
		deadline + sample->slack_ns, ts_max_u64(TS_WAIT_MAX_NS, sample->slack_ns));
	if (wait == TS_SAMPLE_STAY)
		deadline = UINT64_MAX;
	/* An item is made in one go: who works, works on it. */
	sample->patience.longest_ns = TS_WAIT_WORK_NS;
	(wait == TS_SAMPLE_WAIT ? ts_store_wait : ts_store_wait_a_moment)(
		sample->store, &sample->key, deadline, &sample->patience, &sample->take);
}

/* Ask the store for the sample; a lease of TS_HIT is not looked into yet. */
static enum ts_verdict ask(struct ts_sample *sample, int wait)
{
	enum ts_reason reason = TS_REASON_NO_STORE;
	const struct ts_session *session = ts_session_enter(&reason);

	tsshim_sample_drop(sample);
	if (!session) {
		ts_session_count_passes(reason, sample->part);
		return TS_PASS;
	}
	sample->store = session->store;
	sample->serial = ts_identity_serial();
	ts_store_take(
		session->store, &sample->key, session->dataset, TS_KIND_SAMPLE, &sample->take);
	if (sample->take.verdict != TS_HIT && sample->take.is_met)
		ts_session_count_met();
	if (sample->take.verdict == TS_BUSY && wait != TS_SAMPLE_NOW)
		await(sample, wait);
	if (sample->take.verdict == TS_CLAIM)
		sample->held = TS_HELD_CLAIM;
	else if (sample->take.verdict == TS_PASS)
		ts_session_count_passes(sample->take.reason, sample->part);
	sample->view.is_alone =
		sample->take.verdict == TS_PASS && sample->take.reason == TS_REASON_ALONE;
	return sample->take.verdict;
}

int tsshim_sample_take(struct ts_sample *sample, int wait)
{
	enum ts_verdict verdict = ask(sample, wait);

	return verdict == TS_HIT ? accept_hit(sample) : (int)verdict;
}

bool ts_sample_is_ours(struct ts_sample *sample)
{
	if (sample->held != TS_HELD_NOTHING && sample->serial == ts_identity_serial())
		return true;
	sample->held = TS_HELD_NOTHING;
	return false;
}

void tsshim_sample_taken(struct ts_sample *sample)
{
	const struct ts_lease *lease = &sample->take.lease;

	if (ts_sample_is_ours(sample) && sample->held == TS_HELD_LEASE && !was_ahead(sample)) {
		/* A chunk goes to several batches, and is counted where it goes to. */
		if (sample->whole > 1 && lease->producer == ts_identity_job())
			ts_session_count_made(TS_KIND_SAMPLE, sample->part);
		else
			ts_session_count_part(
				TS_KIND_SAMPLE, lease, sample->part, sample->whole);
	}
	tsshim_sample_drop(sample);
}

void *tsshim_sample_pause(void)
{
	return ts_opens_pause();
}

void tsshim_sample_resume(void *paused)
{
	ts_opens_resume((struct ts_opens *)paused);
}

int tsshim_sample_relative(void)
{
	return ts_opens_saw_relative();
}

void tsshim_sample_verified(struct ts_sample *sample, int equal)
{
	if (ts_sample_is_ours(sample) && sample->held == TS_HELD_LEASE) {
		ts_session_count_verified(equal != 0, &sample->take.lease);
		ts_session_count_passes(TS_REASON_VERIFY, sample->part);
	}
	tsshim_sample_drop(sample);
}

void tsshim_sample_drop(struct ts_sample *sample)
{
	/* An item that never ended: this thread must not go on writing into the struct. */
	if (sample->listing) {
		sample->listing = sample->observing = false;
		ts_session_nest(false);
		(void)ts_opens_end(&sample->opens);
	}
	if (sample->errand.state != TS_ERRAND_NONE)
		ts_errand_drop(&sample->errand);
	if (ts_sample_is_ours(sample)) {
		if (sample->held == TS_HELD_LEASE)
			ts_lease_release(sample->store, &sample->take.lease);
		else
			ts_claim_abandon(sample->store, &sample->take.claim);
	}
	sample->held = TS_HELD_NOTHING;
	sample->view.meta = NULL;
	sample->view.payload = NULL;
	sample->view.inputs = NULL;
	sample->view.origin[0] = 0;
}

/* ---- the item ---------------------------------------------------------------------------- */

void tsshim_sample_begin(struct ts_sample *sample, int how)
{
	sample->observing = (how & TS_SAMPLE_WATCH) != 0 ||
			    (ts_sample_is_ours(sample) && sample->held == TS_HELD_CLAIM);
	sample->listing = sample->observing || ts_config()->align;
	/* To verify what was made ahead is to make it a second time. */
	bool is_lease = ts_sample_is_ours(sample) && sample->held == TS_HELD_LEASE;
	sample->again = (how & TS_SAMPLE_AGAIN) != 0 || (is_lease && was_ahead(sample));
	sample->ahead = (how & TS_SAMPLE_AHEAD) != 0;
	sample->view.inputs = NULL;
	sample->view.unfit = NULL;
	ts_session_nest((how & TS_SAMPLE_NEST) != 0);
	if (sample->listing)
		ts_opens_begin(&sample->opens);
	sample->made_at = ts_now_ns();
	sample->cpu_start = ts_thread_cpu_ns();
}

/* Whether the files that were opened allow publishing; TS_REASON_COUNT if they do. */
static enum ts_reason judge_inputs(struct ts_sample *sample)
{
	if (ts_opens_end(&sample->opens) != 0) {
		ts_opens_tell(&sample->opens, sample->unfit, sizeof(sample->unfit));
		sample->view.unfit = sample->unfit;
		return TS_REASON_TORCH_INPUTS;
	}
	int64_t bytes = ts_opens_encode(&sample->opens, sample->inputs, sizeof(sample->inputs));
	if (bytes < 0)
		return TS_REASON_TORCH_INPUTS;
	sample->input_bytes = (uint32_t)bytes;
	/* A file that changed meanwhile is too young as well. */
	if (ts_opens_settled(&sample->opens) != 0)
		return TS_REASON_TORCH_YOUNG;
	sample->view.inputs = sample->inputs;
	sample->view.input_bytes = sample->input_bytes;
	return TS_REASON_COUNT;
}

/* Hints: where there is no journal nobody finds what was made. */
void ts_sample_note_made(struct ts_sample *sample)
{
	struct ts_journal *journal;

	if (sample->note.tag != 0 && sample->store && sample->serial == ts_identity_serial() &&
		ts_journal_attach(sample->store, &journal) == 0)
		ts_journal_write(journal, &sample->note);
	sample->note.tag = 0;
}

int tsshim_sample_end(struct ts_sample *sample, int outcome)
{
	bool raised = outcome == TS_SAMPLE_RAISED;

	sample->cpu_ns = ts_thread_cpu_ns() - sample->cpu_start;
	sample->made_ns = ts_now_ns() - sample->made_at;
	ts_session_nest(false);
	if (sample->again)
		ts_session_count_passes(TS_REASON_TORCH_AGAIN, sample->part);
	else if (outcome != TS_SAMPLE_NOTHING && !sample->ahead)
		ts_session_count_made(TS_KIND_SAMPLE, sample->part);
	bool listing = sample->listing;
	sample->listing = false;
	if (!sample->observing) {
		if (listing)
			(void)ts_opens_end(&sample->opens);
		/* Made alone; others learn how far this job is. */
		if (!raised)
			ts_sample_note_made(sample);
		return -ECANCELED;
	}
	sample->observing = false;
	enum ts_reason reason = judge_inputs(sample);
	if (!raised && reason == TS_REASON_COUNT && ts_sample_is_ours(sample))
		return 0;
	if (!raised && reason != TS_REASON_COUNT)
		ts_session_count_passes(reason, sample->part);
	const void *inputs = sample->view.inputs;
	tsshim_sample_drop(sample);
	sample->view.inputs = inputs;
	return -ECANCELED;
}

/* Header, inputs and meta into @at; the room was reserved for exactly this. */
static void write_head(struct ts_sample *sample, unsigned char *at, const void *meta,
	uint64_t meta_bytes, uint64_t payload_bytes)
{
	struct ts_record record = {.magic = TS_RECORD_MAGIC,
		.input_bytes = sample->input_bytes,
		.meta_bytes = meta_bytes,
		.payload_bytes = payload_bytes};
	unsigned char *behind = at + sizeof(record);

	memcpy(behind, sample->inputs, sample->input_bytes);
	memcpy(behind + sample->input_bytes, meta, meta_bytes);
	record.check = ts_record_check(&record, behind);
	memcpy(at, &record, sizeof(record));
}

void *tsshim_sample_reserve(
	struct ts_sample *sample, const void *meta, uint64_t meta_bytes, uint64_t payload_bytes)
{
	void *buffer;

	if (!ts_sample_is_ours(sample) || sample->held != TS_HELD_CLAIM)
		return NULL;
	if (meta_bytes > TS_RECORD_META_MAX) {
		tsshim_sample_drop(sample);
		ts_session_count_pass(TS_REASON_TOO_LARGE);
		return NULL;
	}
	uint64_t payload = ts_record_payload_at(sample->input_bytes, meta_bytes);
	sample->record_bytes = payload + payload_bytes;
	int r = ts_claim_reserve(
		sample->store, &sample->take.claim, sample->record_bytes, &buffer);
	if (r < 0) {
		sample->held = TS_HELD_NOTHING; /* abandoned by the store */
		if (sample->errand.state != TS_ERRAND_NONE)
			ts_errand_drop(&sample->errand);
		ts_session_count_passes(ts_session_why_no_room(r), sample->part);
		return NULL;
	}
	sample->held = TS_HELD_ROOM;
	write_head(sample, buffer, meta, meta_bytes, payload_bytes);
	return (unsigned char *)buffer + payload;
}

/* What making a record of this size costs is what others wait for. */
void tsshim_sample_publish(struct ts_sample *sample)
{
	if (!ts_sample_is_ours(sample) || sample->held != TS_HELD_ROOM)
		return;
	sample->held = TS_HELD_NOTHING;
	ts_session_learn_cost(TS_KIND_SAMPLE, sample->record_bytes, sample->cpu_ns);
	int r = ts_claim_publish(
		sample->store, &sample->take.claim, sample->record_bytes, sample->cpu_ns);
	if (sample->errand.state != TS_ERRAND_NONE)
		ts_errand_made(&sample->errand, sample->made_ns);
	if (r != 0)
		return;
	ts_session_count_published();
	ts_sample_set_origin(sample, sample->take.claim.origin);
	if (sample->ahead)
		ts_session_count_made(TS_KIND_SAMPLE, sample->part);
	if (sample->ahead || sample->record_bytes >= LARGE)
		note_ahead(sample);
	ts_sample_note_made(sample);
}

/* ---- batches --------------------------------------------------------------------------- */

/* One that @is_lone has seeds and a note, and no key. */
static void name_position(struct ts_sample *sample, const struct ts_sample_batch *batch,
	uint64_t position, bool is_lone)
{
	size_t which = batch->which ? batch->which[position] : 0;
	uint32_t occurrence = batch->occurrences ? batch->occurrences[position] : 0;
	const unsigned char *stream = (const unsigned char *)batch->stream + which * NAME_BYTES;
	unsigned char index[INDEX_BYTES];

	name_index(batch->indices[position], index);
	if (is_lone)
		set_seeds(sample, stream, index, sizeof(index), occurrence);
	else
		tsshim_sample_name(sample,
			(const unsigned char *)batch->scope + which * NAME_BYTES, stream, index,
			sizeof(index), occurrence, 0);
	if (batch->tag != 0)
		tsshim_sample_note(sample, batch->tag, (uint32_t)batch->indices[position],
			batch->draws[which], batch->epoch);
}

void tsshim_sample_copy(void *to, const void *from, uint64_t bytes, uint64_t all)
{
	if (all >= STREAM_FROM)
		ts_stream_copy(to, from, bytes);
	else
		memcpy(to, from, bytes);
}

/* Copy the record that @sample holds if it is as expected; false: it is for the glue. */
static bool copy_record(
	struct ts_sample *sample, const struct ts_sample_batch *batch, uint64_t position)
{
	const struct ts_sample_view *view = ts_sample_view(sample);

	if (view->verify || view->payload_bytes != batch->payload_bytes ||
		view->meta_bytes > batch->meta_room || view->meta_bytes < batch->head_bytes ||
		memcmp(view->meta, batch->head, batch->head_bytes) != 0)
		return false;
	for (uint64_t i = 0; i < batch->leaf_count; i++) {
		const struct ts_sample_leaf *leaf = &batch->leaves[i];
		tsshim_sample_copy(leaf->base + position * leaf->bytes,
			(const unsigned char *)view->payload + leaf->offset, leaf->bytes,
			batch->count * batch->payload_bytes);
	}
	memcpy(batch->metas + position * batch->meta_room, view->meta, view->meta_bytes);
	batch->meta_bytes[position] = (uint32_t)view->meta_bytes;
	if (batch->origins)
		memcpy(batch->origins[position], view->origin, sizeof(view->origin));
	tsshim_sample_taken(sample);
	return true;
}

uint64_t tsshim_sample_take_batch(struct ts_sample *sample, const struct ts_sample_batch *batch,
	uint64_t from, int patient)
{
	for (uint64_t position = from; position < batch->count; position++) {
		uint8_t *state = &batch->states[position];
		if (*state != TS_SAMPLE_UNSEEN && *state != TS_SAMPLE_BUSY)
			continue;
		name_position(sample, batch, position, false);
		*state = (uint8_t)tsshim_sample_take(sample, TS_SAMPLE_NOW);
		if (*state == TS_SAMPLE_TAKEN && !copy_record(sample, batch, position))
			*state = TS_SAMPLE_ODD;
		if (*state != TS_SAMPLE_TAKEN && !(*state == TS_SAMPLE_BUSY && patient))
			return position;
	}
	return batch->count;
}

/* As tsshim_sample_take(), for a job that only wants to make it: nothing is held of a hit. */
static enum ts_verdict claim_only(struct ts_sample *sample)
{
	enum ts_verdict verdict = ask(sample, TS_SAMPLE_NOW);

	if (verdict == TS_HIT)
		ts_lease_release(sample->store, &sample->take.lease);
	return verdict;
}

uint64_t tsshim_sample_claim_batch(
	struct ts_sample *sample, const struct ts_sample_batch *batch, uint64_t from)
{
	for (uint64_t position = from; position < batch->count; position++) {
		name_position(sample, batch, position, false);
		enum ts_verdict verdict = claim_only(sample);
		if (verdict == TS_CLAIM)
			return position;
		if (verdict == TS_PASS)
			break;
	}
	return batch->count;
}

/* ---- items that go to nobody else: seeds, notes and counts --------------------------- */

void tsshim_sample_lone_begin(struct ts_sample_lone *lone)
{
	tsshim_sample_drop(lone->sample);
	lone->sample->note.tag = 0;
	lone->sample->part = lone->sample->whole = 1;
	tsshim_sample_begin(lone->sample, 0);
}

void tsshim_sample_lone_next(struct ts_sample_lone *lone)
{
	struct ts_sample *sample = lone->sample;

	ts_sample_note_made(sample);
	if (lone->is_seeded)
		lone->still = ts_globals_are_fresh(lone->globals) ? lone->still + 1 : 0;
	lone->is_seeded = 1;
	name_position(sample, lone->batch, lone->position++, true);
	tsshim_sample_seed_globals(lone->globals, sample->view.torch_seed,
		sample->view.python_seed, sample->view.numpy_seed);
}

void tsshim_sample_lone_end(
	struct ts_sample_lone *lone, uint64_t count, int raised, const char *reason)
{
	(void)tsshim_sample_end(lone->sample, raised ? TS_SAMPLE_RAISED : TS_SAMPLE_NOTHING);
	/* One that raises is counted there. */
	if (count > (raised != 0))
		ts_session_count_made(TS_KIND_SAMPLE, count - (raised != 0));
	tsshim_sample_pass(reason, (uint32_t)count);
}

/* ---- what the glue says for `tsrun stats` and `tsrun explain` ------------------------ */

void tsshim_sample_pass(const char *reason, uint32_t count)
{
	enum ts_reason none, found = ts_reason_find(reason);

	/* A worker that shares nothing would take what it counts along when it ends. */
	(void)ts_session_enter(&none);
	if (found < TS_REASON_COUNT)
		ts_session_count_passes(found, count);
}

void tsshim_sample_refused(const char *text)
{
	enum ts_reason none;

	(void)ts_session_enter(&none);
	ts_session_refuse(text);
}

void tsshim_sample_drawn(const void *identity, uint64_t computed, uint64_t delivered)
{
	ts_session_count_drawn(ts_hash64(identity, 16) | 1, computed, delivered);
}

void tsshim_sample_progress(
	const void *identity, uint64_t epoch, uint64_t done, uint64_t count, int is_free)
{
	enum ts_reason none;

	/* The trainer itself may share nothing: its workers do. */
	(void)ts_session_enter(&none);
	ts_session_advance(ts_hash64(identity, 16) | 1, epoch, done, count,
		is_free ? TS_ORDER_FREE : TS_ORDER_STRICT);
}

int tsshim_loader_say(uint32_t key, const uint64_t *numbers, const char *const *texts,
	uint32_t verdict, const char *reason, const char *detail, const void *parts,
	uint32_t part_count)
{
	struct ts_loader_facts facts;
	struct ts_loaders *loaders = NULL;
	enum ts_reason none;

	const struct ts_session *session = ts_session_enter(&none);
	if (!session || session->job >= TS_JOB_MAX || verdict >= TS_LOADER_VERDICT_COUNT ||
		ts_loaders_attach(session->store, &loaders) < 0)
		return TS_LOADER_UNSAID;
	memcpy(facts.numbers, numbers, sizeof(facts.numbers));
	memcpy(facts.texts, texts, sizeof(facts.texts));
	facts.parts = parts;
	facts.part_count = part_count;
	struct ts_loader_judgement judgement = {.verdict = (enum ts_loader_verdict)verdict,
		.reason = ts_reason_find(reason),
		.detail = detail};
	return ts_loaders_say(loaders, session->job, ts_identity_job(), key, &facts, &judgement)
		       ? TS_LOADER_SAID
		       : TS_LOADER_COUNTED;
}
