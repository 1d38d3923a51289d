/* Tests of the stacks and TLS of threads, live and made up.
 * SPDX-License-Identifier: MIT */
#include "coredump/image.h"

#include <setjmp.h>
#include <stdarg.h>
#include <dlfcn.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "coredump/process_image.h"
#include "tests/support/fake_image.h"
#include "tests/support/test_main.h"

enum { PAGE = 4096, NUM_THREADS = 11 };

struct account {
	char kind[16];
	pid_t tid;
	uint64_t local, tls, self;
};

static pid_t start_victim(const char *path, struct account *accounts)
{
	int pipe_fds[2];
	pid_t pid;
	FILE *out;

	assert_int_equal(pipe(pipe_fds), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(pipe_fds[1], STDOUT_FILENO);
		close(pipe_fds[0]);
		close(pipe_fds[1]);
		execl(path, path, NULL);
		_exit(127);
	}
	close(pipe_fds[1]);
	out = fdopen(pipe_fds[0], "r");
	assert_non_null(out);
	for (size_t i = 0; i < NUM_THREADS; i++) {
		struct account *account = &accounts[i];
		char line[128];

		assert_non_null(fgets(line, sizeof(line), out));
		assert_int_equal(sscanf(line, "t %15s %d %" SCNx64 " %" SCNx64
					" %" SCNx64, account->kind,
					&account->tid, &account->local,
					&account->tls, &account->self), 5);
	}
	fclose(out);
	return pid;
}

/* Stop the thread and take its registers.
 * @return false if ptrace is not allowed. */
static bool take_registers(pid_t tid, struct hf_thread *thread)
{
	int status;

	if (ptrace(PTRACE_SEIZE, tid, NULL, NULL))
		return false;
	assert_int_equal(ptrace(PTRACE_INTERRUPT, tid, NULL, NULL), 0);
	assert_int_equal(waitpid(tid, &status, __WALL), tid);
	assert_true(WIFSTOPPED(status));
	*thread = (struct hf_thread){ .tid = tid };
	assert_int_equal(ptrace(PTRACE_GETREGS, tid, NULL, &thread->regs), 0);
	return true;
}

static bool inside(struct hf_range range, uint64_t addr)
{
	return addr >= range.start && addr < range.end;
}

static void check_disjoint(const struct hf_thread *threads, size_t num)
{
	for (size_t i = 0; i < 2 * num; i++)
		for (size_t j = 0; j < i; j++) {
			struct hf_range a = i % 2 ? threads[i / 2].tls :
						    threads[i / 2].stack;
			struct hf_range b = j % 2 ? threads[j / 2].tls :
						    threads[j / 2].stack;

			assert_false(a.start < b.end && b.start < a.end);
		}
}

static void check_victim(const char *path)
{
	/* glibc tells debuggers sizeof(struct pthread); the victims have the
	 * same glibc as we. */
	const uint32_t *size = dlsym(RTLD_DEFAULT,
				     "_thread_db_sizeof_pthread");
	struct account accounts[NUM_THREADS];
	struct hf_thread threads[NUM_THREADS];
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	const struct hf_thread *got;
	pid_t pid = start_victim(path, accounts);
	uint32_t num_other = 0;
	size_t num;

	for (size_t i = 0; i < NUM_THREADS; i++)
		assert_true(take_registers(accounts[i].tid, &threads[i]));
	assert_hf_ok(hf_process_image_open(pid, threads, NUM_THREADS, &image));
	kill(pid, SIGKILL);
	/* The leader is reaped last: traced threads are waited for one by
	 * one. */
	for (size_t i = 0; i < NUM_THREADS; i++)
		if (accounts[i].tid != pid)
			waitpid(accounts[i].tid, NULL, __WALL);
	waitpid(pid, NULL, __WALL);
	got = hf_image_threads(image, &num);
	assert_int_equal(num, NUM_THREADS);
	for (size_t i = 0; i < num; i++) {
		const struct account *account = &accounts[i];

		assert_int_equal(got[i].regs.fs_base, account->self);
		assert_true(inside(got[i].tls, account->tls));
		assert_true(inside(got[i].tls, account->self));
		if (size)
			assert_int_equal(got[i].tls.end - account->self,
					 (*size + 63) / 64 * 64);
		assert_true(inside(got[i].stack, account->local));
		assert_int_equal(got[i].stack.start, got[i].regs.rsp - 128);
		assert_int_equal(got[i].on_other_stack,
				 !strcmp(account->kind, "other"));
		num_other += got[i].on_other_stack;
		/* From the stack straight into TLS, nothing between. */
		if (!strcmp(account->kind, "own") ||
		    !strcmp(account->kind, "given"))
			assert_int_equal(got[i].stack.end, got[i].tls.start);
	}
	assert_int_equal(num_other, 2);
	check_disjoint(got, num);
}

static void ranges_hold_what_a_dynamic_program_has_there(void **state)
{
	(void)state;
	check_victim(VICTIM);
}

static void ranges_hold_what_a_static_program_has_there(void **state)
{
	(void)state;
	check_victim(VICTIM_STATIC);
}

static void made_up_registers_give_ranges_that_do_not_overlap(void **state)
{
	enum { BASE = 0x100000, SIZE = 64 * PAGE };
	uint32_t random = 1;

	(void)state;
	for (int round = 0; round < 500; round++) {
		HF_AUTO(fake_image) struct fake_image *fake =
			fake_image_create();
		const struct hf_thread *threads;
		size_t num;

		fake_image_add_anon(fake, BASE, BASE + SIZE);
		fake_image_add_anon(fake, BASE + SIZE, BASE + 2 * SIZE);
		for (pid_t tid = 1; tid <= 6; tid++) {
			uint64_t regs[2];

			for (size_t i = 0; i < 2; i++) {
				random = random * 1664525 + 1013904223;
				regs[i] = BASE + (random >> 8) % (2 * SIZE +
								  PAGE);
			}
			fake_image_add_thread_at(fake, tid, regs[0], regs[1]);
		}
		threads = hf_image_threads(fake_image_freeze(fake), &num);
		assert_int_equal(num, 6);
		check_disjoint(threads, num);
		for (size_t i = 0; i < num; i++)
			assert_true(threads[i].stack.start <=
				    threads[i].stack.end &&
				    threads[i].tls.start <=
				    threads[i].tls.end);
	}
}

static void a_thread_without_registers_has_empty_ranges(void **state)
{
	HF_AUTO(fake_image) struct fake_image *fake = fake_image_create();
	const struct hf_thread *threads;
	size_t num;

	(void)state;
	fake_image_add_anon(fake, 0x100000, 0x110000);
	fake_image_add_thread_at(fake, 1, 0, 0);
	fake_image_add_thread_at(fake, 2, 0x900000, 0x900000);
	threads = hf_image_threads(fake_image_freeze(fake), &num);
	assert_int_equal(num, 2);
	for (size_t i = 0; i < num; i++) {
		assert_int_equal(threads[i].stack.start, threads[i].stack.end);
		assert_int_equal(threads[i].tls.start, threads[i].tls.end);
		assert_false(threads[i].on_other_stack);
	}
}

static void the_red_zone_ends_at_the_start_of_the_mapping(void **state)
{
	HF_AUTO(fake_image) struct fake_image *fake = fake_image_create();
	const struct hf_thread *threads;
	size_t num;

	(void)state;
	fake_image_add_anon(fake, 0x100000, 0x110000);
	fake_image_add_thread_at(fake, 1, 0x100010, 0x10f000);
	fake_image_add_thread_at(fake, 2, 0x10fff8, 0);
	threads = hf_image_threads(fake_image_freeze(fake), &num);
	assert_int_equal(threads[0].stack.start, 0x100000);
	assert_int_equal(threads[0].stack.end, 0x10f000 - 64);
	assert_int_equal(threads[0].tls.start, 0x10f000 - 64);
	assert_int_equal(threads[0].tls.end, 0x10f000 + 2368);
	assert_false(threads[0].on_other_stack);
	assert_int_equal(threads[1].stack.start, 0x10fff8 - 128);
	assert_int_equal(threads[1].stack.end, 0x110000);
	assert_true(threads[1].on_other_stack);
}

static bool may_trace(void)
{
	pid_t pid = fork();
	bool may;

	if (!pid)
		for (;;)
			pause();
	may = pid > 0 && !ptrace(PTRACE_SEIZE, pid, NULL, NULL);
	if (pid > 0) {
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	return may;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(ranges_hold_what_a_dynamic_program_has_there),
		cmocka_unit_test(ranges_hold_what_a_static_program_has_there),
		cmocka_unit_test(
			made_up_registers_give_ranges_that_do_not_overlap),
		cmocka_unit_test(a_thread_without_registers_has_empty_ranges),
		cmocka_unit_test(the_red_zone_ends_at_the_start_of_the_mapping),
	};

	if (!may_trace()) {
		fprintf(stderr, "skipped: ptrace is not allowed here\n");
		return 77;
	}
	return cmocka_run_group_tests(tests, NULL, NULL);
}
