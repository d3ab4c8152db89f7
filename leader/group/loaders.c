/* SPDX-License-Identifier: MIT */
/* The table of loaders: what jobs say of them, and reading it. */
#include "leader/group/loaders.h"

#include "leader/group/store_private.h"
#include "leader/object/killpoint.h"
#include "shim/hash.h"

#include <string.h>

enum { NOTHING, IN_WRITING, SAID }; /* states of a detail */

static const uint32_t words_of[TS_LOADER_TEXT_COUNT] = {
#define TS_X(name, field, words) words,
	TS_LOADER_TEXTS(TS_X)
#undef TS_X
};

/* ---- words ------------------------------------------------------------------------------ */

/* What the words of a job carry; never 0. */
static uint32_t tag_of(uint64_t id)
{
	return (uint32_t)(ts_hash64(&id, sizeof(id)) >> 32) | 1;
}

static uint64_t join(uint32_t tag, uint32_t low)
{
	return (uint64_t)tag << 32 | low;
}

static bool is_of(uint64_t word, uint32_t tag)
{
	return word >> 32 == tag;
}

/* In a detail's state: reason 8 | state 2.  In a verdict: detail + 1 8 | reason + 1 8 |
 * verdict 8. */
static uint32_t state_of(uint32_t reason, uint32_t state)
{
	return reason << 2 | state;
}

/* Copy @text, cut so that it fits and ends, into @count words. */
static void pack(const char *text, uint64_t *words, uint32_t count)
{
	size_t room = count * sizeof(*words) - 1, length = strnlen(text, room + 1);

	if (length > room) {
		length = room;
		/* Not within a character: 10xxxxxx goes on with one. */
		while (length > 0 && ((unsigned char)text[length] & 0xc0) == 0x80)
			length--;
	}
	memset(words, 0, count * sizeof(*words));
	memcpy(words, text, length);
}

static void unpack(_Atomic uint64_t *from, uint32_t count, char *ret_text)
{
	for (uint32_t i = 0; i < count; i++) {
		uint64_t word = ts_load_relaxed(&from[i]);
		memcpy(ret_text + i * sizeof(word), &word, sizeof(word));
	}
	ret_text[count * sizeof(uint64_t) - 1] = '\0';
}

static void write_words(_Atomic uint64_t *to, const uint64_t *words, uint32_t count)
{
	for (uint32_t i = 0; i < count; i++)
		ts_write_relaxed(&to[i], words[i]);
}

/* ---- saying ----------------------------------------------------------------------------- */

int ts_loaders_attach(struct ts_store *store, struct ts_loaders **ret_loaders)
{
	struct ts_loaders *loaders = ts_load_acquire(&store->loaders);
	void *start = NULL;

	if (!loaders) {
		int r = ts_dependent_map(store,
			&(struct ts_dependent_kind){.which = TS_DEPENDENT_LOADERS,
				.abi = TS_LOADERS_ABI,
				.magic = TS_LOADERS_MAGIC,
				.bytes = sizeof(struct ts_loaders),
				.of_jobs = true},
			&start);
		if (r < 0)
			return r;
		loaders = start;
		ts_write_release(&store->loaders, loaders); /* pairs with the load above */
	}
	*ret_loaders = loaders;
	return 0;
}

static void count_more(struct ts_loader_row *row, uint32_t tag)
{
	uint64_t there = ts_load_relaxed(&row->more);

	while (!ts_cas(&row->more, &there,
		join(tag, is_of(there, tag) && (uint32_t)there < UINT32_MAX
				  ? (uint32_t)there + 1
				  : 1)))
		;
}

/*
 * The place of loader @key, claimed for it now or before; NULL: there is none left.  Places are
 * never given back, so all who look for one key stop at the same place.
 */
static struct ts_loader_place *claim(struct ts_loader_row *row, uint32_t tag, uint32_t key)
{
	uint64_t mine = join(tag, key);

	for (uint32_t i = 0; i < TS_LOADER_MAX; i++) {
		struct ts_loader_place *place = &row->places[i];
		uint64_t there = ts_load_acquire(&place->claim);
		while (!is_of(there, tag))
			if (ts_cas(&place->claim, &there, mine))
				return place;
		if (there == mine)
			return place;
	}
	return NULL;
}

/* Behind the last part the next one is none. */
static void write_parts(struct ts_loader_place *place, const struct ts_loader_facts *facts)
{
	uint32_t count =
		facts->part_count < TS_LOADER_PARTS ? facts->part_count : TS_LOADER_PARTS;

	for (uint32_t i = 0; i < count; i++) {
		uint64_t words[TS_LOADER_PART_WORDS];
		memcpy(words, &facts->parts[i], sizeof(words));
		write_words(place->parts[i], words, TS_LOADER_PART_WORDS);
	}
	if (count < TS_LOADER_PARTS)
		ts_write_relaxed(&place->parts[count][0], 0);
}

static void write_facts(
	struct ts_loader_place *place, uint64_t claimed, const struct ts_loader_facts *facts)
{
	uint64_t words[TS_LOADER_FACTS];

	TS_KILLPOINT(loader_claimed);
	for (uint32_t i = 0; i < TS_LOADER_NUMBER_COUNT; i++)
		words[i] = facts->numbers[i];
	uint32_t at = TS_LOADER_NUMBER_COUNT;
	for (uint32_t i = 0; i < TS_LOADER_TEXT_COUNT; at += words_of[i++])
		pack(facts->texts[i], words + at, words_of[i]);
	ts_fence_full(); /* L5 */
	for (uint32_t i = 0; i < TS_LOADER_REASON_WORDS; i++)
		ts_write_relaxed(&place->reasons[i], 0);
	write_words(place->facts, words, TS_LOADER_FACTS);
	write_parts(place, facts);
	TS_KILLPOINT(loader_written);
	ts_write_release(&place->said, claimed); /* L1 */
}

/* The number of the text for @reason, counted from 1; 0: it goes without. */
static uint32_t write_detail(
	struct ts_loader_place *place, uint32_t tag, uint32_t reason, const char *text)
{
	uint64_t words[TS_LOADER_DETAIL_WORDS];
	uint64_t writing = join(tag, state_of(reason, IN_WRITING)),
		 done = join(tag, state_of(reason, SAID));

	for (uint32_t i = 0; i < TS_LOADER_DETAILS && text[0] != '\0'; i++) {
		struct ts_loader_detail *detail = &place->details[i];
		uint64_t there = ts_load_acquire(&detail->state);
		while (!is_of(there, tag))
			if (ts_cas(&detail->state, &there, writing)) {
				pack(text, words, TS_LOADER_DETAIL_WORDS);
				write_words(detail->words, words, TS_LOADER_DETAIL_WORDS);
				TS_KILLPOINT(loader_detail);
				ts_write_release(&detail->state, done); /* L3 */
				return i + 1;
			}
		if (there == done)
			return i + 1;
		if (there == writing)
			return 0;
	}
	return 0;
}

bool ts_loaders_say(struct ts_loaders *loaders, uint32_t job, uint64_t id, uint32_t key,
	const struct ts_loader_facts *facts, const struct ts_loader_judgement *judgement)
{
	if (job >= TS_JOB_MAX)
		return false;
	uint32_t tag = tag_of(id);
	struct ts_loader_row *row = &loaders->rows[job];
	struct ts_loader_place *place = claim(row, tag, key);
	if (!place) {
		count_more(row, tag);
		return false;
	}
	if (ts_load_acquire(&place->said) != join(tag, key))
		write_facts(place, join(tag, key), facts);
	bool has_reason = judgement->reason < TS_REASON_COUNT;
	uint32_t reason = has_reason ? (uint32_t)judgement->reason + 1 : 0;
	uint32_t detail =
		has_reason ? write_detail(place, tag, judgement->reason, judgement->detail) : 0;
	if (has_reason)
		ts_or_relaxed(&place->reasons[judgement->reason / 64],
			UINT64_C(1) << judgement->reason % 64);
	/* L3: the text before the word that names it. */
	ts_write_release(&place->verdict,
		join(tag, detail << 16 | reason << 8 | (uint32_t)judgement->verdict));
	return true;
}

/* ---- reading ---------------------------------------------------------------------------- */

static void read_verdict(
	struct ts_loader_place *place, uint32_t tag, struct ts_loader *ret_loader)
{
	uint64_t word = ts_load_acquire(&place->verdict); /* L4 */
	uint32_t detail = word >> 16 & 0xff, reason = word >> 8 & 0xff, verdict = word & 0xff;

	ret_loader->verdict = TS_LOADER_VERDICT_NONE;
	ret_loader->reason = TS_REASON_SLOTS;
	ret_loader->detail[0] = '\0';
	if (!is_of(word, tag) || verdict >= TS_LOADER_VERDICT_COUNT)
		return;
	ret_loader->verdict = (enum ts_loader_verdict)verdict;
	if (reason == 0 || reason > TS_REASON_SLOTS)
		return;
	ret_loader->reason = reason - 1;
	if (detail == 0 || detail > TS_LOADER_DETAILS)
		return;
	struct ts_loader_detail *found = &place->details[detail - 1];
	if (ts_load_acquire(&found->state) == join(tag, state_of(reason - 1, SAID)))
		unpack(found->words, TS_LOADER_DETAIL_WORDS, ret_loader->detail);
}

bool ts_loaders_read(struct ts_loaders *loaders, uint32_t job, uint64_t id, uint32_t index,
	struct ts_loader *ret_loader)
{
	if (job >= TS_JOB_MAX || index >= TS_LOADER_MAX)
		return false;
	uint32_t tag = tag_of(id);
	struct ts_loader_place *place = &loaders->rows[job].places[index];
	uint64_t said = ts_load_acquire(&place->said); /* L2 */
	if (!is_of(said, tag))
		return false;
	char *into[TS_LOADER_TEXT_COUNT] = {
#define TS_X(id, field, words) ret_loader->field,
		TS_LOADER_TEXTS(TS_X)
#undef TS_X
	};
	for (uint32_t i = 0; i < TS_LOADER_NUMBER_COUNT; i++)
		ret_loader->numbers[i] = ts_load_relaxed(&place->facts[i]);
	uint32_t at = TS_LOADER_NUMBER_COUNT;
	for (uint32_t i = 0; i < TS_LOADER_TEXT_COUNT; at += words_of[i++])
		unpack(place->facts + at, words_of[i], into[i]);
	for (uint32_t i = 0; i < TS_LOADER_REASON_WORDS; i++)
		ret_loader->reasons[i] = ts_load_relaxed(&place->reasons[i]);
	read_verdict(place, tag, ret_loader);
	ts_fence_full(); /* L6 */
	return ts_load_relaxed(&place->claim) == said;
}

bool ts_loaders_read_part(struct ts_loaders *loaders, uint32_t job, uint64_t id, uint32_t index,
	uint32_t part, struct ts_loader_part *ret_part)
{
	if (job >= TS_JOB_MAX || index >= TS_LOADER_MAX || part >= TS_LOADER_PARTS)
		return false;
	struct ts_loader_place *place = &loaders->rows[job].places[index];
	uint64_t said = ts_load_acquire(&place->said); /* L2 */
	if (!is_of(said, tag_of(id)))
		return false;
	unpack(place->parts[part], TS_LOADER_PART_WORDS, (char *)ret_part);
	ts_fence_full(); /* L6 */
	return ts_load_relaxed(&place->claim) == said && ret_part->path != 0;
}

uint32_t ts_loaders_more(struct ts_loaders *loaders, uint32_t job, uint64_t id)
{
	uint64_t word = job < TS_JOB_MAX ? ts_load_relaxed(&loaders->rows[job].more) : 0;

	return is_of(word, tag_of(id)) ? (uint32_t)word : 0;
}
