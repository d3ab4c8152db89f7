/* SPDX-License-Identifier: MIT */
/* Requests of a connection on their way, and their ends. */
#include "leader/peer/meta_private.h"

#include <string.h>

void ts_meta_complete(struct ts_meta_request *request, int result)
{
	void (*done)(struct ts_meta_request *) = request->done;

	request->next = NULL;
	request->result = result;
	if (done)
		done(request);
}

struct ts_meta_slot *ts_meta_push(struct ts_meta *meta, struct ts_meta_request *request)
{
	uint32_t at = (meta->slot_at + meta->slot_count++) % TS_META_DEPTH;
	uint64_t until = request->until_ns + TS_META_GRACE_NS;

	meta->slots[at] = (struct ts_meta_slot){
		.request = request,
		.until_ns = until < request->until_ns ? UINT64_MAX : until,
		.opaque = meta->opaque++,
		.kind = request->kind,
		.numbers = request->kind == TS_META_SET && request->numbers,
	};
	return &meta->slots[at];
}

struct ts_meta_request *ts_meta_pop(struct ts_meta *meta)
{
	struct ts_meta_request *request = ts_meta_oldest(meta)->request;

	meta->slot_at = (meta->slot_at + 1) % TS_META_DEPTH;
	meta->slot_count--;
	return request;
}

struct ts_meta_request *ts_meta_take(struct ts_meta *meta)
{
	struct ts_meta_request *request = meta->first;

	meta->first = request->next;
	if (!meta->first)
		meta->end = &meta->first;
	return request;
}

int ts_meta_break(struct ts_meta *meta, int error)
{
	if (meta->state == TS_META_BROKEN)
		return meta->error;
	meta->state = TS_META_BROKEN;
	meta->error = error;
	meta->sending = NULL;
	meta->arriving = false;
	meta->more = false;
	meta->out_at = meta->out_end = meta->in_at = meta->in_end = 0;
	explicit_bzero(meta->out, sizeof(meta->out));
	while (meta->slot_count > 0) {
		struct ts_meta_request *request = ts_meta_pop(meta);
		if (request)
			ts_meta_complete(request, error);
	}
	while (meta->first)
		ts_meta_complete(ts_meta_take(meta), error);
	return error;
}
