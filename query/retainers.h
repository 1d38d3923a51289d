/* Retainers: the paths from roots to some objects, merged into a tree.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_RETAINERS_H
#define HF_QUERY_RETAINERS_H

#include "query/db.h"
#include "util/progress.h"

/* Every match has one shortest path from a root holder (object.bfs_parent).
 * Paths that pass the same types in the same order share their steps.
 *
 *  - The first step is the root holder itself, not its type: who it is is the
 *    answer.
 *  - Repetition is folded: a step whose type, or whose last 2, 3 or 4 types,
 *    only repeat what stands directly above goes back to that step. A linked
 *    list of ten million nodes is one step with repeat 10000000; so is
 *    node, payload, node, payload, ... with two.
 *  - Below HF_RETAINER_MAX_DEPTH everything is one step "(deeper)".
 *  - Unreachable matches hang under the pseudo object `(unreachable)` along
 *    their immediate dominators, which begin with their leak head.
 *  - A chain that ends nowhere or bites its tail (a damaged file) hangs under
 *    "(broken chain)" and is counted.
 *
 * Each object above a match is visited once, whatever the number of matches.
 */

enum { HF_RETAINER_MAX_DEPTH = 100, HF_RETAINER_MAX_PERIOD = 4 };

#define HF_NO_STEP UINT32_MAX

enum hf_step_kind {
	HF_STEP_TYPE,
	HF_STEP_HOLDER, /* a root holder or pseudo object, at the top */
	HF_STEP_DEEPER,
	HF_STEP_BROKEN,
};

struct hf_retainer_step {
	uint32_t parent;    /* index of a step before it, or HF_NO_STEP */
	uint32_t id;        /* type.id; HOLDER: object.id; else 0 */
	uint32_t repeat;    /* most times it occurs on one path by folding */
	uint8_t kind;       /* enum hf_step_kind */
	uint8_t depth;      /* steps above it */
	uint64_t count;     /* matches on this step and below */
	uint64_t bytes;     /* sum of their size_bytes */
	uint64_t own_count; /* matches on this very step */
};

struct hf_retainers {
	struct hf_retainer_step *steps; /* parents precede their children */
	uint32_t num_steps;
	uint64_t num_matches, match_bytes;
	uint64_t num_broken; /* objects whose chain is broken */
	uint32_t num_read;   /* objects that were read */
};

/** What to look for: all objects of some types, or one object. */
struct hf_retainer_match {
	const int64_t *type_ids; /* borrowed; NULL: by object_id */
	size_t num_types;
	int64_t object_id;
	/** Objects to read one by one before all of them are read in order:
	 * 0 is the default. */
	uint64_t max_lookups;
};

/** @return NULL, NOT_FOUND when there is no such object, BAD_DATA. */
struct hf_error *hf_retainers_find(struct hf_db *db,
				   const struct hf_retainer_match *match,
				   const struct hf_progress *progress,
				   struct hf_retainers *ret) HF_MUST_CHECK;
void hf_retainers_deinit(struct hf_retainers *retainers);

#endif
