/* SPDX-License-Identifier: MIT */
/* Values that are samples: where they lie here, and what they begin with. */
#include "leader/peer/transfer_private.h"

#include "shim/sys.h"

#include <string.h>

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
	bool may_travel =
		take.lease.kind == TS_KIND_SAMPLE || take.lease.kind == TS_KIND_PIXELS;
	if (may_travel && transfer->request.bytes <= TS_MAIL_ROOM)
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
	transfer->request.bytes = part->head.total;
	transfer->count = part->head.count;
	return 0;
}
