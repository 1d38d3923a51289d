/* Synthetic heap: memory as malloc and a program would have left it.
 * SPDX-License-Identifier: MIT */
#include "bench/synthetic_heap.h"

#include <stdio.h>
#include <string.h>

#include "indexer/graph/flat_array.h"

enum { MAX_TARGETS = 64 };

/* Objects have two numbers: the logical one, in which children of a node are
 * neighbours, and the place in memory. */
struct forest {
	uint32_t num;
	uint32_t *parent;       /* logical; UINT32_MAX for roots of trees */
	uint32_t *first_child;  /* logical */
	uint8_t *num_children;
	uint8_t *is_lost;       /* in a tree that no root holds */
	uint32_t *place;        /* logical -> memory */
	uint32_t *logical;      /* memory -> logical */
	uint64_t seed;
};

static uint64_t random_u64(uint64_t *seed)
{
	uint64_t x = *seed;

	x ^= x << 13;
	x ^= x >> 7;
	x ^= x << 17;
	return *seed = x;
}

static double random_unit(uint64_t *seed)
{
	return (double)(random_u64(seed) >> 11) * 0x1p-53;
}

static void *array(size_t num, size_t element_bytes)
{
	void *ret = hf_flat_zeroed(num, element_bytes);

	if (!ret) {
		fprintf(stderr, "out of memory\n");
		abort();
	}
	return ret;
}

/* Trees grown at random leaves; a few are lists. */
static void grow_trees(struct forest *forest, struct synthetic_heap *heap)
{
	uint32_t num = forest->num, next = 0, depth = 0, in_tree = 0;
	uint32_t largest = num / 200 + 1;
	HF_AUTO_FREE uint32_t *leaves = array(num, sizeof(*leaves));
	uint64_t *seed = &forest->seed;
	bool is_lost = false, is_list = false;

	while (next < num || depth) {
		if (!depth || in_tree > largest) {
			if (next >= num)
				break;
			depth = in_tree = 0;
			is_lost = random_u64(seed) % 20 == 0;
			is_list = random_u64(seed) % 4000 == 0;
			if (!is_lost)
				heap->roots[heap->num_roots++] = next;
			forest->is_lost[next] = is_lost;
			forest->parent[next] = UINT32_MAX;
			leaves[depth++] = next++;
		}
		uint32_t at = depth - 1 -
			      (uint32_t)(random_u64(seed) %
					 (depth > 4 ? 4 : depth));
		uint32_t node = leaves[at], children = is_list;

		leaves[at] = leaves[--depth];
		in_tree++;
		while (!is_list && (random_u64(seed) & 1) && children < 28)
			children++;
		if (children > num - next)
			children = num - next;
		forest->first_child[node] = next;
		forest->num_children[node] = (uint8_t)children;
		for (; children; children--, next++) {
			forest->parent[next] = node;
			forest->is_lost[next] = is_lost;
			leaves[depth++] = next;
		}
	}
}

static void swap(uint32_t *a, uint32_t *b)
{
	uint32_t kept = *a;

	*a = *b;
	*b = kept;
}

/* Neighbours stay near each other; one in ten goes anywhere. */
static void place_objects(struct forest *forest)
{
	uint32_t num = forest->num, *logical = forest->logical;
	uint64_t *seed = &forest->seed;

	for (uint32_t i = 0; i < num; i++)
		logical[i] = i;
	for (uint32_t start = 0; start < num; start += 512) {
		uint32_t end = num - start < 512 ? num : start + 512;

		for (uint32_t i = end - 1; i > start; i--)
			swap(&logical[i],
			     &logical[start + random_u64(seed) %
						      (i - start + 1)]);
	}
	for (uint32_t i = 0; i < num / 20; i++)
		swap(&logical[random_u64(seed) % num],
		     &logical[random_u64(seed) % num]);
	for (uint32_t i = 0; i < num; i++)
		forest->place[logical[i]] = i;
}

static void lay_out(struct synthetic_heap *heap, uint64_t *seed)
{
	static const uint64_t bases[SYNTHETIC_RANGES] = {
		0x555557a5a000, 0x7fa010000000, 0x7fa410000000, 0x7fa810000000,
		0x7fb010000000, 0x7fb810000000, 0x7fc010000000, 0x7fd010000000,
	};
	uint32_t each = heap->num / SYNTHETIC_RANGES + 1, i = 0;
	uint64_t off = 0;

	for (int r = 0; r < SYNTHETIC_RANGES; r++) {
		uint64_t at = bases[r] + 16;

		for (uint32_t k = 0; k < each && i < heap->num; k++, i++) {
			uint64_t asked = 16 + random_u64(seed) % 241;
			uint64_t chunk = (asked + 8 + 15) & -UINT64_C(16);

			chunk = chunk < 32 ? 32 : chunk;
			heap->starts[i] = at;
			heap->sizes[i] = chunk - 8;
			at += chunk;
		}
		heap->ranges[r] = (struct synthetic_range){
			bases[r], off, (at - bases[r] + 4095) & -UINT64_C(4096)
		};
		off += heap->ranges[r].bytes;
	}
	heap->num_bytes = off;
	heap->words = array(off / 8, 8);
}

/* Memory places of what the object at `place` points to. */
static uint32_t choose_targets(struct forest *forest, uint32_t place,
			       uint32_t *target)
{
	uint32_t node = forest->logical[place], num = forest->num, count = 0;
	uint64_t *seed = &forest->seed;
	uint8_t is_lost = forest->is_lost[node];
	uint32_t far[4], num_far = 0;

	for (uint32_t i = 0; i < forest->num_children[node]; i++)
		target[count++] = forest->place[forest->first_child[node] + i];
	if (forest->parent[node] != UINT32_MAX && random_unit(seed) < 0.5)
		target[count++] = forest->place[forest->parent[node]];
	if (node + 1 < num && forest->is_lost[node + 1] == is_lost &&
	    random_unit(seed) < 0.5)
		target[count++] = forest->place[node + 1];
	if (random_unit(seed) < 0.3)
		for (int i = 0; i < 2; i++) {
			double unit = random_unit(seed);
			double hot = num / 100.0 * unit * unit * unit;

			far[num_far++] = (uint32_t)((uint64_t)hot *
						    257890441231u % num);
		}
	if (random_unit(seed) < 0.4) {
		int64_t near = (int64_t)place +
			       (int64_t)(random_u64(seed) % 2001) - 1000;

		if (near >= 0 && near < num)
			far[num_far++] = (uint32_t)near;
	}
	if (random_unit(seed) < 0.05)
		far[num_far++] = (uint32_t)(random_u64(seed) % num);
	for (uint32_t i = 0; i < num_far; i++)
		if (forest->is_lost[forest->logical[far[i]]] == is_lost)
			target[count++] = far[i];
	return count;
}

static uint64_t other_word(uint64_t *seed)
{
	uint64_t x = random_u64(seed);
	uint64_t kind = (x >> 32) % 20, bits;
	double number;

	if (kind < 7)
		return 0;
	if (kind < 12)
		return x & 0xfffff;
	if (kind < 14)
		return 0x555555554000 + (x & 0x1ffff8);
	if (kind < 16) {
		number = (double)(x & 0xffffff) / 7;
		memcpy(&bits, &number, sizeof(bits));
		return bits;
	}
	if (kind < 18)
		return (x & 0x3f3f3f3f3f3f3f3f) + 0x2020202020202020;
	return 0x7ff000000000 + (x & 0xffffffff8);
}

static void write_object(struct forest *forest, struct synthetic_heap *heap,
			 uint32_t place, uint64_t *words)
{
	uint32_t target[MAX_TARGETS], next = 0;
	uint32_t num_words = (uint32_t)(heap->sizes[place] / 8);
	uint32_t num = choose_targets(forest, place, target);
	uint64_t *seed = &forest->seed;

	words[-1] = (heap->sizes[place] + 8) | 1;
	if (num > num_words)
		num = num_words;
	for (uint32_t i = 0; i < num_words; i++) {
		if (next == num ||
		    random_unit(seed) * (num_words - i) >= num - next) {
			words[i] = other_word(seed);
			continue;
		}
		uint32_t to = target[next++];

		words[i] = heap->starts[to];
		if (random_u64(seed) % 10 == 0)
			words[i] += random_u64(seed) % (heap->sizes[to] / 8) *
				    8;
	}
}

void synthetic_heap_create(struct synthetic_heap *heap, uint32_t num)
{
	struct forest forest = {
		.num = num,
		.parent = array(num, sizeof(*forest.parent)),
		.first_child = array(num, sizeof(*forest.first_child)),
		.num_children = array(num, sizeof(*forest.num_children)),
		.is_lost = array(num, sizeof(*forest.is_lost)),
		.place = array(num, sizeof(*forest.place)),
		.logical = array(num, sizeof(*forest.logical)),
		.seed = 88172645463325252,
	};
	uint32_t r = 0;

	*heap = (struct synthetic_heap){
		.num = num,
		.starts = array(num, sizeof(*heap->starts)),
		.sizes = array(num, sizeof(*heap->sizes)),
		.roots = array(num, sizeof(*heap->roots)),
	};
	grow_trees(&forest, heap);
	place_objects(&forest);
	lay_out(heap, &forest.seed);
	for (uint32_t i = 0; i < num; i++) {
		while (heap->starts[i] - heap->ranges[r].addr >=
		       heap->ranges[r].bytes)
			r++;
		write_object(&forest, heap, i,
			     &heap->words[(heap->ranges[r].off +
					   heap->starts[i] -
					   heap->ranges[r].addr) / 8]);
	}
	for (uint32_t i = 0; i < heap->num_roots; i++)
		heap->roots[i] = forest.place[heap->roots[i]];
	free(forest.parent);
	free(forest.first_child);
	free(forest.num_children);
	free(forest.is_lost);
	free(forest.place);
	free(forest.logical);
}

void synthetic_heap_destroy(struct synthetic_heap *heap)
{
	free(heap->starts);
	free(heap->sizes);
	free(heap->words);
	free(heap->roots);
	*heap = (struct synthetic_heap){ 0 };
}
