/* Victim: has a child that works in its memory, and watches what it sees.
 * SPDX-License-Identifier: MIT
 *
 * usage: sharer vfork    a thread waits in vfork for the child, which counts
 *        sharer wait     the same, but the child only waits, again and again
 *        sharer nested   the child waits in vfork for its own child, which
 *                        counts
 *        sharer clone    nobody waits for the child, which counts
 *        sharer thread   the child has a second thread, which counts
 *
 * The count is written to `first`, then to `second`, far apart; the addresses
 * are told. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { BETWEEN_BYTES = 32 << 20, STACK_BYTES = 1 << 16 };

static atomic_int stopping, num_children;
static atomic_ulong num_rounds, num_wrong, num_interrupted;
static _Atomic uint64_t *first, *second;
static char stacks[3][STACK_BYTES] __attribute__((aligned(64)));

static int count(void *arg)
{
	(void)arg;
	atomic_fetch_add(&num_children, 1);
	for (uint64_t n = 1; !atomic_load(&stopping); n++) {
		atomic_store(first, n);
		atomic_store(second, n);
		if (atomic_load(first) != n || atomic_load(second) != n)
			atomic_fetch_add(&num_wrong, 1);
		atomic_store(&num_rounds, n);
	}
	_exit(5);
}

/* Both are calls that a ptrace stop ends with EINTR. */
static int wait_undisturbed(void *arg)
{
	const struct timespec limit = { .tv_nsec = 20 * 1000 * 1000 };
	struct epoll_event event;
	int fd = epoll_create1(0);
	sigset_t set;

	(void)arg;
	sigemptyset(&set);
	sigaddset(&set, SIGUSR2);
	sigprocmask(SIG_BLOCK, &set, NULL);
	atomic_fetch_add(&num_children, 1);
	while (!atomic_load(&stopping)) {
		if (epoll_wait(fd, &event, 1, 20) != 0)
			atomic_fetch_add(&num_interrupted, 1);
		if (sigtimedwait(&set, NULL, &limit) >= 0 || errno != EAGAIN)
			atomic_fetch_add(&num_interrupted, 1);
		atomic_fetch_add(&num_rounds, 1);
	}
	_exit(5);
}

static pid_t start(int (*body)(void *), int stack, int flags)
{
	return clone(body, stacks[stack] + STACK_BYTES,
		     CLONE_VM | SIGCHLD | flags, NULL);
}

static int vfork_again(void *arg)
{
	int status;
	pid_t pid;

	(void)arg;
	atomic_fetch_add(&num_children, 1);
	pid = start(count, 1, CLONE_VFORK);
	if (pid < 0 || waitpid(pid, &status, 0) != pid ||
	    !WIFEXITED(status) || WEXITSTATUS(status) != 5)
		_exit(6);
	_exit(5);
}

static int count_in_a_thread(void *arg)
{
	const struct timespec ms = { .tv_nsec = 1000 * 1000 };

	(void)arg;
	if (clone(count, stacks[2] + STACK_BYTES,
		  CLONE_VM | CLONE_THREAD | CLONE_SIGHAND, NULL) < 0)
		_exit(6);
	atomic_fetch_add(&num_children, 1);
	while (!atomic_load(&stopping))
		nanosleep(&ms, NULL);
	_exit(5); /* this thread only, or both */
}

static const char *mode;

static void *have_a_child(void *arg)
{
	int (*body)(void *) = !strcmp(mode, "wait") ? wait_undisturbed :
			      !strcmp(mode, "nested") ? vfork_again :
			      !strcmp(mode, "thread") ? count_in_a_thread :
							count;
	int status;
	pid_t pid = start(body, 0, strcmp(mode, "clone") ? CLONE_VFORK : 0);

	(void)arg;
	if (pid < 0 || waitpid(pid, &status, 0) != pid ||
	    !WIFEXITED(status) || WEXITSTATUS(status) != 5)
		atomic_fetch_add(&num_wrong, 1);
	return NULL;
}

int main(int argc, char **argv)
{
	char *memory = mmap(NULL, BETWEEN_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	const struct timespec ms = { .tv_nsec = 1000 * 1000 };
	int num_wanted;
	pthread_t thread;

	mode = argc > 1 ? argv[1] : "vfork";
	num_wanted = !strcmp(mode, "nested") || !strcmp(mode, "thread") ? 2 : 1;
	if (memory == MAP_FAILED)
		return 2;
	madvise(memory, BETWEEN_BYTES, MADV_NOHUGEPAGE);
	memset(memory, 1, BETWEEN_BYTES);
	/* A fork copies page tables upwards: from where the later count is. */
	second = (void *)memory;
	first = (void *)(memory + BETWEEN_BYTES - 4096);
	atomic_store(first, 0);
	atomic_store(second, 0);
	if (pthread_create(&thread, NULL, have_a_child, NULL))
		return 2;
	while (atomic_load(&num_children) < num_wanted)
		nanosleep(&ms, NULL);
	printf("first %lu\nsecond %lu\nready\n", (unsigned long)first,
	       (unsigned long)second);
	fflush(stdout);
	while (getchar() != EOF)
		;
	atomic_store(&stopping, 1);
	pthread_join(thread, NULL);
	printf("num_rounds %lu\nnum_wrong %lu\nnum_interrupted %lu\n",
	       num_rounds, num_wrong, num_interrupted);
	return num_wrong || num_interrupted || !num_rounds;
}
