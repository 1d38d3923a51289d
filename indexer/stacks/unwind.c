/* Unwind: the frames of one thread, innermost first, without names.
 * SPDX-License-Identifier: MIT */
#include "indexer/stacks/unwind.h"

#include <dwarf.h>
#include <elfutils/libdw.h>

#include "coredump/window.h"
#include "indexer/stacks/pc_table.h"

/* libdwfl follows a stack as long as the files of the target have call frame
 * information. Where it gives up (a module whose file is gone, code made at
 * run time) libunwind takes one step by what is in memory, and libdwfl goes on
 * from there. Each frame lies above the one before it: that bounds the whole,
 * whatever a damaged stack claims. */

enum {
	MAX_FRAMES = 100000, /* of one thread */
	WINDOW_SLOTS = 32,
};

struct hf_unwinder {
	const struct hf_image *image;
	Dwfl *dwfl;
	struct hf_window *window;
	struct hf_memory_unwinder *memory;
	struct hf_pc_table cfi;  /* has_cfi of each pc that was asked for */
	bool attached;
	/* Of the thread under way. */
	const struct hf_thread *thread;
	struct hf_frame_state state;  /* of the last frame */
	struct hf_raw_frames *frames;
	bool skip_first;   /* libdwfl repeats the frame it goes on from */
	bool too_deep, stuck;
	struct hf_error *err;
};

/* ---- what libdwfl asks for ---- */

static pid_t no_next_thread(Dwfl *dwfl, void *arg, void **thread_arg)
{
	(void)dwfl;
	(void)arg;
	(void)thread_arg;
	return 0;
}

static bool get_thread(Dwfl *dwfl, pid_t tid, void *arg, void **thread_arg)
{
	(void)dwfl;
	(void)tid;
	*thread_arg = arg;
	return true;
}

static bool read_memory(Dwfl *dwfl, Dwarf_Addr addr, Dwarf_Word *ret,
			void *arg)
{
	struct hf_unwinder *unwinder = arg;
	uint64_t word;

	(void)dwfl;
	if (!hf_window_peek_u64(unwinder->window, addr, &word))
		return false;
	*ret = word;
	return true;
}

static bool set_registers(Dwfl_Thread *thread, void *arg)
{
	struct hf_unwinder *unwinder = arg;
	Dwarf_Word regs[HF_DWARF_NUM_REGS];

	for (int i = 0; i < HF_DWARF_NUM_REGS; i++)
		regs[i] = unwinder->state.regs[i];
	/* It takes the first pc for one that is about to run. */
	regs[HF_DWARF_RIP] -= unwinder->skip_first;
	return dwfl_thread_state_registers(thread, 0, HF_DWARF_NUM_REGS, regs);
}

static const Dwfl_Thread_Callbacks thread_callbacks = {
	.next_thread = no_next_thread,
	.get_thread = get_thread,
	.memory_read = read_memory,
	.set_initial_registers = set_registers,
};

/* ---- frames ---- */

static bool look_for_cfi(const struct hf_unwinder *unwinder, uint64_t pc)
{
	Dwfl_Module *module = dwfl_addrmodule(unwinder->dwfl, pc);
	Dwarf_Frame *found;
	Dwarf_Addr bias;
	Dwarf_CFI *cfi;

	if (!module)
		return false;
	cfi = dwfl_module_eh_cfi(module, &bias);
	if (cfi && dwarf_cfi_addrframe(cfi, pc - bias, &found) == 0) {
		free(found);
		return true;
	}
	cfi = dwfl_module_dwarf_cfi(module, &bias);
	if (cfi && dwarf_cfi_addrframe(cfi, pc - bias, &found) == 0) {
		free(found);
		return true;
	}
	return false;
}

/* Is there call frame information for the frame that was left? Without it
 * libdwfl follows frame pointers, and does not say so. */
static bool has_cfi(struct hf_unwinder *unwinder,
		    const struct hf_raw_frame *frame)
{
	uint64_t pc = frame->pc - frame->is_caller;
	const uint32_t *known = hf_pc_table_find(&unwinder->cfi, pc);
	bool has;

	if (known)
		return *known;
	has = look_for_cfi(unwinder, pc);
	unwinder->err = hf_pc_table_add(&unwinder->cfi, pc, has);
	return has;
}

/* @return false: that is no frame above the last one, or there are enough. */
static bool add_frame(struct hf_unwinder *unwinder,
		      const struct hf_raw_frame *frame)
{
	struct hf_raw_frames *frames = unwinder->frames;

	if (frames->num && frame->sp <= frames->data[frames->num - 1].sp) {
		unwinder->stuck = true;
		return false;
	}
	if (frames->num == MAX_FRAMES) {
		unwinder->too_deep = true;
		return false;
	}
	unwinder->err = hf_array_append(frames, *frame);
	return !unwinder->err;
}

static int take_frame(Dwfl_Frame *dwfl_frame, void *arg)
{
	struct hf_unwinder *unwinder = arg;
	struct hf_raw_frames *frames = unwinder->frames;
	struct hf_raw_frame frame = { .how = HF_FRAME_REGISTERS };
	struct hf_frame_state state = { 0 };
	Dwarf_Addr pc;
	bool is_activation;

	if (unwinder->skip_first) {
		unwinder->skip_first = false;
		return DWARF_CB_OK;
	}
	if (!dwfl_frame_pc(dwfl_frame, &pc, &is_activation))
		return DWARF_CB_ABORT;
	for (unsigned i = 0; i < HF_DWARF_RIP; i++) {
		Dwarf_Word value = 0;

		if (dwfl_frame_reg(dwfl_frame, i, &value) == 0)
			state.regs[i] = value;
	}
	state.regs[HF_DWARF_RIP] = pc;
	frame.pc = pc;
	frame.sp = state.regs[HF_DWARF_RSP];
	frame.is_caller = !is_activation;
	if (frames->num) {
		struct hf_raw_frame *callee = &frames->data[frames->num - 1];

		frame.how = has_cfi(unwinder, callee) ? HF_FRAME_CFI :
							HF_FRAME_POINTER;
		if (unwinder->err)
			return DWARF_CB_ABORT;
		/* It was interrupted, not called: by a signal. */
		callee->is_signal = is_activation;
	}
	if (!add_frame(unwinder, &frame))
		return DWARF_CB_ABORT;
	unwinder->state = state;
	return DWARF_CB_OK;
}

/* One step without libdwfl. */
static bool step_in_memory(struct hf_unwinder *unwinder)
{
	const struct hf_raw_frames *frames = unwinder->frames;
	struct hf_frame_state state = unwinder->state;
	struct hf_raw_frame frame = { .is_caller = true };
	bool by_cfi;

	if (!frames->num ||
	    !hf_memory_unwinder_step(unwinder->memory, &state,
				     frames->data[frames->num - 1].is_caller,
				     &by_cfi))
		return false;
	frame.pc = state.regs[HF_DWARF_RIP];
	frame.sp = state.regs[HF_DWARF_RSP];
	frame.how = by_cfi ? HF_FRAME_CFI : HF_FRAME_POINTER;
	/* Followed by chance: what it leads to must at least be code. */
	if (!by_cfi) {
		const struct hf_segment *segment =
			hf_image_find_segment(unwinder->image, frame.pc);

		if (!segment || !(segment->prot & 4 /* PROT_EXEC */))
			return false;
	}
	if (!add_frame(unwinder, &frame))
		return false;
	unwinder->state = state;
	return true;
}

/* libdwfl could not even begin: the innermost frame is what it is. */
static bool add_innermost(struct hf_unwinder *unwinder)
{
	const struct hf_raw_frame frame = {
		.pc = unwinder->state.regs[HF_DWARF_RIP],
		.sp = unwinder->state.regs[HF_DWARF_RSP],
		.how = HF_FRAME_REGISTERS,
	};

	return unwinder->frames->num || add_frame(unwinder, &frame);
}

struct hf_error *hf_unwind_thread(struct hf_unwinder *unwinder,
				  const struct hf_thread *thread,
				  struct hf_raw_frames *frames,
				  enum hf_stack_end *end_ret)
{
	frames->num = 0;
	*end_ret = HF_STACK_NONE;
	if (!thread->regs.rip)
		return NULL;
	unwinder->thread = thread;
	unwinder->frames = frames;
	unwinder->skip_first = unwinder->too_deep = unwinder->stuck = false;
	unwinder->err = NULL;
	hf_frame_state_of_thread(thread, &unwinder->state);
	for (;;) {
		int rc = unwinder->attached ?
				 dwfl_getthread_frames(unwinder->dwfl,
						       thread->tid, take_frame,
						       unwinder) : -1;

		if (unwinder->err || unwinder->too_deep || unwinder->stuck)
			break;
		if (rc == 0 && frames->num) {
			*end_ret = HF_STACK_WHOLE;
			return NULL;
		}
		if (!add_innermost(unwinder) || !step_in_memory(unwinder))
			break;
		unwinder->skip_first = true;
	}
	*end_ret = unwinder->too_deep ? HF_STACK_TOO_DEEP : HF_STACK_LOST;
	return unwinder->err;
}

struct hf_error *hf_unwinder_create(const struct hf_image *image, Dwfl *dwfl,
				    struct hf_unwinder **ret)
{
	HF_AUTO(hf_unwinder) struct hf_unwinder *unwinder =
		calloc(1, sizeof(*unwinder));
	struct hf_error *err;

	if (!unwinder)
		return &hf_enomem;
	unwinder->image = image;
	unwinder->dwfl = dwfl;
	err = hf_window_create(image, WINDOW_SLOTS, &unwinder->window);
	if (!err)
		err = hf_memory_unwinder_create(image, &unwinder->memory);
	if (err)
		return err;
	/* Without a single file there is no architecture to go by. Which
	 * thread is meant is told each time: any pid will do. */
	unwinder->attached = dwfl_attach_state(dwfl, NULL, 1,
					       &thread_callbacks, unwinder);
	*ret = HF_TAKE(unwinder);
	return NULL;
}

void hf_unwinder_destroy(struct hf_unwinder *unwinder)
{
	if (!unwinder)
		return;
	hf_memory_unwinder_destroy(unwinder->memory);
	hf_window_destroy(unwinder->window);
	hf_pc_table_deinit(&unwinder->cfi);
	free(unwinder);
}
