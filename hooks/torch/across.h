/* SPDX-License-Identifier: MIT */
/*
 * Samples between nodes (--across nodes): who has the claim of an aligned sample asks the other
 * nodes for it before it is made here (leader/mail/mail.h, leader/peer/transfer.h).
 *
 *	take -> CLAIM
 *	seek -> asked       found, until it is not BUSY any more
 *	     -> not asked   make it
 *	found -> HIT    it came, its files are the same here, and it is published in the ring:
 * as after a take
 *	      -> CLAIM  make it.  Where no node has it, it is ours to make for all of them: what
 *	                is published is handed over, and what is not is given back
 *	      -> BUSY   another node makes it, or the answer is on its way
 *	      -> PASS   work alone; the claim is gone
 *
 * The key of the ring is the name on all nodes: nothing of a node is in it (under --across the
 * numbers of devices are left out of it: fingerprint/handles.py).  What differs between nodes
 * in a record are the devices of its files: everything else is compared, and they become those
 * of this node, so that who takes it here compares all.
 *
 * A claim may pass to another process of the node meanwhile, which asks as well then.
 *
 * Threads and forks as in hooks/torch/samples.h.
 */
#ifndef TS_HOOKS_TORCH_ACROSS_H
#define TS_HOOKS_TORCH_ACROSS_H

#include "hooks/torch/samples.h"

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

#endif
