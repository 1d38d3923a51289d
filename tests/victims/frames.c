/* Victim: threads that stand in functions with known names.
 * SPDX-License-Identifier: MIT
 *
 * Every debugger that looks at it, or at a core of it, must find the frames
 * outer_NAME <- middle_NAME <- inner_NAME in each thread, and the values of
 * the variables below. */
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

struct session {
	int number;
	char name[24];
	struct session *next;
};

struct session first_session = { 1001, "first session", NULL };
struct session *sessions = &first_session;
static const char *greeting = "greeting in rodata";
__thread int thread_number = -1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t never = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t started;
static volatile int running = 1;

/* Each frame has a local variable that lives until the call returns. */
#define FRAMES(name, wait)                                                    \
	static __attribute__((noinline)) int inner_##name(int value)          \
	{                                                                     \
		volatile int inner_local = value + 1;                         \
		wait;                                                         \
		return inner_local;                                           \
	}                                                                     \
	static __attribute__((noinline)) int middle_##name(int value)         \
	{                                                                     \
		volatile int middle_local = value * 2;                        \
		return inner_##name(middle_local) + middle_local;             \
	}                                                                     \
	static __attribute__((noinline)) int outer_##name(int value)          \
	{                                                                     \
		volatile int outer_local = value * 3;                         \
		return middle_##name(outer_local) + outer_local;              \
	}                                                                     \
	static void *thread_##name(void *arg)                                 \
	{                                                                     \
		thread_number = (int)(intptr_t)arg;                           \
		pthread_setname_np(pthread_self(), #name);                    \
		pthread_barrier_wait(&started);                               \
		return (void *)(intptr_t)outer_##name(thread_number);         \
	}

static void wait_epoll(void)
{
	struct epoll_event event;
	int fd = epoll_create1(0);

	while (running)
		epoll_wait(fd, &event, 1, -1);
}

static void wait_cond(void)
{
	pthread_mutex_lock(&lock);
	while (running)
		pthread_cond_wait(&never, &lock);
	pthread_mutex_unlock(&lock);
}

static void wait_read(void)
{
	uint64_t count;
	int fd = eventfd(0, 0);

	while (running)
		if (read(fd, &count, sizeof(count)) < 0)
			break;
}

static void spin(void)
{
	volatile double x = 1.0;

	/* One line: its name shall not depend on the instant. */
	for (; running; x = x * 1.0000001 + 0.5);
}

static void wait_sleep(void)
{
	const struct timespec long_time = { .tv_sec = 3600 };

	while (running)
		nanosleep(&long_time, NULL);
}

FRAMES(epoll, wait_epoll())
FRAMES(cond, wait_cond())
FRAMES(read, wait_read())
FRAMES(spin, spin())
FRAMES(sleep, wait_sleep())

static __attribute__((noinline)) int inner_main(int value)
{
	volatile int inner_local = value;
	char line[16];

	puts("ready");
	fflush(stdout);
	/* Until the test has seen enough. */
	while (read(STDIN_FILENO, line, sizeof(line)) > 0)
		;
	return inner_local;
}

static __attribute__((noinline)) int middle_main(int value)
{
	volatile int middle_local = value;

	return inner_main(middle_local) + middle_local;
}

int main(void)
{
	void *(*const bodies[])(void *) = { thread_epoll, thread_cond,
					    thread_read, thread_spin,
					    thread_sleep };
	enum { NUM = sizeof(bodies) / sizeof(bodies[0]) };
	struct session *second = malloc(sizeof(*second));
	pthread_t thread;

	second->number = 1002;
	strcpy(second->name, "second session");
	second->next = NULL;
	first_session.next = second;
	thread_number = 100;
	pthread_barrier_init(&started, NULL, NUM + 1);
	for (int i = 0; i < NUM; i++)
		pthread_create(&thread, NULL, bodies[i],
			       (void *)(intptr_t)(101 + i));
	pthread_barrier_wait(&started);
	/* So that all stand in their innermost frame. */
	poll(NULL, 0, 200);
	return middle_main((int)strlen(greeting)) < 0;
}
