/* SPDX-License-Identifier: MIT */
/* Samples that are stored with servers, and whether that pays: leader/peer/kept.h. */
#include "leader/peer/kept.h"

#include "leader/object/killpoint.h"
#include "shim/atomic.h"
#include "shim/sys.h"

#include <stdio.h>
#include <string.h>

/* Looked through for room; the next time it goes on there. */
#define LOOKS 1024

#define NS_PER_S UINT64_C(1000000000)

/* So long a server may take to say what became of it. */
#define ANSWER_NS UINT64_C(500000000)

static struct ts_kept_sample *sample_at(struct ts_kept *kept, uint64_t at)
{
	return &kept->samples[at % TS_KEPT];
}

void ts_kept_init(struct ts_kept *kept, struct ts_mail *mail, struct ts_pool *pool,
	struct ts_worth *worth)
{
	kept->mail = mail;
	kept->pool = pool;
	kept->worth = worth;
}

void ts_kept_note(struct ts_kept *kept, const char *key, uint32_t count, const uint64_t *stored)
{
	struct ts_kept_sample *sample = sample_at(kept, kept->end);

	*sample = (struct ts_kept_sample){.at_ns = ts_now_ns(),
		.count = count,
		.is_looked_at = ++kept->end % TS_KEPT_ONE_IN == 0 && stored[0] != 0};
	memcpy(sample->stored, stored, sizeof(sample->stored));
	(void)snprintf(sample->key, sizeof(sample->key), "%s", key);
	/* What was the oldest is left to its time. */
	if (kept->end - kept->first > TS_KEPT)
		kept->first = kept->end - TS_KEPT;
	kept->look_at = ts_max_u64(kept->look_at, kept->first);
}

/* ---- requests --------------------------------------------------------------------------- */

static uint32_t requests_left(const struct ts_kept *kept)
{
	uint32_t left = 0;

	for (uint32_t i = 0; i < TS_KEPT_REQUESTS; i++)
		left += !kept->requests[i].all;
	return left;
}

/* One that is not in use, for chunk @chunk of @sample; there must be one. */
static struct ts_kept_request *prepare(
	struct ts_kept *kept, const struct ts_kept_sample *sample, uint32_t chunk)
{
	struct ts_kept_request *request = kept->requests;

	while (request->all)
		request++;
	*request =
		(struct ts_kept_request){.cas = sample->stored[chunk], .at_ns = sample->at_ns};
	(void)snprintf(request->key, sizeof(request->key), "%s:%u", sample->key, chunk);
	return request;
}

static bool submit(struct ts_kept *kept, struct ts_kept_request *request,
	enum ts_meta_kind kind, void (*done)(struct ts_pool_request *request))
{
	request->request = (struct ts_pool_request){
		.meta = {.kind = kind,
			.key = request->key,
			.cas = request->cas,
			.until_ns = ts_now_ns() + ts_pool_patience(ANSWER_NS)},
		.done = done,
		.context = request,
	};
	bool is_sent = ts_pool_submit(kept->pool, &request->request) == 0;
	if (is_sent)
		request->all = kept;
	return is_sent;
}

/* ---- looking ---------------------------------------------------------------------------- */

static void looked(struct ts_pool_request *pool_request)
{
	struct ts_kept_request *request = pool_request->context;
	const struct ts_meta_request *meta = &pool_request->meta;
	struct ts_kept *kept = request->all;

	request->all = NULL;
	/* Where ours was lost, another node may have made it again, and had it fetched. */
	if (meta->result == 0 && meta->cas == request->cas)
		ts_worth_note_look(
			kept->worth, request->at_ns, (meta->flags & TS_ANSWER_FETCHED) != 0);
}

static void look(struct ts_kept *kept, struct ts_kept_sample *sample)
{
	sample->is_looked_at = false;
	(void)submit(kept, prepare(kept, sample, 0), TS_META_LOOK, looked);
}

uint64_t ts_kept_deadline(const struct ts_kept *kept)
{
	if (kept->look_at == kept->end || requests_left(kept) == 0)
		return UINT64_MAX;
	return kept->samples[kept->look_at % TS_KEPT].at_ns + ts_pool_patience(TS_KEPT_LOOK_NS);
}

void ts_kept_step(struct ts_kept *kept)
{
	while (kept->look_at < kept->end) {
		struct ts_kept_sample *sample = sample_at(kept, kept->look_at);
		if (sample->is_looked_at && ts_now_ns() < ts_kept_deadline(kept))
			return;
		if (sample->is_looked_at)
			look(kept, sample);
		kept->look_at++;
	}
}

/* ---- removing --------------------------------------------------------------------------- */

static void removed(struct ts_pool_request *pool_request)
{
	struct ts_kept_request *request = pool_request->context;
	struct ts_kept *kept = request->all;

	if (request->is_first && pool_request->meta.result == 0)
		ts_mail_count(kept->mail, pool_request->server, TS_MAIL_COUNT_REMOVED, 1);
	request->all = NULL;
	TS_KILLPOINT(room_removed);
	if (request->done)
		request->done(request->context);
}

/*
 * All of its chunks, for @wanted or nobody: chunk 0 first, without which nobody asks for
 * another one.  What another node has put there meanwhile stays: ours was lost, and that one
 * has made it again.  Those of servers that are not asked now stay to the end of their time.
 * Returns how many are on their way out; with none there may be later.
 */
static uint32_t remove_sample(struct ts_kept *kept, const struct ts_kept_wanted *wanted,
	struct ts_kept_sample *sample)
{
	uint32_t count = 0;

	if (sample->count + sample->is_looked_at > requests_left(kept))
		return 0;
	/* The server is asked in this order.  Who clears all looks for nobody. */
	if (wanted && sample->is_looked_at)
		look(kept, sample);
	sample->is_looked_at = false;
	for (uint32_t chunk = 0; chunk < sample->count; chunk++) {
		if (sample->stored[chunk] == 0)
			continue; /* the server does not say */
		struct ts_kept_request *request = prepare(kept, sample, chunk);
		request->is_first = count == 0;
		request->done = wanted ? wanted->done : NULL;
		request->context = wanted ? wanted->context : NULL;
		count += submit(kept, request, TS_META_DELETE, removed);
	}
	if (count > 0)
		sample->count = 0;
	return count;
}

/* What has ended by its time takes no room. */
static void forget_ended(struct ts_kept *kept)
{
	uint64_t now = ts_now_ns();

	while (kept->first < kept->end &&
		now - sample_at(kept, kept->first)->at_ns >= TS_KEPT_SAMPLE * NS_PER_S)
		kept->first++;
	kept->look_at = ts_max_u64(kept->look_at, kept->first);
}

/*
 * Whether its last chunk, or one in front of that, lies at the server.  A server has room for a
 * chunk where one of that size was: its pages of memory are for one size each.  All chunks but
 * the last are of one size, and last ones mostly are, as samples of a data set are alike.
 */
static bool is_at(struct ts_kept *kept, const struct ts_kept_sample *sample,
	const struct ts_kept_wanted *wanted)
{
	uint32_t last = sample->count > 0 ? sample->count - 1 : 0;
	uint32_t from = wanted->is_last ? last : 0,
		 end = wanted->is_last ? sample->count : last;
	char key[TS_KEPT_CHUNK_KEY];

	for (uint32_t chunk = from; chunk < end; chunk++) {
		(void)snprintf(key, sizeof(key), "%s:%u", sample->key, chunk);
		if (ts_pool_server(kept->pool, key) == wanted->server)
			return true;
	}
	return false;
}

uint32_t ts_kept_make_room(struct ts_kept *kept, const struct ts_kept_wanted *wanted)
{
	uint64_t *at = &kept->room_at[wanted->server][wanted->is_last];
	uint32_t samples = 0, chunks = 0;

	forget_ended(kept);
	*at = ts_max_u64(*at, kept->first);
	for (uint64_t end = ts_min_u64(kept->end, *at + LOOKS); *at < end; (*at)++) {
		struct ts_kept_sample *sample = sample_at(kept, *at);
		if (samples == TS_KEPT_REMOVED ||
			ts_now_ns() - sample->at_ns < TS_KEPT_YOUNG_NS)
			break;
		/* What was lost before its time is being stored anew. */
		if (strcmp(sample->key, wanted->key) == 0 || !is_at(kept, sample, wanted))
			continue;
		uint32_t count = remove_sample(kept, wanted, sample);
		if (count == 0)
			break;
		chunks += count;
		samples++;
	}
	return chunks;
}

bool ts_kept_clear(struct ts_kept *kept)
{
	forget_ended(kept);
	for (; kept->first < kept->end; kept->first++) {
		struct ts_kept_sample *sample = sample_at(kept, kept->first);
		if (requests_left(kept) < sample->count)
			return true;
		/* Where a server is not asked now, it is left to its time. */
		sample->is_looked_at = false;
		(void)remove_sample(kept, NULL, sample);
	}
	kept->look_at = kept->first;
	return requests_left(kept) < TS_KEPT_REQUESTS;
}

/* ---- whether asking pays ------------------------------------------------------------------
 */

static struct ts_mail_use *use_of(const struct ts_worth *worth)
{
	return &worth->mail->table->use;
}

void ts_worth_init(struct ts_worth *worth, struct ts_mail *mail)
{
	*worth = (struct ts_worth){.mail = mail, .pause_ns = TS_MAIL_OFF_NS};
}

/* Somebody has use for what others make. */
static void go_on(struct ts_worth *worth)
{
	worth->row = 0;
	worth->pause_ns = TS_MAIL_OFF_NS;
	ts_write_relaxed(&use_of(worth)->unused_until, 0);
}

void ts_worth_note_got(struct ts_worth *worth, uint64_t took_ns, uint64_t made_ns)
{
	struct ts_mail_flow *flow = &worth->mail->table->samples;

	go_on(worth);
	worth->took_ns += took_ns;
	worth->made_ns += ts_mail_patience(made_ns);
	if (++worth->got < TS_WORTH_WINDOW)
		return;
	if (worth->took_ns > worth->made_ns) {
		ts_write_relaxed(&flow->off_until, ts_now_ns() + TS_MAIL_OFF_NS);
		ts_add_relaxed(&flow->times_off, 1);
	}
	worth->got = 0;
	worth->took_ns = worth->made_ns = 0;
}

static void go_off(struct ts_worth *worth)
{
	uint64_t now = ts_now_ns(), pause = worth->pause_ns;
	uint64_t left = pause - (uint64_t)ts_real_ns() % pause;

	if (left < pause / 2)
		left += pause;
	ts_write_relaxed(&use_of(worth)->unused_until, now + left);
	ts_add_relaxed(&use_of(worth)->times_unused, 1);
	worth->pause_ns = ts_min_u64(2 * pause, TS_MAIL_UNUSED_MAX_NS);
	worth->off_ns = now;
	worth->row = 0;
}

void ts_worth_note_look(struct ts_worth *worth, uint64_t stored_ns, bool was_fetched)
{
	ts_add_relaxed(&use_of(worth)->looked, 1);
	if (was_fetched) {
		go_on(worth);
		return;
	}
	ts_add_relaxed(&use_of(worth)->unused, 1);
	if (stored_ns >= worth->off_ns && ++worth->row == TS_WORTH_ROW)
		go_off(worth);
}

void ts_worth_finish(struct ts_worth *worth)
{
	go_on(worth);
}
