/* The shelf: errors, arrays, numbers, files that appear whole or not at all.
 * SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sched.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cmocka.h>

#include "util/array.h"
#include "util/file.h"
#include "util/low_priority.h"
#include "util/output.h"
#include "util/parse.h"
#include "util/progress.h"

static void error_carries_message_cause_and_fix(void **state)
{
	struct hf_error *err = hf_error_os(ENOSPC, "cannot write '%s'", "x");

	(void)state;
	err = hf_error_prefix(err, "step %d", 2);
	err = hf_error_cause(err, "the disk is full");
	err = hf_error_fix(err, "make room");
	assert_int_equal(err->code, HF_ERROR_NO_SPACE);
	assert_string_equal(err->message, "step 2: cannot write 'x': "
					  "No space left on device");
	assert_string_equal(err->cause, "the disk is full");
	assert_string_equal(err->fix, "make room");
	hf_error_destroy(err);
}

static void prefix_copies_a_static_error(void **state)
{
	struct hf_error *err = hf_error_prefix(&hf_not_found, "type 'x'");

	(void)state;
	assert_ptr_not_equal(err, &hf_not_found);
	assert_int_equal(err->code, HF_ERROR_NOT_FOUND);
	assert_string_equal(err->message, "type 'x': not found");
	assert_string_equal(hf_not_found.message, "not found");
	hf_error_destroy(err);
	assert_null(hf_error_prefix(NULL, "no error"));
}

static void array_refuses_sizes_that_wrap(void **state)
{
	HF_ARRAY(uint64_t) array = { 0 };

	(void)state;
	for (uint64_t i = 0; i < 1000; i++)
		assert_null(hf_array_append(&array, i));
	assert_int_equal(array.num, 1000);
	assert_int_equal(array.data[999], 999);
	assert_ptr_equal(hf_array_reserve(&array, SIZE_MAX - 10), &hf_enomem);
	assert_ptr_equal(hf_array_reserve(&array, SIZE_MAX / 8), &hf_enomem);
	assert_int_equal(array.num, 1000);
	hf_array_deinit(&array);
}

static void numbers_are_parsed_whole_or_not(void **state)
{
	static const struct {
		const char *text;
		bool ok, is_size;
		uint64_t value;
	} cases[] = {
		{ "0", true, false, 0 },
		{ "18446744073709551615", true, false, UINT64_MAX },
		{ "18446744073709551616", false, false, 0 },
		{ "0x7fff", true, false, 0x7fff },
		{ "0x", false, false, 0 },
		{ "", false, false, 0 },
		{ "-1", false, false, 0 },
		{ " 1", false, false, 0 },
		{ "12a", false, false, 0 },
		{ "12", true, true, 12 },
		{ "2K", true, true, 2048 },
		{ "2kib", true, true, 2048 },
		{ "3MB", true, true, 3 << 20 },
		{ "1T", true, true, UINT64_C(1) << 40 },
		{ "1X", false, true, 0 },
		{ "1KK", false, true, 0 },
		{ "99999999999T", false, true, 0 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t value = 42;
		struct hf_error *err =
			cases[i].is_size
				? hf_parse_size(cases[i].text, "n", &value)
				: hf_parse_u64(cases[i].text, "n", &value);

		if (!!err == cases[i].ok)
			fail_msg("case '%s'", cases[i].text);
		if (err) {
			assert_int_equal(err->code, HF_ERROR_USAGE);
			assert_int_equal(value, 42);
		} else {
			assert_int_equal(value, cases[i].value);
		}
		hf_error_destroy(err);
	}
}

static void write_text(const char *path, const char *text)
{
	FILE *file = fopen(path, "w");

	assert_non_null(file);
	assert_true(fputs(text, file) >= 0);
	assert_int_equal(fclose(file), 0);
}

static void errors_of_an_output_name_the_file_of_the_user(void **state)
{
	char dir[] = "/tmp/hf-output-XXXXXX", path[64], missing[80];
	struct hf_output *output;
	struct hf_error *err;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/a.heap", dir);
	assert_null(hf_output_begin(path, false, &output));
	err = hf_error_os(ENOSPC, "cannot write '%s'", hf_output_path(output));
	err = hf_error_cause(err, "it ended at 12 bytes");
	err = hf_output_blame(output, err);
	assert_non_null(strstr(err->message, "cannot write '/tmp/hf-output-"));
	assert_non_null(strstr(err->message, "/a.heap': "));
	assert_null(strstr(err->message, ".heapfork-"));
	assert_string_equal(err->cause, "it ended at 12 bytes");
	assert_int_equal(err->code, HF_ERROR_NO_SPACE);
	hf_error_destroy(err);
	assert_ptr_equal(hf_output_blame(output, &hf_enomem), &hf_enomem);
	assert_null(hf_output_blame(output, NULL));
	hf_output_destroy(output);

	snprintf(missing, sizeof(missing), "%s/no/a.heap", dir);
	err = hf_output_begin(missing, false, &output);
	assert_non_null(err);
	assert_non_null(strstr(err->cause, "/no'"));
	assert_non_null(err->fix);
	hf_error_destroy(err);
	assert_int_equal(rmdir(dir), 0);
}

static void output_appears_whole_or_not_at_all(void **state)
{
	char dir[] = "/tmp/hf-output-XXXXXX", path[64], *text;
	struct hf_output *output;
	struct hf_error *err;
	struct stat st;

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/a", dir);

	/* No commit: nothing is left. */
	assert_null(hf_output_begin(path, false, &output));
	write_text(hf_output_path(output), "half");
	hf_output_destroy(output);
	assert_int_equal(access(path, F_OK), -1);

	/* Commit: the file, mode 0600, and no helper directory. */
	assert_null(hf_output_begin(path, false, &output));
	write_text(hf_output_path(output), "whole");
	assert_null(hf_output_commit(output));
	hf_output_destroy(output);
	assert_null(hf_read_file(path, &text, NULL));
	assert_string_equal(text, "whole");
	free(text);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);

	/* What exists is kept, also when it came into being meanwhile. */
	err = hf_output_begin(path, false, &output);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_USAGE);
	assert_non_null(err->fix);
	hf_error_destroy(err);
	unlink(path);
	assert_null(hf_output_begin(path, false, &output));
	write_text(hf_output_path(output), "second");
	write_text(path, "first");
	err = hf_output_commit(output);
	assert_non_null(err);
	hf_error_destroy(err);
	hf_output_destroy(output);
	assert_null(hf_read_file(path, &text, NULL));
	assert_string_equal(text, "first");
	free(text);

	/* Unless asked. */
	assert_null(hf_output_begin(path, true, &output));
	write_text(hf_output_path(output), "third");
	assert_null(hf_output_commit(output));
	hf_output_destroy(output);
	assert_null(hf_read_file(path, &text, NULL));
	assert_string_equal(text, "third");
	free(text);
	unlink(path);
	assert_int_equal(rmdir(dir), 0); /* fails if anything was left */
}

static void progress_ends_the_work_when_cancelled(void **state)
{
	sig_atomic_t cancelled = 0;
	struct hf_progress progress = { .cancelled = &cancelled };
	struct hf_error *err;

	(void)state;
	assert_null(hf_progress_update(NULL, "x", 1, 2));
	assert_null(hf_progress_update(&progress, "x", 1, 2));
	cancelled = 1;
	err = hf_progress_update(&progress, "x", 1, 2);
	assert_int_equal(err->code, HF_ERROR_INTERRUPTED);
	hf_error_destroy(err);
}

/* A run in `dir` that is killed in the middle of its work; `hold`: one that
 * is not. @return its pid; it has made its files. */
static pid_t start_run(const char *dir, bool hold)
{
	char path[64], byte;
	int ready[2];
	pid_t pid;

	assert_int_equal(pipe(ready), 0);
	pid = fork();
	assert_true(pid >= 0);
	if (!pid) {
		struct hf_output *output;
		char journal[128];

		snprintf(path, sizeof(path), "%s/a", dir);
		if (hf_output_begin(path, false, &output))
			_exit(1);
		write_text(hf_output_path(output), "half");
		snprintf(journal, sizeof(journal), "%s-journal",
			 hf_output_path(output));
		write_text(journal, "half");
		if (write(ready[1], "r", 1) != 1)
			_exit(1);
		pause();
		_exit(0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	if (!hold) {
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
	}
	return pid;
}

static int num_entries(const char *dir)
{
	char command[96];
	FILE *file;
	int num;

	snprintf(command, sizeof(command), "ls -A '%s' | wc -l", dir);
	file = popen(command, "r");
	assert_non_null(file);
	assert_int_equal(fscanf(file, "%d", &num), 1);
	pclose(file);
	return num;
}

static void begin_and_end(const char *dir)
{
	struct hf_output *output;
	char path[64];

	snprintf(path, sizeof(path), "%s/b", dir);
	assert_null(hf_output_begin(path, false, &output));
	hf_output_destroy(output);
}

static void what_a_killed_run_left_is_removed(void **state)
{
	char dir[] = "/tmp/hf-output-XXXXXX", path[96];

	(void)state;
	assert_non_null(mkdtemp(dir));
	start_run(dir, false);
	start_run(dir, false);
	assert_int_equal(num_entries(dir), 1); /* the second found the first */
	/* Others look a little like ours, or are not as we make them. */
	snprintf(path, sizeof(path), "%s/.heapfork-notes", dir);
	write_text(path, "mine");
	snprintf(path, sizeof(path), "%s/.heapfork-longer-name", dir);
	assert_int_equal(mkdir(path, 0700), 0);
	snprintf(path, sizeof(path), "%s/.heapfork-public", dir);
	assert_int_equal(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/.heapfork-linked", dir);
	assert_int_equal(symlink("/tmp", path), 0);
	begin_and_end(dir);
	assert_int_equal(num_entries(dir), 4);
	snprintf(path, sizeof(path), "rm -r '%s'", dir);
	assert_int_equal(system(path), 0);
}

static void what_another_run_holds_stays(void **state)
{
	char dir[] = "/tmp/hf-output-XXXXXX";
	pid_t pid;

	(void)state;
	assert_non_null(mkdtemp(dir));
	pid = start_run(dir, true);
	begin_and_end(dir);
	assert_int_equal(num_entries(dir), 1);
	kill(pid, SIGKILL);
	assert_int_equal(waitpid(pid, NULL, 0), pid);
	begin_and_end(dir);
	assert_int_equal(rmdir(dir), 0);
}

static void runs_at_once_do_not_take_each_others_folder(void **state)
{
	enum { NUM_RUNS = 4, ROUNDS = 150 };
	char dir[] = "/tmp/hf-output-XXXXXX", path[64];
	pid_t pids[NUM_RUNS];

	(void)state;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/c", dir);
	for (int i = 0; i < NUM_RUNS; i++) {
		pids[i] = fork();
		assert_true(pids[i] >= 0);
		if (pids[i])
			continue;
		for (int round = 0; round < ROUNDS; round++) {
			struct hf_output *output;
			FILE *file;

			if (hf_output_begin(path, false, &output))
				_exit(1);
			sched_yield();
			file = fopen(hf_output_path(output), "w");
			if (!file || fclose(file) ||
			    access(hf_output_path(output), F_OK))
				_exit(2);
			hf_output_destroy(output);
		}
		_exit(0);
	}
	for (int i = 0; i < NUM_RUNS; i++) {
		int status;

		assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
		assert_int_equal(status, 0);
	}
	assert_int_equal(rmdir(dir), 0);
}

enum { IOPRIO_WHO_PROCESS_ = 1, IOPRIO_CLASS_SHIFT_ = 13, IOPRIO_IDLE_ = 3 };

static struct hf_error *look_at_priority(void *arg)
{
	int *nice = arg;

	*nice = getpriority(PRIO_PROCESS, 0);
	hf_low_priority_no_hurry();
	*nice = getpriority(PRIO_PROCESS, 0) - *nice;
	assert_int_equal(sched_getscheduler(0), SCHED_BATCH);
	assert_int_equal(syscall(SYS_ioprio_get, IOPRIO_WHO_PROCESS_, 0) >>
			 IOPRIO_CLASS_SHIFT_, IOPRIO_IDLE_);
	return &hf_not_found;
}

static void low_priority_is_for_the_work_alone(void **state)
{
	int before = getpriority(PRIO_PROCESS, 0), nice = 0;
	int policy = sched_getscheduler(0);

	(void)state;
	assert_ptr_equal(hf_run_low_priority(look_at_priority, &nice),
			 &hf_not_found);
	assert_int_equal(nice, before + 10 < 19 ? 10 : 19 - before);
	assert_int_equal(getpriority(PRIO_PROCESS, 0), before);
	assert_int_equal(sched_getscheduler(0), policy);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(error_carries_message_cause_and_fix),
		cmocka_unit_test(prefix_copies_a_static_error),
		cmocka_unit_test(array_refuses_sizes_that_wrap),
		cmocka_unit_test(numbers_are_parsed_whole_or_not),
		cmocka_unit_test(output_appears_whole_or_not_at_all),
		cmocka_unit_test(what_a_killed_run_left_is_removed),
		cmocka_unit_test(what_another_run_holds_stays),
		cmocka_unit_test(runs_at_once_do_not_take_each_others_folder),
		cmocka_unit_test(low_priority_is_for_the_work_alone),
		cmocka_unit_test(errors_of_an_output_name_the_file_of_the_user),
		cmocka_unit_test(progress_ends_the_work_when_cancelled),
	};

	return cmocka_run_group_tests_name("util", tests, NULL, NULL);
}
