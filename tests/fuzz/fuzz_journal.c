/* Fuzzes the reader of records that a killed tool left behind.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "fork-agent/journal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct hf_journal_record record;
	char *text = malloc(size + 1);

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	memset(&record, 0, sizeof(record));
	/* Whatever it says, no process but one is ever meant. */
	if (hf_journal_parse(text, &record) && record.target <= 0)
		abort();
	free(text);
	return 0;
}
