/* Core notes: what the notes of a core say.
 * SPDX-License-Identifier: MIT */
#include "coredump/core/core_notes.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/procfs.h>

#include "coredump/core/own_notes.h"
#include "coredump/image_internal.h"

/* core_format.h has the layout. All of it is what somebody wrote into a file:
 * nothing is believed that was not checked against the length of the note. */

enum {
	NOTE_HEAD_BYTES = 12,
	FXSAVE_BYTES = 512,
	FILE_HEAD_BYTES = 16,
	FILE_ENTRY_BYTES = 24,
};

static uint64_t get_u64(const uint8_t *bytes)
{
	uint64_t value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

static uint32_t get_u32(const uint8_t *bytes)
{
	uint32_t value;

	memcpy(&value, bytes, sizeof(value));
	return value;
}

static struct hf_error *take_prstatus(struct hf_core_notes *notes,
				      const uint8_t *desc, size_t len)
{
	struct hf_thread thread = { .stop_how = HF_STOP_USER };
	struct elf_prstatus status;

	if (len < sizeof(status)) {
		notes->num_damaged++;
		return NULL;
	}
	memcpy(&status, desc, sizeof(status));
	thread.tid = status.pr_pid;
	thread.sigmask = status.pr_sighold;
	memcpy(&thread.regs, &status.pr_reg, sizeof(thread.regs));
	if ((int64_t)thread.regs.orig_rax >= 0)
		thread.stop_how = HF_STOP_SYSCALL;
	/* Other fields of the process, should there be no PRPSINFO. */
	if (!notes->threads.num && !notes->has_process) {
		notes->process.pid = status.pr_pid;
		notes->process.parent = status.pr_ppid;
		notes->process.group = status.pr_pgrp;
		notes->process.session = status.pr_sid;
	}
	return hf_array_append(&notes->threads, thread);
}

static void take_prpsinfo(struct hf_core_notes *notes, const uint8_t *desc,
			  size_t len)
{
	struct hf_process_info *process = &notes->process;
	struct elf_prpsinfo info;

	if (len < sizeof(info)) {
		notes->num_damaged++;
		return;
	}
	memcpy(&info, desc, sizeof(info));
	notes->has_process = true;
	process->pid = info.pr_pid;
	process->parent = info.pr_ppid;
	process->group = info.pr_pgrp;
	process->session = info.pr_sid;
	process->uid = info.pr_uid;
	process->gid = info.pr_gid;
	process->nice = info.pr_nice;
	process->flags = info.pr_flag;
	process->state = info.pr_sname;
	memcpy(process->name, info.pr_fname, sizeof(process->name) - 1);
	memcpy(process->args, info.pr_psargs, sizeof(process->args) - 1);
}

static void take_auxv(struct hf_core_notes *notes, const uint8_t *desc,
		      size_t len)
{
	struct hf_process_info *process = &notes->process;

	len = hf_min_u64(len, sizeof(process->auxv));
	process->auxv_bytes = len / sizeof(Elf64_auxv_t) * sizeof(Elf64_auxv_t);
	memcpy(process->auxv, desc, process->auxv_bytes);
}

static struct hf_error *take_files(struct hf_core_notes *notes,
				   const uint8_t *desc, size_t len)
{
	uint64_t count, page_bytes, table_bytes, last_end = 0;
	const char *name, *end = (const char *)desc + len;

	if (len < FILE_HEAD_BYTES)
		goto damaged;
	count = get_u64(desc);
	page_bytes = get_u64(desc + 8);
	if (count > (len - FILE_HEAD_BYTES) / FILE_ENTRY_BYTES ||
	    page_bytes > HF_ADDRESS_END)
		goto damaged;
	table_bytes = FILE_HEAD_BYTES + count * FILE_ENTRY_BYTES;
	name = (const char *)desc + table_bytes;
	notes->has_mapped = true;
	for (uint64_t i = 0; i < count; i++) {
		const uint8_t *entry = desc + FILE_HEAD_BYTES +
				       i * FILE_ENTRY_BYTES;
		struct hf_core_mapped mapped = {
			.range = { get_u64(entry), get_u64(entry + 8) },
			.path = name,
		};
		size_t room = (size_t)(end - name);
		size_t name_len = strnlen(name, room);
		struct hf_error *err;

		if (name_len == room)
			goto damaged;
		name += name_len + 1;
		if (mapped.range.start >= mapped.range.end ||
		    mapped.range.end > HF_ADDRESS_END ||
		    (mapped.range.start | mapped.range.end) % HF_PAGE_BYTES ||
		    mapped.range.start < last_end ||
		    __builtin_mul_overflow(get_u64(entry + 16), page_bytes,
					   &mapped.file_offset) ||
		    mapped.file_offset > INT64_MAX - HF_ADDRESS_END) {
			notes->num_damaged++;
			continue;
		}
		last_end = mapped.range.end;
		err = hf_array_append(&notes->mapped, mapped);
		if (err)
			return err;
	}
	return NULL;
damaged:
	notes->num_damaged++;
	return NULL;
}

/* FPREGSET and XSTATE belong to the PRSTATUS before them. */
static void take_floats(struct hf_core_notes *notes, const uint8_t *desc,
			size_t len, bool is_xstate)
{
	struct hf_thread *thread;

	if (!notes->threads.num || len < FXSAVE_BYTES) {
		notes->num_damaged++;
		return;
	}
	thread = &notes->threads.data[notes->threads.num - 1];
	if (!is_xstate && thread->xstate_bytes)
		return;
	/* The image copies it. */
	thread->xstate = (void *)(uintptr_t)desc;
	thread->xstate_bytes = is_xstate ? len : FXSAVE_BYTES;
}

static struct hf_error *take_standard(struct hf_core_notes *notes,
				      uint32_t type, const uint8_t *desc,
				      size_t len)
{
	switch (type) {
	case NT_PRSTATUS:
		return take_prstatus(notes, desc, len);
	case NT_PRPSINFO:
		take_prpsinfo(notes, desc, len);
		return NULL;
	case NT_AUXV:
		take_auxv(notes, desc, len);
		return NULL;
	case NT_FILE:
		return notes->has_mapped ? NULL : take_files(notes, desc, len);
	case NT_FPREGSET:
		take_floats(notes, desc, len, false);
		return NULL;
	default:
		return NULL;
	}
}

static struct hf_error *take_note(struct hf_core_notes *notes,
				  const char *name, uint32_t type,
				  const uint8_t *desc, size_t len)
{
	if (!strcmp(name, "CORE"))
		return take_standard(notes, type, desc, len);
	if (!strcmp(name, "LINUX")) {
		if (type == NT_X86_XSTATE)
			take_floats(notes, desc, len, true);
		return NULL;
	}
	if (!strcmp(name, HF_NOTE_NAME))
		return hf_own_note_take(notes, type, desc, len);
	return NULL;
}

/* Whose pid the process has; else the one that comes first. */
static void put_leader_first(struct hf_core_notes *notes)
{
	struct hf_thread *threads = notes->threads.data;

	for (size_t i = 1; i < notes->threads.num; i++) {
		struct hf_thread leader = threads[i];

		if (!notes->has_process || leader.tid != notes->process.pid)
			continue;
		/* The others stay in their order. */
		memmove(threads + 1, threads, i * sizeof(*threads));
		threads[0] = leader;
		return;
	}
}

struct hf_error *hf_core_notes_parse(const uint8_t *bytes, size_t len,
				     struct hf_core_notes *ret)
{
	__attribute__((cleanup(hf_auto_hf_core_notes)))
	struct hf_core_notes notes = { 0 };
	struct hf_own_threads own = { 0 };
	size_t at = 0;

	while (len - at >= NOTE_HEAD_BYTES) {
		uint64_t name_len = get_u32(bytes + at);
		uint64_t desc_len = get_u32(bytes + at + 4);
		uint32_t type = get_u32(bytes + at + 8);
		uint64_t name_room = (name_len + 3) & ~UINT64_C(3);
		uint64_t desc_room = (desc_len + 3) & ~UINT64_C(3);
		uint64_t left = len - at - NOTE_HEAD_BYTES;
		const uint8_t *desc;
		struct hf_error *err;
		char name[16] = "";

		if (name_room > left || desc_len > left - name_room) {
			notes.num_damaged++;
			break;
		}
		memcpy(name, bytes + at + NOTE_HEAD_BYTES,
		       hf_min_u64(name_len, sizeof(name) - 1));
		desc = bytes + at + NOTE_HEAD_BYTES + name_room;
		if (!strcmp(name, HF_NOTE_NAME) && type == HF_NOTE_THREADS)
			own = (struct hf_own_threads){ desc, desc_len };
		else if ((err = take_note(&notes, name, type, desc, desc_len)))
			return err;
		at += NOTE_HEAD_BYTES + name_room +
		      hf_min_u64(desc_room, left - name_room);
	}
	/* When all PRSTATUS have been seen, and before they change places. */
	hf_own_threads_take(&notes, &own);
	put_leader_first(&notes);
	*ret = notes;
	memset(&notes, 0, sizeof(notes));
	return NULL;
}

void hf_core_notes_deinit(struct hf_core_notes *notes)
{
	for (size_t i = 0; i < notes->texts.num; i++)
		free(notes->texts.data[i]);
	hf_array_deinit(&notes->threads);
	hf_array_deinit(&notes->mapped);
	hf_array_deinit(&notes->segments);
	hf_array_deinit(&notes->resident);
	hf_array_deinit(&notes->losses);
	hf_array_deinit(&notes->missing);
	hf_array_deinit(&notes->texts);
	free(notes->capture);
	notes->capture = NULL;
}
