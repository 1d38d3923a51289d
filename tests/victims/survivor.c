/* Victim: watches everything that a tool's sudden death could spoil.
 * SPDX-License-Identifier: MIT
 *
 * usage: survivor SPINNERS SLEEPERS [WITNESSES]
 *
 * Each spinner verifies its registers and its red zone, each sleeper that its
 * calls are not interrupted, its signal mask, and its alternate signal stack. Each
 * witness sends its process a signal, waits until that was handled, and sends the
 * next; with one there is also a timer that is set again by its own handler: a
 * signal that is lost stops them for good.
 * Every thread makes sure again and again that it is in the process that was
 * started: a second copy of the program prints "copy" and ends.
 *
 * Line "check": prints "moving" once each thread has gone on since, or "stuck
 * N". At the end "name value" lines. SIGRTMIN is counted with its value, which
 * must be one that has not come before; odd ones are sent to one thread, which
 * must see them in their order. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/victims/register_bank.h"

enum {
	MAX_THREADS = 256,
	TURNS = 20000,
	ALT_BYTES = 64 * 1024,
	CHECK_LIMIT_MS = 20 * 1000,
	VALUES = 1 << 22,
	TICK_NS = 300 * 1000,
};

static struct worker {
	pthread_t id;
	int index;
	void (*lap)(struct worker *worker);
	atomic_long num_laps;
	stack_t alt;
	sigset_t mask;
} workers[MAX_THREADS];

static atomic_long num_wrong_registers, num_wrong_red_zones;
static atomic_long num_interrupted, num_wrong_masks, num_wrong_stacks;
static atomic_long num_handled, sum_handled, num_children;
static atomic_long num_twice, num_disordered, num_wrong_origins;
static atomic_long num_pings, num_wrong_pings, num_ticks;
static atomic_uchar seen[VALUES];
static atomic_int source_pid;
static timer_t timer;
static atomic_int stopping;
static pid_t own_pid;

static void expect_own_process(void)
{
	static const char text[] = "copy\n";

	if (syscall(SYS_getpid) == own_pid)
		return;
	if (write(STDOUT_FILENO, text, sizeof(text) - 1) < 0)
		_exit(98);
	_exit(99);
}

/* Fill the 128 bytes below the stack pointer, spin, and look. */
__attribute__((naked, noinline)) static long
red_zone_lap(uint64_t value __attribute__((unused)),
	     uint64_t num_turns __attribute__((unused)))
{
	__asm__ volatile(
		"mov $-16, %rcx\n"
		"1: mov %rdi, (%rsp,%rcx,8)\n"
		"inc %rcx\n jnz 1b\n"
		"2: dec %rsi\n jnz 2b\n"
		"mov $-16, %rcx\n"
		"xor %eax, %eax\n"
		"3: mov (%rsp,%rcx,8), %rdx\n"
		"xor %rdi, %rdx\n"
		"or %rdx, %rax\n"
		"inc %rcx\n jnz 3b\n"
		"ret\n");
}

static void spin(struct worker *worker)
{
	uint64_t seed = (uint64_t)worker->num_laps * 0x9e3779b97f4a7c15u +
			(uint64_t)worker->index;

	if (!register_bank_lap(seed, TURNS))
		atomic_fetch_add(&num_wrong_registers, 1);
	if (red_zone_lap(seed, TURNS))
		atomic_fetch_add(&num_wrong_red_zones, 1);
}

static void count_interruption(long result)
{
	if (result < 0 && errno == EINTR)
		atomic_fetch_add(&num_interrupted, 1);
}

static void sleep_in_calls(struct worker *worker)
{
	const struct timespec time = { .tv_nsec = 200 * 1000 };
	struct pollfd none = { .fd = -1 };
	sigset_t mask;
	stack_t alt;

	switch (worker->num_laps % 3) {
	case 0:
		count_interruption(nanosleep(&time, NULL));
		break;
	case 1:
		count_interruption(poll(&none, 1, 1));
		break;
	default:
		count_interruption(ppoll(&none, 1, &time, &worker->mask));
		break;
	}
	pthread_sigmask(SIG_SETMASK, NULL, &mask);
	if (memcmp(&mask, &worker->mask, 8))
		atomic_fetch_add(&num_wrong_masks, 1);
	sigaltstack(NULL, &alt);
	if (alt.ss_sp != worker->alt.ss_sp ||
	    alt.ss_size != worker->alt.ss_size || alt.ss_flags != 0)
		atomic_fetch_add(&num_wrong_stacks, 1);
}

static uint64_t now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

/* Its own signals are blocked in it. */
static void bear_witness(struct worker *worker)
{
	const struct timespec time = { .tv_nsec = 50 * 1000 };
	long before = atomic_load(&num_pings);

	if (worker->num_laps % 2)
		kill(own_pid, SIGUSR2);
	else
		syscall(SYS_tgkill, own_pid, own_pid, SIGUSR1);
	while (atomic_load(&num_pings) == before)
		nanosleep(&time, NULL);
	if (atomic_load(&num_pings) != before + 1)
		atomic_fetch_add(&num_wrong_pings, 1);
}

static void *work(void *arg)
{
	struct worker *worker = arg;

	worker->alt.ss_sp = malloc(ALT_BYTES);
	worker->alt.ss_size = ALT_BYTES;
	sigaltstack(&worker->alt, NULL);
	if (worker->lap == sleep_in_calls) {
		sigaddset(&worker->mask, SIGRTMIN);
		sigaddset(&worker->mask, SIGRTMIN + 1 + worker->index % 16);
		sigaddset(&worker->mask, SIGUSR1);
		sigaddset(&worker->mask, SIGUSR2);
		sigaddset(&worker->mask, SIGALRM);
		pthread_sigmask(SIG_SETMASK, &worker->mask, NULL);
	}
	if (worker->lap == bear_witness) {
		sigfillset(&worker->mask);
		pthread_sigmask(SIG_SETMASK, &worker->mask, NULL);
	}
	while (!atomic_load(&stopping)) {
		worker->lap(worker);
		expect_own_process();
		atomic_fetch_add(&worker->num_laps, 1);
	}
	return NULL;
}

static void on_signal(int signal_number, siginfo_t *info, void *context)
{
	static __thread int last;
	int value = info->si_value.sival_int, source = 0;

	(void)signal_number;
	(void)context;
	expect_own_process();
	atomic_fetch_add(&num_handled, 1);
	atomic_fetch_add(&sum_handled, value);
	if (value < 0 || value >= VALUES || atomic_exchange(&seen[value], 1))
		atomic_fetch_add(&num_twice, 1);
	if (value % 2) {
		if (value < last)
			atomic_fetch_add(&num_disordered, 1);
		last = value;
	}
	atomic_compare_exchange_strong(&source_pid, &source, info->si_pid);
	if (info->si_code != SI_QUEUE || info->si_pid != source_pid)
		atomic_fetch_add(&num_wrong_origins, 1);
}

static void on_ping(int signal_number, siginfo_t *info, void *context)
{
	(void)context;
	expect_own_process();
	if (info->si_pid != own_pid ||
	    info->si_code != (signal_number == SIGUSR1 ? SI_TKILL : SI_USER))
		atomic_fetch_add(&num_wrong_origins, 1);
	atomic_fetch_add(&num_pings, 1);
}

static void set_timer(void)
{
	const struct itimerspec once = { .it_value.tv_nsec = TICK_NS };

	timer_settime(timer, 0, &once, NULL);
}

static void on_tick(int signal_number, siginfo_t *info, void *context)
{
	(void)signal_number;
	(void)context;
	expect_own_process();
	if (info->si_code != SI_TIMER || info->si_value.sival_ptr != seen)
		atomic_fetch_add(&num_wrong_origins, 1);
	atomic_fetch_add(&num_ticks, 1);
	if (!atomic_load(&stopping))
		set_timer();
}

static void handle(int signal_number,
		   void (*fn)(int number, siginfo_t *info, void *context))
{
	struct sigaction action = {
		.sa_sigaction = fn,
		.sa_flags = SA_SIGINFO | SA_RESTART,
	};

	sigaction(signal_number, &action, NULL);
}

static int start_timer(void)
{
	struct sigevent event = {
		.sigev_notify = SIGEV_SIGNAL,
		.sigev_signo = SIGALRM,
		.sigev_value.sival_ptr = seen,
	};

	if (timer_create(CLOCK_MONOTONIC, &event, &timer))
		return 0;
	set_timer();
	return 1;
}

static void on_child(int signal_number)
{
	(void)signal_number;
	atomic_fetch_add(&num_children, 1);
}

/* @return has it changed within the limit? */
static int moves(const atomic_long *count, long before)
{
	uint64_t end = now_ms() + CHECK_LIMIT_MS;

	while (atomic_load(count) == before) {
		if (now_ms() > end)
			return 0;
		usleep(1000);
	}
	return 1;
}

static void check(int num_threads, int num_witnesses)
{
	long before[MAX_THREADS], ticks = atomic_load(&num_ticks);

	for (int i = 0; i < num_threads; i++)
		before[i] = atomic_load(&workers[i].num_laps);
	for (int i = 0; i < num_threads; i++) {
		if (!moves(&workers[i].num_laps, before[i])) {
			printf("stuck %d\n", i);
			return;
		}
	}
	if (num_witnesses && !moves(&num_ticks, ticks))
		printf("no tick\n");
	else
		printf("moving\n");
}

static void print(const char *name, long value)
{
	printf("%s %ld\n", name, value);
}

int main(int argc, char **argv)
{
	int num_spinners = argc > 1 ? atoi(argv[1]) : 1;
	int num_movers = num_spinners + (argc > 2 ? atoi(argv[2]) : 1);
	int num_witnesses = argc > 3 ? atoi(argv[3]) : 0;
	int num_threads = num_movers + num_witnesses;
	struct sigaction child = { .sa_handler = on_child };
	char line[64];

	own_pid = getpid();
	handle(SIGRTMIN, on_signal);
	handle(SIGUSR1, on_ping);
	handle(SIGUSR2, on_ping);
	handle(SIGALRM, on_tick);
	sigaction(SIGCHLD, &child, NULL);
	for (int i = 0; i < num_threads && i < MAX_THREADS; i++) {
		workers[i].index = i;
		workers[i].lap = i < num_spinners ? spin :
				 i < num_movers ? sleep_in_calls :
						  bear_witness;
		if (pthread_create(&workers[i].id, NULL, work, &workers[i]))
			return 2;
	}
	if (num_witnesses && !start_timer())
		return 3;
	check(num_threads, num_witnesses);
	printf("ready\n");
	fflush(stdout);
	errno = 0;
	while (fgets(line, sizeof(line), stdin)) {
		expect_own_process();
		check(num_threads, num_witnesses);
		fflush(stdout);
	}
	count_interruption(feof(stdin) ? 0 : -1);
	expect_own_process();
	atomic_store(&stopping, 1);
	for (int i = 0; i < num_threads; i++)
		pthread_join(workers[i].id, NULL);
	print("num_wrong_registers", num_wrong_registers);
	print("num_wrong_red_zones", num_wrong_red_zones);
	print("num_wrong_masks", num_wrong_masks);
	print("num_wrong_stacks", num_wrong_stacks);
	print("num_interrupted", num_interrupted);
	print("num_children", num_children);
	print("num_handled", num_handled);
	print("sum_handled", sum_handled);
	print("num_twice", num_twice);
	print("num_disordered", num_disordered);
	print("num_wrong_origins", num_wrong_origins);
	print("num_wrong_pings", num_wrong_pings);
	return 0;
}
