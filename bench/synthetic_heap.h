/* Synthetic heap: memory as malloc and a program would have left it.
 * SPDX-License-Identifier: MIT */
#ifndef HF_BENCH_SYNTHETIC_HEAP_H
#define HF_BENCH_SYNTHETIC_HEAP_H

#include <stdint.h>

/* Objects of 24 to 264 usable bytes in eight ranges (brk and seven arenas),
 * laid out as glibc does: 16-byte aligned starts, size words in between.
 * The objects form trees of a few hundredths of all, every twentieth of them
 * unreachable, with edges back to parents, to neighbours, to far objects and
 * to a hot hundredth. Of the words 15 % are pointers, a tenth of these to the
 * inside of their target; the others are zeros, small numbers, doubles, text,
 * and addresses of code and stacks. It is more tangled than most programs. */

enum { SYNTHETIC_RANGES = 8 };

struct synthetic_range {
	uint64_t addr;   /* in the pretended address space */
	uint64_t off;    /* in `words`, bytes */
	uint64_t bytes;
};

struct synthetic_heap {
	uint32_t num;
	uint64_t *starts;      /* ascending */
	uint64_t *sizes;       /* usable bytes */
	struct synthetic_range ranges[SYNTHETIC_RANGES];
	uint64_t *words;
	uint64_t num_bytes;
	uint32_t *roots;
	uint32_t num_roots;
};

/** Aborts the program without memory. The same for the same number. */
void synthetic_heap_create(struct synthetic_heap *heap, uint32_t num);
void synthetic_heap_destroy(struct synthetic_heap *heap);

#endif
