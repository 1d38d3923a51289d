/* Stacks: the frames of every thread of an image.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_STACKS_STACKS_H
#define HF_INDEXER_STACKS_STACKS_H

#include "coredump/image.h"
#include "util/progress.h"

/** How a frame was found. */
enum hf_frame_how {
	HF_FRAME_REGISTERS,     /* the innermost: by the thread's registers */
	HF_FRAME_CFI,           /* call frame information of the callee */
	HF_FRAME_POINTER,       /* the callee has none: its frame pointer, which
				 * it may have used for something else */
	HF_FRAME_INLINE,        /* not a frame of its own: debug information
				 * says that this function was inlined there */
};

struct hf_frame {
	uint32_t thread;        /* index in the image's threads */
	uint32_t level;         /* 0 is the innermost */
	uint64_t pc;            /* as it will go on; in a caller, behind the
				 * call */
	uint64_t sp;            /* stack pointer in this frame */
	uint64_t cfa;           /* canonical frame address: end of the frame;
				 * 0: not known */
	const char *function;   /* demangled; NULL: no symbol */
	const char *file;       /* source; NULL: no debug information */
	uint32_t line;          /* from 1; 0: not known */
	uint32_t module_id;     /* or HF_NO_MODULE */
	enum hf_frame_how how;
	bool is_inlined;        /* into the next frame */
	bool is_signal;         /* the kernel's frame for a handler */
};

/** Whether a stack could be followed to its outermost frame. */
enum hf_stack_end {
	HF_STACK_WHOLE,     /* to where its thread began */
	HF_STACK_LOST,      /* no way further: no information, or damage */
	HF_STACK_TOO_DEEP,  /* the rest was left out */
	HF_STACK_NONE,      /* the thread has no registers */
};

struct hf_stacks {
	struct hf_frame *frames;   /* by thread, then level */
	size_t num_frames;
	enum hf_stack_end *ends;   /* of each thread of the image */
	size_t num_threads;
	char **texts;              /* what frames point to; owned */
	size_t num_texts;
};

/**
 * Follow the stacks of all threads, and name their frames.
 *
 * Reads files of the target with libdw: to be called where it may crash (see
 * sandbox.h). Frames are bounded by the stack and by a depth; a damaged stack
 * is no error, it only ends early.
 */
struct hf_error *hf_stacks_find(const struct hf_image *image,
				const struct hf_progress *progress,
				struct hf_stacks *ret) HF_MUST_CHECK;
void hf_stacks_deinit(struct hf_stacks *stacks);

static inline void hf_auto_hf_stacks(void *stacks)
{
	hf_stacks_deinit(stacks);
}

#endif
