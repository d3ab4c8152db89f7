/* SPDX-License-Identifier: MIT */
/* Captures and the graphs they end in; inside the stand-in only. */
#ifndef TS_TESTS_FAKECUDA_CAPTURE_H
#define TS_TESTS_FAKECUDA_CAPTURE_H

#include "driver.h"

/* Recorded operations, shared by a graph and what was instantiated from it. */
struct fake_nodes;

/** One reference is the caller's. */
struct fake_nodes *fake_nodes_new(void);
/** Append; takes the operation over. */
void fake_nodes_add(struct fake_nodes *nodes, struct fake_op *op);
void fake_nodes_release_locked(struct fake_nodes *nodes);
/** Takes the reference over. */
CUgraph fake_graph_new(struct fake_nodes *nodes);

#endif
