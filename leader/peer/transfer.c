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
	ts_taken_begin(&all->taken, mail, pool);
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
	ts_transfer_fetch(transfer);
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
	ts_transfer_store(transfer);
}

static void begin_sample(struct ts_transfer *transfer)
{
	if (!transfer->all->store || transfer->index >= TS_MAIL_PLACES)
		ts_transfer_end(transfer, TS_MAIL_SAYS_UNFIT);
	else if (ts_transfer_is_refused(transfer))
		ts_transfer_end(transfer, TS_MAIL_SAYS_REFUSED);
	else
		ts_transfer_fetch(transfer);
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
	ts_transfer_store(transfer);
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
	} else if (ts_transfer_wants_sample(transfer)) {
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

void ts_transfers_note_heard(struct ts_transfers *transfers)
{
	ts_taken_note_heard(&transfers->taken);
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

	ts_taken_step(&transfers->taken);
	for (struct ts_transfer *one = transfers->first; one; one = next) {
		next = one->next;
		if (one->state == TS_TRANSFER_STORING) {
			ts_transfer_store(one);
		} else if (is_fetch(one) && now >= one->request.until_ns) {
			ts_transfer_late(one);
		} else if (is_fetch(one)) {
			ts_transfer_fetch(one);
		}
	}
}

uint64_t ts_transfers_deadline(const struct ts_transfers *transfers)
{
	uint64_t until = ts_taken_deadline(&transfers->taken);

	for (const struct ts_transfer *one = transfers->first; one; one = one->next) {
		if (one->state == TS_TRANSFER_PAUSED)
			until = ts_min_u64(until, one->at_ns);
		if (is_fetch(one))
			until = ts_min_u64(until, one->request.until_ns);
	}
	return until;
}
