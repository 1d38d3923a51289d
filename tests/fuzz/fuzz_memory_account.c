/* Fuzzes the account of memory that is read from smaps.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "fork-agent/memory_account.h"
#include "fork-agent/predict.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct hf_lab lab = {
		.thread_ns = 1, .fork_ns = 1, .small_page_ps = 1000,
		.huge_page_ps = 1000, .mapping_ps = 1000,
	};
	HF_AUTO_FREE char *text = malloc(size + 1);
	struct hf_memory_account account;
	struct hf_prediction prediction;
	struct hf_error *err;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	err = hf_memory_account_parse(text, size, &account);
	if (err) {
		hf_error_destroy(err);
		return 0;
	}
	/* A mapping is a line; what is left out is no page of the child. */
	if (account.num_mappings > size / 8)
		abort();
	hf_predict_from(&lab, &account, &(struct hf_thread_count){ .num = 1 },
			1, &prediction);
	if (prediction.pause_ns < prediction.fork_ns)
		abort();
	return 0;
}
