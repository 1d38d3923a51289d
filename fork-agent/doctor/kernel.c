/* Kernel: what it can do, and how long it will take.
 * SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <inttypes.h>
#include <string.h>

#include "coredump/resident.h"
#include "fork-agent/doctor/patient.h"

void hf_check_pagemap_scan(struct hf_patient *patient)
{
	HF_AUTO(hf_resident) struct hf_resident *resident = NULL;
	HF_AUTO_FD int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	struct hf_check *check;

	if (fd < 0) {
		hf_checkup_add(patient->checkup, "pagemap-scan",
			       HF_VERDICT_UNKNOWN, "no /proc/self/pagemap");
		return;
	}
	hf_error_ignore(hf_resident_create(fd, false, &resident));
	if (resident && hf_resident_has_scan(resident)) {
		hf_checkup_add(patient->checkup, "pagemap-scan",
			       HF_VERDICT_OK, "there");
		return;
	}
	check = hf_checkup_add(patient->checkup, "pagemap-scan",
			       HF_VERDICT_WARNING, "not in this kernel (6.7 "
			       "has it)");
	hf_check_cause(check, "finding the pages of large and nearly empty "
		       "mappings takes longer; the pause does not");
}

static void predicted(struct hf_patient *patient)
{
	const struct hf_prediction *prediction = &patient->prediction;
	uint64_t limit = patient->options->max_pause_ns;
	struct hf_check *check = hf_checkup_add(
		patient->checkup, "pause", HF_VERDICT_OK,
		"about %.1f ms, up to %.1f ms as busy as the machine is "
		"(threads %.1f, fork %.1f: %" PRIu64
		" small and %" PRIu64 " huge pages)",
		(double)prediction->pause_ns / 1e6,
		(double)prediction->long_pause_ns / 1e6,
		(double)prediction->threads_ns / 1e6,
		(double)prediction->fork_ns / 1e6,
		patient->account.small_pages, patient->account.huge_pages);

	hf_check_value(check, prediction->pause_ns, "ns");
	if (!limit || prediction->pause_ns <= limit)
		return;
	hf_check_block(check, HF_ERROR_TOO_LONG);
	hf_check_cause(check, "that is more than --max-pause %.10g",
		       (double)limit / 1e6);
	if (prediction->fork_ns > prediction->threads_ns)
		hf_check_fix(check, "allow more%s, or have its heap on huge "
			     "pages (GLIBC_TUNABLES=glibc.malloc.hugetlb=1 "
			     "when it starts): a fork copies one entry for "
			     "each page", patient->options->prepare ?
				     "" : ", or shorten it with --prepare");
	else
		hf_check_fix(check, "allow more, or try when fewer of its "
			     "threads are running");
}

void hf_check_pause(struct hf_patient *patient)
{
	struct hf_check *check;

	if (patient->options->mode == HF_CAPTURE_STOP) {
		hf_checkup_add(patient->checkup, "pause", HF_VERDICT_OK,
			       "until its memory was read and copied: no fork "
			       "is made (--mode stop)");
		return;
	}
	if (patient->has_prediction) {
		predicted(patient);
		return;
	}
	check = hf_checkup_add(patient->checkup, "pause", HF_VERDICT_UNKNOWN,
			       "cannot be predicted");
	hf_check_cause(check, "%s", !patient->has_account ?
			       "its memory may not be looked at (smaps)" :
			       "a process of our own could not be measured");
	if (patient->options->max_pause_ns)
		hf_check_block(check, HF_ERROR_TOO_LONG);
}
