/* Root holders: the memory outside all heaps that keeps objects alive.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_HOLDER_H
#define HF_INDEXER_HOLDER_H

#include "coredump/image.h"
#include "indexer/anomaly.h"
#include "indexer/block_table.h"
#include "indexer/stacks/stacks.h"

enum hf_holder_kind {
	HF_HOLDER_GLOBAL,    /* a global variable, or a section of a module */
	HF_HOLDER_TLS,       /* a thread's TLS block and descriptor */
	HF_HOLDER_REGISTERS, /* a thread's registers: no address */
	HF_HOLDER_STACK,     /* a frame of a thread's live stack, or all of it
				 * that is not known by frames */
	HF_HOLDER_UNKNOWN,   /* private writable memory no reader explains */
	HF_HOLDER_SHARED,    /* shared writable mapping, read late */
};

/** One root holder: a node of the graph whose words are all roots. */
struct hf_holder {
	enum hf_holder_kind kind;
	struct hf_range range;   /* scanned memory; empty for registers */
	uint32_t thread_index;   /* in hf_image_threads, or UINT32_MAX */
	uint32_t frame;          /* in hf_stacks.frames, or UINT32_MAX */
	uint32_t module_id;      /* in hf_image_modules, or HF_NO_MODULE */
	char *name;              /* "server", "stack of worker-3 (tid 4711)",
				  * "thread 4711 \"worker-3\": serve() at
				  * server.c:214" */
};

struct hf_holders {
	struct hf_holder *data; /* ascending by range.start; registers last */
	uint32_t num;
	uint64_t unknown_bytes;      /* resident private anonymous writable
				      * memory that nothing explains */
	uint64_t private_anon_bytes; /* all resident private anonymous
				      * writable memory, for the share */
};

/**
 * Cut all writable memory outside the areas of the table into holders: no
 * resident writable byte is left out (but for what is the allocators' own,
 * and below the live part of a stack), and none is in two holders or in a
 * holder and an area.
 *
 * @param stacks borrowed; NULL: stacks are not cut into frames.
 */
struct hf_error *hf_holders_find(const struct hf_image *image,
				 const struct hf_block_table *blocks,
				 const struct hf_stacks *stacks,
				 const struct hf_progress *progress,
				 struct hf_holders *ret) HF_MUST_CHECK;
void hf_holders_deinit(struct hf_holders *holders);

const char *hf_holder_kind_name(enum hf_holder_kind kind);

#endif
