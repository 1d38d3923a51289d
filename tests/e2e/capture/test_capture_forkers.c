/* Tests of captures of processes that fork as fast as they can.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <signal.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/capture_check.h"
#include "tests/support/victim.h"

enum { STORM_ROUNDS = 20, INIT_ROUNDS = 10 };

/* It has stopped forking, but is there: what is left of its children now would
 * stay. */
static void settle(struct hf_victim *victim, pid_t pid)
{
	long num_forked, num_leavers;

	hf_victim_tell(victim, "stop");
	num_forked = hf_victim_number(victim, "num_forked");
	assert_true(num_forked > 2 * STORM_ROUNDS);
	assert_int_equal(hf_victim_number(victim, "num_taken"), num_forked);
	num_leavers = hf_victim_number(victim, "num_leavers");
	assert_int_equal(hf_victim_number(victim, "num_orphans"), num_leavers);
	assert_int_equal(hf_victim_number(victim, "num_wrong"), 0);
	assert_int_equal(hf_test_num_children(pid), 0);
}

static void in_a_storm_of_forks_each_child_is_reaped_once(void **state)
{
	struct hf_victim victim;

	(void)state;
	hf_victim_start(&victim, (const char *[]){ VICTIM_FORKER, "storm",
						   NULL });
	hf_victim_expect(&victim, "ready");
	for (int i = 0; i < hf_test_rounds(STORM_ROUNDS); i++)
		hf_test_capture_once(victim.pid);
	settle(&victim, victim.pid);
	assert_int_equal(hf_victim_end(&victim), 0);
}

static void the_init_of_a_pid_namespace_reaps_its_own_only(void **state)
{
	struct hf_victim victim;
	const char *line;
	pid_t init;

	(void)state;
	hf_victim_start(&victim, (const char *[]){ VICTIM_FORKER, "init",
						   NULL });
	line = hf_victim_line(&victim);
	if (!line) {
		assert_int_equal(hf_victim_end(&victim), 77);
		fprintf(stderr, "skipped: no pid namespace can be made here\n");
		skip();
	}
	/* Both write to one pipe: either may be first. */
	if (!strcmp(line, "ready")) {
		init = (pid_t)hf_victim_number(&victim, "init");
	} else {
		assert_int_equal(strncmp(line, "init ", 5), 0);
		init = (pid_t)atoi(line + 5);
		hf_victim_expect(&victim, "ready");
	}
	for (int i = 0; i < hf_test_rounds(INIT_ROUNDS); i++)
		hf_test_capture_once(init);
	settle(&victim, init);
	assert_int_equal(hf_victim_end(&victim), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(in_a_storm_of_forks_each_child_is_reaped_once),
		cmocka_unit_test(
			the_init_of_a_pid_namespace_reaps_its_own_only),
	};

	hf_test_need_ptrace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
