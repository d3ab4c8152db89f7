/* SPDX-License-Identifier: MIT */
/* Graphs, as far as captures make them: a launch enqueues what was recorded once more. */
#include "capture.h"

#include <stdlib.h>

#define GRAPH_MAGIC 0x47524148u
#define EXEC_MAGIC  0x45584543u

struct fake_nodes {
	unsigned refs;
	struct fake_op *first, **last;
};

struct CUgraph_st {
	unsigned magic;
	struct fake_nodes *nodes;
};

struct CUgraphExec_st {
	unsigned magic;
	struct fake_nodes *nodes;
};

struct fake_nodes *fake_nodes_new(void)
{
	struct fake_nodes *nodes = fake_alloc(sizeof(*nodes));
	nodes->refs = 1;
	nodes->last = &nodes->first;
	return nodes;
}

void fake_nodes_add(struct fake_nodes *nodes, struct fake_op *op)
{
	*nodes->last = op;
	nodes->last = &op->next;
}

void fake_nodes_release_locked(struct fake_nodes *nodes)
{
	struct fake_op *next;
	if (--nodes->refs > 0)
		return;
	for (struct fake_op *op = nodes->first; op; op = next) {
		next = op->next;
		fake_op_free_locked(op);
	}
	free(nodes);
}

CUgraph fake_graph_new(struct fake_nodes *nodes)
{
	CUgraph graph = fake_alloc(sizeof(*graph));
	graph->magic = GRAPH_MAGIC;
	graph->nodes = nodes;
	return graph;
}

CUresult do_cuGraphDestroy(CUgraph graph)
{
	if (!graph || graph->magic != GRAPH_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&fake_lock);
	fake_nodes_release_locked(graph->nodes);
	pthread_mutex_unlock(&fake_lock);
	graph->magic = 0;
	free(graph);
	return CUDA_SUCCESS;
}

CUresult do_cuGraphInstantiateWithFlags(
	CUgraphExec *exec, CUgraph graph, unsigned long long flags)
{
	if (!exec || !graph || graph->magic != GRAPH_MAGIC || flags > 15)
		return CUDA_ERROR_INVALID_VALUE;
	*exec = fake_alloc(sizeof(**exec));
	(*exec)->magic = EXEC_MAGIC;
	(*exec)->nodes = graph->nodes;
	pthread_mutex_lock(&fake_lock);
	graph->nodes->refs++;
	pthread_mutex_unlock(&fake_lock);
	return CUDA_SUCCESS;
}

CUresult do_cuGraphExecDestroy(CUgraphExec exec)
{
	if (!exec || exec->magic != EXEC_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&fake_lock);
	fake_nodes_release_locked(exec->nodes);
	pthread_mutex_unlock(&fake_lock);
	exec->magic = 0;
	free(exec);
	return CUDA_SUCCESS;
}

/* A recorded operation has no event, no staging and waits for nothing. */
static struct fake_op *again(const struct fake_op *node)
{
	struct fake_op *op = fake_op_new(node->kind);
	*op = *node;
	op->next = NULL;
	if (op->dst.memory)
		op->dst.memory->refs++;
	if (op->src.memory)
		op->src.memory->refs++;
	return op;
}

CUresult do_cuGraphLaunch(CUgraphExec exec, CUstream stream)
{
	if (!exec || exec->magic != EXEC_MAGIC)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&fake_lock);
	CUresult r = fake_stream_find_locked(stream, &stream);
	struct fake_op *node = r == CUDA_SUCCESS ? exec->nodes->first : NULL;
	for (; node && r == CUDA_SUCCESS; node = node->next)
		r = fake_submit_locked(stream, again(node));
	if (r == CUDA_SUCCESS)
		fake_count(FAKE_GRAPH_LAUNCHES, 1);
	pthread_mutex_unlock(&fake_lock);
	return r;
}
