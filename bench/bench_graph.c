/* Bench of the scan and the graph: time and memory of each step, next to what
 * the memory of this machine can do in the same minute.
 * SPDX-License-Identifier: MIT
 *
 * usage: bench_graph [OBJECTS [ROUNDS]]
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "bench/synthetic_heap.h"
#include "indexer/graph/address_map_internal.h"
#include "indexer/graph/flat_array.h"
#include "indexer/graph/graph.h"
#include "indexer/scan.h"
#include "util/progress.h"

enum { MAX_ROUNDS = 15 };

static void require(struct hf_error *err)
{
	if (!err)
		return;
	fprintf(stderr, "bench_graph: %s\n", err->message);
	exit(1);
}

static void *require_array(void *array)
{
	if (!array) {
		fprintf(stderr, "bench_graph: out of memory\n");
		exit(1);
	}
	return array;
}

/* Wall time says what a user waits; CPU time what other load on the machine
 * did not add to it. The medians of all rounds. */
struct times {
	uint64_t wall_ns[MAX_ROUNDS], cpu_ns[MAX_ROUNDS];
	uint64_t wall_start, cpu_start;
	int num;
};

static uint64_t cpu_now(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &ts);
	return (uint64_t)ts.tv_sec * 1000000000u + (uint64_t)ts.tv_nsec;
}

static void start(struct times *times)
{
	times->cpu_start = cpu_now();
	times->wall_start = hf_now_ns();
}

static void stop(struct times *times)
{
	times->wall_ns[times->num] = hf_now_ns() - times->wall_start;
	times->cpu_ns[times->num++] = cpu_now() - times->cpu_start;
}

static int compare_u64(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* @param bytes read by the step, or 0 where that says nothing. */
static void report(const char *step, struct times *times, uint64_t objects,
		   uint64_t bytes)
{
	qsort(times->wall_ns, (size_t)times->num, 8, compare_u64);
	qsort(times->cpu_ns, (size_t)times->num, 8, compare_u64);
	double wall = (double)times->wall_ns[times->num / 2];
	double cpu = (double)times->cpu_ns[times->num / 2];

	printf("%-34s %8.3f %8.3f %10.1f", step, wall / 1e9, cpu / 1e9,
	       cpu / (double)objects);
	if (bytes)
		printf(" %8.1f", (double)bytes / wall);
	printf("\n");
	fflush(stdout);
}

/* Make the compiler believe that somebody wants the result. */
static void keep(uint64_t value)
{
	__asm__ volatile("" : : "r"(value));
}

static double peak_mib(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return (double)usage.ru_maxrss / 1024;
}

/* The widest vectors there are: what the memory can do, not the loop. */
__attribute__((target_clones("avx512f", "avx2", "default"))) static uint64_t
sum_words(const uint64_t *words, uint64_t num)
{
	uint64_t sum[32] = { 0 }, total = 0;

	for (uint64_t i = 0; i + 32 <= num; i += 32)
		for (int lane = 0; lane < 32; lane++)
			sum[lane] += words[i + (uint64_t)lane];
	for (int lane = 0; lane < 32; lane++)
		total += sum[lane];
	return total;
}

static void bench_bandwidth(const struct synthetic_heap *heap, int rounds)
{
	struct times times = { 0 };

	for (int k = 0; k < rounds; k++) {
		start(&times);
		keep(sum_words(heap->words, heap->num_bytes / 8));
		stop(&times);
	}
	report("baseline: sum of all words", &times, heap->num,
	       heap->num_bytes);
}

/* Reads that depend on each other, over an array of 8 bytes an object. */
static void bench_latency(const struct synthetic_heap *heap, int rounds)
{
	struct times times = { 0 };
	uint64_t *next = require_array(hf_flat_uninit(heap->num, 8));
	uint32_t num_steps = heap->num / 4;
	uint64_t seed = 42;

	for (uint32_t i = 0; i < heap->num; i++)
		next[i] = i;
	/* One cycle through all: Sattolo's shuffle. */
	for (uint32_t i = heap->num - 1; i > 0; i--) {
		seed = seed * 6364136223846793005 + 1442695040888963407;
		uint32_t other = (uint32_t)((seed >> 32) % i);
		uint64_t kept = next[i];

		next[i] = next[other];
		next[other] = kept;
	}
	for (int k = 0; k < rounds; k++) {
		uint64_t at = 0;

		start(&times);
		for (uint32_t i = 0; i < num_steps; i++)
			at = next[at];
		stop(&times);
		keep(at);
	}
	report("baseline: dependent random read", &times, num_steps, 0);
	free(next);
}

static void bench_map(const struct synthetic_heap *heap, int rounds)
{
	static const char *const names[HF_NUM_FILTERS] = {
		"find pointers, scalar",
		"find pointers, AVX2",
		"find pointers, AVX-512",
	};
	enum { STRIDE = 2048 };
	static struct hf_hit hits[STRIDE];
	struct hf_address_map *map = NULL;
	struct times build = { 0 };
	uint64_t num_words = heap->num_bytes / 8, num_hits = 0;

	for (int k = 0; k < rounds; k++) {
		hf_address_map_destroy(map);
		start(&build);
		require(hf_address_map_create(heap->starts, heap->sizes,
					      heap->num, &map));
		stop(&build);
	}
	report("build the address map", &build, heap->num, 0);
	for (int filter = 0; filter < HF_NUM_FILTERS; filter++) {
		struct times times = { 0 };

		if (!hf_filter_is_supported((enum hf_filter)filter))
			continue;
		for (int k = 0; k < rounds; k++) {
			num_hits = 0;
			start(&times);
			for (uint64_t i = 0; i < num_words; i += STRIDE)
				num_hits += hf_address_map_scan_with(
					map, (enum hf_filter)filter,
					heap->words + i,
					num_words - i < STRIDE ?
						num_words - i : STRIDE,
					hits);
			stop(&times);
		}
		report(names[filter], &times, heap->num, heap->num_bytes);
	}
	printf("  %" PRIu64 " words, %" PRIu64 " pointers, map %.1f MB "
	       "(%.2f bytes/object)\n", num_words, num_hits,
	       (double)hf_address_map_bytes(map) / 1e6,
	       (double)hf_address_map_bytes(map) / heap->num);
	hf_address_map_destroy(map);
}

/* The heap as an image: reads are copies from one array. */
static size_t read_heap(void *arg, const struct hf_range *ranges,
			size_t num_ranges, void *buf)
{
	const struct synthetic_heap *heap = arg;
	size_t done = 0;

	for (size_t i = 0; i < num_ranges; i++) {
		const struct synthetic_range *range = heap->ranges;
		size_t len = ranges[i].end - ranges[i].start;

		while (ranges[i].start - range->addr >= range->bytes)
			range++;
		memcpy((char *)buf + done,
		       (const char *)heap->words + range->off +
			       (ranges[i].start - range->addr),
		       len);
		done += len;
	}
	return done;
}

static void keep_heap(void *arg)
{
	(void)arg;
}

static const struct hf_image_ops heap_ops = {
	.read = read_heap,
	.destroy = keep_heap,
};

/* One holder: a register for each root would not be a real program's, so the
 * roots are entries of the graph here. */
static void bench_scan(struct synthetic_heap *heap, int rounds,
		       struct hf_edges *edges)
{
	struct hf_holders holders = { 0 };
	struct hf_block_table blocks = {
		.num = heap->num,
		.addr = heap->starts,
		.size_bytes = heap->sizes,
	};
	struct hf_image *image = NULL;
	struct times times = { 0 };

	require(hf_image_create(&heap_ops, heap, &image));
	for (int r = 0; r < SYNTHETIC_RANGES; r++) {
		struct hf_segment segment = {
			.start = heap->ranges[r].addr,
			.end = heap->ranges[r].addr + heap->ranges[r].bytes,
			.prot = PROT_READ | PROT_WRITE,
			.module_id = HF_NO_MODULE,
		};

		require(hf_image_add_segment(image, &segment));
		require(hf_image_add_resident(
			image, (struct hf_range){ segment.start,
						  segment.end }));
	}
	require(hf_image_freeze(image));
	for (int k = 0; k < rounds; k++) {
		hf_edges_deinit(edges);
		start(&times);
		require(hf_scan(image, &holders, &blocks, NULL, edges));
		stop(&times);
	}
	report("scan: image to graph", &times, heap->num, heap->num_bytes);
	printf("  %" PRIu64 " edges, peak %.1f bytes/object\n",
	       edges->graph.num_edges,
	       (double)edges->peak_bytes / heap->num);
	hf_image_destroy(image);
}

/* The arrays of the graph phases, by node. */
struct results {
	uint32_t *parent, *distance, *idom, *order, *heads;
	uint64_t *retained;
	uint32_t num_heads, num_ordered;
};

static void bench_reach(const struct synthetic_heap *heap,
			const struct hf_graph *graph, int rounds,
			struct results *results)
{
	struct times reach = { 0 }, heads = { 0 };
	uint32_t num_reached = 0;

	for (int k = 0; k < rounds; k++) {
		memset(results->parent, 0xff, heap->num * sizeof(uint32_t));
		start(&reach);
		require(hf_graph_reach(graph, heap->roots, heap->num_roots,
				       results->parent, results->distance,
				       NULL));
		stop(&reach);
		free(results->heads);
		start(&heads);
		require(hf_graph_heads(graph, results->parent,
				       &results->heads, &results->num_heads,
				       NULL));
		stop(&heads);
	}
	report("reach", &reach, heap->num, 0);
	report("heads", &heads, heap->num, 0);
	for (uint32_t i = 0; i < heap->num; i++)
		num_reached += results->parent[i] != HF_NODE_NONE;
	printf("  %u reached, %u not, %u heads\n", num_reached,
	       heap->num - num_reached, results->num_heads);
}

static void bench_dominators(const struct synthetic_heap *heap,
			     const struct hf_graph *graph, int rounds,
			     struct results *results)
{
	struct times dominators = { 0 }, retained = { 0 }, rest = { 0 };
	uint32_t num_top = 0;
	double before = peak_mib();

	for (int k = 0; k < rounds; k++) {
		memset(results->idom, 0xff, heap->num * sizeof(uint32_t));
		results->num_ordered = 0;
		start(&dominators);
		require(hf_graph_dominators(graph, heap->roots,
					    heap->num_roots, results->idom,
					    results->order,
					    &results->num_ordered, NULL));
		stop(&dominators);
		start(&rest);
		require(hf_graph_dominators(graph, results->heads,
					    results->num_heads, results->idom,
					    results->order,
					    &results->num_ordered, NULL));
		stop(&rest);
		memcpy(results->retained, heap->sizes, heap->num * 8);
		start(&retained);
		hf_graph_retained(results->idom, results->order,
				  results->num_ordered, results->retained);
		stop(&retained);
	}
	report("dominators", &dominators, heap->num, 0);
	report("dominators of the unreachable", &rest, heap->num, 0);
	report("retained", &retained, heap->num, 0);
	for (uint32_t i = 0; i < heap->num; i++)
		num_top += results->idom[i] == HF_NODE_ROOT;
	printf("  %u ordered, %u below the root; peak rose by %.1f "
	       "bytes/object\n", results->num_ordered, num_top,
	       (peak_mib() - before) * 1048576 / heap->num);
}

int main(int argc, char **argv)
{
	uint32_t num = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 0) :
				  1000000;
	int rounds = argc > 2 ? atoi(argv[2]) : 3;
	struct synthetic_heap heap;
	struct hf_edges edges = { 0 };

	if (num < 1000 || num > HF_MAX_NODES || rounds < 1 ||
	    rounds > MAX_ROUNDS) {
		fprintf(stderr, "usage: bench_graph [OBJECTS [ROUNDS]]\n");
		return 2;
	}
	synthetic_heap_create(&heap, num);
	printf("%u objects, %.3f GB, median of %d\n", num,
	       (double)heap.num_bytes / 1e9, rounds);
	printf("%-34s %8s %8s %10s %8s\n", "step", "wall s", "CPU s",
	       "ns/object", "GB/s");
	bench_bandwidth(&heap, rounds);
	bench_latency(&heap, rounds);
	bench_map(&heap, rounds);
	bench_scan(&heap, rounds, &edges);

	free(heap.words);
	heap.words = NULL;
	struct results results = {
		.parent = require_array(hf_flat_uninit(num, 4)),
		.distance = require_array(hf_flat_uninit(num, 4)),
		.idom = require_array(hf_flat_uninit(num, 4)),
		.order = require_array(hf_flat_uninit(num, 4)),
		.retained = require_array(hf_flat_uninit(num, 8)),
	};
	bench_reach(&heap, &edges.graph, rounds, &results);
	bench_dominators(&heap, &edges.graph, rounds, &results);
	printf("peak of the program %.0f MiB\n", peak_mib());
	free(results.parent);
	free(results.distance);
	free(results.idom);
	free(results.order);
	free(results.heads);
	free(results.retained);
	hf_edges_deinit(&edges);
	synthetic_heap_destroy(&heap);
	return 0;
}
