/* Stop every thread of a process by ptrace, and let them all go again.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/remote_attach.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "fork-agent/proc_task.h"
#include "fork-agent/signal_frame.h"
#include "util/progress.h"

/* Order matters. A signal that the program ignores is normally thrown away
 * when it is sent. The kernel queues it, though, if the thread through which it
 * comes is traced, and wakes any thread of the process for it. If that one is
 * not traced (yet, or any more), nobody can repair the EINTR that it then
 * gets. A signal comes through the leader (kill, timers, terminals) or through
 * the thread that forked a child (SIGCHLD). Those receivers, as far as they can
 * be told, are therefore attached last and let go first. */

enum {
	ROOM_MIN = 64,            /* tracees */
	PASSES_MAX = 1000,        /* over a list that always has new threads */
	ABANDON_MS = 200,         /* for late threads after a failure */
};

void hf_attachment_init(struct hf_attachment *attachment, pid_t pid,
			struct hf_wait_clock *clock)
{
	memset(attachment, 0, sizeof(*attachment));
	attachment->pid = pid;
	attachment->clock = clock;
	attachment->task_fd = -1;
}

void hf_attachment_deinit(struct hf_attachment *attachment)
{
	hf_attachment_release(attachment);
	/* All zero: never initialized. */
	if (attachment->pid && attachment->task_fd >= 0)
		close(attachment->task_fd);
	free(attachment->tracees);
	free(attachment->slots);
	free(attachment->xstate);
	memset(attachment, 0, sizeof(*attachment));
}

/* ---- the table ---- */

static size_t slot_of(const struct hf_attachment *attachment, pid_t tid)
{
	size_t slot = (uint32_t)tid * 2654435761u;

	for (;; slot++) {
		uint32_t entry =
			attachment->slots[slot & (attachment->num_slots - 1)];

		if (!entry || attachment->tracees[entry - 1].tid == tid)
			return slot & (attachment->num_slots - 1);
	}
}

struct hf_tracee *hf_attachment_find(struct hf_attachment *attachment,
				     pid_t tid)
{
	uint32_t entry;

	if (!attachment->num_slots)
		return NULL;
	entry = attachment->slots[slot_of(attachment, tid)];
	return entry ? &attachment->tracees[entry - 1] : NULL;
}

/* Only before the pause: pointers to tracees become stale. */
static struct hf_error *make_room(struct hf_attachment *attachment,
				  size_t capacity)
{
	struct hf_tracee *tracees;
	size_t num_slots = ROOM_MIN;

	if (capacity <= attachment->capacity)
		return NULL;
	if (capacity < ROOM_MIN)
		capacity = ROOM_MIN;
	if (capacity > UINT32_MAX / 8)
		return &hf_enomem;
	tracees = realloc(attachment->tracees, capacity * sizeof(*tracees));
	if (!tracees)
		return &hf_enomem;
	attachment->tracees = tracees;
	memset(tracees + attachment->num, 0,
	       (capacity - attachment->num) * sizeof(*tracees));
	attachment->capacity = capacity;

	while (num_slots < capacity * 2)
		num_slots *= 2;
	free(attachment->slots);
	attachment->slots = calloc(num_slots, sizeof(*attachment->slots));
	if (!attachment->slots) {
		attachment->num_slots = 0;
		return &hf_enomem;
	}
	attachment->num_slots = num_slots;
	for (size_t i = 0; i < attachment->num; i++)
		attachment->slots[slot_of(attachment, tracees[i].tid)] =
			(uint32_t)i + 1;
	return NULL;
}

void hf_attachment_set_state(struct hf_attachment *attachment,
			     struct hf_tracee *tracee,
			     enum hf_tracee_state state)
{
	bool is_thread = tracee->kind == HF_TRACEE_THREAD;

	attachment->num_running -= tracee->state == HF_TRACEE_RUNNING;
	attachment->num_stopped -=
		is_thread && tracee->state == HF_TRACEE_STOPPED;
	tracee->state = state;
	attachment->num_running += state == HF_TRACEE_RUNNING;
	attachment->num_stopped += is_thread && state == HF_TRACEE_STOPPED;
}

static struct hf_tracee *add(struct hf_attachment *attachment, pid_t tid,
			     enum hf_tracee_kind kind)
{
	struct hf_tracee *tracee;

	if (attachment->num == attachment->capacity) {
		attachment->overflow = true;
		return NULL;
	}
	tracee = &attachment->tracees[attachment->num];
	hf_tracee_init(tracee, tid, kind, attachment->clock->calls);
	tracee->is_receiver = tid == attachment->pid;
	attachment->num_running++;
	attachment->slots[slot_of(attachment, tid)] =
		(uint32_t)++attachment->num;
	return tracee;
}

/* XSTATE buffers for every tracee, their pages present before the pause. */
static struct hf_error *make_xstate_room(struct hf_attachment *attachment)
{
	size_t room = hf_xstate_max_bytes(), bytes;

	free(attachment->xstate);
	if (__builtin_mul_overflow(room, attachment->capacity, &bytes))
		return &hf_enomem;
	attachment->xstate = malloc(bytes);
	if (!attachment->xstate)
		return &hf_enomem;
	memset(attachment->xstate, 0xff, bytes);
	attachment->xstate_room = room;
	for (size_t i = 0; i < attachment->capacity; i++)
		attachment->tracees[i].xstate = attachment->xstate + i * room;
	return NULL;
}

void hf_attachment_restart(struct hf_attachment *attachment)
{
	size_t num = attachment->num, num_kept = 0;

	memset(attachment->slots, 0,
	       attachment->num_slots * sizeof(*attachment->slots));
	attachment->num = 0;
	attachment->num_running = 0;
	attachment->num_stopped = 0;
	attachment->first_stop_ns = 0;
	attachment->overflow = false;
	for (size_t i = 0; i < num; i++) {
		struct hf_tracee *tracee = &attachment->tracees[i];

		if (tracee->state != HF_TRACEE_RUNNING &&
		    tracee->state != HF_TRACEE_PARTIAL)
			continue;
		/* What is not of the target is not waited for at once. */
		tracee->state = tracee->kind == HF_TRACEE_SHARER ?
					HF_TRACEE_PARTIAL : HF_TRACEE_RUNNING;
		tracee->in_vfork = false;
		attachment->num_running += tracee->state == HF_TRACEE_RUNNING;
		attachment->tracees[num_kept++] = *tracee;
		attachment->num = num_kept;
		attachment->slots[slot_of(attachment, tracee->tid)] =
			(uint32_t)num_kept;
	}
}

/* ---- attach ---- */

struct seize_pass {
	struct hf_attachment *attachment;
	size_t num_new;
	bool in_pause;    /* pointers to tracees must stay valid */
};

/* Is the thread already a tracee of this very thread: a clone of one that we
 * trace is attached by the kernel. */
static bool is_traced_by_us(pid_t tid)
{
	struct hf_proc_status status;
	struct hf_error *err = hf_proc_status_read(tid, 0, &status);

	if (err) {
		hf_error_ignore(err);
		return false;
	}
	return status.tracer == (pid_t)syscall(SYS_gettid);
}

/* List a thread without attaching to it. */
static struct hf_error *list_one(void *arg, pid_t tid)
{
	struct seize_pass *pass = arg;
	struct hf_attachment *attachment = pass->attachment;
	struct hf_tracee *tracee;
	struct hf_error *err;

	if (hf_attachment_find(attachment, tid))
		return NULL;
	if (attachment->num == attachment->capacity && !pass->in_pause) {
		err = make_room(attachment, attachment->capacity * 2);
		if (err)
			return err;
	}
	tracee = add(attachment, tid, HF_TRACEE_THREAD);
	if (!tracee)
		return NULL;
	/* A thread that runs may be between two forks. */
	tracee->is_receiver |= tracee->run_state != 'S' ||
			       hf_proc_has_children(attachment->pid, tid);
	hf_attachment_set_state(attachment, tracee, HF_TRACEE_LISTED);
	pass->num_new++;
	return NULL;
}

static struct hf_error *seize_one(struct hf_attachment *attachment,
				  struct hf_tracee *tracee)
{
	pid_t tid = tracee->tid;

	if (hf_tracee_ptrace(tracee, PTRACE_SEIZE, NULL,
			     (void *)HF_TRACEE_OPTIONS) < 0) {
		int os_error = errno;

		if (os_error == ESRCH || hf_proc_is_dead(tid)) {
			hf_attachment_set_state(attachment, tracee, HF_TRACEE_GONE);
			return NULL;
		}
		if (os_error != EPERM || !is_traced_by_us(tid))
			return hf_error_os(os_error, "cannot attach to thread "
					   "%d of process %d", tid,
					   attachment->pid);
	}
	hf_attachment_set_state(attachment, tracee, HF_TRACEE_RUNNING);
	return NULL;
}

struct hf_error *hf_attachment_seize(struct hf_attachment *attachment)
{
	struct seize_pass pass = { .attachment = attachment };
	struct hf_error *err = make_room(attachment, ROOM_MIN);
	char path[64];

	if (attachment->task_fd < 0) {
		snprintf(path, sizeof(path), "/proc/%d/task",
			 attachment->pid);
		attachment->task_fd =
			open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	for (int num = 0; !err; num++) {
		if (num == PASSES_MAX)
			return hf_error_create(HF_ERROR_TIMEOUT,
					       "process %d creates threads "
					       "too fast", attachment->pid);
		pass.num_new = 0;
		err = hf_proc_for_each_thread(attachment->pid, list_one,
					      &pass);
		if (pass.num_new == 0)
			break;
		for (int receivers = 0; receivers <= 1; receivers++)
			for (size_t i = 0; i < attachment->num && !err; i++) {
				struct hf_tracee *tracee =
					&attachment->tracees[i];

				if (tracee->state == HF_TRACEE_LISTED &&
				    tracee->is_receiver == receivers)
					err = seize_one(attachment, tracee);
			}
	}
	if (err)
		return err;
	if (attachment->num_running == 0)
		return hf_error_create(HF_ERROR_TARGET_GONE,
				       "process %d is exiting",
				       attachment->pid);
	/* Each thread can have one newborn before it stops. */
	err = make_room(attachment, attachment->num * 2 + ROOM_MIN);
	if (err)
		return err;
	return make_xstate_room(attachment);
}

void hf_attachment_interrupt(struct hf_attachment *attachment)
{
	for (size_t i = 0; i < attachment->num; i++) {
		struct hf_tracee *tracee = &attachment->tracees[i];

		tracee->num_calls = 0;
		if (tracee->state == HF_TRACEE_RUNNING)
			hf_tracee_ptrace(tracee, PTRACE_INTERRUPT, NULL, NULL);
	}
}

size_t hf_attachment_seize_missed(struct hf_attachment *attachment)
{
	struct seize_pass pass = { .attachment = attachment, .in_pause = true };
	size_t first = attachment->num, num_seized = 0;

	hf_error_ignore(hf_proc_for_each_thread(attachment->pid, list_one,
						&pass));
	for (size_t i = first; i < attachment->num; i++) {
		struct hf_tracee *tracee = &attachment->tracees[i];
		struct hf_error *err;

		if (tracee->state != HF_TRACEE_LISTED)
			continue;
		err = seize_one(attachment, tracee);
		if (err || tracee->state != HF_TRACEE_RUNNING) {
			hf_error_ignore(err);
			continue;
		}
		hf_tracee_ptrace(tracee, PTRACE_INTERRUPT, NULL, NULL);
		num_seized++;
	}
	return num_seized;
}

bool hf_attachment_seize_sharer(struct hf_attachment *attachment, pid_t sharer,
				pid_t tid)
{
	struct hf_tracee *tracee = hf_attachment_find(attachment, tid);

	if (tracee && tracee->state != HF_TRACEE_GONE)
		return true;
	if (tracee || attachment->num == attachment->capacity)
		return false;
	tracee = add(attachment, tid, HF_TRACEE_SHARER);
	tracee->sharer = sharer;
	if (hf_tracee_ptrace(tracee, PTRACE_SEIZE, NULL, NULL) < 0) {
		hf_attachment_set_state(attachment, tracee, HF_TRACEE_GONE);
		return false;
	}
	hf_tracee_ptrace(tracee, PTRACE_INTERRUPT, NULL, NULL);
	return true;
}

/* ---- stop ---- */

static void proceed(struct hf_attachment *attachment,
		    struct hf_tracee *tracee)
{
	/* The interruption that is (or now gets) pending stops the thread
	 * again before it executes anything of its own. */
	hf_tracee_ptrace(tracee, PTRACE_INTERRUPT, NULL, NULL);
	hf_tracee_ptrace(tracee, PTRACE_CONT, NULL, NULL);
	hf_attachment_set_state(attachment, tracee, HF_TRACEE_RUNNING);
}

static void note_newborn(struct hf_attachment *attachment,
			 struct hf_tracee *parent)
{
	unsigned long message = 0;
	pid_t tid;

	if (hf_tracee_ptrace(parent, PTRACE_GETEVENTMSG, NULL, &message) < 0)
		return;
	tid = (pid_t)message;
	if (tid <= 0 || hf_attachment_find(attachment, tid))
		return;
	add(attachment, tid, hf_proc_is_thread_of(attachment->pid, tid) ?
				     HF_TRACEE_THREAD : HF_TRACEE_NEWBORN);
}

static void note_signal(struct hf_tracee *tracee, int signal_number)
{
	/* A signal that the process ignores is only reported because we
	 * trace: drop it as the kernel would have. */
	if (hf_tracee_effective_signals(tracee->tid,
					1ull << (signal_number - 1)))
		tracee->held_signal = signal_number;
}

void hf_attachment_note(struct hf_attachment *attachment, pid_t tid,
			int status)
{
	struct hf_tracee *tracee = hf_attachment_find(attachment, tid);

	if (!tracee) {
		/* A newborn's stop may come before its parent's event. */
		tracee = add(attachment, tid,
			     hf_proc_is_thread_of(attachment->pid, tid) ?
				     HF_TRACEE_THREAD : HF_TRACEE_NEWBORN);
		if (!tracee)
			return;
	}
	tracee->num_calls++; /* the wait */
	if (!WIFSTOPPED(status)) {
		hf_attachment_set_state(attachment, tracee, HF_TRACEE_GONE);
		return;
	}
	hf_attachment_set_state(attachment, tracee, HF_TRACEE_STOPPED);
	if (!attachment->first_stop_ns)
		attachment->first_stop_ns = hf_now_ns();
	tracee->event = status >> 16;
	tracee->held_signal = 0;
	tracee->has_registers = false;
	tracee->has_sigmask = false;
	tracee->interrupted_call = false;
	tracee->group_stop = false;
	switch (tracee->event) {
	case HF_PTRACE_EVENT_STOP:
		tracee->group_stop = WSTOPSIG(status) != SIGTRAP;
		break;
	case PTRACE_EVENT_CLONE:
	case PTRACE_EVENT_FORK:
	case PTRACE_EVENT_VFORK:
		/* In the middle of the call, which nothing interrupts any
		 * more: leave it here, and the newborn where it begins. */
		note_newborn(attachment, tracee);
		break;
	case PTRACE_EVENT_EXEC:
		attachment->execed = true;
		break;
	case 0:
		note_signal(tracee, WSTOPSIG(status));
		break;
	default:
		proceed(attachment, tracee);
		break;
	}
}

size_t hf_attachment_read_registers(struct hf_attachment *attachment)
{
	size_t n = 0;

	for (size_t i = 0; i < attachment->num; i++) {
		struct hf_tracee *tracee = &attachment->tracees[i];

		if (tracee->state != HF_TRACEE_STOPPED ||
		    tracee->kind != HF_TRACEE_THREAD)
			continue;
		if (!hf_tracee_read_frugally(tracee,
					     attachment->xstate_room)) {
			hf_attachment_set_state(attachment, tracee,
						HF_TRACEE_GONE);
			continue;
		}
		n++;
	}
	return n;
}

uint32_t hf_attachment_max_calls(const struct hf_attachment *attachment,
				 pid_t but)
{
	uint32_t max = 0;

	for (size_t i = 0; i < attachment->num; i++) {
		const struct hf_tracee *tracee = &attachment->tracees[i];

		if (tracee->tid != but && tracee->num_calls > max)
			max = tracee->num_calls;
	}
	return max;
}

void hf_attachment_release_receivers(struct hf_attachment *attachment,
				     const struct hf_tracee *but)
{
	for (size_t i = 0; i < attachment->num; i++)
		if (attachment->tracees[i].is_receiver &&
		    &attachment->tracees[i] != but)
			hf_tracee_detach(&attachment->tracees[i]);
}

void hf_attachment_release(struct hf_attachment *attachment)
{
	hf_attachment_release_receivers(attachment, NULL);
	/* The end of one that shares the memory is a signal to the process, and
	 * must not come while that is traced: they are last. */
	for (int sharers = 0; sharers <= 1; sharers++)
		for (size_t i = 0; i < attachment->num; i++)
			if ((attachment->tracees[i].kind ==
			     HF_TRACEE_SHARER) == sharers)
				hf_tracee_detach(&attachment->tracees[i]);
}

void hf_attachment_abandon(struct hf_attachment *attachment)
{
	uint32_t ticks = 0;

	hf_attachment_release(attachment);
	for (size_t i = 0; i < attachment->num; i++) {
		struct hf_tracee *tracee = &attachment->tracees[i];

		while (tracee->state == HF_TRACEE_RUNNING &&
		       ticks < ABANDON_MS / HF_WAIT_TICK_MS) {
			int status;
			pid_t tid = hf_wait_clock_wait(attachment->clock,
						       tracee->tid, &status);

			if (tid == 0) {
				ticks++;
				continue;
			}
			if (tid < 0)
				hf_attachment_set_state(attachment, tracee,
							HF_TRACEE_GONE);
			else
				hf_attachment_note(attachment, tid, status);
			hf_tracee_detach(tracee);
		}
	}
}

size_t hf_attachment_serve(struct hf_attachment *attachment)
{
	size_t num_left = 0;

	for (size_t i = 0; i < attachment->num; i++) {
		struct hf_tracee *tracee = &attachment->tracees[i];
		int status;
		pid_t tid;

		if (tracee->state != HF_TRACEE_RUNNING &&
		    tracee->state != HF_TRACEE_PARTIAL)
			continue;
		tid = hf_wait_clock_poll(attachment->clock, tracee->tid, &status);
		if (tid == 0) {
			num_left++;
			continue;
		}
		if (tid < 0) {
			hf_attachment_set_state(attachment, tracee, HF_TRACEE_GONE);
			continue;
		}
		hf_attachment_note(attachment, tid, status);
		if (tracee->state == HF_TRACEE_RUNNING)
			num_left++;
		if (tracee->state != HF_TRACEE_STOPPED)
			continue;
		hf_tracee_detach(tracee);
	}
	return num_left;
}
