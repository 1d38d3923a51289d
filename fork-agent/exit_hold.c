/* Exit hold: a process kept at its very end, with its memory.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/exit_hold.h"

#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>

#include "coredump/proc_maps.h"
#include "fork-agent/exit_hold_internal.h"
#include "fork-agent/proc_task.h"
#include "util/file.h"
#include "util/progress.h"

enum {
	RED_ZONE_BYTES = 128,
	EXIT_LIMIT_MS = 500,
};

static void set_phase(struct hf_exit_hold *hold, enum hf_exit_hold_phase phase)
{
	const uint64_t one = 1;

	pthread_mutex_lock(&hold->lock);
	hold->phase = phase;
	pthread_cond_broadcast(&hold->changed);
	pthread_mutex_unlock(&hold->lock);
	if ((phase == HF_EXIT_HOLD_HELD || phase == HF_EXIT_HOLD_GONE) &&
	    write(hold->event_fd, &one, sizeof(one)) < 0)
		return; /* it is readable already */
}

static bool shall_end(struct hf_exit_hold *hold)
{
	bool end;

	pthread_mutex_lock(&hold->lock);
	end = hold->end;
	pthread_mutex_unlock(&hold->lock);
	return end;
}

/* ---- the image ---- */

/* It ended untraced. Its stack is still there; how far it reached is not
 * known. */
static struct hf_error *describe_leader(const struct hf_exit_hold *hold,
					struct hf_thread *ret)
{
	HF_AUTO(hf_proc_maps) struct hf_proc_maps maps = { 0 };
	HF_AUTO_FREE char *text = NULL;
	struct hf_tracee tracee = { 0 };
	struct hf_error *err;
	char path[64];
	size_t len;

	hf_tracee_init(&tracee, hold->pid, HF_TRACEE_THREAD, NULL);
	hf_tracee_describe(&tracee, hold->pid, ret);
	memset(&ret->regs, 0, sizeof(ret->regs));
	ret->stop_how = HF_STOP_PARTIAL;
	ret->regs.orig_rax = ~0ull;
	if (hold->has_leader_regs)
		ret->regs.fs_base = hold->leader_regs.fs_base;
	snprintf(path, sizeof(path), "/proc/%d/maps", hold->held.data[0].tid);
	err = hf_read_file(path, &text, &len);
	if (!err)
		err = hf_proc_maps_parse(text, len, &maps);
	for (size_t i = 0; i < maps.num && !err; i++)
		if (maps.data[i].path && !strcmp(maps.data[i].path, "[stack]"))
			ret->regs.rsp = maps.data[i].start + RED_ZONE_BYTES;
	return err;
}

static struct hf_error *describe(struct hf_exit_hold *hold)
{
	struct hf_capture_report *report = &hold->report;
	struct hf_proc_stat stat;
	struct hf_error *err;
	struct timespec now;

	for (size_t i = 0; i < hold->held.num; i++) {
		struct hf_thread thread;

		hf_tracee_describe(&hold->held.data[i], hold->pid, &thread);
		err = hf_array_append(&hold->threads, thread);
		if (err)
			return err;
		if (thread.tid == hold->pid) {
			hold->threads.data[i] = hold->threads.data[0];
			hold->threads.data[0] = thread;
		}
	}
	if (!hf_exit_hold_has(hold, hold->pid)) {
		struct hf_thread leader;

		err = describe_leader(hold, &leader);
		if (!err)
			err = hf_array_append(&hold->threads, leader);
		if (err)
			return err;
		hold->threads.data[hold->threads.num - 1] =
			hold->threads.data[0];
		hold->threads.data[0] = leader;
	}
	err = hf_proc_stat_read(hold->pid, 0, &stat);
	if (err)
		return err;
	clock_gettime(CLOCK_REALTIME, &now);
	*report = (struct hf_capture_report){
		.mode = HF_CAPTURE_STOP,
		.taken_ns = (uint64_t)now.tv_sec * 1000000000u +
			    (uint64_t)now.tv_nsec,
		.start_time = stat.start_time,
		.stop_ns = hf_now_ns() - hold->first_ns,
		.fork_ns = UINT64_MAX,
		.reap_ns = UINT64_MAX,
		.child_life_ns = UINT64_MAX,
		.cow_pages = UINT64_MAX,
		.parent_faults = UINT64_MAX,
		.peak_private_bytes = UINT64_MAX,
		.num_threads = (uint32_t)hold->threads.num,
		.num_partial = !hf_exit_hold_has(hold, hold->pid),
		.leader_ended = !hf_exit_hold_has(hold, hold->pid),
		.num_attempts = 1,
		.descriptors_closed = true,
		.reaped = true,
	};
	return NULL;
}

/* ---- the thread ---- */

/* Nothing is attached: after an exec by the leader, which was not. */
static bool attach_again(struct hf_exit_hold *hold)
{
	const struct timespec ms = { .tv_nsec = 1000 * 1000 };

	while (!shall_end(hold) && hf_exit_hold_has_others(hold)) {
		struct hf_error *err = hf_exit_hold_attach(hold);

		if (err) {
			hf_error_ignore(err); /* it gained privilege */
			return false;
		}
		if (hold->running.num)
			return true;
		nanosleep(&ms, NULL);
	}
	return false;
}

/* @return whether the process stands at its end. */
static bool serve(struct hf_exit_hold *hold)
{
	while (!shall_end(hold)) {
		int status;
		pid_t tid = hf_wait_clock_wait(&hold->clock, -1, &status);

		if (tid == hold->pid && !WIFSTOPPED(status))
			return false; /* for its parent to wait for */
		if (tid < 0) {
			hf_exit_hold_forget(hold);
			if (!attach_again(hold))
				return false;
		} else if (tid > 0) {
			hf_exit_hold_take_event(hold, tid, status);
		} else if (!hold->held.num) {
			hf_exit_hold_attach_new(hold);
		}
		if (hf_exit_hold_is_gathered(hold))
			return true;
	}
	return false;
}

/* Stops that were reported, but not taken. What is attached and runs is
 * detached by the kernel when this thread ends. */
static void drain(struct hf_exit_hold *hold)
{
	int status;
	pid_t tid;

	hf_exit_hold_detach_all(hold);
	while ((tid = hf_wait_clock_poll(&hold->clock, -1, &status)) > 0 &&
	       (tid != hold->pid || WIFSTOPPED(status)))
		hf_exit_hold_take_event(hold, tid, status);
	hf_exit_hold_let_all_go(hold);
}

static void stand(struct hf_exit_hold *hold)
{
	unsigned long code;

	set_phase(hold, HF_EXIT_HOLD_HELD);
	pthread_mutex_lock(&hold->lock);
	while (!hold->end)
		pthread_cond_wait(&hold->changed, &hold->lock);
	pthread_mutex_unlock(&hold->lock);
	for (size_t i = 0; i < hold->held.num; i++)
		hold->killed |= hf_ptrace(&hold->calls, PTRACE_GETEVENTMSG,
					  hold->held.data[i].tid, NULL,
					  &code) < 0;
	hold->report.pause_ns = hf_now_ns() - hold->first_ns;
	hf_exit_hold_let_all_go(hold);
}

static void *keep(void *arg)
{
	struct hf_exit_hold *hold = arg;
	struct hf_proc_stat stat;
	struct hf_error *err;
	bool is_held = false;

	hold->tid = (pid_t)syscall(SYS_gettid);
	err = hf_proc_stat_read(hold->pid, 0, &stat);
	if (!err)
		err = hf_wait_clock_init_breaking(
			&hold->clock,
			stat.parent == getpid() ? hold->pid : 0, &hold->calls);
	if (!err)
		hf_wait_clock_start(&hold->clock);
	/* Until then nobody stands at an end that an exec waits for. */
	while (!err && !hold->running.num && hf_exit_hold_has_others(hold))
		err = hf_exit_hold_attach(hold);
	if (!err && !hold->running.num)
		err = hf_error_create(HF_ERROR_TARGET_GONE,
				      "process %d has ended", hold->pid);
	if (err) {
		hold->err = err;
		hf_wait_clock_deinit(&hold->clock);
		set_phase(hold, HF_EXIT_HOLD_FAILED);
		return NULL;
	}
	set_phase(hold, HF_EXIT_HOLD_RUNNING);
	is_held = serve(hold);
	if (is_held) {
		hold->err = describe(hold);
		is_held = !hold->err;
	}
	if (!is_held)
		drain(hold);
	hf_wait_clock_stop(&hold->clock);
	hf_wait_clock_deinit(&hold->clock);
	if (is_held)
		stand(hold);
	set_phase(hold, HF_EXIT_HOLD_GONE);
	return NULL;
}

static void end_thread(struct hf_exit_hold *hold)
{
	const struct timespec ms = { .tv_nsec = 1000 * 1000 };
	char path[64];

	if (hold->joined)
		return;
	pthread_mutex_lock(&hold->lock);
	hold->end = true;
	pthread_cond_broadcast(&hold->changed);
	pthread_mutex_unlock(&hold->lock);
	pthread_join(hold->thread, NULL);
	hold->joined = true;
	/* It is still detaching in the kernel for a moment. */
	snprintf(path, sizeof(path), "/proc/self/task/%d", hold->tid);
	for (int i = 0; i < EXIT_LIMIT_MS && access(path, F_OK) == 0; i++)
		nanosleep(&ms, NULL);
}

struct hf_error *hf_exit_hold_create(pid_t pid, struct hf_exit_hold **ret)
{
	HF_AUTO(hf_exit_hold) struct hf_exit_hold *hold =
		calloc(1, sizeof(*hold));
	sigset_t all, saved;
	int os_error;

	if (!hold)
		return &hf_enomem;
	hold->pid = pid;
	hold->joined = true;
	pthread_mutex_init(&hold->lock, NULL);
	pthread_cond_init(&hold->changed, NULL);
	hold->event_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (hold->event_fd < 0)
		return hf_error_os(errno, "cannot make an eventfd");
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &saved);
	os_error = pthread_create(&hold->thread, NULL, keep, hold);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	if (os_error)
		return hf_error_os(os_error, "cannot start a thread");
	hold->joined = false;
	pthread_mutex_lock(&hold->lock);
	while (hold->phase == HF_EXIT_HOLD_STARTING)
		pthread_cond_wait(&hold->changed, &hold->lock);
	os_error = hold->phase == HF_EXIT_HOLD_FAILED;
	pthread_mutex_unlock(&hold->lock);
	if (os_error) {
		end_thread(hold);
		return HF_TAKE(hold->err);
	}
	*ret = HF_TAKE(hold);
	return NULL;
}

int hf_exit_hold_fd(const struct hf_exit_hold *hold)
{
	return hold->event_fd;
}

bool hf_exit_hold_is_over(struct hf_exit_hold *hold)
{
	bool is_over;

	pthread_mutex_lock(&hold->lock);
	is_over = hold->phase == HF_EXIT_HOLD_HELD || hold->phase == HF_EXIT_HOLD_GONE;
	pthread_mutex_unlock(&hold->lock);
	return is_over;
}

bool hf_exit_hold_is_held(struct hf_exit_hold *hold)
{
	bool is_held;

	pthread_mutex_lock(&hold->lock);
	is_held = hold->phase == HF_EXIT_HOLD_HELD && !hold->end;
	pthread_mutex_unlock(&hold->lock);
	return is_held;
}

const struct hf_thread *hf_exit_hold_threads(const struct hf_exit_hold *hold,
					     size_t *num_ret)
{
	*num_ret = hold->threads.num;
	return hold->threads.data;
}

pid_t hf_exit_hold_tid(const struct hf_exit_hold *hold)
{
	return hold->held.data[0].tid;
}

const struct hf_capture_report *
hf_exit_hold_report(const struct hf_exit_hold *hold)
{
	return &hold->report;
}

struct hf_error *hf_exit_hold_release(struct hf_exit_hold *hold)
{
	end_thread(hold);
	if (hold->killed)
		return hf_error_create(HF_ERROR_TARGET_GONE,
				       "process %d was killed while it stood "
				       "at its end to be read", hold->pid);
	return NULL;
}

void hf_exit_hold_destroy(struct hf_exit_hold *hold)
{
	if (!hold)
		return;
	end_thread(hold);
	hf_array_deinit(&hold->running);
	hf_array_deinit(&hold->leaving);
	hf_array_deinit(&hold->held);
	hf_array_deinit(&hold->threads);
	hf_error_destroy(hold->err);
	if (hold->event_fd >= 0)
		close(hold->event_fd);
	pthread_cond_destroy(&hold->changed);
	pthread_mutex_destroy(&hold->lock);
	free(hold);
}
