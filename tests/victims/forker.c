/* Victim: forks as fast as it can, and keeps the books of its children.
 * SPDX-License-Identifier: MIT
 *
 * usage: forker storm   short-lived children from two threads, a bounded
 *                       number of them at a time
 *        forker init    the same as pid 1 of a new pid namespace, where some
 *                       children leave orphans to it; prints "init PID", by
 *                       the number that it has outside
 *
 * One thread waits for any child. At a line it stops forking, takes the rest,
 * and prints its counts; it ends with its input. */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
	ALIVE_MAX = 16,
	PIDS_MAX = 1 << 22, /* PID_MAX_LIMIT of the kernel */
	NUM_FORKERS = 2,
	CODE = 9,
	CODE_LEFT_ORPHAN = 8,
	CODE_ORPHAN = 11,
};

static atomic_int stopping, no_more;
static atomic_long num_alive;
static int is_init;

/* How many children with this pid were forked and not yet taken. */
static pthread_mutex_t books = PTHREAD_MUTEX_INITIALIZER;
static uint8_t open_books[PIDS_MAX];
static long num_forked, num_taken, num_leavers, num_orphans, num_wrong;

/* Only calls of the kernel: the lock is held by a thread that is not here. */
static void live(int leaves_orphan)
{
	if (!leaves_orphan)
		_exit(CODE);
	if (fork() == 0) {
		usleep(1000);
		_exit(CODE_ORPHAN);
	}
	_exit(CODE_LEFT_ORPHAN);
}

static void *fork_on(void *arg)
{
	(void)arg;
	for (long i = 0; !atomic_load(&stopping); i++) {
		int leaves_orphan = is_init && i % 8 == 0;
		pid_t pid;

		if (atomic_load(&num_alive) >= ALIVE_MAX) {
			sched_yield();
			continue;
		}
		pthread_mutex_lock(&books);
		pid = fork();
		if (pid == 0)
			live(leaves_orphan);
		if (pid < 0) {
			num_wrong++;
		} else {
			open_books[pid]++;
			num_forked++;
			num_leavers += leaves_orphan;
			atomic_fetch_add(&num_alive, 1 + leaves_orphan);
		}
		pthread_mutex_unlock(&books);
	}
	return NULL;
}

static void take(pid_t pid, int status)
{
	int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;

	pthread_mutex_lock(&books);
	if (is_init && code == CODE_ORPHAN && !open_books[pid]) {
		num_orphans++;
	} else if (open_books[pid] &&
		   (code == CODE || (is_init && code == CODE_LEFT_ORPHAN))) {
		open_books[pid]--;
		num_taken++;
	} else {
		num_wrong++;
	}
	pthread_mutex_unlock(&books);
	atomic_fetch_sub(&num_alive, 1);
}

static void *take_any(void *arg)
{
	(void)arg;
	for (;;) {
		int status, last = atomic_load(&no_more);
		pid_t pid = waitpid(-1, &status, 0);

		if (pid > 0) {
			take(pid, status);
			continue;
		}
		if (errno != ECHILD) {
			pthread_mutex_lock(&books);
			num_wrong++;
			pthread_mutex_unlock(&books);
		}
		if (last)
			return NULL;
		usleep(100);
	}
}

static int run(void)
{
	pthread_t forkers[NUM_FORKERS], taker;
	char line[16];
	int status;

	for (int i = 0; i < NUM_FORKERS; i++)
		if (pthread_create(&forkers[i], NULL, fork_on, NULL))
			return 2;
	if (pthread_create(&taker, NULL, take_any, NULL))
		return 2;
	printf("ready\n");
	fflush(stdout);
	if (!fgets(line, sizeof(line), stdin))
		return 2;
	atomic_store(&stopping, 1);
	for (int i = 0; i < NUM_FORKERS; i++)
		pthread_join(forkers[i], NULL);
	atomic_store(&no_more, 1);
	pthread_join(taker, NULL);
	for (int i = 0; i < PIDS_MAX; i++)
		num_wrong += open_books[i];
	/* None is left that any kind of wait would find. */
	if (waitpid(-1, &status, WNOHANG | __WALL) != -1 || errno != ECHILD)
		num_wrong++;
	printf("num_forked %ld\nnum_taken %ld\nnum_leavers %ld\n"
	       "num_orphans %ld\nnum_wrong %ld\n", num_forked, num_taken,
	       num_leavers, num_orphans, num_wrong);
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin))
		;
	return num_wrong || num_forked != num_taken ||
	       num_leavers != num_orphans;
}

static int run_as_init(void)
{
	int status;
	pid_t pid;

	if (unshare(CLONE_NEWPID) < 0)
		return 77;
	pid = fork();
	if (pid == 0) {
		is_init = 1;
		_exit(getpid() == 1 ? run() : 3);
	}
	if (pid < 0)
		return 77;
	printf("init %d\n", pid);
	fflush(stdout);
	if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status))
		return 4;
	return WEXITSTATUS(status);
}

int main(int argc, char **argv)
{
	const char *mode = argc > 1 ? argv[1] : "";

	if (!strcmp(mode, "init"))
		return run_as_init();
	return strcmp(mode, "storm") ? 2 : run();
}
