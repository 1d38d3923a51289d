/* Retainers: the paths from roots to some objects, merged into a tree.
 * SPDX-License-Identifier: MIT */
#include "query/retainers.h"

#include <string.h>

#include "query/object_chain.h"
#include "query/path.h"
#include "util/array.h"

/* From each match we climb to the first object whose step is known, then come
 * down again and give each object on the way its step: that of the object
 * above it, extended by its type. The way up is kept in an array, so no depth
 * of the heap can overflow anything. */

enum { DEFAULT_LOOKUPS = 200000 };

/* Values of hf_chain_node.memo; others are a step + 1. */
#define MEMO_NONE 0
#define MEMO_CLIMBING UINT32_MAX

struct builder {
	struct hf_db *db;
	struct hf_chain *chain;
	uint64_t max_lookups;
	HF_ARRAY(struct hf_retainer_step) steps;
	/* Open addressing by (parent, kind, id): step + 1, or 0. */
	uint32_t *slots;
	size_t num_slots;
	HF_ARRAY(uint32_t) way; /* object ids, from the match up */
	uint64_t num_broken;
};

static void builder_deinit(struct builder *builder)
{
	hf_chain_destroy(builder->chain);
	hf_array_deinit(&builder->steps);
	free(builder->slots);
	hf_array_deinit(&builder->way);
}

static size_t slot_of(const struct builder *builder, uint32_t parent,
		      uint8_t kind, uint32_t id)
{
	uint64_t key = (uint64_t)parent << 32 | id;
	size_t slot = (size_t)((key + kind) * UINT64_C(0x9e3779b97f4a7c15) >>
			       24) &
		      (builder->num_slots - 1);

	for (; builder->slots[slot]; slot = (slot + 1) &
					    (builder->num_slots - 1)) {
		const struct hf_retainer_step *step =
			&builder->steps.data[builder->slots[slot] - 1];

		if (step->parent == parent && step->kind == kind &&
		    step->id == id)
			break;
	}
	return slot;
}

static struct hf_error *grow(struct builder *builder)
{
	size_t num = builder->num_slots ? builder->num_slots * 2 : 256;
	uint32_t *slots = calloc(num, sizeof(*slots));

	if (!slots)
		return &hf_enomem;
	free(builder->slots);
	builder->slots = slots;
	builder->num_slots = num;
	for (size_t i = 0; i < builder->steps.num; i++) {
		const struct hf_retainer_step *step = &builder->steps.data[i];

		slots[slot_of(builder, step->parent, step->kind, step->id)] =
			(uint32_t)i + 1;
	}
	return NULL;
}

/* The step of this kind and id below parent, made if it is new. */
static struct hf_error *child(struct builder *builder, uint32_t parent,
			      uint8_t kind, uint32_t id, uint32_t *ret)
{
	struct hf_retainer_step step = {
		.parent = parent, .kind = kind, .id = id, .repeat = 1,
	};
	struct hf_error *err;
	size_t slot;

	if (parent != HF_NO_STEP) {
		const struct hf_retainer_step *above =
			&builder->steps.data[parent];

		if (above->kind == HF_STEP_DEEPER) {
			*ret = parent;
			return NULL;
		}
		step.depth = (uint8_t)(above->depth + 1);
		if (step.depth >= HF_RETAINER_MAX_DEPTH) {
			step.kind = HF_STEP_DEEPER;
			step.id = 0;
		}
	}
	if (builder->steps.num >= builder->num_slots / 2) {
		err = grow(builder);
		if (err)
			return err;
	}
	slot = slot_of(builder, parent, step.kind, step.id);
	if (!builder->slots[slot]) {
		err = hf_array_append(&builder->steps, step);
		if (err)
			return err;
		builder->slots[slot] = (uint32_t)builder->steps.num;
	}
	*ret = builder->slots[slot] - 1;
	return NULL;
}

/* If `type` below `step` completes a repetition of the last 1, 2, 3 or 4
 * types: its length, and the step to go back to. 0: it does not. */
static uint32_t fold(const struct builder *builder, uint32_t step,
		     uint32_t type, uint32_t *back_ret)
{
	uint32_t type_ids[HF_RETAINER_MAX_PERIOD * 2];
	uint32_t steps[HF_RETAINER_MAX_PERIOD * 2];
	uint32_t num = 1;

	type_ids[0] = type;
	for (; step != HF_NO_STEP && num < HF_RETAINER_MAX_PERIOD * 2; num++) {
		if (builder->steps.data[step].kind != HF_STEP_TYPE)
			break;
		type_ids[num] = builder->steps.data[step].id;
		steps[num] = step;
		step = builder->steps.data[step].parent;
	}
	for (uint32_t period = 1; period <= num / 2; period++) {
		uint32_t same = 0;

		while (same < period &&
		       type_ids[same] == type_ids[same + period])
			same++;
		if (same == period) {
			*back_ret = steps[period];
			return period;
		}
	}
	return 0;
}

/* The object `distance` above way[index] is further along the way, or above
 * its end, where everything is known already. */
static struct hf_error *object_above(struct builder *builder, size_t index,
				     uint32_t distance,
				     struct hf_chain_node **ret)
{
	size_t last = builder->way.num - 1;
	struct hf_chain_node *node;
	struct hf_error *err;

	if (index + distance <= last)
		return hf_chain_find(builder->chain,
				     builder->way.data[index + distance], ret);
	err = hf_chain_find(builder->chain, builder->way.data[last], &node);
	for (size_t i = last; !err && node && i < index + distance; i++)
		err = hf_chain_find(
			builder->chain,
			node->up == HF_CHAIN_NONE ? 0 : node->up, &node);
	*ret = err ? NULL : node;
	return err;
}

/* Give way[index] its step, below that of the object above it. */
static struct hf_error *place(struct builder *builder, size_t index,
			      uint32_t above, uint32_t above_repeat,
			      uint32_t *step_ret, uint32_t *repeat_ret)
{
	struct hf_chain_node *node, *earlier;
	uint32_t step, period, repeat = 1;
	struct hf_error *err = hf_chain_find(
		builder->chain, builder->way.data[index], &node);

	if (err)
		return err;
	period = above == HF_NO_STEP ? 0 :
				       fold(builder, above, node->type_id,
					    &step);
	if (period == 1) {
		repeat = above_repeat + 1;
	} else if (period) {
		err = object_above(builder, index, period, &earlier);
		if (err)
			return err;
		if (earlier && earlier->memo == step + 1)
			repeat = earlier->repeat;
		repeat++;
	} else if (node->up == HF_CHAIN_NONE) {
		err = child(builder, HF_NO_STEP, HF_STEP_HOLDER, node->id,
			    &step);
	} else {
		err = child(builder, above, HF_STEP_TYPE, node->type_id, &step);
	}
	if (err)
		return err;
	/* hf_chain_find may have moved the nodes. */
	err = hf_chain_find(builder->chain, builder->way.data[index], &node);
	if (err)
		return err;
	node->memo = step + 1;
	node->repeat = repeat;
	if (repeat > builder->steps.data[step].repeat)
		builder->steps.data[step].repeat = repeat;
	*step_ret = step;
	*repeat_ret = repeat;
	return NULL;
}

/* Climb from an object until something known; *above_ret is the step of what
 * is above the last object of the way, HF_NO_STEP if that is a top.
 * @return hf_stop when there were too many lookups. */
static struct hf_error *climb(struct builder *builder, uint32_t object_id,
			      uint32_t *above_ret, uint32_t *repeat_ret)
{
	struct hf_chain_node *node;
	struct hf_error *err;
	uint32_t num_read;

	builder->way.num = 0;
	*above_ret = HF_NO_STEP;
	*repeat_ret = 0;
	for (;;) {
		err = hf_chain_find(builder->chain, object_id, &node);
		if (err)
			return err;
		hf_chain_nodes(builder->chain, &num_read);
		if (builder->max_lookups && num_read > builder->max_lookups)
			return &hf_stop;
		if (!node || node->memo == MEMO_CLIMBING) {
			builder->num_broken++;
			return child(builder, HF_NO_STEP, HF_STEP_BROKEN, 0,
				     above_ret);
		}
		if (node->memo != MEMO_NONE) {
			*above_ret = node->memo - 1;
			*repeat_ret = node->repeat;
			return NULL;
		}
		node->memo = MEMO_CLIMBING;
		err = hf_array_append(&builder->way, node->id);
		if (err || node->up == HF_CHAIN_NONE)
			return err;
		object_id = node->up;
	}
}

static struct hf_error *add_match(struct builder *builder, uint32_t object_id)
{
	uint32_t step, repeat;
	struct hf_chain_node *node;
	struct hf_error *err = climb(builder, object_id, &step, &repeat);

	for (size_t i = builder->way.num; !err && i-- > 0;)
		err = place(builder, i, step, repeat, &step, &repeat);
	if (!err)
		err = hf_chain_find(builder->chain, object_id, &node);
	if (err)
		return err;
	builder->steps.data[step].own_count++;
	builder->steps.data[step].bytes += node->size_bytes;
	return NULL;
}

static int compare_ids(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

static struct hf_error *add_types(struct builder *builder,
				  const struct hf_retainer_match *match,
				  const struct hf_progress *progress)
{
	uint32_t num;
	struct hf_chain_node *nodes = hf_chain_nodes(builder->chain, &num);
	HF_AUTO_FREE int64_t *types = NULL;
	struct hf_error *err = NULL;

	types = calloc(match->num_types + 1, sizeof(*types));
	if (!types)
		return &hf_enomem;
	memcpy(types, match->type_ids, match->num_types * sizeof(*types));
	qsort(types, match->num_types, sizeof(*types), compare_ids);
	for (uint32_t i = 0; !err && i < num; i++) {
		int64_t type = nodes[i].type_id;

		if (bsearch(&type, types, match->num_types, sizeof(*types),
			    compare_ids))
			err = add_match(builder, nodes[i].id);
		if (!err && i % 65536 == 0)
			err = hf_progress_update(progress, "merging paths", i,
						 num);
	}
	return err;
}

static struct hf_error *add_object(struct builder *builder, int64_t object_id)
{
	struct hf_chain_node *node = NULL;
	struct hf_error *err = NULL;

	if (object_id > 0 && object_id < UINT32_MAX)
		err = hf_chain_find(builder->chain, (uint32_t)object_id,
				    &node);
	if (!err && !node)
		err = hf_no_such_object(builder->db, object_id);
	return err ? err : add_match(builder, (uint32_t)object_id);
}

/* Sum up from the bottom: parents precede their children. */
static void finish(struct builder *builder, struct hf_retainers *ret)
{
	struct hf_retainer_step *steps = builder->steps.data;

	*ret = (struct hf_retainers){ .num_broken = builder->num_broken };
	for (size_t i = 0; i < builder->steps.num; i++)
		steps[i].count = steps[i].own_count;
	for (size_t i = builder->steps.num; i-- > 0;) {
		if (steps[i].parent == HF_NO_STEP) {
			ret->num_matches += steps[i].count;
			ret->match_bytes += steps[i].bytes;
			continue;
		}
		steps[steps[i].parent].count += steps[i].count;
		steps[steps[i].parent].bytes += steps[i].bytes;
	}
	hf_chain_nodes(builder->chain, &ret->num_read);
	ret->steps = steps;
	ret->num_steps = (uint32_t)builder->steps.num;
	builder->steps.data = NULL;
	builder->steps.num = 0;
}

static struct hf_error *find_once(struct hf_db *db,
				  const struct hf_retainer_match *match,
				  bool read_all,
				  const struct hf_progress *progress,
				  struct hf_retainers *ret)
{
	struct builder builder = { .db = db };
	struct hf_error *err;

	if (read_all)
		err = hf_chain_create_all(db, progress, &builder.chain);
	else
		err = hf_chain_create(db, &builder.chain);
	if (!read_all)
		builder.max_lookups = match->max_lookups ? match->max_lookups :
							   DEFAULT_LOOKUPS;
	if (!err && match->type_ids)
		err = add_types(&builder, match, progress);
	else if (!err)
		err = add_object(&builder, match->object_id);
	if (!err)
		finish(&builder, ret);
	builder_deinit(&builder);
	return err;
}

struct hf_error *hf_retainers_find(struct hf_db *db,
				   const struct hf_retainer_match *match,
				   const struct hf_progress *progress,
				   struct hf_retainers *ret)
{
	struct hf_error *err;

	/* One object can stand at the end of a list of millions: then reading
	 * all objects in order is faster than one after the other. */
	if (!match->type_ids) {
		err = find_once(db, match, false, progress, ret);
		if (err != &hf_stop)
			return err;
	}
	return find_once(db, match, true, progress, ret);
}

void hf_retainers_deinit(struct hf_retainers *retainers)
{
	free(retainers->steps);
	*retainers = (struct hf_retainers){ 0 };
}
