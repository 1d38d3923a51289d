/* Small things every test wants.
 * SPDX-License-Identifier: MIT */
#ifndef HF_TESTS_SUPPORT_TEST_MAIN_H
#define HF_TESTS_SUPPORT_TEST_MAIN_H

#include "util/error.h"

/** Print the error and abort the process unless it is NULL; for set-up code.
 * In test bodies: assert_hf_ok(). */
void hf_test_require(struct hf_error *err, const char *file, int line);

/** Fail the test with the error's message unless it is NULL. */
#define assert_hf_ok(expression) hf_test_require((expression), __FILE__, __LINE__)

#endif
