/* Tests that the child goes before its target is short of memory.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "fork-agent/cgroup_path.h"
#include "fork-agent/copy_out.h"
#include "tests/support/capture_check.h"
#include "tests/support/test_main.h"
#include "tests/support/victim.h"
#include "util/file.h"

enum { LIMIT_MS = 20 * 1000 };

/* A /proc with nothing but the machine's memory. */
static void tell_memory(const char *proc, int available_mib)
{
	char path[96], next[96];
	FILE *file;

	snprintf(path, sizeof(path), "%s/meminfo", proc);
	snprintf(next, sizeof(next), "%s/next", proc);
	file = fopen(next, "w");
	assert_non_null(file);
	fprintf(file, "MemTotal: 10485760 kB\nMemAvailable: %d kB\n",
		available_mib << 10);
	fclose(file);
	assert_int_equal(rename(next, path), 0);
}

static void make_proc(char proc[64], int available_mib)
{
	strcpy(proc, "/tmp/hf-watch-XXXXXX");
	assert_non_null(mkdtemp(proc));
	tell_memory(proc, available_mib);
}

static void remove_proc(const char *proc)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/meminfo", proc);
	unlink(path);
	rmdir(proc);
}

static void end_writer(struct hf_victim *victim)
{
	hf_victim_tell(victim, "end");
	assert_int_equal(hf_victim_number(victim, "wrong"), 0);
	assert_int_equal(hf_victim_end(victim), 0);
}

/* @return the error with which the child was given up. */
static struct hf_error *wait_for_end(const struct hf_frozen *frozen)
{
	struct hf_error *err = NULL;

	for (int i = 0; i < LIMIT_MS && !err; i++) {
		err = hf_frozen_check(frozen);
		hf_test_sleep_ms(1);
	}
	assert_non_null(err);
	return err;
}

static void check_given_up(struct hf_frozen *frozen, struct hf_image *image,
			   uint64_t addr, pid_t child)
{
	struct hf_copy_report copy;
	const struct hf_copy_options options = { .way = HF_COPY_AUTO };
	struct hf_error *err = wait_for_end(frozen);
	uint64_t word;

	assert_int_equal(err->code, HF_ERROR_NO_SPACE);
	assert_non_null(strstr(err->message, "given up"));
	assert_non_null(err->cause);
	assert_non_null(strstr(err->fix, "--keep-memory-free"));
	hf_error_destroy(err);
	/* What is read now is nothing, and a copy does not pretend. */
	for (int i = 0; i < LIMIT_MS && hf_test_state(child); i++)
		hf_test_sleep_ms(1);
	assert_int_equal(hf_test_state(child), 0);
	assert_false(hf_image_peek_u64(image, addr, &word));
	err = hf_copy_out(frozen, image, &options, &copy);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_NO_SPACE);
	hf_error_destroy(err);
	hf_image_destroy(image);

	err = hf_frozen_release(frozen);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_NO_SPACE);
	hf_error_destroy(err);
	assert_true(hf_frozen_report(frozen)->reaped);
	assert_hf_ok(hf_frozen_release(frozen));
}

static void a_child_that_costs_too_much_is_given_up(void **state)
{
	struct hf_capture_hooks hooks = { 0 };
	struct hf_capture_options options = { 0 };
	struct hf_victim victim;
	struct hf_frozen *frozen;
	struct hf_image *image;
	uint64_t addr, word;
	char proc[64];
	pid_t child;

	(void)state;
	make_proc(proc, 9000);
	hooks.proc = proc;
	hf_victim_start(&victim, (const char *[]){ VICTIM_WRITER, "16", NULL });
	addr = (uint64_t)hf_victim_number(&victim, "memory");
	hf_victim_expect(&victim, "ready");
	options.pid = victim.pid;
	options.keep_free_bytes = 100 << 20;
	assert_hf_ok(hf_capture_with_hooks(&options, &hooks, &frozen));
	child = hf_frozen_pid(frozen);
	assert_hf_ok(hf_frozen_open_image(frozen, &image));
	hf_victim_tell(&victim, "storm");
	hf_victim_expect(&victim, "storming");

	/* Enough, for several looks. */
	tell_memory(proc, 101);
	hf_test_sleep_ms(200);
	assert_hf_ok(hf_frozen_check(frozen));
	assert_true(hf_image_peek_u64(image, addr + 4096, &word));
	assert_int_equal(word, 1);
	tell_memory(proc, 99);
	check_given_up(frozen, image, addr, child);
	hf_frozen_destroy(frozen);
	assert_int_equal(hf_test_num_zombies(victim.pid), 0);
	hf_victim_tell(&victim, "calm");
	assert_true(hf_victim_number(&victim, "laps") >= 0);
	end_writer(&victim);
	remove_proc(proc);
}

static void a_child_that_is_killed_is_not_read_as_empty(void **state)
{
	const struct hf_copy_options options = { .way = HF_COPY_AUTO };
	struct hf_copy_report copy;
	struct hf_victim victim;
	struct hf_frozen *frozen;
	struct hf_image *image;
	struct hf_error *err;

	(void)state;
	hf_victim_start(&victim, (const char *[]){ VICTIM_WRITER, "16", NULL });
	hf_victim_expect(&victim, "ready");
	assert_hf_ok(hf_test_capture(victim.pid, &frozen));
	assert_hf_ok(hf_frozen_open_image(frozen, &image));
	assert_hf_ok(hf_frozen_check(frozen));
	/* As the OOM killer would. */
	kill(hf_frozen_pid(frozen), SIGKILL);
	err = wait_for_end(frozen);
	assert_int_equal(err->code, HF_ERROR_NO_SPACE);
	assert_non_null(strstr(err->message, "was killed"));
	hf_error_destroy(err);
	err = hf_copy_out(frozen, image, &options, &copy);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_NO_SPACE);
	hf_error_destroy(err);
	hf_image_destroy(image);
	assert_hf_ok(hf_frozen_release(frozen));
	hf_frozen_destroy(frozen);
	assert_int_equal(hf_test_num_zombies(victim.pid), 0);
	end_writer(&victim);
}

static void count_step(int *num, enum hf_capture_step step)
{
	if (step != HF_STEP_CHECKED)
		(*num)++;
}

static struct hf_error *at_step(void *arg, enum hf_capture_step step)
{
	count_step(arg, step);
	return NULL;
}

static void without_memory_for_page_tables_nothing_is_forked(void **state)
{
	int num_steps = 0;
	struct hf_capture_hooks hooks = { .at_step = at_step,
					  .arg = &num_steps };
	struct hf_capture_options options = { 0 };
	struct hf_victim victim;
	struct hf_frozen *frozen;
	struct hf_error *err;
	char proc[64];

	(void)state;
	make_proc(proc, 64);
	hooks.proc = proc;
	hf_victim_start(&victim, (const char *[]){ VICTIM_WRITER, "16", NULL });
	hf_victim_expect(&victim, "ready");
	options.pid = victim.pid;
	options.keep_free_bytes = 64 << 20; /* but no page table */
	err = hf_capture_with_hooks(&options, &hooks, &frozen);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_NO_SPACE);
	assert_non_null(strstr(err->cause, "page tables"));
	hf_error_destroy(err);
	assert_int_equal(num_steps, 0);
	/* With a little less to keep it works. */
	options.keep_free_bytes = 60 << 20;
	assert_hf_ok(hf_capture_with_hooks(&options, &hooks, &frozen));
	assert_hf_ok(hf_frozen_release(frozen));
	hf_frozen_destroy(frozen);
	end_writer(&victim);
	remove_proc(proc);
}

/* A cgroup of our own below the one we are in, with a limit. */
struct cgroup {
	char dir[512];
	enum hf_cgroup_version version;
};

static bool write_number(const struct cgroup *cgroup, const char *name,
			 uint64_t number)
{
	char path[600];
	FILE *file;
	bool ok;

	snprintf(path, sizeof(path), "%s/%s", cgroup->dir, name);
	file = fopen(path, "w");
	if (!file)
		return false;
	fprintf(file, "%llu\n", (unsigned long long)number);
	ok = !ferror(file);
	return fclose(file) == 0 && ok;
}

static bool make_cgroup(struct cgroup *cgroup, uint64_t limit)
{
	static const char *const limits[] = {
		[HF_CGROUP_V1] = "memory.limit_in_bytes",
		[HF_CGROUP_V2] = "memory.max",
	};
	HF_AUTO_FREE char *text = NULL, *mountinfo = NULL;

	assert_hf_ok(hf_read_file("/proc/self/cgroup", &text, NULL));
	assert_hf_ok(hf_read_file("/proc/self/mountinfo", &mountinfo, NULL));
	for (int version = HF_CGROUP_V1; version <= HF_CGROUP_V2; version++) {
		struct hf_cgroup_path path;
		struct hf_error *err = hf_cgroup_path_find(
			text, mountinfo, (enum hf_cgroup_version)version,
			&path);

		if (err) {
			hf_error_destroy(err);
			continue;
		}
		snprintf(cgroup->dir, sizeof(cgroup->dir), "%s/hf-watch-%d",
			 path.dir, (int)getpid());
		free(path.dir);
		cgroup->version = (enum hf_cgroup_version)version;
		if (mkdir(cgroup->dir, 0700))
			continue;
		if (write_number(cgroup, limits[version], limit))
			return true;
		rmdir(cgroup->dir);
	}
	return false;
}

static void a_real_limit_is_kept_without_a_kill(void **state)
{
	struct hf_capture_options options = { 0 };
	struct cgroup cgroup;
	struct hf_victim victim;
	struct hf_frozen *frozen;
	struct hf_image *image;
	char procs[600];
	uint64_t addr;
	pid_t child;

	(void)state;
	/* 64 MiB of its own, and no room for as much again. */
	if (!make_cgroup(&cgroup, UINT64_C(104) << 20)) {
		print_message("no right to make a cgroup with a limit\n");
		skip();
	}
	snprintf(procs, sizeof(procs), "%s/cgroup.procs", cgroup.dir);
	hf_victim_start(&victim, (const char *[]){
		"/bin/sh", "-c", "echo $$ >\"$0\" && exec \"$1\" 64", procs,
		VICTIM_WRITER, NULL });
	addr = (uint64_t)hf_victim_number(&victim, "memory");
	hf_victim_expect(&victim, "ready");
	options.pid = victim.pid;
	assert_hf_ok(hf_capture(&options, &frozen));
	child = hf_frozen_pid(frozen);
	assert_hf_ok(hf_frozen_open_image(frozen, &image));
	hf_victim_tell(&victim, "storm");
	hf_victim_expect(&victim, "storming");
	check_given_up(frozen, image, addr, child);
	/* It was the memory: about all that there was room for was copied. */
	assert_true(hf_frozen_report(frozen)->parent_faults > 10 * 256);
	hf_frozen_destroy(frozen);
	hf_victim_tell(&victim, "calm");
	assert_true(hf_victim_number(&victim, "laps") >= 0);
	end_writer(&victim);
	assert_int_equal(rmdir(cgroup.dir), 0);
}

static void the_peak_is_what_was_copied(void **state)
{
	const struct hf_capture_report *report;
	struct hf_victim victim;
	struct hf_frozen *frozen;

	(void)state;
	hf_victim_start(&victim, (const char *[]){ VICTIM_WRITER, "16", NULL });
	hf_victim_expect(&victim, "ready");
	assert_hf_ok(hf_test_capture(victim.pid, &frozen));
	hf_victim_tell(&victim, "write 0 2048");
	assert_true(hf_victim_number(&victim, "faults") >= 2048);
	assert_hf_ok(hf_frozen_release(frozen));
	report = hf_frozen_report(frozen);
	/* And page tables, and what it copied of libc's. */
	assert_in_range(report->peak_private_bytes, 2048 * 4096,
			2048 * 4096 + (3 << 20));
	hf_frozen_destroy(frozen);
	end_writer(&victim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_child_that_costs_too_much_is_given_up),
		cmocka_unit_test(
			a_child_that_is_killed_is_not_read_as_empty),
		cmocka_unit_test(
			without_memory_for_page_tables_nothing_is_forked),
		cmocka_unit_test(a_real_limit_is_kept_without_a_kill),
		cmocka_unit_test(the_peak_is_what_was_copied),
	};

	hf_test_need_ptrace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
