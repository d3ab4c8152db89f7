/* SPDX-License-Identifier: MIT */
/*
 * What the jobs of a group say of the loaders that they have met, for `tsrun explain`: what a
 * loader is over, and whether its samples are shared or why not.
 *
 * It is an object of its own ("loaders", leader/group/attach.h), made by the first process that
 * has something to say; it goes with the last job, whichever ring they use.  Row j belongs to
 * the job in row j of the ledger, as long as that has the row; TS_LOADER_MAX loaders have a
 * place in it, and further ones are counted.  All is for people: no job ever reads any of it.
 *
 * ---- Loader: one place of a row ----------------------------------------------------------
 *
 *   claim    anything of another job ──CAS──> (job, key)
 *            by whoever speaks first of the loader with this key
 *   said     anything else ──release──> (job, key)
 *            once the facts are written
 *   verdict  anything ──> (job, verdict, reason, detail)
 *            by any process of the job, whenever it comes to another one; the last one holds,
 *            and being one word it is whole
 *
 * `job` is 32 bits of a hash of the job's id, so that what an earlier job of the row has left
 * counts for nothing and need not be cleared.  The key is the loader's; all processes that know
 * it have the same facts to tell.  So whoever finds the place claimed for the key and the facts
 * not said writes them as well: several may at once, and each byte is the same.  A crash
 * between the two leaves a place that the next one to speak completes; until then nobody reads
 * it.
 *
 * ---- Detail: what exactly, one of TS_LOADER_DETAILS texts of a place ----------------------
 *
 *   state    anything of another job ──CAS──> (job, reason, WRITING)
 *                                    ──release──> (job, reason, SAID)
 *            by the first process that gives this reason for this loader
 *
 * A crash in WRITING leaves a text that nobody reads: that reason goes without.  A verdict
 * names the place of its detail only once that is SAID.
 *
 * ---- Further loaders: one word of a row ----------------------------------------------------
 *
 *   more     anything ──CAS──> (job, count)
 *            by whoever finds no place
 *
 * ---- Ordering ------------------------------------------------------------------------------
 *
 *   L1  facts, then `said`                   pairs with
 *   L2  load of `said`, then the facts
 *   L3  text, then SAID, then the verdict    pairs with
 *   L4  load of the verdict, then of the state, then the text
 *   L5  `claim` by CAS; full fence; facts    pairs with
 *   L6  load of the facts; full fence; load of `claim`: it is still the one that was said
 *       (a reader that is slow may find the next job's in the middle)
 *
 * A process of a job that is over may still write into a row that is another job's by now, if
 * it has asked for its row before: its words carry its own job, and a text is cut short at
 * worst.
 */
#ifndef TS_LEADER_GROUP_LOADERS_H
#define TS_LEADER_GROUP_LOADERS_H

#include "leader/group/attach.h"
#include "leader/group/ledger.h"

#define TS_LOADERS_MAGIC UINT64_C(0x736c72656461306c) /* "l0aderls", little endian */
#define TS_LOADERS_ABI   4u

#define TS_LOADER_MAX        16u /* of one job */
#define TS_LOADER_DETAILS    2u
#define TS_LOADER_UNKNOWN    UINT64_MAX /* of a number */
#define TS_LOADER_PARTS      64u
#define TS_LOADER_PART_WORDS 12u

/*
 * Texts, in words of 8 bytes: the class of its data set, the file and line where that is
 * written, the classes of its sampler and of what collates.
 */
#define TS_LOADER_TEXTS(X)     \
	X(NAME, name, 16)      \
	X(PLACE, place, 24)    \
	X(SAMPLER, sampler, 8) \
	X(COLLATE, collate, 8)
#define TS_LOADER_DETAIL_WORDS 30u

/*
 * Numbers: items of the data set, of a batch (0: no batches), worker processes, bits, and what
 * its samples are named by (leader/line/line.h; 0: they have no name).
 */
#define TS_LOADER_NUMBERS(X) \
	X(LENGTH, length)    \
	X(BATCH, batch)      \
	X(WORKERS, workers)  \
	X(BITS, bits)        \
	X(NAMED, named)

enum ts_loader_text {
#define TS_X(name, field, words) TS_LOADER_##name,
	TS_LOADER_TEXTS(TS_X)
#undef TS_X
		TS_LOADER_TEXT_COUNT
};

enum ts_loader_number {
#define TS_X(name, field) TS_LOADER_##name,
	TS_LOADER_NUMBERS(TS_X)
#undef TS_X
		TS_LOADER_NUMBER_COUNT
};

/* Of TS_LOADER_BITS. */
enum {
	TS_LOADER_ITERABLE = 1,   /* its data set is */
	TS_LOADER_PERSISTENT = 2, /* its workers live on */
	TS_LOADER_ALIGNED = 4,
	TS_LOADER_FREE = 8, /* in free order */
};

/* What is shared between jobs of what a loader gives; appended to only. */
enum ts_loader_verdict {
	TS_LOADER_VERDICT_NONE, /* not known: nothing of it was made yet */
	TS_LOADER_VERDICT_SAMPLES,
	TS_LOADER_VERDICT_BATCHES, /* whole ones, as its data set makes them */
	TS_LOADER_VERDICT_NOT,
	TS_LOADER_VERDICT_COUNT
};

struct ts_loader_detail {
	_Atomic uint64_t state;
	_Atomic uint64_t words[TS_LOADER_DETAIL_WORDS];
};

#define TS_X(name, field, count) +(count)
#define TS_LOADER_FACT_WORDS     (TS_LOADER_NUMBER_COUNT TS_LOADER_TEXTS(TS_X))
enum { TS_LOADER_FACTS = TS_LOADER_FACT_WORDS };
#undef TS_X

#define TS_LOADER_REASON_WORDS ((TS_REASON_SLOTS + 63) / 64)

struct ts_loader_place {
	_Atomic uint64_t claim, said, verdict;
	_Atomic uint64_t reasons[TS_LOADER_REASON_WORDS]; /* that were given, a bit each */
	_Atomic uint64_t facts[TS_LOADER_FACTS];          /* numbers, then texts */
	_Atomic uint64_t parts[TS_LOADER_PARTS][TS_LOADER_PART_WORDS];
	struct ts_loader_detail details[TS_LOADER_DETAILS];
};
static_assert(sizeof(struct ts_loader_place) == 7168, "ABI of loaders 4");

struct ts_loader_row {
	_Atomic uint64_t more;
	_Atomic uint64_t reserved[7];
	struct ts_loader_place places[TS_LOADER_MAX];
};

struct ts_loaders {
	struct ts_dependent_head head;
	_Alignas(64) struct ts_loader_row rows[TS_JOB_MAX];
};
static_assert(sizeof(struct ts_loaders) == 128 + TS_JOB_MAX * (64 + TS_LOADER_MAX * 7168),
	"ABI of loaders 4");

/**
 * A part of what a data set's name is made of: of two loaders' parts with one path, different
 * sums say that it is not the same in both.
 */
struct ts_loader_part {
	uint32_t sum, path; /* hashes of what is there and of where; path 0: no part */
	/* Where; behind a tab what is there, behind another one which code mentions it; "" is
	 * left out. */
	char text[(TS_LOADER_PART_WORDS - 1) * 8];
};
static_assert(sizeof(struct ts_loader_part) == TS_LOADER_PART_WORDS * 8, "words of a part");

/** What is told of a loader.  Texts that are too long are cut, between characters of UTF-8. */
struct ts_loader_facts {
	uint64_t numbers[TS_LOADER_NUMBER_COUNT];
	const char *texts[TS_LOADER_TEXT_COUNT];
	const struct ts_loader_part *parts; /* their texts end; @part_count of them */
	uint32_t part_count;                /* what is beyond TS_LOADER_PARTS is left out */
};

/** Whether it is shared. */
struct ts_loader_judgement {
	enum ts_loader_verdict verdict;
	enum ts_reason reason; /* TS_REASON_COUNT: none */
	const char *detail;    /* "": none */
};

/**
 * The table of @store's group, made when there is none.  Ownership: the process's, for good; a
 * fork child has its parent's.  Threads: one at a time per process.
 * Errors: those of ts_dependent_map().
 */
int ts_loaders_attach(struct ts_store *store, struct ts_loaders **ret_loaders);

/**
 * Job @id, which has row @job of the ledger, says of its loader @key (not 0) what it is and
 * whether it is shared.  Returns whether it has a place; one that has none is counted each
 * time. Rows that do not exist are ignored.  Threads and processes: any.
 */
bool ts_loaders_say(struct ts_loaders *loaders, uint32_t job, uint64_t id, uint32_t key,
	const struct ts_loader_facts *facts, const struct ts_loader_judgement *judgement);

/** What a reader gets; texts end, and may hold anything else. */
struct ts_loader {
	uint64_t numbers[TS_LOADER_NUMBER_COUNT];
#define TS_X(id, field, words) char field[(words)*8];
	TS_LOADER_TEXTS(TS_X)
#undef TS_X
	enum ts_loader_verdict verdict;
	uint32_t reason; /* enum ts_reason, or one of a newer version; TS_REASON_SLOTS: none */
	uint64_t reasons[TS_LOADER_REASON_WORDS]; /* ts_loader_was_given() */
	char detail[TS_LOADER_DETAIL_WORDS * 8];
};

/** Whether @reason, below TS_REASON_SLOTS, was given for @loader at some time. */
static inline bool ts_loader_was_given(const struct ts_loader *loader, uint32_t reason)
{
	return loader->reasons[reason / 64] >> reason % 64 & 1;
}

/**
 * Whether something is said at place @index of the row @job of job @id, and what.  Checks all
 * that it reads.  Threads and processes: any; never waits.
 */
bool ts_loaders_read(struct ts_loaders *loaders, uint32_t job, uint64_t id, uint32_t index,
	struct ts_loader *ret_loader);

/**
 * Part @part of what is said at place @index, as with ts_loaders_read(); false: there is none.
 * Its text ends, and may hold anything else.
 */
bool ts_loaders_read_part(struct ts_loaders *loaders, uint32_t job, uint64_t id, uint32_t index,
	uint32_t part, struct ts_loader_part *ret_part);

/** How many more loaders job @id has met than had a place. */
uint32_t ts_loaders_more(struct ts_loaders *loaders, uint32_t job, uint64_t id);

#endif
