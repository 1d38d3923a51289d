/* Exit codes: one table from what went wrong to what the shell sees.
 * SPDX-License-Identifier: MIT */
#include "query/cli/cli.h"

static const int exit_codes[] = {
	[HF_ERROR_NO_MEMORY] = HF_EXIT_FAILED,
	[HF_ERROR_OS] = HF_EXIT_FAILED,
	[HF_ERROR_FAULT] = HF_EXIT_FAILED,
	[HF_ERROR_NOT_FOUND] = HF_EXIT_NOT_FOUND,
	[HF_ERROR_BAD_DATA] = HF_EXIT_BAD_INPUT,
	[HF_ERROR_UNSUPPORTED] = HF_EXIT_UNSUPPORTED,
	[HF_ERROR_PERMISSION] = HF_EXIT_PERMISSION,
	[HF_ERROR_SQL] = HF_EXIT_FAILED, /* of the writer: see sql_guard.h */
	[HF_ERROR_USAGE] = HF_EXIT_USAGE,
	[HF_ERROR_TARGET_GONE] = HF_EXIT_NOT_FOUND,
	[HF_ERROR_NO_SPACE] = HF_EXIT_NO_SPACE,
	[HF_ERROR_TIMEOUT] = HF_EXIT_TIMEOUT,
	[HF_ERROR_PARTIAL] = HF_EXIT_PARTIAL,
	[HF_ERROR_INTERRUPTED] = HF_EXIT_SIGNAL + SIGINT,
	[HF_ERROR_TOO_LONG] = HF_EXIT_TOO_LONG,
	[HF_ERROR_STOP] = HF_EXIT_FAILED,
};

int hf_exit_code(const struct hf_error *err, int signal)
{
	if (!err)
		return HF_EXIT_OK;
	if (err->code == HF_ERROR_INTERRUPTED && signal)
		return HF_EXIT_SIGNAL + signal;
	if ((size_t)err->code >= sizeof(exit_codes) / sizeof(exit_codes[0]) ||
	    !exit_codes[err->code])
		return HF_EXIT_FAILED;
	return exit_codes[err->code];
}
