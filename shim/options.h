/* SPDX-License-Identifier: MIT */
/*
 * Every setting, in one table: environment variable, `tsrun` option, kind of value, default.
 * Parsing (shim and tsrun), --help, completions, the man page test and the "did you mean"
 * hints derive from it.
 *
 * TSSHIM_TEST_* names exist in the test build only and are not listed.
 */
#ifndef TS_SHIM_OPTIONS_H
#define TS_SHIM_OPTIONS_H

/*
 *	 enumerator  environment        option       kind     default    help
 */
#define TS_OPTIONS(X)                                                                \
	X(DISABLE, "TSSHIM_DISABLE", "", BOOL, "0", "1 switches everything off")     \
	X(GROUP, "TSSHIM_GROUP", "--group", NAME, "default",                         \
		"who shares: jobs of a user and node with one")                      \
	X(DATASET, "TSSHIM_DATASET", "--dataset", DATASET, "default",                \
		"label for statistics, NAME or NAME=DIR")                            \
	X(SHARE, "TSSHIM_SHARE", "--share", SHARE, "auto",                           \
		"what: samples where exact, pixels, off or auto")                    \
	X(ALIGN, "TSSHIM_ALIGN", "--align", SEED, "off",                             \
		"order and augmentation of all jobs from SEED (0)")                  \
	X(ALIGN_ORDERS, "TSSHIM_ALIGN_ORDERS", "--align-orders", BOOL, "0",          \
		"and orders of samplers that have a seed of their own")              \
	X(IGNORE, "TSSHIM_IGNORE", "--ignore", NAMES, "off",                         \
		"options that decide no sample (lr,seed)")                           \
	X(EPOCH, "TSSHIM_EPOCH", "--epoch", EPOCH, "0",                              \
		"first epoch of a job resumed with --align")                         \
	X(ORDER, "TSSHIM_ORDER", "--order", ORDER, "strict",                         \
		"strict, or free to take what others made first")                    \
	X(RECORD, "TSSHIM_RECORD", "--record", FILE, "off",                          \
		"write down what a free order delivers")                             \
	X(REPLAY, "TSSHIM_REPLAY", "--replay", FILE, "off",                          \
		"deliver what such a FILE has, free behind it")                      \
	X(RING, "TSSHIM_RING", "--ring", SIZE, "2G",                                 \
		"most shared memory (K, M, G, T; 0 shares nothing)")                 \
	X(KEEP, "TSSHIM_KEEP", "--keep", TIME, "0",                                  \
		"fill it when alone, keep it so long (10min, 2h, 1d)")               \
	X(STAGE, "TSSHIM_STAGE", "--stage", STAGE, "off",                            \
		"copy --dataset's files here: auto, shm, DIR or off")                \
	X(STAGE_SIZE, "TSSHIM_STAGE_SIZE", "--stage-size", SIZE, "16G",              \
		"most room for copies (K, M, G, T; 0 makes none)")                   \
	X(STAGE_METADATA, "TSSHIM_STAGE_METADATA", "--stage-metadata", SECONDS, "0", \
		"seconds in which no path of DIR is asked for again")                \
	X(CLUSTER, "TSSHIM_CLUSTER", "--cluster", DIR, "off",                        \
		"get staged files from the other nodes of DIR")                      \
	X(ACROSS, "TSSHIM_ACROSS", "--across", ACROSS, "off",                        \
		"nodes: aligned samples from other nodes, too")                      \
	X(LOCALITY, "TSSHIM_LOCALITY", "--locality", BOOL, "0",                      \
		"ranks share out each batch by what their nodes hold")               \
	X(COPIES, "TSSHIM_COPIES", "--copies", COPIES, "off",                        \
		"copies to a GPU: auto or off (not tried on a GPU)")                 \
	X(VERIFY, "TSSHIM_VERIFY", "--verify", PERCENT, "0.1",                       \
		"per cent of shared results to compute again")                       \
	X(EVENTS, "TSSHIM_EVENTS", "--events", EVENTS, "off",                        \
		"log what the group does (off; FILE: its own one)")                  \
	X(SUMMARY, "TSSHIM_SUMMARY", "--summary", SUMMARY, "0",                      \
		"print what was shared when the job ends")                           \
	X(QUIET, "TSSHIM_QUIET", "", BOOL, "0", "1: no line when a job ends")        \
	X(DEBUG, "TSSHIM_DEBUG", "", LEVEL, "warn", "error, warn, info or debug, on stderr")

enum ts_option {
#define TS_X(name, env, option, kind, standard, help) TS_OPTION_##name,
	TS_OPTIONS(TS_X)
#undef TS_X
		TS_OPTION_COUNT
};

#endif
