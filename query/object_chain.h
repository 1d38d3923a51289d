/* Object chains: each object's way up, read one by one or all at once.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_OBJECT_CHAIN_H
#define HF_QUERY_OBJECT_CHAIN_H

#include "query/db.h"
#include "util/progress.h"

/* Nodes are the objects that were read. When all were read in order, node i is
 * object i + 1; otherwise they come in the order in which they were asked for.
 */

#define HF_CHAIN_NONE UINT32_MAX  /* `up` of a root holder or pseudo object */
#define HF_CHAIN_BROKEN 0         /* `up` of what should have one (ids start
				   * at 1) */

struct hf_chain_node {
	uint32_t id;      /* object.id */
	uint32_t type_id;
	uint32_t up;      /* object.id of the step before it on the way from
			   * the root, or one of the above */
	uint32_t memo;    /* the caller's; 0 at first */
	uint32_t repeat;  /* the caller's; 0 at first */
	uint64_t size_bytes;
};

struct hf_chain;

/** Read objects when they are asked for. */
struct hf_error *hf_chain_create(struct hf_db *db, struct hf_chain **ret)
	HF_MUST_CHECK;
/** Read all objects now. */
struct hf_error *hf_chain_create_all(struct hf_db *db,
				     const struct hf_progress *progress,
				     struct hf_chain **ret) HF_MUST_CHECK;
void hf_chain_destroy(struct hf_chain *chain);

/** The node of an object. @param ret NULL when there is no such object. It
 * moves when the next one is read. */
struct hf_error *hf_chain_find(struct hf_chain *chain, uint32_t object_id,
			       struct hf_chain_node **ret) HF_MUST_CHECK;

struct hf_chain_node *hf_chain_nodes(struct hf_chain *chain,
				     uint32_t *num_ret);

HF_DEFINE_AUTO(struct hf_chain *, hf_chain, hf_chain_destroy)

#endif
