/* Threads on stacks of each kind, which tell where their stack and TLS are.
 * SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

/* Output: "t KIND TID LOCAL TLS SELF" for each thread: addresses of a variable
 * on its stack, of a thread-local one, and of its descriptor; "end" after the
 * last. Then all threads wait for ever. */

static __thread uint64_t thread_local_word = 1;
static pthread_barrier_t ready;
static ucontext_t back, other;

static void tell_and_wait(const char *kind)
{
	volatile uint64_t local = 1;
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

	pthread_mutex_lock(&lock);
	printf("t %s %ld %" PRIxPTR " %" PRIxPTR " %" PRIxPTR "\n", kind,
	       syscall(SYS_gettid), (uintptr_t)&local,
	       (uintptr_t)&thread_local_word, (uintptr_t)pthread_self());
	fflush(stdout);
	pthread_mutex_unlock(&lock);
	pthread_barrier_wait(&ready);
	for (;;)
		pause();
}

static void *own_stack(void *arg)
{
	tell_and_wait(arg);
	return NULL;
}

static void *map(size_t len)
{
	void *ptr = mmap(NULL, len, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (ptr == MAP_FAILED)
		abort();
	return ptr;
}

static void on_coroutine(void)
{
	tell_and_wait("other");
}

static void *coroutine(void *arg)
{
	size_t size = 1 << 16;
	char *pages = map(3 * size);

	/* Holes on both sides: else the kernel may merge it with others. */
	munmap(pages, size);
	munmap(pages + 2 * size, size);
	getcontext(&other);
	other.uc_stack.ss_sp = pages + size;
	other.uc_stack.ss_size = size;
	other.uc_link = &back;
	makecontext(&other, on_coroutine, 0);
	swapcontext(&back, &other);
	return arg;
}

static void on_signal(int sig)
{
	(void)sig;
	tell_and_wait("other");
}

static void *signal_stack(void *arg)
{
	size_t size = 1 << 16;
	char *pages = map(3 * size);
	stack_t stack = { .ss_sp = pages + size, .ss_size = size };
	struct sigaction action = { .sa_handler = on_signal,
				    .sa_flags = SA_ONSTACK };

	munmap(pages, size);
	munmap(pages + 2 * size, size);
	sigaltstack(&stack, NULL);
	sigaction(SIGUSR1, &action, NULL);
	raise(SIGUSR1);
	return arg;
}

static void start(void *(*run)(void *), void *arg, void *stack, size_t size)
{
	pthread_attr_t attr;
	pthread_t thread;

	pthread_attr_init(&attr);
	if (stack)
		pthread_attr_setstack(&attr, stack, size);
	if (pthread_create(&thread, &attr, run, arg))
		abort();
}

int main(void)
{
	enum { NUM_OWN = 3, NUM_GIVEN = 4, SIZE = 1 << 17 };
	char *given = map(NUM_GIVEN * SIZE);

	pthread_barrier_init(&ready, NULL, NUM_OWN + NUM_GIVEN + 4);
	for (size_t i = 0; i < NUM_OWN; i++)
		start(own_stack, "own", NULL, 0);
	/* Side by side in one mapping, without guards. */
	for (size_t i = 0; i < NUM_GIVEN; i++)
		start(own_stack, "given", given + i * SIZE, SIZE);
	start(coroutine, NULL, NULL, 0);
	start(signal_stack, NULL, NULL, 0);
	/* The main thread waits in here, too; the barrier needs one more. */
	start(own_stack, "own", NULL, 0);
	tell_and_wait("main");
	return 0;
}
