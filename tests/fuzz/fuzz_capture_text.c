/* Fuzzes the reader of what a core says of its capture.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "query/cli/capture_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hf_snapshot_row row = { 0 };
	char *text = malloc(size + 1);

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	hf_capture_text_read(text, &row);
	/* No number that the database could not hold. */
	if (row.taken_ns > INT64_MAX || row.pause_ns > INT64_MAX ||
	    (row.boot_id && strlen(row.boot_id) != 36))
		abort();
	free(text);
	return 0;
}
