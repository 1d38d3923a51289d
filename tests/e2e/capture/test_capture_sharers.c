/* Tests of captures of processes with children in the same memory.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "fork-agent/proc_task.h"
#include "tests/support/capture_check.h"
#include "tests/support/test_main.h"
#include "tests/support/victim.h"

struct sharer {
	struct hf_victim victim;
	uint64_t first, second;
};

static void start(struct sharer *sharer, const char *mode)
{
	struct hf_victim *victim = &sharer->victim;

	hf_victim_start(victim, (const char *[]){ VICTIM_SHARER, mode, NULL });
	sharer->first = (uint64_t)hf_victim_number(victim, "first");
	sharer->second = (uint64_t)hf_victim_number(victim, "second");
	hf_victim_expect(victim, "ready");
}

/* The child's own account: it went on, and nothing was wrong. */
static void end(struct sharer *sharer)
{
	struct hf_victim *victim = &sharer->victim;

	fclose(victim->in);
	victim->in = NULL;
	assert_true(hf_victim_number(victim, "num_rounds") > 0);
	assert_int_equal(hf_victim_number(victim, "num_wrong"), 0);
	assert_int_equal(hf_victim_number(victim, "num_interrupted"), 0);
	assert_int_equal(hf_victim_end(victim), 0);
}

static uint64_t read_running(const struct sharer *sharer, uint64_t addr)
{
	uint64_t value = 0;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/mem", sharer->victim.pid);

	HF_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (pread(fd, &value, sizeof(value), (off_t)addr) != sizeof(value))
		abort();
	return value;
}

static void expect_progress(const struct sharer *sharer)
{
	uint64_t before = read_running(sharer, sharer->first);

	for (int i = 0; i < 5000; i++) {
		if (read_running(sharer, sharer->first) > before + 1)
			return;
		hf_test_sleep_ms(1);
	}
	fail_msg("the child stands at %llu", (unsigned long long)before);
}

struct children {
	pid_t pids[8];
	int num;
};

static void add_child(void *arg, pid_t child)
{
	struct children *children = arg;

	assert_true(children->num < 8);
	children->pids[children->num++] = child;
	hf_proc_for_each_child(child, add_child, arg);
}

static struct hf_error *add_children_of(void *arg, pid_t tid)
{
	assert_true(hf_proc_for_each_child(tid, add_child, arg));
	return NULL;
}

/* Children of all its threads, and theirs. */
static struct children children_of(pid_t pid)
{
	struct children children = { .num = 0 };

	assert_hf_ok(hf_proc_for_each_thread(pid, add_children_of, &children));
	return children;
}

static void expect_untraced(pid_t pid)
{
	struct children children = children_of(pid);

	for (int i = 0; i < children.num; i++)
		for (int j = 0; hf_test_status_field(children.pids[i],
						     "TracerPid", 10); j++) {
			assert_true(j < 5000);
			hf_test_sleep_ms(1);
		}
}

/* Counts in the process's own memory, while its threads stand. */
struct witness {
	const struct sharer *sharer;
	uint64_t first_stopped, second_stopped;
	uint64_t first_forked, second_forked;
};

static struct hf_error *read_counts(void *arg, enum hf_capture_step step)
{
	struct witness *witness = arg;
	const struct sharer *sharer = witness->sharer;

	if (step == HF_STEP_STOPPED) {
		witness->first_stopped = read_running(sharer, sharer->first);
		witness->second_stopped = read_running(sharer, sharer->second);
		hf_test_sleep_ms(5);
	} else if (step == HF_STEP_PARKED) {
		witness->first_forked = read_running(sharer, sharer->first);
		witness->second_forked = read_running(sharer, sharer->second);
	}
	return NULL;
}

static void check_fork(const char *mode, uint32_t num_stopped)
{
	const int rounds = hf_test_rounds(5);
	struct sharer sharer;

	start(&sharer, mode);
	for (int i = 0; i < rounds; i++) {
		struct witness witness = { .sharer = &sharer };
		const struct hf_capture_options options = {
			.pid = sharer.victim.pid,
		};
		const struct hf_capture_hooks hooks = {
			.at_step = read_counts,
			.arg = &witness,
		};
		const struct hf_capture_report *report;
		struct hf_frozen *frozen;
		struct hf_image *image;
		uint64_t a, b;

		expect_progress(&sharer);
		assert_hf_ok(hf_capture_with_hooks(&options, &hooks,
						   &frozen));
		report = hf_frozen_report(frozen);
		assert_int_equal(report->num_vfork_stopped, num_stopped);
		assert_int_equal(report->num_vfork_children, 0);
		assert_true(report->max_thread_calls <= 6);
		/* Nobody wrote from the stop to the end of the fork. */
		assert_int_equal(witness.first_stopped, witness.first_forked);
		assert_int_equal(witness.second_stopped,
				 witness.second_forked);
		assert_in_range(witness.first_stopped, witness.second_stopped,
				witness.second_stopped + 1);
		/* And that instant is the image. */
		assert_hf_ok(hf_frozen_open_image(frozen, &image));
		assert_hf_ok(hf_image_read(image, sharer.first, &a, 8));
		assert_hf_ok(hf_image_read(image, sharer.second, &b, 8));
		assert_int_equal(a, witness.first_stopped);
		assert_int_equal(b, witness.second_stopped);
		hf_image_destroy(image);
		expect_progress(&sharer); /* while the frozen child lives */
		assert_hf_ok(hf_frozen_release(frozen));
		assert_true(report->reaped);
		hf_frozen_destroy(frozen);
		expect_untraced(sharer.victim.pid);
	}
	end(&sharer);
}

static void the_child_of_a_vfork_stands_with_the_target(void **state)
{
	(void)state;
	check_fork("vfork", 1);
}

static void a_child_of_a_vforked_child_stands_too(void **state)
{
	(void)state;
	check_fork("nested", 2);
}

static void a_child_in_the_same_memory_stands_too(void **state)
{
	(void)state;
	check_fork("clone", 1);
}

static void all_threads_of_a_vforked_child_stand(void **state)
{
	(void)state;
	check_fork("thread", 1);
}

static void memory_shared_with_a_child_stands_as_long_as_it_is_read(
	void **state)
{
	struct sharer sharer;

	(void)state;
	start(&sharer, "vfork");
	for (int i = 0; i < hf_test_rounds(3); i++) {
		const struct hf_capture_options options = {
			.pid = sharer.victim.pid,
			.mode = HF_CAPTURE_STOP,
		};
		struct hf_frozen *frozen;
		struct hf_image *image;
		uint64_t a, b, later;

		expect_progress(&sharer);
		assert_hf_ok(hf_capture(&options, &frozen));
		assert_int_equal(hf_frozen_report(frozen)->num_vfork_stopped,
				 1);
		assert_int_equal(hf_frozen_report(frozen)->num_vfork_children,
				 0);
		assert_hf_ok(hf_frozen_open_image(frozen, &image));
		assert_hf_ok(hf_image_read(image, sharer.first, &a, 8));
		hf_test_sleep_ms(20);
		assert_hf_ok(hf_image_read(image, sharer.second, &b, 8));
		assert_hf_ok(hf_image_read(image, sharer.first, &later, 8));
		assert_int_equal(a, later);
		assert_in_range(a, b, b + 1);
		hf_image_destroy(image);
		assert_hf_ok(hf_frozen_release(frozen));
		hf_frozen_destroy(frozen);
		expect_progress(&sharer);
		expect_untraced(sharer.victim.pid);
	}
	end(&sharer);
}

static void no_call_of_a_vforked_child_is_interrupted(void **state)
{
	struct sharer sharer;

	(void)state;
	start(&sharer, "wait");
	for (int i = 0; i < hf_test_rounds(12); i++) {
		struct hf_frozen *frozen;

		assert_hf_ok(hf_test_capture(sharer.victim.pid, &frozen));
		assert_int_equal(hf_frozen_report(frozen)->num_vfork_stopped,
				 1);
		assert_hf_ok(hf_frozen_release(frozen));
		hf_frozen_destroy(frozen);
		hf_test_sleep_ms((unsigned int)i % 7);
	}
	end(&sharer);
}

static void a_child_that_another_traces_is_said_to_run(void **state)
{
	struct hf_frozen *frozen;
	struct children children;
	struct sharer sharer;

	(void)state;
	start(&sharer, "vfork");
	children = children_of(sharer.victim.pid);
	assert_int_equal(children.num, 1);
	assert_int_equal(ptrace(PTRACE_SEIZE, children.pids[0], NULL, NULL),
			 0);
	assert_hf_ok(hf_test_capture(sharer.victim.pid, &frozen));
	assert_int_equal(hf_frozen_report(frozen)->num_vfork_stopped, 0);
	assert_int_equal(hf_frozen_report(frozen)->num_vfork_children, 1);
	assert_int_equal(hf_frozen_report(frozen)->num_partial, 1);
	assert_hf_ok(hf_frozen_release(frozen));
	hf_frozen_destroy(frozen);
	assert_int_equal(ptrace(PTRACE_INTERRUPT, children.pids[0], NULL,
				NULL), 0);
	assert_int_equal(waitpid(children.pids[0], NULL, __WALL),
			 children.pids[0]);
	ptrace(PTRACE_DETACH, children.pids[0], NULL, NULL);
	end(&sharer);
}

/* ---- in another process ---- */

static void forbid_kcmp(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_kcmp, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	const struct sock_fprog program = {
		.len = sizeof(filter) / sizeof(filter[0]),
		.filter = filter,
	};

	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0 ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) < 0)
		_exit(77);
}

static void without_kcmp_the_child_of_a_vfork_is_found_all_the_same(
	void **state)
{
	struct sharer sharer;
	int status;
	pid_t tool;

	(void)state;
	start(&sharer, "vfork");
	tool = fork();
	if (tool == 0) {
		struct hf_frozen *frozen;
		struct hf_error *err;

		forbid_kcmp();
		err = hf_test_capture(sharer.victim.pid, &frozen);
		if (err)
			_exit(1);
		_exit(hf_frozen_report(frozen)->num_vfork_stopped == 1 &&
		      hf_frozen_report(frozen)->num_vfork_children == 0 &&
		      !hf_frozen_release(frozen) ? 0 : 2);
	}
	assert_int_equal(waitpid(tool, &status, 0), tool);
	if (hf_victim_status(status) == 77)
		skip();
	assert_int_equal(hf_victim_status(status), 0);
	expect_progress(&sharer);
	end(&sharer);
}

static void kill_oneself(void *arg, uint64_t num)
{
	if (num == *(const uint64_t *)arg)
		raise(SIGKILL);
}

/* A soak run takes each call. */
static uint64_t step_between_kills(void)
{
	return hf_test_rounds(1) > 1 ? 1 : 5;
}

/* @return whether the tool was killed: else it was finished before. */
static bool is_killed_at(const struct sharer *sharer,
			 enum hf_capture_mode mode, uint64_t num)
{
	int status;
	pid_t tool = fork();

	if (tool == 0) {
		const struct hf_capture_options options = {
			.pid = sharer->victim.pid,
			.mode = mode,
		};
		const struct hf_capture_hooks hooks = {
			.before_call = kill_oneself,
			.arg = &num,
		};
		struct hf_frozen *frozen;

		assert_hf_ok(hf_capture_with_hooks(&options, &hooks, &frozen));
		assert_hf_ok(hf_frozen_release(frozen));
		_exit(0);
	}
	assert_int_equal(waitpid(tool, &status, 0), tool);
	if (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL)
		return true;
	assert_int_equal(hf_victim_status(status), 0);
	return false;
}

static void a_vforked_child_goes_on_when_the_tool_is_killed(void **state)
{
	static const enum hf_capture_mode modes[] = { HF_CAPTURE_FORK,
						      HF_CAPTURE_STOP };
	uint64_t num_killed = 0, last = 0;
	struct sharer sharer;

	(void)state;
	start(&sharer, "vfork");
	for (size_t i = 0; i < 2; i++) {
		uint64_t num = 1 + i;

		while (is_killed_at(&sharer, modes[i], num)) {
			expect_progress(&sharer);
			expect_untraced(sharer.victim.pid);
			num_killed++;
			num += step_between_kills();
		}
		last = num > last ? num : last;
	}
	/* Both processes: attach, interrupt, wait, registers, let go. */
	assert_true(last > 2 * 10);
	assert_true(num_killed >= 6);
	end(&sharer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_child_of_a_vfork_stands_with_the_target),
		cmocka_unit_test(a_child_of_a_vforked_child_stands_too),
		cmocka_unit_test(a_child_in_the_same_memory_stands_too),
		cmocka_unit_test(all_threads_of_a_vforked_child_stand),
		cmocka_unit_test(
			memory_shared_with_a_child_stands_as_long_as_it_is_read),
		cmocka_unit_test(no_call_of_a_vforked_child_is_interrupted),
		cmocka_unit_test(a_child_that_another_traces_is_said_to_run),
		cmocka_unit_test(
			without_kcmp_the_child_of_a_vfork_is_found_all_the_same),
		cmocka_unit_test(
			a_vforked_child_goes_on_when_the_tool_is_killed),
	};

	hf_test_need_ptrace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
