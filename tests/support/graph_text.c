/* Graph text: a heap as a page of text, made into a snapshot file.
 * SPDX-License-Identifier: MIT */
#include "tests/support/graph_text.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "indexer/db/db_writer.h"
#include "indexer/graph/graph.h"
#include "indexer/graph/type_retained.h"
#include "util/array.h"
#include "util/file.h"
#include "util/parse.h"

#define NONE HF_UNKNOWN_U64

struct node {
	const char *name; /* borrowed from the text, as all texts */
	const char *kind; /* of a holder; NULL: a block */
	uint64_t size_bytes;
	uint32_t type;
	int64_t next_slot;
};

struct edge {
	uint32_t src, dst;
	int64_t slot;
	uint64_t flags;
};

struct thread {
	uint64_t tid;
	const char *name, *call;
};

struct frame {
	uint64_t thread, level, pc, line;
	const char *function, *file, *how;
};

struct type {
	char *name;
	const char *kind;
	struct hf_db_type_stat stat;
};

struct model {
	char *text;
	HF_ARRAY(struct node) nodes;
	HF_ARRAY(struct edge) edges;
	HF_ARRAY(struct type) types;
	HF_ARRAY(struct thread) threads;
	HF_ARRAY(struct frame) frames;
	uint32_t num_holders;
	struct hf_graph graph;
	uint32_t *parent, *distance, *idom, *order;
	uint32_t num_ordered;
	uint64_t *retained, *type_retained;
};

static void deinit(struct model *model)
{
	for (size_t i = 0; i < model->types.num; i++)
		free(model->types.data[i].name);
	hf_array_deinit(&model->nodes);
	hf_array_deinit(&model->edges);
	hf_array_deinit(&model->types);
	hf_array_deinit(&model->threads);
	hf_array_deinit(&model->frames);
	hf_graph_deinit(&model->graph);
	free(model->parent);
	free(model->distance);
	free(model->idom);
	free(model->order);
	free(model->retained);
	free(model->type_retained);
	free(model->text);
}

/* The next word of *line, NULL at its end. */
static char *word(char **line)
{
	char *start = *line + strspn(*line, " \t");

	*line = start + strcspn(start, " \t");
	if (**line)
		*(*line)++ = '\0';
	return *start ? start : NULL;
}

static struct hf_error *intern_type(struct model *model, const char *name,
				    const char *kind, uint32_t *ret)
{
	struct type type = { .kind = kind };
	struct hf_error *err;

	for (size_t i = 0; i < model->types.num; i++)
		if (!strcmp(model->types.data[i].name, name)) {
			*ret = (uint32_t)i;
			return NULL;
		}
	type.name = strdup(name);
	if (!type.name)
		return &hf_enomem;
	*ret = (uint32_t)model->types.num;
	err = hf_array_append(&model->types, type);
	if (err)
		free(type.name);
	return err;
}

static bool find(const struct model *model, const char *name, uint32_t *ret)
{
	for (size_t i = 0; name && i < model->nodes.num; i++)
		if (!strcmp(model->nodes.data[i].name, name)) {
			*ret = (uint32_t)i;
			return true;
		}
	return false;
}

static struct hf_error *parse_holder(struct model *model, char *line)
{
	const char *kind = word(&line), *name = word(&line);
	struct node node = { .kind = kind, .name = name };
	struct hf_error *err;

	if (!name || model->num_holders < model->nodes.num)
		return hf_bad_data("holder KIND NAME, before all blocks");
	err = intern_type(model, node.name, "root_holder", &node.type);
	model->num_holders++;
	return err ? err : hf_array_append(&model->nodes, node);
}

static struct hf_error *parse_block(struct model *model, char *line)
{
	struct node node = { .name = word(&line) };
	const char *bytes = word(&line);
	const char *type = line + strspn(line, " \t");
	char size_class[40];
	struct hf_error *err;

	if (!bytes || !*type)
		return hf_bad_data("block NAME BYTES TYPE");
	err = hf_parse_u64(bytes, "size", &node.size_bytes);
	if (err)
		return err;
	snprintf(size_class, sizeof(size_class), "%" PRIu64 " bytes",
		 node.size_bytes);
	err = strcmp(type, "-") ? intern_type(model, type, "class", &node.type)
				: intern_type(model, size_class, "size_class",
					      &node.type);
	return err ? err : hf_array_append(&model->nodes, node);
}

static struct hf_error *parse_ref(struct model *model, char *line)
{
	struct edge edge = { .flags = HF_REF_CONSERVATIVE };
	const char *src = word(&line), *dst = word(&line), *extra;
	struct node *node;

	if (!find(model, src, &edge.src) || !find(model, dst, &edge.dst))
		return hf_bad_data("ref FROM TO: no such name");
	node = &model->nodes.data[edge.src];
	edge.slot = node->next_slot;
	while ((extra = word(&line))) {
		if (!strcmp(extra, "interior"))
			edge.flags |= HF_REF_INTERIOR;
		else
			edge.slot = strtoll(extra, NULL, 10);
	}
	if (node->kind)
		edge.flags |= HF_REF_BY_ROOT;
	if (edge.slot < node->next_slot)
		return hf_bad_data("slots of an object must ascend");
	node->next_slot = edge.slot + 8;
	return hf_array_append(&model->edges, edge);
}

static struct hf_error *parse_thread(struct model *model, char *line)
{
	const char *tid = word(&line);
	struct thread thread = { .name = word(&line) };
	struct hf_error *err;

	if (!thread.name)
		return hf_bad_data("thread TID NAME [CALL]");
	thread.call = word(&line);
	err = hf_parse_u64(tid, "thread", &thread.tid);
	return err ? err : hf_array_append(&model->threads, thread);
}

static struct hf_error *parse_frame(struct model *model, char *line)
{
	const char *pc = word(&line), *number;
	struct frame frame = { .thread = model->threads.num, .line = NONE };
	size_t num = model->frames.num;
	struct hf_error *err = NULL;

	frame.function = word(&line);
	frame.how = word(&line);
	frame.file = word(&line);
	number = word(&line);
	if (!frame.how || !frame.thread)
		return hf_bad_data("frame PC FUNCTION HOW, below a thread");
	frame.pc = strtoull(pc, NULL, 16);
	if (num && model->frames.data[num - 1].thread == frame.thread)
		frame.level = model->frames.data[num - 1].level + 1;
	if (number)
		err = hf_parse_u64(number, "line", &frame.line);
	return err ? err : hf_array_append(&model->frames, frame);
}

static struct hf_error *put_threads(const struct model *model,
				    struct hf_db_writer *db)
{
	struct hf_error *err = NULL;

	for (size_t i = 0; !err && i < model->threads.num; i++) {
		const struct thread *thread = &model->threads.data[i];

		err = hf_db_put_thread(
			db, &(struct hf_db_thread){
				    .id = i + 1,
				    .tid = thread->tid,
				    .name = thread->name,
				    .state = thread->call ? "S" : "R",
				    .stop_how = thread->call ? "syscall"
							     : "user",
				    .pc = 0x1000,
				    .sp = 0x2000,
				    .bp = 0x3000 + i,
				    .syscall = thread->call ? 202 : NONE,
				    .syscall_name = thread->call,
				    .stack_end = "whole",
				    .in_allocator = NONE });
		if (!err)
			err = hf_db_put_thread_register(
				db, &(struct hf_db_thread_register){
					    i + 1, 0, "rax", NONE });
	}
	for (size_t i = 0; !err && i < model->frames.num; i++) {
		const struct frame *frame = &model->frames.data[i];

		err = hf_db_put_frame(
			db, &(struct hf_db_frame){
				    .id = i + 1,
				    .thread_id = frame->thread,
				    .level = frame->level,
				    .pc = frame->pc,
				    .sp = NONE,
				    .cfa = NONE,
				    .module_id = NONE,
				    .function = frame->function,
				    .file = frame->file,
				    .line = frame->line,
				    .inlined = !strcmp(frame->how, "inline"),
				    .how = frame->how });
	}
	return err;
}

static struct hf_error *parse(struct model *model, const char *path)
{
	char *rest, *line;
	uint32_t number = 0;
	struct hf_error *err = hf_read_file(path, &model->text, NULL);

	for (rest = err ? NULL : model->text; !err && (line = strsep(&rest, "\n"));) {
		const char *verb;

		number++;
		line[strcspn(line, "#")] = '\0';
		for (size_t len = strlen(line);
		     len && strchr(" \t", line[len - 1]); len--)
			line[len - 1] = '\0';
		verb = word(&line);
		if (!verb)
			continue;
		if (!strcmp(verb, "holder"))
			err = parse_holder(model, line);
		else if (!strcmp(verb, "block"))
			err = parse_block(model, line);
		else if (!strcmp(verb, "ref"))
			err = parse_ref(model, line);
		else if (!strcmp(verb, "thread"))
			err = parse_thread(model, line);
		else if (!strcmp(verb, "frame"))
			err = parse_frame(model, line);
		else
			err = hf_bad_data("'%s' is not a word of this text",
					  verb);
		if (err)
			err = hf_error_prefix(err, "%s:%" PRIu32, path, number);
	}
	return err;
}

static int compare_edges(const void *a, const void *b)
{
	const struct edge *x = a, *y = b;

	if (x->src != y->src)
		return x->src < y->src ? -1 : 1;
	return (x->slot > y->slot) - (x->slot < y->slot);
}

static struct hf_error *build_graph(struct model *model)
{
	uint32_t num = (uint32_t)model->nodes.num;
	struct hf_error *err =
		hf_graph_init(&model->graph, num, model->edges.num);

	if (err)
		return err;
	if (model->edges.num)
		qsort(model->edges.data, model->edges.num,
		      sizeof(*model->edges.data), compare_edges);
	memset(model->graph.first, 0,
	       ((size_t)num + 1) * sizeof(*model->graph.first));
	for (size_t e = 0; e < model->edges.num; e++) {
		model->graph.target[e] = model->edges.data[e].dst;
		model->graph.first[model->edges.data[e].src + 1]++;
	}
	for (uint32_t n = 0; n < num; n++)
		model->graph.first[n + 1] += model->graph.first[n];
	return NULL;
}

static struct hf_error *analyse(struct model *model)
{
	size_t num = model->nodes.num, bytes = (num + 1) * sizeof(uint32_t);
	HF_AUTO_FREE uint32_t *entries = malloc(bytes);
	HF_AUTO_FREE uint32_t *node_type = malloc(bytes);
	HF_AUTO_FREE uint32_t *heads = NULL;
	uint32_t num_heads = 0;
	struct hf_error *err;

	model->parent = malloc(bytes);
	model->distance = malloc(bytes);
	model->idom = malloc(bytes);
	model->order = malloc(bytes);
	model->retained = malloc((num + 1) * sizeof(*model->retained));
	model->type_retained =
		calloc(model->types.num + 1, sizeof(*model->type_retained));
	if (!entries || !node_type || !model->parent || !model->distance ||
	    !model->idom || !model->order || !model->retained ||
	    !model->type_retained)
		return &hf_enomem;
	memset(model->parent, 0xff, bytes);
	memset(model->distance, 0xff, bytes);
	memset(model->idom, 0xff, bytes);
	for (uint32_t n = 0; n < num; n++) {
		entries[n] = n;
		node_type[n] = model->nodes.data[n].type;
		model->retained[n] = model->nodes.data[n].size_bytes;
	}
	err = hf_graph_reach(&model->graph, entries, model->num_holders,
			     model->parent, model->distance, NULL);
	if (!err)
		err = hf_graph_heads(&model->graph, model->parent, &heads,
				     &num_heads, NULL);
	if (!err)
		err = hf_graph_dominators(&model->graph, entries,
					  model->num_holders, model->idom,
					  model->order, &model->num_ordered,
					  NULL);
	if (!err)
		err = hf_graph_dominators(&model->graph, heads, num_heads,
					  model->idom, model->order,
					  &model->num_ordered, NULL);
	if (err)
		return err;
	hf_graph_retained(model->idom, model->order, model->num_ordered,
			  model->retained);
	return hf_type_retained(model->idom, (uint32_t)num, model->order,
				model->num_ordered, model->retained, node_type,
				(uint32_t)model->types.num,
				model->type_retained);
}

/* Rows of the blocks and holders; retained bytes of the pseudo objects are
 * added up on the way. */
static struct hf_error *put_objects(struct model *model,
				    struct hf_db_writer *db)
{
	uint64_t num = model->nodes.num, addr = 0x10010;
	uint64_t pseudo_bytes[2] = { 0, 0 };
	struct hf_error *err = NULL;

	for (uint64_t n = 0; !err && n < num; n++) {
		const struct node *node = &model->nodes.data[n];
		bool lost = model->parent[n] == HF_NODE_NONE;
		bool holder = node->kind != NULL;
		bool top = model->idom[n] == HF_NODE_ROOT;
		uint32_t parent = model->parent[n];
		struct type *type = &model->types.data[node->type];

		err = hf_db_put_object(
			db,
			&(struct hf_db_object){
				.id = n + 1,
				.addr = holder ? NONE : addr,
				.size_bytes = node->size_bytes,
				.extent_bytes = NONE,
				.type_id = node->type + 1,
				.reader_id = holder ? NONE : 1,
				.area_id = holder ? NONE : 1,
				.container_id = NONE,
				.flags = (lost ? 0 : HF_OBJECT_REACHABLE) |
					 (holder ? HF_OBJECT_ROOT_HOLDER : 0),
				.idom = holder ? 0
					: top  ? num + 1 + lost
					       : model->idom[n] + 1ull,
				.retained_bytes = model->retained[n],
				.root_distance = lost ? NONE
						      : model->distance[n],
				.bfs_parent = lost || holder ? NONE
							     : parent + 1ull,
			});
		if (top && !holder)
			pseudo_bytes[lost] += model->retained[n];
		addr += holder ? 0 : node->size_bytes + 8;
		type->stat.count++;
		type->stat.bytes += node->size_bytes;
		type->stat.unreachable_count += lost;
		type->stat.unreachable_bytes += lost ? node->size_bytes : 0;
	}
	for (uint64_t i = 0; !err && i < 2; i++)
		err = hf_db_put_object(
			db, &(struct hf_db_object){
				    .id = num + 1 + i,
				    .addr = NONE,
				    .extent_bytes = NONE,
				    .type_id = model->types.num + 1 + i,
				    .reader_id = NONE,
				    .area_id = NONE,
				    .container_id = NONE,
				    .flags = HF_OBJECT_PSEUDO |
					     (i ? 0 : HF_OBJECT_REACHABLE),
				    .retained_bytes = pseudo_bytes[i],
				    .root_distance = NONE,
				    .bfs_parent = NONE });
	return err;
}

static struct hf_error *put_refs(const struct model *model,
				 struct hf_db_writer *db)
{
	struct hf_error *err = NULL;
	uint64_t num_roots = 0;

	for (size_t e = 0; !err && e < model->edges.num; e++) {
		const struct edge *edge = &model->edges.data[e];

		err = hf_db_put_ref(db, edge->src + 1ull, edge->slot,
				    edge->dst + 1ull, edge->flags);
		if (err || edge->src >= model->num_holders)
			continue;
		err = hf_db_put_root(
			db, &(struct hf_db_root){
				    .id = ++num_roots,
				    .holder_id = edge->src + 1ull,
				    .object_id = edge->dst + 1ull,
				    .kind = model->nodes.data[edge->src].kind,
				    .addr = NONE,
				    .thread_id = NONE,
				    .frame_id = NONE,
				    .module_id = NONE,
				    .type_id = NONE,
				    .confidence = 0.5 });
	}
	return err;
}

static struct hf_error *put_types(struct model *model, struct hf_db_writer *db)
{
	static const char *const pseudo[] = { "(several roots)",
					      "(unreachable)" };
	uint64_t num = model->types.num;
	struct hf_error *err = NULL;

	for (uint64_t i = 0; !err && i < num + 2; i++)
		err = hf_db_put_type(
			db,
			&(struct hf_db_type){
				.id = i + 1,
				.name = i < num ? model->types.data[i].name
						: pseudo[i - num],
				.kind = i < num ? model->types.data[i].kind
						: "pseudo",
				.size_bytes = NONE,
				.module_id = NONE });
	for (uint64_t i = 0; !err && i < num; i++) {
		struct hf_db_type_stat *stat = &model->types.data[i].stat;

		if (!strcmp(model->types.data[i].kind, "root_holder"))
			continue;
		stat->type_id = i + 1;
		stat->retained_bytes = model->type_retained[i];
		err = hf_db_put_type_stat(db, stat);
	}
	return err;
}

static struct hf_error *put_summary(const struct model *model,
				    struct hf_db_writer *db)
{
	struct hf_snapshot_row row = { .source = "core",
				       .safe_point = "none",
				       .consistency = "exact",
				       .objects = model->nodes.num -
						  model->num_holders,
				       .refs = model->edges.num };
	struct hf_db_area area = { .id = 1,
				   .reader_id = 1,
				   .kind = "arena",
				   .start = 0x10000 };
	struct hf_error *err;

	for (size_t n = 0; n < model->nodes.num; n++)
		row.live_bytes += model->nodes.data[n].size_bytes;
	area.used_bytes = row.live_bytes;
	area.end = area.start + row.live_bytes + 4096;
	row.private_anon_bytes = 2 * (row.live_bytes + 4096);
	row.unknown_bytes = row.private_anon_bytes / 4;
	err = hf_db_put_snapshot(db, &row);
	if (!err)
		err = hf_db_put_reader(
			db, &(struct hf_db_reader){ 1, "graph-text", "1",
						    "high", "by hand" });
	return err ? err : hf_db_put_area(db, &area);
}

struct hf_error *hf_graph_text_write(const char *text_path,
				     const char *db_path)
{
	HF_AUTO(hf_db_writer) struct hf_db_writer *db = NULL;
	struct model model = { .text = NULL };
	struct hf_error *err = parse(&model, text_path);

	if (!err)
		err = build_graph(&model);
	if (!err)
		err = analyse(&model);
	if (!err)
		err = hf_db_writer_create(db_path, &db);
	if (!err)
		err = put_summary(&model, db);
	if (!err)
		err = put_threads(&model, db);
	if (!err)
		err = put_objects(&model, db);
	if (!err)
		err = put_types(&model, db);
	if (!err)
		err = put_refs(&model, db);
	if (!err)
		err = hf_db_writer_commit(db, NULL);
	deinit(&model);
	return err;
}

struct hf_error *hf_graph_text_find(const char *text_path, const char *name,
				    uint64_t *id_ret)
{
	struct model model = { .text = NULL };
	struct hf_error *err = parse(&model, text_path);
	uint32_t node;

	if (!err)
		*id_ret = find(&model, name, &node) ? node + 1ull : 0;
	deinit(&model);
	return err;
}
