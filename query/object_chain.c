/* Object chains: each object's way up, read one by one or all at once.
 * SPDX-License-Identifier: MIT */
#include "query/object_chain.h"

#include <string.h>

#include "query/query.h"
#include "util/array.h"

/* Bits of object.flags (sql/schema.sql). */
enum { FLAG_PSEUDO = 4, FLAG_ROOT_HOLDER = 32 };

/* Ids above this are not from us: the graph has no more nodes. */
#define MAX_ID (UINT32_MAX - 16)

/* The way up of a reachable object is its shortest path; an unreachable one
 * (root_distance NULL) has only its dominators. */
#define COLUMNS                                                               \
	"id, type_id, size_bytes, flags,"                                     \
	" CASE WHEN root_distance IS NULL THEN idom ELSE bfs_parent END"

enum { C_ID, C_TYPE, C_SIZE, C_FLAGS, C_UP };

struct hf_chain {
	struct hf_query *lookup; /* NULL: all are there */
	HF_ARRAY(struct hf_chain_node) nodes;
	/* Open addressing, for lookups: node + 1, or 0. A power of two of
	 * slots, at most half of them used. */
	uint32_t *slots;
	size_t num_slots;
};

static struct hf_error *read_node(const struct hf_query *query,
				  struct hf_chain_node *ret)
{
	int64_t id = hf_query_i64(query, C_ID);
	int64_t type = hf_query_i64(query, C_TYPE);
	int64_t size = hf_query_i64(query, C_SIZE);
	int64_t flags = hf_query_i64(query, C_FLAGS);
	int64_t up = hf_query_i64(query, C_UP);

	if (id < 1 || id > MAX_ID || size < 0)
		return hf_error_cause(hf_bad_data("the snapshot is damaged"),
				      "object %lld is impossible",
				      (long long)id);
	*ret = (struct hf_chain_node){
		.id = (uint32_t)id,
		.type_id = type < 0 || type > MAX_ID ? 0 : (uint32_t)type,
		.size_bytes = (uint64_t)size,
		.up = up < 1 || up > MAX_ID ? HF_CHAIN_BROKEN : (uint32_t)up,
	};
	if (flags & (FLAG_PSEUDO | FLAG_ROOT_HOLDER))
		ret->up = HF_CHAIN_NONE;
	return NULL;
}

struct hf_error *hf_chain_create(struct hf_db *db, struct hf_chain **ret)
{
	HF_AUTO(hf_chain) struct hf_chain *chain = calloc(1, sizeof(*chain));
	struct hf_error *err;

	if (!chain)
		return &hf_enomem;
	chain->num_slots = 1024;
	chain->slots = calloc(chain->num_slots, sizeof(*chain->slots));
	if (!chain->slots)
		return &hf_enomem;
	err = hf_query_prepare(
		db, "SELECT " COLUMNS " FROM main.object WHERE id = ?1",
		&chain->lookup);
	if (err)
		return err;
	*ret = HF_TAKE(chain);
	return NULL;
}

struct hf_error *hf_chain_create_all(struct hf_db *db,
				     const struct hf_progress *progress,
				     struct hf_chain **ret)
{
	HF_AUTO(hf_chain) struct hf_chain *chain = calloc(1, sizeof(*chain));
	HF_AUTO(hf_query) struct hf_query *query = NULL;
	struct hf_error *err;
	bool row;

	if (!chain)
		return &hf_enomem;
	err = hf_query_prepare(
		db, "SELECT " COLUMNS " FROM main.object ORDER BY id", &query);
	while (!err && !(err = hf_query_step(query, &row)) && row) {
		struct hf_chain_node node;

		err = read_node(query, &node);
		if (!err && node.id != chain->nodes.num + 1)
			err = hf_error_cause(
				hf_bad_data("the snapshot is damaged"),
				"object %zu is missing", chain->nodes.num + 1);
		if (!err)
			err = hf_array_append(&chain->nodes, node);
		if (!err && chain->nodes.num % 65536 == 0)
			err = hf_progress_update(progress, "reading objects",
						 chain->nodes.num, 0);
	}
	if (err)
		return err;
	*ret = HF_TAKE(chain);
	return NULL;
}

void hf_chain_destroy(struct hf_chain *chain)
{
	if (!chain)
		return;
	hf_query_destroy(chain->lookup);
	hf_array_deinit(&chain->nodes);
	free(chain->slots);
	free(chain);
}

static size_t slot_of(const struct hf_chain *chain, uint32_t id)
{
	size_t slot = (size_t)(id * UINT64_C(0x9e3779b97f4a7c15) >> 20) &
		      (chain->num_slots - 1);

	while (chain->slots[slot] &&
	       chain->nodes.data[chain->slots[slot] - 1].id != id)
		slot = (slot + 1) & (chain->num_slots - 1);
	return slot;
}

static struct hf_error *grow(struct hf_chain *chain)
{
	uint32_t *old = chain->slots;
	uint32_t *slots = calloc(chain->num_slots * 2, sizeof(*slots));

	if (!slots)
		return &hf_enomem;
	chain->slots = slots;
	chain->num_slots *= 2;
	for (size_t i = 0; i < chain->nodes.num; i++)
		chain->slots[slot_of(chain, chain->nodes.data[i].id)] =
			(uint32_t)i + 1;
	free(old);
	return NULL;
}

static struct hf_error *look_up(struct hf_chain *chain, uint32_t id,
				struct hf_chain_node **ret)
{
	struct hf_chain_node node;
	struct hf_error *err;
	bool row;

	*ret = NULL;
	hf_query_reset(chain->lookup);
	err = hf_query_bind_i64(chain->lookup, 1, id);
	if (!err)
		err = hf_query_step(chain->lookup, &row);
	if (err || !row)
		return err;
	err = read_node(chain->lookup, &node);
	if (!err && node.id != id)
		err = hf_bad_data("the snapshot is damaged");
	if (!err && chain->nodes.num >= chain->num_slots / 2)
		err = grow(chain);
	if (!err)
		err = hf_array_append(&chain->nodes, node);
	if (err)
		return err;
	chain->slots[slot_of(chain, id)] = (uint32_t)chain->nodes.num;
	*ret = &chain->nodes.data[chain->nodes.num - 1];
	return NULL;
}

struct hf_error *hf_chain_find(struct hf_chain *chain, uint32_t object_id,
			       struct hf_chain_node **ret)
{
	size_t slot;

	*ret = NULL;
	if (!object_id)
		return NULL;
	if (!chain->lookup) {
		if (object_id <= chain->nodes.num)
			*ret = &chain->nodes.data[object_id - 1];
		return NULL;
	}
	slot = slot_of(chain, object_id);
	if (!chain->slots[slot])
		return look_up(chain, object_id, ret);
	*ret = &chain->nodes.data[chain->slots[slot] - 1];
	return NULL;
}

struct hf_chain_node *hf_chain_nodes(struct hf_chain *chain, uint32_t *num_ret)
{
	*num_ret = (uint32_t)chain->nodes.num;
	return chain->nodes.data;
}
