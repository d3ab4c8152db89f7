/* SPDX-License-Identifier: MIT */
/* Values that are samples: where they lie here, and what they begin with. */
#include "leader/peer/transfer_private.h"

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

int ts_transfer_learn(struct ts_transfer *transfer, const struct ts_part *part)
{
	struct ts_mail_sample head;

	if (part->head.bytes < sizeof(head))
		return -EPROTO;
	memcpy(&head, part->bytes, sizeof(head));
	if (head.version != TS_MAIL_SAMPLE_VERSION)
		return -EPROTO;
	if (part->head.total > TS_MAIL_ROOM)
		return -E2BIG;
	transfer->request.bytes = part->head.total;
	transfer->count = part->head.count;
	return 0;
}
