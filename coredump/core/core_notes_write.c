/* The notes of a core, as bytes.
 * SPDX-License-Identifier: MIT */
#include "coredump/core/core_notes_write.h"

#include <cpuid.h>
#include <signal.h>
#include <string.h>
#include <sys/procfs.h>

/* core_format.h has the order and the form of the notes. Debuggers rely on
 * more than the format says: without AUXV gdb does not relocate a PIE, without
 * PRPSINFO elfutils finds no thread, and the leader has to come first. */

enum {
	FXSAVE_BYTES = 512,   /* FPREGSET: how XSTATE begins */
	NOTE_ALIGN = 4,
	PAGE_BYTES = 4096,
	XSAVE_LEAF = 0x0d,
	XSAVE_COMPONENTS = 63,
	XSAVE_FIRST = 2,      /* 0 and 1 are x87 and SSE: fixed places */
};

void hf_core_note_write(struct hf_byte_buffer *buffer, const char *name,
			uint32_t type, const void *desc, size_t len)
{
	size_t name_bytes = strlen(name) + 1;

	if (len > UINT32_MAX)
		return; /* no debugger's business either */
	hf_byte_buffer_put_u32(buffer, (uint32_t)name_bytes);
	hf_byte_buffer_put_u32(buffer, (uint32_t)len);
	hf_byte_buffer_put_u32(buffer, type);
	hf_byte_buffer_put(buffer, name, name_bytes);
	hf_byte_buffer_align(buffer, NOTE_ALIGN);
	hf_byte_buffer_put(buffer, desc, len);
	hf_byte_buffer_align(buffer, NOTE_ALIGN);
}

static void put_prstatus(struct hf_byte_buffer *buffer,
			 const struct hf_thread *thread,
			 const struct hf_process_info *process)
{
	struct elf_prstatus status = { 0 };

	/* No signal: the process did not die of one. */
	status.pr_pid = thread->tid;
	status.pr_ppid = process->parent;
	status.pr_pgrp = process->group;
	status.pr_sid = process->session;
	status.pr_sighold = thread->sigmask;
	status.pr_fpvalid = thread->xstate_bytes >= FXSAVE_BYTES;
	_Static_assert(sizeof(status.pr_reg) == sizeof(thread->regs),
		       "elf_gregset_t is user_regs_struct");
	memcpy(&status.pr_reg, &thread->regs, sizeof(status.pr_reg));
	hf_core_note_write(buffer, "CORE", NT_PRSTATUS, &status,
			   sizeof(status));
}

static void put_prpsinfo(struct hf_byte_buffer *buffer,
			 const struct hf_process_info *process)
{
	static const char states[] = "RSDTZW";
	struct elf_prpsinfo info = { 0 };
	const char *state = process->state ? strchr(states, process->state) :
					     NULL;

	info.pr_state = state ? (char)(state - states) : 0;
	info.pr_sname = process->state ? process->state : 'R';
	info.pr_zomb = process->state == 'Z';
	info.pr_nice = process->nice;
	info.pr_flag = process->flags;
	info.pr_uid = process->uid;
	info.pr_gid = process->gid;
	info.pr_pid = process->pid;
	info.pr_ppid = process->parent;
	info.pr_pgrp = process->group;
	info.pr_sid = process->session;
	memcpy(info.pr_fname, process->name, sizeof(info.pr_fname) - 1);
	memcpy(info.pr_psargs, process->args, sizeof(info.pr_psargs) - 1);
	hf_core_note_write(buffer, "CORE", NT_PRPSINFO, &info, sizeof(info));
}

static void put_siginfo(struct hf_byte_buffer *buffer)
{
	const siginfo_t none = { 0 };

	hf_core_note_write(buffer, "CORE", NT_SIGINFO, &none, sizeof(none));
}

static bool is_file(const struct hf_segment *segment)
{
	return segment->path && segment->path[0] == '/' &&
	       segment->kind != HF_SEGMENT_SPECIAL;
}

static void put_files(struct hf_byte_buffer *buffer,
		      const struct hf_image *image)
{
	__attribute__((cleanup(hf_auto_hf_byte_buffer)))
	struct hf_byte_buffer desc = { 0 };
	size_t num, num_files = 0;
	const struct hf_segment *segments = hf_image_segments(image, &num);

	for (size_t i = 0; i < num; i++)
		num_files += is_file(&segments[i]);
	hf_byte_buffer_put_u64(&desc, num_files);
	hf_byte_buffer_put_u64(&desc, PAGE_BYTES);
	for (size_t i = 0; i < num; i++) {
		if (!is_file(&segments[i]))
			continue;
		hf_byte_buffer_put_u64(&desc, segments[i].start);
		hf_byte_buffer_put_u64(&desc, segments[i].end);
		hf_byte_buffer_put_u64(&desc, segments[i].file_offset /
						      PAGE_BYTES);
	}
	for (size_t i = 0; i < num; i++)
		if (is_file(&segments[i]))
			hf_byte_buffer_put(&desc, segments[i].path,
					   strlen(segments[i].path) + 1);
	buffer->failed |= desc.failed;
	hf_core_note_write(buffer, "CORE", NT_FILE, desc.data, desc.num);
}

static void put_floats(struct hf_byte_buffer *buffer,
		       const struct hf_thread *thread)
{
	if (thread->xstate_bytes < FXSAVE_BYTES)
		return;
	hf_core_note_write(buffer, "CORE", NT_FPREGSET, thread->xstate,
			   FXSAVE_BYTES);
	hf_core_note_write(buffer, "LINUX", NT_X86_XSTATE, thread->xstate,
			   thread->xstate_bytes);
}

/* Where this CPU puts the components of XSTATE: makers differ, and a debugger
 * on another machine cannot ask it. */
static void put_xsave_layout(struct hf_byte_buffer *buffer)
{
	struct hf_xsave_component components[XSAVE_COMPONENTS];
	uint32_t low, high, eax, ebx, ecx, edx;
	size_t num = 0;

	if (!__get_cpuid_count(XSAVE_LEAF, 0, &low, &ebx, &ecx, &high))
		return;
	for (uint32_t i = XSAVE_FIRST; i < XSAVE_COMPONENTS; i++) {
		if (!(((uint64_t)high << 32 | low) >> i & 1) ||
		    !__get_cpuid_count(XSAVE_LEAF, i, &eax, &ebx, &ecx, &edx))
			continue;
		components[num++] = (struct hf_xsave_component){
			.type = i, .size = eax, .offset = ebx, .flags = ecx,
		};
	}
	if (num)
		hf_core_note_write(buffer, "LINUX", HF_NT_X86_XSAVE_LAYOUT,
				   components, num * sizeof(components[0]));
}

static void put_image(struct hf_byte_buffer *buffer,
		      const struct hf_image *image)
{
	__attribute__((cleanup(hf_auto_hf_byte_buffer)))
	struct hf_byte_buffer desc = { 0 };
	size_t num;
	const struct hf_segment *segments = hf_image_segments(image, &num);
	const struct hf_range *ranges;
	const char *const *losses;

	hf_byte_buffer_put_u64(&desc, HF_NOTE_VERSION);
	hf_byte_buffer_put_u64(&desc, num);
	for (size_t i = 0; i < num; i++) {
		const struct hf_segment *segment = &segments[i];

		hf_byte_buffer_put_u64(&desc, segment->start);
		hf_byte_buffer_put_u64(&desc, segment->end);
		hf_byte_buffer_put_u64(&desc, segment->prot);
		hf_byte_buffer_put_u64(&desc, segment->kind);
		hf_byte_buffer_put_u64(&desc, segment->absent);
		hf_byte_buffer_put_u64(&desc, segment->late);
		hf_byte_buffer_put_u64(&desc, segment->advice);
		hf_byte_buffer_put_u64(&desc, segment->file_offset);
		hf_byte_buffer_put_u64(&desc, segment->device);
		hf_byte_buffer_put_u64(&desc, segment->inode);
		hf_byte_buffer_put_text(&desc, segment->path);
	}
	ranges = hf_image_resident(image, &num);
	hf_byte_buffer_put_u64(&desc, num);
	for (size_t i = 0; i < num; i++) {
		hf_byte_buffer_put_u64(&desc, ranges[i].start);
		hf_byte_buffer_put_u64(&desc, ranges[i].end);
	}
	losses = hf_image_losses(image, &num);
	hf_byte_buffer_put_u64(&desc, num);
	for (size_t i = 0; i < num; i++)
		hf_byte_buffer_put_text(&desc, losses[i]);
	buffer->failed |= desc.failed;
	hf_core_note_write(buffer, HF_NOTE_NAME, HF_NOTE_IMAGE, desc.data,
			   desc.num);
}

static void put_threads(struct hf_byte_buffer *buffer,
			const struct hf_image *image)
{
	__attribute__((cleanup(hf_auto_hf_byte_buffer)))
	struct hf_byte_buffer desc = { 0 };
	size_t num;
	const struct hf_thread *threads = hf_image_threads(image, &num);

	hf_byte_buffer_put_u64(&desc, HF_NOTE_VERSION);
	hf_byte_buffer_put_u64(&desc, num);
	for (size_t i = 0; i < num; i++) {
		hf_byte_buffer_put_u64(&desc, (uint64_t)threads[i].tid);
		hf_byte_buffer_put_u64(&desc, threads[i].stop_how);
		hf_byte_buffer_put_u64(&desc, (uint8_t)threads[i].state);
		hf_byte_buffer_put_u64(&desc, threads[i].sigmask);
		hf_byte_buffer_put_text(&desc, threads[i].name);
	}
	buffer->failed |= desc.failed;
	hf_core_note_write(buffer, HF_NOTE_NAME, HF_NOTE_THREADS, desc.data,
			   desc.num);
}

void hf_core_notes_write(struct hf_byte_buffer *buffer,
			 const struct hf_image *image,
			 const struct hf_process_info *process,
			 const char *capture, bool stripped)
{
	size_t num;
	const struct hf_thread *threads = hf_image_threads(image, &num);
	const struct hf_thread none = { .tid = process->pid };

	put_prstatus(buffer, num ? &threads[0] : &none, process);
	put_prpsinfo(buffer, process);
	put_siginfo(buffer);
	if (process->auxv_bytes)
		hf_core_note_write(buffer, "CORE", NT_AUXV, process->auxv,
				   process->auxv_bytes);
	put_files(buffer, image);
	/* Vector registers hold what was copied or compared last. */
	if (num && !stripped)
		put_floats(buffer, &threads[0]);
	for (size_t i = 1; i < num; i++) {
		put_prstatus(buffer, &threads[i], process);
		if (!stripped)
			put_floats(buffer, &threads[i]);
	}
	if (!stripped)
		put_xsave_layout(buffer);
	if (stripped)
		hf_core_note_write(buffer, HF_NOTE_NAME, HF_NOTE_STRIPPED,
				   NULL, 0);
	else
		put_image(buffer, image);
	put_threads(buffer, image);
	if (capture)
		hf_core_note_write(buffer, HF_NOTE_NAME, HF_NOTE_CAPTURE,
				   capture, strlen(capture));
}
