/* Rows of threads and of the frames of their stacks.
 * SPDX-License-Identifier: MIT */
#include "indexer/index_rows.h"
#include "indexer/syscall_name.h"

#define NONE HF_UNKNOWN_U64

static const char *stop_how(enum hf_stop_how how)
{
	static const char *const names[] = {
		[HF_STOP_SYSCALL] = "syscall",
		[HF_STOP_USER] = "user",
		[HF_STOP_SIGNAL] = "signal",
		[HF_STOP_PARTIAL] = "partial",
	};

	return names[how];
}

static const char *frame_how(enum hf_frame_how how)
{
	static const char *const names[] = {
		[HF_FRAME_REGISTERS] = "registers",
		[HF_FRAME_CFI] = "cfi",
		[HF_FRAME_POINTER] = "frame_pointer",
		[HF_FRAME_INLINE] = "inline",
	};

	return names[how];
}

static const char *stack_end(const struct hf_stacks *stacks, size_t thread)
{
	static const char *const names[] = {
		[HF_STACK_WHOLE] = "whole",
		[HF_STACK_LOST] = "lost",
		[HF_STACK_TOO_DEEP] = "too_deep",
		[HF_STACK_NONE] = "none",
	};

	return thread < stacks->num_threads ? names[stacks->ends[thread]] :
					      NULL;
}

static struct hf_error *write_frames(const struct hf_index_model *model,
				     struct hf_db_writer *db)
{
	for (size_t i = 0; i < model->stacks.num_frames; i++) {
		const struct hf_frame *frame = &model->stacks.frames[i];
		struct hf_db_frame row = {
			.id = i + 1,
			.thread_id = (uint64_t)frame->thread + 1,
			.level = frame->level,
			.pc = frame->pc,
			.sp = frame->sp,
			.cfa = frame->cfa ? frame->cfa : NONE,
			.module_id = frame->module_id == HF_NO_MODULE
					     ? NONE
					     : (uint64_t)frame->module_id + 1,
			.function = frame->function,
			.file = frame->file,
			.line = frame->line ? frame->line : NONE,
			.inlined = frame->is_inlined,
			.is_signal = frame->is_signal,
			.how = frame_how(frame->how),
		};
		struct hf_error *err = hf_db_put_frame(db, &row);

		if (err)
			return err;
	}
	return NULL;
}

/* In the order in which debuggers show them; orig_rax tells that the thread is
 * in a system call. */
static struct hf_error *write_registers(const struct hf_thread *thread,
					uint64_t thread_id,
					struct hf_db_writer *db)
{
	const struct user_regs_struct *regs = &thread->regs;
	const struct { const char *name; uint64_t value; } all[] = {
		{ "rax", regs->rax }, { "rbx", regs->rbx },
		{ "rcx", regs->rcx }, { "rdx", regs->rdx },
		{ "rsi", regs->rsi }, { "rdi", regs->rdi },
		{ "rbp", regs->rbp }, { "rsp", regs->rsp },
		{ "r8", regs->r8 }, { "r9", regs->r9 },
		{ "r10", regs->r10 }, { "r11", regs->r11 },
		{ "r12", regs->r12 }, { "r13", regs->r13 },
		{ "r14", regs->r14 }, { "r15", regs->r15 },
		{ "rip", regs->rip }, { "eflags", regs->eflags },
		{ "orig_rax", regs->orig_rax },
		{ "fs_base", regs->fs_base }, { "gs_base", regs->gs_base },
	};

	for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		const struct hf_db_thread_register row = {
			.thread_id = thread_id,
			.number = i,
			.name = all[i].name,
			.value = all[i].value,
		};
		struct hf_error *err = hf_db_put_thread_register(db, &row);

		if (err)
			return err;
	}
	return NULL;
}

struct hf_error *hf_index_write_threads(const struct hf_index_model *model,
					struct hf_db_writer *db)
{
	size_t num;
	const struct hf_thread *threads = hf_image_threads(model->image, &num);

	for (size_t i = 0; i < num; i++) {
		const struct hf_thread *thread = &threads[i];
		bool is_partial = thread->stop_how == HF_STOP_PARTIAL;
		char state[2] = { thread->state, '\0' };
		struct hf_db_thread row = {
			.id = i + 1,
			.tid = (uint64_t)thread->tid,
			.name = thread->name,
			.state = thread->state ? state : NULL,
			.stop_how = stop_how(thread->stop_how),
			.pc = thread->regs.rip,
			.sp = thread->regs.rsp,
			.bp = is_partial ? NONE : thread->regs.rbp,
			.syscall = (int64_t)thread->regs.orig_rax >= 0
					   ? thread->regs.orig_rax
					   : NONE,
			.syscall_name = hf_syscall_name(thread->regs.orig_rax),
			.stack_end = stack_end(&model->stacks, i),
			.in_allocator = model->knows_places
						? model->is_inside[i]
						: NONE,
		};
		struct hf_error *err = hf_db_put_thread(db, &row);

		if (!err && !is_partial)
			err = write_registers(thread, row.id, db);
		if (err)
			return err;
	}
	return write_frames(model, db);
}
