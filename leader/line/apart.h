/* SPDX-License-Identifier: MIT */
/*
 * Jobs that ran side by side over data sets that look alike and have different names, so that
 * no sample of one is one of the other.
 *
 * The Python half tells of each loader what its samples are named by, in one word: 14 bits of
 * what the data set holds, 14 of the options in it that count, 12 of the versions of Python and
 * libraries, 12 of the working directory where that counts, 12 of the seed of --align.  Of
 * different bits the named things are different; equal bits say little.  0: the samples have no
 * name.
 */
#ifndef TS_LEADER_LINE_APART_H
#define TS_LEADER_LINE_APART_H

#include "leader/group/ledger.h"
#include "leader/group/loaders.h"

#define TS_APART_NAME 32u
#define TS_APART_WHAT 224u

/* What may differ, lowest bits last; with what a user is told of it, and what helps. */
#define TS_APART_PARTS(X)                                                                     \
	X(DATA, "data", 50, 14, "their code or what they hold (paths, files, objects)",       \
		"the same code and paths")                                                    \
	X(OPTIONS, "options", 36, 14, "options that they hold", "the same options")           \
	X(VERSIONS, "versions", 24, 12, "versions of Python or libraries", "one environment") \
	X(DIRECTORY, "directory", 12, 12, "the directory they run in",                        \
		"one working directory")                                                      \
	X(SEED, "seed", 0, 12, "--align or its seed", "one --align")

enum ts_apart_part {
#define TS_X(name, id, shift, bits, text, fix) TS_APART_##name,
	TS_APART_PARTS(TS_X)
#undef TS_X
		TS_APART_PART_COUNT
};

/** Texts of enum ts_apart_part; constant. */
extern const struct ts_apart_text {
	const char *id, *text, *fix;
} ts_apart_texts[TS_APART_PART_COUNT];

struct ts_apart {
	bool found;
	int mine, other;          /* pids of the two jobs */
	uint64_t beside_ns;       /* for so long both have run */
	uint32_t parts;           /* a bit for each enum ts_apart_part that differs; not 0 */
	char name[TS_APART_NAME]; /* the end of the class of the data set, printable */
	/* Of what they hold, what differs: "opt.lr (0.1, 0.3), opt.size and 2 more"; "": not
	 * known. */
	char what[TS_APART_WHAT];
};

/**
 * Which parts of the names @a and @b differ, a bit each; where --align does, options are not
 * compared.  Threads: any.
 */
uint32_t ts_apart_parts(uint64_t a, uint64_t b);

/** Whether two loaders look alike: the class of the data set, and its length. */
bool ts_apart_look_alike(const struct ts_loader *a, const struct ts_loader *b);

/**
 * Find, for the job in row @job, a loader whose samples have another name than those of every
 * loader of some other job that ran beside it and has one that looks alike; the job beside
 * which it ran for longest.  Leaves *ret_apart with .found false where there is none.  Reads
 * what others write, checked; allocates nothing.  Threads: any.
 */
void ts_apart_find(struct ts_ledger *ledger, struct ts_loaders *loaders, uint32_t job,
	struct ts_apart *ret_apart);

#endif
