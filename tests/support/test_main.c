/* Small things every test wants.
 * SPDX-License-Identifier: MIT */
#include "tests/support/test_main.h"

#include <stdio.h>

void hf_test_require(struct hf_error *err, const char *file, int line)
{
	if (!err)
		return;
	fprintf(stderr, "%s:%d: %s\n", file, line, err->message);
	if (err->cause)
		fprintf(stderr, "cause: %s\n", err->cause);
	abort();
}
