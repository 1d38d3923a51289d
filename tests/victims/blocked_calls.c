/* Victim: one thread in each of the blocking system calls. Nothing ever
 * happens, so no call may return: each return is printed.
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <linux/aio_abi.h>
#include <linux/futex.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/inotify.h>
#include <sys/ipc.h>
#include <sys/msg.h>
#include <sys/prctl.h>
#include <sys/select.h>
#include <sys/sem.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { LONG_S = 3600 };

static atomic_int num_blocked, num_returned, num_interrupted;
static atomic_int num_handled;
static int sem_id = -1, queue_id = -1;

static const struct timespec long_time = { .tv_sec = LONG_S };

static long block_epoll(void)
{
	struct epoll_event event;

	return epoll_wait(epoll_create1(0), &event, 1, -1);
}

static long block_epoll_timeout(void)
{
	struct epoll_event event;

	return epoll_wait(epoll_create1(0), &event, 1, LONG_S * 1000);
}

static long block_epoll_pwait2(void)
{
	struct epoll_event event;

	return syscall(SYS_epoll_pwait2, epoll_create1(0), &event, 1,
		       &long_time, NULL, 8);
}

static long block_poll(void)
{
	struct pollfd none = { .fd = -1 };

	return poll(&none, 1, -1);
}

static long block_poll_timeout(void)
{
	struct pollfd none = { .fd = -1 };

	return poll(&none, 1, LONG_S * 1000);
}

static long block_ppoll_mask(void)
{
	struct pollfd none = { .fd = -1 };
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1);
	return ppoll(&none, 1, &long_time, &mask);
}

static long block_select(void)
{
	return select(0, NULL, NULL, NULL, NULL);
}

static long block_pselect(void)
{
	sigset_t mask;

	sigemptyset(&mask);
	sigaddset(&mask, SIGUSR1);
	return pselect(0, NULL, NULL, NULL, NULL, &mask);
}

static long block_futex(void)
{
	int word = 0;

	return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, NULL);
}

static long block_futex_timeout(void)
{
	int word = 0;

	return syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, &long_time);
}

static long block_nanosleep(void)
{
	struct timespec left;

	return nanosleep(&long_time, &left);
}

static long block_clock_nanosleep(void)
{
	errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &long_time, NULL);
	return errno ? -1 : 0;
}

static long block_clock_nanosleep_absolute(void)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += LONG_S;
	errno = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL);
	return errno ? -1 : 0;
}

static long block_pipe(void)
{
	int fds[2];
	char byte;

	return pipe(fds) < 0 ? -1 : read(fds[0], &byte, 1);
}

static long block_eventfd(void)
{
	uint64_t value;

	return read(eventfd(0, 0), &value, sizeof(value));
}

static long block_timerfd(void)
{
	int fd = timerfd_create(CLOCK_MONOTONIC, 0);
	struct itimerspec later = { .it_value = long_time };
	uint64_t value;

	timerfd_settime(fd, 0, &later, NULL);
	return read(fd, &value, sizeof(value));
}

static long block_inotify(void)
{
	char buf[256];

	return read(inotify_init(), buf, sizeof(buf));
}

static long block_recv(void)
{
	int fds[2];
	char byte;

	socketpair(AF_UNIX, SOCK_STREAM, 0, fds);
	return recv(fds[0], &byte, 1, 0);
}

static long block_recv_timeout(void)
{
	struct timeval limit = { .tv_sec = LONG_S };
	int fds[2];
	char byte;

	socketpair(AF_UNIX, SOCK_STREAM, 0, fds);
	setsockopt(fds[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	return recv(fds[0], &byte, 1, 0);
}

static int listener(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	listen(fd, 5);
	return fd;
}

static long block_accept(void)
{
	return accept(listener(), NULL, NULL);
}

static long block_accept_timeout(void)
{
	struct timeval limit = { .tv_sec = LONG_S };
	int fd = listener();

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
	return accept(fd, NULL, NULL);
}

static long block_semop(void)
{
	struct sembuf down = { .sem_op = -1 };

	return semop(sem_id, &down, 1);
}

static long block_semtimedop(void)
{
	struct sembuf down = { .sem_op = -1 };

	return semtimedop(sem_id, &down, 1, &long_time);
}

static long block_msgrcv(void)
{
	struct {
		long type;
		char text[8];
	} message;

	return msgrcv(queue_id, &message, sizeof(message.text), 0, 0);
}

static long block_sigtimedwait(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return sigtimedwait(&set, NULL, &long_time);
}

static long block_sigwaitinfo(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	return sigwaitinfo(&set, NULL);
}

static long block_sigsuspend(void)
{
	sigset_t most;

	sigfillset(&most);
	sigdelset(&most, SIGALRM);
	return sigsuspend(&most);
}

static long block_sem_wait(void)
{
	sem_t sem;

	sem_init(&sem, 0, 0);
	return sem_wait(&sem);
}

static long block_pause(void)
{
	return pause();
}

static long block_io_getevents(void)
{
	aio_context_t context = 0;
	struct io_event event;

	if (syscall(SYS_io_setup, 4, &context) < 0)
		pause();
	return syscall(SYS_io_getevents, context, 1, 1, &event, NULL);
}

static long block_waitpid(void)
{
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		for (;;)
			pause();
	}
	return waitpid(-1, &status, 0);
}

static const struct call {
	const char *name;
	long (*block)(void);
} calls[] = {
#define CALL(name) { #name, block_##name }
	CALL(epoll), CALL(epoll_timeout), CALL(epoll_pwait2), CALL(poll),
	CALL(poll_timeout), CALL(ppoll_mask), CALL(select), CALL(pselect),
	CALL(futex), CALL(futex_timeout), CALL(nanosleep),
	CALL(clock_nanosleep), CALL(clock_nanosleep_absolute), CALL(pipe),
	CALL(eventfd), CALL(timerfd), CALL(inotify), CALL(recv),
	CALL(recv_timeout), CALL(accept), CALL(accept_timeout), CALL(semop),
	CALL(semtimedop), CALL(msgrcv), CALL(sigtimedwait),
	CALL(sigwaitinfo), CALL(sigsuspend), CALL(sem_wait), CALL(pause),
	CALL(io_getevents), CALL(waitpid),
};

static void *thread(void *arg)
{
	const struct call *call = arg;

	prctl(PR_SET_NAME, call->name);
	atomic_fetch_add(&num_blocked, 1);
	for (;;) {
		long ret;

		errno = 0;
		ret = call->block();
		atomic_fetch_add(&num_returned, 1);
		if (ret < 0 && errno == EINTR)
			atomic_fetch_add(&num_interrupted, 1);
		printf("returned %s %ld %s\n", call->name, ret,
		       strerror(errno));
		fflush(stdout);
		if (ret >= 0 || errno != EINTR)
			pause();
	}
	return NULL;
}

static void on_signal(int signal_number)
{
	(void)signal_number;
	atomic_fetch_add(&num_handled, 1);
}

int main(void)
{
	const struct timespec settle = { .tv_nsec = 200 * 1000 * 1000 };
	const size_t num_calls = sizeof(calls) / sizeof(calls[0]);
	struct sigaction action = { .sa_handler = on_signal };
	sigset_t set;
	char line[64];

	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigaddset(&set, SIGUSR1); /* for tests of pending signals */
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	/* Without SA_RESTART: an EINTR would be seen. */
	sigaction(SIGCHLD, &action, NULL);
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGSYS, &action, NULL);
	sem_id = semget(IPC_PRIVATE, 1, 0600);
	queue_id = msgget(IPC_PRIVATE, 0600);
	for (size_t i = 0; i < num_calls; i++) {
		pthread_t id;

		if (pthread_create(&id, NULL, thread, (void *)&calls[i]))
			return 2;
	}
	while (atomic_load(&num_blocked) < (int)num_calls)
		sched_yield();
	nanosleep(&settle, NULL);
	printf("calls %zu\nready\n", num_calls);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		;
	printf("num_returned %d\nnum_interrupted %d\nnum_handled %d\n",
	       atomic_load(&num_returned), atomic_load(&num_interrupted),
	       atomic_load(&num_handled));
	fflush(stdout);
	/* IPC objects outlive the process; removing them ends the calls. */
	semctl(sem_id, 0, IPC_RMID);
	msgctl(queue_id, IPC_RMID, NULL);
	_exit(0);
}
