/* Own stack: what memory tells about the bounds of a thread's stack.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/own_stack.h"

#include <string.h>

enum { PAGE_BYTES = 4096 };

/* In glibc's struct pthread, which starts at fs_base (2.17 to 2.41,
 * nptl/descr.h), these follow each other; where they stand differs from version
 * to version:
 *
 *	0  stackblock        lowest address, guard included
 *	1  stackblock_size   guard included
 *	2  guardsize
 *
 * and in musl's struct pthread (1.2, src/internal/pthread_impl.h):
 *
 *	0  map_base          lowest address, guard included; 0: a stack
 *	1  map_size          of the program's own
 *	2  stack             its upper end
 *	3  stack_size        guard not included
 *	4  guard_size
 *
 * They are known by what they say: a block around both the stack pointer and
 * the descriptor, in the mapping but for the guard. */
static uint64_t block_start(const uint64_t *words, size_t num, uint64_t self,
			    uint64_t sp, uint64_t start, uint64_t end)
{
	uint64_t base = words[0], size = words[1], guard, block_end, low;

	if (!base || base % 16 ||
	    __builtin_add_overflow(base, size, &block_end) ||
	    block_end > end)
		return 0;
	if (words[2] < size && words[2] % PAGE_BYTES == 0)
		guard = words[2];
	else if (num >= 5 && words[4] < size && words[4] % PAGE_BYTES == 0 &&
		 words[2] > sp && words[2] <= block_end &&
		 words[3] <= size - words[4] &&
		 words[2] - words[3] >= base + words[4])
		guard = words[4];
	else
		return 0;
	low = base + guard;
	if (low < start || sp <= low || sp >= block_end || self <= low ||
	    self >= block_end)
		return 0;
	return low;
}

uint64_t hf_own_stack_start(const uint64_t *words, size_t num, uint64_t self,
			    uint64_t sp, uint64_t start, uint64_t end)
{
	uint64_t found = 0;

	for (size_t i = 0; i + 3 <= num; i++) {
		uint64_t low = block_start(&words[i], num - i, self, sp,
					   start, end);

		if (!low)
			continue;
		if (found && found != low)
			return 0;
		found = low;
	}
	return found;
}

/* struct rt_sigframe as signal_frame.c draws it (Linux 6.12): the words of
 * offset 8, 16, 24 .. 40, 168, 192 and 232. */
enum {
	UC_FLAGS_AT = 8,
	UC_FLAGS_MAX = 7,
	UC_LINK_AT = 16,
	SS_SP_AT = 24,
	SS_SIZE_AT = 40,
	SP_AT = 168,
	CS_AT = 192,
	FPSTATE_AT = 232,
	FPSTATE_ALIGN = 64,
	USER_CS = 0x33,
};

static uint64_t word_at(const uint8_t *frame, size_t offset)
{
	uint64_t word;

	memcpy(&word, frame + offset, sizeof(word));
	return word;
}

/* The kernel has always the same segment for 64-bit code; a stale frame is taken
 * for a real one. */
static bool is_frame(const uint8_t *frame, uint64_t addr, uint64_t end)
{
	uint64_t fpstate = word_at(frame, FPSTATE_AT);

	return word_at(frame, UC_FLAGS_AT) <= UC_FLAGS_MAX &&
	       word_at(frame, UC_LINK_AT) == 0 &&
	       (word_at(frame, CS_AT) & 0xffff) == USER_CS &&
	       (fpstate == 0 || (fpstate % FPSTATE_ALIGN == 0 &&
				 fpstate > addr && fpstate < end));
}

bool hf_own_stack_hides_another(const uint8_t *bytes, size_t num_bytes,
				uint64_t addr, uint64_t sp, uint64_t start,
				uint64_t end)
{
	for (size_t i = 0; i + HF_OWN_STACK_FRAME_BYTES <= num_bytes; i += 8) {
		const uint8_t *frame = bytes + i;
		uint64_t at = addr + i, other;

		if (!is_frame(frame, at, end))
			continue;
		other = word_at(frame, SP_AT);
		if (sp - word_at(frame, SS_SP_AT) <
			    word_at(frame, SS_SIZE_AT) ||
		    (other >= start && other < at))
			return true;
	}
	return false;
}
