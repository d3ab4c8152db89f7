/* SPDX-License-Identifier: MIT */
/* Whether sharing a copy pays. */
#include "hooks/cuda/cost.h"

#include "leader/group/session.h"
#include "shim/atomic.h"
#include "shim/hash.h"
#include "shim/sys.h"

#include <stdlib.h>
#include <string.h>

/* One in so many copies that do not pay is looked for all the same, others each minute. */
#define PROBE     64u
#define MINUTE_NS UINT64_C(60000000000)

/* So many bytes at the beginning, the middle and the end tell one batch from another. */
#define MARK_BYTES ((size_t)64)

/* After so many copies without one of the driver's own there is one, to know what it costs. */
#define MEASURE 1024u

/* Newest copies of the group that say how many are found. */
#define WINDOW 64u

/* One in so many parts of the difference is forgotten with each that is faster. */
#define FORGET 256u

/* So many of those that are seen late say nothing yet of the quick ones. */
#define SEEN_MIN 16u

/* The first few may be slow for being the first, or for a thread that did not run: until there
 * are so many nothing is concluded from them, and only the quickest counts. */
#define FEW 4u

/* One that is slower than the average by more than one in so many parts of a copy is slow. */
#define SLOW_PART 4u

/* So many in a row that were not slow make one that is an accident. */
#define MANY 16u

/* Where it is not known what a copy takes, to look for pays if one in so many is found. */
#define FEW_PART 16u

/* A call may take longer by one in so many parts of a copy, if that is spent waiting. */
#define SLOWER_PART 4u

/* A program that pauses, or brings a few copies of another kind, is not given up. */
#define NEVER_MS UINT64_C(60000)

/* Without a ring nobody learns that it would pay: then there is another one. */
#define AGAIN_NS UINT64_C(600000000000)

/* A machine with too few cores adds so much to any transfer, however short. */
#define SLACK_NS UINT64_C(2000000)

/* Of 1 KiB. */
#define GROUP_MAX_NS UINT64_C(1000000)

/* The times of copies whose sizes differ by less than a factor of two. */
static struct size_class {
	_Atomic uint64_t average[TS_COST_COUNT];
	_Atomic uint32_t learned[TS_COST_COUNT];
	_Atomic uint32_t quick_in_a_row; /* of what is taken */
	_Atomic uint64_t most_own;       /* that it costs, where only that is known */
	_Atomic uint32_t unmeasured[2];  /* of unknown sources, and known ones */
	/* The time to produce one: of all, and of those that began at once. */
	_Atomic uint64_t slowest, slowest_at_once, usual_at_once, last_queued;
} classes[64];

static _Atomic uint64_t first_no_ns, last_no_ns; /* without a yes or a pause between; or 0 */

static struct size_class *class_of(uint64_t bytes)
{
	return &classes[63u - (unsigned)__builtin_clzll(bytes | 1)];
}

/*
 * Whether it is measured by a look at an event now and then.  On a machine with too few cores
 * most of that is the time until we looked, so what counts is what the quick ones took.
 */
static bool is_seen_late(enum ts_cost cost)
{
	return cost >= TS_COST_KNOWN && cost != TS_COST_KNOWN + TS_COST_HASH;
}

static uint32_t enough_of(enum ts_cost cost)
{
	if (is_seen_late(cost))
		return SEEN_MIN;
	return cost == TS_COST_OWN ? 0 : FEW;
}

static uint64_t mean(uint64_t old, uint64_t ns)
{
	return old - old / 8 + ns / 8;
}

/* One in ten or so is below this. */
static uint64_t low(uint64_t old, uint64_t ns)
{
	return ns < old ? old - (old - ns) / 2 : old + ts_min_u64(ns - old, old) / 64;
}

static uint64_t at_most_four_times(uint64_t ns, uint64_t old)
{
	return old ? ts_min_u64(ns, 4 * old) : ns;
}

/* Slower ones than this are no measure of others, and no wait for others is longer. */
static uint64_t most_of_transfer(uint64_t bytes)
{
	return 2 * ts_load_relaxed(&class_of(bytes)->usual_at_once) + SLACK_NS;
}

/*
 * The time that one sample counts for: four times the usual at most, or the longest wait that
 * we allow.  A hit that is far slower than the average, after many that were not, was held up
 * by the machine and says nothing of the next.
 */
static uint64_t within_reason(enum ts_cost cost, uint64_t bytes, uint64_t old, uint64_t ns)
{
	_Atomic uint32_t *quick = &class_of(bytes)->quick_in_a_row;
	uint64_t own = ts_load_relaxed(&class_of(bytes)->average[TS_COST_OWN]);
	if (cost != TS_COST_TAKEN && cost != TS_COST_LIGHT)
		return at_most_four_times(ns, old == 1 ? 2 : old); /* or it stays 1 */
	uint64_t usual = ts_max_u64(own, old), slow_ns = old + usual / SLOW_PART;
	uint64_t most_ns = ts_max_u64(4 * usual, most_of_transfer(bytes));
	if (cost == TS_COST_LIGHT || ns <= slow_ns) {
		if (cost == TS_COST_TAKEN)
			ts_add_relaxed(quick, 1);
		return ts_min_u64(ns, most_ns);
	}
	bool alone = ts_load_relaxed(quick) >= MANY;
	ts_write_relaxed(quick, 0);
	return alone ? slow_ns : ts_min_u64(ns, most_ns);
}

void ts_cost_learn(enum ts_cost cost, uint64_t bytes, uint64_t ns)
{
	_Atomic uint64_t *at = &class_of(bytes)->average[cost];
	uint64_t old = ts_load_relaxed(at);
	uint64_t now = is_seen_late(cost) ? low(old, ns)
					  : mean(old, within_reason(cost, bytes, old, ns));
	if (ts_add_relaxed(&class_of(bytes)->learned[cost], 1) < FEW && !is_seen_late(cost))
		now = ts_min_u64(old, ns);
	ts_write_relaxed(at, ts_max_u64(old ? now : ns, 1));
}

void ts_cost_learn_own(uint64_t bytes, uint64_t ns, bool at_once)
{
	_Atomic uint64_t *most = &class_of(bytes)->most_own;
	uint64_t old = ts_load_relaxed(most);
	if (at_once) {
		ts_write_relaxed(&class_of(bytes)->unmeasured[false], 0);
		ts_cost_learn(TS_COST_OWN, bytes, ns);
	} else if (old == 0 || ns < old) {
		ts_write_relaxed(most, ts_max_u64(ns, 1));
	}
}

void ts_cost_learn_known(uint64_t bytes, uint64_t ns)
{
	ts_write_relaxed(&class_of(bytes)->unmeasured[true], 0);
	ts_cost_learn(TS_COST_KNOWN + TS_COST_OWN, bytes, ns);
}

void ts_cost_learn_taken(uint64_t bytes, bool known, uint64_t ns, uint64_t waited_ns)
{
	ts_cost_learn((known ? TS_COST_KNOWN : 0) + TS_COST_TAKEN, bytes, ns);
	if (!known)
		ts_cost_learn(TS_COST_LIGHT, bytes, ns - ts_min_u64(waited_ns, ns));
}

uint64_t ts_cost_of(enum ts_cost cost, uint64_t bytes)
{
	uint64_t ns = ts_load_relaxed(&class_of(bytes)->average[cost]);
	if (ts_load_relaxed(&class_of(bytes)->learned[cost]) < enough_of(cost))
		return 0;
	return ns || cost != TS_COST_OWN ? ns : ts_load_relaxed(&class_of(bytes)->most_own);
}

static void note_slowest(_Atomic uint64_t *at, uint64_t ns)
{
	uint64_t old = ts_load_relaxed(at);
	ns = ns < old ? old - (old - ns) / FORGET : at_most_four_times(ns, old);
	ts_write_relaxed(at, ts_max_u64(ns, 1));
}

void ts_cost_brought(uint64_t bytes, uint64_t ns, bool at_once)
{
	_Atomic uint64_t *usual = &class_of(bytes)->usual_at_once;
	uint64_t old = ts_load_relaxed(usual);
	note_slowest(&class_of(bytes)->slowest, ns);
	if (!at_once) {
		ts_write_relaxed(&class_of(bytes)->last_queued, ns);
		return;
	}
	note_slowest(&class_of(bytes)->slowest_at_once, ns);
	ns = ts_max_u64(at_most_four_times(ns, old), 1);
	ts_write_relaxed(usual, old ? mean(old, ns) : ns);
	ts_session_learn_cost(TS_KIND_DEVICE, bytes, ns);
}

/* @own is what this process knows itself, or 0. */
static uint64_t own_or_group(const struct ts_dataset_row *row, uint64_t bytes, uint64_t own)
{
	uint64_t group = ts_load_relaxed(&row->cost_ns_per_kib[TS_KIND_DEVICE]);
	/* Whatever is in there, keep the product far from overflow. */
	return own ? own
		   : 2 * ts_min_u64(group, GROUP_MAX_NS) * ts_min_u64(bytes >> 10, UINT32_MAX);
}

uint64_t ts_cost_of_bringing(const struct ts_dataset_row *row, uint64_t bytes)
{
	return own_or_group(row, bytes, ts_load_relaxed(&class_of(bytes)->slowest));
}

uint64_t ts_cost_of_transfer(const struct ts_dataset_row *row, uint64_t bytes)
{
	/* Waiting too short costs a copy, too long the program's time. */
	uint64_t own = ts_load_relaxed(&class_of(bytes)->slowest_at_once);
	return own_or_group(row, bytes, ts_min_u64(own, most_of_transfer(bytes)));
}

bool ts_cost_is_late(uint64_t bytes)
{
	uint64_t queued = ts_load_relaxed(&class_of(bytes)->last_queued);
	return queued == 0 || queued > most_of_transfer(bytes);
}

static void begin_window(
	struct ts_cost_found *state, uint64_t looked, uint64_t found, uint32_t parts)
{
	ts_write_relaxed(&state->looked, looked);
	ts_write_relaxed(&state->found, found);
	ts_write_relaxed(&state->parts, parts);
}

uint32_t ts_cost_found(
	struct ts_cost_found *state, uint32_t generation, uint64_t looked, uint64_t found)
{
	uint64_t ring = (uint64_t)generation + 1;
	if (ts_load_relaxed(&state->generation) != ring) {
		begin_window(state, looked, found, TS_COST_PARTS / 2);
		ts_write_relaxed(&state->generation, ring);
	}
	uint64_t since = looked - ts_load_relaxed(&state->looked);
	uint64_t of_them = found - ts_load_relaxed(&state->found);
	/* Another thread may have begun the next one with what it has read since. */
	if ((int64_t)since >= (int64_t)WINDOW)
		begin_window(state, looked, found,
			(uint32_t)ts_min_u64(ts_min_u64(of_them, since) * TS_COST_PARTS / since,
				TS_COST_PARTS));
	return ts_load_relaxed(&state->parts);
}

static bool is_forced(void)
{
#ifdef TS_TEST_BUILD
	return getenv("TSSHIM_TEST_COPIES_ALWAYS") != NULL;
#else
	return false;
#endif
}

/* A test can make this shorter. */
static uint64_t constant(const char *name, uint64_t usual)
{
#ifdef TS_TEST_BUILD
	const char *set = getenv(name);
	if (set)
		return strtoull(set, NULL, 10);
#endif
	(void)name;
	return usual;
}

bool ts_cost_own_is_due(uint64_t bytes, bool known)
{
	return ts_add_relaxed(&class_of(bytes)->unmeasured[known], 1) >=
		       constant("TSSHIM_TEST_COPIES_MEASURE", MEASURE) &&
	       !is_forced();
}

static uint64_t never_ns(void)
{
	return constant("TSSHIM_TEST_COPIES_NEVER_MS", NEVER_MS) * 1000000;
}

static void note_no(uint64_t now)
{
	if (ts_load_relaxed(&first_no_ns) == 0 ||
		now - ts_load_relaxed(&last_no_ns) >= never_ns())
		ts_write_relaxed(&first_no_ns, now);
	ts_write_relaxed(&last_no_ns, now);
}

bool ts_cost_is_chosen(const void *from, uint64_t bytes, uint64_t now_ns, unsigned one_in)
{
	const unsigned char *at = from;
	unsigned char mark[3 * MARK_BYTES];
	memcpy(mark, at, MARK_BYTES);
	memcpy(mark + MARK_BYTES, at + bytes / 2, MARK_BYTES);
	memcpy(mark + 2 * MARK_BYTES, at + bytes - MARK_BYTES, MARK_BYTES);
	return (ts_hash64(mark, sizeof(mark)) + now_ns / MINUTE_NS) % one_in == 0 ||
	       is_forced();
}

/* The time that a hit saves, with the waits in vain (cost.h). */
static uint64_t saved_by(bool known, uint64_t own, uint64_t hash, uint64_t bytes)
{
	uint64_t taken = ts_cost_of((known ? TS_COST_KNOWN : 0) + TS_COST_TAKEN, bytes);
	uint64_t light =
		known ? 0 : ts_cost_of(TS_COST_LIGHT, bytes); /* 0: nothing found yet */
	uint64_t counts = ts_max_u64(taken, light);
	if (light && taken + hash <= own + own / SLOWER_PART)
		counts = light;
	return own > counts ? own - counts : 0;
}

bool ts_cost_pays(uint32_t parts, const void *from, uint64_t bytes, bool known, uint64_t now_ns)
{
	enum ts_cost kind = known ? TS_COST_KNOWN : 0;
	uint64_t own = ts_cost_of(kind + TS_COST_OWN, bytes);
	uint64_t hash = ts_cost_of(kind + TS_COST_HASH, bytes);
	uint64_t saved = saved_by(known, own, hash, bytes), missed = TS_COST_PARTS - parts;
	/* Streams that are never idle leave unknown what a copy from pinned memory takes. */
	bool unknown = own == 0 && !(known && parts < TS_COST_PARTS / FEW_PART);
	/* One pass in any case, the second where nothing was found. */
	if (unknown || hash == 0 || is_forced() ||
		saved * parts > hash * TS_COST_PARTS + hash * missed) {
		ts_write_relaxed(&first_no_ns, 0);
		return true;
	}
	note_no(now_ns);
	return ts_cost_is_chosen(from, bytes, now_ns, PROBE);
}

bool ts_cost_never_pays(void)
{
	uint64_t first = ts_load_relaxed(&first_no_ns), last = ts_load_relaxed(&last_no_ns);
	return first != 0 && last - first >= never_ns() && ts_now_ns() - last < AGAIN_NS;
}

/* ---- sizes ------------------------------------------------------------------------------ */

void ts_sizes_note(struct ts_sizes *sizes, uint64_t bytes)
{
	uint32_t at = ts_add_relaxed(&sizes->met, 1) % TS_SIZES;
	ts_write_relaxed(&sizes->newest[at], bytes);
}

uint32_t ts_sizes_met(const struct ts_sizes *sizes)
{
	return ts_load_relaxed(&sizes->met);
}

uint64_t ts_sizes_recurring(const struct ts_sizes *sizes, uint64_t most, unsigned times)
{
	uint64_t largest[TS_SIZES_TIMES_MAX] = {0}; /* @times of them, the largest first */
	for (unsigned i = 0; i < TS_SIZES; i++) {
		uint64_t bytes = ts_load_relaxed(&sizes->newest[i]);
		if (bytes > most)
			continue;
		for (unsigned j = 0; j < times; j++) {
			uint64_t smaller = largest[j];
			if (bytes <= smaller)
				continue;
			largest[j] = bytes;
			bytes = smaller;
		}
	}
	return largest[times - 1];
}
