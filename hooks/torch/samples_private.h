/* SPDX-License-Identifier: MIT */
/* What the files of hooks/torch share about samples. */
#ifndef TS_HOOKS_TORCH_SAMPLES_PRIVATE_H
#define TS_HOOKS_TORCH_SAMPLES_PRIVATE_H

#include "leader/inputs/opens.h"
#include "hooks/torch/samples.h"
#include "leader/group/store.h"
#include "leader/journal/journal.h"
#include "leader/mail/mail.h"
#include "shim/identity.h"

#include <assert.h>
#include <stddef.h>

/** The key of the sample at the number @index in @scope, where that came @occurrence times. */
struct ts_key ts_sample_key(const void *scope, int64_t index, uint32_t occurrence);

/*
 * A note of the journal has no room for an occurrence: each has a tag of its own instead, so
 * many steps behind the tag of the first.  Those that are further are made without a note.
 */
#define TS_NOTE_STEP        UINT64_C(0x9e3779b97f4a7c15)
#define TS_NOTE_STEP_BACK   UINT64_C(0xf1de83e19937733d)
#define TS_NOTE_OCCURRENCES 65536u
static_assert(TS_NOTE_STEP * TS_NOTE_STEP_BACK == 1, "undoes it, modulo 2^64");

/** The tag for notes of those with @occurrence; 0: nothing is noted. */
static inline uint64_t ts_note_tag(uint64_t tag, uint32_t occurrence)
{
	bool is_noted = tag != 0 && occurrence < TS_NOTE_OCCURRENCES;
	return is_noted ? tag + occurrence * TS_NOTE_STEP : 0;
}

/** Whether a note with @noted is one for @tag, and of which occurrence. */
static inline bool ts_note_is_of(uint64_t noted, uint64_t tag, uint32_t *ret_occurrence)
{
	uint64_t occurrence = (noted - tag) * TS_NOTE_STEP_BACK;
	*ret_occurrence = (uint32_t)occurrence;
	return occurrence < TS_NOTE_OCCURRENCES;
}

/* ---- records -------------------------------------------------------------------------- */

/* Structure and inputs of a record: more than this is no sample but a data set. */
#define TS_RECORD_META_MAX (UINT64_C(16) << 20)

#define TS_RECORD_MAGIC 0x31455354u /* "TSE1" */

/** What a record begins with; inputs, meta and payload follow, the payload 64-byte aligned. */
struct ts_record {
	uint32_t magic;
	uint32_t input_bytes;
	uint64_t meta_bytes;
	uint64_t payload_bytes;
	uint64_t check; /* of the three above, the inputs and the meta */
};

/** What the struct holds at the moment. */
enum ts_held { TS_HELD_NOTHING, TS_HELD_LEASE, TS_HELD_CLAIM, TS_HELD_ROOM };

#define TS_UNFIT 192u /* bytes of text */

struct ts_sample {
	struct ts_sample_view view; /* first: the glue reads it */
	struct ts_store *store;
	uint32_t serial; /* ts_identity_serial() of the take: a fork child must not go on */
	enum ts_held held;
	bool listing;   /* the files that this thread opens */
	bool observing; /* for a record, or to be told */
	bool again;     /* how the item is made: TS_SAMPLE_AGAIN, */
	bool ahead;     /* and TS_SAMPLE_AHEAD */
	struct ts_key key;
	uint32_t part, whole; /* samples that are meant, of those in the record */
	uint32_t occurrence;
	struct ts_note_made note; /* of the sample when it is made; tag 0: none */
	struct ts_take take;
	struct ts_patience patience;
	uint64_t cpu_start, cpu_ns;
	uint64_t made_at, made_ns; /* likewise, of time that passes */
	uint64_t slack_ns;         /* so much longer than to make one others may hold a claim */
	uint64_t record_bytes;     /* of the record in the making, or the last one */
	/* Of what is claimed: hooks/torch/across.c. */
	struct ts_mail *across; /* where other nodes are asked for it; NULL: nowhere, */
	enum ts_reason unasked; /* and why not */
	struct ts_errand errand;
	struct ts_opens opens;
	char unfit[TS_UNFIT]; /* what the view has */
	uint32_t input_bytes; /* of the list below, as it goes into the record */
	unsigned char inputs[TS_OPENS_ENCODED_MAX];
};

/** Where the payload begins in a record with so many bytes of inputs and meta. */
static inline uint64_t ts_record_payload_at(uint64_t input_bytes, uint64_t meta_bytes)
{
	return ts_align_up(sizeof(struct ts_record) + input_bytes + meta_bytes, 64);
}

/** The check of @record, which has its inputs and meta @behind it. */
uint64_t ts_record_check(const struct ts_record *record, const void *behind);

/**
 * What the record at @at, which has @bytes, says of itself; it is whole.  Errors: -EBADMSG.
 */
int ts_record_read(const unsigned char *at, uint64_t bytes, struct ts_record *ret_record);

/** Note in the journal, if there is one, that @sample was made. */
void ts_sample_note_made(struct ts_sample *sample);

/** Let what the bytes of the sample are known by be its key and @origin. */
static inline void ts_sample_set_origin(struct ts_sample *sample, uint64_t origin)
{
	sample->view.origin[0] = sample->key.lo;
	sample->view.origin[1] = origin;
}

/** Whether what @sample holds is this process's; what a parent holds is not ours to end. */
bool ts_sample_is_ours(struct ts_sample *sample);

#endif
