/* Fuzzes the unwinder's input: registers, a stack, a module and its tables.
 * SPDX-License-Identifier: MIT */
#include <string.h>
#include <sys/mman.h>

#include "indexer/stacks/memory_unwind.h"
#include "indexer/stacks/stacks.h"
#include "tests/support/fake_image.h"
#include "tests/support/test_main.h"

/* The input:
 *
 *   byte 0       bit 0: the first frame has called; bit 1: the module has a
 *                file, which libdwfl reads, too
 *   bytes 1-136  17 registers in the order of DWARF; rip counts from the
 *                module, rsp and rbp from the stack, modulo their sizes
 *   256 bytes    the stack; words below 2^16 count from the module
 *   then         the module's file; in memory its first page is there twice, as
 *                linkers lay small libraries out: code, then data
 *
 * Each step must end, and say of a register only what it read; frames of a
 * stack must ascend. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MODULE UINT64_C(0x7f0000000000)
#define STACK UINT64_C(0x7f8000000000)

enum {
	PAGE = 4096, HAS_CALLED = 1, HAS_FILE = 2,
	HEAD = 1 + 8 * HF_DWARF_NUM_REGS, STACK_BYTES = 256,
	MAX_MODULE = 16 * PAGE, MAX_STEPS = 64,
};

static const char path[] = "/lib/fuzz.so";

static void take_registers(const uint8_t *data, uint64_t module_bytes,
			   struct hf_frame_state *ret)
{
	memcpy(ret->regs, data, sizeof(ret->regs));
	ret->regs[HF_DWARF_RIP] = MODULE +
				  ret->regs[HF_DWARF_RIP] % module_bytes;
	ret->regs[HF_DWARF_RSP] = STACK +
				  ret->regs[HF_DWARF_RSP] % STACK_BYTES;
	ret->regs[HF_DWARF_RBP] = STACK +
				  ret->regs[HF_DWARF_RBP] % STACK_BYTES;
}

static void add_stack(struct fake_image *fake, const uint8_t *data)
{
	uint64_t words[STACK_BYTES / 8];

	memcpy(words, data, sizeof(words));
	for (size_t i = 0; i < STACK_BYTES / 8; i++)
		if (words[i] < MAX_MODULE)
			words[i] += MODULE;
	fake_image_add_anon(fake, STACK, STACK + PAGE);
	fake_image_poke(fake, STACK, words, sizeof(words));
}

static void add_module(struct fake_image *fake, const uint8_t *data,
		       size_t size)
{
	struct hf_segment segment = {
		.start = MODULE, .end = MODULE + PAGE,
		.prot = PROT_READ | PROT_EXEC,
		.kind = HF_SEGMENT_FILE, .absent = HF_ABSENT_FILE,
		.path = path,
	};

	for (int i = 0; i < 2; i++) {
		fake_image_add_segment(fake, &segment);
		fake_image_poke(fake, segment.start, data,
				size < PAGE ? size : PAGE);
		segment.start += PAGE;
		segment.end += PAGE;
		segment.prot = PROT_READ | PROT_WRITE;
	}
}

static void add_thread(struct fake_image *fake,
		       const struct hf_frame_state *state)
{
	struct hf_thread thread = { .tid = 1, .name = "fuzz" };

	thread.regs.rip = state->regs[HF_DWARF_RIP];
	thread.regs.rsp = state->regs[HF_DWARF_RSP];
	thread.regs.rbp = state->regs[HF_DWARF_RBP];
	thread.regs.rbx = state->regs[3];
	fake_image_add_thread(fake, &thread);
}

static void step(const struct hf_image *image, struct hf_frame_state state,
		 bool is_caller)
{
	HF_AUTO(hf_memory_unwinder) struct hf_memory_unwinder *unwinder = NULL;
	bool by_cfi;

	assert_hf_ok(hf_memory_unwinder_create(image, &unwinder));
	for (int i = 0; i < MAX_STEPS; i++) {
		if (!hf_memory_unwinder_step(unwinder, &state, is_caller,
					     &by_cfi))
			break;
		if (!state.regs[HF_DWARF_RIP])
			abort();
		is_caller = true;
	}
}

static void find(const struct hf_image *image)
{
	HF_AUTO(hf_stacks) struct hf_stacks stacks = { 0 };

	assert_hf_ok(hf_stacks_find(image, NULL, &stacks));
	/* A frame has 8 bytes at least, and names that are inlined none. */
	for (size_t i = 1; i < stacks.num_frames; i++) {
		const struct hf_frame *last = &stacks.frames[i - 1];
		const struct hf_frame *frame = &stacks.frames[i];

		if (frame->level != last->level + 1 ||
		    (last->is_inlined ? frame->sp != last->sp
				      : frame->sp <= last->sp))
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	HF_AUTO(fake_image) struct fake_image *fake = NULL;
	struct hf_frame_state state;
	struct hf_image *image;
	struct hf_error *err;
	const uint8_t *module = data + HEAD + STACK_BYTES;

	if (size <= HEAD + STACK_BYTES ||
	    size - HEAD - STACK_BYTES > MAX_MODULE)
		return 0;
	size -= HEAD + STACK_BYTES;
	fake = fake_image_create();
	take_registers(data + 1, size, &state);
	add_stack(fake, data + HEAD);
	add_module(fake, module, size);
	add_thread(fake, &state);
	if (data[0] & HAS_FILE)
		fake_image_add_file(fake, path, module, size);
	err = fake_image_try_freeze(fake, &image);
	if (err) {
		hf_error_destroy(err);
		return 0;
	}
	step(image, state, data[0] & HAS_CALLED);
	find(image);
	return 0;
}
