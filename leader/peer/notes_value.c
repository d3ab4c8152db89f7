/* SPDX-License-Identifier: MIT */
/* Values of notes, and how they travel: leader/peer/notes.h explains it. */
#include "leader/peer/notes_private.h"

#include "shim/sys.h"

#include <stdio.h>
#include <string.h>

#define TS_NOTES_GENERATION UINT64_C(1)

uint64_t ts_notes_next_pause(const struct ts_notes *all, uint64_t pause_ns, bool is_new)
{
	uint64_t most = ts_max_u64(all->period_ns, TS_NOTES_SLOW_NS);

	return is_new ? all->period_ns : ts_min_u64(2 * pause_ns, most);
}

int ts_notes_check(const struct ts_notes_value *value, uint64_t bytes)
{
	const size_t head = offsetof(struct ts_notes_value, notes);

	if (bytes < head || value->version != TS_NOTES_VERSION || value->life == 0 ||
		value->count > TS_NOTES_MOST || value->first > UINT64_MAX - TS_NOTES_MOST ||
		bytes != head + value->count * sizeof(value->notes[0]))
		return -EPROTO;
	for (uint32_t i = 0; i < value->count; i++) {
		const struct ts_notes_note *note = &value->notes[i];
		if (note->tag == 0 || note->index > INT32_MAX || note->draw >= TS_NOTES_DRAWS ||
			note->epoch > note->draw || note->zero != 0)
			return -EPROTO;
	}
	return 0;
}

void ts_notes_set_key(
	const struct ts_notes *all, uint32_t node, uint32_t share, struct ts_notes_key *ret_key)
{
	char name[TS_CLUSTER_NAME];
	struct ts_hasher hasher;

	ts_cluster_name_server(&all->nodes->servers[node], name);
	ts_hasher_init(&hasher);
	ts_hasher_add(&hasher, all->group, strlen(all->group) + 1);
	ts_hasher_add(&hasher, name, strlen(name));
	if (share > 0)
		ts_hasher_add(&hasher, &share, sizeof(share));
	struct ts_hash128 hash = ts_hasher_digest(&hasher);
	ret_key->bytes = (size_t)snprintf(ret_key->text, sizeof(ret_key->text),
		"j1:%016llx%016llx", (unsigned long long)hash.hi, (unsigned long long)hash.lo);
	(void)snprintf(ret_key->chunk, sizeof(ret_key->chunk), "%s:0", ret_key->text);
}

struct ts_value_place ts_notes_place(const struct ts_notes_carried *carried, uint64_t total)
{
	return (struct ts_value_place){.key = carried->key.text,
		.key_bytes = carried->key.bytes,
		.total = total,
		.generation = TS_NOTES_GENERATION};
}

int ts_notes_submit(struct ts_notes *all, struct ts_notes_carried *carried,
	struct ts_meta_request meta, uint64_t bytes,
	void (*done)(struct ts_pool_request *request))
{
	meta.key = carried->key.chunk;
	meta.parts[0] = (struct iovec){&carried->head, sizeof(carried->head)};
	meta.parts[1] = (struct iovec){&carried->value, bytes};
	meta.until_ns = ts_now_ns() + ts_pool_patience(TS_TRANSFER_ANSWER_NS);
	carried->request =
		(struct ts_pool_request){.meta = meta, .done = done, .context = carried};
	carried->all = all;
	int r = ts_pool_submit(all->pool, &carried->request);
	if (r < 0)
		carried->all = NULL;
	return r;
}

void ts_notes_count_failure(struct ts_notes *all, uint32_t server, int error)
{
	if (error < 0 && error != -ENOENT && error != -EEXIST)
		(void)ts_transfers_explain(all->transfers, server, error);
}
