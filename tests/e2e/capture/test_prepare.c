/* Tests that preparing a process makes huge pages of full blocks, and changes
 * nothing else.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/prepare.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>
#include <linux/capability.h>

#include "coredump/proc_maps.h"
#include "tests/support/capture_check.h"
#include "tests/support/test_main.h"
#include "tests/support/victim.h"
#include "util/file.h"

enum {
	FULL_MIB = 64,
	BLOCK = 2 << 20,
	NUM_FULL = FULL_MIB / 2,
};

struct maps {
	uint64_t full, shared, holes, forbidden; /* where they start */
};

static uint64_t start_of(struct hf_victim *victim, const char *name)
{
	char wanted[32];
	const char *line = hf_victim_line(victim);

	snprintf(wanted, sizeof(wanted), "map %s ", name);
	assert_non_null(line);
	assert_memory_equal(line, wanted, strlen(wanted));
	return strtoull(line + strlen(wanted), NULL, 16);
}

static void read_maps(struct hf_victim *victim, struct maps *ret)
{
	ret->shared = start_of(victim, "shared");
	ret->holes = start_of(victim, "holes");
	ret->forbidden = start_of(victim, "forbidden");
	ret->full = start_of(victim, "full");
	hf_victim_expect(victim, "ready");
}

static void start(struct hf_victim *victim, struct maps *ret)
{
	hf_victim_start(victim, (const char *[]){ VICTIM_SMALL_PAGES, "64",
						  NULL });
	read_maps(victim, ret);
}

/* Of the mapping that has `addr`, from smaps itself. */
static uint64_t huge_bytes(pid_t pid, uint64_t addr)
{
	HF_AUTO(hf_proc_maps) struct hf_proc_maps maps = { 0 };
	HF_AUTO_FREE char *text = NULL;
	char path[64];
	size_t len;

	snprintf(path, sizeof(path), "/proc/%d/smaps", pid);
	assert_hf_ok(hf_read_file(path, &text, &len));
	assert_hf_ok(hf_proc_maps_parse(text, len, &maps));
	for (size_t i = 0; i < maps.num; i++)
		if (maps.data[i].start <= addr && addr < maps.data[i].end)
			return maps.data[i].huge_bytes;
	fail_msg("no mapping has 0x%lx", (unsigned long)addr);
	return 0;
}

/* A kernel or a user that cannot do it has nothing to be tested here. */
static void need_collapse(void)
{
	struct hf_prepare_report report;
	struct hf_victim victim;
	struct hf_error *err;
	struct maps maps;
	int code;

	start(&victim, &maps);
	err = hf_prepare(&(struct hf_prepare_options){ .pid = victim.pid },
			 &report);
	code = err ? (int)err->code : 0;
	hf_victim_kill(&victim);
	if (code == HF_ERROR_UNSUPPORTED || code == HF_ERROR_PERMISSION ||
	    code == HF_ERROR_NO_SPACE) {
		fprintf(stderr, "skipped: %s: %s\n", err->message,
			err->cause ? err->cause : "");
		exit(77);
	}
	hf_error_destroy(err);
}

static void check_prepare(bool no_scan)
{
	struct hf_prepare_options options = { .no_scan = no_scan };
	struct hf_prepare_report report;
	unsigned long long rss;
	struct hf_victim victim;
	struct maps maps;

	start(&victim, &maps);
	options.pid = victim.pid;
	rss = hf_test_status_field(victim.pid, "VmRSS", 10);
	assert_int_equal(huge_bytes(victim.pid, maps.full), 0);

	assert_hf_ok(hf_prepare(&options, &report));
	assert_true(report.complete);
	assert_true(report.small_bytes >= (uint64_t)FULL_MIB << 20);
	/* The kernel may find a page busy. */
	assert_in_range(report.num_blocks, NUM_FULL - 2, NUM_FULL + 8);
	assert_in_range(report.num_refused, 0, 2);
	/* Of the memory shared with the child. */
	assert_true(report.num_not_full >= 4);
	assert_true(report.longest_ns > 0);
	assert_true(report.elapsed_ns >= report.longest_ns);

	assert_in_range(huge_bytes(victim.pid, maps.full),
			(uint64_t)(NUM_FULL - 2) * BLOCK,
			(uint64_t)NUM_FULL * BLOCK);
	assert_int_equal(huge_bytes(victim.pid, maps.holes), 0);
	assert_int_equal(huge_bytes(victim.pid, maps.shared), 0);
	assert_int_equal(huge_bytes(victim.pid, maps.forbidden), 0);
	/* In KiB: a hole that was filled would be 2048 more. */
	assert_in_range(hf_test_status_field(victim.pid, "VmRSS", 10),
			rss > 512 ? rss - 512 : 0, rss + 512);

	/* What is huge already is no work. */
	assert_hf_ok(hf_prepare(&options, &report));
	assert_in_range(report.num_blocks, 0, 2);
	assert_int_equal(hf_victim_end(&victim), 0);
}

static void full_blocks_become_huge_and_nothing_else_does(void **state)
{
	(void)state;
	check_prepare(false);
}

static void a_kernel_without_pagemap_scan_is_no_difference(void **state)
{
	(void)state;
	check_prepare(true);
}

static void a_prepared_process_is_captured_as_any_other(void **state)
{
	struct hf_prepare_report report;
	struct hf_victim victim;
	struct maps maps;

	(void)state;
	start(&victim, &maps);
	assert_hf_ok(hf_prepare(
		&(struct hf_prepare_options){ .pid = victim.pid }, &report));
	hf_test_capture_once(victim.pid);
	assert_int_equal(hf_victim_end(&victim), 0);
}

static void it_stops_where_memory_is_scarce(void **state)
{
	struct hf_prepare_report report;
	struct hf_victim victim;
	struct hf_error *err;
	struct maps maps;

	(void)state;
	start(&victim, &maps);
	err = hf_prepare(&(struct hf_prepare_options){
				 .pid = victim.pid,
				 .keep_free_bytes = INT64_MAX / 2 },
			 &report);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_NO_SPACE);
	assert_non_null(err->cause);
	assert_non_null(err->fix);
	hf_error_destroy(err);
	assert_false(report.complete);
	assert_int_equal(report.num_blocks, 0);
	assert_int_equal(huge_bytes(victim.pid, maps.full), 0);
	assert_int_equal(hf_victim_end(&victim), 0);
}

struct cancel {
	volatile sig_atomic_t flag;
	uint64_t after; /* so many bytes */
};

static void watch(void *arg, const char *phase, uint64_t done, uint64_t total)
{
	struct cancel *cancel = arg;

	assert_string_equal(phase, "prepare");
	assert_true(total >= (uint64_t)FULL_MIB << 20);
	if (done >= cancel->after)
		cancel->flag = SIGINT;
}

static void the_user_may_stop_it_in_the_middle(void **state)
{
	struct cancel cancel = { .after = 3 * BLOCK };
	const struct hf_progress progress = {
		.show = watch, .arg = &cancel, .cancelled = &cancel.flag,
	};
	struct hf_prepare_report report;
	struct hf_victim victim;
	struct hf_error *err;
	struct maps maps;

	(void)state;
	start(&victim, &maps);
	err = hf_prepare(&(struct hf_prepare_options){
				 .pid = victim.pid, .progress = &progress },
			 &report);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_INTERRUPTED);
	hf_error_destroy(err);
	assert_false(report.complete);
	assert_in_range(report.num_blocks, 3, 4);
	assert_int_equal(hf_victim_end(&victim), 0);
}

static void it_is_no_faster_than_asked_and_ends_at_the_deadline(void **state)
{
	const uint64_t rate = 64 << 20; /* 32 blocks a second */
	struct hf_prepare_report report;
	struct hf_victim victim;
	struct hf_error *err;
	struct maps maps;

	(void)state;
	start(&victim, &maps);
	err = hf_prepare(&(struct hf_prepare_options){
				 .pid = victim.pid, .rate_bytes = rate,
				 .deadline_ns = hf_now_ns() + 300000000 },
			 &report);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_TIMEOUT);
	hf_error_destroy(err);
	assert_false(report.complete);
	/* One at once, then one each 1/32 s. */
	assert_in_range(report.num_blocks, 1,
			1 + report.elapsed_ns * 32 / 1000000000);
	assert_int_equal(hf_victim_end(&victim), 0);
}

struct disturb {
	struct hf_victim *victim;
	bool exec; /* or kill */
	bool done;
};

static void disturb(void *arg, const char *phase, uint64_t done,
		    uint64_t total)
{
	struct disturb *how = arg;

	(void)phase;
	(void)total;
	if (how->done || done < 3 * BLOCK)
		return;
	how->done = true;
	if (how->exec) {
		struct maps maps;

		hf_victim_tell(how->victim, "exec");
		read_maps(how->victim, &maps);
	} else {
		kill(how->victim->pid, SIGKILL);
		/* Not waited for: a zombie. */
		while (hf_test_state(how->victim->pid) != 'Z')
			hf_test_sleep_ms(1);
	}
}

static void an_exec_meanwhile_ends_it_and_harms_nobody(void **state)
{
	struct hf_victim victim;
	struct disturb how = { .victim = &victim, .exec = true };
	const struct hf_progress progress = { .show = disturb, .arg = &how };
	struct hf_prepare_report report;
	struct maps maps;

	(void)state;
	start(&victim, &maps);
	hf_error_ignore(hf_prepare(
		&(struct hf_prepare_options){ .pid = victim.pid,
					      .progress = &progress },
		&report));
	assert_true(how.done);
	assert_in_range(report.num_blocks, 3, 4);
	/* The new program checks its memory. */
	assert_int_equal(hf_victim_end(&victim), 0);
}

static void the_process_may_end_meanwhile(void **state)
{
	struct hf_victim victim;
	struct disturb how = { .victim = &victim };
	const struct hf_progress progress = { .show = disturb, .arg = &how };
	struct hf_prepare_report report;
	struct maps maps;

	(void)state;
	start(&victim, &maps);
	hf_error_ignore(hf_prepare(
		&(struct hf_prepare_options){ .pid = victim.pid,
					      .progress = &progress },
		&report));
	assert_true(how.done);
	assert_in_range(report.num_blocks, 3, 4);
	hf_victim_kill(&victim);
}

/* In the calling process, for good. */
static void drop_capability(unsigned int cap)
{
	struct __user_cap_header_struct header = {
		.version = _LINUX_CAPABILITY_VERSION_3,
	};
	struct __user_cap_data_struct data[2];

	if (syscall(SYS_capget, &header, data) < 0)
		_exit(3);
	data[cap / 32].effective &= ~(1u << cap % 32);
	if (syscall(SYS_capset, &header, data) < 0)
		_exit(3);
}

static void without_the_capability_it_says_which(void **state)
{
	struct hf_victim victim;
	struct maps maps;
	int status;
	pid_t pid;

	(void)state;
	start(&victim, &maps);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct hf_prepare_report report;
		struct hf_error *err;

		drop_capability(CAP_SYS_NICE);
		err = hf_prepare(&(struct hf_prepare_options){
					 .pid = victim.pid },
				 &report);
		_exit(!err ? 1 :
		      err->code != HF_ERROR_PERMISSION ||
				      !strstr(err->cause, "CAP_SYS_NICE") ||
				      !err->fix || report.num_blocks ? 2 : 0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(hf_victim_status(status), 0);
	assert_int_equal(huge_bytes(victim.pid, maps.full), 0);
	assert_int_equal(hf_victim_end(&victim), 0);
}

static void a_process_without_its_main_thread_is_left_alone(void **state)
{
	struct hf_prepare_report report;
	struct hf_victim victim;
	struct hf_error *err;
	struct maps maps;

	(void)state;
	start(&victim, &maps);
	hf_victim_tell(&victim, "leave");
	hf_victim_expect(&victim, "left");
	while (hf_test_state(victim.pid) != 'Z')
		hf_test_sleep_ms(1);
	err = hf_prepare(&(struct hf_prepare_options){ .pid = victim.pid },
			 &report);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_UNSUPPORTED);
	assert_non_null(strstr(err->cause, "main thread"));
	hf_error_destroy(err);
	assert_int_equal(report.num_blocks, 0);
	assert_int_equal(hf_victim_end(&victim), 0);
}

static void who_may_not_be_captured_is_not_prepared(void **state)
{
	struct hf_prepare_report report;
	struct hf_error *err;

	(void)state;
	err = hf_prepare(&(struct hf_prepare_options){ .pid = getpid() },
			 &report);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_USAGE);
	hf_error_destroy(err);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(full_blocks_become_huge_and_nothing_else_does),
		cmocka_unit_test(
			a_kernel_without_pagemap_scan_is_no_difference),
		cmocka_unit_test(a_prepared_process_is_captured_as_any_other),
		cmocka_unit_test(it_stops_where_memory_is_scarce),
		cmocka_unit_test(the_user_may_stop_it_in_the_middle),
		cmocka_unit_test(
			it_is_no_faster_than_asked_and_ends_at_the_deadline),
		cmocka_unit_test(an_exec_meanwhile_ends_it_and_harms_nobody),
		cmocka_unit_test(the_process_may_end_meanwhile),
		cmocka_unit_test(without_the_capability_it_says_which),
		cmocka_unit_test(
			a_process_without_its_main_thread_is_left_alone),
		cmocka_unit_test(who_may_not_be_captured_is_not_prepared),
	};

	hf_test_need_ptrace();
	need_collapse();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
