/* Wishes: what only a capture with certain options needs.
 * SPDX-License-Identifier: MIT */
#include <string.h>
#include <sys/statvfs.h>

#include "coredump/spool.h"
#include "fork-agent/doctor/patient.h"
#include "fork-agent/prepare.h"

/* Measured: a heap of nothing but blocks of 24 bytes makes a file of 3.6 times
 * its memory; one of larger blocks, much less. */
enum { FILE_QUARTERS = 15 };

/* The snapshot is taken all the same: a warning, whatever the reason. */
void hf_check_prepare(struct hf_patient *patient)
{
	struct hf_check *check;
	struct hf_error *err;

	if (!patient->options->prepare)
		return;
	err = patient->attach_works ? hf_prepare_check(patient->pid) : NULL;
	if (!err) {
		hf_checkup_add(patient->checkup, "prepare",
			       patient->attach_works ? HF_VERDICT_OK :
						       HF_VERDICT_UNKNOWN,
			       patient->attach_works ?
				       "the kernel would gather its memory "
				       "into huge pages" :
				       "not without the right to trace it");
		return;
	}
	check = hf_checkup_add_error(patient->checkup, "prepare", err);
	check->verdict = HF_VERDICT_WARNING;
	if (!check->cause)
		hf_check_cause(check, "its memory stays in small pages");
}

/* @return false: not known. */
static bool disk_free(const char *folder, uint64_t *ret)
{
	struct statvfs fs;

	if (statvfs(folder, &fs) < 0 || !fs.f_blocks)
		return false;
	*ret = (uint64_t)fs.f_bavail * fs.f_frsize;
	return true;
}

void hf_check_spool(struct hf_patient *patient)
{
	const char *dir = patient->options->spool_dir;
	char free_text[HF_DOCTOR_SIZE_LEN], need[HF_DOCTOR_SIZE_LEN];
	struct hf_check *check;
	struct hf_error *err;
	uint64_t bytes;

	if (!dir)
		return;
	err = hf_spool_probe(dir);
	if (err) {
		hf_checkup_add_error(patient->checkup, "spool", err);
		return;
	}
	if (!disk_free(dir, &bytes)) {
		hf_checkup_add(patient->checkup, "spool", HF_VERDICT_UNKNOWN,
			       "how much is free in '%s' is not visible", dir);
		return;
	}
	check = hf_checkup_add(patient->checkup, "spool", HF_VERDICT_OK,
			       "%s are free in '%s'",
			       hf_patient_size(patient, bytes, free_text), dir);
	hf_check_value(check, bytes, "bytes");
	if (!patient->has_account || bytes > patient->account.private_bytes)
		return;
	check->verdict = HF_VERDICT_WARNING;
	hf_check_cause(check, "a copy of its memory takes up to %s: if memory "
		       "has no room for it either, the child is read itself, "
		       "and lives longer",
		       hf_patient_size(patient,
				       patient->account.private_bytes, need));
	hf_check_fix(check, "name a folder on a disk with more free space");
}

void hf_check_disk(struct hf_patient *patient)
{
	const char *output = patient->options->output;
	const char *slash = output ? strrchr(output, '/') : NULL;
	char free_text[HF_DOCTOR_SIZE_LEN], need_text[HF_DOCTOR_SIZE_LEN];
	HF_AUTO_FREE char *folder = NULL;
	uint64_t bytes, need;
	struct hf_check *check;

	if (!output)
		return;
	folder = !slash ? strdup(".") :
		 strndup(output, slash == output ? 1 :
						   (size_t)(slash - output));
	if (!folder || !disk_free(folder, &bytes)) {
		hf_checkup_add(patient->checkup, "disk", HF_VERDICT_UNKNOWN,
			       "how much is free beside '%s' is not visible",
			       output);
		return;
	}
	check = hf_checkup_add(patient->checkup, "disk", HF_VERDICT_OK,
			       "%s are free beside '%s'",
			       hf_patient_size(patient, bytes, free_text),
			       output);
	hf_check_value(check, bytes, "bytes");
	need = hf_patient_field(patient, "RssAnon", 0) * 1024 / 4 *
	       FILE_QUARTERS;
	if (bytes > need)
		return;
	check->verdict = HF_VERDICT_WARNING;
	hf_check_cause(check, "a heap of nothing but small blocks would make a "
		       "file of up to %s; most make one far smaller",
		       hf_patient_size(patient, need, need_text));
	hf_check_fix(check, "write to a disk with more free space");
}
