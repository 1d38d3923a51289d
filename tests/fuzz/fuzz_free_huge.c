/* Fuzzes the parser of /proc/buddyinfo.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "fork-agent/free_huge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	HF_AUTO_FREE char *text = malloc(size + 1);
	uint64_t bytes = 0;
	struct hf_error *err;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	err = hf_free_huge_parse(text, &bytes);
	if (!err && bytes % HF_HUGE_BYTES)
		abort();
	hf_error_destroy(err);
	return 0;
}
