/* Tests of the capture without a fork: the process stands, is read, goes on.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <linux/capability.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "coredump/image.h"
#include "tests/support/capture_check.h"
#include "tests/support/test_main.h"
#include "tests/support/victim.h"
#include "util/progress.h"

enum { SKIPPED = 77 };

static void start(struct hf_victim *victim, const char *program,
		  const char *arg)
{
	hf_victim_start(victim, (const char *[]){ program, arg, NULL });
	hf_victim_expect(victim, "ready");
}

static struct hf_error *stop(pid_t pid, struct hf_frozen **ret)
{
	const struct hf_capture_options options = {
		.pid = pid,
		.mode = HF_CAPTURE_STOP,
	};

	return hf_capture(&options, ret);
}

static void stop_once(pid_t pid)
{
	struct hf_frozen *frozen;

	assert_hf_ok(stop(pid, &frozen));
	assert_hf_ok(hf_frozen_release(frozen));
	hf_frozen_destroy(frozen);
}

static void expect_state(pid_t pid, char wanted)
{
	for (int i = 0; i < 1000 && hf_test_state(pid) != wanted; i++)
		hf_test_sleep_ms(1);
	assert_int_equal(hf_test_state(pid), wanted);
}

/* End a victim of blocked calls: nothing may have come to it. */
static void expect_undisturbed(struct hf_victim *victim)
{
	fclose(victim->in);
	victim->in = NULL;
	assert_int_equal(hf_victim_number(victim, "num_returned"), 0);
	assert_int_equal(hf_victim_number(victim, "num_interrupted"), 0);
	assert_int_equal(hf_victim_number(victim, "num_handled"), 0);
	assert_int_equal(hf_victim_end(victim), 0);
}

static void no_blocking_call_returns_and_no_process_is_made(void **state)
{
	struct hf_victim victim;
	int num_threads, num_fds, num_children;

	(void)state;
	start(&victim, VICTIM_BLOCKED_CALLS, NULL);
	num_threads = hf_test_num_entries(victim.pid, "task");
	num_fds = hf_test_num_entries(victim.pid, "fd");
	num_children = hf_test_num_children(victim.pid);
	for (int i = 0; i < hf_test_rounds(5); i++) {
		const struct hf_capture_report *report;
		struct hf_frozen *frozen;

		assert_hf_ok(stop(victim.pid, &frozen));
		report = hf_frozen_report(frozen);
		assert_int_equal(report->mode, HF_CAPTURE_STOP);
		assert_int_equal(report->num_threads, num_threads);
		assert_int_equal(report->num_partial, 0);
		assert_true(report->num_restarted > 0);
		assert_int_equal(hf_frozen_pid(frozen), 0);
		/* It stands, and has no new child. */
		assert_int_equal(hf_test_state(victim.pid), 't');
		assert_int_equal(hf_test_num_children(victim.pid),
				 num_children);
		hf_test_sleep_ms(20);
		assert_int_equal(hf_test_state(victim.pid), 't');
		assert_hf_ok(hf_frozen_release(frozen));
		assert_true(report->pause_ns >= 20 * 1000 * 1000);
		assert_true(report->reap_ns == UINT64_MAX);
		assert_true(report->cow_pages == UINT64_MAX);
		hf_frozen_destroy(frozen);
		expect_state(victim.pid, 'S');
	}
	assert_int_equal(hf_test_num_entries(victim.pid, "task"),
			 num_threads);
	assert_int_equal(hf_test_num_entries(victim.pid, "fd"), num_fds);
	expect_undisturbed(&victim);
}

static uint64_t read_image(const struct hf_image *image, uint64_t addr)
{
	uint64_t value;

	assert_hf_ok(hf_image_read(image, addr, &value, sizeof(value)));
	return value;
}

static void memory_and_registers_are_of_one_instant(void **state)
{
	struct hf_victim victim;
	uint64_t first, second, last = 0;

	(void)state;
	hf_victim_start(&victim, (const char *[]){ VICTIM_REGISTERS, "1",
						   NULL });
	first = (uint64_t)hf_victim_number(&victim, "first");
	second = (uint64_t)hf_victim_number(&victim, "second");
	hf_victim_expect(&victim, "ready");
	for (int i = 0; i < hf_test_rounds(10); i++) {
		const struct hf_thread *threads, *counter = NULL;
		struct hf_frozen *frozen;
		struct hf_image *image;
		size_t num;
		uint64_t a, b;

		assert_hf_ok(stop(victim.pid, &frozen));
		assert_hf_ok(hf_frozen_open_image(frozen, &image));
		threads = hf_image_threads(image, &num);
		for (size_t t = 0; t < num; t++)
			if (!strcmp(threads[t].name, "counter"))
				counter = &threads[t];
		assert_non_null(counter);
		a = read_image(image, first);
		b = read_image(image, second);
		if (b > 0)
			assert_in_range(counter->regs.r12, a, b + 1);
		hf_test_sleep_ms(5);
		assert_int_equal(read_image(image, first), a);
		assert_int_equal(read_image(image, second), b);
		hf_image_destroy(image);
		assert_hf_ok(hf_frozen_release(frozen));
		hf_frozen_destroy(frozen);
		assert_true(a >= last);
		last = a;
		hf_test_sleep_ms(5);
	}
	assert_true(last > 0);
	assert_int_equal(hf_victim_end(&victim), 0);
}

struct footprint {
	unsigned long resident_kb, anonymous_kb, swap_kb; /* page tables say */
	unsigned long long file_kb, shmem_kb, table_kb;   /* counters say */
};

static struct footprint footprint_of(pid_t pid)
{
	struct footprint ret = {
		.file_kb = hf_test_status_field(pid, "RssFile", 10),
		.shmem_kb = hf_test_status_field(pid, "RssShmem", 10),
		.table_kb = hf_test_status_field(pid, "VmPTE", 10),
	};
	char line[256], path[64];
	FILE *file;

	snprintf(path, sizeof(path), "/proc/%d/smaps_rollup", pid);
	file = fopen(path, "re");
	assert_non_null(file);
	while (fgets(line, sizeof(line), file))
		if (!sscanf(line, "Rss: %lu", &ret.resident_kb) &&
		    !sscanf(line, "Anonymous: %lu", &ret.anonymous_kb))
			sscanf(line, "Swap: %lu", &ret.swap_kb);
	fclose(file);
	assert_true(ret.resident_kb > 0);
	return ret;
}

static void expect_footprint(pid_t pid, const struct footprint *wanted)
{
	struct footprint now = footprint_of(pid);

	assert_int_equal(now.resident_kb, wanted->resident_kb);
	assert_int_equal(now.anonymous_kb, wanted->anonymous_kb);
	assert_int_equal(now.swap_kb, wanted->swap_kb);
	assert_int_equal(now.file_kb, wanted->file_kb);
	assert_int_equal(now.shmem_kb, wanted->shmem_kb);
	assert_int_equal(now.table_kb, wanted->table_kb);
}

/* Every byte that can be. @return how many of files. */
static uint64_t read_all(const struct hf_image *image)
{
	enum { PART = 1 << 16 };
	static char buf[PART];
	const struct hf_segment *segments;
	uint64_t num_file_bytes = 0;
	size_t num;

	segments = hf_image_segments(image, &num);
	for (size_t i = 0; i < num; i++) {
		uint64_t at = segments[i].start;

		while (at < segments[i].end) {
			uint64_t left = segments[i].end - at;
			size_t got = hf_image_read_some(
				image, at, buf, left < PART ? left : PART);

			if (segments[i].kind == HF_SEGMENT_FILE)
				num_file_bytes += got;
			if (!got)
				break;
			at += got;
		}
	}
	return num_file_bytes;
}

static void reading_it_leaves_no_trace_in_its_memory(void **state)
{
	static const char *const victims[] = { VICTIM_BLOCKED_CALLS,
					       VICTIM_SHARES };

	(void)state;
	for (size_t i = 0; i < 2; i++) {
		struct footprint before;
		struct hf_victim victim;
		struct hf_frozen *frozen;
		struct hf_image *image;
		uint64_t num_file_bytes;

		start(&victim, victims[i], NULL);
		assert_hf_ok(stop(victim.pid, &frozen));
		before = footprint_of(victim.pid);
		assert_hf_ok(hf_frozen_open_image(frozen, &image));
		num_file_bytes = read_all(image);
		expect_footprint(victim.pid, &before);
		/* There was something to fault in. */
		assert_true(num_file_bytes / 1024 > before.file_kb);
		hf_image_destroy(image);
		assert_hf_ok(hf_frozen_release(frozen));
		hf_frozen_destroy(frozen);
		hf_victim_kill(&victim);
	}
}

static void no_register_changes(void **state)
{
	struct hf_victim victim;

	(void)state;
	start(&victim, VICTIM_REGISTERS, "2");
	for (int i = 0; i < hf_test_rounds(40); i++) {
		stop_once(victim.pid);
		hf_test_sleep_ms(3);
	}
	fclose(victim.in);
	victim.in = NULL;
	assert_true(hf_victim_number(&victim, "num_laps") > 10);
	assert_int_equal(hf_victim_number(&victim, "num_wrong"), 0);
	assert_int_equal(hf_victim_end(&victim), 0);
}

/* ---- somebody lets it go ---- */

static pid_t start_tool(pid_t target)
{
	int fds[2];
	char byte;
	pid_t tool;

	assert_int_equal(pipe(fds), 0);
	tool = fork();
	if (tool == 0) {
		struct hf_frozen *frozen;

		assert_hf_ok(stop(target, &frozen));
		if (write(fds[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(fds[1]);
	assert_int_equal(read(fds[0], &byte, 1), 1);
	close(fds[0]);
	return tool;
}

static void a_process_whose_reader_is_killed_runs_on(void **state)
{
	struct hf_victim victim;

	(void)state;
	start(&victim, VICTIM_REGISTERS, "2");
	for (int i = 0; i < hf_test_rounds(10); i++) {
		pid_t tool = start_tool(victim.pid);

		assert_int_equal(hf_test_state(victim.pid), 't');
		kill(tool, SIGKILL);
		assert_int_equal(waitpid(tool, NULL, 0), tool);
		assert_int_equal(hf_test_status_field(victim.pid, "TracerPid",
						      10), 0);
		for (int n = 0; n < 1000 && hf_test_state(victim.pid) == 't';
		     n++)
			hf_test_sleep_ms(1);
		assert_int_not_equal(hf_test_state(victim.pid), 't');
	}
	stop_once(victim.pid);
	fclose(victim.in);
	victim.in = NULL;
	assert_int_equal(hf_victim_number(&victim, "num_wrong"), 0);
	assert_int_equal(hf_victim_end(&victim), 0);
}

static void expect_lapse(pid_t pid, struct hf_frozen *frozen,
			 enum hf_error_code code)
{
	struct hf_error *err;

	/* At once, and not only when the reader gets to it. */
	expect_state(pid, 'S');
	err = hf_frozen_release(frozen);
	assert_non_null(err);
	assert_int_equal(err->code, code);
	hf_error_destroy(err);
	hf_frozen_destroy(frozen);
}

static void the_user_and_the_deadline_let_it_go(void **state)
{
	struct hf_victim victim;

	(void)state;
	start(&victim, VICTIM_BLOCKED_CALLS, NULL);
	for (int i = 0; i < hf_test_rounds(3); i++) {
		volatile sig_atomic_t cancelled = 0;
		struct hf_capture_options options = {
			.pid = victim.pid,
			.mode = HF_CAPTURE_STOP,
			.cancelled = &cancelled,
		};
		struct hf_frozen *frozen;

		assert_hf_ok(hf_capture(&options, &frozen));
		assert_int_equal(hf_test_state(victim.pid), 't');
		cancelled = SIGINT;
		expect_lapse(victim.pid, frozen, HF_ERROR_INTERRUPTED);

		options.cancelled = NULL;
		options.deadline_ns = hf_now_ns() + 300 * 1000 * 1000;
		assert_hf_ok(hf_capture(&options, &frozen));
		assert_int_equal(hf_test_state(victim.pid), 't');
		expect_lapse(victim.pid, frozen, HF_ERROR_TIMEOUT);
	}
	expect_undisturbed(&victim);
}

static void one_that_is_killed_while_it_stands_is_no_snapshot(void **state)
{
	(void)state;
	for (int i = 0; i < hf_test_rounds(5); i++) {
		struct hf_victim victim;
		struct hf_frozen *frozen;
		struct hf_error *err;

		start(&victim, i % 2 ? VICTIM_BLOCKED_CALLS : VICTIM_BUSY,
		      "threads");
		assert_hf_ok(stop(victim.pid, &frozen));
		kill(victim.pid, SIGKILL);
		/* Its parent learns of it although nobody reads or releases:
		 * that is we. */
		assert_int_equal(hf_victim_end(&victim), 1000 + SIGKILL);
		err = hf_frozen_release(frozen);
		assert_non_null(err);
		assert_int_equal(err->code, HF_ERROR_TARGET_GONE);
		hf_error_destroy(err);
		hf_frozen_destroy(frozen);
	}
}

static void signals_that_come_while_it_stands_are_delivered(void **state)
{
	struct hf_victim victim;
	struct hf_frozen *frozen;
	int status;

	(void)state;
	/* A stop signal, then the continuation. */
	start(&victim, VICTIM_BLOCKED_CALLS, NULL);
	assert_hf_ok(stop(victim.pid, &frozen));
	kill(victim.pid, SIGSTOP);
	hf_test_sleep_ms(10);
	assert_int_equal(hf_test_state(victim.pid), 't');
	assert_hf_ok(hf_frozen_release(frozen));
	hf_frozen_destroy(frozen);
	assert_int_equal(waitpid(victim.pid, &status, WUNTRACED), victim.pid);
	assert_true(WIFSTOPPED(status));
	expect_state(victim.pid, 'T');
	/* One that is stopped can be read too, and stays stopped. */
	stop_once(victim.pid);
	expect_state(victim.pid, 'T');
	kill(victim.pid, SIGCONT);
	assert_int_equal(waitpid(victim.pid, &status, WCONTINUED), victim.pid);
	assert_true(WIFCONTINUED(status));
	expect_state(victim.pid, 'S');
	/* One that ends it. */
	assert_hf_ok(stop(victim.pid, &frozen));
	kill(victim.pid, SIGTERM);
	hf_test_sleep_ms(10);
	assert_int_equal(hf_test_state(victim.pid), 't');
	assert_hf_ok(hf_frozen_release(frozen));
	hf_frozen_destroy(frozen);
	assert_int_equal(waitpid(victim.pid, &status, 0), victim.pid);
	assert_true(WIFSIGNALED(status));
	assert_int_equal(WTERMSIG(status), SIGTERM);
	hf_victim_kill(&victim);
}

static void busy_processes_go_on(void **state)
{
	static const char *const modes[] = { "threads", "spawn", "fork",
					     "vfork", "exec", "timers" };

	(void)state;
	for (size_t m = 0; m < sizeof(modes) / sizeof(modes[0]); m++) {
		struct hf_victim victim;
		int num_taken = 0;

		start(&victim, VICTIM_BUSY, modes[m]);
		for (int i = 0; i < hf_test_rounds(10); i++) {
			struct hf_frozen *frozen;
			struct hf_error *err = stop(victim.pid, &frozen);

			if (err) {
				/* It was busy three times, and said so. */
				assert_int_equal(err->code, HF_ERROR_TIMEOUT);
				hf_error_destroy(err);
				continue;
			}
			hf_test_sleep_ms(2);
			assert_hf_ok(hf_frozen_release(frozen));
			hf_frozen_destroy(frozen);
			num_taken++;
		}
		assert_true(num_taken > 0);
		assert_int_equal(hf_victim_end(&victim), 0);
	}
}

/* ---- where a fork is refused ---- */

static void drop_sys_admin(void)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2] = { 0 };

	if (syscall(SYS_capget, &header, data) < 0)
		_exit(SKIPPED);
	data[0].effective &= ~(1u << CAP_SYS_ADMIN);
	data[0].permitted &= ~(1u << CAP_SYS_ADMIN);
	if (syscall(SYS_capset, &header, data) < 0)
		_exit(SKIPPED);
}

/* In a process without the right to suspend seccomp. @return its exit status:
 * 0, or the code of the error. */
static int without_sys_admin(pid_t pid, enum hf_capture_mode mode,
			     bool *advised_ret)
{
	pid_t tool = fork();
	int status;

	if (tool == 0) {
		const struct hf_capture_options options = {
			.pid = pid,
			.mode = mode,
		};
		struct hf_frozen *frozen;
		struct hf_image *image;
		struct hf_error *err;
		size_t num;

		drop_sys_admin();
		err = hf_capture(&options, &frozen);
		if (err)
			_exit((int)err->code |
			      (err->fix && strstr(err->fix, "--mode stop") ?
				       64 : 0));
		err = hf_frozen_open_image(frozen, &image);
		if (err)
			_exit(40);
		hf_image_resident(image, &num);
		hf_image_destroy(image);
		err = hf_frozen_release(frozen);
		_exit(err || num == 0 ? 41 : 0);
	}
	assert_int_equal(waitpid(tool, &status, 0), tool);
	assert_true(WIFEXITED(status));
	if (WEXITSTATUS(status) == SKIPPED)
		skip();
	*advised_ret = WEXITSTATUS(status) & 64;
	return WEXITSTATUS(status) & ~64;
}

static void seccomp_that_forbids_clone_is_no_obstacle(void **state)
{
	static const char *const filters[] = { "errno", "kill", "strict" };

	(void)state;
	for (size_t i = 0; i < sizeof(filters) / sizeof(filters[0]); i++) {
		struct hf_victim victim;
		bool advised;

		start(&victim, VICTIM_CONFINED, filters[i]);
		assert_int_equal(without_sys_admin(victim.pid, HF_CAPTURE_FORK,
						   &advised),
				 HF_ERROR_PERMISSION);
		assert_true(advised);
		assert_int_equal(without_sys_admin(victim.pid, HF_CAPTURE_STOP,
						   &advised), 0);
		hf_victim_tell(&victim, "");
		hf_victim_expect(&victim, "alive");
		assert_int_equal(hf_victim_end(&victim), 0);
	}
}

/* ---- a failure at every step ---- */

struct saboteur {
	enum hf_capture_step step;
	bool reached;
};

static struct hf_error *sabotage(void *arg, enum hf_capture_step step)
{
	struct saboteur *saboteur = arg;

	if (step != saboteur->step)
		return NULL;
	saboteur->reached = true;
	return hf_error_create(HF_ERROR_OS, "sabotaged");
}

static void a_failure_at_any_step_leaves_the_target_as_it_was(void **state)
{
	struct hf_victim victim;
	int num_reached = 0;

	(void)state;
	start(&victim, VICTIM_BLOCKED_CALLS, NULL);
	for (int step = 0; step < HF_NUM_STEPS; step++) {
		struct saboteur saboteur = {
			.step = (enum hf_capture_step)step,
		};
		const struct hf_capture_hooks hooks = {
			.at_step = sabotage,
			.arg = &saboteur,
		};
		const struct hf_capture_options options = {
			.pid = victim.pid,
			.mode = HF_CAPTURE_STOP,
		};
		struct hf_frozen *frozen;
		struct hf_error *err = hf_capture_with_hooks(&options, &hooks,
							     &frozen);

		if (!err) {
			err = hf_frozen_release(frozen);
			hf_frozen_destroy(frozen);
		}
		assert_int_equal(err != NULL, saboteur.reached);
		hf_error_destroy(err);
		num_reached += saboteur.reached;
		assert_int_equal(hf_test_status_field(victim.pid, "TracerPid",
						      10), 0);
		expect_state(victim.pid, 'S');
	}
	/* The first six, and the release. */
	assert_true(num_reached >= 7);
	expect_undisturbed(&victim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			no_blocking_call_returns_and_no_process_is_made),
		cmocka_unit_test(memory_and_registers_are_of_one_instant),
		cmocka_unit_test(reading_it_leaves_no_trace_in_its_memory),
		cmocka_unit_test(no_register_changes),
		cmocka_unit_test(a_process_whose_reader_is_killed_runs_on),
		cmocka_unit_test(the_user_and_the_deadline_let_it_go),
		cmocka_unit_test(
			one_that_is_killed_while_it_stands_is_no_snapshot),
		cmocka_unit_test(
			signals_that_come_while_it_stands_are_delivered),
		cmocka_unit_test(busy_processes_go_on),
		cmocka_unit_test(seccomp_that_forbids_clone_is_no_obstacle),
		cmocka_unit_test(
			a_failure_at_any_step_leaves_the_target_as_it_was),
	};

	hf_test_need_ptrace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
