/* Tests that the target outlives the death of the tool at any instruction.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "fork-agent/proc_task.h"
#include "fork-agent/reap_left.h"
#include "tests/support/capture_check.h"
#include "tests/support/test_main.h"
#include "tests/support/victim.h"
#include "util/file.h"
#include "util/progress.h"

enum {
	NEVER = -1,
	NOW_AND_THEN_US = 3000, /* between two signals */
	WITHOUT_END_US = 100,
	MAX_SOURCE_TIDS = 8,
	MAX_FDS = 256,
	STOP_STRIDE = 3,
	SETTLE_MS = 10 * 1000,
	BLOCKED_STRIDE = 7,
};

static char journal_dir[] = "/tmp/hf-journal-XXXXXX";

/* ---- a tool that is killed ---- */

struct plan {
	int64_t kill_at;      /* call at which the tool is killed */
	int64_t stop_at;      /* at which the target is sent SIGSTOP */
	pid_t target;
};

static void follow_plan(void *arg, uint64_t num)
{
	const struct plan *plan = arg;

	if ((int64_t)num == plan->stop_at)
		kill(plan->target, SIGSTOP);
	if ((int64_t)num == plan->kill_at)
		raise(SIGKILL);
}

/* Another process captures and releases. @return its pid. */
static pid_t start_planned_tool(const struct plan *plan)
{
	pid_t pid = fork();

	if (pid == 0) {
		const struct hf_capture_hooks hooks = {
			.before_call = follow_plan,
			.arg = (void *)plan,
		};
		const struct hf_capture_options options = {
			.pid = plan->target,
			.journal_dir = journal_dir,
		};
		struct hf_frozen *frozen;
		struct hf_error *err =
			hf_capture_with_hooks(&options, &hooks, &frozen);

		if (!err)
			err = hf_frozen_release(frozen);
		if (err)
			fprintf(stderr, "tool: %s\n", err->message);
		_exit(err != NULL);
	}
	return pid;
}

static pid_t start_tool(pid_t target, int64_t kill_at)
{
	const struct plan plan = { kill_at, NEVER, target };

	return start_planned_tool(&plan);
}

/* @return was it killed? The capture of a tool that was not has worked. */
static bool wait_for_tool(pid_t tool)
{
	int status;

	assert_int_equal(waitpid(tool, &status, 0), tool);
	if (WIFSIGNALED(status)) {
		assert_int_equal(WTERMSIG(status), SIGKILL);
		return true;
	}
	assert_int_equal(status, 0);
	return false;
}

/* ---- signals without end, from another process ---- */

struct source {
	pid_t pid;
	_Atomic bool stop;
	long num_sent, sum_sent;
	pid_t tids[MAX_SOURCE_TIDS]; /* that handle them */
	int num_tids;
};

/* Even values to the process, odd ones to its threads, one after the other. */
static int send_signal(struct source *source, pid_t pid, int value)
{
	siginfo_t info = { 0 };

	if (value % 2 == 0)
		return sigqueue(pid, SIGRTMIN,
				(union sigval){ .sival_int = value });
	info.si_code = SI_QUEUE;
	info.si_pid = getpid();
	info.si_uid = getuid();
	info.si_value.sival_int = value;
	return (int)syscall(SYS_rt_tgsigqueueinfo, pid,
			    source->tids[value / 2 % source->num_tids],
			    SIGRTMIN, &info);
}

static void start_source(struct source *source, pid_t pid,
			 useconds_t interval_us)
{
	pid_t source_pid = fork();

	if (source_pid) {
		source->pid = source_pid;
		return;
	}
	/* Else no victim would see the end of its input. */
	for (int fd = STDERR_FILENO + 1; fd < MAX_FDS; fd++)
		close(fd);
	while (!source->stop) {
		int value = (int)source->num_sent + 1;

		if (send_signal(source, pid, value) == 0) {
			source->num_sent++;
			source->sum_sent += value;
		} else if (errno != EAGAIN) {
			_exit(1);
		}
		usleep(interval_us);
	}
	_exit(0);
}

static void end_source(struct source *source)
{
	int status;

	source->stop = true;
	assert_int_equal(waitpid(source->pid, &status, 0), source->pid);
	assert_int_equal(status, 0);
	source->pid = 0;
}

/* ---- the survivor ---- */

struct survivor {
	struct hf_victim victim;
	struct source *source; /* shared with it */
	int num_threads;
};

/* The initial thread comes first, then the spinners. */
static void list_tids(struct source *source, pid_t pid, int num)
{
	pid_t tids[64];
	int n = 0;
	char path[64];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir)) && n < 64)
		if (entry->d_name[0] != '.')
			tids[n++] = (pid_t)atoi(entry->d_name);
	closedir(dir);
	assert_true(num <= n && num <= MAX_SOURCE_TIDS);
	/* The kernel lists them in the order in which they were made. */
	memcpy(source->tids, tids, (size_t)num * sizeof(tids[0]));
	source->num_tids = num;
}

static void start_survivor(struct survivor *survivor, const char *spinners,
			   const char *sleepers, useconds_t interval_us)
{
	const char *witnesses = interval_us == WITHOUT_END_US ? "1" : "0";

	memset(survivor, 0, sizeof(*survivor));
	hf_victim_start(&survivor->victim,
			(const char *[]){ VICTIM_SURVIVOR, spinners, sleepers,
					  witnesses, NULL });
	hf_victim_expect(&survivor->victim, "ready");
	survivor->num_threads =
		hf_test_num_entries(survivor->victim.pid, "task");
	survivor->source = mmap(NULL, sizeof(*survivor->source),
				PROT_READ | PROT_WRITE,
				MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	assert_true(survivor->source != MAP_FAILED);
	list_tids(survivor->source, survivor->victim.pid, 1 + atoi(spinners));
	start_source(survivor->source, survivor->victim.pid, interval_us);
}

/* Children of the process that are not zombies, and not its own. */
static int num_living_children(pid_t pid)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	int n = 0;

	while ((entry = readdir(dir))) {
		struct hf_proc_stat stat;
		struct hf_error *err;
		pid_t other = (pid_t)atoi(entry->d_name);

		if (other <= 0)
			continue;
		err = hf_proc_stat_read(other, 0, &stat);
		if (!err && stat.parent == pid && stat.state != 'Z' &&
		    stat.exit_signal == 0)
			n++;
		hf_error_ignore(err);
	}
	closedir(dir);
	return n;
}

/* What must be so after each death of a tool. */
static void check_victim(struct hf_victim *victim, int num_threads)
{
	int ms = 0;

	while (num_living_children(victim->pid) > 0 && ms++ < SETTLE_MS)
		hf_test_sleep_ms(1);
	assert_true(ms < SETTLE_MS);
	assert_int_equal(hf_test_status_field(victim->pid, "TracerPid", 10),
			 0);
	assert_int_equal(hf_test_num_entries(victim->pid, "task"),
			 num_threads);
}

static void check_survivor(struct survivor *survivor)
{
	check_victim(&survivor->victim, survivor->num_threads);
	hf_victim_tell(&survivor->victim, "check");
	assert_string_equal(hf_victim_line(&survivor->victim), "moving");
}

/* Those of tools that were killed before the fork are kept for a while, and so
 * are those that were not even begun properly. */
static void forget_records(void)
{
	char command[96];

	snprintf(command, sizeof(command), "rm -f %s/record-* %s/new-*",
		 journal_dir, journal_dir);
	assert_int_equal(system(command), 0);
}

/* A run that is not killed, after many that were. */
static void capture_and_find_no_zombie(pid_t pid)
{
	const struct hf_capture_options options = {
		.pid = pid,
		.journal_dir = journal_dir,
	};
	struct hf_frozen *frozen;

	assert_hf_ok(hf_capture(&options, &frozen));
	assert_hf_ok(hf_frozen_release(frozen));
	assert_int_equal(hf_frozen_report(frozen)->way_home,
			 HF_WAY_HOME_FULL);
	assert_true(hf_frozen_report(frozen)->journaled);
	assert_true(hf_frozen_report(frozen)->reaped);
	hf_frozen_destroy(frozen);
	/* A thread of a busy machine may have gone home, by way of the fork,
	 * only after that. */
	for (int i = 0; i < 100 && hf_test_num_zombies(pid) > 0; i++) {
		const struct hf_reap_left_options left = {
			.pid = pid,
			.journal_dir = journal_dir,
		};
		struct hf_reap_left_result result;

		assert_hf_ok(hf_reap_left(&left, &result));
		hf_test_sleep_ms(20);
	}
	assert_int_equal(hf_test_num_zombies(pid), 0);
	forget_records();
}

static void end_survivor(struct survivor *survivor)
{
	struct hf_victim *victim = &survivor->victim;
	struct source *source = survivor->source;

	end_source(source);
	capture_and_find_no_zombie(victim->pid);
	fclose(victim->in);
	victim->in = NULL;
	assert_int_equal(hf_victim_number(victim, "num_wrong_registers"), 0);
	assert_int_equal(hf_victim_number(victim, "num_wrong_red_zones"), 0);
	assert_int_equal(hf_victim_number(victim, "num_wrong_masks"), 0);
	assert_int_equal(hf_victim_number(victim, "num_wrong_stacks"), 0);
	assert_int_equal(hf_victim_number(victim, "num_interrupted"), 0);
	assert_int_equal(hf_victim_number(victim, "num_children"), 0);
	assert_true(source->num_sent > 0);
	assert_int_equal(hf_victim_number(victim, "num_handled"),
			 source->num_sent);
	assert_int_equal(hf_victim_number(victim, "sum_handled"),
			 source->sum_sent);
	assert_int_equal(hf_victim_number(victim, "num_twice"), 0);
	assert_int_equal(hf_victim_number(victim, "num_disordered"), 0);
	assert_int_equal(hf_victim_number(victim, "num_wrong_origins"), 0);
	assert_int_equal(hf_victim_number(victim, "num_wrong_pings"), 0);
	assert_int_equal(hf_victim_end(victim), 0);
	munmap(source, sizeof(*source));
}

/* Kill at the first call, then `stride` later, ... until a capture is through.
 * Each round begins one call later. */
static void sweep(const char *spinners, const char *sleepers, int stride,
		  useconds_t interval_us)
{
	struct survivor survivor;

	start_survivor(&survivor, spinners, sleepers, interval_us);
	for (int i = 0; i < hf_test_rounds(1); i++) {
		int64_t call = i % stride;

		while (wait_for_tool(start_tool(survivor.victim.pid, call))) {
			check_survivor(&survivor);
			call += stride;
		}
		/* It was a sweep, and not a hook that is never called. */
		assert_true(call > 20);
	}
	end_survivor(&survivor);
}

static void an_idle_process_goes_on(void **state)
{
	(void)state;
	sweep("0", "1", 1, NOW_AND_THEN_US);
}

static void a_busy_process_goes_on(void **state)
{
	(void)state;
	sweep("3", "0", 1, WITHOUT_END_US);
}

static void a_process_of_one_busy_thread_goes_on(void **state)
{
	(void)state;
	sweep("1", "0", 1, WITHOUT_END_US);
}

static void a_process_of_many_threads_goes_on(void **state)
{
	(void)state;
	sweep("2", "30", 13, WITHOUT_END_US);
}

/* From outside, at any instruction: also between the calls that are counted,
 * and while an earlier zombie is being reaped. */
static void a_process_goes_on_when_the_tool_is_killed_at_any_time(void **state)
{
	const int rounds = hf_test_rounds(30);
	struct survivor survivor;
	uint64_t start, took_us;
	int num_killed = 0;

	(void)state;
	start_survivor(&survivor, "2", "6", WITHOUT_END_US);
	start = hf_now_ns();
	assert_false(wait_for_tool(start_tool(survivor.victim.pid, NEVER)));
	took_us = (hf_now_ns() - start) / 1000 + 1;
	srand(1);
	for (int i = 0; i < rounds; i++) {
		pid_t tool = start_tool(survivor.victim.pid, NEVER);

		usleep((useconds_t)((uint64_t)rand() % took_us));
		kill(tool, SIGKILL);
		num_killed += wait_for_tool(tool);
		check_survivor(&survivor);
	}
	assert_true(num_killed > rounds / 4);
	end_survivor(&survivor);
}

/* ---- job control ---- */

static bool all_stopped(pid_t pid)
{
	char path[64];
	struct dirent *entry;
	bool all = true;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir)))
		if (entry->d_name[0] != '.' &&
		    hf_test_state((pid_t)atoi(entry->d_name)) != 'T')
			all = false;
	closedir(dir);
	return all;
}

/* The stop comes some calls before the death: while the threads run yet, while
 * they are waited for, and while one is borrowed. */
static void a_stop_by_job_control_outlives_the_tool(void **state)
{
	static const int distances[] = { 0, 1, 2, 6, 15, 40 };
	const int num_distances = sizeof(distances) / sizeof(distances[0]);
	struct survivor survivor;
	pid_t pid;
	int64_t call = 0;
	bool was_killed;
	int round = 0;

	(void)state;
	start_survivor(&survivor, "1", "1", WITHOUT_END_US);
	pid = survivor.victim.pid;
	do {
		struct plan plan = { .kill_at = call, .target = pid };
		int ms = 0;

		plan.stop_at = call - distances[round++ % num_distances];
		if (plan.stop_at < 0)
			plan.stop_at = 0;
		was_killed = wait_for_tool(start_planned_tool(&plan));
		if (!was_killed) /* it has not come to that call */
			kill(pid, SIGSTOP);
		while (!all_stopped(pid) && ms++ < SETTLE_MS)
			hf_test_sleep_ms(1);
		assert_true(ms < SETTLE_MS);
		kill(pid, SIGCONT);
		check_survivor(&survivor);
		call += hf_test_rounds(1) > 1 ? 1 : STOP_STRIDE;
	} while (was_killed);
	assert_true(call > 20);
	end_survivor(&survivor);
}

/* ---- blocked calls ---- */

/* Calls that no tracer's end spares: see docs/capture-safety.md. */
static bool may_be_interrupted(const char *name)
{
	static const char *const names[] = {
		"epoll", "epoll_timeout", "epoll_pwait2", "io_getevents",
		"recv_timeout", "accept_timeout", "semop", "semtimedop",
		"sigtimedwait", "sigwaitinfo",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i]))
			return true;
	return false;
}

static void only_calls_that_ptrace_interrupts_are_interrupted(void **state)
{
	struct hf_victim victim;
	int num_threads, num_returned = 0;
	const char *line;
	pid_t tool;

	(void)state;
	hf_victim_start(&victim,
			(const char *[]){ VICTIM_BLOCKED_CALLS, NULL });
	hf_victim_expect(&victim, "ready");
	num_threads = hf_test_num_entries(victim.pid, "task");
	for (int i = 0; i < hf_test_rounds(1); i++) {
		int64_t call = i % BLOCKED_STRIDE;

		tool = start_tool(victim.pid, call);
		while (wait_for_tool(tool)) {
			check_victim(&victim, num_threads);
			call += BLOCKED_STRIDE;
			tool = start_tool(victim.pid, call);
		}
		assert_true(call > 100);
	}
	capture_and_find_no_zombie(victim.pid);
	fclose(victim.in);
	victim.in = NULL;
	while ((line = hf_victim_line(&victim)) &&
	       strncmp(line, "num_returned", 12) != 0) {
		char name[32], error[64];
		long result;

		assert_int_equal(sscanf(line, "returned %31s %ld %63[^\n]",
					name, &result, error), 3);
		assert_string_equal(error, strerror(EINTR));
		if (!may_be_interrupted(name))
			fail_msg("%s was interrupted", name);
		num_returned++;
	}
	/* Else the tool did not die while it held them. */
	assert_true(num_returned > 0);
	assert_int_equal(hf_victim_number(&victim, "num_handled"), 0);
	assert_int_equal(hf_victim_end(&victim), 0);
}

/* ---- stacks ---- */

static void start_nested(struct hf_victim *victim, const char *num_threads)
{
	hf_victim_start(victim,
			(const char *[]){ VICTIM_NESTED, num_threads, NULL });
	hf_victim_expect(victim, "ready");
	hf_test_sleep_ms(20);
}

static void end_nested(struct hf_victim *victim)
{
	fclose(victim->in);
	victim->in = NULL;
	hf_victim_expect(victim, "intact");
	assert_int_equal(hf_victim_end(victim), 0);
}

/* Below a handler's stack that is an array of the thread's own, that is alive:
 * the way is laid for another thread. */
static void what_is_below_an_alternate_stack_is_left_alone(void **state)
{
	struct hf_victim victim;
	int num_threads;
	pid_t tool;

	(void)state;
	start_nested(&victim, "1");
	num_threads = hf_test_num_entries(victim.pid, "task");
	for (int64_t call = 0;; call++) {
		bool killed;

		tool = start_tool(victim.pid, call);
		killed = wait_for_tool(tool);
		check_victim(&victim, num_threads);
		hf_victim_tell(&victim, "look");
		assert_string_equal(hf_victim_line(&victim), "intact");
		if (!killed) {
			assert_true(call > 20);
			break;
		}
	}
	capture_and_find_no_zombie(victim.pid);
	end_nested(&victim);
}

static void a_thread_on_such_a_stack_has_no_way(void **state)
{
	struct hf_victim victim;
	struct hf_frozen *frozen;
	struct hf_capture_options options = { .journal_dir = journal_dir };

	(void)state;
	start_nested(&victim, "0");
	options.pid = victim.pid;
	assert_hf_ok(hf_capture(&options, &frozen));
	assert_int_equal(hf_frozen_report(frozen)->way_home,
			 HF_WAY_HOME_NO_STACK);
	assert_hf_ok(hf_frozen_release(frozen));
	hf_frozen_destroy(frozen);
	hf_victim_tell(&victim, "look");
	assert_string_equal(hf_victim_line(&victim), "intact");
	end_nested(&victim);
}

/* Without a way home the thread may come to harm in the pause. The child is
 * not to run a line of the program all the same. */
static void a_child_without_a_way_home_runs_nothing(void **state)
{
	bool killed = true;

	(void)state;
	for (int64_t call = 0; killed; call++) {
		struct hf_victim victim;
		const char *line;
		int ms = 0;

		start_nested(&victim, "0");
		killed = wait_for_tool(start_tool(victim.pid, call));
		while (num_living_children(victim.pid) > 0 &&
		       ms++ < SETTLE_MS)
			hf_test_sleep_ms(1);
		assert_true(ms < SETTLE_MS);
		fclose(victim.in);
		victim.in = NULL;
		while ((line = hf_victim_line(&victim)))
			assert_string_not_equal(line, "copy");
		hf_victim_kill(&victim);
		assert_true(killed || call > 20);
	}
	forget_records();
}

/* ---- what is left ---- */

static void a_zombie_without_a_record_is_reaped_on_request_only(void **state)
{
	struct hf_reap_left_options options = { .journal_dir = journal_dir };
	struct hf_reap_left_result result;
	struct survivor survivor;
	uint32_t num;

	(void)state;
	start_survivor(&survivor, "0", "2", NOW_AND_THEN_US);
	options.pid = survivor.victim.pid;
	while (hf_test_num_zombies(survivor.victim.pid) == 0) {
		static int64_t call = 20;

		assert_true(wait_for_tool(start_tool(survivor.victim.pid,
						     call++)));
		check_survivor(&survivor);
	}
	assert_hf_ok(hf_reap_left_count(survivor.victim.pid, &num));
	assert_int_equal(num, 1);
	forget_records();
	assert_hf_ok(hf_reap_left(&options, &result));
	assert_int_equal(result.num_records, 0);
	assert_int_equal(hf_test_num_zombies(survivor.victim.pid), 1);
	options.unrecorded = true;
	assert_hf_ok(hf_reap_left(&options, &result));
	assert_int_equal(result.num_reaped, 1);
	assert_true(result.pause_ns > 0);
	assert_int_equal(hf_test_num_zombies(survivor.victim.pid), 0);
	end_survivor(&survivor);
}

/* A helper without an exit signal, as some programs make them. */
static void wait_for_own_helper(int ready_fd)
{
	pid_t helper = (pid_t)syscall(SYS_clone, 0, 0, 0, 0, 0);
	siginfo_t info;
	int status;

	if (helper == 0)
		_exit(7);
	waitid(P_PID, (id_t)helper, &info, WEXITED | WNOWAIT | __WALL);
	if (write(ready_fd, "", 1) != 1)
		_exit(1);
	raise(SIGSTOP);
	_exit(waitpid(helper, &status, __WALL) == helper &&
	      WEXITSTATUS(status) == 7 ? 0 : 2);
}

static void a_child_of_the_targets_own_is_left_to_it(void **state)
{
	struct hf_reap_left_options options = {
		.journal_dir = journal_dir,
		.unrecorded = true,
	};
	struct hf_reap_left_result result;
	int fds[2], status;
	char byte;

	(void)state;
	assert_int_equal(pipe(fds), 0);
	options.pid = fork();
	if (options.pid == 0)
		wait_for_own_helper(fds[1]);
	assert_int_equal(read(fds[0], &byte, 1), 1);
	assert_int_equal(waitpid(options.pid, &status, WUNTRACED),
			 options.pid);
	assert_hf_ok(hf_reap_left(&options, &result));
	assert_int_equal(result.num_reaped, 0);
	kill(options.pid, SIGCONT);
	assert_int_equal(waitpid(options.pid, &status, 0), options.pid);
	assert_int_equal(status, 0);
	close(fds[0]);
	close(fds[1]);
}

static void a_record_is_kept_as_long_as_its_tool_lives(void **state)
{
	const struct hf_reap_left_options left = {
		.journal_dir = journal_dir,
	};
	struct hf_capture_options options = { .journal_dir = journal_dir };
	struct hf_reap_left_result result;
	struct survivor survivor;
	struct hf_frozen *frozen;

	(void)state;
	start_survivor(&survivor, "1", "1", NOW_AND_THEN_US);
	options.pid = survivor.victim.pid;
	assert_hf_ok(hf_capture(&options, &frozen));
	/* Even if its child is dead already. */
	kill(hf_frozen_pid(frozen), SIGKILL);
	hf_test_sleep_ms(20);
	assert_hf_ok(hf_reap_left(&left, &result));
	assert_int_equal(result.num_records, 0);
	assert_int_equal(hf_test_num_zombies(options.pid), 1);
	assert_hf_ok(hf_frozen_release(frozen));
	assert_int_equal(hf_test_num_zombies(options.pid), 0);
	hf_frozen_destroy(frozen);
	end_survivor(&survivor);
}

static void what_was_left_to_another_process_stays(void **state)
{
	const sig_atomic_t cancelled = 1;
	struct hf_reap_left_options left = { .journal_dir = journal_dir };
	struct hf_capture_options options = { .journal_dir = journal_dir };
	struct hf_reap_left_result result;
	struct survivor survivor, other;
	struct hf_frozen *frozen;

	(void)state;
	start_survivor(&survivor, "0", "1", NOW_AND_THEN_US);
	start_survivor(&other, "0", "1", NOW_AND_THEN_US);
	for (int64_t call = 20; hf_test_num_zombies(other.victim.pid) == 0;
	     call++) {
		assert_true(wait_for_tool(start_tool(other.victim.pid,
						     call)));
		check_survivor(&other);
	}
	options.pid = survivor.victim.pid;
	assert_hf_ok(hf_capture(&options, &frozen));
	assert_hf_ok(hf_frozen_release(frozen));
	hf_frozen_destroy(frozen);
	assert_int_equal(hf_test_num_zombies(other.victim.pid), 1);
	/* Nor is it reaped when there is no time for it. */
	left.pid = other.victim.pid;
	left.limit.cancelled = &cancelled;
	hf_error_ignore(hf_reap_left(&left, &result));
	assert_int_equal(result.num_reaped, 0);
	left.limit.cancelled = NULL;
	assert_hf_ok(hf_reap_left(&left, &result));
	assert_int_equal(result.num_reaped, 1);
	end_survivor(&survivor);
	end_survivor(&other);
}

/* Nothing can have been left behind, so nothing is looked for. */
static void a_record_of_a_tool_that_stopped_nobody_is_removed(void **state)
{
	struct hf_reap_left_options left = { .journal_dir = journal_dir };
	struct hf_reap_left_result result;
	struct survivor survivor;

	(void)state;
	start_survivor(&survivor, "0", "1", NOW_AND_THEN_US);
	assert_true(wait_for_tool(start_tool(survivor.victim.pid, 0)));
	left.pid = survivor.victim.pid;
	assert_hf_ok(hf_reap_left(&left, &result));
	assert_int_equal(result.num_records, 1);
	assert_int_equal(rmdir(journal_dir), 0);
	assert_int_equal(mkdir(journal_dir, 0700), 0);
	end_survivor(&survivor);
}

static void a_record_of_a_dead_target_is_removed(void **state)
{
	const struct hf_reap_left_options left = {
		.journal_dir = journal_dir,
	};
	struct hf_reap_left_result result;
	struct survivor survivor;

	(void)state;
	start_survivor(&survivor, "0", "1", NOW_AND_THEN_US);
	assert_true(wait_for_tool(start_tool(survivor.victim.pid, 20)));
	end_source(survivor.source);
	hf_victim_kill(&survivor.victim);
	assert_hf_ok(hf_reap_left(&left, &result));
	assert_int_equal(result.num_records, 1);
	assert_int_equal(result.num_reaped, 0);
	assert_int_equal(rmdir(journal_dir), 0);
	assert_int_equal(mkdir(journal_dir, 0700), 0);
}

/* ---- a capture that is not killed ---- */

/* The whole stack of the initial thread. */
static uint8_t *read_stack(pid_t pid, uint64_t *start_ret, size_t *len_ret)
{
	HF_AUTO_FREE char *text = NULL;
	unsigned long start, end;
	char path[64], *line;
	uint8_t *bytes;
	int fd;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	assert_hf_ok(hf_read_file(path, &text, NULL));
	line = strstr(text, "[stack]");
	assert_non_null(line);
	while (line > text && line[-1] != '\n')
		line--;
	assert_int_equal(sscanf(line, "%lx-%lx", &start, &end), 2);
	bytes = malloc(end - start);
	snprintf(path, sizeof(path), "/proc/%d/mem", pid);
	fd = open(path, O_RDONLY);
	assert_int_equal(pread(fd, bytes, end - start, (off_t)start),
			 end - start);
	close(fd);
	*start_ret = start;
	*len_ret = end - start;
	return bytes;
}

static void no_byte_is_changed_in_the_target_nor_in_the_image(void **state)
{
	struct hf_victim victim;

	(void)state;
	hf_victim_start(&victim, (const char *[]){ VICTIM_SURVIVOR, "0", "0",
						   NULL });
	hf_victim_expect(&victim, "ready");
	hf_test_sleep_ms(20);
	for (int i = 0; i < hf_test_rounds(5); i++) {
		const struct hf_capture_options options = {
			.pid = victim.pid,
			.journal_dir = journal_dir,
		};
		uint64_t start, start_after, start_child;
		size_t len, len_after, len_child;
		struct hf_frozen *frozen;
		uint8_t *before, *after, *child;

		before = read_stack(victim.pid, &start, &len);
		assert_hf_ok(hf_capture(&options, &frozen));
		assert_int_equal(hf_frozen_report(frozen)->way_home,
				 HF_WAY_HOME_FULL);
		child = read_stack(hf_frozen_pid(frozen), &start_child,
				   &len_child);
		assert_hf_ok(hf_frozen_release(frozen));
		hf_frozen_destroy(frozen);
		after = read_stack(victim.pid, &start_after, &len_after);
		assert_int_equal(start, start_after);
		assert_int_equal(start, start_child);
		assert_int_equal(len, len_after);
		assert_int_equal(len, len_child);
		assert_memory_equal(before, after, len);
		assert_memory_equal(before, child, len);
		free(before);
		free(after);
		free(child);
	}
	assert_int_equal(hf_victim_end(&victim), 0);
}

/* To measure is to walk its memory; it goes at once. */
static void the_child_of_a_cancelled_capture_is_not_measured(void **state)
{
	struct survivor survivor;

	(void)state;
	start_survivor(&survivor, "1", "1", NOW_AND_THEN_US);
	for (int i = 0; i < 2; i++) {
		sig_atomic_t cancelled = 0;
		const struct hf_capture_options options = {
			.pid = survivor.victim.pid,
			.journal_dir = journal_dir,
			.cancelled = &cancelled,
		};
		const struct hf_capture_report *report;
		struct hf_frozen *frozen;

		assert_hf_ok(hf_capture(&options, &frozen));
		cancelled = i;
		assert_hf_ok(hf_frozen_release(frozen));
		report = hf_frozen_report(frozen);
		assert_int_equal(report->cow_pages == UINT64_MAX, cancelled);
		assert_true(report->reaped);
		hf_frozen_destroy(frozen);
	}
	end_survivor(&survivor);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_idle_process_goes_on),
		cmocka_unit_test(a_busy_process_goes_on),
		cmocka_unit_test(a_process_of_one_busy_thread_goes_on),
		cmocka_unit_test(a_process_of_many_threads_goes_on),
		cmocka_unit_test(
			a_process_goes_on_when_the_tool_is_killed_at_any_time),
		cmocka_unit_test(a_stop_by_job_control_outlives_the_tool),
		cmocka_unit_test(
			only_calls_that_ptrace_interrupts_are_interrupted),
		cmocka_unit_test(
			what_is_below_an_alternate_stack_is_left_alone),
		cmocka_unit_test(a_thread_on_such_a_stack_has_no_way),
		cmocka_unit_test(a_child_without_a_way_home_runs_nothing),
		cmocka_unit_test(
			a_zombie_without_a_record_is_reaped_on_request_only),
		cmocka_unit_test(a_child_of_the_targets_own_is_left_to_it),
		cmocka_unit_test(a_record_is_kept_as_long_as_its_tool_lives),
		cmocka_unit_test(what_was_left_to_another_process_stays),
		cmocka_unit_test(
			a_record_of_a_tool_that_stopped_nobody_is_removed),
		cmocka_unit_test(a_record_of_a_dead_target_is_removed),
		cmocka_unit_test(
			no_byte_is_changed_in_the_target_nor_in_the_image),
		cmocka_unit_test(
			the_child_of_a_cancelled_capture_is_not_measured),
	};
	const struct rlimit no_core = { 0, 0 };

	hf_test_need_ptrace();
	setrlimit(RLIMIT_CORE, &no_core);
	if (!mkdtemp(journal_dir))
		return 1;

	int rc = cmocka_run_group_tests(tests, NULL, NULL);

	rmdir(journal_dir);
	return rc;
}
