/* SPDX-License-Identifier: MIT */
/*
 * Taking decoded pictures from the ring, and where aligned jobs of several nodes decode the
 * same ones (--across nodes), from other nodes: who has the claim of a picture asks them first
 * (leader/mail/errand.h).  What is a part of a sample that is shared as a whole comes with
 * that.
 *
 * The key is the name on all nodes: the stream, the settings, the code of the library, and what
 * it obeys of processor and environment.  A record has rows, digests and counters, no address
 * and nothing of a node.
 *
 * A decode has nothing else to do: it waits in the thread that decodes, as it does for another
 * job of its node.  Where that gives up, one of those who wait asks in its place.
 */
#ifndef TS_HOOKS_JPEG_ACROSS_H
#define TS_HOOKS_JPEG_ACROSS_H

#include "leader/group/session.h"
#include "leader/mail/errand.h"

/*
 * Below this many pixels decoding takes less than a millisecond, which asking may take as well;
 * and pictures whose size is not known before they are decoded, below this many bytes.
 */
#define TS_ACROSS_PIXELS       UINT64_C(65536) /* 256 x 256 */
#define TS_ACROSS_STREAM_BYTES UINT64_C(16384)

/** A picture that is about to be decoded. */
struct ts_picture {
	const struct ts_session *session;
	struct ts_key key;
	uint64_t bytes;       /* by which its cost is counted (ts_session_learn_cost()) */
	bool is_worth_asking; /* for, where other nodes are asked */
	/* Whether the record at @record, which another node has made, may be this picture's. */
	bool (*fits)(const void *record, uint64_t bytes, const void *context);
	const void *context;
};

/**
 * Ask for @picture here, as ts_session_take_pixels() and ts_store_wait(), and where it is
 * claimed of other nodes.  TS_CLAIM: to be decoded; with it *errand, the caller's from now on,
 * may be WON: who publishes the record then says ts_errand_made(), and in all other cases
 * ts_errand_drop().  Nobody is asked with any other verdict.
 *
 * Waits a second at most for other nodes.  Threads: any.  Not async-signal-safe.
 */
void ts_across_take(
	const struct ts_picture *picture, struct ts_errand *errand, struct ts_take *ret_take);

#endif
