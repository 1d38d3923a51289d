/* Index: an image becomes a snapshot database, phase by phase.
 * SPDX-License-Identifier: MIT */
#include "indexer/index.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "indexer/allocator_watch.h"
#include "indexer/block_type.h"
#include "indexer/heap_registry.h"
#include "indexer/index_model.h"

void hf_index_phase_done(struct hf_index_model *model, const char *name,
			 uint64_t items, uint64_t start_ns,
			 uint64_t peak_bytes)
{
	if (model->num_phases < HF_MAX_PHASES)
		model->phases[model->num_phases++] = (struct hf_index_phase){
			name, hf_now_ns() - start_ns, items, peak_bytes
		};
	hf_progress_phase_done(model->progress, name, items, start_ns,
			       peak_bytes);
}

static void model_deinit(struct hf_index_model *model)
{
	hf_anomalies_destroy(model->anomalies);
	hf_error_destroy(model->unsupported);
	hf_error_destroy(model->lost);
	hf_block_table_deinit(&model->blocks);
	hf_stacks_deinit(&model->stacks);
	hf_holders_deinit(&model->holders);
	hf_edges_deinit(&model->edges);
	hf_type_table_destroy(model->types);
	free(model->is_inside);
	free(model->node_type);
	free(model->block_rule);
	free(model->bfs_parent);
	free(model->root_distance);
	free(model->idom);
	free(model->retained_bytes);
	free(model->type_retained);
}

HF_DEFINE_AUTO(struct hf_index_model *, model, model_deinit)

/* Which threads were stopped inside a reader's allocator.
 * @param inside_ret caller frees. */
static struct hf_error *judge_threads(struct hf_index_model *model,
				      const struct hf_heap_reader_ops *ops,
				      bool **inside_ret)
{
	HF_AUTO_FREE bool *inside = NULL;
	struct hf_allocator_findings found;
	struct hf_error *err;
	bool is_known;
	size_t num;

	hf_image_threads(model->image, &num);
	inside = calloc(num + 1, sizeof(*inside));
	if (!inside)
		return &hf_enomem;
	err = hf_allocator_look_at_image(model->image, ops,
					 model->progress, &is_known, inside,
					 &found);
	if (err || !is_known)
		return err;
	model->knows_places = true;
	model->num_locked += found.num_locked;
	for (size_t i = 0; i < num; i++) {
		model->num_inside += inside[i] && !model->is_inside[i];
		model->is_inside[i] |= inside[i];
	}
	*inside_ret = HF_TAKE(inside);
	return NULL;
}

/* One reader: not found is routine; one that knows the heap but not its
 * version is an anomaly, and the memory counts as unknown. */
static struct hf_error *run_reader(struct hf_index_model *model,
				   const struct hf_heap_reader_ops *ops,
				   struct hf_block_builder *builder)
{
	HF_AUTO_FREE bool *inside = NULL;
	struct hf_heap_sink sink;
	struct hf_error *err;
	void *reader;

	err = ops->open(model->image, model->anomalies, model->progress,
			&reader);
	if (err && err->code == HF_ERROR_NOT_FOUND) {
		hf_error_ignore(err);
		return NULL;
	}
	if (err && err->code == HF_ERROR_UNSUPPORTED) {
		hf_anomaly_add(model->anomalies, ops->name,
			       "unsupported heap", 0, "%s", err->message);
		if (model->unsupported)
			hf_error_ignore(err);
		else
			model->unsupported = err;
		return NULL;
	}
	if (err)
		return hf_error_prefix(err, "%s", ops->name);
	ops->info(reader, &model->readers[model->num_readers]);
	sink = hf_block_builder_sink(builder, model->num_readers,
				     model->anomalies, model->progress);
	model->num_readers++;
	err = judge_threads(model, ops, &inside);
	sink.is_inside = inside;
	if (!err)
		err = ops->walk(reader, &sink);
	ops->close(reader);
	return err ? hf_error_prefix(err, "%s", ops->name) : NULL;
}

static struct hf_error *walk_heaps(struct hf_index_model *model)
{
	HF_AUTO(hf_block_builder) struct hf_block_builder *builder = NULL;
	const struct hf_heap_reader_ops *const *ops = hf_heap_readers();
	uint64_t start_ns = hf_now_ns();
	struct hf_error *err = hf_block_builder_create(&builder);
	size_t num_threads;

	hf_image_threads(model->image, &num_threads);
	model->is_inside = calloc(num_threads + 1, sizeof(*model->is_inside));
	if (!model->is_inside)
		return err ? err : &hf_enomem;
	for (; !err && *ops && model->num_readers < HF_MAX_READERS; ops++)
		err = run_reader(model, *ops, builder);
	if (!err)
		err = hf_block_builder_freeze(builder, model->anomalies,
					      &model->blocks);
	if (err)
		return err;
	for (uint32_t i = 0; i < model->blocks.num; i++)
		model->live_bytes += model->blocks.size_bytes[i];
	hf_index_phase_done(model, "walk", model->blocks.num, start_ns,
			    (uint64_t)model->blocks.num * 44);
	return NULL;
}

static struct hf_error *find_stacks(struct hf_index_model *model)
{
	uint64_t start_ns = hf_now_ns();
	struct hf_error *err = hf_stacks_find(model->image, model->progress,
					      &model->stacks);

	if (err)
		return err;
	hf_index_phase_done(model, "stacks", model->stacks.num_frames,
			    start_ns, (uint64_t)model->stacks.num_frames *
					      sizeof(struct hf_frame));
	return NULL;
}

static struct hf_error *find_holders(struct hf_index_model *model)
{
	uint64_t start_ns = hf_now_ns();
	struct hf_error *err = hf_holders_find(model->image, &model->blocks,
					       &model->stacks, model->progress,
					       &model->holders);
	uint64_t num_nodes;

	if (err)
		return err;
	num_nodes = (uint64_t)model->holders.num + model->blocks.num;
	if (num_nodes > HF_MAX_NODES)
		return hf_error_create(HF_ERROR_UNSUPPORTED,
				       "the heap has more than 2^32 objects");
	model->num_nodes = (uint32_t)num_nodes;
	hf_index_phase_done(model, "roots", model->holders.num, start_ns,
			    (uint64_t)model->holders.num *
				    sizeof(*model->holders.data));
	return NULL;
}

static struct hf_error *find_edges(struct hf_index_model *model)
{
	uint64_t start_ns = hf_now_ns();
	struct hf_error *err = hf_scan(model->image, &model->holders,
				       &model->blocks, model->progress,
				       &model->edges);
	uint64_t num_edges = model->edges.graph.num_edges;

	if (err)
		return err;
	model->partial |= model->edges.missing_bytes > 0;
	hf_index_phase_done(model, "scan", num_edges, start_ns,
			    model->edges.peak_bytes);
	return NULL;
}

static struct hf_error *name_holders(struct hf_index_model *model)
{
	for (uint32_t i = 0; i < model->holders.num; i++) {
		const struct hf_holder *holder = &model->holders.data[i];
		struct hf_type type = {
			.name = holder->name,
			.kind = HF_TYPE_ROOT_HOLDER,
			.module_id = holder->module_id,
		};
		struct hf_error *err = hf_type_table_intern(
			model->types, &type, &model->node_type[i]);

		if (err)
			return err;
	}
	return NULL;
}

static struct hf_error *name_pseudo(struct hf_index_model *model)
{
	struct hf_type several = { .name = (char *)"(several roots)",
				   .kind = HF_TYPE_PSEUDO,
				   .module_id = HF_NO_MODULE };
	struct hf_type unreachable = { .name = (char *)"(unreachable)",
				       .kind = HF_TYPE_PSEUDO,
				       .module_id = HF_NO_MODULE };
	struct hf_error *err = hf_type_table_intern(model->types, &several,
						    &model->several_type);

	return err ? err
		   : hf_type_table_intern(model->types, &unreachable,
					  &model->unreachable_type);
}

static struct hf_error *find_types(struct hf_index_model *model)
{
	uint64_t start_ns = hf_now_ns();
	struct hf_error *err = hf_type_table_create(&model->types);

	if (err)
		return err;
	model->node_type = calloc((size_t)model->num_nodes + 1,
				  sizeof(*model->node_type));
	model->block_rule = calloc((size_t)model->blocks.num + 1,
				   sizeof(*model->block_rule));
	if (!model->node_type || !model->block_rule)
		return &hf_enomem;
	err = name_holders(model);
	if (!err)
		err = name_pseudo(model);
	if (!err)
		err = hf_block_types(model->image, &model->blocks,
				     model->edges.first_word, model->types,
				     model->progress,
				     model->node_type + model->holders.num,
				     model->block_rule);
	free(HF_TAKE(model->edges.first_word));
	hf_index_phase_done(model, "types", model->blocks.num, start_ns,
			    (uint64_t)model->blocks.num * 13);
	return err;
}

static uint64_t count_late(const struct hf_image *image)
{
	size_t num;
	const struct hf_segment *segments = hf_image_segments(image, &num);
	uint64_t bytes = 0;

	for (size_t i = 0; i < num; i++)
		if (segments[i].late && segments[i].kind != HF_SEGMENT_SHARED)
			bytes += segments[i].resident_bytes;
	return bytes;
}

/* Whether the instant is one at which the heap can be believed to the last
 * block: see `consistency` in sql/schema.sql. */
static const char *judge_instant(struct hf_index_model *model)
{
	size_t num;
	const struct hf_thread *threads = hf_image_threads(model->image, &num);

	for (size_t i = 0; i < num; i++)
		model->partial_threads |=
			threads[i].stop_how == HF_STOP_PARTIAL;
	if (model->partial_threads)
		return "partial_threads";
	if (model->num_inside || model->num_locked)
		return "in_allocator";
	return count_late(model->image) ? "late_memory" : "exact";
}

unsigned hf_index_partial(const struct hf_index_model *model)
{
	unsigned partial = 0;

	if (model->partial)
		partial |= HF_PARTIAL_MEMORY;
	if (model->partial_threads)
		partial |= HF_PARTIAL_THREADS;
	/* The heap that was found may be the missing one's little sister:
	 * glibc's beside jemalloc's. That shows in the unexplained memory. */
	if (model->unsupported)
		partial |= HF_PARTIAL_UNSUPPORTED;
	else if (!model->blocks.num_areas)
		partial |= HF_PARTIAL_NO_ALLOCATOR;
	return partial;
}

void hf_index_summary_deinit(struct hf_index_summary *summary)
{
	hf_error_destroy(HF_TAKE(summary->unsupported));
	hf_error_destroy(HF_TAKE(summary->lost));
}

/* What the image says about itself that its segments cannot. */
static void take_losses(struct hf_index_model *model)
{
	size_t num;
	const char *const *losses = hf_image_losses(model->image, &num);

	for (size_t i = 0; i < num; i++)
		hf_anomaly_add(model->anomalies, NULL, "memory not captured", 0,
			       "%s", losses[i]);
	if (!num)
		return;
	model->partial = true;
	model->lost = hf_error_create(HF_ERROR_PARTIAL,
				      "some of the memory was not captured: "
				      "the snapshot is partial");
	model->lost = num == 1 ? hf_error_cause(model->lost, "%s", losses[0])
			       : hf_error_cause(model->lost, "%s; %s",
						losses[0], losses[1]);
}

/* The lowest one from `from` on. @return false: there is none. */
static bool next_suspect_arena(const struct hf_index_model *model,
			       uint64_t from, uint32_t *ret)
{
	uint64_t lowest = UINT64_MAX;

	for (uint32_t i = 0; i < model->blocks.num_areas; i++) {
		const struct hf_area *area = &model->blocks.areas[i].area;

		if (area->suspect && area->kind == HF_AREA_ARENA &&
		    area->arena >= from && area->arena < lowest)
			lowest = area->arena;
	}
	*ret = (uint32_t)lowest;
	return lowest != UINT64_MAX;
}

static void list_suspect_arenas(const struct hf_index_model *model, char *ret,
				size_t size)
{
	size_t len = 0;
	uint32_t arena;

	ret[0] = '\0';
	for (uint64_t from = 0; next_suspect_arena(model, from, &arena);
	     from = (uint64_t)arena + 1) {
		if (size - len < sizeof(", 4294967295, ...")) {
			snprintf(ret + len, size - len, ", ...");
			return;
		}
		len += (size_t)snprintf(ret + len, size - len, "%s%" PRIu32,
					len ? ", " : "", arena);
	}
}

static void fill_summary(struct hf_index_model *model,
			 struct hf_index_summary *ret)
{
	unsigned partial = hf_index_partial(model);

	*ret = (struct hf_index_summary){
		.num_objects = model->blocks.num,
		.num_refs = model->edges.graph.num_edges,
		.live_bytes = model->live_bytes,
		.num_unreachable = model->num_unreachable,
		.unreachable_bytes = model->unreachable_bytes,
		.unknown_bytes = model->holders.unknown_bytes,
		.private_anon_bytes = model->holders.private_anon_bytes,
		.late_bytes = count_late(model->image),
		.num_anomalies = hf_anomalies_total(model->anomalies),
		.num_suspect = model->blocks.num_suspect,
		.partial = partial,
		.missing_bytes = model->edges.missing_bytes,
		.unsupported = HF_TAKE(model->unsupported),
		.lost = HF_TAKE(model->lost),
	};
	list_suspect_arenas(model, ret->suspect_arenas,
			    sizeof(ret->suspect_arenas));
}

struct hf_error *hf_index(struct hf_image *image, const char *path,
			  const struct hf_index_options *options,
			  struct hf_index_summary *summary_ret)
{
	struct hf_index_model storage = {
		.image = image,
		.progress = options->progress,
		.facts = options->facts,
		.num_facts = options->num_facts,
	};
	HF_AUTO(model) struct hf_index_model *model = &storage;
	struct hf_snapshot_row snapshot;
	struct hf_error *err = hf_anomalies_create(&model->anomalies);

	if (options->before.name)
		model->phases[model->num_phases++] = options->before;
	if (!err) {
		take_losses(model);
		err = walk_heaps(model);
	}
	if (!err)
		err = find_stacks(model);
	if (!err)
		err = find_holders(model);
	if (!err)
		err = find_edges(model);
	if (!err)
		err = find_types(model);
	if (!err && options->image_done)
		err = options->image_done(options->arg);
	if (!err)
		err = hf_index_analyse(model);
	if (err)
		return err;
	snapshot = *options->snapshot;
	snapshot.partial |= hf_index_partial(model) != 0;
	snapshot.consistency = judge_instant(model);
	snapshot.objects = model->blocks.num;
	snapshot.refs = model->edges.graph.num_edges;
	snapshot.live_bytes = model->live_bytes;
	snapshot.private_anon_bytes = model->holders.private_anon_bytes;
	snapshot.unknown_bytes = model->holders.unknown_bytes;
	err = hf_index_write(model, path, &snapshot);
	if (err)
		return err;
	fill_summary(model, summary_ret);
	return NULL;
}
