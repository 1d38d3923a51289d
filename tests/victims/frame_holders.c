/* Victim: objects that a local variable of one frame holds, and nothing else.
 * SPDX-License-Identifier: MIT
 *
 * usage: victim_frame_holders [THREADS DEPTH]
 *
 * For each object it prints
 *   object NAME TID ADDRESS FUNCTION LINE
 * the thread and the function whose frame keeps it, and the line of that
 * function's call; FUNCTION is - where no live frame has it. Addresses are
 * kept as their complement everywhere else. With two numbers, so many threads
 * stand in calls of that depth, and nothing is held. */
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#define NOINLINE __attribute__((noinline))

struct plan {
	uintptr_t outer, middle, inner, dead, red_zone; /* complements */
	int outer_line, middle_line, inner_line;
	int tid;
};

static struct plan plans[2];
static pthread_barrier_t ready;
static int waiter;

/* The object is made elsewhere, and what that left on the stack wiped. */
static NOINLINE uintptr_t make(size_t size)
{
	return ~(uintptr_t)calloc(1, size);
}

static NOINLINE void wipe(void)
{
	volatile char junk[16 << 10];

	for (size_t i = 0; i < sizeof(junk); i++)
		junk[i] = 0;
}

static NOINLINE void leave_dead(uintptr_t hidden)
{
	void *volatile slots[512];

	/* In the middle: no call of what comes later reaches it. */
	slots[100] = (void *)~hidden;
	(void)slots[100];
}

static NOINLINE void wait_here(void)
{
	uint64_t count;

	pthread_barrier_wait(&ready);
	while (read(waiter, &count, sizeof(count)) > 0)
		;
}

static NOINLINE int inner(struct plan *plan)
{
	void *volatile local = (void *)~plan->inner;

	plan->inner_line = __LINE__; wait_here();
	return local != NULL;
}

static NOINLINE int middle(struct plan *plan)
{
	void *volatile local = (void *)~plan->middle;

	plan->middle_line = __LINE__; int sum = inner(plan);
	return sum + (local != NULL);
}

static NOINLINE int outer(struct plan *plan)
{
	void *volatile local = (void *)~plan->outer;

	plan->outer_line = __LINE__; int sum = middle(plan);
	return sum + (local != NULL);
}

static void *hold(void *arg)
{
	struct plan *plan = arg;

	pthread_setname_np(pthread_self(), "worker-3");
	plan->tid = gettid();
	plan->outer = make(1000);
	plan->middle = make(2000);
	plan->inner = make(3000);
	plan->dead = make(4000);
	wipe();
	leave_dead(plan->dead);
	outer(plan);
	return NULL;
}

/* A leaf function: the only pointer lies below its stack pointer, in no
 * register. */
__attribute__((naked, noinline)) static void leaf(uintptr_t hidden)
{
	(void)hidden;
	__asm__("notq %rdi\n\t"
		"movq %rdi, -16(%rsp)\n\t"
		"xorl %edi, %edi\n"
		"1:\tpause\n\t"
		"jmp 1b");
}

static void *hold_below(void *arg)
{
	struct plan *plan = arg;

	pthread_setname_np(pthread_self(), "leaf");
	plan->tid = gettid();
	plan->red_zone = make(5000);
	wipe();
	pthread_barrier_wait(&ready);
	leaf(plan->red_zone);
	return NULL;
}

static volatile int depth;

static NOINLINE int descend(int level)
{
	volatile int local = level;

	if (level < depth)
		return descend(level + 1) + local;
	wait_here();
	return local;
}

static void *descend_thread(void *arg)
{
	return (void *)(intptr_t)descend((int)(intptr_t)arg);
}

static void start(void *(*function)(void *), void *arg)
{
	pthread_attr_t attributes;
	pthread_t thread;

	pthread_attr_init(&attributes);
	pthread_attr_setstacksize(&attributes, 128 << 10);
	if (pthread_create(&thread, &attributes, function, arg))
		abort();
}

static void print(const char *name, const struct plan *plan, uintptr_t hidden,
		  const char *function, int line)
{
	printf("object %s %d 0x%lx %s %d\n", name, plan->tid, ~hidden,
	       function, line);
}

int main(int argc, char **argv)
{
	int threads = argc > 2 ? atoi(argv[1]) : 0;
	char line[16];

	waiter = eventfd(0, 0);
	pthread_barrier_init(&ready, NULL, threads ? threads + 1u : 3);
	if (threads) {
		depth = atoi(argv[2]);
		for (int i = 0; i < threads; i++)
			start(descend_thread, (void *)1);
		pthread_barrier_wait(&ready);
	} else {
		start(hold, &plans[0]);
		start(hold_below, &plans[1]);
		pthread_barrier_wait(&ready);
		usleep(20000); /* behind the barrier */
		print("outer", &plans[0], plans[0].outer, "outer",
		      plans[0].outer_line);
		print("middle", &plans[0], plans[0].middle, "middle",
		      plans[0].middle_line);
		print("inner", &plans[0], plans[0].inner, "inner",
		      plans[0].inner_line);
		print("dead", &plans[0], plans[0].dead, "-", 0);
		print("red_zone", &plans[1], plans[1].red_zone, "leaf", 0);
	}
	puts("ready");
	fflush(stdout);
	while (read(STDIN_FILENO, line, sizeof(line)) > 0)
		;
	return 0;
}
