/* Tests that a stop at a bad moment is released, and made again.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/capture_check.h"
#include "tests/support/test_main.h"
#include "tests/support/victim.h"

/* An allocator that is in disorder for the first `num_bad` stops. */
struct teller {
	struct hf_safe_point_state bad;
	uint32_t num_bad;
	uint32_t num_prepared, num_looked;
	bool attached_at_prepare;  /* the target was traced, or did not run */
	bool wrong_order;          /* look without prepare */
	size_t num_threads;        /* at the last look */
	uint64_t first_rip;
	bool prepare_fails;
};

static struct hf_error *prepare(void *arg, pid_t pid)
{
	struct teller *teller = arg;

	if (hf_test_status_field(pid, "TracerPid", 10))
		teller->attached_at_prepare = true;
	teller->num_prepared++;
	return teller->prepare_fails ?
		hf_error_create(HF_ERROR_BAD_DATA, "not prepared") : NULL;
}

static void look(void *arg, pid_t pid, const struct hf_thread *threads,
		 size_t num_threads, struct hf_safe_point_state *ret)
{
	struct teller *teller = arg;

	teller->num_looked++;
	/* A stop that some threads were late for is prepared, and no more. */
	if (teller->num_prepared < teller->num_looked)
		teller->wrong_order = true;
	teller->num_threads = num_threads;
	teller->first_rip = threads[0].tid == pid ? threads[0].regs.rip : 0;
	if (teller->num_looked > teller->num_bad)
		return;
	*ret = teller->bad;
	if (ret->num_inside)
		ret->tid_inside = pid;
}

static void start(struct hf_victim *victim)
{
	hf_victim_start(victim,
			(const char *[]){ VICTIM_BLOCKED_CALLS, NULL });
	hf_victim_expect(victim, "ready");
}

static void end(struct hf_victim *victim)
{
	assert_int_equal(hf_test_status_field(victim->pid, "TracerPid", 10),
			 0);
	assert_int_equal(hf_test_num_zombies(victim->pid), 0);
	fclose(victim->in);
	victim->in = NULL;
	assert_int_equal(hf_victim_number(victim, "num_returned"), 0);
	assert_int_equal(hf_victim_number(victim, "num_interrupted"), 0);
	assert_int_equal(hf_victim_number(victim, "num_handled"), 0);
	assert_int_equal(hf_victim_end(victim), 0);
}

static struct hf_error *capture(pid_t pid, struct teller *teller,
				uint32_t tries, bool exact,
				struct hf_frozen **ret)
{
	const struct hf_safe_point safe_point = {
		.arg = teller,
		.prepare = prepare,
		.look = look,
	};
	const struct hf_capture_options options = {
		.pid = pid,
		.safe_point = &safe_point,
		.safe_point_tries = tries,
		.exact = exact,
	};

	return hf_capture(&options, ret);
}

static void a_bad_moment_is_released_and_tried_again(void **state)
{
	const int rounds = hf_test_rounds(3);
	struct hf_victim victim;

	(void)state;
	start(&victim);

	size_t num_threads =
		(size_t)hf_test_num_entries(victim.pid, "task");

	for (int i = 0; i < rounds; i++) {
		struct teller teller = {
			.bad = { .num_inside = 2, .num_locked = 1 },
			.num_bad = 3,
		};
		struct hf_frozen *frozen;

		assert_hf_ok(capture(victim.pid, &teller, 9, i % 2, &frozen));

		const struct hf_capture_report *report =
			hf_frozen_report(frozen);

		assert_int_equal(teller.num_looked, 4);
		assert_true(teller.num_prepared >= 4);
		assert_false(teller.attached_at_prepare);
		assert_false(teller.wrong_order);
		assert_int_equal(teller.num_threads, num_threads);
		assert_true(teller.first_rip != 0);
		assert_int_equal(report->safe_point_tries, 4);
		assert_true(hf_safe_point_is_safe(&report->safe_point));
		assert_true(report->missed_pause_ns > 0);
		assert_int_equal(report->num_threads, num_threads);
		assert_hf_ok(hf_frozen_release(frozen));
		assert_true(report->reaped);
		hf_frozen_destroy(frozen);
	}
	end(&victim);
}

static void the_last_stop_is_taken_as_it_is(void **state)
{
	struct teller teller = {
		.bad = { .num_locked = 2 },
		.num_bad = UINT32_MAX,
	};
	struct hf_victim victim;
	struct hf_frozen *frozen;

	(void)state;
	start(&victim);
	assert_hf_ok(capture(victim.pid, &teller, 3, false, &frozen));
	assert_int_equal(teller.num_looked, 3);
	assert_int_equal(hf_frozen_report(frozen)->safe_point_tries, 3);
	assert_int_equal(hf_frozen_report(frozen)->safe_point.num_locked, 2);
	assert_true(hf_safe_point_is_unsafe(
		&hf_frozen_report(frozen)->safe_point));
	assert_hf_ok(hf_frozen_release(frozen));
	hf_frozen_destroy(frozen);

	/* Without a number: the documented default. */
	teller.num_looked = teller.num_prepared = 0;
	assert_hf_ok(capture(victim.pid, &teller, 0, false, &frozen));
	assert_int_equal(teller.num_looked, 5);
	hf_frozen_destroy(frozen);
	end(&victim);
}

static void exact_refuses_and_says_who_was_in_the_way(void **state)
{
	struct teller teller = {
		.bad = { .num_inside = 1, .num_locked = 1 },
		.num_bad = UINT32_MAX,
	};
	struct hf_victim victim;
	struct hf_frozen *frozen;
	struct hf_error *err;
	char thread[64];

	(void)state;
	start(&victim);
	err = capture(victim.pid, &teller, 4, true, &frozen);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_TIMEOUT);
	assert_non_null(strstr(err->message, "no safe point at 4 stops"));
	snprintf(thread, sizeof(thread), "among them %d '", victim.pid);
	assert_non_null(strstr(err->cause, thread));
	assert_non_null(strstr(err->cause, "1 arena lock(s)"));
	assert_non_null(strstr(err->fix, "--safe-point-tries"));
	assert_non_null(strstr(err->fix, "--exact"));
	hf_error_destroy(err);
	assert_int_equal(teller.num_looked, 4); /* and no second attempt */
	end(&victim);
}

static void an_unknown_allocator_is_no_reason_to_stop_twice(void **state)
{
	struct teller teller = {
		.bad = { .unknown = true },
		.num_bad = UINT32_MAX,
	};
	struct hf_victim victim;
	struct hf_frozen *frozen;

	(void)state;
	start(&victim);
	assert_hf_ok(capture(victim.pid, &teller, 4, true, &frozen));
	assert_int_equal(teller.num_looked, 1);
	assert_true(hf_frozen_report(frozen)->safe_point.unknown);
	hf_frozen_destroy(frozen);
	end(&victim);
}

static void nothing_is_stopped_if_it_cannot_be_prepared(void **state)
{
	struct teller teller = { .prepare_fails = true };
	struct hf_victim victim;
	struct hf_frozen *frozen;
	struct hf_error *err;

	(void)state;
	start(&victim);
	err = capture(victim.pid, &teller, 4, false, &frozen);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_BAD_DATA);
	hf_error_destroy(err);
	assert_int_equal(teller.num_looked, 0);
	end(&victim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_bad_moment_is_released_and_tried_again),
		cmocka_unit_test(the_last_stop_is_taken_as_it_is),
		cmocka_unit_test(exact_refuses_and_says_who_was_in_the_way),
		cmocka_unit_test(
			an_unknown_allocator_is_no_reason_to_stop_twice),
		cmocka_unit_test(nothing_is_stopped_if_it_cannot_be_prepared),
	};

	hf_test_need_ptrace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
