/* Index writer: the rows of an index model, table by table.
 * SPDX-License-Identifier: MIT */
#include "indexer/index_model.h"

#include <inttypes.h>
#include <stdio.h>
#include <sys/mman.h>

#include "indexer/block_type.h"
#include "indexer/db/db_writer.h"
#include "indexer/index_rows.h"

#define NONE HF_UNKNOWN_U64

/* Database ids: node n is object n + 1. */
static uint64_t several_id(const struct hf_index_model *model)
{
	return (uint64_t)model->num_nodes + 1;
}

static uint64_t unreachable_id(const struct hf_index_model *model)
{
	return (uint64_t)model->num_nodes + 2;
}

static struct hf_error *write_types(const struct hf_index_model *model,
				    struct hf_db_writer *db)
{
	uint32_t num;
	const struct hf_type *types = hf_type_table_all(model->types, &num);

	for (uint32_t i = 0; i < num; i++) {
		const struct hf_type *type = &types[i];
		struct hf_db_type row = {
			.id = (uint64_t)i + 1,
			.name = type->name,
			.full_name = type->full_name,
			.kind = hf_type_kind_name(type->kind),
			.size_bytes = type->size_bytes ? type->size_bytes
						       : NONE,
			.module_id = type->module_id == HF_NO_MODULE
					     ? NONE
					     : (uint64_t)type->module_id + 1,
		};
		struct hf_error *err = hf_db_put_type(db, &row);

		if (err)
			return err;
	}
	return NULL;
}

static struct hf_db_object holder_row(const struct hf_index_model *model,
				      uint32_t node)
{
	const struct hf_holder *holder = &model->holders.data[node];
	bool has_addr = holder->kind != HF_HOLDER_REGISTERS;

	return (struct hf_db_object){
		.addr = has_addr ? holder->range.start : NONE,
		.extent_bytes = has_addr ? holder->range.end -
						   holder->range.start
					 : NONE,
		.reader_id = NONE,
		.area_id = NONE,
		.flags = HF_OBJECT_ROOT_HOLDER | HF_OBJECT_REACHABLE |
			 (holder->kind == HF_HOLDER_GLOBAL ? HF_OBJECT_STATIC
							   : 0),
		.idom = 0,
		.root_distance = 0,
		.bfs_parent = NONE,
	};
}

static struct hf_db_object block_row(const struct hf_index_model *model,
				     uint32_t node)
{
	uint32_t block = node - model->holders.num;
	uint32_t area = model->blocks.area_id[block];
	bool unreachable = model->bfs_parent[node] == HF_NODE_NONE;
	uint32_t idom = model->idom[node];

	return (struct hf_db_object){
		.addr = model->blocks.addr[block],
		.size_bytes = model->blocks.size_bytes[block],
		.extent_bytes = NONE,
		.reader_id = (uint64_t)model->blocks.areas[area].reader_id + 1,
		.area_id = (uint64_t)area + 1,
		.flags = (unreachable ? 0 : HF_OBJECT_REACHABLE) |
			 (hf_block_is_suspect(&model->blocks, block)
				  ? HF_OBJECT_SUSPECT
				  : 0),
		.idom = idom != HF_NODE_ROOT ? (uint64_t)idom + 1
			: unreachable	     ? unreachable_id(model)
					     : several_id(model),
		.root_distance = unreachable ? NONE
					     : model->root_distance[node],
		.bfs_parent = unreachable ? NONE
					  : (uint64_t)model->bfs_parent[node] +
						    1,
	};
}

static struct hf_error *write_pseudo(struct hf_db_writer *db, uint64_t id,
				     uint32_t type, uint64_t flags,
				     uint64_t retained_bytes)
{
	struct hf_db_object row = {
		.id = id,
		.addr = NONE,
		.extent_bytes = NONE,
		.type_id = (uint64_t)type + 1,
		.reader_id = NONE,
		.area_id = NONE,
		.container_id = NONE,
		.flags = HF_OBJECT_PSEUDO | flags,
		.retained_bytes = retained_bytes,
		.root_distance = NONE,
		.bfs_parent = NONE,
	};

	return hf_db_put_object(db, &row);
}

static struct hf_error *write_suspect(struct hf_db_writer *db, uint64_t num)
{
	char value[24];

	snprintf(value, sizeof(value), "%" PRIu64, num);
	return hf_db_put_meta(db, "suspect_objects", value);
}

static struct hf_error *write_objects(const struct hf_index_model *model,
				      struct hf_db_writer *db)
{
	struct hf_error *err = NULL;
	uint64_t num_suspect = 0;

	for (uint32_t n = 0; !err && n < model->num_nodes; n++) {
		struct hf_db_object row = n < model->holders.num
						  ? holder_row(model, n)
						  : block_row(model, n);

		row.id = (uint64_t)n + 1;
		row.type_id = (uint64_t)model->node_type[n] + 1;
		row.container_id = NONE;
		row.retained_bytes = model->retained_bytes[n];
		num_suspect += !!(row.flags & HF_OBJECT_SUSPECT);
		if (n % (1u << 14) == 0)
			err = hf_progress_update(model->progress,
						 "write objects", n,
						 model->num_nodes);
		if (!err)
			err = hf_db_put_object(db, &row);
	}
	if (!err)
		err = write_pseudo(db, several_id(model), model->several_type,
				   HF_OBJECT_REACHABLE, model->several_bytes);
	if (!err)
		err = write_pseudo(db, unreachable_id(model),
				   model->unreachable_type, 0,
				   model->unreachable_bytes);
	return err ? err : write_suspect(db, num_suspect);
}

static struct hf_error *write_object_types(const struct hf_index_model *model,
					   struct hf_db_writer *db)
{
	for (uint32_t b = 0; b < model->blocks.num; b++) {
		bool is_rtti = model->block_rule[b] == HF_RULE_RTTI;
		struct hf_db_object_type row = {
			.object_id = (uint64_t)model->holders.num + b + 1,
			.rule = is_rtti ? "rtti" : "vtable",
			.confidence = is_rtti ? 0.9 : 1.0,
			.votes = 1,
		};
		struct hf_error *err;

		if (b % (1u << 14) == 0) {
			err = hf_progress_update(model->progress,
						 "write types", b,
						 model->blocks.num);
			if (err)
				return err;
		}
		if (model->block_rule[b] != HF_RULE_VTABLE && !is_rtti)
			continue;
		err = hf_db_put_object_type(db, &row);
		if (err)
			return err;
	}
	return NULL;
}

static struct hf_error *write_refs(const struct hf_index_model *model,
				   struct hf_db_writer *db)
{
	const struct hf_graph *graph = &model->edges.graph;

	for (uint32_t n = 0; n < model->num_nodes; n++) {
		uint64_t by_root = n < model->holders.num ? HF_REF_BY_ROOT : 0;
		struct hf_error *err = NULL;

		if (n % (1u << 14) == 0)
			err = hf_progress_update(model->progress, "write refs",
						 n, model->num_nodes);
		for (uint64_t e = graph->first[n];
		     !err && e < graph->first[n + 1]; e++) {
			uint64_t interior = model->edges.is_interior[e / 64] >>
						    (e % 64) & 1;

			err = hf_db_put_ref(
				db, (uint64_t)n + 1,
				(int64_t)model->edges.slot_words[e] * 8,
				(uint64_t)graph->target[e] + 1,
				HF_REF_CONSERVATIVE | by_root |
					(interior ? HF_REF_INTERIOR : 0));
		}
		if (err)
			return err;
	}
	return NULL;
}

static struct hf_error *write_roots(const struct hf_index_model *model,
				    struct hf_db_writer *db)
{
	const struct hf_graph *graph = &model->edges.graph;
	uint64_t num_roots = graph->first[model->holders.num];
	struct hf_db_root row = { .id = 0 };

	for (uint32_t n = 0; n < model->holders.num; n++) {
		const struct hf_holder *holder = &model->holders.data[n];

		for (uint64_t e = graph->first[n]; e < graph->first[n + 1];
		     e++) {
			uint32_t slot = model->edges.slot_words[e];
			struct hf_error *err;

			row.id++;
			row.holder_id = (uint64_t)n + 1;
			row.object_id = (uint64_t)graph->target[e] + 1;
			row.kind = hf_holder_kind_name(holder->kind);
			row.name = hf_index_root_name(holder, slot);
			row.addr = holder->kind == HF_HOLDER_REGISTERS
					   ? NONE
					   : holder->range.start +
						     (uint64_t)slot * 8;
			row.thread_id =
				holder->thread_index == UINT32_MAX
					? NONE
					: (uint64_t)holder->thread_index + 1;
			row.frame_id = holder->frame == UINT32_MAX
					       ? NONE
					       : (uint64_t)holder->frame + 1;
			row.module_id = holder->module_id == HF_NO_MODULE
						? NONE
						: (uint64_t)holder->module_id +
							  1;
			row.type_id = NONE;
			row.confidence = 0.5; /* conservative */
			err = e % (1u << 14) == 0
				      ? hf_progress_update(
						model->progress, "write roots",
						row.id, num_roots)
				      : NULL;
			if (!err)
				err = hf_db_put_root(db, &row);
			if (err)
				return err;
		}
	}
	return NULL;
}

static struct hf_error *write_type_stats(const struct hf_index_model *model,
					 struct hf_db_writer *db)
{
	uint32_t num;
	const struct hf_type *types = hf_type_table_all(model->types, &num);
	HF_AUTO_FREE struct hf_db_type_stat *stats =
		calloc((size_t)num + 1, sizeof(*stats));

	if (!stats)
		return &hf_enomem;
	for (uint32_t b = 0; b < model->blocks.num; b++) {
		uint32_t node = model->holders.num + b;
		struct hf_db_type_stat *stat = &stats[model->node_type[node]];

		stat->count++;
		stat->bytes += model->blocks.size_bytes[b];
		if (model->bfs_parent[node] == HF_NODE_NONE) {
			stat->unreachable_count++;
			stat->unreachable_bytes += model->blocks.size_bytes[b];
		}
	}
	for (uint32_t i = 0; i < num; i++) {
		struct hf_error *err;

		/* Holders and pseudo objects are not part of the heap. */
		if (types[i].kind == HF_TYPE_ROOT_HOLDER ||
		    types[i].kind == HF_TYPE_PSEUDO)
			continue;
		stats[i].type_id = (uint64_t)i + 1;
		stats[i].retained_bytes = model->type_retained[i];
		err = hf_db_put_type_stat(db, &stats[i]);
		if (err)
			return err;
	}
	return NULL;
}

static struct hf_error *write_phases(const struct hf_index_model *model,
				     struct hf_db_writer *db)
{
	for (uint32_t i = 0; i < model->num_phases; i++) {
		const struct hf_index_phase *phase = &model->phases[i];
		struct hf_error *err =
			hf_db_put_phase(db, phase->name, phase->elapsed_ns,
					phase->items, phase->peak_bytes);

		if (err)
			return err;
	}
	return NULL;
}

struct hf_error *hf_index_write(struct hf_index_model *model, const char *path,
				const struct hf_snapshot_row *snapshot)
{
	HF_AUTO(hf_db_writer) struct hf_db_writer *db = NULL;
	uint64_t start_ns = hf_now_ns();
	uint64_t num_rows = model->num_nodes + model->edges.graph.num_edges;
	struct hf_error *err = hf_db_writer_create(path, &db);

	if (!err)
		err = hf_index_write_image(model, db, snapshot);
	if (!err)
		err = write_types(model, db);
	if (!err)
		err = write_objects(model, db);
	if (!err)
		err = write_object_types(model, db);
	if (!err)
		err = write_refs(model, db);
	if (!err)
		err = write_roots(model, db);
	if (!err)
		err = write_type_stats(model, db);
	hf_index_phase_done(model, "write", num_rows, start_ns,
			    hf_db_writer_peak_bytes());
	if (!err)
		err = write_phases(model, db);
	return err ? err : hf_db_writer_commit(db, model->progress);
}
