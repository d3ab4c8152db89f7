/* SPDX-License-Identifier: MIT */
/* Whole samples for the Python glue: naming, taking, producing, counting. */
#include "hooks/torch/samples_private.h"

#include "hooks/file/opens.h"
#include "leader/group/session.h"
#include "leader/journal/journal.h"
#include "shim/config.h"
#include "shim/hash.h"
#include "shim/identity.h"
#include "shim/sys.h"

#include <stdlib.h>
#include <string.h>

#define SAMPLE_ABI 11u

/* Anything younger may be being written still, and stamps of files are coarse. */
#define INPUT_AGE_NS UINT64_C(60000000000)

#ifdef TS_TEST_BUILD
/* Tests cannot make files old: nobody can set the time of a change. */
static uint64_t input_age_ns(void)
{
	return getenv("TSSHIM_TEST_YOUNG_INPUTS") ? 0 : INPUT_AGE_NS;
}
#else
#define input_age_ns() INPUT_AGE_NS
#endif

/* Structure and inputs of a record: more than this is no sample but a data set. */
#define META_MAX (UINT64_C(16) << 20)

#define RECORD_MAGIC 0x31455354u /* "TSE1" */

/** What a record begins with; inputs, meta and payload follow, the payload 64-byte aligned. */
struct record {
	uint32_t magic;
	uint32_t input_bytes;
	uint64_t meta_bytes;
	uint64_t payload_bytes;
	uint64_t check; /* of the three above, the inputs and the meta */
};

/** What the struct holds at the moment. */
enum held { HELD_NOTHING, HELD_LEASE, HELD_CLAIM, HELD_ROOM };

struct ts_sample {
	struct ts_sample_view view; /* first: the glue reads it */
	struct ts_store *store;
	uint32_t serial; /* ts_identity_serial() of the take: a fork child must not go on */
	enum held held;
	bool listing;   /* the files that this thread opens */
	bool observing; /* for a record, or to be told */
	struct ts_key key;
	uint32_t occurrence;
	struct ts_note_made note; /* of the sample when it is made; tag 0: none */
	struct ts_take take;
	struct ts_patience patience;
	uint64_t cpu_start, cpu_ns;
	uint64_t record_bytes; /* of the record in the making, or the last one */
	struct ts_opens opens;
	uint32_t input_bytes; /* of the list below, as it goes into the record */
	unsigned char inputs[TS_OPENS_ENCODED_MAX];
};

uint32_t tsshim_sample_abi(void)
{
	return SAMPLE_ABI;
}

void tsshim_sample_settings(uint32_t *ret_aligned, uint64_t *ret_seed, uint64_t *ret_epoch,
	uint32_t *ret_share, uint32_t *ret_free)
{
	const struct ts_config *config = ts_config();

	*ret_aligned = config->align && !config->disable;
	*ret_seed = config->align_seed;
	*ret_epoch = config->epoch;
	*ret_free = config->order == TS_ORDER_FREE;
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

static struct ts_hash128 hash_item(
	const void *prefix, const void *index, uint64_t index_bytes, uint32_t occurrence)
{
	struct ts_hasher hasher;

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

void tsshim_sample_name(struct ts_sample *sample, const void *scope, const void *stream,
	const void *index, uint64_t index_bytes, uint32_t occurrence, int drawn)
{
	tsshim_sample_drop(sample);
	struct ts_hash128 seed = hash_item(stream, index, index_bytes, occurrence);

	sample->key = key_of(scope, index, index_bytes, occurrence, drawn);
	sample->note.tag = 0;
	sample->occurrence = occurrence;
	sample->view = (struct ts_sample_view){
		.torch_seed = seed.lo >> 1,
		.python_seed = seed.hi,
		/* Its own bits: two generators must not run in step. */
		.numpy_seed = (uint32_t)(ts_hash64(&seed, sizeof(seed)) >> 32),
	};
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

static uint64_t payload_at(uint64_t input_bytes, uint64_t meta_bytes)
{
	return ts_align_up(sizeof(struct record) + input_bytes + meta_bytes, 64);
}

static uint64_t check_of(const struct record *record, const void *behind)
{
	struct ts_hasher hasher;

	ts_hasher_init(&hasher);
	ts_hasher_add(&hasher, record, offsetof(struct record, check));
	ts_hasher_add(&hasher, behind, record->input_bytes + record->meta_bytes);
	return ts_hasher_digest(&hasher).lo;
}

static void set_origin(struct ts_sample *sample, uint64_t origin)
{
	sample->view.origin[0] = sample->key.lo;
	sample->view.origin[1] = origin;
}

/* Look into the leased record.  Errors: -EBADMSG; those of ts_opens_check(). */
static int read_record(struct ts_sample *sample)
{
	const struct ts_lease *lease = &sample->take.lease;
	const unsigned char *at = lease->data;
	struct record record;

	if (lease->bytes < sizeof(record))
		return -EBADMSG;
	memcpy(&record, at, sizeof(record));
	if (record.magic != RECORD_MAGIC || record.meta_bytes > META_MAX ||
		record.input_bytes > META_MAX || record.payload_bytes > lease->bytes)
		return -EBADMSG;
	uint64_t payload = payload_at(record.input_bytes, record.meta_bytes);
	if (payload + record.payload_bytes != lease->bytes ||
		record.check != check_of(&record, at + sizeof(record)))
		return -EBADMSG;
	sample->view.meta = at + sizeof(record) + record.input_bytes;
	sample->view.meta_bytes = record.meta_bytes;
	sample->view.payload = at + payload;
	sample->view.payload_bytes = record.payload_bytes;
	sample->view.inputs = at + sizeof(record);
	sample->view.input_bytes = record.input_bytes;
	set_origin(sample, lease->origin);
	return ts_opens_check(at + sizeof(record), record.input_bytes);
}

static int accept_hit(struct ts_sample *sample)
{
	sample->held = HELD_LEASE;
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
	if (sample->take.verdict == TS_BUSY && wait != TS_SAMPLE_NOW)
		await(sample, wait);
	if (sample->take.verdict == TS_CLAIM)
		sample->held = HELD_CLAIM;
	else if (sample->take.verdict == TS_PASS)
		ts_session_count_pass(sample->take.reason);
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

/* Whether what the struct holds is this process's; what a parent holds is not ours to end. */
static bool is_ours(struct ts_sample *sample)
{
	if (sample->held != HELD_NOTHING && sample->serial == ts_identity_serial())
		return true;
	sample->held = HELD_NOTHING;
	return false;
}

void tsshim_sample_taken(struct ts_sample *sample)
{
	if (is_ours(sample) && sample->held == HELD_LEASE)
		ts_session_count_shared(TS_KIND_SAMPLE, &sample->take.lease);
	tsshim_sample_drop(sample);
}

int tsshim_sample_relative(void)
{
	return ts_opens_saw_relative();
}

void tsshim_sample_verified(struct ts_sample *sample, int equal)
{
	if (is_ours(sample) && sample->held == HELD_LEASE) {
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
	if (is_ours(sample)) {
		if (sample->held == HELD_LEASE)
			ts_lease_release(sample->store, &sample->take.lease);
		else
			ts_claim_abandon(sample->store, &sample->take.claim);
	}
	sample->held = HELD_NOTHING;
	sample->view.meta = NULL;
	sample->view.payload = NULL;
	sample->view.inputs = NULL;
	sample->view.origin[0] = 0;
}

/* ---- a record in the making ---------------------------------------------------------- */

void tsshim_sample_begin(struct ts_sample *sample, int how)
{
	sample->observing =
		(how & TS_SAMPLE_WATCH) != 0 || (is_ours(sample) && sample->held == HELD_CLAIM);
	sample->listing = sample->observing || ts_config()->align;
	sample->view.inputs = NULL;
	ts_session_nest((how & TS_SAMPLE_NEST) != 0);
	if (sample->listing)
		ts_opens_begin(&sample->opens);
	sample->cpu_start = ts_thread_cpu_ns();
}

/* Whether the files that were opened allow publishing; TS_REASON_COUNT if they do. */
static enum ts_reason judge_inputs(struct ts_sample *sample)
{
	if (ts_opens_end(&sample->opens) != 0)
		return TS_REASON_TORCH_INPUTS;
	int64_t bytes = ts_opens_encode(&sample->opens, sample->inputs, sizeof(sample->inputs));
	if (bytes < 0)
		return TS_REASON_TORCH_INPUTS;
	sample->input_bytes = (uint32_t)bytes;
	/* A file that changed meanwhile is too young as well. */
	if (ts_opens_settled(&sample->opens, input_age_ns()) != 0)
		return TS_REASON_TORCH_YOUNG;
	sample->view.inputs = sample->inputs;
	sample->view.input_bytes = sample->input_bytes;
	return TS_REASON_COUNT;
}

/* Hints: where there is no journal nobody finds what was made. */
static void note_made(struct ts_sample *sample)
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
	ts_session_nest(false);
	if (outcome != TS_SAMPLE_NOTHING)
		ts_session_count_produced(TS_KIND_SAMPLE, 0, 0);
	bool listing = sample->listing;
	sample->listing = false;
	if (!sample->observing) {
		if (listing)
			(void)ts_opens_end(&sample->opens);
		/* Made alone; others learn how far this job is. */
		if (!raised)
			note_made(sample);
		return -ECANCELED;
	}
	sample->observing = false;
	enum ts_reason reason = judge_inputs(sample);
	if (!raised && reason == TS_REASON_COUNT && is_ours(sample))
		return 0;
	if (!raised && reason != TS_REASON_COUNT)
		ts_session_count_pass(reason);
	const void *inputs = sample->view.inputs;
	tsshim_sample_drop(sample);
	sample->view.inputs = inputs;
	return -ECANCELED;
}

/* Header, inputs and meta into @at; the room was reserved for exactly this. */
static void write_head(struct ts_sample *sample, unsigned char *at, const void *meta,
	uint64_t meta_bytes, uint64_t payload_bytes)
{
	struct record record = {.magic = RECORD_MAGIC,
		.input_bytes = sample->input_bytes,
		.meta_bytes = meta_bytes,
		.payload_bytes = payload_bytes};
	unsigned char *behind = at + sizeof(record);

	memcpy(behind, sample->inputs, sample->input_bytes);
	memcpy(behind + sample->input_bytes, meta, meta_bytes);
	record.check = check_of(&record, behind);
	memcpy(at, &record, sizeof(record));
}

void *tsshim_sample_reserve(
	struct ts_sample *sample, const void *meta, uint64_t meta_bytes, uint64_t payload_bytes)
{
	void *buffer;

	if (!is_ours(sample) || sample->held != HELD_CLAIM)
		return NULL;
	if (meta_bytes > META_MAX) {
		tsshim_sample_drop(sample);
		ts_session_count_pass(TS_REASON_TOO_LARGE);
		return NULL;
	}
	uint64_t payload = payload_at(sample->input_bytes, meta_bytes);
	sample->record_bytes = payload + payload_bytes;
	int r = ts_claim_reserve(
		sample->store, &sample->take.claim, sample->record_bytes, &buffer);
	if (r < 0) {
		sample->held = HELD_NOTHING; /* abandoned by the store */
		ts_session_count_pass(ts_session_why_no_room(r));
		return NULL;
	}
	sample->held = HELD_ROOM;
	write_head(sample, buffer, meta, meta_bytes, payload_bytes);
	return (unsigned char *)buffer + payload;
}

/* What making a record of this size costs is what others wait for. */
void tsshim_sample_publish(struct ts_sample *sample)
{
	if (!is_ours(sample) || sample->held != HELD_ROOM)
		return;
	sample->held = HELD_NOTHING;
	ts_session_learn_cost(TS_KIND_SAMPLE, sample->record_bytes, sample->cpu_ns);
	if (ts_claim_publish(sample->store, &sample->take.claim, sample->record_bytes,
		    sample->cpu_ns) != 0)
		return;
	set_origin(sample, sample->take.claim.origin);
	note_made(sample);
}
