/* Way home: how a borrowed thread finds back if its tool is killed.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/way_home.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>

#include "fork-agent/own_stack.h"
#include "fork-agent/proc_task.h"
#include "fork-agent/signal_frame.h"
#include "util/file.h"

enum {
	RED_ZONE_BYTES = 128,
	/* Below the frames: for a handler that is called when the thread was
	 * left alone. */
	HANDLER_ROOM_BYTES = 4096,
	LEGACY_FP_BYTES = 512,
	SYSCALL_INSN_BYTES = 2,
	/* A call that was interrupted and wants to be started again says so
	 * by one of these (linux/errno.h, Linux 6.12). */
	ERESTARTSYS = 512,
	ERESTART_RESTARTBLOCK = 516,
	PIECES_MAX = 5,
	/* So much above the stack pointer is searched for signal frames; a
	 * stack in deeper use is not known for sure. */
	SCAN_CHUNK_BYTES = 32 * 1024,
	SCAN_MAX_BYTES = 2 * 1024 * 1024,
};

/* Bytes of another process, and where they come from or go to. */
struct piece {
	uint64_t addr;
	void *buf;
	size_t num_bytes;
};

static void forget_maps(struct hf_way *way)
{
	if (way->is_open)
		close(way->mem_fd);
	way->is_open = false;
	free(way->stacks);
	way->stacks = NULL;
	way->num_stacks = 0;
	way->laid = false;
	way->certain_tid = 0;
}

void hf_way_deinit(struct hf_way *way)
{
	forget_maps(way);
	free(way->frames);
	free(way->saved);
	free(way->scan);
	memset(way, 0, sizeof(*way));
}

/* ---- memory of the target ---- */

static bool pieces_by_file(int mem_fd, bool write, const struct piece *pieces,
			   size_t num)
{
	for (size_t i = 0; i < num; i++) {
		const struct piece *piece = &pieces[i];
		ssize_t n = write ? pwrite(mem_fd, piece->buf,
					   piece->num_bytes,
					   (off_t)piece->addr) :
				    pread(mem_fd, piece->buf,
					  piece->num_bytes,
					  (off_t)piece->addr);

		if (n != (ssize_t)piece->num_bytes)
			return false;
	}
	return true;
}

/* All pieces in one call, which unlike the file respects a page that may not
 * be written. The file is for where a seccomp profile of ours (a container's)
 * has no such call. */
static bool transfer(pid_t pid, int mem_fd, bool write,
		     struct hf_trace_calls *calls, const struct piece *pieces,
		     size_t num)
{
	struct iovec local[PIECES_MAX], remote[PIECES_MAX];
	size_t num_bytes = 0;
	ssize_t n;

	for (size_t i = 0; i < num; i++) {
		local[i].iov_base = pieces[i].buf;
		remote[i].iov_base = (void *)pieces[i].addr;
		local[i].iov_len = remote[i].iov_len = pieces[i].num_bytes;
		num_bytes += pieces[i].num_bytes;
	}
	hf_trace_calls_count(calls);
	n = syscall(write ? SYS_process_vm_writev : SYS_process_vm_readv, pid,
		    local, num, remote, num, 0);
	if (n < 0 && (errno == ENOSYS || errno == EPERM) && mem_fd >= 0)
		return pieces_by_file(mem_fd, write, pieces, num);
	return n == (ssize_t)num_bytes;
}

/* ---- before the stop ---- */

static bool may_be_stack(const struct hf_mapping *mapping)
{
	return mapping->prot & PROT_READ && mapping->prot & PROT_WRITE &&
	       !mapping->is_shared && !mapping->inode &&
	       (!mapping->path || !strncmp(mapping->path, "[stack", 6) ||
		!strncmp(mapping->path, "[anon", 5));
}

static struct hf_error *list_stacks(struct hf_way *way,
				    const struct hf_proc_maps *maps)
{
	way->stacks = calloc(maps->num + 1, sizeof(*way->stacks));
	if (!way->stacks)
		return &hf_enomem;
	for (size_t i = 0; i < maps->num; i++) {
		const struct hf_mapping *mapping = &maps->data[i];

		if (!may_be_stack(mapping))
			continue;
		way->stacks[way->num_stacks++] = (struct hf_stack_range){
			.start = mapping->start,
			.end = mapping->end,
			.is_initial = mapping->path &&
				      !strcmp(mapping->path, "[stack]"),
		};
	}
	return NULL;
}

static struct hf_error *make_room(struct hf_way *way)
{
	size_t bytes = 2 * HF_SIGNAL_FRAME_BYTES +
		       hf_fpstate_bytes(hf_xstate_max_bytes());

	if (way->room_bytes)
		return NULL;
	way->frames = malloc(bytes);
	way->saved = malloc(bytes);
	way->scan = malloc(SCAN_CHUNK_BYTES);
	if (!way->frames || !way->saved || !way->scan)
		return &hf_enomem;
	/* Present before the pause. */
	memset(way->frames, 0xff, bytes);
	memset(way->saved, 0xff, bytes);
	memset(way->scan, 0xff, SCAN_CHUNK_BYTES);
	way->room_bytes = bytes;
	return NULL;
}

static bool is_there(const struct hf_site *site, const uint8_t *bytes)
{
	return site->addr && !memcmp(site->bytes, bytes, site->num_bytes);
}

/* Are the instructions still where they were found in an earlier try? */
static bool still_there(const struct hf_way *way)
{
	const struct hf_site *sites[] = { &way->site.call, &way->site.call_ret,
					  &way->site.restorer };
	uint8_t bytes[HF_SITE_BYTES];

	for (size_t i = 0; i < 3; i++)
		if (!sites[i]->addr ||
		    pread(way->mem_fd, bytes, sites[i]->num_bytes,
			  (off_t)sites[i]->addr) != sites[i]->num_bytes ||
		    !is_there(sites[i], bytes))
			return false;
	return true;
}

struct hf_error *hf_way_prepare(struct hf_way *way, pid_t tid)
{
	struct hf_proc_maps maps HF_AUTO(hf_proc_maps) = { 0 };
	HF_AUTO_FREE char *text = NULL;
	struct hf_proc_status status;
	struct hf_error *err;
	char path[64];
	size_t len;

	forget_maps(way);
	err = hf_proc_status_read(tid, 0, &status);
	if (err)
		return err;
	way->pid = status.tgid;
	snprintf(path, sizeof(path), "/proc/%d/maps", tid);
	err = hf_read_file(path, &text, &len);
	if (!err)
		err = hf_proc_maps_parse(text, len, &maps);
	if (!err)
		err = make_room(way);
	if (!err)
		err = list_stacks(way, &maps);
	if (err)
		return err;
	snprintf(path, sizeof(path), "/proc/%d/mem", tid);
	way->mem_fd = open(path, O_RDWR | O_CLOEXEC);
	if (way->mem_fd < 0)
		return hf_error_os(errno, "cannot open '%s'", path);
	way->is_open = true;
	if (!still_there(way))
		hf_syscall_site_search(way->mem_fd, &maps, &way->site);
	if (!way->site.call.addr)
		return hf_error_create(HF_ERROR_NOT_FOUND,
				       "process %d has no syscall instruction",
				       tid);
	return NULL;
}

/* ---- at the stop ---- */

static size_t frames_bytes(const struct hf_tracee *tracee)
{
	size_t xstate_bytes = tracee->xstate_bytes ? tracee->xstate_bytes :
						     LEGACY_FP_BYTES;

	return 2 * HF_SIGNAL_FRAME_BYTES + hf_fpstate_bytes(xstate_bytes);
}

static const struct hf_stack_range *find_stack(const struct hf_way *way,
					       uint64_t addr)
{
	size_t low = 0, high = way->num_stacks;

	while (low < high) {
		size_t middle = low + (high - low) / 2;

		if (addr < way->stacks[middle].start)
			high = middle;
		else if (addr >= way->stacks[middle].end)
			low = middle + 1;
		else
			return &way->stacks[middle];
	}
	return NULL;
}

static uint64_t room_needed(const struct hf_tracee *tracee)
{
	return RED_ZONE_BYTES + HF_FPSTATE_ALIGN + frames_bytes(tracee) +
	       HANDLER_ROOM_BYTES;
}

/* The initial thread has no stack of the C library's. Others may have one that
 * is an array of the initial thread's; its children may, too, when they were
 * forked by such a one. */
static bool is_on_initial(const struct hf_way *way,
			  const struct hf_tracee *tracee,
			  const struct hf_stack_range *stack)
{
	uint64_t self = tracee->regs.fs_base;

	return stack->is_initial && tracee->tid == way->pid &&
	       (self < stack->start || self >= stack->end);
}

bool hf_way_has_room(const struct hf_way *way, const struct hf_tracee *tracee)
{
	uint64_t sp = tracee->regs.rsp, self = tracee->regs.fs_base;
	const struct hf_stack_range *stack = find_stack(way, sp);

	if (!stack)
		return false;
	if (!is_on_initial(way, tracee, stack) &&
	    !(sp < self && self < stack->end))
		return false;
	return sp - stack->start >= room_needed(tracee);
}

static uint64_t own_start(const struct hf_way *way, struct hf_tracee *tracee,
			  const struct hf_stack_range *stack)
{
	uint64_t words[HF_OWN_STACK_WORDS], self = tracee->regs.fs_base;
	struct piece piece = { self, words, sizeof(words) };

	if (is_on_initial(way, tracee, stack))
		return stack->start;
	if (stack->end - self < sizeof(words))
		piece.num_bytes = (stack->end - self) / 8 * 8;
	if (!transfer(tracee->tid, way->mem_fd, false, tracee->calls, &piece,
		      1))
		return 0;
	return hf_own_stack_start(words, piece.num_bytes / 8, self,
				  tracee->regs.rsp, stack->start, stack->end);
}

/* A signal handler may run on an alternate stack that is an array in the very
 * stack that it has interrupted: then what is below is alive. */
static bool hides_another(const struct hf_way *way, struct hf_tracee *tracee,
			  const struct hf_stack_range *stack)
{
	/* In the restorer the frame's first word was taken already. */
	uint64_t at = (tracee->regs.rsp - 8) / 8 * 8;

	if (stack->end - at > SCAN_MAX_BYTES)
		return true;
	while (at < stack->end) {
		struct piece piece = { at, way->scan, SCAN_CHUNK_BYTES };

		if (stack->end - at < piece.num_bytes)
			piece.num_bytes = stack->end - at;
		if (!transfer(tracee->tid, way->mem_fd, false, tracee->calls,
			      &piece, 1) ||
		    hf_own_stack_hides_another(way->scan, piece.num_bytes, at,
					       tracee->regs.rsp, stack->start,
					       stack->end))
			return true;
		if (stack->end - at <= SCAN_CHUNK_BYTES)
			break;
		at += SCAN_CHUNK_BYTES - HF_OWN_STACK_FRAME_BYTES;
	}
	return false;
}

bool hf_way_is_certain(struct hf_way *way, struct hf_tracee *tracee)
{
	const struct hf_stack_range *stack =
		find_stack(way, tracee->regs.rsp);
	uint64_t start;

	if (way->certain_tid == tracee->tid)
		return way->is_certain;
	way->certain_tid = tracee->tid;
	way->is_certain = false;
	if (!hf_way_has_room(way, tracee))
		return false;
	start = own_start(way, tracee, stack);
	way->is_certain = start && tracee->regs.rsp >= start &&
			  tracee->regs.rsp - start >= room_needed(tracee) &&
			  !hides_another(way, tracee, stack);
	return way->is_certain;
}

bool hf_way_check_site(struct hf_way *way, struct hf_tracee *tracee)
{
	uint8_t bytes[HF_SITE_BYTES];
	const struct piece piece = { way->site.call.addr, bytes,
				     way->site.call.num_bytes };

	return transfer(tracee->tid, way->mem_fd, false, tracee->calls, &piece,
			1) &&
	       is_there(&way->site.call, bytes);
}

/* Registers as after a way home: those of the stop, and a call that was
 * interrupted is begun again. (The kernel would go on with some of them where
 * they were; rt_sigreturn gives that up, and they would end with EINTR.) */
static struct user_regs_struct home_registers(const struct hf_tracee *tracee,
					      int64_t resumed_nr)
{
	struct user_regs_struct regs = hf_tracee_resume_registers(tracee);
	int64_t nr = (int64_t)regs.orig_rax, result = (int64_t)regs.rax;

	if (nr >= 0 && result <= -ERESTARTSYS &&
	    result >= -ERESTART_RESTARTBLOCK) {
		regs.rax = (uint64_t)(nr == SYS_restart_syscall ? resumed_nr :
								  nr);
		regs.rip -= SYSCALL_INSN_BYTES;
	}
	return regs;
}

/* A call that was interrupted before (by an earlier capture, or a debugger) and
 * went on where it was is now restart_syscall, which has nothing to go on with
 * after rt_sigreturn. Its arguments are still in their registers, its number is
 * in the code: `mov $nr, %eax; syscall`. If it is not, the call ends with
 * EINTR. */
static int64_t find_resumed_nr(struct hf_way *way, struct hf_tracee *tracee)
{
	enum { MOV_EAX = 0xb8, CODE_BYTES = 7 };
	uint8_t code[CODE_BYTES];
	const struct piece piece = { tracee->regs.rip - CODE_BYTES, code,
				     CODE_BYTES };
	uint32_t nr;

	if ((int64_t)tracee->regs.orig_rax != SYS_restart_syscall ||
	    !transfer(tracee->tid, way->mem_fd, false, tracee->calls, &piece,
		      1))
		return SYS_restart_syscall;
	memcpy(&nr, code + 1, sizeof(nr));
	if (code[0] != MOV_EAX || code[5] != 0x0f || code[6] != 0x05)
		return SYS_restart_syscall;
	switch (nr) {
	case SYS_poll:
	case SYS_nanosleep:
	case SYS_clock_nanosleep:
	case SYS_futex:
		return nr;
	default:
		return SYS_restart_syscall;
	}
}

static void build(struct hf_way *way, struct hf_tracee *tracee,
		  const uint8_t *xstate, size_t xstate_bytes)
{
	size_t child_at = way->num_bytes - HF_SIGNAL_FRAME_BYTES;
	const struct hf_signal_frame thread = {
		.return_address = way->site.restorer.addr,
		.regs = home_registers(tracee, find_resumed_nr(way, tracee)),
		.mask = tracee->sigmask,
		.fpstate = way->start + HF_SIGNAL_FRAME_BYTES,
	};
	struct hf_signal_frame child = {
		.return_address = way->site.restorer.addr,
		.mask = ~0ull,
	};

	way->child = way->start + child_at;
	/* exit, and not exit_group: strict seccomp allows it, too. */
	child.regs.rip = way->site.call_ret.addr;
	child.regs.rsp = way->child;
	child.regs.rax = SYS_exit;
	child.regs.eflags = 1u << 1; /* the bit that is always set */
	child.regs.cs = tracee->regs.cs;
	child.regs.ss = tracee->regs.ss;
	hf_signal_frame_build(&thread, way->frames);
	hf_fpstate_build(xstate, xstate_bytes,
			 way->frames + HF_SIGNAL_FRAME_BYTES);
	hf_signal_frame_build(&child, way->frames + child_at);
}

/* What is there now; and are the instructions, and the thread's descriptor,
 * what they were found to be? One call for all of it. */
static bool save(struct hf_way *way, struct hf_tracee *tracee)
{
	const struct hf_stack_range *stack =
		find_stack(way, tracee->regs.rsp);
	uint8_t call_ret[HF_SITE_BYTES], restorer[HF_SITE_BYTES];
	bool is_initial = is_on_initial(way, tracee, stack);
	uint64_t self = 0;
	const struct piece pieces[] = {
		{ way->site.call_ret.addr, call_ret,
		  way->site.call_ret.num_bytes },
		{ way->site.restorer.addr, restorer,
		  way->site.restorer.num_bytes },
		{ way->start, way->saved, way->num_bytes },
		/* There may be guards in a mapping (MADV_GUARD_INSTALL),
		 * which cannot be read. */
		{ way->start - HANDLER_ROOM_BYTES, way->scan,
		  HANDLER_ROOM_BYTES },
		{ tracee->regs.fs_base, &self, sizeof(self) },
	};

	_Static_assert((int)HANDLER_ROOM_BYTES <= (int)SCAN_CHUNK_BYTES,
		       "room of scan");

	if (!transfer(tracee->tid, way->mem_fd, false, tracee->calls, pieces,
		      is_initial ? 4 : 5))
		return false;
	if (!is_there(&way->site.call_ret, call_ret) ||
	    !is_there(&way->site.restorer, restorer))
		return false;
	/* By the ABI, %fs:0 holds the address of itself. Where it does not,
	 * the thread is none of the C library's, nor is its stack. */
	return is_initial || self == tracee->regs.fs_base;
}

static enum hf_way_home why_not_full(struct hf_tracee *tracee)
{
	struct hf_proc_status status;
	struct hf_error *err = hf_proc_status_read(tracee->tid, 0, &status);

	if (err) {
		hf_error_ignore(err);
		return HF_WAY_HOME_NO_STACK;
	}
	if (status.has_shadow_stack)
		return HF_WAY_HOME_SHADOW;
	return status.seccomp ? HF_WAY_HOME_SECCOMP : HF_WAY_HOME_FULL;
}

void hf_way_lay(struct hf_way *way, struct hf_tracee *tracee)
{
	const uint8_t *xstate = tracee->xstate;
	size_t xstate_bytes = tracee->xstate_bytes;
	struct user_fpregs_struct legacy;
	struct piece frames;

	_Static_assert(sizeof(legacy) == LEGACY_FP_BYTES, "as FXSAVE");
	way->laid = false;
	way->state = HF_WAY_HOME_NO_STACK;
	if (!way->site.call_ret.addr)
		way->state = HF_WAY_HOME_NO_SITE;
	else if (!way->site.restorer.addr)
		way->state = HF_WAY_HOME_NO_RETURN;
	else if (hf_way_is_certain(way, tracee))
		way->state = why_not_full(tracee);
	if (way->state != HF_WAY_HOME_FULL &&
	    way->state != HF_WAY_HOME_SECCOMP)
		return;
	if (!xstate_bytes) {
		if (hf_tracee_ptrace(tracee, PTRACE_GETFPREGS, NULL,
				     &legacy) < 0)
			return;
		xstate = (const uint8_t *)&legacy;
		xstate_bytes = sizeof(legacy);
	}
	way->num_bytes = frames_bytes(tracee);
	way->start = (tracee->regs.rsp - RED_ZONE_BYTES) /
			     HF_FPSTATE_ALIGN * HF_FPSTATE_ALIGN -
		     way->num_bytes;
	if (way->num_bytes > way->room_bytes || !save(way, tracee)) {
		way->state = HF_WAY_HOME_NO_STACK;
		return;
	}
	build(way, tracee, xstate, xstate_bytes);
	frames = (struct piece){ way->start, way->frames, way->num_bytes };
	way->laid = transfer(tracee->tid, way->mem_fd, true, tracee->calls,
			     &frames, 1);
	if (!way->laid)
		way->state = HF_WAY_HOME_NO_STACK;
}

struct user_regs_struct hf_way_registers(const struct hf_way *way,
					 const struct hf_tracee *tracee)
{
	struct user_regs_struct regs = tracee->regs;

	/* At the `ret`, as after a call. */
	regs.rip = way->site.call_ret.addr + SYSCALL_INSN_BYTES;
	regs.rsp = way->start;
	regs.rax = 0;
	regs.orig_rax = ~0ull;
	return regs;
}

void hf_way_clear(const struct hf_way *way, struct hf_trace_calls *calls,
		  pid_t pid)
{
	const struct piece saved = { way->start, way->saved,
				     way->num_bytes };
	HF_AUTO_FD int mem_fd = -1;
	char path[64];

	if (!way->laid)
		return;
	if (transfer(pid, -1, true, calls, &saved, 1))
		return;
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	mem_fd = open(path, O_RDWR | O_CLOEXEC);
	if (mem_fd >= 0)
		pieces_by_file(mem_fd, true, &saved, 1);
}
