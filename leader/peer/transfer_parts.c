/* SPDX-License-Identifier: MIT */
/* What all transfers have in common: their parts, counts, ends, records and files. */
#include "leader/peer/transfer_private.h"

#include "leader/files/stage_private.h"
#include "leader/object/killpoint.h"
#include "shim/hash.h"
#include "shim/log.h"
#include "shim/sys.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>

/* ---- what was refused ------------------------------------------------------------------- */

static uint64_t refused_key(const struct ts_transfer *transfer)
{
	return ts_hash64(transfer->key, transfer->key_bytes) | 1;
}

bool ts_transfer_is_refused(const struct ts_transfer *transfer)
{
	uint64_t key = refused_key(transfer);
	const typeof(&transfer->all->refused[0]) row =
		&transfer->all->refused[(key >> 1) % TS_TRANSFER_REFUSED];

	return row->key == key && ts_now_ns() < row->until_ns;
}

void ts_transfer_set_refused(const struct ts_transfer *transfer, bool is_refused)
{
	uint64_t key = refused_key(transfer);
	typeof(&transfer->all->refused[0]) row =
		&transfer->all->refused[(key >> 1) % TS_TRANSFER_REFUSED];

	if (is_refused) {
		row->key = key;
		row->until_ns = ts_now_ns() + TS_TRANSFER_REFUSED_NS;
	} else if (row->key == key) {
		row->key = 0;
	}
}

/* ---- counts ----------------------------------------------------------------------------- */

void ts_transfer_count(const struct ts_transfer *transfer, uint32_t server,
	enum ts_mail_counter counter, uint64_t amount)
{
	ts_mail_count(transfer->all->mail, server, counter, amount);
}

static enum ts_mail_answer count_and_say(struct ts_transfers *transfers, uint32_t server,
	enum ts_mail_counter counter, enum ts_mail_answer answer)
{
	ts_mail_count(transfers->mail, server, counter, 1);
	return answer;
}

enum ts_mail_answer ts_transfers_explain(
	struct ts_transfers *transfers, uint32_t server, int error)
{
	switch (error) {
	case -ENOENT:
		return count_and_say(transfers, server, TS_MAIL_COUNT_NONE, TS_MAIL_SAYS_NONE);
	case -ENOSPC:
	case -E2BIG:
		return count_and_say(transfers, server, TS_MAIL_COUNT_FULL, TS_MAIL_SAYS_NONE);
	case -EAGAIN:
	case -EACCES:
	case -EADDRNOTAVAIL:
		return count_and_say(
			transfers, server, TS_MAIL_COUNT_CLOSED, TS_MAIL_SAYS_CLOSED);
	case -ECANCELED:
		return TS_MAIL_SAYS_NONE;
	default:
		return count_and_say(
			transfers, server, TS_MAIL_COUNT_FAILED, TS_MAIL_SAYS_FAILED);
	}
}

enum ts_mail_answer ts_transfer_explain(
	const struct ts_transfer *transfer, uint32_t server, int error)
{
	return ts_transfers_explain(transfer->all, server, error);
}

/* ---- the end of one --------------------------------------------------------------------- */

static void close_file(struct ts_transfer *transfer)
{
	if (transfer->fd >= 0)
		ts_sys_close(transfer->fd);
	transfer->fd = -1;
}

static void release(struct ts_transfer *transfer)
{
	struct ts_transfers *all = transfer->all;

	*transfer->link = transfer->next;
	if (transfer->next)
		transfer->next->link = transfer->link;
	else
		all->end = transfer->link;
	transfer->next = all->free;
	all->free = transfer;
	all->count--;
}

static void deleted(struct ts_pool_request *request)
{
	struct ts_transfer *transfer = request->context;

	transfer->on_way--;
	TS_KILLPOINT(peer_returned);
	ts_transfer_end(transfer, TS_MAIL_SAYS_NONE);
}

/* What another node has put there meanwhile stays. */
static bool delete_chunk_0(struct ts_transfer *transfer)
{
	if (transfer->cas == 0)
		return false;
	(void)snprintf(
		transfer->deleted_key, sizeof(transfer->deleted_key), "%s:0", transfer->key);
	transfer->deletion = (struct ts_pool_request){
		.meta = {.kind = TS_META_DELETE,
			.key = transfer->deleted_key,
			.cas = transfer->cas,
			.until_ns = ts_now_ns() + ts_pool_patience(TS_TRANSFER_ANSWER_NS)},
		.done = deleted,
		.context = transfer,
	};
	if (ts_pool_submit(transfer->all->pool, &transfer->deletion) < 0)
		return false;
	transfer->on_way++;
	return true;
}

static void tell(struct ts_transfer *transfer, enum ts_mail_answer answer)
{
	struct ts_mail *mail = transfer->all->mail;

	if (transfer->index == TS_TRANSFER_NOBODY)
		return;
	ts_transfer_leave_place(transfer);
	/* Whoever has no use for what came returns it as well. */
	if (answer == TS_MAIL_SAYS_WON || answer == TS_MAIL_SAYS_GOT)
		ts_mail_set_place(mail, transfer->index, transfer->cas);
	TS_KILLPOINT(peer_answers);
	if (transfer->done)
		transfer->done(transfer->context, answer);
	else if (!ts_mail_answer(mail, transfer->index, answer) && answer == TS_MAIL_SAYS_WON)
		transfer->deletes = true; /* who has left does not make what he has won */
	TS_KILLPOINT(peer_answered);
	transfer->index = TS_TRANSFER_NOBODY;
}

void ts_transfer_end(struct ts_transfer *transfer, enum ts_mail_answer answer)
{
	if (transfer->state != TS_TRANSFER_ENDING) {
		transfer->state = TS_TRANSFER_ENDING;
		tell(transfer, answer);
		close_file(transfer);
		ts_transfer_let_go(transfer);
	}
	if (transfer->on_way > 0)
		return;
	bool deletes = transfer->deletes;
	transfer->deletes = false;
	if (!deletes || !delete_chunk_0(transfer))
		release(transfer);
}

/* ---- parts ------------------------------------------------------------------------------ */

static void prepare(struct ts_part *part, struct ts_transfer *transfer, uint32_t chunk)
{
	/* How large a sample is says its first chunk. */
	bool is_known = transfer->request.bytes > 0;
	uint64_t total = is_known ? transfer->request.bytes : TS_VALUE_ANY_TOTAL;
	uint32_t bytes =
		is_known ? ts_value_bytes(transfer->request.bytes, chunk) : TS_VALUE_CHUNK;

	part->to = NULL;
	if (transfer->request.kind == TS_MAIL_SAMPLE)
		part->to = ts_transfer_place(transfer, chunk, bytes);
	if (!part->to)
		part->to = part->bytes;
	part->transfer = transfer;
	part->is_of_store = ts_transfer_is_store(transfer);
	part->place = (struct ts_value_place){
		.key = transfer->key,
		.key_bytes = transfer->key_bytes,
		.total = total,
		.chunk = chunk,
	};
	(void)snprintf(part->key, sizeof(part->key), "%s:%u", transfer->key, chunk);
	part->request = (struct ts_pool_request){
		.meta = {.key = part->key,
			.parts = {{&part->head, sizeof(part->head)}, {part->to, bytes}}},
		.context = part,
	};
}

struct ts_part *ts_transfer_take_part(struct ts_transfer *transfer, uint32_t chunk)
{
	struct ts_transfers *all = transfer->all;
	struct ts_part *part = all->free_parts;

	if (!part || (ts_transfer_is_store(transfer) && all->storing >= TS_TRANSFER_HALF))
		return NULL;
	prepare(part, transfer, chunk);
	if (ts_pool_is_busy(all->pool, part->key, TS_TRANSFER_HALF))
		return NULL;
	/* What has begun waits for a probe; who only asks does without it. */
	if ((chunk > 0 || ts_transfer_is_store(transfer)) &&
		ts_pool_is_probed(all->pool, part->key))
		return NULL;
	all->free_parts = part->next;
	all->storing += part->is_of_store;
	return part;
}

void ts_transfer_release_part(struct ts_part *part)
{
	struct ts_transfers *all = part->transfer->all;

	all->storing -= part->is_of_store;
	part->next = all->free_parts;
	all->free_parts = part;
}

bool ts_transfer_submit(struct ts_part *part, enum ts_meta_kind kind, uint64_t allowed_ns,
	void (*done)(struct ts_pool_request *request))
{
	struct ts_transfer *transfer = part->transfer;

	part->request.meta.kind = kind;
	part->request.meta.until_ns = ts_now_ns() + ts_pool_patience(allowed_ns);
	part->request.done = done;
	int r = ts_pool_submit(transfer->all->pool, &part->request);
	if (part->place.chunk == 0)
		transfer->server = part->request.server;
	if (r < 0) {
		uint32_t server = part->request.server;
		ts_transfer_release_part(part);
		ts_transfer_end(transfer, ts_transfer_explain(transfer, server, r));
		return false;
	}
	transfer->on_way++;
	TS_KILLPOINT(peer_asked);
	return true;
}

struct ts_part *ts_transfer_arrived(struct ts_pool_request *request)
{
	struct ts_part *part = request->context;

	part->transfer->on_way--;
	return part;
}

/* ==== samples ============================================================================ */

int ts_transfer_hold(struct ts_transfer *transfer)
{
	const struct ts_hash128 *name = &transfer->request.name;
	const struct ts_key key = {.lo = name->lo, .hi = name->hi};
	struct ts_take take;

	ts_store_find(transfer->all->store, &key, &take);
	if (take.verdict != TS_HIT)
		return -ENOENT;
	transfer->lease = take.lease;
	transfer->is_leased = true;
	transfer->request.bytes = sizeof(struct ts_mail_sample) + take.lease.bytes;
	if (take.lease.kind == TS_KIND_SAMPLE && transfer->request.bytes <= TS_MAIL_ROOM)
		return 0;
	ts_transfer_let_go(transfer);
	return -ENOENT;
}

void ts_transfer_let_go(struct ts_transfer *transfer)
{
	if (transfer->is_leased)
		ts_lease_release(transfer->all->store, &transfer->lease);
	transfer->is_leased = false;
}

void ts_transfer_copy(const struct ts_transfer *transfer, uint64_t at, uint64_t bytes,
	unsigned char *ret_bytes)
{
	const struct ts_mail_sample head = {.version = TS_MAIL_SAMPLE_VERSION,
		.made_ns = transfer->request.made_ns,
		.produce_ns = transfer->lease.produce_ns};

	if (at == 0) {
		memcpy(ret_bytes, &head, sizeof(head));
		memcpy(ret_bytes + sizeof(head), transfer->lease.data, bytes - sizeof(head));
	} else {
		memcpy(ret_bytes,
			(const unsigned char *)transfer->lease.data + at - sizeof(head), bytes);
	}
}

/* ---- places ----------------------------------------------------------------------------- */

unsigned char *ts_transfer_place(struct ts_transfer *transfer, uint32_t chunk, uint32_t bytes)
{
	struct ts_transfers *all = transfer->all;
	uint64_t at = (uint64_t)chunk * TS_VALUE_CHUNK;

	if (transfer->index >= TS_MAIL_PLACES || !all->mail->places ||
		at + bytes > TS_MAIL_ROOM)
		return NULL;
	/* Without memory there the first byte would be the end of us (SIGBUS). */
	uint32_t *has = &all->place_bytes[transfer->index];
	if (at + bytes > *has) {
		if (ts_sys_fallocate(
			    all->places_fd, ts_mail_place_at(transfer->index), at + bytes) < 0)
			return NULL;
		*has = (uint32_t)(at + bytes);
	}
	return all->mail->places + transfer->index * TS_MAIL_ROOM + at;
}

void ts_transfer_leave_place(struct ts_transfer *transfer)
{
	struct ts_part *parts = transfer->all->parts;

	for (uint32_t i = 0; transfer->on_way > 0 && i < TS_TRANSFER_BUFFERS; i++) {
		if (parts[i].transfer != transfer || parts[i].to == parts[i].bytes)
			continue;
		parts[i].to = parts[i].bytes;
		parts[i].request.meta.parts[1].iov_base = parts[i].bytes;
	}
}

int ts_transfer_learn(struct ts_transfer *transfer, const struct ts_part *part)
{
	struct ts_mail_sample head;

	if (part->head.bytes < sizeof(head))
		return -EPROTO;
	memcpy(&head, part->to, sizeof(head));
	if (head.version != TS_MAIL_SAMPLE_VERSION)
		return -EPROTO;
	if (part->head.total > TS_MAIL_ROOM)
		return -E2BIG;
	transfer->request.made_ns = head.made_ns;
	transfer->request.bytes = part->head.total;
	transfer->count = part->head.count;
	return 0;
}

/* ==== files ============================================================================== */

static int check(int fd, uint32_t uid, const struct ts_mail_request *request)
{
	struct stat st;
	int r = ts_sys_fstat(fd, &st);

	if (r < 0)
		return r;
	if (!S_ISREG(st.st_mode) || st.st_uid != uid || st.st_ino != request->inode)
		return -ESTALE;
	return (uint64_t)st.st_size >= request->at + request->bytes ? 0 : -ESTALE;
}

static int open_and_check(const char *path, int flags, uint32_t uid,
	const struct ts_mail_request *request, int *ret_fd)
{
	/* Not blocking: it may be a pipe. */
	int fd = ts_sys_open(path, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);

	if (fd < 0)
		return fd;
	int r = check(fd, uid, request);
	if (r < 0)
		ts_sys_close(fd);
	else
		*ret_fd = fd;
	return r;
}

int ts_transfer_open(const struct ts_transfers *transfers,
	const struct ts_mail_request *request, int *ret_fd)
{
	char path[TS_STAGE_PATH], part[TS_STAGE_PATH];
	bool is_store = request->kind == TS_MAIL_STORE;
	int r = -ENOENT;

	if (!transfers->stem) /* no files are staged here */
		return r;
	ts_stage_path_with(transfers->stem, request->copy, path);
	ts_format(part, sizeof(part), "%s.part", path);
	/* What is complete is never written to; what was made may have its name by now, */
	if (is_store)
		r = open_and_check(path, O_RDONLY, transfers->uid, request, ret_fd);
	if (r < 0)
		r = open_and_check(
			part, is_store ? O_RDONLY : O_WRONLY, transfers->uid, request, ret_fd);
	/* or get it between the two looks. */
	if (r == -ENOENT && is_store)
		r = open_and_check(path, O_RDONLY, transfers->uid, request, ret_fd);
	return r;
}

int ts_transfer_write(int fd, const void *from, size_t bytes, uint64_t at)
{
	for (size_t done = 0; done < bytes;) {
		int64_t n =
			ts_sys_pwrite(fd, (const char *)from + done, bytes - done, at + done);
		if (n == -EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? (int)n : -ENOSPC;
		done += (size_t)n;
	}
	return 0;
}
