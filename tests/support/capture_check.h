/* What every capture test does: capture a victim, and look at it from outside.
 * SPDX-License-Identifier: MIT */
#ifndef HF_TESTS_SUPPORT_CAPTURE_CHECK_H
#define HF_TESTS_SUPPORT_CAPTURE_CHECK_H

#include "fork-agent/capture_steps.h"

/** `rounds`, or many more in a soak run (HF_SOAK=1). */
int hf_test_rounds(int rounds);

/** Exit 77 with a reason if this machine forbids ptrace to this test. */
void hf_test_need_ptrace(void);

/** Sleep. */
void hf_test_sleep_ms(unsigned int ms);

/** Capture with default options. @return the error of hf_capture. */
struct hf_error *hf_test_capture(pid_t pid, struct hf_frozen **ret)
	HF_MUST_CHECK;

/** Capture and release at once; both must work, and leave no zombie. */
void hf_test_capture_once(pid_t pid);

/** Number of children of `pid` that are zombies. */
int hf_test_num_zombies(pid_t pid);

/** Number of all its children. */
int hf_test_num_children(pid_t pid);

/** Entries of /proc/PID/<folder>, as "task" or "fd". */
int hf_test_num_entries(pid_t pid, const char *folder);

/** The value of a field of /proc/PID/status, or aborts. */
unsigned long long hf_test_status_field(pid_t pid, const char *field,
					int base);

/** State letter of /proc/PID/stat; 0: no such process. */
char hf_test_state(pid_t pid);

#endif
