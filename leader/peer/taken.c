/* SPDX-License-Identifier: MIT */
/* Whether any node takes what is handed over: leader/peer/taken.h explains it. */
#include "leader/peer/taken.h"

#include "shim/atomic.h"
#include "shim/sys.h"

#include <stdio.h>

/* So long a server may take to tell. */
#define ANSWER_NS UINT64_C(500000000)

static uint64_t after_ns(void)
{
	return ts_pool_patience(TS_TAKEN_AFTER_NS);
}

static void count(_Atomic uint64_t *counter)
{
	ts_add_relaxed(counter, 1);
}

/* ---- what is told to jobs --------------------------------------------------------------- */

static struct ts_mail_use *told(const struct ts_taken *taken)
{
	return &taken->mail->table->use;
}

static bool is_off(const struct ts_taken *taken)
{
	return !ts_mail_is_used(taken->mail);
}

static void set_off(const struct ts_taken *taken, uint64_t ns)
{
	ts_write_relaxed(&told(taken)->unused_until, ns > 0 ? ts_now_ns() + ns : 0);
}

/* ---- judging ---------------------------------------------------------------------------- */

static void go_off(struct ts_taken *taken)
{
	set_off(taken, taken->off_ns);
	count(&told(taken)->times_unused);
	taken->off_ns = ts_min_u64(2 * taken->off_ns, TS_MAIL_UNUSED_MAX_NS);
	taken->is_trial = true;
	taken->round++;
	taken->row = taken->undecided = 0;
}

static void go_on(struct ts_taken *taken)
{
	if (is_off(taken))
		set_off(taken, 0);
	taken->is_trial = false;
	taken->off_ns = TS_MAIL_UNUSED_NS;
	taken->row = 0;
}

static void judge(struct ts_taken *taken, bool is_of_round, bool was_fetched)
{
	count(&told(taken)->looked);
	if (was_fetched) {
		go_on(taken);
		return;
	}
	count(&told(taken)->unused);
	if (is_of_round && ++taken->row == TS_TAKEN_ROW)
		go_off(taken);
}

/* ---- looking ---------------------------------------------------------------------------- */

static void looked(struct ts_pool_request *request)
{
	struct ts_taken_look *look = request->context;
	struct ts_taken *taken = look->all;
	const struct ts_meta_request *meta = &request->meta;
	bool is_of_round = look->sample.round == taken->round;

	look->all = NULL;
	taken->undecided -= is_of_round;
	/* Where ours was lost, another node may have made it again, and had it fetched. */
	if (meta->result == 0 && meta->cas == look->sample.cas)
		judge(taken, is_of_round, (meta->flags & TS_ANSWER_FETCHED) != 0);
}

static void look_at(struct ts_taken_look *look, struct ts_taken *taken,
	const struct ts_taken_sample *sample)
{
	look->sample = *sample;
	look->request = (struct ts_pool_request){
		.meta = {.kind = TS_META_LOOK,
			.key = look->sample.key,
			.until_ns = ts_now_ns() + ts_pool_patience(ANSWER_NS)},
		.done = looked,
		.context = look,
	};
	if (ts_pool_submit(taken->pool, &look->request) == 0)
		look->all = taken;
	else
		taken->undecided -= sample->round == taken->round;
}

/* The first one that is not in use; TS_TAKEN_LOOKS: until one of those has ended there is none.
 */
static uint32_t find_look(const struct ts_taken *taken)
{
	uint32_t i = 0;

	while (i < TS_TAKEN_LOOKS && taken->looks[i].all)
		i++;
	return i;
}

uint64_t ts_taken_deadline(const struct ts_taken *taken)
{
	if (taken->first == taken->end || find_look(taken) == TS_TAKEN_LOOKS)
		return UINT64_MAX;
	return taken->kept[taken->first % TS_TAKEN_KEPT].at_ns + after_ns();
}

static void forget_looked_at(struct ts_taken *taken)
{
	while (taken->first < taken->end && taken->kept[taken->first % TS_TAKEN_KEPT].cas == 0)
		taken->first++;
}

void ts_taken_step(struct ts_taken *taken)
{
	while (ts_now_ns() >= ts_taken_deadline(taken)) {
		look_at(&taken->looks[find_look(taken)], taken,
			&taken->kept[taken->first++ % TS_TAKEN_KEPT]);
		forget_looked_at(taken);
	}
}

void ts_taken_leave(struct ts_taken *taken, uint64_t cas)
{
	uint32_t look = find_look(taken);

	for (uint64_t i = taken->first; i < taken->end; i++) {
		struct ts_taken_sample *sample = &taken->kept[i % TS_TAKEN_KEPT];
		if (sample->cas != cas)
			continue;
		if (look < TS_TAKEN_LOOKS)
			look_at(&taken->looks[look], taken, sample);
		else
			taken->undecided -= sample->round == taken->round;
		sample->cas = 0;
		break;
	}
	forget_looked_at(taken);
}

/* ---- what happens ----------------------------------------------------------------------- */

void ts_taken_begin(struct ts_taken *taken, struct ts_mail *mail, struct ts_pool *pool)
{
	taken->mail = mail;
	taken->pool = pool;
	taken->off_ns = TS_MAIL_UNUSED_NS;
	/* What an earlier helper has found. */
	taken->is_trial = is_off(taken);
}

static bool remember(struct ts_taken *taken, const char *name, uint64_t cas)
{
	struct ts_taken_sample *sample = &taken->kept[taken->end % TS_TAKEN_KEPT];

	if (taken->end - taken->first == TS_TAKEN_KEPT)
		return false;
	taken->end++;
	taken->undecided++;
	*sample = (struct ts_taken_sample){
		.at_ns = ts_now_ns(), .cas = cas, .round = taken->round};
	(void)snprintf(sample->key, sizeof(sample->key), "%.*s:0", TS_TAKEN_NAME - 1, name);
	return true;
}

bool ts_taken_note_stored(struct ts_taken *taken, const char *name, uint64_t cas)
{
	if (cas == 0)
		return false;
	if (!taken->is_trial)
		return ++taken->stored % TS_TAKEN_ONE_IN == 0 && remember(taken, name, cas);
	/* Who had asked before hands over what he has won. */
	if (is_off(taken))
		return false;
	bool is_remembered = remember(taken, name, cas);
	if (taken->row + taken->undecided >= TS_TAKEN_ROW)
		set_off(taken, after_ns() + ts_pool_patience(ANSWER_NS));
	return is_remembered;
}

void ts_taken_note_got(struct ts_taken *taken)
{
	go_on(taken);
}

void ts_taken_note_found(struct ts_taken *taken)
{
	if (is_off(taken))
		set_off(taken, 0);
	else
		go_on(taken);
}

void ts_taken_note_heard(struct ts_taken *taken)
{
	/* A trial that waits to be looked at is not over. */
	if (is_off(taken) && taken->row + taken->undecided == 0)
		set_off(taken, 0);
}

void ts_taken_end(struct ts_taken *taken)
{
	go_on(taken);
}
