/* Run program: a program as our child, with signals that pass through.
 * SPDX-License-Identifier: MIT */
#include "query/cli/run_program.h"

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "query/cli/cli.h"

struct hf_run_program {
	pid_t pid;
	int pid_fd;            /* readable once it has ended */
	int own_signal;
	int signal_fd;         /* eventfd: own_signal came */
	sigset_t waited;       /* that the thread waits for */
	sigset_t saved_mask;
	pthread_t thread;
	bool has_thread;
	atomic_bool ended;
	atomic_bool over;      /* the thread shall end */
	volatile sig_atomic_t cancelled;
};

/* Besides those of real time. Not SIGCHLD, SIGPIPE and the signals of faults,
 * which are about ourselves; nor those of job control: they stop and continue
 * us as they do the program. */
static const int forwarded[] = {
	SIGINT,	 SIGQUIT, SIGTERM,   SIGHUP,  SIGUSR1,	SIGUSR2, SIGALRM,
	SIGABRT, SIGURG,  SIGVTALRM, SIGPROF, SIGWINCH, SIGIO,	 SIGPWR,
	SIGXCPU, SIGXFSZ, SIGSTKFLT,
};

enum { NUM_FORWARDED = sizeof(forwarded) / sizeof(forwarded[0]) };

static void fill_forwarded(sigset_t *set)
{
	sigemptyset(set);
	for (size_t i = 0; i < NUM_FORWARDED; i++)
		sigaddset(set, forwarded[i]);
	for (int number = SIGRTMIN; number <= SIGRTMAX; number++)
		sigaddset(set, number);
}

/* What the kernel sends is for whom it was sent to, but for a signal of the
 * terminal, which the program has, too. */
static void forward(const struct hf_run_program *program, int number,
		    siginfo_t *info)
{
	/* With the value that came with it, as the kernel allows it.
	 *
	 * Through the descriptor, not the pid: that may belong to another
	 * process one day. */
	if (info->si_code != SI_KERNEL)
		syscall(SYS_pidfd_send_signal, program->pid_fd, number,
			info->si_code == SI_QUEUE ? info : NULL, 0);
}

/* After the program's end there is nobody to send it to. */
static bool ends_us(int number)
{
	return number == SIGINT || number == SIGQUIT || number == SIGTERM ||
	       number == SIGHUP;
}

/* The thread that takes all signals. */
static void *take_signals(void *arg)
{
	struct hf_run_program *program = arg;
	const uint64_t one = 1;
	siginfo_t info;

	while (!program->over) {
		int number = sigwaitinfo(&program->waited, &info);

		if (number < 0 || program->over)
			continue;
		if (number == program->own_signal) {
			if (write(program->signal_fd, &one, sizeof(one)) < 0)
				continue; /* more than anybody can take */
		} else if (number == SIGALRM && info.si_code == SI_KERNEL) {
			/* Our own: the time limit of a snapshot. */
			hf_signals_time_over();
			program->cancelled = number;
		} else if (!program->ended) {
			forward(program, number, &info);
		} else if (ends_us(number)) {
			program->cancelled = number;
		}
	}
	return NULL;
}

/* In the child. Ends it. */
static void become(const struct hf_run_options *options,
		   const sigset_t *mask, int go_fd, int report_fd)
{
	int os_error;
	char byte;

	/* Also if nobody is left to write. */
	while (read(go_fd, &byte, 1) < 0 && errno == EINTR)
		;

	/* Handlers become SIG_DFL by themselves. */
	if (options->ignore_sigpipe)
		signal(SIGPIPE, SIG_IGN);
	sigprocmask(SIG_SETMASK, mask, NULL);
	execvp(options->argv[0], options->argv);
	os_error = errno;
	if (write(report_fd, &os_error, sizeof(os_error)) < 0)
		_exit(126);
	_exit(127);
}

static struct hf_error *start_error(const char *name, int os_error)
{
	struct hf_error *err = hf_error_os(os_error, "cannot run '%s'", name);

	if (err->is_static)
		return err;
	err->code = os_error == ENOENT ? HF_ERROR_NOT_FOUND :
					 HF_ERROR_PERMISSION;
	if (os_error == ENOENT && !strchr(name, '/'))
		return hf_error_cause(err, "no folder of $PATH has it");
	return err;
}

static struct hf_error *fork_and_exec(struct hf_run_program *program,
				      const struct hf_run_options *options)
{
	int fds[2], go[2], os_error = 0;
	ssize_t got;

	if (pipe2(fds, O_CLOEXEC) < 0)
		return hf_error_os(errno, "cannot make a pipe");
	if (pipe2(go, O_CLOEXEC) < 0) {
		os_error = errno;
		close(fds[0]);
		close(fds[1]);
		return hf_error_os(os_error, "cannot make a pipe");
	}
	program->pid = fork();
	if (program->pid < 0) {
		os_error = errno;
		close(fds[0]);
		close(fds[1]);
		close(go[0]);
		close(go[1]);
		return hf_error_os(os_error, "cannot fork");
	}
	if (program->pid == 0) {
		close(fds[0]);
		close(go[1]);
		become(options, &program->saved_mask, go[0], fds[1]);
	}
	close(fds[1]);
	close(go[0]);
	if (options->before)
		options->before(options->arg, program->pid);
	close(go[1]);
	do {
		got = read(fds[0], &os_error, sizeof(os_error));
	} while (got < 0 && errno == EINTR);
	close(fds[0]);
	if (got <= 0) /* exec has closed it */
		return NULL;
	if (options->before)
		options->before(options->arg, 0);
	waitpid(program->pid, NULL, 0);
	program->pid = 0;
	return start_error(options->argv[0], os_error);
}

struct hf_error *hf_run_program_start(const struct hf_run_options *options,
				      struct hf_run_program **ret)
{
	HF_AUTO(hf_run_program) struct hf_run_program *program =
		calloc(1, sizeof(*program));
	struct hf_error *err;
	int os_error;

	if (!program)
		return &hf_enomem;
	program->pid_fd = program->signal_fd = -1;
	program->own_signal = options->own_signal;
	fill_forwarded(&program->waited);
	if (options->own_signal)
		sigaddset(&program->waited, options->own_signal);
	/* What comes before the program is there waits for it. */
	sigprocmask(SIG_BLOCK, &program->waited, &program->saved_mask);
	program->signal_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (program->signal_fd < 0)
		return hf_error_os(errno, "cannot make an eventfd");
	err = fork_and_exec(program, options);
	if (err)
		return err;
	program->pid_fd = (int)syscall(SYS_pidfd_open, program->pid, 0);
	if (program->pid_fd < 0)
		return hf_error_os(errno, "cannot watch process %d",
				   program->pid);
	os_error = pthread_create(&program->thread, NULL, take_signals,
				  program);
	if (os_error)
		return hf_error_os(os_error, "cannot start a thread");
	program->has_thread = true;
	*ret = HF_TAKE(program);
	return NULL;
}

pid_t hf_run_program_pid(const struct hf_run_program *program)
{
	return program->pid;
}

const volatile sig_atomic_t *
hf_run_program_cancelled(const struct hf_run_program *program)
{
	return &program->cancelled;
}

void hf_run_program_forget_time(struct hf_run_program *program)
{
	if (program->cancelled == SIGALRM)
		program->cancelled = 0;
}

struct hf_error *hf_run_program_wait(struct hf_run_program *program, int fd,
				     int timeout_ms, enum hf_run_event *ret)
{
	struct pollfd fds[] = {
		{ .fd = program->signal_fd, .events = POLLIN },
		{ .fd = program->pid_fd, .events = POLLIN },
		{ .fd = fd, .events = POLLIN },
	};
	uint64_t count;

	*ret = HF_RUN_NOTHING;
	if (poll(fds, 3, timeout_ms) < 0 && errno != EINTR)
		return hf_error_os(errno, "cannot wait for process %d",
				   program->pid);
	/* Signals that came together are one wish. */
	if (fds[0].revents & POLLIN &&
	    read(program->signal_fd, &count, sizeof(count)) > 0) {
		*ret = HF_RUN_SIGNAL;
	} else if (fds[1].revents & POLLIN) {
		program->ended = true;
		*ret = HF_RUN_ENDED;
	}
	return NULL;
}

int hf_run_program_exit_code(struct hf_run_program *program)
{
	int status = 0;

	while (waitpid(program->pid, &status, 0) < 0 && errno == EINTR)
		;
	return WIFSIGNALED(status) ? 128 + WTERMSIG(status) :
				     WEXITSTATUS(status);
}

void hf_run_program_destroy(struct hf_run_program *program)
{
	if (!program)
		return;
	if (program->has_thread) {
		program->over = true;
		pthread_kill(program->thread, SIGTERM);
		pthread_join(program->thread, NULL);
	}
	if (program->signal_fd >= 0)
		close(program->signal_fd);
	if (program->pid_fd >= 0)
		close(program->pid_fd);
	free(program);
}
