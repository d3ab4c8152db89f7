/* SPDX-License-Identifier: MIT */
/* The table of requests: finding it, and what both sides read of it. */
#include "leader/mail/mail.h"

#include "leader/group/store_private.h"

#include <string.h>

int ts_mail_attach(struct ts_store *store, struct ts_mail *ret_mail)
{
	void *start = NULL;
	int r = ts_belonging_map_of_jobs(store, TS_BELONGING_PEERS, TS_MAIL_MAGIC, TS_MAIL_ABI,
		sizeof(struct ts_mail_table), &start);

	if (r < 0)
		return r;
	ret_mail->table = start;
	memcpy(ret_mail->path, store->belongings[TS_BELONGING_PEERS], sizeof(ret_mail->path));
	return 0;
}

int ts_mail_attach_places(struct ts_store *store, struct ts_mail *mail)
{
	void *start = NULL;
	int r = ts_belonging_map_sparse(store, TS_BELONGING_PLACES, TS_MAIL_PLACES_MAGIC,
		TS_MAIL_ABI, ts_mail_place_at(0) + TS_MAIL_PLACES * TS_MAIL_ROOM, &start);

	if (r < 0)
		return r;
	mail->places = (unsigned char *)start + TS_MAIL_PLACES_AT;
	memcpy(mail->places_path, store->belongings[TS_BELONGING_PLACES],
		sizeof(mail->places_path));
	return 0;
}

bool ts_mail_waits(uint32_t kind)
{
	static const bool waits[] = {
#define TS_X(name, waits, text) waits,
		TS_MAIL_KINDS(TS_X)
#undef TS_X
	};

	return kind < TS_ARRAY_SIZE(waits) && waits[kind];
}

void ts_mail_count(
	struct ts_mail *mail, uint32_t peer, enum ts_mail_counter counter, uint64_t amount)
{
	if (peer < TS_MAIL_PEERS)
		ts_add_relaxed(&mail->table->peers[peer].counters[counter], amount);
}
