/* SPDX-License-Identifier: MIT */
/* Settings of this process, read from the environment by the table shim/options.def. */
#ifndef TS_SHIM_CONFIG_H
#define TS_SHIM_CONFIG_H

#include "shim/base.h"
#include "shim/options.h"

#define TS_NAME_MAX                                                               \
	64 /* of a group or a dataset; letters, digits, '_', '-', '.' (not first) \
	    */

/*
 * The words of options, each with what it means, in Markdown; the first one is 0.
 * scripts/tables reads them, as it does shim/options.def.
 */
#define TS_SHARES(X)                                                                          \
	X(AUTO, "auto",                                                                       \
		"samples of aligned jobs, and of data sets whose code is known; else pixels") \
	X(SAMPLES, "samples",                                                                 \
		"samples of all data sets: you vouch that a sample follows from the data "    \
		"set, "                                                                       \
		"its index and the state of the global generators only")                      \
	X(PIXELS, "pixels", "decoded images, never samples")                                  \
	X(OFF, "off", "nothing; an aligned job stays aligned")

enum ts_share {
#define TS_X(name, word, text) TS_SHARE_##name,
	TS_SHARES(TS_X)
#undef TS_X
};

#define TS_ORDERS(X)                                                                         \
	X(STRICT, "strict", "the order that follows from the seed alone")                    \
	X(FREE, "free",                                                                      \
		"whatever the job lacks in this epoch of what others have made, the newest " \
		"first, else the next sample of the strict order")

enum ts_epoch_order {
#define TS_X(name, word, text) TS_ORDER_##name,
	TS_ORDERS(TS_X)
#undef TS_X
};

/* An absolute directory is a place as well. */
#define TS_STAGES(X)                                                                      \
	X(OFF, "off", "no copies")                                                        \
	X(AUTO, "auto",                                                                   \
		"shared memory, only where the directory lies on a network or FUSE file " \
		"system")                                                                 \
	X(SHM, "shm", "shared memory, for any directory; an absolute path: into that one")

enum ts_stage_mode {
#define TS_X(name, word, text) TS_STAGE_##name,
	TS_STAGES(TS_X)
#undef TS_X
		TS_STAGE_DIR, /* the directory that was named, for all these files */
};

#define TS_ACROSSES(X)                              \
	X(OFF, "off", "only the jobs of this node") \
	X(NODES, "nodes", "also those of `--cluster`")

enum ts_across {
#define TS_X(name, word, text) TS_ACROSS_##name,
	TS_ACROSSES(TS_X)
#undef TS_X
};

#define TS_COPIES(X)                                                                           \
	X(OFF, "off", "nothing stands between the program and its driver")                     \
	X(AUTO, "auto",                                                                        \
		"where `tsrun doctor --gpu` has found for this GPU and driver that bytes are " \
		"right and that it pays")                                                      \
	X(ON, "on", "without such a verdict: you vouch for the driver")

enum ts_copies {
#define TS_X(name, word, text) TS_COPIES_##name,
	TS_COPIES(TS_X)
#undef TS_X
};

/* An absolute path is a log as well. */
#define TS_EVENTS(X)            \
	X(OFF, "off", "no log") \
	X(ON, "on", "a log at the place of the group's")

enum ts_events_mode {
#define TS_X(name, word, text) TS_EVENTS_##name,
	TS_EVENTS(TS_X)
#undef TS_X
		TS_EVENTS_FILE, /* the file that was named */
};

#define TS_LEVELS(X)                                                 \
	X(ERROR, "error", "what keeps the library from working")     \
	X(WARN, "warn", "also what is probably not as it should be") \
	X(INFO, "info", "also what the library does once")           \
	X(DEBUG, "debug", "also what it does often, and why")

enum ts_level {
#define TS_X(name, word, text) TS_LEVEL_##name,
	TS_LEVELS(TS_X)
#undef TS_X
};

/* Longest directory for copies: names of a group and of a copy follow. */
#define TS_STAGE_DIR_MAX 255

/* Longest path of a recording or a log: the number of a rank may follow. */
#define TS_FILE_MAX 4000

/* Of --ring: as the memory of this machine or job is (leader/object/limits.h). */
#define TS_RING_AUTO UINT64_MAX

#define TS_SEED_MAX    ((uint64_t)INT64_MAX) /* positive in every language */
#define TS_SECONDS_MAX UINT64_C(86400)       /* a day */
#define TS_KEEP_MAX    UINT64_C(2592000)     /* 30 days */
#define TS_EPOCH_MAX   ((uint64_t)INT32_MAX)

/** For the one line when a job ends: who prints it and where, as tsrun has seen it. */
struct ts_line_place {
	uint64_t launch;        /* ts_process_id() of what tsrun became; 0: there is no line */
	uint64_t device, inode; /* of its standard error */
	bool is_plain;          /* no tsrun: the first interpreter below LD_PRELOAD */
};

struct ts_config {
	bool disable;
	char group[TS_NAME_MAX + 1];
	char dataset[TS_NAME_MAX + 1];
	const char *dataset_dir; /* behind NAME=, inside the environment string, or NULL */
	enum ts_share share;
	bool align;          /* data randomness comes from the seed, not from the job */
	uint64_t align_seed; /* 0 ... TS_SEED_MAX; 0 unless @align */
	bool align_orders;   /* also what samplers draw from a seed of their own */
	uint32_t epoch;      /* number of the first one, 0 ... TS_EPOCH_MAX; only with @align */
	enum ts_epoch_order order; /* only with @align */
	const char *record;        /* files, inside the environment strings, or NULL */
	const char *replay;
	uint64_t ring_bytes; /* or TS_RING_AUTO */
	uint32_t keep;       /* seconds; 0 ... TS_KEEP_MAX */
	enum ts_stage_mode stage;
	const char *stage_dir; /* of TS_STAGE_DIR, inside the environment string, else NULL */
	uint64_t stage_bytes;
	uint32_t stage_metadata; /* seconds; 0 ... TS_SECONDS_MAX */
	const char *cluster;     /* directory, inside the environment string, or NULL */
	enum ts_across across;   /* only with @align and @cluster */
	bool locality;           /* ranks give each other what their nodes hold */
	enum ts_copies copies;
	enum ts_events_mode events;
	const char
		*events_file; /* of TS_EVENTS_FILE, inside the environment string, else NULL */
	uint32_t verify_ppm;  /* of the hits, parts per million */
	bool summary;
	int32_t summary_pid; /* print always in this process (set by tsrun), or 0 */
	struct ts_line_place line;
	bool quiet; /* no such line */
	enum ts_level debug;
	uint64_t batch; /* ts_config_batch() of the batch job around this process; 0: none */
};

/**
 * Check @value for @option and store it in @config.  Strict: no trailing characters, booleans
 * only 0 and 1.  Neither allocates nor uses stdio or the locale.
 * Errors: -EINVAL, and @config is unchanged.
 */
int ts_config_set(struct ts_config *config, enum ts_option option, const char *value);

/** All defaults. */
void ts_config_init(struct ts_config *config);

/**
 * Defaults, then the environment @env (as environ).  Of a name that is there twice the first
 * counts, as for getenv(3).  A bad value leaves the default; each one, and each unknown
 * TSSHIM_ name (cut to 63 bytes), is reported through @complain if not NULL (@suggestion is
 * the nearest known name, or NULL).  TSSHIM_TEST_ and TSSHIM_BENCH_ names and TSSHIM_SLURM
 * are not ours.
 */
void ts_config_load(struct ts_config *config, char *const *env,
	void (*complain)(enum ts_option option, const char *name, const char *value,
		const char *suggestion));

/**
 * A batch system's name of a job, such as "4711", as one number; 0 of an empty one.  The
 * environment has it as SLURM_JOB_ID, PBS_JOBID or (Grid Engine) JOB_ID.  Threads: any.
 */
uint64_t ts_config_batch(const char *name);

/**
 * The words that @option takes as values, ending with NULL, for hints and completions; NULL
 * when it takes none.
 */
const char *const *ts_config_words(enum ts_option option);

/** "512M": bytes, with K, M, G or T times 1024. Errors: -EINVAL. */
int ts_config_parse_size(const char *value, uint64_t *ret_bytes);

/** What a valid value looks like, for messages: "0 or 1", "a size such as 512M", ... */
const char *ts_config_expect(enum ts_option option);

/**
 * The one of @candidates nearest to @word by edit distance, or NULL when none is near enough
 * to be a typing mistake: up to a third of the letters, or one, behind what @word and all of
 * them begin with ("TSSHIM_", "--").  @candidates ends with NULL.
 */
const char *ts_config_nearest(const char *word, const char *const *candidates);

/** The word of @order as an option takes it; NULL where it is none, as of a newer version. */
const char *ts_order_word(uint64_t order);

/** This process's settings; loaded once by the constructor, constant afterwards. */
const struct ts_config *ts_config(void);

/**
 * From now on @place holds for this process.  Before there is a second thread.
 */
void ts_config_set_line(const struct ts_line_place *place);

#endif
