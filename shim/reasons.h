/* SPDX-License-Identifier: MIT */
/* Every reason for which a piece of work was not shared: id, what to tell the user, what helps.
 */
#ifndef TS_SHIM_REASONS_H
#define TS_SHIM_REASONS_H

#include <stdbool.h>

/* What helps against a reason that costs nothing: part of what is shared, or done on purpose.
 */
#define TS_NOT_LOST ((const char *)0)

/*
 * One row per reason, in the order of the counters in shared memory (append only: the
 * position is part of the ABI of the ledger).  The id is what `tsrun stats --json` prints
 * and docs/reasons.md explains; a test compares the two lists.  What helps is there in short,
 * too: "" where nothing is needed or nothing can be done, TS_NOT_LOST where none was lost.
 *
 *	 enumerator          id                       one line for people, what helps
 */
#define TS_REASONS(X)                                                                         \
	X(ALONE, "alone", "no other job was asking for this data when it was made",           \
		"run jobs with this data at the same time, all with --align and one --group") \
	X(DISABLED, "disabled",                                                               \
		"sharing is switched off (TSSHIM_DISABLE, --share off or a ring of size 0)",  \
		"unset TSSHIM_SHARE, and give --ring a size")                                 \
	X(NO_STORE, "no_store", "the shared memory of the group could not be used",           \
		"`tsrun doctor` looks for what is in the way")                                \
	X(STORE_FOREIGN, "store_foreign",                                                     \
		"shared memory of that name belongs to somebody else",                        \
		"have what lies there removed, or use another --group")                       \
	X(STORE_ABI, "store_abi", "shared memory was made by another version of tsshim",      \
		"one version for all jobs of a group, or another --group")                    \
	X(STORE_DAMAGED, "store_damaged", "shared memory is damaged; `tsrun gc` removes it",  \
		"`tsrun gc`")                                                                 \
	X(STORE_SCOPE, "store_scope", "shared memory is of another boot or namespace",        \
		"`tsrun gc`")                                                                 \
	X(NO_SPACE, "no_space",                                                               \
		"not enough shared memory (/dev/shm, memory limit, RLIMIT_AS)",               \
		"a larger /dev/shm or memory limit; `tsrun doctor` says which")               \
	X(NO_MEMBER, "no_member", "too many processes share this group",                      \
		"distribute the jobs over several values of --group")                         \
	X(NO_SEGMENT, "no_segment", "every segment of the ring is in use", "a larger --ring") \
	X(NO_LEASE, "no_lease", "too many threads of this process use the ring at once",      \
		"decode in several processes instead of many threads")                        \
	X(TOO_LARGE, "too_large", "the result is larger than a segment of the ring",          \
		"a larger --ring, which has larger segments")                                 \
	X(DIRECTORY_BUSY, "directory_busy", "no free place in the directory of the ring",     \
		"a larger --ring")                                                            \
	X(TIMEOUT, "timeout", "another process was too slow; the work was done here as well", \
		"look for stopped jobs, or for more running processes than cores")            \
	X(DATASET_OFF, "dataset_off", "verification found a difference; the dataset is off",  \
		"please report it; `tsrun gc` when all jobs have ended")                      \
	X(VERIFY, "verify", "done again on purpose to check a shared result", TS_NOT_LOST)    \
	X(VFORK, "vfork", "called between vfork and exec", "")                                \
	X(JPEG_ABI, "jpeg_abi", "unknown layout of the caller's libjpeg",                     \
		"use libjpeg-turbo, or a package built with it")                              \
	X(JPEG_UNBOUND, "jpeg_unbound", "the caller's libjpeg could not be found",            \
		"run with TSSHIM_DEBUG=info, and report the program")                         \
	X(JPEG_SLOTS, "jpeg_slots", "too many decoders open at once in this process",         \
		"destroy decoders that are not used any more")                                \
	X(JPEG_FIELDS, "jpeg_fields",                                                         \
		"unusual decoder settings (quantised, buffered, raw, ...)", "")               \
	X(JPEG_COEFFICIENTS, "jpeg_coefficients", "coefficients were read instead of pixels", \
		"")                                                                           \
	X(JPEG_CALLBACKS, "jpeg_callbacks", "progress monitor, marker processor or tracing",  \
		"switch these off where possible")                                            \
	X(JPEG_SOURCE, "jpeg_source",                                                         \
		"the data source skipped or moved data in an unknown way",                    \
		"use one of libjpeg's own sources")                                           \
	X(JPEG_WARNING, "jpeg_warning", "the stream is damaged or truncated",                 \
		"repair or remove the damaged files")                                         \
	X(JPEG_PARTIAL, "jpeg_partial", "not all rows were read", "")                         \
	X(JPEG_DIFFERENT, "jpeg_different", "another stream begins with the same bytes", "")  \
	X(JPEG_FEED, "jpeg_feed", "the stream arrives in other pieces than it did before",    \
		"use the same reading code in all jobs")                                      \
	X(JPEG_CHANGED, "jpeg_changed", "the stream changed while it was decoded",            \
		"write a new file and rename it, not in place")                               \
	X(JPEG_PRECISION, "jpeg_precision", "12 or 16 bit samples or lossless JPEG", "")      \
	X(JPEG_SMALL, "jpeg_small", "decoding costs less than sharing would", "")             \
	X(JPEG_CALLS, "jpeg_calls", "a call that only the real library can answer", "")       \
	X(TURBO_FIELDS, "turbo_fields", "TurboJPEG call with unusual flags or pitch",         \
		"decode into a dense buffer with the usual flags")                            \
	X(MEMORY, "memory", "no private memory left", "more memory, or a higher RLIMIT_AS")   \
	X(TORCH_DATASET, "torch_dataset",                                                     \
		"the dataset contains something whose equality cannot be proven",             \
		"--align, or --share samples if a sample follows from index and seeds alone") \
	X(TORCH_SAMPLE, "torch_sample",                                                       \
		"a sample holds what cannot be shared (set, gradient, one thing twice, ...)", \
		"return tensors, arrays, images, numbers, and lists or dictionaries of them") \
	X(TORCH_ITERABLE, "torch_iterable",                                                   \
		"an iteration that others cannot share: of a DataPipe, or in the trainer",    \
		"--align, and a loader with workers")                                         \
	X(TORCH_INDEX, "torch_index", "an index that is no number or plain tuple",            \
		"let the sampler yield integers")                                             \
	X(TORCH_INPUTS, "torch_inputs",                                                       \
		"a file was opened in an unusual way while the sample was made",              \
		"open data files for reading, by open() or a library that does")              \
	X(TORCH_YOUNG, "torch_young",                                                         \
		"an input file was changed just before or while it was read",                 \
		"it passes within a minute; if it stays, look for what writes to the data")   \
	X(TORCH_CHANGED, "torch_changed",                                                     \
		"an input file of a shared sample is not the same here",                      \
		"compare the paths that the jobs were given")                                 \
	X(TORCH_GETITEMS, "torch_getitems",                                                   \
		"the dataset fetches whole batches itself (__getitems__)",                    \
		"--align, and fill up in the collate function")                               \
	X(TORCH_CHEAP, "torch_cheap", "preparing a sample costs less than sharing it", "")    \
	X(TORCH_SETTINGS, "torch_settings",                                                   \
		"the Python part failed; the work was done without it",                       \
		"please report it; TSSHIM_DEBUG=debug prints the errors")                     \
	X(TORCH_ISOLATED, "torch_isolated",                                                   \
		"Python was started with -I, -E or -S and ignores PYTHONPATH",                \
		"start Python without -I, -E and -S")                                         \
	X(NESTED, "nested", "part of a sample that is shared as a whole", TS_NOT_LOST)        \
	X(TORCH_IMPURE, "torch_impure",                                                       \
		"a sample drew from a generator that its code was not known to use",          \
		"please report it, with the dataset and its transforms")                      \
	X(STAGE_YOUNG, "stage_young", "a file was changed just before it was opened",         \
		"it passes within a minute; if it stays, look for what writes to the data")   \
	X(STAGE_LARGE, "stage_large", "a file is too large to be copied when it is opened",   \
		"")                                                                           \
	X(STAGE_FULL, "stage_full", "there is no room for more copies of files",              \
		"more memory, a larger --stage-size, or --stage DIR on a local disk")         \
	X(STAGE_BUSY, "stage_busy", "another process took too long to copy a file", "")       \
	X(STAGE_CHANGED, "stage_changed", "a file changed while it was copied or opened",     \
		"look for what writes to the data")                                           \
	X(STAGE_FAILED, "stage_failed", "a copy of a file could not be made or opened",       \
		"`tsrun gc`; look at the limits of open files and of memory")                 \
	X(STAGE_LOCKS, "stage_locks", "the program locks files of the data set",              \
		"open files that nobody writes without locks (LMDB: lock=False)")             \
	X(STAGE_ORIGINAL, "stage_original",                                                   \
		"a program did with an open file what only the original can do",              \
		"HDF5_USE_FILE_LOCKING=FALSE for HDF5 files that nobody writes")              \
	X(COPY_SMALL, "copy_small", "a copy to a GPU of less than 256 KiB", "")               \
	X(COPY_KIND, "copy_kind",                                                             \
		"a copy that is not one from plain memory to memory of a GPU", "")            \
	X(COPY_PINNED, "copy_pinned", "a copy to a GPU from memory that is pinned",           \
		"leave batches to torch's own default_collate, on Linux 6.7 or newer")        \
	X(COPY_STATE, "copy_state",                                                           \
		"a copy to a GPU while its stream or context is in an unusual state", "")     \
	X(COPY_COST, "copy_cost", "looking for a copy to a GPU costs more than it saves", "") \
	X(TORCH_VERSIONS, "torch_versions",                                                   \
		"own code with a Python or library version that the check was not made for",  \
		"--align, or --share samples if a sample follows from index and seeds alone") \
	X(TORCH_AGAIN, "torch_again",                                                         \
		"made a second time: for a check, or to come to where others had been",       \
		TS_NOT_LOST)                                                                  \
	X(TORCH_LOCALITY, "torch_locality",                                                   \
		"--locality left an epoch to the ranks as their sampler gave it",             \
		"`tsrun --locality` on every rank, DistributedSampler, no --align")           \
	X(ACROSS_ALONE, "across_alone",                                                       \
		"made alone: --across had no answer in time, or nobody to ask",               \
		"`tsrun cluster status`")                                                     \
	X(ACROSS_SLOW, "across_slow",                                                         \
		"made alone: --across has taken longer lately than to make samples",          \
		"a faster network; or leave out --across")                                    \
	X(ACROSS_UNUSED, "across_unused",                                                     \
		"made alone: what --across handed over lately was taken by nobody",           \
		"start the jobs of all together, with the same libraries and data")           \
	X(TORCH_WALK, "torch_walk",                                                           \
		"the dataset leads to more code of the program's own than can be looked at",  \
		"install libraries with pip, not by PYTHONPATH or as editable ones")          \
	X(TORCH_LEFT, "torch_left",                                                           \
		"an iteration changes its dataset, which a worker keeps for the next one",    \
		"persistent_workers=False, or keep in the dataset nothing that items change") \
	X(STAGE_WRITTEN, "stage_written",                                                     \
		"a job opened a file of the data set for writing: no known paths for it",     \
		"let jobs write elsewhere, or leave out --stage-metadata")

/*
 * What helps a job with --align, where that is something else: --align is no advice to it, and
 * --share samples vouches for data sets of jobs without it.
 */
#define TS_REASONS_ALIGNED(X)                                                                 \
	X(ALONE, "run jobs with this data at the same time, all with one --group")            \
	X(TORCH_DATASET, "keep what is named out of the data set (`tsrun explain` names it)") \
	X(TORCH_ITERABLE, "a loader with workers")                                            \
	X(TORCH_GETITEMS, "fill up in the collate function")                                  \
	X(TORCH_VERSIONS, "")

enum ts_reason {
#define TS_X(name, id, text, fix) TS_REASON_##name,
	TS_REASONS(TS_X)
#undef TS_X
		TS_REASON_COUNT
};

/* Counters reserved for reasons in shared memory. */
#define TS_REASON_SLOTS 96

_Static_assert(TS_REASON_COUNT <= TS_REASON_SLOTS, "the ledger has room for 96 reasons");

/** A row of TS_REASONS; @fix may be "" or TS_NOT_LOST. */
struct ts_reason_row {
	const char *id, *text, *fix;
};

/** All of them, by enum ts_reason; constant. */
extern const struct ts_reason_row ts_reasons[TS_REASON_COUNT];

/** What helps against @reason, in a job that is @aligned or not; "" where nothing does.  Any.
 */
const char *ts_reason_fix(enum ts_reason reason, bool aligned);

/** What a reason is counted for. */
enum ts_reason_about {
	TS_ABOUT_ANY,
	TS_ABOUT_SAMPLES,
	TS_ABOUT_IMAGES,
	TS_ABOUT_FILES,
	TS_ABOUT_COPIES,
	TS_ABOUT_PROCESS, /* once for all that a process does */
};

/** What @reason is counted for, as its id begins.  Threads, fork and signals: any. */
enum ts_reason_about ts_reason_about(enum ts_reason reason);

/** Whether @reason means that a sample cannot be published as it is.  Any, as above. */
bool ts_reason_is_refusal(enum ts_reason reason);

/**
 * The reason with that @id; TS_REASON_COUNT where there is none.
 * Threads, fork and signals: any; neither allocates nor locks.
 */
enum ts_reason ts_reason_find(const char *id);

#endif
