/* Root holders: the memory outside all heaps that keeps objects alive.
 * SPDX-License-Identifier: MIT */
#include "indexer/holder.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "indexer/carve.h"
#include "indexer/holder_internal.h"

/* First all memory that a program could store a pointer in is free; then,
 * one after the other, the heap readers' areas and own (held by nobody), the
 * threads' stacks and TLS blocks, and the modules' data are carved out of it.
 * What is left is memory that nobody explains: pools of other allocators,
 * ld.so's own, file-backed tables. */

/* Slots are counted in words by 32 bits (indexer/scan.h). */
#define MAX_HOLDER_BYTES (UINT64_C(16) << 30)

const char *hf_holder_kind_name(enum hf_holder_kind kind)
{
	static const char *const names[] = {
		[HF_HOLDER_GLOBAL] = "global",
		[HF_HOLDER_TLS] = "tls",
		[HF_HOLDER_REGISTERS] = "register",
		[HF_HOLDER_STACK] = "stack",
		[HF_HOLDER_UNKNOWN] = "unknown_memory",
		[HF_HOLDER_SHARED] = "shared",
	};

	return names[kind];
}

void hf_holder_list_deinit(struct hf_holder_list *holders)
{
	for (size_t i = 0; i < holders->list.num; i++)
		free(holders->list.data[i].name);
	hf_array_deinit(&holders->list);
}

HF_DEFINE_AUTO(struct hf_holder_list *, hf_holder_list, hf_holder_list_deinit)

struct hf_error *hf_holder_list_take(struct hf_holder_list *holders,
				     const struct hf_holder *holder)
{
	struct hf_error *err =
		holder->name ? hf_array_append(&holders->list, *holder)
			     : &hf_enomem;

	if (err)
		free(holder->name);
	return err;
}

static bool is_private_anon(const struct hf_segment *segment)
{
	return segment->kind == HF_SEGMENT_ANON ||
	       segment->kind == HF_SEGMENT_BRK ||
	       segment->kind == HF_SEGMENT_STACK;
}

/* Whether pointers may have been stored here. Anonymous memory was written
 * before it was made read-only; so were the RELRO pages of a module. */
static bool may_hold_pointers(const struct hf_segment *segment)
{
	if (!(segment->prot & PROT_READ))
		return false;
	switch (segment->kind) {
	case HF_SEGMENT_ANON:
	case HF_SEGMENT_BRK:
	case HF_SEGMENT_STACK:
		return true;
	case HF_SEGMENT_FILE:
	case HF_SEGMENT_SHARED:
		return segment->prot & PROT_WRITE;
	case HF_SEGMENT_VDSO:
	case HF_SEGMENT_SPECIAL:
		break;
	}
	return false;
}

/* A module's data that was made read-only after relocation. */
static bool is_relro(const struct hf_segment *segments, size_t num, size_t i)
{
	const struct hf_segment *segment = &segments[i];

	return segment->kind == HF_SEGMENT_FILE &&
	       segment->module_id != HF_NO_MODULE &&
	       segment->prot == PROT_READ && i + 1 < num &&
	       segments[i + 1].module_id == segment->module_id &&
	       segments[i + 1].start == segment->end &&
	       (segments[i + 1].prot & PROT_WRITE);
}

static struct hf_error *find_free(const struct hf_image *image,
				  struct hf_ranges *ret,
				  uint64_t *private_anon_bytes)
{
	size_t num;
	const struct hf_segment *segments = hf_image_segments(image, &num);

	*private_anon_bytes = 0;
	for (size_t i = 0; i < num; i++) {
		struct hf_range range = { segments[i].start, segments[i].end };
		struct hf_error *err;

		if (is_private_anon(&segments[i]) &&
		    (segments[i].prot & PROT_WRITE))
			*private_anon_bytes += segments[i].resident_bytes;
		if (!may_hold_pointers(&segments[i]) &&
		    !is_relro(segments, num, i))
			continue;
		err = hf_array_append(&ret->list, range);
		if (err)
			return err;
	}
	return NULL;
}

static struct hf_error *carve_areas(const struct hf_block_table *blocks,
				    struct hf_ranges *free_ranges)
{
	size_t num = (size_t)blocks->num_areas + blocks->num_own;
	HF_AUTO_FREE struct hf_claim *claims = calloc(num + 1, sizeof(*claims));

	if (!claims)
		return &hf_enomem;
	for (uint32_t i = 0; i < blocks->num_areas; i++)
		claims[i].range = (struct hf_range){
			blocks->areas[i].area.start, blocks->areas[i].area.end
		};
	for (uint32_t i = 0; i < blocks->num_own; i++)
		claims[blocks->num_areas + i].range = blocks->own[i];
	return hf_carve(free_ranges, claims, hf_claims_normalize(claims, num),
			NULL, NULL);
}

static char *rest_name(const struct hf_segment *segment)
{
	const char *what = segment->kind == HF_SEGMENT_SHARED ? "shared memory"
			   : segment->path && segment->path[0] == '/'
				   ? "private mapping"
				   : "unknown memory";
	char *text;

	if (!segment->path || segment->kind == HF_SEGMENT_BRK ||
	    segment->kind == HF_SEGMENT_STACK)
		return strdup(what);
	if (asprintf(&text, "%s %s", what, segment->path) < 0)
		return NULL;
	return text;
}

/* What is left of one segment, in parts that a 32-bit slot can address. */
static struct hf_error *take_rest(const struct hf_image *image,
				  const struct hf_segment *segment,
				  struct hf_range range,
				  struct hf_holder_list *holders,
				  uint64_t *unknown_bytes)
{
	bool is_shared = segment->kind == HF_SEGMENT_SHARED;

	while (range.start < range.end) {
		struct hf_holder holder = {
			.kind = is_shared ? HF_HOLDER_SHARED
					  : HF_HOLDER_UNKNOWN,
			.range = range,
			.thread_index = UINT32_MAX,
			.frame = UINT32_MAX,
			.module_id = HF_NO_MODULE,
		};
		struct hf_error *err;
		uint64_t resident;

		if (range.end - range.start > MAX_HOLDER_BYTES)
			holder.range.end = range.start + MAX_HOLDER_BYTES;
		range.start = holder.range.end;
		resident = hf_resident_bytes(image, holder.range);
		if (!resident)
			continue;
		if (is_private_anon(segment) && (segment->prot & PROT_WRITE))
			*unknown_bytes += resident;
		holder.name = rest_name(segment);
		err = hf_holder_list_take(holders, &holder);
		if (err)
			return err;
	}
	return NULL;
}

static struct hf_error *take_rests(const struct hf_image *image,
				   const struct hf_ranges *free_ranges,
				   struct hf_holder_list *holders,
				   uint64_t *unknown_bytes)
{
	*unknown_bytes = 0;
	for (size_t i = 0; i < free_ranges->list.num; i++) {
		struct hf_range range = free_ranges->list.data[i];
		const struct hf_segment *segment =
			hf_image_find_segment(image, range.start);
		struct hf_error *err =
			segment ? take_rest(image, segment, range, holders,
					    unknown_bytes)
				: NULL;

		if (err)
			return err;
	}
	return NULL;
}

static int compare_holders(const void *a, const void *b)
{
	const struct hf_holder *x = a, *y = b;
	bool x_last = x->kind == HF_HOLDER_REGISTERS;
	bool y_last = y->kind == HF_HOLDER_REGISTERS;

	if (x_last != y_last)
		return x_last ? 1 : -1;
	if (x->range.start != y->range.start)
		return x->range.start < y->range.start ? -1 : 1;
	return x->thread_index < y->thread_index ? -1
						 : x->thread_index >
							   y->thread_index;
}

struct hf_error *hf_holders_find(const struct hf_image *image,
				 const struct hf_block_table *blocks,
				 const struct hf_stacks *stacks,
				 const struct hf_progress *progress,
				 struct hf_holders *ret)
{
	struct hf_ranges free_ranges = { 0 };
	struct hf_holder_list list = { 0 };
	HF_AUTO(hf_holder_list) struct hf_holder_list *holders = &list;
	struct hf_holders found = { 0 };
	struct hf_error *err;

	err = find_free(image, &free_ranges, &found.private_anon_bytes);
	if (!err)
		err = carve_areas(blocks, &free_ranges);
	if (!err)
		err = hf_holders_of_threads(image, stacks, &free_ranges,
					    holders);
	if (!err)
		err = hf_holders_of_modules(image, &free_ranges, holders,
					    progress);
	if (!err)
		err = take_rests(image, &free_ranges, holders,
				 &found.unknown_bytes);
	hf_array_deinit(&free_ranges.list);
	if (err)
		return err;
	if (list.list.num)
		qsort(list.list.data, list.list.num, sizeof(*list.list.data),
		      compare_holders);
	found.data = HF_TAKE(list.list.data);
	found.num = (uint32_t)list.list.num;
	list.list.num = 0;
	*ret = found;
	return NULL;
}

void hf_holders_deinit(struct hf_holders *holders)
{
	for (uint32_t i = 0; i < holders->num; i++)
		free(holders->data[i].name);
	free(holders->data);
	memset(holders, 0, sizeof(*holders));
}
