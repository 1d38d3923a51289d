/* Dominators: semi-NCA over a depth-first tree, without recursion.
 * SPDX-License-Identifier: MIT */
#include "indexer/graph/graph.h"

#include <inttypes.h>

#include "indexer/graph/bitmap.h"

/* Loukas Georgiadis, "Linear-Time Algorithms for Dominators and Related
 * Problems", Princeton 2005, section 2.2 (SEMI-NCA).
 *
 * All work is done in numbers of the depth-first preorder: 0 is the virtual
 * root, the nodes of the run are 1, 2, ... in the order they are entered. In
 * these numbers neighbours in the tree are neighbours in memory.
 *
 * The search itself tells the four kinds of edges apart, so that only those
 * are kept which the algorithm has to ask about:
 *
 *   tree     u -> v, v entered from u      semi[v] starts as the parent u
 *   forward  u -> v, u above v             semi[v] = min(semi[v], u)
 *   back     u -> v, v above u, or v = u   kept (v = u: dropped)
 *   cross    u -> v, v entered before u    kept
 *
 * For back and cross edges, u > v in preorder; for tree and forward edges
 * u < v. So a node's kept predecessors are all linked when its turn comes.
 *
 * A stack of (parent, node) pairs, onto which all unseen targets of a node
 * are pushed, gives a true depth-first tree if a node is entered when it is
 * popped: an entry that finds its node seen was a forward edge. Its addresses
 * are known early, which a stack of edge cursors cannot offer for prefetch.
 *
 * Bytes, besides what the caller holds, for each node (N) and edge kept (K;
 * about half of all edges): search 12 N + 4 K + stack (8 for each waiting
 * edge), sorting of predecessors 20 N + 8 K, semi-NCA 16 N + 4 K + the deepest
 * compressed path. */

enum { PROGRESS_NODES = 1 << 18 };

/* An edge that waits to be followed. */
struct step {
	uint32_t parent; /* preorder */
	uint32_t node;
};

/* Before a node is linked, where its kept predecessors begin; after it, its
 * place in the forest of linked nodes. */
union link {
	uint64_t first_pred;
	struct {
		uint32_t ancestor;  /* nearest not compressed away */
		uint32_t min_semi;  /* on the path to it, without it */
	};
};

struct run {
	const struct hf_graph *graph;
	const struct hf_progress *progress;
	uint64_t *seen;       /* by node: walls and entered nodes */
	uint32_t *preorder;   /* by node; HF_NODE_NONE for walls */
	uint32_t *node;       /* by preorder - 1: the caller's order */
	uint32_t *parent;     /* by preorder: in the depth-first tree */
	uint32_t *semi;       /* by preorder; later: immediate dominator */
	uint32_t *num_kept;   /* by preorder: kept edges out of it */
	uint32_t *kept;       /* targets of back and cross edges, by source */
	uint32_t *preds;      /* sources of back and cross edges, by target */
	union link *link;     /* by preorder, and one more */
	struct step *stack;
	size_t stack_capacity;
	uint32_t *path;       /* being compressed */
	size_t path_capacity;
	uint32_t num;         /* nodes, without the virtual root */
	uint64_t total_kept;
	uint32_t max_nodes;   /* that can take part */
};

static void run_deinit(struct run *run)
{
	free(run->seen);
	free(run->preorder);
	free(run->parent);
	free(run->semi);
	free(run->num_kept);
	free(run->kept);
	free(run->preds);
	free(run->link);
	free(run->stack);
	free(run->path);
}

static void drop(void *array_ptr)
{
	void **array = array_ptr;

	free(*array);
	*array = NULL;
}

static bool grow(void *array_ptr, size_t *capacity, size_t want,
		 size_t element_bytes)
{
	void **array = array_ptr;
	size_t cap = *capacity;
	void *grown;

	if (want <= cap)
		return true;
	if (cap < 4096)
		cap = 4096;
	while (cap < want)
		if (__builtin_add_overflow(cap, cap / 2, &cap))
			return false;
	grown = hf_flat_resize(*array, cap, element_bytes);
	if (!grown)
		return false;
	*array = grown;
	*capacity = cap;
	return true;
}

static struct hf_error *run_init(struct run *run, const uint32_t *idom)
{
	uint32_t num_nodes = run->graph->num_nodes;
	uint64_t num_edges = 0;

	run->seen = hf_bitmap_alloc(num_nodes);
	run->preorder = hf_flat_uninit(num_nodes, sizeof(*run->preorder));
	if (!run->seen || !run->preorder)
		return &hf_enomem;
	for (uint32_t i = 0; i < num_nodes; i++) {
		if (idom[i] != HF_NODE_NONE) {
			hf_bitmap_set(run->seen, i);
			run->preorder[i] = HF_NODE_NONE;
		} else {
			uint64_t degree = run->graph->first[i + 1] -
					  run->graph->first[i];

			if (degree > UINT32_MAX)
				return hf_error_create(
					HF_ERROR_UNSUPPORTED,
					"an object with %" PRIu64
					" references", degree);
			run->max_nodes++;
			num_edges += degree;
		}
	}
	size_t num = (size_t)run->max_nodes + 1;
	run->parent = hf_flat_uninit(num, sizeof(*run->parent));
	run->semi = hf_flat_uninit(num, sizeof(*run->semi));
	run->num_kept = hf_flat_uninit(num, sizeof(*run->num_kept));
	run->kept = hf_flat_uninit(num_edges, sizeof(*run->kept));
	if (!run->parent || !run->semi || !run->num_kept || !run->kept)
		return &hf_enomem;
	return NULL;
}

static inline void push(struct run *run, size_t *depth, uint32_t parent,
			uint32_t node)
{
	run->stack[(*depth)++] = (struct step){ parent, node };
	__builtin_prefetch(&run->graph->first[node]);
}

/* Enter a node that was popped: number it and push what it points to. */
static bool enter(struct run *run, size_t *depth, struct step step)
{
	const uint64_t *first = run->graph->first;
	const uint32_t *target = run->graph->target;
	uint64_t start = first[step.node], end = first[step.node + 1];
	uint64_t kept_before = run->total_kept;
	uint32_t pre = ++run->num;

	hf_bitmap_set(run->seen, step.node);
	run->preorder[step.node] = pre;
	run->node[pre - 1] = step.node;
	run->parent[pre] = step.parent;
	run->semi[pre] = step.parent;
	if (*depth + (end - start) > run->stack_capacity &&
	    !grow(&run->stack, &run->stack_capacity, *depth + (end - start),
		  sizeof(*run->stack)))
		return false;
	/* Backwards, so that the first target is the next to be popped. */
	for (uint64_t i = end; i-- > start;) {
		uint32_t node = target[i];

		if (!hf_bitmap_has(run->seen, node))
			push(run, depth, pre, node);
		else if (node != step.node)
			run->kept[run->total_kept++] = node;
	}
	run->num_kept[pre] = (uint32_t)(run->total_kept - kept_before);
	return true;
}

static struct hf_error *search(struct run *run, const uint32_t *entries,
			       uint32_t num_entries)
{
	size_t depth = 0;
	struct hf_error *err;

	if (!grow(&run->stack, &run->stack_capacity, (size_t)num_entries + 1,
		  sizeof(*run->stack)))
		return &hf_enomem;
	for (uint32_t i = num_entries; i-- > 0;)
		if (!hf_bitmap_has(run->seen, entries[i]))
			push(run, &depth, 0, entries[i]);
	run->parent[0] = run->semi[0] = run->num_kept[0] = 0;
	while (depth) {
		struct step step = run->stack[--depth];

		if (hf_bitmap_has(run->seen, step.node)) {
			uint32_t pre = run->preorder[step.node];

			if (run->semi[pre] > step.parent)
				run->semi[pre] = step.parent;
			continue;
		}
		if (depth >= 2)
			__builtin_prefetch(&run->graph->target[
				run->graph->first[run->stack[depth - 2].node]]);
		if (!enter(run, &depth, step))
			return &hf_enomem;
		if (run->num % PROGRESS_NODES == 0) {
			err = hf_progress_update(run->progress, "dominators",
						 run->num / 2, run->max_nodes);
			if (err)
				return err;
		}
	}
	drop(&run->stack);
	drop(&run->seen);
	return NULL;
}

/* Translate the kept edges to preorder, leaving out those into walls, and
 * count them by target. */
static void translate(struct run *run)
{
	enum { AHEAD = 48 };
	const uint32_t *kept = run->kept;
	uint64_t in = 0, out = 0;

	for (uint32_t pre = 1; pre <= run->num; pre++) {
		uint64_t end = in + run->num_kept[pre], before = out;

		for (; in < end; in++) {
			if (run->total_kept - in > AHEAD)
				__builtin_prefetch(
					&run->preorder[kept[in + AHEAD]]);
			uint32_t target = run->preorder[kept[in]];
			if (target == HF_NODE_NONE)
				continue;
			run->kept[out++] = target;
			run->link[target].first_pred++;
		}
		run->num_kept[pre] = (uint32_t)(out - before);
	}
	run->total_kept = out;
}

/* Sort the kept edges by target: where a node's predecessors begin is then in
 * link[].first_pred. */
static struct hf_error *collect_preds(struct run *run)
{
	enum { AHEAD = 32 };
	uint64_t end = 0, in = 0;

	run->link = hf_flat_zeroed((size_t)run->num + 2, sizeof(*run->link));
	if (!run->link)
		return &hf_enomem;
	translate(run);
	drop(&run->preorder);
	run->preds = hf_flat_uninit(run->total_kept, sizeof(*run->preds));
	if (!run->preds)
		return &hf_enomem;
	for (uint32_t pre = 0; pre <= run->num; pre++) {
		end += run->link[pre].first_pred;
		run->link[pre].first_pred = end;
	}
	for (uint32_t pre = 1; pre <= run->num; pre++) {
		for (uint32_t i = run->num_kept[pre]; i > 0; i--, in++) {
			if (run->total_kept - in > AHEAD)
				__builtin_prefetch(
					&run->link[run->kept[in + AHEAD]], 1);
			run->preds[--run->link[run->kept[in]].first_pred] =
				pre;
		}
	}
	drop(&run->kept);
	drop(&run->num_kept);
	return NULL;
}

/* The smallest semidominator on the way from `node` up to the last ancestor
 * that is linked, that is, whose number is above `limit`. Compresses the way:
 * every node on it is hung under the topmost one's ancestor. */
static inline uint32_t evaluate(struct run *run, uint32_t node,
				uint32_t limit, bool *ok)
{
	union link *link = run->link;
	size_t depth = 0;

	if (link[node].ancestor <= limit)
		return link[node].min_semi;
	for (uint32_t at = node; link[at].ancestor > limit;
	     at = link[at].ancestor) {
		if (depth == run->path_capacity &&
		    !grow(&run->path, &run->path_capacity, depth + 1,
			  sizeof(*run->path))) {
			*ok = false;
			return 0;
		}
		run->path[depth++] = at;
	}
	while (depth) {
		union link *low = &link[run->path[--depth]];
		const union link *high = &link[low->ancestor];

		if (high->min_semi < low->min_semi)
			low->min_semi = high->min_semi;
		low->ancestor = high->ancestor;
	}
	return link[node].min_semi;
}

/* Predecessors are asked in the order of the array, backwards: fetch the links
 * of those to come, and of the first ancestors that will be looked at. */
static inline void look_ahead(const struct run *run, uint64_t at)
{
	enum { AHEAD_LINK = 24, AHEAD_ANCESTOR = 8 };

	if (at < AHEAD_LINK)
		return;
	__builtin_prefetch(&run->link[run->preds[at - AHEAD_LINK]]);
	uint32_t ancestor =
		run->link[run->preds[at - AHEAD_ANCESTOR]].ancestor;
	if (ancestor <= run->num)
		__builtin_prefetch(&run->link[ancestor]);
}

static struct hf_error *semidominators(struct run *run)
{
	uint64_t end = run->total_kept;
	struct hf_error *err;
	bool ok = true;

	for (uint32_t pre = run->num; pre > 0; pre--) {
		uint64_t start = run->link[pre].first_pred;
		uint32_t semi = run->semi[pre];

		if (pre % PROGRESS_NODES == 0) {
			err = hf_progress_update(
				run->progress, "dominators",
				run->num / 2 + (run->num - pre) / 2,
				run->max_nodes);
			if (err)
				return err;
		}
		look_ahead(run, start);
		/* Nothing is above the virtual root. */
		for (uint64_t i = start; i < end && semi; i++) {
			uint32_t best = evaluate(run, run->preds[i], pre, &ok);

			if (best < semi)
				semi = best;
		}
		if (!ok)
			return &hf_enomem;
		run->semi[pre] = semi;
		run->link[pre].ancestor = run->parent[pre];
		run->link[pre].min_semi = semi;
		end = start;
	}
	return NULL;
}

/* The immediate dominator is the nearest common ancestor, in the dominator
 * tree built so far, of the parent and the semidominator. */
static void nearest_common_ancestors(struct run *run)
{
	uint32_t *idom = run->semi;

	for (uint32_t pre = 1; pre <= run->num; pre++) {
		uint32_t semi = idom[pre], at = run->parent[pre];

		while (at > semi)
			at = idom[at];
		idom[pre] = at;
	}
}

static void hand_back(const struct run *run, uint32_t *idom)
{
	enum { AHEAD = 32 };

	for (uint32_t pre = 1; pre <= run->num; pre++) {
		uint32_t dominator = run->semi[pre];

		if (run->num - pre > AHEAD)
			__builtin_prefetch(&idom[run->node[pre + AHEAD - 1]],
					   1);
		idom[run->node[pre - 1]] =
			dominator ? run->node[dominator - 1] : HF_NODE_ROOT;
	}
}

struct hf_error *hf_graph_dominators(const struct hf_graph *graph,
				     const uint32_t *entries,
				     uint32_t num_entries, uint32_t *idom,
				     uint32_t *order, uint32_t *num_ordered,
				     const struct hf_progress *progress)
{
	struct run run = {
		.graph = graph,
		.progress = progress,
		.node = order + *num_ordered,
	};
	struct hf_error *err = run_init(&run, idom);

	if (!err)
		err = search(&run, entries, num_entries);
	if (!err)
		err = collect_preds(&run);
	if (!err)
		err = semidominators(&run);
	if (!err) {
		nearest_common_ancestors(&run);
		hand_back(&run, idom);
		*num_ordered += run.num;
	}
	run_deinit(&run);
	return err;
}
