/* SPDX-License-Identifier: MIT */
/*
 * Whole samples: what the Python glue (hooks/torch/python) calls through ctypes.
 *
 * The life of one sample, driven by the glue, one struct at a time per thread:
 *
 *	name -> take -+-> HIT    read meta and payload, copy out -> taken | verified | drop
 *	              +-> CLAIM  begin, compute the item, end -> reserve, fill -> publish | drop
 *	              +-> BUSY   do something else, name and take again, at last with a wait
 *	              +-> PASS   begin, compute the item, end
 *
 * A record holds which files the producer opened (leader/inputs/opens.h), the structure of the
 * sample (meta, in the glue's own encoding), and the bytes of its large leaves (payload).
 * The key names everything the sample is a function of; who computes it does not matter.
 *
 * Fork: a child must not go on with its parent's struct; every function notices and does
 * nothing (a take in the child starts anew).  Threads: each needs a struct of its own.
 * Nothing here is async-signal-safe.
 */
#ifndef TS_HOOKS_TORCH_SAMPLES_H
#define TS_HOOKS_TORCH_SAMPLES_H

#include "hooks/torch/numbers.h"
#include "shim/base.h"

/** What the glue may read; its order is the ABI between samples.c and native.py. */
struct ts_sample_view {
	const void *meta; /* of a hit; 64-byte aligned payload behind it */
	uint64_t meta_bytes;
	const void *payload;
	uint64_t payload_bytes;
	uint64_t torch_seed;  /* for this item, 63 bits; the same for whoever computes it */
	uint64_t python_seed; /* 64 bits */
	uint32_t numpy_seed;
	uint32_t verify; /* this hit is to be computed again and compared */
	/* What the bytes of the record are known by, of a hit, or after publish(): where these
	 * are equal in two jobs of a group, so are they.  The first is 0 where there is none.
	 */
	uint64_t origin[2];
	/* The list of the files that it was made from, of a hit, or after the end() of a
	 * watched item; NULL: that item is not a function of files that can be told.
	 */
	const void *inputs;
	uint64_t input_bytes;
	uint64_t is_alone; /* after a take(): nobody else asks for samples of this data set */
	/* After an end(): why the files of the item keep it from others, as text for people; ""
	 * where they do not.
	 */
	const char *unfit;
};

/** Begins with its struct ts_sample_view. */
struct ts_sample;

/** What the glue reads of @sample; as of the last call with it. */
static inline const struct ts_sample_view *ts_sample_view(const struct ts_sample *sample)
{
	return (const struct ts_sample_view *)(const void *)sample;
}

/** Version of this interface; the glue does nothing when it expects another one. */
TS_EXPORT uint32_t tsshim_sample_abi(void);

/** Settings of this process that the glue needs.  Seed, epoch and whether the order is free
 * mean nothing unless aligned. */
TS_EXPORT void tsshim_sample_settings(uint32_t *ret_aligned, uint64_t *ret_seed,
	uint64_t *ret_epoch, uint32_t *ret_share, uint32_t *ret_free, uint32_t *ret_across);

/** A struct for one thread, from malloc(), never freed by us; NULL when there is no memory. */
TS_EXPORT struct ts_sample *tsshim_sample_create(void);
TS_EXPORT void tsshim_sample_destroy(struct ts_sample *sample);

/**
 * Say which sample is meant.  @scope (16 bytes) stands for the data set, code, environment and
 * generator rule; @stream (16 bytes) for what the item's generators are derived from;
 * @index (@index_bytes bytes) for the index with its type; @occurrence for how often this
 * index came before in the epoch.  @drawn: @scope holds the state of a job's generators, so
 * that only jobs of equal seeds have use for it.  Ends whatever the struct held.
 */
TS_EXPORT void tsshim_sample_name(struct ts_sample *sample, const void *scope,
	const void *stream, const void *index, uint64_t index_bytes, uint32_t occurrence,
	int drawn);

/**
 * The record that was named last is a chunk, of @whole samples: all that is counted from now on
 * is counted for @part of them.
 */
TS_EXPORT void tsshim_sample_weigh(struct ts_sample *sample, uint32_t part, uint32_t whole);

/**
 * The sample that was named last is number @index of those of @tag, which is not 0, made for
 * @draw by a job that is at @epoch: once it is made, that is noted (leader/journal/journal.h).
 */
TS_EXPORT void tsshim_sample_note(
	struct ts_sample *sample, uint64_t tag, uint32_t index, uint32_t draw, uint32_t epoch);

/** How long tsshim_sample_take() waits for a sample that is busy. */
enum {
	TS_SAMPLE_NOW,    /* not at all */
	TS_SAMPLE_WAIT,   /* until the deadline of ts_store_wait(); it is not busy after that */
	TS_SAMPLE_MOMENT, /* as ts_store_wait_a_moment(); it may be busy still */
	TS_SAMPLE_STAY,   /* the same without a deadline: nobody's claim is taken over */
};

/** 0 hit, 1 claim, 2 busy, 3 pass (counted). */
TS_EXPORT int tsshim_sample_take(struct ts_sample *sample, int wait);

/** The hit was used: count it, end the lease. */
TS_EXPORT void tsshim_sample_taken(struct ts_sample *sample);

/** The hit was computed again, with this outcome; ends the lease. */
TS_EXPORT void tsshim_sample_verified(struct ts_sample *sample, int equal);

/** Give back whatever is held, uncounted: a lease, a claim, a reservation. */
TS_EXPORT void tsshim_sample_drop(struct ts_sample *sample);

/** How an item is computed, several together: */
enum {
	TS_SAMPLE_NEST = 1,  /* decodes inside are not shared for themselves */
	TS_SAMPLE_WATCH = 2, /* its files are to be told, also where nothing is claimed */
	TS_SAMPLE_AGAIN = 4, /* it was delivered, or is so without this: counted apart */
	TS_SAMPLE_AHEAD = 8, /* for a batch of this process's to come, which will take it: made
				once it is published, and not taken from others then */
};

/** What came of it. */
enum {
	TS_SAMPLE_MADE,
	TS_SAMPLE_RAISED,  /* an exception */
	TS_SAMPLE_NOTHING, /* no item is there any more, which may be published but is not
			      counted */
};

/**
 * The item is computed between these two, by this thread, @how it is done.  While a claim is
 * held, and always under --align, files are observed (docs/rooms/torch.md). end() returns 0, or
 * -ECANCELED when the result must not be published (counted, the claim is given back); it is to
 * be called in any case, also when the item raised an exception.
 */
TS_EXPORT void tsshim_sample_begin(struct ts_sample *sample, int how);
TS_EXPORT int tsshim_sample_end(struct ts_sample *sample, int outcome);

/**
 * Ring memory for a record with @meta and @payload_bytes of payload, which is 64-byte
 * aligned; NULL when there is none, and the claim is given back.
 */
TS_EXPORT void *tsshim_sample_reserve(struct ts_sample *sample, const void *meta,
	uint64_t meta_bytes, uint64_t payload_bytes);

/** The payload is complete: make the record visible, and its origin known.  Ends the claim. */
TS_EXPORT void tsshim_sample_publish(struct ts_sample *sample);

/**
 * Count @count samples that were not shared, by the id of the reason; unknown ids do nothing.
 * Joins the store, so that the counts are kept.
 */
TS_EXPORT void tsshim_sample_pass(const char *reason, uint32_t count);

/**
 * Count samples that --align would share with any other job that has the same data set, for
 * which the 16 bytes of @identity stand: so many were delivered, of these some computed here.
 */
TS_EXPORT void tsshim_sample_drawn(const void *identity, uint64_t computed, uint64_t delivered);

/**
 * Between these two what this thread opens is none of the files of an item that it makes: for
 * what is ours in the middle of one.  The second is given what the first gives.
 */
TS_EXPORT void *tsshim_sample_pause(void);
TS_EXPORT void tsshim_sample_resume(void *paused);

/** Whether an item of this process, observed as above, ever opened a relative name. */
TS_EXPORT int tsshim_sample_relative(void);

/**
 * This job was given @done of @count batches (0: not known) of an @epoch of the data set and
 * loader for which the 16 bytes of @identity stand.  Joins the store.
 */
TS_EXPORT void tsshim_sample_progress(
	const void *identity, uint64_t epoch, uint64_t done, uint64_t count, int is_free);

/**
 * @text says what keeps samples of a data set of this job from being shared, for `tsrun stats`,
 * which tells the first of these.  Joins the store.
 */
TS_EXPORT void tsshim_sample_refused(const char *text);

/** 128-bit hash of @bytes of memory, into 16 bytes. */
TS_EXPORT void tsshim_sample_hash(const void *data, uint64_t bytes, void *ret_digest);

/** Whether each of @count words, at the addresses @at, has its value of @values; now it has. */
TS_EXPORT bool tsshim_sample_are_words(
	const uint64_t *const *at, uint64_t *values, uint64_t count);

/* ---- batches --------------------------------------------------------------------------- */

/*
 * A batch of samples taken in one call: what the calls above do one by one, for the common case
 * of whole-number indices and samples that all look alike.
 *
 * The glue says what a record must look like (its meta begins with @head, its payload has
 * @payload_bytes) and where its leaves go.  Such records are copied there and counted; at
 * the first sample that wants more than a copy the call returns, with whatever
 * tsshim_sample_take() would have left in the struct for it: the claim of one to be made,
 * the lease of one that looks different or is to be verified.
 *
 * The arrays are the caller's, and unchanged by others
 * while a call runs.  Errors: none of its own; what cannot be taken is reported per sample.
 */

/** What became of a sample; the first four are what tsshim_sample_take() answers. */
enum ts_sample_state {
	TS_SAMPLE_TAKEN,   /* copied, counted */
	TS_SAMPLE_CLAIMED, /* held: to be made here */
	TS_SAMPLE_BUSY,    /* in the making elsewhere */
	TS_SAMPLE_PASSED,  /* not to be had, counted; to be made for this job alone */
	TS_SAMPLE_ODD,     /* held: there, but not for a mere copy */
	TS_SAMPLE_UNSEEN   /* not looked at yet */
};

/** Where a leaf goes: @bytes from @offset in the payload to @base + position * @bytes. */
struct ts_sample_leaf {
	uint64_t offset;
	uint64_t bytes;
	unsigned char *base;
};

/**
 * Copy @bytes, one of the things that make up @all bytes that are read one after the other:
 * past the caches where they would not hold all of it (shim/stream.h).
 */
TS_EXPORT void tsshim_sample_copy(void *to, const void *from, uint64_t bytes, uint64_t all);

/** Its order is the ABI between samples.c and fetch.py. */
struct ts_sample_batch {
	const void *scope, *stream; /* as in tsshim_sample_name(), one behind the other... */
	const uint8_t *which;       /* ...which of them each one has; NULL: all the first */
	const uint32_t *draws;      /* for each scope, as in tsshim_sample_note() */
	uint64_t tag;               /* 0: nothing is noted */
	uint32_t epoch, reserved;
	const int64_t *indices;      /* named with their type */
	const uint32_t *occurrences; /* NULL: all 0 */
	uint64_t count;
	uint8_t *states; /* enum ts_sample_state of each */
	const void *head;
	uint64_t head_bytes;
	uint64_t payload_bytes;
	const struct ts_sample_leaf *leaves;
	uint64_t leaf_count;
	unsigned char *metas; /* of those taken, @meta_room bytes for each */
	uint32_t *meta_bytes;
	uint64_t meta_room;
	uint64_t (*origins)[2]; /* those of struct ts_sample_view of those taken; NULL: not
				   asked */
};

/**
 * Take from position @from on those that are UNSEEN or BUSY.  Returns the position of the first
 * that is CLAIMED, PASSED or ODD, with @patient == 0 also of the first that is BUSY; @count
 * when there is none.
 */
TS_EXPORT uint64_t tsshim_sample_take_batch(struct ts_sample *sample,
	const struct ts_sample_batch *batch, uint64_t from, int patient);

/**
 * For a batch that is not this one's turn yet: the first position from @from on whose right to
 * make it was got, as after tsshim_sample_take(); @count when there is none, or when samples
 * pass.  Only the names of @batch are used.
 */
TS_EXPORT uint64_t tsshim_sample_claim_batch(
	struct ts_sample *sample, const struct ts_sample_batch *batch, uint64_t from);

/* ---- items that go to nobody else ---------------------------------------------------- */

/*
 * Items that go to nobody but this job: those of data sets whose items cost next to nothing,
 * and those of a job that is alone.
 *
 * They are not asked for, not written into the ring, and have no key; only their seeds are the
 * sample's.  Whatever is done for such an item costs this job, so it is one call for each, and
 * one more at both ends of a stretch of them:
 *
 *	begin -> next, compute the item -> next, compute the item -> ... -> end
 */

/** Its order is the ABI between samples.c and native.py. */
struct ts_sample_lone {
	struct ts_sample *sample;
	/* Its indices, occurrences and streams, and what a note of each says; no scopes. */
	const struct ts_sample_batch *batch;
	const struct ts_generator *globals; /* as in tsshim_sample_seed_globals() */
	uint64_t position;                  /* in the batch, of the item that comes next */
	uint64_t still;                     /* items in a row that drew nothing from them */
	uint64_t
		is_seeded; /* they are as they were seeded for the item before, or left by it */
};

/** A stretch of items begins: what they open is looked at as that of others. */
TS_EXPORT void tsshim_sample_lone_begin(struct ts_sample_lone *lone);

/**
 * The item before, if any, was made; the next one is about to be: seed the global generators
 * for it, and let the view of the sample have its seeds.
 */
TS_EXPORT void tsshim_sample_lone_next(struct ts_sample_lone *lone);

/**
 * The stretch is over, in which @count items were begun; the last of them @raised an exception
 * or not.  They are counted, as having been passed for @reason, an id of shim/reasons.def.
 */
TS_EXPORT void tsshim_sample_lone_end(
	struct ts_sample_lone *lone, uint64_t count, int raised, const char *reason);

/* ---- samples between nodes (--across nodes) ---------------------------------------------- */

/*
 * The process that has the claim of an aligned sample asks the other nodes for it before it
 * makes the sample (leader/mail/mail.h, leader/peer/transfer.h).
 *
 *	take  -> CLAIM
 *	seek  -> asked      found, until it is not BUSY any more
 *	      -> not asked  make it
 *	found -> HIT        it came, its files are the same here, and it is in the ring now
 *	      -> CLAIM      make it.  If no node has it, this job makes it for all of them: it
 *	                    hands over what it publishes, and gives back what it does not
 *	      -> BUSY       another node makes it, or the answer is on its way
 *	      -> PASS       work alone; the claim is gone
 *
 * The key of the ring is the name on all nodes (fingerprint/handles.py leaves the numbers of
 * devices out of it).  A record differs between nodes in the devices of its files.  Everything
 * else is compared, and they become those of this node, so that a taker here compares all.  A
 * claim may pass to another process of the node meanwhile, which then asks as well.
 */

/**
 * Whether other nodes are to be asked for what is claimed with @sample from now on; while they
 * are, what is asked for is also made for them.  Joins the store, and starts the helper where
 * there is none; waits for it once in a process, a quarter of a second at most.
 */
TS_EXPORT int tsshim_sample_across(struct ts_sample *sample);

/** Ask for the sample that is claimed; whether that was done. */
TS_EXPORT int tsshim_sample_seek(struct ts_sample *sample);

/** What came of it, as tsshim_sample_take() says it; waits for it @wait_us at most. */
TS_EXPORT int tsshim_sample_found(struct ts_sample *sample, uint32_t wait_us);

/* ---- loaders, for `tsrun explain` ------------------------------------------------------- */

/** What became of what was said of a loader. */
enum {
	TS_LOADER_UNSAID, /* there is no store */
	TS_LOADER_SAID,
	TS_LOADER_COUNTED, /* the job has too many: to say it again would count it again */
};

/**
 * The loader with this @key (not 0) of the job that this process works for: its @numbers and
 * @texts, in the order of leader/group/loaders.h, and whether it is shared (@verdict, of the
 * same place), by the id of the @reason ("": none) and the @detail; and the @parts of what its
 * data set is named by, @part_count struct ts_loader_part.  Joins the store; without one it is
 * said to nobody.  Returns one of the above.
 *
 * Threads: one at a time per process (the interpreter's lock is held).  Takes some
 * microseconds, the first time in a job some hundred.
 */
TS_EXPORT int tsshim_loader_say(uint32_t key, const uint64_t *numbers, const char *const *texts,
	uint32_t verdict, const char *reason, const char *detail, const void *parts,
	uint32_t part_count);

#endif
