/* Own stack: what memory tells about the bounds of a thread's stack.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_OWN_STACK_H
#define HF_FORK_AGENT_OWN_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* How much of a thread's descriptor is looked at, and how much of a signal
 * frame. */
enum { HF_OWN_STACK_WORDS = 2304 / 8, HF_OWN_STACK_FRAME_BYTES = 240 };

/**
 * The lowest address of the stack that the C library gave to a thread (glibc,
 * musl), without its guard, as the thread's descriptor says.
 *
 * @param words `num` of them from the descriptor, which is at `self`.
 * @param sp the thread's stack pointer; start, end: the mapping around it.
 * @return 0 if the descriptor says nothing that fits, or two things.
 */
uint64_t hf_own_stack_start(const uint64_t *words, size_t num, uint64_t self,
			    uint64_t sp, uint64_t start, uint64_t end);

/**
 * Is there a signal frame in these bytes that says: the handler runs on an
 * alternate stack, and what it has interrupted has its stack below, in the same
 * memory? (Of an array on the stack may be made an alternate stack.)
 *
 * @param addr of the first of the bytes, a multiple of 8; of frames that begin
 * in the last HF_OWN_STACK_FRAME_BYTES nothing is said.
 * @param sp the thread's stack pointer.
 * @param start, end the mapping around it.
 */
bool hf_own_stack_hides_another(const uint8_t *bytes, size_t num_bytes,
				uint64_t addr, uint64_t sp, uint64_t start,
				uint64_t end);

#endif
