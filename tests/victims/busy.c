/* Victim: does what makes a process hard to stop, and counts what went wrong.
 * SPDX-License-Identifier: MIT
 *
 * usage: busy threads   create and join threads without end
 *        busy spawn     run programs by posix_spawn without end
 *        busy fork      fork without end, with a thread in epoll_wait that the
 *                       SIGCHLDs, which are ignored, must not interrupt
 *        busy vfork     a thread is nearly always waiting in vfork
 *        busy vfork1    the only thread is
 *        busy exec      become this program again and again
 *        busy signals   handle every queued signal
 *        busy timers    expect each tick of an interval timer
 *        busy spin N    N threads that never sleep
 *        busy sleep N   N threads that do nothing else
 *        busy wake      tell each EINTR of a wait that a signal has ended
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

extern char **environ;

static atomic_int stopping;
static atomic_long num_done, num_wrong;

static void ready(void)
{
	printf("ready\n");
	fflush(stdout);
}

static int input_ended(int timeout_ms)
{
	struct pollfd input = { .fd = 0, .events = POLLIN };

	return poll(&input, 1, timeout_ms) > 0;
}

static void *short_life(void *arg)
{
	return (char *)arg + 1;
}

static void *create_threads(void *arg)
{
	(void)arg;
	while (!atomic_load(&stopping)) {
		pthread_t ids[8];

		for (uintptr_t i = 0; i < 8; i++)
			if (pthread_create(&ids[i], NULL, short_life,
					   (void *)i))
				abort();
		for (uintptr_t i = 0; i < 8; i++) {
			void *result;

			pthread_join(ids[i], &result);
			if (result != (void *)(i + 1))
				atomic_fetch_add(&num_wrong, 1);
		}
		atomic_fetch_add(&num_done, 1);
	}
	return NULL;
}

static void *spawn_programs(void *arg)
{
	char *argv[] = { "sh", "-c", "exit 7", NULL };

	(void)arg;
	while (!atomic_load(&stopping)) {
		int status;
		pid_t pid;

		if (posix_spawn(&pid, "/bin/sh", NULL, NULL, argv, environ) ||
		    waitpid(pid, &status, 0) != pid ||
		    !WIFEXITED(status) || WEXITSTATUS(status) != 7)
			atomic_fetch_add(&num_wrong, 1);
		atomic_fetch_add(&num_done, 1);
	}
	return NULL;
}

/* No signal has a handler: nothing may end this wait. */
static void *poll_undisturbed(void *arg)
{
	int fd = epoll_create1(0);
	struct epoll_event event;

	(void)arg;
	while (!atomic_load(&stopping))
		if (epoll_wait(fd, &event, 1, 1000) != 0)
			atomic_fetch_add(&num_wrong, 1);
	return NULL;
}

static void *wait_in_vfork(void *arg)
{
	(void)arg;
	while (!atomic_load(&stopping)) {
		pid_t pid = vfork();
		int status;

		if (pid == 0) {
			usleep(200 * 1000);
			_exit(3);
		}
		if (waitpid(pid, &status, 0) != pid ||
		    !WIFEXITED(status) || WEXITSTATUS(status) != 3)
			atomic_fetch_add(&num_wrong, 1);
		printf("vforked %ld\n", atomic_fetch_add(&num_done, 1) + 1);
		fflush(stdout);
	}
	return NULL;
}

static int with_threads(void *(*body)(void *), int num_threads)
{
	pthread_t ids[4];

	for (int i = 0; i < num_threads; i++)
		if (pthread_create(&ids[i], NULL, body, NULL))
			return 2;
	ready();
	while (!input_ended(1000))
		;
	atomic_store(&stopping, 1);
	for (int i = 0; i < num_threads; i++)
		pthread_join(ids[i], NULL);
	return 0;
}

/* Not posix_spawn, which blocks signals for so long that SIGCHLD comes
 * meanwhile: a blocked signal is not ignored, and wakes the poll. */
static void *fork_children(void *arg)
{
	(void)arg;
	while (!atomic_load(&stopping)) {
		int status;
		pid_t pid = fork();

		if (pid == 0) {
			usleep(2000);
			_exit(7);
		}
		if (waitpid(pid, &status, 0) != pid ||
		    !WIFEXITED(status) || WEXITSTATUS(status) != 7)
			atomic_fetch_add(&num_wrong, 1);
		atomic_fetch_add(&num_done, 1);
	}
	return NULL;
}

static int fork_beside_poll(void)
{
	pthread_t id;
	int rc;

	if (pthread_create(&id, NULL, poll_undisturbed, NULL))
		return 2;
	rc = with_threads(fork_children, 2);
	pthread_join(id, NULL);
	return rc;
}

static int vfork_alone(void)
{
	ready();
	while (!input_ended(0)) {
		pid_t pid = vfork();
		int status;

		if (pid == 0) {
			usleep(300 * 1000);
			_exit(3);
		}
		if (waitpid(pid, &status, 0) != pid ||
		    !WIFEXITED(status) || WEXITSTATUS(status) != 3)
			num_wrong++;
		num_done++;
	}
	return 0;
}

static int exec_again(char **argv, int num_args)
{
	char count[32];
	long round = num_args > 2 ? atol(argv[2]) : 0;

	if (round == 0)
		ready();
	num_done = round;
	if (input_ended(0))
		return 0;
	snprintf(count, sizeof(count), "%ld", round + 1);
	execl("/proc/self/exe", argv[0], "exec", count, NULL);
	return 2;
}

static atomic_long num_handled;

static void on_signal(int signal_number, siginfo_t *info, void *context)
{
	(void)signal_number;
	(void)context;
	if (info->si_code != SI_QUEUE || info->si_value.sival_int != 1)
		atomic_fetch_add(&num_wrong, 1);
	atomic_fetch_add(&num_handled, 1);
}

static void *poll_events(void *arg)
{
	int fd = epoll_create1(0);
	struct epoll_event event;

	(void)arg;
	while (!atomic_load(&stopping))
		if (epoll_wait(fd, &event, 1, 100) < 0 && errno != EINTR)
			atomic_fetch_add(&num_wrong, 1);
	return NULL;
}

static volatile uint64_t sink;

static void *compute(void *arg)
{
	(void)arg;
	while (!atomic_load(&stopping))
		sink++;
	return NULL;
}

/* The test queues real-time signals, which are never merged, to the process.
 * It then tells how many: "sent N". */
static int handle_signals(void)
{
	struct sigaction action = {
		.sa_sigaction = on_signal,
		.sa_flags = SA_SIGINFO,
	};
	pthread_t ids[2];
	char line[64];
	long num_sent;

	sigaction(SIGRTMIN, &action, NULL);
	if (pthread_create(&ids[0], NULL, poll_events, NULL) ||
	    pthread_create(&ids[1], NULL, compute, NULL))
		return 2;
	ready();
	while (!fgets(line, sizeof(line), stdin)) {
		if (feof(stdin) || errno != EINTR)
			return 2;
		clearerr(stdin);
	}
	num_sent = atol(line + strlen("sent "));
	for (int i = 0; i < 5000 && num_handled < num_sent; i++)
		usleep(1000);
	atomic_store(&stopping, 1);
	for (int i = 0; i < 2; i++)
		pthread_join(ids[i], NULL);
	printf("num_handled %ld\n", num_handled);
	return num_handled != num_sent || num_wrong;
}

/* One thread takes SIGALRM of an interval timer by sigtimedwait: its limit is
 * far away, so an error is an interruption. */
static void *take_ticks(void *arg)
{
	const struct timespec limit = { .tv_sec = 60 };
	sigset_t set;

	(void)arg;
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	while (!atomic_load(&stopping)) {
		if (sigtimedwait(&set, NULL, &limit) == SIGALRM)
			atomic_fetch_add(&num_done, 1);
		else
			atomic_fetch_add(&num_wrong, 1);
	}
	return NULL;
}

static int expect_ticks(void)
{
	struct itimerval every = { { 0, 2000 }, { 0, 2000 } };
	sigset_t set;
	int rc;

	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	setitimer(ITIMER_REAL, &every, NULL);
	rc = with_threads(take_ticks, 1);
	return rc;
}

static void *spin(void *arg)
{
	volatile uint64_t turns = 0;

	(void)arg;
	while (!atomic_load_explicit(&stopping, memory_order_relaxed))
		turns++;
	atomic_fetch_add(&num_done, turns > 0);
	return NULL;
}

static void *sleep_on(void *arg)
{
	(void)arg;
	while (!atomic_load(&stopping))
		usleep(500 * 1000);
	atomic_fetch_add(&num_done, 1);
	return NULL;
}

static int start_threads(void *(*body)(void *), int num)
{
	pthread_t ids[256];

	if (num < 1 || num > 256)
		return 2;
	for (int i = 0; i < num; i++)
		if (pthread_create(&ids[i], NULL, body, NULL))
			return 2;
	ready();
	while (!input_ended(1000))
		;
	atomic_store(&stopping, 1);
	for (int i = 0; i < num; i++)
		pthread_join(ids[i], NULL);
	return num_done != num;
}

static volatile sig_atomic_t was_woken;

static void on_wake(int signal_number)
{
	(void)signal_number;
	was_woken = 1;
}

/* The way of many programs: the handler sets a flag, the loop looks at it
 * because its wait says EINTR. */
static int wait_to_be_woken(void)
{
	struct sigaction action = { .sa_handler = on_wake };
	struct epoll_event event = { .events = EPOLLIN };
	int fd = epoll_create1(0);

	sigaction(SIGUSR1, &action, NULL);
	epoll_ctl(fd, EPOLL_CTL_ADD, 0, &event);
	ready();
	for (;;) {
		int rc = epoll_wait(fd, &event, 1, -1);

		if (rc > 0)
			break;
		num_wrong += rc == 0 || errno != EINTR || !was_woken;
		was_woken = 0;
		printf("woken %ld\n", ++num_done);
		fflush(stdout);
	}
	return 0;
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";
	int rc = 2;

	if (!strcmp(mode, "threads"))
		rc = with_threads(create_threads, 3);
	else if (!strcmp(mode, "spawn"))
		rc = with_threads(spawn_programs, 2);
	else if (!strcmp(mode, "fork"))
		rc = fork_beside_poll();
	else if (!strcmp(mode, "vfork"))
		rc = with_threads(wait_in_vfork, 1);
	else if (!strcmp(mode, "vfork1"))
		rc = vfork_alone();
	else if (!strcmp(mode, "exec"))
		rc = exec_again(argv, argc);
	else if (!strcmp(mode, "signals"))
		rc = handle_signals();
	else if (!strcmp(mode, "timers"))
		rc = expect_ticks();
	else if (!strcmp(mode, "spin"))
		rc = start_threads(spin, argc > 2 ? atoi(argv[2]) : 0);
	else if (!strcmp(mode, "sleep"))
		rc = start_threads(sleep_on, argc > 2 ? atoi(argv[2]) : 0);
	else if (!strcmp(mode, "wake"))
		rc = wait_to_be_woken();
	printf("num_done %ld\nnum_wrong %ld\n", num_done, num_wrong);
	return rc ? rc : num_wrong != 0;
}
