/* SPDX-License-Identifier: MIT */
/* The table of requests: finding it, and what threads of jobs do with it. */
#include "leader/mail/mail_private.h"

#include "leader/group/store_private.h"
#include "leader/object/killpoint.h"
#include "shim/atomic.h"
#include "shim/config.h"
#include "shim/helper.h"
#include "shim/identity.h"
#include "shim/log.h"
#include "shim/sys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* One that could not be started now cannot be soon. */
#define START_AGAIN_NS (6 * TS_MAIL_PAUSE_NS)

/* ---- the table ------------------------------------------------------------------------- */

int ts_mail_attach(struct ts_store *store, struct ts_mail *ret_mail)
{
	void *start = NULL;
	int r = ts_dependent_map(store,
		&(struct ts_dependent_kind){.which = TS_DEPENDENT_PEERS,
			.abi = TS_MAIL_ABI,
			.magic = TS_MAIL_MAGIC,
			.bytes = sizeof(struct ts_mail_table),
			.of_jobs = true},
		&start);

	if (r < 0)
		return r;
	ret_mail->table = start;
	memcpy(ret_mail->path, store->dependents[TS_DEPENDENT_PEERS], sizeof(ret_mail->path));
	return 0;
}

int ts_mail_attach_places(struct ts_store *store, struct ts_mail *mail)
{
	void *start = NULL;
	int r = ts_dependent_map(store,
		&(struct ts_dependent_kind){.which = TS_DEPENDENT_PLACES,
			.abi = TS_MAIL_ABI,
			.magic = TS_MAIL_PLACES_MAGIC,
			.bytes = ts_mail_place_at(0) + TS_MAIL_PLACES * TS_MAIL_ROOM,
			.of_jobs = true,
			.is_sparse = true},
		&start);

	if (r < 0)
		return r;
	mail->places = (unsigned char *)start + TS_MAIL_PLACES_AT;
	memcpy(mail->places_path, store->dependents[TS_DEPENDENT_PLACES],
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

/* ---- slots ------------------------------------------------------------------------------ */

/*
 * One that is free, from a place of this process's own on: neighbours seldom meet.  For samples
 * the first one, so that few places are ever written to.
 */
static int take_slot(
	struct ts_mail_table *table, uint32_t kind, uint64_t id, uint32_t *ret_index)
{
	bool has_place = kind == TS_MAIL_SAMPLE;
	uint32_t first = has_place ? 0 : TS_MAIL_PLACES;
	uint32_t count = has_place ? TS_MAIL_PLACES : TS_MAIL_SLOTS - TS_MAIL_PLACES;
	uint32_t from = has_place ? 0 : (uint32_t)ts_hash64(&id, sizeof(id));

	for (uint32_t i = 0; i < count; i++) {
		uint32_t index = first + (from + i) % count;
		struct ts_mail_slot *slot = &table->slots[index];
		uint64_t nobody = 0;
		if (ts_load_relaxed(&slot->owner) == 0 && ts_cas(&slot->owner, &nobody, id)) {
			*ret_index = index;
			return 0;
		}
	}
	return -EBUSY;
}

void ts_mail_free(struct ts_mail_slot *slot)
{
	ts_write_release(&slot->state, TS_MAIL_FREE); /* M4 */
	TS_KILLPOINT(mail_freed);
	ts_write_release(&slot->owner, 0);
}

/* ---- posting ---------------------------------------------------------------------------- */

void ts_mail_send(struct ts_mail *mail, struct ts_mail_slot *slot)
{
	ts_write_release(&slot->state, TS_MAIL_POSTED); /* M1 */
	TS_KILLPOINT(mail_posted);
	ts_fence_full(); /* M6 */
	if (ts_load_relaxed(&mail->table->asleep) != 0)
		ts_sys_touch(mail->path);
	TS_KILLPOINT(mail_rung);
}

bool ts_mail_is_gone(struct ts_mail_table *table)
{
	uint64_t helper = ts_load_relaxed(&table->helper);

	if (helper != 0 && ts_process_is_alive(helper))
		return false;
	if (helper != 0)
		(void)ts_cas(&table->helper, &helper, 0);
	return true;
}

void ts_mail_pause(struct ts_mail_table *table)
{
	ts_write_relaxed(&table->ask_at, ts_now_ns() + TS_MAIL_PAUSE_NS);
}

int ts_mail_leave(struct ts_mail_table *table, struct ts_mail_slot *slot)
{
	uint32_t posted = TS_MAIL_POSTED, taken = TS_MAIL_TAKEN;

	if (ts_cas(&slot->state, &posted, TS_MAIL_FREE)) {
		ts_add_relaxed(&table->left, 1);
		ts_write_release(&slot->owner, 0);
		return -EAGAIN;
	}
	if (ts_cas(&slot->state, &taken, TS_MAIL_LEFT)) {
		ts_add_relaxed(&table->left, 1);
		TS_KILLPOINT(mail_left);
		return -ETIME;
	}
	/* Anything but an answer is none of its states now, and would be waited for for ever.
	 */
	return taken == TS_MAIL_ANSWERED ? 0 : -ETIME;
}

/* Until it is answered.  Errors: as for ts_mail_leave(). */
static int wait(struct ts_mail_table *table, struct ts_mail_slot *slot, uint64_t until_ns)
{
	uint64_t look_at = ts_now_ns() + TS_MAIL_LOOK_NS;

	for (;;) {
		uint32_t state = ts_load_acquire(&slot->state);
		uint64_t now = ts_now_ns();
		if (state == TS_MAIL_ANSWERED)
			return 0;
		bool is_late = now >= until_ns;
		if (is_late)
			ts_mail_pause(table);
		if (is_late || (now >= look_at && ts_mail_is_gone(table))) {
			int r = ts_mail_leave(table, slot);
			if (r < 0)
				return r;
			continue;
		}
		if (now >= look_at)
			look_at = now + TS_MAIL_LOOK_NS;
		ts_sys_futex_wait(&slot->state, state, ts_min_u64(until_ns, look_at) - now);
	}
}

uint64_t ts_mail_patience(uint64_t time)
{
#ifdef TS_TEST_BUILD
	const char *factor = getenv("TSSHIM_TEST_PATIENCE");
	if (factor)
		return time * strtoull(factor, NULL, 10);
#endif
	return time;
}

uint64_t ts_mail_wait_ns(void)
{
	return ts_mail_patience(TS_MAIL_WAIT_NS);
}

/* ---- for hooks -------------------------------------------------------------------------- */

bool ts_mail_is_served(
	struct ts_mail *mail, int (*start)(const void *context), const void *context)
{
	struct ts_mail_table *table = mail->table;
	uint64_t now = ts_now_ns();

	if (now < ts_load_relaxed(&table->ask_at))
		return false;
	/* A dead one is noticed by who waits for it. */
	if (ts_load_acquire(&table->helper) != 0)
		return true;
	if (!start)
		return false;
	uint64_t start_at = ts_load_relaxed(&table->start_at);
	if (now >= start_at && ts_cas(&table->start_at, &start_at, now + TS_MAIL_PAUSE_NS) &&
		start(context) < 0)
		ts_write_relaxed(&table->start_at, now + START_AGAIN_NS);
	return false;
}

/* In the order that the helper wants them in. */
int ts_mail_start(const void *unused)
{
	const struct ts_config *config = ts_config();
	char ring[24], room[24];

	ts_format(ring, sizeof(ring), "%llu", (unsigned long long)config->ring_bytes);
	ts_format(room, sizeof(room), "%llu", (unsigned long long)config->stage_bytes);
	char *const arguments[] = {(char *)"tsshim-peer", (char *)config->group, ring,
		(char *)config->cluster, room, NULL};
	(void)unused;
	return ts_helper_start(TS_HELPER_PEER, arguments, NULL, 0);
}

int ts_mail_begin(
	struct ts_mail *mail, const struct ts_mail_request *request, uint32_t *ret_index)
{
	struct ts_mail_table *table = mail->table;
	int r = take_slot(table, request->kind, ts_identity_self(), ret_index);

	if (r < 0) {
		ts_add_relaxed(&table->unposted, 1);
		return r;
	}
	TS_KILLPOINT(mail_owned);
	table->slots[*ret_index].request = *request;
	ts_add_relaxed(&table->posted, 1);
	return 0;
}

int ts_mail_ask(
	struct ts_mail *mail, const struct ts_mail_request *request, uint32_t *ret_index)
{
	uint32_t index;
	int r = ts_mail_begin(mail, request, &index);

	if (r < 0)
		return r;
	struct ts_mail_slot *slot = &mail->table->slots[index];
	ts_mail_send(mail, slot);
	r = wait(mail->table, slot, request->until_ns + TS_MAIL_SLACK_NS);
	if (r < 0)
		return r;
	uint32_t answer = ts_load_relaxed(&slot->answer); /* behind M3 */
	TS_KILLPOINT(mail_answered);
	*ret_index = index;
	if (answer != TS_MAIL_SAYS_WON)
		ts_mail_free(slot);
	return answer < TS_MAIL_ANSWER_COUNT ? (int)answer : TS_MAIL_SAYS_FAILED;
}

int ts_mail_tell(struct ts_mail *mail, const struct ts_mail_request *request)
{
	uint32_t index;
	int r = ts_mail_begin(mail, request, &index);

	if (r == 0)
		ts_mail_send(mail, &mail->table->slots[index]);
	return r;
}

void ts_mail_send_again(struct ts_mail *mail, uint32_t index, enum ts_mail_kind kind)
{
	struct ts_mail_slot *slot = &mail->table->slots[index % TS_MAIL_SLOTS];

	slot->request.kind = kind;
	slot->request.until_ns = ts_now_ns() + ts_mail_wait_ns();
	ts_mail_send(mail, slot);
}

void ts_mail_store(struct ts_mail *mail, uint32_t index)
{
	ts_mail_send_again(mail, index, TS_MAIL_STORE);
}

void ts_mail_return(struct ts_mail *mail, uint32_t index)
{
	ts_mail_send_again(mail, index, TS_MAIL_RETURN);
}
