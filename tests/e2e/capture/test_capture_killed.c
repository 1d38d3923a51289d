/* Tests that the target outlives the death of the tool at any instruction.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "fork-agent/proc_task.h"
#include "tests/support/capture_check.h"
#include "tests/support/test_main.h"
#include "tests/support/victim.h"

enum {
	NEVER = -1,
	NUM_SIGNALS = 4,      /* sent to the victim during each capture */
	SETTLE_MS = 10 * 1000,
};

static char journal_dir[] = "/tmp/hf-journal-XXXXXX";

/* ---- a tool that is killed ---- */

static void kill_at(void *arg, uint64_t num)
{
	if ((int64_t)num == *(int64_t *)arg)
		raise(SIGKILL);
}

/* Another process captures and releases. @return its pid. */
static pid_t start_tool(pid_t target, int64_t kill_at_call)
{
	pid_t pid = fork();

	if (pid == 0) {
		const struct hf_capture_hooks hooks = {
			.before_call = kill_at,
			.arg = &kill_at_call,
		};
		const struct hf_capture_options options = {
			.pid = target,
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

/* ---- the survivor ---- */

struct survivor {
	struct hf_victim victim;
	int num_sent, sum_sent;
	int num_threads;
};

static void start_survivor(struct survivor *survivor, const char *spinners,
			   const char *sleepers)
{
	memset(survivor, 0, sizeof(*survivor));
	hf_victim_start(&survivor->victim,
			(const char *[]){ VICTIM_SURVIVOR, spinners, sleepers,
					  NULL });
	hf_victim_expect(&survivor->victim, "ready");
	survivor->num_threads =
		hf_test_num_entries(survivor->victim.pid, "task");
}

static void send_signals(struct survivor *survivor)
{
	for (int i = 0; i < NUM_SIGNALS; i++) {
		union sigval value = { .sival_int = ++survivor->num_sent };

		survivor->sum_sent += value.sival_int;
		assert_int_equal(sigqueue(survivor->victim.pid, SIGRTMIN,
					  value), 0);
		usleep(500);
	}
}

/* Children of the process that are not zombies. */
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
		if (!err && stat.parent == pid && stat.state != 'Z')
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
	assert_int_equal(hf_test_num_zombies(pid), 0);
	assert_int_equal(rmdir(journal_dir), 0);
	assert_int_equal(mkdir(journal_dir, 0700), 0);
}

static void end_survivor(struct survivor *survivor)
{
	struct hf_victim *victim = &survivor->victim;

	capture_and_find_no_zombie(victim->pid);
	fclose(victim->in);
	victim->in = NULL;
	assert_int_equal(hf_victim_number(victim, "num_wrong_registers"), 0);
	assert_int_equal(hf_victim_number(victim, "num_wrong_red_zones"), 0);
	assert_int_equal(hf_victim_number(victim, "num_wrong_masks"), 0);
	assert_int_equal(hf_victim_number(victim, "num_wrong_stacks"), 0);
	assert_int_equal(hf_victim_number(victim, "num_interrupted"), 0);
	assert_int_equal(hf_victim_number(victim, "num_children"), 0);
	assert_int_equal(hf_victim_end(victim), 0);
}

/* Kill at the first call, then `stride` later, ... until a capture is through.
 * Each round begins one call later. */
static void sweep(const char *spinners, const char *sleepers, int stride)
{
	struct survivor survivor;

	start_survivor(&survivor, spinners, sleepers);
	for (int i = 0; i < hf_test_rounds(1); i++) {
		int64_t call = i % stride;
		pid_t tool = start_tool(survivor.victim.pid, call);

		send_signals(&survivor);
		while (wait_for_tool(tool)) {
			check_survivor(&survivor);
			call += stride;
			tool = start_tool(survivor.victim.pid, call);
			send_signals(&survivor);
		}
		/* It was a sweep, and not a hook that is never called. */
		assert_true(call > 20);
	}
	end_survivor(&survivor);
}

static void an_idle_process_goes_on(void **state)
{
	(void)state;
	sweep("0", "1", 1);
}

static void a_busy_process_goes_on(void **state)
{
	(void)state;
	sweep("3", "0", 1);
}

static void a_process_of_one_busy_thread_goes_on(void **state)
{
	(void)state;
	sweep("1", "0", 1);
}

static void a_process_of_many_threads_goes_on(void **state)
{
	(void)state;
	sweep("2", "30", 13);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(an_idle_process_goes_on),
		cmocka_unit_test(a_busy_process_goes_on),
		cmocka_unit_test(a_process_of_one_busy_thread_goes_on),
		cmocka_unit_test(a_process_of_many_threads_goes_on),
	};

	hf_test_need_ptrace();
	if (!mkdtemp(journal_dir))
		return 1;

	int rc = cmocka_run_group_tests(tests, NULL, NULL);

	rmdir(journal_dir);
	return rc;
}
