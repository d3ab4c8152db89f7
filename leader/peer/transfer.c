/* SPDX-License-Identifier: MIT */
/* Transfers: all of them, and how each begins. leader/peer/transfer.h explains it. */
#include "leader/peer/transfer_private.h"

#include "leader/object/killpoint.h"
#include "shim/sys.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* ---- all of them ------------------------------------------------------------------------ */

#define BUFFERS_BYTES ((size_t)TS_TRANSFER_BUFFERS * TS_VALUE_CHUNK)

/* Of those who wait for what another node makes, as the server says: leader/peer/transfer.h. */
static const struct ts_breaker_times waiting_times = {
	.first_ns = TS_TRANSFER_TIRED_NS, .last_ns = TS_TRANSFER_TIRED_MAX_NS};

/* Zeroed, and memory only where it is touched. */
static void *map(size_t bytes)
{
	void *start =
		mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return start == MAP_FAILED ? NULL : start;
}

int ts_transfers_set_secrets(struct ts_transfers *transfers, const struct ts_secrets *secrets)
{
	struct ts_sealer *sealer = NULL;
	int r = ts_sealer_create(secrets, &sealer);

	if (r < 0)
		return r;
	ts_sealer_destroy(transfers->sealer);
	transfers->sealer = sealer;
	/* What was refused may have been made with the new one. */
	memset(transfers->refused, 0, sizeof(transfers->refused));
	return 0;
}

int ts_transfers_create(struct ts_mail *mail, struct ts_pool *pool, const char *stem,
	const struct ts_secrets *secrets, struct ts_transfers **ret_transfers)
{
	struct ts_transfers *all = map(sizeof(*all));

	if (!all)
		return -ENOMEM;
	all->mail = mail;
	all->pool = pool;
	all->stem = stem;
	all->uid = geteuid();
	all->end = &all->first;
	ts_worth_init(&all->worth, mail);
	ts_kept_init(&all->kept, mail, pool, &all->worth);
	for (uint32_t i = 0; i < TS_CLUSTER_SERVERS; i++)
		ts_breaker_init(&all->waiting[i].breaker, &waiting_times, i);
	all->buffers = map(BUFFERS_BYTES);
	int r = all->buffers ? ts_transfers_set_secrets(all, secrets) : -ENOMEM;
	if (r < 0) {
		ts_transfers_destroy(all);
		return r;
	}
	for (uint32_t i = 0; i < TS_TRANSFERS; i++) {
		all->transfers[i].all = all;
		all->transfers[i].next = all->free;
		all->free = &all->transfers[i];
	}
	for (uint32_t i = 0; i < TS_TRANSFER_BUFFERS; i++) {
		all->parts[i].bytes = all->buffers + (size_t)i * TS_VALUE_CHUNK;
		all->parts[i].next = all->free_parts;
		all->free_parts = &all->parts[i];
	}
	*ret_transfers = all;
	return 0;
}

void ts_transfers_destroy(struct ts_transfers *transfers)
{
	if (!transfers)
		return;
	for (struct ts_transfer *one = transfers->first; one; one = one->next) {
		if (one->fd >= 0)
			ts_sys_close(one->fd);
		ts_transfer_let_go(one);
		/* Those of others are told by them. */
		if (one->index != TS_TRANSFER_NOBODY && !one->done)
			(void)ts_mail_answer(transfers->mail, one->index, TS_MAIL_SAYS_NONE);
	}
	ts_sealer_destroy(transfers->sealer);
	if (transfers->buffers)
		munmap(transfers->buffers, BUFFERS_BYTES);
	munmap(transfers, sizeof(*transfers));
}

bool ts_transfers_have_room(const struct ts_transfers *transfers)
{
	return transfers->free != NULL;
}

uint32_t ts_transfers_count(const struct ts_transfers *transfers)
{
	return transfers->count;
}

/* ==== fetching =========================================================================== */

static void fetch(struct ts_transfer *transfer);

/* ---- chunks that came ------------------------------------------------------------------- */

static void refuse(struct ts_transfer *transfer, uint32_t server)
{
	ts_transfer_set_refused(transfer, true);
	transfer->deletes = true;
	ts_transfer_count(transfer, server, TS_MAIL_COUNT_REFUSED, 1);
	ts_transfer_end(transfer, TS_MAIL_SAYS_REFUSED);
}

/* Whether the chunk is in the file; else the transfer has ended. */
static bool take_chunk(struct ts_transfer *transfer, struct ts_part *part)
{
	const struct ts_meta_request *meta = &part->request.meta;
	bool is_sample = ts_transfer_is_sample(transfer);
	uint64_t at = (uint64_t)part->place.chunk * TS_VALUE_CHUNK +
		      (is_sample ? ts_mail_place_at(transfer->index) : transfer->request.at);
	int r = meta->result == -EMSGSIZE ? -EOVERFLOW
					  : ts_value_open(transfer->all->sealer, &part->place,
						    &part->head, meta->bytes, part->to);

	if (r == 0 && is_sample && part->place.chunk == 0)
		r = ts_transfer_learn(transfer, part);
	if (r == -ENOTSUP) {
		ts_transfer_end(
			transfer, ts_transfer_explain(transfer, part->request.server, r));
		return false;
	}
	if (r < 0) {
		refuse(transfer, part->request.server);
		return false;
	}
	TS_KILLPOINT(peer_opened);
	/* Who has left may have given the file away. */
	if (!ts_mail_is_wanted(transfer->all->mail, transfer->index)) {
		ts_transfer_end(transfer, TS_MAIL_SAYS_LATE);
		return false;
	}
	if (part->to == part->bytes)
		r = ts_transfer_write(is_sample ? transfer->all->places_fd : transfer->fd,
			part->bytes, part->head.bytes, at);
	TS_KILLPOINT(peer_written);
	if (r < 0)
		ts_transfer_end(transfer, TS_MAIL_SAYS_UNFIT);
	return r == 0;
}

/* All of it is in its place. */
static void got_sample(struct ts_transfer *transfer)
{
	uint64_t took_ns = ts_now_ns() - transfer->asked_ns;

	ts_worth_note_got(&transfer->all->worth, took_ns, transfer->request.made_ns);
	ts_mail_set_found(transfer->all->mail, transfer->index,
		transfer->request.bytes - sizeof(struct ts_mail_sample), took_ns);
}

static void get_on(struct ts_transfer *transfer)
{
	if (transfer->next_chunk < transfer->count || transfer->on_way > 0) {
		fetch(transfer);
		return;
	}
	ts_transfer_count(transfer, transfer->server, TS_MAIL_COUNT_GOT, 1);
	ts_transfer_count(
		transfer, transfer->server, TS_MAIL_COUNT_GOT_BYTES, transfer->request.bytes);
	if (ts_transfer_is_sample(transfer))
		got_sample(transfer);
	ts_transfer_end(transfer, TS_MAIL_SAYS_GOT);
}

/* ---- the others ------------------------------------------------------------------------- */

static void other_done(struct ts_pool_request *request)
{
	struct ts_part *part = ts_transfer_arrived(request);
	struct ts_transfer *transfer = part->transfer;
	int result = request->meta.result;
	bool is_taken = false;

	if (transfer->state != TS_TRANSFER_FILLING) {
		ts_transfer_end(transfer, TS_MAIL_SAYS_NONE);
	} else if (result < 0 && result != -EMSGSIZE) {
		/* Chunk 0 was stored last: this one was there, and has gone. */
		transfer->deletes = result == -ENOENT;
		ts_transfer_end(
			transfer, ts_transfer_explain(transfer, request->server, result));
	} else {
		is_taken = take_chunk(transfer, part);
	}
	ts_transfer_release_part(part);
	if (is_taken)
		get_on(transfer);
}

static void ask_others(struct ts_transfer *transfer)
{
	while (transfer->next_chunk < transfer->count && transfer->on_way < TS_TRANSFER_PARTS) {
		struct ts_part *part = ts_transfer_take_part(transfer, transfer->next_chunk);
		if (!part)
			return;
		transfer->next_chunk++;
		if (!ts_transfer_submit(part, TS_META_GET, TS_TRANSFER_ANSWER_NS, other_done))
			return;
	}
}

/* ---- the first one ---------------------------------------------------------------------- */

static struct ts_transfer_waiting *waiting_for(const struct ts_transfer *transfer)
{
	return &transfer->all->waiting[transfer->server];
}

/*
 * Waits at the same time are one: a file system that stands still for a second makes all
 * readers wait in vain, and says nothing more than one of them does.
 */
static void wait_was_in_vain(struct ts_transfer *transfer)
{
	struct ts_transfer_waiting *waiting = waiting_for(transfer);

	if (transfer->waits_ns < waiting->judged_ns)
		return;
	waiting->judged_ns = ts_now_ns();
	ts_breaker_failed(&waiting->breaker, transfer->ticket);
}

/* Which server it would have asked, had there been a buffer. */
static uint32_t server_of(const struct ts_transfer *transfer)
{
	char key[TS_TRANSFER_CHUNK];

	if (transfer->is_counted)
		return transfer->server;
	(void)snprintf(key, sizeof(key), "%s:0", transfer->key);
	return ts_pool_server(transfer->all->pool, key);
}

/* Its time is over, or another node makes it and there is no hope that this ends. */
static void end_late(struct ts_transfer *transfer)
{
	if (transfer->waits_ns > 0)
		wait_was_in_vain(transfer);
	ts_transfer_count(transfer, server_of(transfer), TS_MAIL_COUNT_LATE, 1);
	ts_transfer_end(transfer, TS_MAIL_SAYS_LATE);
}

static void pause_transfer(struct ts_transfer *transfer)
{
	uint64_t now = ts_now_ns();

	if (transfer->waits_ns == 0) {
		if (ts_breaker_ask(&waiting_for(transfer)->breaker, &transfer->ticket) < 0) {
			end_late(transfer);
			return;
		}
		transfer->waits_ns = now;
	}
	transfer->state = TS_TRANSFER_PAUSED;
	transfer->at_ns = now + transfer->pause_ns;
	transfer->pause_ns = ts_min_u64(2 * transfer->pause_ns, TS_TRANSFER_LAST_NS);
}

/* Whether it is asked for together with the right to make it. */
static bool may_win(const struct ts_transfer *transfer)
{
	return !transfer->done;
}

/* Who has not asked for the right to make it would neither use it nor give it back. */
static void win(struct ts_transfer *transfer)
{
	if (!may_win(transfer)) {
		ts_transfer_end(
			transfer, ts_transfer_explain(transfer, transfer->server, -ENOENT));
		return;
	}
	ts_transfer_count(transfer, transfer->server, TS_MAIL_COUNT_WON, 1);
	ts_transfer_end(transfer, TS_MAIL_SAYS_WON);
}

/* An answer without a single byte; returns whether it was one. */
static bool take_word(struct ts_transfer *transfer, const struct ts_meta_request *meta)
{
	if (meta->result < 0 && meta->result != -EMSGSIZE) {
		ts_transfer_end(transfer,
			ts_transfer_explain(transfer, transfer->server, meta->result));
		return true;
	}
	if (meta->result < 0 || meta->bytes > 0)
		return false;
	if (meta->flags & TS_ANSWER_WON)
		win(transfer);
	else if ((meta->flags & TS_ANSWER_MADE) ||
		 !may_win(transfer)) /* a place, not asked for */
		pause_transfer(transfer);
	else
		return false;
	return true;
}

static void first_done(struct ts_pool_request *request)
{
	struct ts_part *part = ts_transfer_arrived(request);
	struct ts_transfer *transfer = part->transfer;
	const struct ts_meta_request *meta = &request->meta;
	bool is_taken = false;

	transfer->cas = meta->cas;
	if (transfer->state != TS_TRANSFER_ASKING) {
		/* It was too late, and nobody makes what was won. */
		transfer->deletes =
			transfer->deletes || (meta->result == 0 && meta->bytes == 0 &&
						     (meta->flags & TS_ANSWER_WON) != 0);
		ts_transfer_end(transfer, TS_MAIL_SAYS_LATE);
	} else if (!take_word(transfer, meta)) {
		is_taken = take_chunk(transfer, part);
	}
	ts_transfer_release_part(part);
	if (is_taken) {
		transfer->waits_ns = 0;
		ts_breaker_close(&waiting_for(transfer)->breaker);
		transfer->state = TS_TRANSFER_FILLING;
		transfer->next_chunk = 1;
		get_on(transfer);
	}
}

static void ask_first(struct ts_transfer *transfer)
{
	struct ts_part *part = ts_transfer_take_part(transfer, 0);

	if (!part)
		return;
	part->request.meta.vivify = may_win(transfer);
	part->request.meta.ttl =
		may_win(transfer) ? (uint32_t)ts_pool_patience(TS_TRANSFER_PLACE) : 0;
	transfer->state = TS_TRANSFER_ASKING;
	transfer->asked_ns = ts_now_ns();
	if (!ts_transfer_submit(part, TS_META_GET, TS_TRANSFER_ANSWER_NS, first_done) ||
		transfer->is_counted)
		return;
	transfer->is_counted = true;
	ts_transfer_count(transfer, transfer->server, TS_MAIL_COUNT_ASKED, 1);
}

/* Get on, if there is something to be begun. */
static void fetch(struct ts_transfer *transfer)
{
	/* Its time has come, and does not come again while it wants a buffer. */
	if (transfer->state == TS_TRANSFER_PAUSED && ts_now_ns() >= transfer->at_ns)
		transfer->state = TS_TRANSFER_QUEUED;
	if (transfer->state == TS_TRANSFER_QUEUED)
		ask_first(transfer);
	else if (transfer->state == TS_TRANSFER_FILLING)
		ask_others(transfer);
}

/* ==== storing ============================================================================ */

static void store(struct ts_transfer *transfer);

/* Of one value on their way: who fetches comes first. */
#define STORE_PARTS 4

/* So often room is made for a sample, whose chunks lie at several servers. */
#define ROOMS 4

/* What is not stored as a whole is not there. */
static void give_up(struct ts_transfer *transfer, enum ts_mail_answer answer)
{
	transfer->deletes = true;
	ts_transfer_end(transfer, answer);
}

static void stored(struct ts_transfer *transfer)
{
	ts_transfer_set_refused(transfer, false);
	ts_transfer_count(transfer, transfer->server, TS_MAIL_COUNT_STORED, 1);
	ts_transfer_count(transfer, transfer->server, TS_MAIL_COUNT_STORED_BYTES,
		transfer->request.bytes);
	if (transfer->is_leased)
		ts_kept_note(
			&transfer->all->kept, transfer->key, transfer->count, transfer->stored);
	ts_transfer_end(transfer, TS_MAIL_SAYS_GOT);
}

/* What is still being stored goes on with the next turn of the loop. */
static void room_made(void *context)
{
	struct ts_transfer *transfer = context;

	transfer->on_way--;
	transfer->removing--;
	if (transfer->state != TS_TRANSFER_STORING)
		ts_transfer_end(transfer, TS_MAIL_SAYS_NONE);
}

static bool make_room(struct ts_transfer *transfer, uint32_t server, uint32_t chunk)
{
	const struct ts_kept_wanted wanted = {.key = transfer->key,
		.server = server,
		.is_last = chunk + 1 == transfer->count,
		.done = room_made,
		.context = transfer};
	uint32_t count = ts_kept_make_room(&transfer->all->kept, &wanted);

	transfer->on_way += count;
	transfer->removing += count;
	return count > 0;
}

/* Whether chunk @chunk, for which @server has no room, is stored once more. */
static bool is_stored_again(struct ts_transfer *transfer, uint32_t server, uint32_t chunk)
{
	if (!transfer->is_leased)
		return false;
	if (transfer->removing == 0) {
		if (transfer->rooms == ROOMS || !make_room(transfer, server, chunk))
			return false;
		transfer->rooms++;
	}
	/* And those behind it, which are there: in that order they are sent. */
	if (transfer->next_chunk < chunk + 1)
		transfer->next_chunk = chunk + 1;
	return true;
}

static void chunk_stored(struct ts_pool_request *request)
{
	struct ts_part *part = ts_transfer_arrived(request);
	struct ts_transfer *transfer = part->transfer;
	uint32_t chunk = part->place.chunk, server = request->server;
	int result = request->meta.result;

	if (transfer->is_leased)
		transfer->stored[chunk] = request->meta.cas;

	ts_transfer_release_part(part);
	TS_KILLPOINT(peer_stored);
	if (transfer->state != TS_TRANSFER_STORING)
		ts_transfer_end(transfer, TS_MAIL_SAYS_NONE);
	else if (result == -ENOSPC && is_stored_again(transfer, server, chunk))
		return; /* with the next turn */
	else if (result < 0)
		give_up(transfer, ts_transfer_explain(transfer, server, result));
	else if (chunk == 0)
		stored(transfer);
	else
		store(transfer);
}

/* Read and seal the chunk of @part.  Errors: those of reading and of ts_value_seal(). */
static int prepare(struct ts_transfer *transfer, struct ts_part *part)
{
	uint64_t at = transfer->request.at + (uint64_t)part->place.chunk * TS_VALUE_CHUNK;
	size_t bytes = part->request.meta.parts[1].iov_len;
	int r = 0;

	/* Read and not mapped: a file that is cut short is an error and no signal. */
	if (transfer->is_leased)
		ts_transfer_copy(transfer, at, bytes, part->bytes);
	else
		r = ts_sys_read_all(transfer->fd, part->bytes, bytes, at);
	if (r == 0)
		r = ts_value_seal(
			transfer->all->sealer, &part->place, part->bytes, &part->head);
	TS_KILLPOINT(peer_sealed);
	return r;
}

/* Whether the next one was sent; @chunk is the number of those that are left behind it. */
static bool send_chunk(struct ts_transfer *transfer, uint32_t chunk)
{
	struct ts_part *part = ts_transfer_take_part(transfer, chunk);

	if (!part)
		return false;
	transfer->next_chunk = chunk;
	if (prepare(transfer, part) < 0) {
		ts_transfer_release_part(part);
		give_up(transfer, TS_MAIL_SAYS_UNFIT);
		return false;
	}
	/* Ends the transfer, if it cannot be: the place is deleted then as well. */
	transfer->deletes = true;
	if (transfer->is_leased) {
		part->request.meta.ttl = TS_KEPT_SAMPLE;
		part->request.meta.numbers = true;
	}
	bool is_sent =
		ts_transfer_submit(part, TS_META_SET, TS_TRANSFER_STORE_NS, chunk_stored);
	if (is_sent)
		transfer->deletes = false;
	return is_sent;
}

static void store(struct ts_transfer *transfer)
{
	if (transfer->removing > 0)
		return;
	while (transfer->next_chunk > 1 && transfer->on_way < STORE_PARTS)
		if (!send_chunk(transfer, transfer->next_chunk - 1))
			return;
	/* Who finds chunk 0 has to find all. */
	if (transfer->next_chunk == 1 && transfer->on_way == 0)
		(void)send_chunk(transfer, 0);
}

/* ---- the beginning of one --------------------------------------------------------------- */

static bool is_possible(const struct ts_mail_request *request)
{
	return request->bytes > 0 && request->bytes <= TS_VALUE_MAX &&
	       request->at <= INT64_MAX - request->bytes;
}

static void set_key(struct ts_transfer *transfer)
{
	const struct ts_mail_request *request = &transfer->request;
	char piece[16] = "";

	if (!ts_transfer_is_sample(transfer))
		(void)snprintf(piece, sizeof(piece), ".%u", request->piece);
	transfer->key_bytes = (size_t)snprintf(transfer->key, sizeof(transfer->key),
		"%s:%016llx%016llx%s", ts_transfer_is_sample(transfer) ? "s1" : "f1",
		(unsigned long long)request->name.hi, (unsigned long long)request->name.lo,
		piece);
}

static struct ts_transfer *take(
	struct ts_transfers *all, uint32_t index, const struct ts_mail_request *request)
{
	struct ts_transfer *transfer = all->free;

	all->free = transfer->next;
	all->count++;
	*transfer = (struct ts_transfer){
		.all = all,
		.link = all->end,
		.index = index,
		.request = *request,
		.fd = -1,
		.count = ts_value_count(request->bytes),
		.cas = request->place,
		.pause_ns = TS_TRANSFER_FIRST_NS,
	};
	*all->end = transfer;
	all->end = &transfer->next;
	set_key(transfer);
	return transfer;
}

static void begin_fetch(struct ts_transfer *transfer)
{
	if (ts_transfer_is_refused(transfer)) {
		ts_transfer_end(transfer, TS_MAIL_SAYS_REFUSED);
		return;
	}
	/* Before anything is won that could not be made use of. */
	if (ts_transfer_open(transfer->all, &transfer->request, &transfer->fd) < 0) {
		ts_transfer_end(transfer, TS_MAIL_SAYS_UNFIT);
		return;
	}
	TS_KILLPOINT(peer_found);
	fetch(transfer);
}

static void begin_store(struct ts_transfer *transfer)
{
	transfer->state = TS_TRANSFER_STORING;
	transfer->next_chunk = transfer->count;
	if (ts_transfer_open(transfer->all, &transfer->request, &transfer->fd) < 0) {
		transfer->deletes = true;
		ts_transfer_end(transfer, TS_MAIL_SAYS_UNFIT);
		return;
	}
	TS_KILLPOINT(peer_found);
	store(transfer);
}

static void begin_sample(struct ts_transfer *transfer)
{
	if (!transfer->all->store || transfer->index >= TS_MAIL_PLACES)
		ts_transfer_end(transfer, TS_MAIL_SAYS_UNFIT);
	else if (ts_transfer_is_refused(transfer))
		ts_transfer_end(transfer, TS_MAIL_SAYS_REFUSED);
	else
		fetch(transfer);
}

static void begin_sample_store(struct ts_transfer *transfer)
{
	transfer->state = TS_TRANSFER_STORING;
	if (!transfer->all->store || ts_transfer_hold(transfer) < 0) {
		transfer->deletes = true;
		ts_transfer_end(transfer, TS_MAIL_SAYS_UNFIT);
		return;
	}
	TS_KILLPOINT(peer_found);
	transfer->count = ts_value_count(transfer->request.bytes);
	transfer->next_chunk = transfer->count;
	store(transfer);
}

/* Return it, if it is that: what cannot be begun ends here as well. */
static void begin_return(struct ts_transfer *transfer)
{
	uint32_t kind = transfer->request.kind;

	transfer->deletes = kind == TS_MAIL_RETURN || kind == TS_MAIL_SAMPLE_RETURN;
	ts_transfer_end(transfer, TS_MAIL_SAYS_UNFIT);
}

void ts_transfers_use_samples(
	struct ts_transfers *transfers, struct ts_store *store, int places_fd)
{
	transfers->store = store;
	transfers->places_fd = places_fd;
}

void ts_transfers_begin(
	struct ts_transfers *transfers, uint32_t index, const struct ts_mail_request *request)
{
	struct ts_transfer *transfer = take(transfers, index, request);

	TS_KILLPOINT(peer_taken);
	if (is_possible(request) && request->kind == TS_MAIL_FETCH) {
		begin_fetch(transfer);
	} else if (is_possible(request) && request->kind == TS_MAIL_STORE) {
		begin_store(transfer);
	} else if (request->kind == TS_MAIL_SAMPLE) {
		begin_sample(transfer);
	} else if (request->kind == TS_MAIL_SAMPLE_STORE) {
		begin_sample_store(transfer);
	} else {
		begin_return(transfer);
	}
}

void ts_transfers_begin_for(struct ts_transfers *transfers, uint32_t index,
	const struct ts_mail_request *request,
	void (*done)(void *context, enum ts_mail_answer answer), void *context)
{
	struct ts_transfer *transfer = take(transfers, index, request);

	transfer->done = done;
	transfer->context = context;
	if (is_possible(request))
		begin_fetch(transfer);
	else
		ts_transfer_end(transfer, TS_MAIL_SAYS_UNFIT);
}

struct ts_sealer *ts_transfers_sealer(struct ts_transfers *transfers)
{
	return transfers->sealer;
}

void ts_transfers_return(struct ts_transfers *transfers, const struct ts_mail_request *request)
{
	struct ts_mail_request returned = *request;

	/* Where there is no room it ends by itself. */
	returned.kind =
		request->kind >= TS_MAIL_SAMPLE ? TS_MAIL_SAMPLE_RETURN : TS_MAIL_RETURN;
	if (ts_transfers_have_room(transfers))
		ts_transfers_begin(transfers, TS_TRANSFER_NOBODY, &returned);
}

/* ---- the loop --------------------------------------------------------------------------- */

static bool is_fetch(const struct ts_transfer *transfer)
{
	return transfer->state != TS_TRANSFER_ENDING && transfer->state != TS_TRANSFER_STORING;
}

void ts_transfers_step(struct ts_transfers *transfers)
{
	struct ts_transfer *next;
	uint64_t now = ts_now_ns();

	ts_kept_step(&transfers->kept);
	for (struct ts_transfer *one = transfers->first; one; one = next) {
		next = one->next;
		if (one->state == TS_TRANSFER_STORING) {
			store(one);
		} else if (is_fetch(one) && now >= one->request.until_ns) {
			end_late(one);
		} else if (is_fetch(one)) {
			fetch(one);
		}
	}
}

uint64_t ts_transfers_deadline(const struct ts_transfers *transfers)
{
	uint64_t until = ts_kept_deadline(&transfers->kept);

	for (const struct ts_transfer *one = transfers->first; one; one = one->next) {
		if (one->state == TS_TRANSFER_PAUSED)
			until = ts_min_u64(until, one->at_ns);
		if (is_fetch(one))
			until = ts_min_u64(until, one->request.until_ns);
	}
	return until;
}

bool ts_transfers_clear(struct ts_transfers *transfers)
{
	ts_worth_finish(&transfers->worth);
	return ts_kept_clear(&transfers->kept);
}
