/* Fuzzes the readers of small texts of /proc: stat, status, syscall,
 * smaps_rollup, and lines like those of meminfo.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "fork-agent/child.h"
#include "fork-agent/doctor/patient.h"
#include "fork-agent/proc_task.h"

enum { MAX_PIDS = 33 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_stat(const char *text)
{
	struct hf_proc_stat stat;
	struct hf_error *err = hf_proc_stat_parse(text, &stat);

	if (err)
		hf_error_destroy(err);
	else if (!memchr(stat.name, '\0', sizeof(stat.name)))
		abort();
}

static void read_status(const char *text)
{
	struct hf_proc_status status;
	struct hf_error *err = hf_proc_status_parse(text, &status);

	if (err)
		hf_error_destroy(err);
	else if (!memchr(status.name, '\0', sizeof(status.name)))
		abort();
}

/* Each text goes to each of them: a kernel may change any. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	HF_AUTO_FREE char *text = malloc(size + 1);
	HF_AUTO_FREE pid_t *pids = malloc(MAX_PIDS * sizeof(*pids));
	struct hf_proc_syscall call;
	uint64_t number;

	if (!text || !pids)
		return 0;
	memcpy(text, data, size);
	text[size] = '\0';
	read_stat(text);
	read_status(text);
	for (size_t max = 0; max <= MAX_PIDS; max += 11)
		if (hf_proc_ns_pids_parse(text, pids, max) > max)
			abort();
	hf_proc_syscall_parse(text, &call);
	hf_child_private_kib(text, &number);
	hf_doctor_field(text, "MemAvailable", &number);
	hf_doctor_field(text, "", &number);
	return 0;
}
