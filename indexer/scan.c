/* Scan: the words of holders and blocks, read as edges of the graph.
 * SPDX-License-Identifier: MIT */
#include "indexer/scan.h"

#include <string.h>

#include "coredump/sweep.h"
#include "indexer/edge_list.h"
#include "indexer/graph/address_map.h"
#include "indexer/graph/flat_array.h"
#include "util/array.h"

/* The target is read once. How many edges it has is known only afterwards, so
 * they gather in lists of chunks; a second reading to count them first would
 * cost more than the copy at the end (reading is the slow part), and the copy
 * needs no memory to speak of.
 *
 * A part is a run of sources in address order with a list of its own; edges
 * of its sources are numbered from 0 until the parts are joined. There is one
 * for holders, one for registers and one for blocks; several parts of blocks
 * may be read by several threads, they share only what is constant.
 *
 * Sources are merged into ranges to sweep, over gaps of less than a page:
 * large free blocks are not read. Pieces of the sweep and sources then move on
 * side by side. A source may lie in several pieces, a piece in several
 * sources, and bytes of a piece in none. */

enum {
	MERGE_GAP_BYTES = 4096,
	/* Words looked up at a time: their hits stay in the first cache. */
	STRIDE_WORDS = 2048,
	PROGRESS_BYTES = 32 << 20,
};

HF_DEFINE_AUTO(struct hf_edge_list *, edge_list, hf_edge_list_deinit)

/** A run of sources, disjoint and ascending. */
struct part {
	/* constant */
	const struct hf_image *image;
	const struct hf_address_map *map;
	const struct hf_progress *progress;
	const uint64_t *starts;
	const uint64_t *sizes;
	uint32_t num;
	uint32_t target_base;   /* node of the first block */
	uint64_t *first;        /* num entries: edges before each source */
	uint64_t *first_word;   /* num entries, or NULL if nobody asks */
	uint64_t total_bytes;   /* of all parts, for the progress */
	uint64_t *done_bytes;   /* of all parts */
	/* moving */
	struct hf_edge_list *list;
	uint32_t at;            /* source being read */
	bool is_begun;          /* first[at] is set */
	uint64_t read_bytes;    /* of sources */
	uint64_t missing_bytes; /* of sources */
};

/* The whole aligned words of a source. */
static inline struct hf_range words_of(const struct part *part, uint32_t i)
{
	uint64_t start = part->starts[i], end = start + part->sizes[i];
	struct hf_range range = { (start + 7) & -UINT64_C(8),
				  end & -UINT64_C(8) };

	if (range.end < range.start)
		range.end = range.start;
	return range;
}

/* All sources whose words end at or before `addr` are over. */
static void skip_to(struct part *part, uint64_t addr)
{
	while (part->at < part->num && words_of(part, part->at).end <= addr) {
		if (!part->is_begun)
			part->first[part->at] = part->list->num;
		part->is_begun = false;
		part->at++;
	}
}

static inline uint32_t slot_of(const struct part *part, uint64_t addr)
{
	uint64_t base = part->starts[part->at] & -UINT64_C(8);
	uint64_t slot = (addr - base) / 8;

	return slot < UINT32_MAX ? (uint32_t)slot : UINT32_MAX;
}

/* Words [addr, end) and what they point to. */
struct stride {
	uint64_t addr, end;
	const uint64_t *words;
	const struct hf_hit *hits;
	size_t num_hits;
};

static inline uint64_t addr_of_hit(const struct stride *stride, size_t i)
{
	return stride->addr + (uint64_t)stride->hits[i].word * 8;
}

static struct hf_error *merge(struct part *part, const struct stride *stride)
{
	size_t hit = 0;
	struct hf_error *err;

	while (part->at < part->num) {
		struct hf_range source = words_of(part, part->at);

		if (source.start >= stride->end)
			break;
		if (!part->is_begun) {
			part->is_begun = true;
			part->first[part->at] = part->list->num;
			if (part->first_word && source.start < source.end &&
			    source.start == part->starts[part->at] &&
			    source.start >= stride->addr)
				part->first_word[part->at] =
					stride->words[(source.start -
						       stride->addr) / 8];
		}
		while (hit < stride->num_hits &&
		       addr_of_hit(stride, hit) < source.start)
			hit++;
		while (hit < stride->num_hits &&
		       addr_of_hit(stride, hit) < source.end) {
			const struct hf_hit *found = &stride->hits[hit];

			err = hf_edge_list_add(
				part->list, part->target_base + found->object,
				slot_of(part, addr_of_hit(stride, hit)),
				found->interior);
			if (err)
				return err;
			hit++;
		}
		uint64_t low = source.start > stride->addr ? source.start :
							     stride->addr;
		uint64_t high = source.end < stride->end ? source.end :
							   stride->end;
		if (high > low)
			part->read_bytes += high - low;
		if (source.end > stride->end)
			break;
		part->is_begun = false;
		part->at++;
	}
	return NULL;
}

static struct hf_error *read_piece(struct part *part,
				   const struct hf_piece *piece)
{
	struct hf_hit hits[STRIDE_WORDS];
	size_t num_words = piece->len / 8, num;
	struct hf_error *err;

	skip_to(part, piece->addr);
	for (size_t done = 0; done < num_words; done += num) {
		num = num_words - done;
		if (num > STRIDE_WORDS)
			num = STRIDE_WORDS;
		struct stride stride = {
			.addr = piece->addr + done * 8,
			.end = piece->addr + (done + num) * 8,
			.words = piece->words + done,
			.hits = hits,
			.num_hits = hf_address_map_scan(
				part->map, piece->words + done, num, hits),
		};
		err = merge(part, &stride);
		if (err)
			return err;
	}
	uint64_t before = *part->done_bytes / PROGRESS_BYTES;
	*part->done_bytes += piece->len;
	if (*part->done_bytes / PROGRESS_BYTES == before)
		return NULL;
	return hf_progress_update(part->progress, "scan", *part->done_bytes,
				  part->total_bytes);
}

/* Merge sources into few ranges. They are not all words of sources: what lies
 * between two is read with them and ignored. */
static struct hf_error *ranges_of(const struct part *part,
				  struct hf_range **ret, size_t *num_ret,
				  uint64_t *bytes_ret)
{
	HF_ARRAY(struct hf_range) ranges = { 0 };
	struct hf_error *err = NULL;

	for (uint32_t i = 0; i < part->num && !err; i++) {
		struct hf_range range = words_of(part, i);
		struct hf_range *last = ranges.num ?
						&ranges.data[ranges.num - 1] :
						NULL;

		if (range.start == range.end)
			continue;
		*bytes_ret += range.end - range.start;
		if (last && range.start - last->end < MERGE_GAP_BYTES)
			last->end = range.end;
		else
			err = hf_array_append(&ranges, range);
	}
	if (err) {
		hf_array_deinit(&ranges);
		return err;
	}
	*ret = ranges.data;
	*num_ret = ranges.num;
	return NULL;
}

static struct hf_error *read_part(struct part *part)
{
	HF_AUTO(hf_sweep) struct hf_sweep *sweep = NULL;
	HF_AUTO_FREE struct hf_range *ranges = NULL;
	uint64_t source_bytes = 0;
	size_t num_ranges = 0;
	struct hf_piece piece;
	struct hf_error *err = hf_sweep_create(part->image, &sweep);

	if (!err)
		err = ranges_of(part, &ranges, &num_ranges, &source_bytes);
	if (err)
		return err;
	hf_sweep_start(sweep, ranges, num_ranges);
	while (hf_sweep_next(sweep, &piece)) {
		err = read_piece(part, &piece);
		if (err)
			return err;
	}
	skip_to(part, UINT64_MAX);
	/* The sweep also misses what lies between sources, and sources also
	 * lack pages that were never touched and hold nothing. */
	part->missing_bytes = hf_sweep_missing_bytes(sweep);
	if (part->missing_bytes > source_bytes - part->read_bytes)
		part->missing_bytes = source_bytes - part->read_bytes;
	return NULL;
}

/* Words that are in no memory of the target; the first one has slot `slot`. */
static struct hf_error *read_words(struct part *part, const void *bytes,
				   size_t len, uint32_t slot)
{
	enum { STRIDE = 64 };

	for (size_t at = 0; at + 8 <= len; at += STRIDE * 8) {
		uint64_t words[STRIDE];
		struct hf_hit hits[STRIDE];
		size_t num = (len - at) / 8 < STRIDE ? (len - at) / 8 : STRIDE;

		memcpy(words, (const char *)bytes + at, num * 8);
		part->read_bytes += num * 8;
		num = hf_address_map_scan(part->map, words, num, hits);
		for (size_t k = 0; k < num; k++) {
			struct hf_error *err = hf_edge_list_add(
				part->list,
				part->target_base + hits[k].object,
				slot + (uint32_t)(at / 8) + hits[k].word,
				hits[k].interior);

			if (err)
				return err;
		}
	}
	return NULL;
}

static bool in_library_call(const struct hf_image *image,
			    const struct hf_thread *thread)
{
	static const char *const names[] = { "libc.so", "libc-2.", "libpthread",
					     "ld-linux", "ld-2.", "ld-musl" };
	const struct hf_module *module =
		hf_image_find_module(image, thread->regs.rip);
	const char *slash;

	if (thread->stop_how != HF_STOP_SYSCALL || !module)
		return false;
	slash = strrchr(module->path, '/');
	for (size_t i = 0; slash && i < sizeof(names) / sizeof(*names); i++)
		if (!strncmp(slash + 1, names[i], strlen(names[i])))
			return true;
	return false;
}

/* General registers first, then the XSTATE area: between a load and a store of
 * a vector a pointer may be nowhere else. Not so in a system call of the C
 * library's: vector registers belong to the called function (x86-64 ABI 3.2.1),
 * so whoever called the wrapper has saved what it needs, and what they hold is
 * stale. Of a thread that could not be stopped, the registers that are not
 * known are zero. */
static struct hf_error *read_registers(struct part *part,
				       const struct hf_holders *holders,
				       uint32_t first_holder)
{
	size_t num_threads;
	const struct hf_thread *threads =
		hf_image_threads(part->image, &num_threads);

	for (uint32_t i = first_holder; i < holders->num; i++) {
		uint32_t index = holders->data[i].thread_index;
		const struct hf_thread *thread = &threads[index];
		struct hf_error *err;

		part->first[i - first_holder] = part->list->num;
		if (index >= num_threads)
			continue;
		err = read_words(part, &thread->regs, sizeof(thread->regs), 0);
		if (!err && thread->xstate &&
		    !in_library_call(part->image, thread))
			err = read_words(part, thread->xstate,
					 thread->xstate_bytes,
					 sizeof(thread->regs) / 8);
		if (err)
			return err;
	}
	return NULL;
}

/* Parts one after the other become the graph. */
static struct hf_error *join(struct part *parts, int num_parts,
			     uint64_t first_bytes, struct hf_edges *edges)
{
	struct hf_graph *graph = &edges->graph;
	uint64_t at = 0, list_bytes = 0;

	for (int i = 0; i < num_parts; i++) {
		graph->num_edges += parts[i].list->num;
		list_bytes += hf_edge_list_bytes(parts[i].list);
	}
	graph->target = hf_flat_uninit(graph->num_edges,
				       sizeof(*graph->target));
	edges->slot_words = hf_flat_uninit(graph->num_edges,
					   sizeof(*edges->slot_words));
	edges->is_interior = hf_flat_zeroed(graph->num_edges / 64 + 2,
					    sizeof(*edges->is_interior));
	if (!graph->target || !edges->slot_words || !edges->is_interior)
		return &hf_enomem;
	for (int i = 0; i < num_parts; i++) {
		uint64_t num = parts[i].list->num;

		for (uint32_t k = 0; k < parts[i].num; k++)
			parts[i].first[k] += at;
		hf_edge_list_move(parts[i].list, at, graph->target,
				  edges->slot_words, edges->is_interior);
		at += num;
		edges->scanned_bytes += parts[i].read_bytes;
		edges->missing_bytes += parts[i].missing_bytes;
	}
	graph->first[graph->num_nodes] = at;
	edges->peak_bytes = first_bytes + list_bytes +
			    HF_EDGE_CHUNK_EDGES * UINT64_C(8);
	return NULL;
}

/* Starts and sizes of the holders in memory, as flat arrays. */
static struct hf_error *holder_ranges(const struct hf_holders *holders,
				      uint64_t **starts_ret,
				      uint64_t **sizes_ret, uint32_t *num_ret)
{
	HF_AUTO_FREE uint64_t *starts = NULL;
	HF_AUTO_FREE uint64_t *sizes = NULL;
	uint32_t num = holders->num;

	while (num && holders->data[num - 1].kind == HF_HOLDER_REGISTERS)
		num--;
	starts = hf_flat_uninit(num, sizeof(*starts));
	sizes = hf_flat_uninit(num, sizeof(*sizes));
	if (!starts || !sizes)
		return &hf_enomem;
	for (uint32_t i = 0; i < num; i++) {
		starts[i] = holders->data[i].range.start;
		sizes[i] = holders->data[i].range.end - starts[i];
	}
	*starts_ret = HF_TAKE(starts);
	*sizes_ret = HF_TAKE(sizes);
	*num_ret = num;
	return NULL;
}

static struct hf_error *scan(const struct hf_image *image,
			     const struct hf_holders *holders,
			     const struct hf_block_table *blocks,
			     const struct hf_progress *progress,
			     struct hf_edges *edges)
{
	HF_AUTO(hf_address_map) struct hf_address_map *map = NULL;
	HF_AUTO_FREE uint64_t *holder_starts = NULL;
	HF_AUTO_FREE uint64_t *holder_sizes = NULL;
	struct hf_edge_list lists[3] = { 0 };
	HF_AUTO(edge_list) struct hf_edge_list *list0 = &lists[0];
	HF_AUTO(edge_list) struct hf_edge_list *list1 = &lists[1];
	HF_AUTO(edge_list) struct hf_edge_list *list2 = &lists[2];
	uint64_t done_bytes = 0, total_bytes = 0;
	uint32_t num_in_memory = 0;
	struct hf_error *err;

	err = holder_ranges(holders, &holder_starts, &holder_sizes,
			    &num_in_memory);
	if (!err)
		err = hf_address_map_create(blocks->addr, blocks->size_bytes,
					    blocks->num, &map);
	if (err)
		return err;
	for (uint32_t i = 0; i < num_in_memory; i++)
		total_bytes += holder_sizes[i];
	for (uint32_t i = 0; i < blocks->num; i++)
		total_bytes += blocks->size_bytes[i];

	struct part common = {
		.image = image,
		.map = map,
		.progress = progress,
		.target_base = holders->num,
		.total_bytes = total_bytes,
		.done_bytes = &done_bytes,
	};
	struct part parts[3] = { common, common, common };
	parts[0].list = list0;
	parts[0].starts = holder_starts;
	parts[0].sizes = holder_sizes;
	parts[0].num = num_in_memory;
	parts[0].first = edges->graph.first;
	parts[1].list = list1;
	parts[1].num = holders->num - num_in_memory;
	parts[1].first = edges->graph.first + num_in_memory;
	parts[2].list = list2;
	parts[2].starts = blocks->addr;
	parts[2].sizes = blocks->size_bytes;
	parts[2].num = blocks->num;
	parts[2].first = edges->graph.first + holders->num;
	parts[2].first_word = edges->first_word;

	err = read_part(&parts[0]);
	if (!err)
		err = read_registers(&parts[1], holders, num_in_memory);
	if (!err)
		err = read_part(&parts[2]);
	if (err)
		return err;
	uint64_t fixed_bytes = hf_address_map_bytes(map) +
			       (uint64_t)edges->graph.num_nodes * 8 +
			       (uint64_t)blocks->num * 8;
	hf_address_map_destroy(HF_TAKE(map));
	return join(parts, 3, fixed_bytes, edges);
}

struct hf_error *hf_scan(const struct hf_image *image,
			 const struct hf_holders *holders,
			 const struct hf_block_table *blocks,
			 const struct hf_progress *progress,
			 struct hf_edges *ret)
{
	struct hf_edges edges = { 0 };
	uint32_t num_nodes;
	struct hf_error *err;

	if (__builtin_add_overflow(holders->num, blocks->num, &num_nodes) ||
	    num_nodes > HF_MAX_NODES)
		return hf_error_create(HF_ERROR_UNSUPPORTED,
				       "more than %u objects",
				       (unsigned int)HF_MAX_NODES);
	edges.graph.num_nodes = num_nodes;
	edges.graph.first = hf_flat_zeroed((size_t)num_nodes + 1,
					   sizeof(*edges.graph.first));
	edges.first_word = hf_flat_zeroed(blocks->num,
					  sizeof(*edges.first_word));
	if (!edges.graph.first || !edges.first_word)
		err = &hf_enomem;
	else
		err = scan(image, holders, blocks, progress, &edges);
	if (err) {
		hf_edges_deinit(&edges);
		return err;
	}
	*ret = edges;
	return NULL;
}

void hf_edges_deinit(struct hf_edges *edges)
{
	hf_graph_deinit(&edges->graph);
	free(edges->slot_words);
	free(edges->is_interior);
	free(edges->first_word);
	*edges = (struct hf_edges){ 0 };
}
