/* SPDX-License-Identifier: MIT */
/* The table of requests, and what threads of jobs do with it: leader/mail/mail.h. */
#include "leader/mail/mail.h"

#include "leader/group/store_private.h"
#include "leader/object/killpoint.h"
#include "shim/atomic.h"
#include "shim/config.h"
#include "shim/helper.h"
#include "shim/identity.h"
#include "shim/log.h"
#include "shim/reasons.h"
#include "shim/sys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* One that could not be started now cannot be soon. */
#define START_AGAIN_NS (6 * TS_MAIL_PAUSE_NS)

/* A waiter looks so often whether the helper lives. */
#define LOOK_NS UINT64_C(20000000)

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

static void free_slot(struct ts_mail_slot *slot)
{
	ts_write_release(&slot->state, TS_MAIL_FREE); /* M4 */
	TS_KILLPOINT(mail_freed);
	ts_write_release(&slot->owner, 0);
}

/* ---- posting ---------------------------------------------------------------------------- */

/* Post what is in @slot, which is the caller's, and ring for a helper that sleeps. */
static void post(struct ts_mail *mail, struct ts_mail_slot *slot)
{
	ts_write_release(&slot->state, TS_MAIL_POSTED); /* M1 */
	TS_KILLPOINT(mail_posted);
	ts_fence_full(); /* M6 */
	if (ts_load_relaxed(&mail->table->asleep) != 0)
		ts_sys_touch(mail->path);
	TS_KILLPOINT(mail_rung);
}

/* Whether the helper is gone, which is noted for all.  Some 10 us. */
static bool is_gone(struct ts_mail_table *table)
{
	uint64_t helper = ts_load_relaxed(&table->helper);

	if (helper != 0 && ts_process_is_alive(helper))
		return false;
	if (helper != 0)
		(void)ts_cas(&table->helper, &helper, 0);
	return true;
}

/* Nobody is asked for a while by anybody: the helper is stopped, or far too slow. */
static void pause_asking(struct ts_mail_table *table)
{
	ts_write_relaxed(&table->ask_at, ts_now_ns() + TS_MAIL_PAUSE_NS);
}

/*
 * There is no use in waiting.  Errors: -EAGAIN nobody had begun; -ETIME somebody had, or the
 * slot is damaged; 0: it is answered after all, and the slot is the caller's still.
 */
static int leave_slot(struct ts_mail_table *table, struct ts_mail_slot *slot)
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

/* Until it is answered.  Errors: as for leave_slot(). */
static int wait(struct ts_mail_table *table, struct ts_mail_slot *slot, uint64_t until_ns)
{
	uint64_t look_at = ts_now_ns() + LOOK_NS;

	for (;;) {
		uint32_t state = ts_load_acquire(&slot->state);
		uint64_t now = ts_now_ns();
		if (state == TS_MAIL_ANSWERED)
			return 0;
		bool is_late = now >= until_ns;
		if (is_late)
			pause_asking(table);
		if (is_late || (now >= look_at && is_gone(table))) {
			int r = leave_slot(table, slot);
			if (r < 0)
				return r;
			continue;
		}
		if (now >= look_at)
			look_at = now + LOOK_NS;
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

/* A slot with @request in it, not posted.  Errors: -EBUSY all are taken; counted. */
static int fill_slot(
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
	int r = fill_slot(mail, request, &index);

	if (r < 0)
		return r;
	struct ts_mail_slot *slot = &mail->table->slots[index];
	post(mail, slot);
	r = wait(mail->table, slot, request->until_ns + TS_MAIL_SLACK_NS);
	if (r < 0)
		return r;
	uint32_t answer = ts_load_relaxed(&slot->answer); /* behind M3 */
	TS_KILLPOINT(mail_answered);
	*ret_index = index;
	if (answer != TS_MAIL_SAYS_WON)
		free_slot(slot);
	return answer < TS_MAIL_ANSWER_COUNT ? (int)answer : TS_MAIL_SAYS_FAILED;
}

int ts_mail_tell(struct ts_mail *mail, const struct ts_mail_request *request)
{
	uint32_t index;
	int r = fill_slot(mail, request, &index);

	if (r == 0)
		post(mail, &mail->table->slots[index]);
	return r;
}

/* Post slot @index, which has WON, once more: as @kind. */
static void post_again(struct ts_mail *mail, uint32_t index, enum ts_mail_kind kind)
{
	struct ts_mail_slot *slot = &mail->table->slots[index % TS_MAIL_SLOTS];

	slot->request.kind = kind;
	slot->request.until_ns = ts_now_ns() + ts_mail_wait_ns();
	post(mail, slot);
}

void ts_mail_store(struct ts_mail *mail, uint32_t index)
{
	post_again(mail, index, TS_MAIL_STORE);
}

void ts_mail_return(struct ts_mail *mail, uint32_t index)
{
	post_again(mail, index, TS_MAIL_RETURN);
}

/* ---- samples: whether to ask ------------------------------------------------------------ */

/* For a helper that somebody has just started, in looks of: */
#define START_LOOKS   125
#define START_LOOK_NS UINT64_C(2000000)

/* This process's, for good; a fork child has its parent's. */
static struct ts_mail ours;
static _Atomic uint32_t attaching; /* ts_identity_serial() + 1 of who does; 0: nobody */
static _Atomic int is_attached;

/* One thread attaches, the others do without meanwhile; what fails is tried again. */
static bool attach(struct ts_store *store)
{
	if (ts_load_acquire(&is_attached)) /* C1 */
		return true;
	/* A parent's thread that does is not in the child. */
	uint32_t mine = ts_identity_serial() + 1, found = ts_load_relaxed(&attaching);
	if (found == mine || !ts_cas(&attaching, &found, mine))
		return false;
	if (found != 0)
		ours.table = NULL; /* half written, for all we know */
	int r = ours.table ? 0 : ts_mail_attach(store, &ours);
	if (r == 0)
		r = ts_mail_attach_places(store, &ours);
	if (r == 0)
		ts_write_release(&is_attached, 1); /* C2: behind `ours`, pairs with C1 */
	ts_write_release(&attaching, 0);
	return r == 0;
}

static bool is_starting(void)
{
	return ts_load_relaxed(&ours.table->helper) == 0 &&
	       ts_load_relaxed(&ours.table->error) == 0 &&
	       ts_now_ns() < ts_load_relaxed(&ours.table->start_at);
}

/*
 * A program that is no Python does not know where helpers are, and asks where there is one: to
 * try in vain would keep others from starting it for a while.
 */
static bool is_served(struct ts_mail *at)
{
	return ts_mail_is_served(at, NULL, NULL) ||
	       (ts_helper_is_possible() && ts_mail_is_served(at, ts_mail_start, NULL));
}

/* What is made before it is there is made on all nodes. */
static bool await_helper(void)
{
	static _Atomic int has_waited;
	static const uint32_t nothing;
	int no = 0;

	if (is_served(&ours))
		return true;
	if (!is_starting() || !ts_cas(&has_waited, &no, 1))
		return false;
	for (uint64_t i = 0; i < ts_mail_patience(START_LOOKS) && is_starting(); i++)
		ts_sys_futex_wait(&nothing, nothing, START_LOOK_NS);
	return ts_mail_is_served(&ours, NULL, NULL);
}

bool ts_errand_is_wanted(void)
{
	const struct ts_config *config = ts_config();

	return config->across == TS_ACROSS_NODES && config->cluster && config->align &&
	       !config->disable;
}

/* Whether it is worth asking; where it is, what is not asked for has another reason. */
static bool pays(struct ts_mail *at, enum ts_reason *ret_reason)
{
	uint64_t now = ts_now_ns();
	bool is_slow = now < ts_load_relaxed(&at->table->samples.off_until);
	bool is_unused = now < ts_load_relaxed(&at->table->use.unused_until);

	*ret_reason = is_slow     ? TS_REASON_ACROSS_SLOW
		      : is_unused ? TS_REASON_ACROSS_UNUSED
				  : TS_REASON_ACROSS_ALONE;
	return !is_slow && !is_unused;
}

struct ts_mail *ts_errand_open(struct ts_store *store, enum ts_reason *ret_reason)
{
	*ret_reason = TS_REASON_ACROSS_ALONE;
	return attach(store) && pays(&ours, ret_reason) && await_helper() ? &ours : NULL;
}

/* ---- samples: asking
 * ----------------------------------------------------------------------------- */

static struct ts_mail_slot *slot_of(const struct ts_errand *errand)
{
	return &errand->mail->table->slots[errand->index % TS_MAIL_PLACES];
}

static struct ts_mail_flow *flow_of(const struct ts_errand *errand)
{
	return &errand->mail->table->samples;
}

static void count(_Atomic uint64_t *counter)
{
	ts_add_relaxed(counter, 1);
}

int ts_errand_ask(struct ts_errand *errand, struct ts_mail *at, const struct ts_key *key,
	enum ts_reason *ret_reason)
{
	uint64_t now = ts_now_ns();
	const struct ts_mail_request request = {.kind = TS_MAIL_SAMPLE,
		.name = {.lo = key->lo, .hi = key->hi},
		.until_ns = now + ts_mail_wait_ns()};
	uint32_t index;

	if (!pays(at, ret_reason) || !is_served(at))
		return -EAGAIN;
	int r = fill_slot(at, &request, &index);
	if (r < 0)
		return r;
	*errand = (struct ts_errand){.state = TS_ERRAND_ASKED,
		.serial = ts_identity_serial(),
		.mail = at,
		.index = index,
		.until_ns = request.until_ns + TS_MAIL_SLACK_NS,
		.look_at_ns = now + LOOK_NS};
	count(&flow_of(errand)->asked);
	post(at, slot_of(errand));
	return 0;
}

/* Its time is over, or nobody is there who would answer.  As leave_slot(); 0: go on. */
static int look_around(struct ts_errand *errand, uint64_t now)
{
	struct ts_mail_table *table = errand->mail->table;
	bool is_late = now >= errand->until_ns;

	if (is_late)
		pause_asking(table);
	else if (now < errand->look_at_ns)
		return 0;
	errand->look_at_ns = now + LOOK_NS;
	return is_late || is_gone(table) ? leave_slot(table, slot_of(errand)) : 0;
}

/* What an answered errand says; any but two end it. */
static int take_answer(struct ts_errand *errand)
{
	struct ts_mail_slot *slot = slot_of(errand);
	uint32_t answer = ts_load_relaxed(&slot->answer); /* behind M3 */

	TS_KILLPOINT(mail_answered);
	if (answer == TS_MAIL_SAYS_WON) {
		errand->state = TS_ERRAND_WON;
		count(&flow_of(errand)->won);
	} else if (answer != TS_MAIL_SAYS_GOT) {
		errand->state = TS_ERRAND_NONE;
		count(&flow_of(errand)->alone);
		free_slot(slot);
	}
	return answer < TS_MAIL_ANSWER_COUNT ? (int)answer : TS_MAIL_SAYS_FAILED;
}

int ts_errand_look(struct ts_errand *errand, uint64_t wait_ns)
{
	struct ts_mail_slot *slot = slot_of(errand);
	uint32_t state = ts_load_acquire(&slot->state);

	if (state != TS_MAIL_ANSWERED && wait_ns > 0) {
		uint64_t now = ts_now_ns(), until = ts_min_u64(errand->until_ns, now + wait_ns);
		if (until > now)
			ts_sys_futex_wait(&slot->state, state, until - now);
		state = ts_load_acquire(&slot->state);
	}
	if (state == TS_MAIL_ANSWERED)
		return take_answer(errand);
	int r = look_around(errand, ts_now_ns());
	if (r == 0)
		return -EINPROGRESS;
	errand->state = TS_ERRAND_NONE;
	count(&flow_of(errand)->alone);
	return r;
}

const struct ts_mail_sample *ts_errand_found(
	const struct ts_errand *errand, uint64_t *ret_bytes)
{
	*ret_bytes = ts_min_u64(ts_load_relaxed(&slot_of(errand)->bytes),
		TS_MAIL_ROOM - sizeof(struct ts_mail_sample));
	return (const struct ts_mail_sample *)(errand->mail->places +
					       errand->index % TS_MAIL_PLACES * TS_MAIL_ROOM);
}

/* ---- samples: the end
 * ---------------------------------------------------------------------------- */

void ts_errand_end(struct ts_errand *errand, bool is_good)
{
	struct ts_mail_flow *flow = flow_of(errand);
	struct ts_mail_slot *slot = slot_of(errand);
	uint64_t bytes;

	if (is_good) {
		count(&flow->got);
		ts_add_relaxed(&flow->took_ns, ts_load_relaxed(&slot->took_ns));
		ts_add_relaxed(&flow->made_ns, ts_errand_found(errand, &bytes)->made_ns);
	} else {
		count(&flow->alone);
	}
	errand->state = TS_ERRAND_NONE;
	free_slot(slot);
}

static void give_back(struct ts_errand *errand)
{
	/* What was WON is counted already. */
	if (ts_load_relaxed(&slot_of(errand)->answer) != TS_MAIL_SAYS_WON)
		count(&flow_of(errand)->alone);
	errand->state = TS_ERRAND_NONE;
	post_again(errand->mail, errand->index, TS_MAIL_SAMPLE_RETURN);
}

void ts_errand_refuse(struct ts_errand *errand)
{
	give_back(errand);
}

void ts_errand_made(struct ts_errand *errand, uint64_t made_ns)
{
	if (errand->state != TS_ERRAND_WON || errand->serial != ts_identity_serial())
		return;
	errand->state = TS_ERRAND_NONE;
	slot_of(errand)->request.made_ns = made_ns;
	count(&flow_of(errand)->stored);
	post_again(errand->mail, errand->index, TS_MAIL_SAMPLE_STORE);
}

/* It is not waited for any more, whatever has come of it. */
static void abandon(struct ts_errand *errand)
{
	struct ts_mail_slot *slot = slot_of(errand);

	errand->state = TS_ERRAND_NONE;
	if (ts_load_acquire(&slot->state) != TS_MAIL_ANSWERED &&
		leave_slot(errand->mail->table, slot) < 0) {
		count(&flow_of(errand)->alone);
	} else if (ts_load_relaxed(&slot->answer) == TS_MAIL_SAYS_WON) {
		count(&flow_of(errand)->won);
		give_back(errand);
	} else {
		count(&flow_of(errand)->alone);
		free_slot(slot);
	}
}

void ts_errand_drop(struct ts_errand *errand)
{
	/* A parent's is not ours to end. */
	if (errand->serial != ts_identity_serial())
		errand->state = TS_ERRAND_NONE;
	if (errand->state == TS_ERRAND_WON)
		give_back(errand);
	else if (errand->state == TS_ERRAND_ASKED)
		abandon(errand);
}
