/* Blocking waits for tracees that end when a limit is over.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/wait_clock.h"

#include <pthread.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>

/* glibc has the field, but not its name. */
#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

/* Guards a thing that is global by nature: the process's signal handlers. */
static pthread_mutex_t clock_lock = PTHREAD_MUTEX_INITIALIZER;

/* An interrupted PTRACE_SEIZE (-ERESTARTNOINTR) is set back onto its `syscall`
 * instruction, before we are called: step over it. */
static void tick(int signal_number, siginfo_t *info, void *context)
{
	greg_t *regs = ((ucontext_t *)context)->uc_mcontext.gregs;
	static const unsigned char syscall_insn[] = { 0x0f, 0x05 };

	(void)signal_number;
	if (info->si_code != SI_TIMER || !info->si_value.sival_int ||
	    regs[REG_RAX] != SYS_ptrace || regs[REG_RDI] != PTRACE_SEIZE ||
	    memcmp((const void *)regs[REG_RIP], syscall_insn,
		   sizeof(syscall_insn)))
		return;
	regs[REG_RIP] += (greg_t)sizeof(syscall_insn);
	regs[REG_RAX] = -EINTR;
}

static int free_signal(void)
{
	struct sigaction action;

	for (int s = SIGRTMAX; s >= SIGRTMIN; s--)
		if (sigaction(s, NULL, &action) == 0 &&
		    !(action.sa_flags & SA_SIGINFO) &&
		    action.sa_handler == SIG_DFL)
			return s;
	return 0;
}

static struct hf_error *init(struct hf_wait_clock *clock, pid_t own_child,
			     struct hf_trace_calls *calls, bool breaks_seize)
{
	struct sigaction action = {
		.sa_sigaction = tick,
		.sa_flags = SA_SIGINFO, /* no SA_RESTART */
	};
	struct sigevent event = {
		.sigev_notify = SIGEV_THREAD_ID,
		.sigev_value.sival_int = breaks_seize,
	};
	int signal_number;
	sigset_t set;

	memset(clock, 0, sizeof(*clock));
	clock->own_child = own_child;
	clock->calls = calls;
	pthread_mutex_lock(&clock_lock);
	signal_number = free_signal();
	if (!signal_number) {
		pthread_mutex_unlock(&clock_lock);
		return hf_error_create(
			HF_ERROR_UNSUPPORTED,
			"every real-time signal of this process is in use");
	}
	event.sigev_signo = signal_number;
	event.sigev_notify_thread_id = (pid_t)syscall(SYS_gettid);
	if (timer_create(CLOCK_MONOTONIC, &event, &clock->timer) < 0) {
		int os_error = errno;

		pthread_mutex_unlock(&clock_lock);
		return hf_error_os(os_error, "cannot create a timer");
	}
	sigaction(signal_number, &action, &clock->saved);
	clock->signal = signal_number;
	sigemptyset(&set);
	sigaddset(&set, signal_number);
	pthread_sigmask(SIG_UNBLOCK, &set, &clock->saved_mask);
	return NULL;
}

struct hf_error *hf_wait_clock_init(struct hf_wait_clock *clock,
				    pid_t own_child,
				    struct hf_trace_calls *calls)
{
	return init(clock, own_child, calls, false);
}

struct hf_error *hf_wait_clock_init_breaking(struct hf_wait_clock *clock,
					     pid_t own_child,
					     struct hf_trace_calls *calls)
{
	return init(clock, own_child, calls, true);
}

void hf_wait_clock_deinit(struct hf_wait_clock *clock)
{
	const struct timespec now = { 0 };
	sigset_t set;

	if (!clock->signal)
		return;
	timer_delete(clock->timer);
	/* A tick that is still pending must not meet the default action. */
	sigemptyset(&set);
	sigaddset(&set, clock->signal);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	while (sigtimedwait(&set, NULL, &now) > 0)
		;
	sigaction(clock->signal, &clock->saved, NULL);
	pthread_sigmask(SIG_SETMASK, &clock->saved_mask, NULL);
	clock->signal = 0;
	pthread_mutex_unlock(&clock_lock);
}

void hf_wait_clock_start(struct hf_wait_clock *clock)
{
	const struct timespec tick_time = {
		.tv_nsec = HF_WAIT_TICK_MS * 1000 * 1000,
	};
	const struct itimerspec every = { tick_time, tick_time };

	timer_settime(clock->timer, 0, &every, NULL);
}

void hf_wait_clock_stop(struct hf_wait_clock *clock)
{
	const struct itimerspec never = { 0 };

	timer_settime(clock->timer, 0, &never, NULL);
}

static bool is_stop(const siginfo_t *info)
{
	return info->si_code == CLD_TRAPPED || info->si_code == CLD_STOPPED;
}

static bool is_signal_delivery(int status)
{
	return status >> 16 == 0 && WSTOPSIG(status) != (SIGTRAP | 0x80);
}

/* What a look (WNOWAIT) has found. A stop on the way to a signal is always left.
 * An exec's is taken: until then the kernel refuses to touch a thread that has
 * another id now. An end is taken, too, or the kernel would keep the thread. */
static pid_t take_found(struct hf_wait_clock *clock, const siginfo_t *info,
			bool is_any, int *status, int flags)
{
	if (!is_stop(info)) {
		hf_trace_calls_count(clock->calls);
		return waitpid(info->si_pid, status, flags | WNOHANG);
	}
	/* As waitpid reports a stop; an event is in the higher bits. */
	*status = info->si_status << 8 | 0x7f;
	if (*status >> 16 == PTRACE_EVENT_EXEC ||
	    (is_any && !is_signal_delivery(*status)))
		hf_wait_clock_take(clock, info->si_pid);
	return info->si_pid;
}

/* A wait by any thread of its parent would take our own child's exit status away
 * from the program. So of that one only stops are asked for; once it has ended,
 * that is an error. */
static pid_t wait_for_one(struct hf_wait_clock *clock, pid_t tid, int *status,
			  int flags)
{
	int ends = tid == clock->own_child ? 0 : WEXITED;
	siginfo_t info = { 0 };

	hf_trace_calls_count(clock->calls);
	if (waitid(P_PID, (id_t)tid, &info,
		   WSTOPPED | WNOWAIT | ends | flags) < 0)
		return -1;
	return info.si_pid ? take_found(clock, &info, false, status, flags) :
			     0;
}

static pid_t wait_for_any(struct hf_wait_clock *clock, int *status, int flags)
{
	siginfo_t info = { 0 };

	hf_trace_calls_count(clock->calls);
	if (waitid(P_ALL, 0, &info, WSTOPPED | WNOWAIT | WEXITED | flags) < 0)
		return -1;
	if (info.si_pid && info.si_pid == clock->own_child &&
	    !is_stop(&info)) {
		*status = SIGKILL; /* the way of its end does not matter */
		return info.si_pid;
	}
	return info.si_pid ? take_found(clock, &info, true, status, flags) : 0;
}

static pid_t wait_with(struct hf_wait_clock *clock, pid_t tid, int *status,
		       int flags)
{
	pid_t got;

	flags |= __WALL | __WNOTHREAD;
	got = tid < 0 ? wait_for_any(clock, status, flags) :
			wait_for_one(clock, tid, status, flags);
	return got < 0 && errno == EINTR ? 0 : got;
}

void hf_wait_clock_take(struct hf_wait_clock *clock, pid_t tid)
{
	siginfo_t info = { 0 };

	hf_trace_calls_count(clock->calls);
	while (waitid(P_PID, (id_t)tid, &info, WSTOPPED | WNOHANG | __WALL |
						       __WNOTHREAD) < 0 &&
	       errno == EINTR)
		;
}

pid_t hf_wait_clock_wait(struct hf_wait_clock *clock, pid_t tid, int *status)
{
	return wait_with(clock, tid, status, 0);
}

pid_t hf_wait_clock_poll(struct hf_wait_clock *clock, pid_t tid, int *status)
{
	return wait_with(clock, tid, status, WNOHANG);
}
