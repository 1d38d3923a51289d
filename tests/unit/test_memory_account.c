/* Memory account: what a fork would copy, from smaps; and what that predicts.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "fork-agent/predict.h"
#include "tests/support/test_main.h"

static const char smaps[] =
	/* 8 MiB, 4 MiB of it huge, 1 MiB small, 4 kB swapped */
	"7f0000000000-7f0000800000 rw-p 00000000 00:00 0 \n"
	"Rss:                5120 kB\n"
	"Anonymous:          5120 kB\n"
	"AnonHugePages:      4096 kB\n"
	"Swap:                  4 kB\n"
	"VmFlags: rd wr mr mw me ac hg \n"
	/* a library that was only read: nothing is copied */
	"7f0000800000-7f0000900000 r-xp 00000000 fe:01 7 "
	"/usr/lib/libc.so.6\n"
	"Rss:                1024 kB\n"
	"Anonymous:             0 kB\n"
	"VmFlags: rd ex mr mw me \n"
	/* its data, written: file pages beside private ones are, too */
	"7f0000900000-7f0000910000 rw-p 00100000 fe:01 7 "
	"/usr/lib/libc.so.6\n"
	"Rss:                  64 kB\n"
	"Anonymous:            16 kB\n"
	"VmFlags: rd wr mr mw me ac \n"
	/* kept out of forks */
	"7f0000a00000-7f0000b00000 rw-p 00000000 00:00 0 \n"
	"Rss:                1024 kB\n"
	"Anonymous:          1024 kB\n"
	"VmFlags: rd wr mr mw me dc ac \n"
	"7f0000b00000-7f0000c00000 rw-p 00000000 00:00 0 \n"
	"Rss:                1024 kB\n"
	"Anonymous:          1024 kB\n"
	"VmFlags: rd wr mr mw me wf ac \n"
	/* shared, written by others */
	"7f0000c00000-7f0000d00000 rw-s 00000000 00:01 9 /memfd:x (deleted)\n"
	"Rss:                 512 kB\n"
	"VmFlags: rd wr sh mr mw me ms \n"
	/* a name that looks like a field */
	"7f0000e00000-7f0000e01000 rw-p 00000000 fe:01 8 /tmp/Rss: 9 kB\n"
	"Rss:                   4 kB\n"
	"Anonymous:             4 kB\n"
	"VmFlags: rd wr mr mw me ac \n";

static void what_a_fork_copies_is_counted(void **state)
{
	struct hf_memory_account account;

	(void)state;
	assert_null(hf_memory_account_parse(smaps, sizeof(smaps) - 1,
					    &account));
	assert_int_equal(account.num_mappings, 6);
	assert_int_equal(account.small_pages, 256 + 1 + 16 + 1);
	assert_int_equal(account.huge_pages, 2);
	assert_int_equal(account.private_bytes, (5120 + 16 + 4) << 10);
	assert_int_equal(account.anon_huge_bytes, 4 << 20);
	assert_int_equal(account.swap_bytes, 4096);
	assert_int_equal(account.shared_bytes, 512 << 10);
	assert_int_equal(account.dontfork_bytes, 1 << 20);
	assert_int_equal(account.wipe_bytes, 1 << 20);
	assert_int_equal(account.committed_bytes,
			 (8 << 20) + (1 << 20) + 0x10000 + 0x1000);
	assert_int_equal(account.marks, HF_MARK_GLIBC);
}

static void numbers_that_are_too_large_do_not_wrap(void **state)
{
	static const char text[] =
		"1000-ffffffffffffffff rw-p 00000000 00:00 0 \n"
		"Rss:  99999999999999999999999 kB\n"
		"Anonymous: 18446744073709551615 kB\n"
		"Swap: 18446744073709551615 kB\n"
		"VmFlags: ac\n";
	struct hf_memory_account account;

	(void)state;
	assert_null(hf_memory_account_parse(text, sizeof(text) - 1, &account));
	assert_true(account.private_bytes == UINT64_MAX);
	assert_true(account.small_pages >= UINT64_MAX / 4);
}

static void what_is_no_smaps_is_refused(void **state)
{
	static const char *const texts[] = {
		"Rss: 4 kB\n", "7f00-7e00 rw-p 0 00:00 0\n", "7f00 rw-p\n",
		"-7f00 rw-p 0\n", "x",
	};

	(void)state;
	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		struct hf_memory_account account;
		struct hf_error *err = hf_memory_account_parse(
			texts[i], strlen(texts[i]), &account);

		assert_non_null(err);
		assert_int_equal(err->code, HF_ERROR_BAD_DATA);
		hf_error_destroy(err);
	}
}

static void the_prediction_adds_up(void **state)
{
	const struct hf_lab lab = {
		.thread_ns = 20000, .fork_ns = 100000, .small_page_ps = 50000,
		.huge_page_ps = 2000000, .mapping_ps = 1000000,
		.forks_cpu_ns = 1000, .forks_ns = 2000,
		.thread_wait_ns = 3000, .fork_wait_ns = 50000,
	};
	const struct hf_memory_account account = {
		.num_mappings = 10, .small_pages = 1000, .huge_pages = 100,
		.private_bytes = 1 << 20, .table_bytes = 4096,
	};
	const struct hf_thread_count threads = { .num = 10, .num_running = 4 };
	struct hf_prediction quiet, busy;

	(void)state;
	hf_predict_from(&lab, &account, &threads, 4, &quiet);
	/* base, pages, huge pages, mappings; twice as long on the clock */
	assert_int_equal(quiet.fork_ns,
			 2 * (100000 + 50000 + 200000 + 10000));
	assert_int_equal(quiet.threads_ns, 200000);
	assert_int_equal(quiet.pause_ns, quiet.fork_ns + quiet.threads_ns);
	/* A wait to stop, one in the fork, one to resume. */
	assert_int_equal(quiet.long_pause_ns, quiet.pause_ns + 56000);
	assert_true(quiet.most_bytes == quiet.child_bytes + (1 << 20));
	/* Two of the four have to wait for a CPU. */
	hf_predict_from(&lab, &account, &threads, 2, &busy);
	assert_true(busy.threads_ns > quiet.threads_ns);
	assert_int_equal(busy.fork_ns, quiet.fork_ns);
}

static void nothing_is_predicted_without_a_measure(void **state)
{
	(void)state;
	assert_false(hf_predict_can(&(struct hf_lab){ .thread_ns = 1 }));
	assert_false(hf_predict_can(&(struct hf_lab){ .fork_ns = 1 }));
	assert_true(hf_predict_can(&(struct hf_lab){ .thread_ns = 1,
						     .fork_ns = 1 }));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_a_fork_copies_is_counted),
		cmocka_unit_test(numbers_that_are_too_large_do_not_wrap),
		cmocka_unit_test(what_is_no_smaps_is_refused),
		cmocka_unit_test(the_prediction_adds_up),
		cmocka_unit_test(nothing_is_predicted_without_a_measure),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
