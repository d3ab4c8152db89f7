/* SPDX-License-Identifier: MIT */
/* Whole samples for the Python glue: naming, taking, producing, counting. */
#include "hooks/torch/samples_private.h"

#include "leader/group/session.h"
#include "shim/config.h"
#include "shim/hash.h"
#include "shim/identity.h"
#include "shim/sys.h"

#include <stdlib.h>
#include <string.h>

#define SAMPLE_ABI 19u

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
	return calloc(1, sizeof(struct ts_sample));
}

void tsshim_sample_destroy(struct ts_sample *sample)
{
	tsshim_sample_drop(sample);
	free(sample);
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

void ts_sample_index(int64_t index, unsigned char ret_bytes[TS_SAMPLE_INDEX])
{
	ret_bytes[0] = 'i';
	for (unsigned i = 0; i < 8; i++)
		ret_bytes[1 + i] = (unsigned char)((uint64_t)index >> (8 * i));
}

struct ts_key ts_sample_key(const void *scope, int64_t index, uint32_t occurrence)
{
	unsigned char bytes[TS_SAMPLE_INDEX];

	ts_sample_index(index, bytes);
	return key_of(scope, bytes, sizeof(bytes), occurrence, 0);
}

static void set_seeds(struct ts_sample_view *view, struct ts_hash128 seed)
{
	view->torch_seed = seed.lo >> 1;
	view->python_seed = seed.hi;
	/* Its own bits: two generators must not run in step. */
	view->numpy_seed = (uint32_t)(ts_hash64(&seed, sizeof(seed)) >> 32);
}

void ts_sample_set_seeds(
	struct ts_sample *sample, const void *stream, int64_t index, uint32_t occurrence)
{
	unsigned char bytes[TS_SAMPLE_INDEX];

	ts_sample_index(index, bytes);
	set_seeds(&sample->view, hash_item(stream, bytes, sizeof(bytes), occurrence));
	sample->note.tag = 0;
	sample->occurrence = occurrence;
}

void tsshim_sample_name(struct ts_sample *sample, const void *scope, const void *stream,
	const void *index, uint64_t index_bytes, uint32_t occurrence, int drawn)
{
	tsshim_sample_drop(sample);
	sample->key = key_of(scope, index, index_bytes, occurrence, drawn);
	sample->note.tag = 0;
	sample->occurrence = occurrence;
	sample->view = (struct ts_sample_view){.meta = NULL};
	set_seeds(&sample->view, hash_item(stream, index, index_bytes, occurrence));
}

void tsshim_sample_note(
	struct ts_sample *sample, uint64_t tag, uint32_t index, uint32_t draw, uint32_t epoch)
{
	sample->note = (struct ts_note_made){.tag = ts_note_tag(tag, sample->occurrence),
		.index = index,
		.draw = draw,
		.epoch = epoch};
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
		ts_session_count_pass(
			r == -EBADMSG ? TS_REASON_STORE_DAMAGED : TS_REASON_TORCH_CHANGED);
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
		ts_session_count_pass(reason);
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
		ts_session_count_pass(sample->take.reason);
	sample->view.is_alone =
		sample->take.verdict == TS_PASS && sample->take.reason == TS_REASON_ALONE;
	return sample->take.verdict;
}

int tsshim_sample_take(struct ts_sample *sample, int wait)
{
	enum ts_verdict verdict = ask(sample, wait);

	return verdict == TS_HIT ? accept_hit(sample) : (int)verdict;
}

int ts_sample_claim(struct ts_sample *sample)
{
	enum ts_verdict verdict = ask(sample, TS_SAMPLE_NOW);

	if (verdict == TS_HIT)
		ts_lease_release(sample->store, &sample->take.lease);
	return (int)verdict;
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
	if (ts_sample_is_ours(sample) && sample->held == TS_HELD_LEASE &&
		!ts_sample_was_ahead(sample))
		ts_session_count_shared(TS_KIND_SAMPLE, &sample->take.lease);
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
		ts_session_count_pass(TS_REASON_VERIFY);
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
