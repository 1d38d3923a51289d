/* Chains of chunks: is this address the start of one?
 * SPDX-License-Identifier: MIT */
#include "indexer/glibc/chunks.h"

/* Reads through the page cache: chains are looked at where the walk lost its
 * way, and where segments may begin. */

enum {
	PREV_INUSE = 1,
	IS_MMAPPED = 2,
	NON_MAIN_ARENA = 4,
	SIZE_FLAGS = 7,
};

/* From the chunk at *addr to the next. */
static enum hf_chain_step chain_step(const struct hf_glibc_heap *heap,
				     const struct hf_chain *chain,
				     uint64_t *addr, uint64_t *prev_bytes)
{
	uint64_t header[2], next[2], size, left;

	if (*addr > chain->limit ||
	    (left = chain->limit - *addr) < HF_CHUNK_HEADER)
		return HF_CHAIN_BAD;
	if (!hf_pages_peek(heap->pages, *addr, header, sizeof(header)))
		return HF_CHAIN_BAD;
	size = header[1] & ~(uint64_t)SIZE_FLAGS;
	if (header[1] & IS_MMAPPED)
		return HF_CHAIN_BAD;
	if (*prev_bytes && !(header[1] & PREV_INUSE) &&
	    header[0] != *prev_bytes)
		return HF_CHAIN_BAD;
	if (*addr == chain->top) {
		if (size < HF_CHUNK_MIN || size % HF_CHUNK_ALIGN != 0 ||
		    size > left)
			return HF_CHAIN_BAD;
		*addr += size;
		return HF_CHAIN_END;
	}
	if (!chain->is_heap && (header[1] & NON_MAIN_ARENA))
		return HF_CHAIN_BAD;
	if (size % HF_CHUNK_ALIGN != 0 || size > left)
		return HF_CHAIN_BAD;
	if (size == 0) {
		/* the last fencepost of a heap */
		if (!chain->is_heap || header[1] != PREV_INUSE ||
		    left >= HF_CHUNK_MIN)
			return HF_CHAIN_BAD;
		*addr = chain->limit;
		return HF_CHAIN_END;
	}
	if (size == HF_CHUNK_HEADER) {
		/* a fencepost: another one must follow */
		if (left < HF_CHUNK_MIN ||
		    !hf_pages_peek(heap->pages, *addr + size, next,
				   sizeof(next)))
			return HF_CHAIN_BAD;
		if (next[1] !=
		    (chain->is_heap ? PREV_INUSE :
				      (HF_CHUNK_HEADER | PREV_INUSE)))
			return HF_CHAIN_BAD;
		do { /* a segment may end in three of them */
			*addr += HF_CHUNK_HEADER;
		} while (!chain->is_heap &&
			 chain->limit - *addr >= HF_CHUNK_HEADER &&
			 hf_pages_peek(heap->pages, *addr, next,
				       sizeof(next)) &&
			 next[1] == (HF_CHUNK_HEADER | PREV_INUSE));
		if (chain->is_heap)
			*addr += HF_CHUNK_HEADER;
		return HF_CHAIN_END;
	}
	*prev_bytes = size;
	*addr += size;
	return HF_CHAIN_CHUNK;
}

enum hf_chain_step hf_chain_go(const struct hf_glibc_heap *heap,
			       const struct hf_chain *chain,
			       struct hf_chain_at *at)
{
	return chain_step(heap, chain, &at->addr, &at->prev_bytes);
}

bool hf_chain_holds(const struct hf_glibc_heap *heap,
		    const struct hf_chain *chain, uint64_t addr, size_t need)
{
	uint64_t prev_bytes = 0;

	while (need-- > 0) {
		enum hf_chain_step step;

		if (!hf_work_step(heap->work))
			return false;
		step = chain_step(heap, chain, &addr, &prev_bytes);
		if (step != HF_CHAIN_CHUNK)
			return step == HF_CHAIN_END;
	}
	return true;
}

uint64_t hf_chain_end(const struct hf_glibc_heap *heap,
		      const struct hf_chain *chain, uint64_t addr)
{
	uint64_t prev_bytes = 0;
	enum hf_chain_step step;

	/* Every step goes on by 16 bytes or more. */
	do {
		if (!hf_work_step(heap->work))
			return 0;
		step = chain_step(heap, chain, &addr, &prev_bytes);
	} while (step == HF_CHAIN_CHUNK);
	return step == HF_CHAIN_END ? addr : 0;
}
