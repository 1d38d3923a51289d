/* Memory: what a capture needs, and whether it is there.
 * SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fork-agent/doctor/patient.h"
#include "fork-agent/headroom.h"
#include "util/file.h"

/* The child costs its page tables at once. Each page that the process writes
 * while the child lives is copied, at most all of them: charged to the
 * process's cgroup. How many it will be is not known; what is certain is what
 * can happen in the worst case. */

enum { MIB = 1 << 20 };

static uint64_t meminfo(const char *name)
{
	HF_AUTO_FREE char *text = NULL;
	uint64_t kb;

	hf_error_ignore(hf_read_file("/proc/meminfo", &text, NULL));
	if (!text || !hf_doctor_field(text, name, &kb))
		return 0;
	return kb * 1024;
}

void hf_check_overcommit(struct hf_patient *patient)
{
	char committed_text[HF_DOCTOR_SIZE_LEN], limit_text[HF_DOCTOR_SIZE_LEN];
	char needed_text[HF_DOCTOR_SIZE_LEN];
	uint64_t mode, limit, committed, needed;
	struct hf_check *check;

	if (!hf_doctor_number("/proc/sys/vm/overcommit_memory", &mode)) {
		hf_checkup_add(patient->checkup, "overcommit",
			       HF_VERDICT_UNKNOWN, "not visible");
		return;
	}
	if (mode != 2) {
		hf_checkup_add(patient->checkup, "overcommit", HF_VERDICT_OK,
			       "vm.overcommit_memory is %" PRIu64 ": the "
			       "kernel promises memory for the fork freely",
			       mode);
		return;
	}
	limit = meminfo("CommitLimit");
	committed = meminfo("Committed_AS");
	if (!patient->has_account || !limit) {
		hf_checkup_add(patient->checkup, "overcommit",
			       HF_VERDICT_UNKNOWN, "vm.overcommit_memory is "
			       "2; the needs of the process are not visible");
		return;
	}
	needed = patient->account.committed_bytes;
	check = hf_checkup_add(
		patient->checkup, "overcommit", HF_VERDICT_OK,
		"vm.overcommit_memory is 2: %s of %s are promised, the fork "
		"needs %s",
		hf_patient_size(patient, committed, committed_text),
		hf_patient_size(patient, limit, limit_text),
		hf_patient_size(patient, needed, needed_text));
	hf_check_value(check, limit > committed ? limit - committed : 0,
		       "bytes");
	if (committed <= limit && needed <= limit - committed)
		return;
	hf_check_block(check, HF_ERROR_OS);
	hf_check_cause(check, "the kernel promises memory for a whole second "
		       "copy, or refuses the fork with ENOMEM");
	hf_check_fix(check, "%s: sysctl vm.overcommit_memory=0, or a larger "
		     "vm.overcommit_ratio; or add swap",
		     patient->place.container == HF_CONTAINER_NONE ?
			     "as root" : "as root of the machine");
	hf_check_fix_by_stop(check);
}

/* What is left where it is tightest, against what the child needs. */
static void judge_room(struct hf_patient *patient, struct hf_check *check,
		       const struct hf_headroom_state *state)
{
	const struct hf_prediction *prediction = &patient->prediction;
	uint64_t spare = state->spare_bytes > 0 ?
				 (uint64_t)state->spare_bytes : 0;
	char keep[HF_DOCTOR_SIZE_LEN], child[HF_DOCTOR_SIZE_LEN];
	char most[HF_DOCTOR_SIZE_LEN];
	const char *where = state->where[0] ? "in that cgroup" :
					      "on the machine";

	hf_check_value(check, spare, "bytes");
	if (!patient->has_prediction)
		return;
	hf_patient_size(patient, state->keep_bytes, keep);
	hf_patient_size(patient, prediction->child_bytes, child);
	hf_patient_size(patient, prediction->most_bytes, most);
	if (spare < prediction->child_bytes) {
		hf_check_block(check, HF_ERROR_NO_SPACE);
		hf_check_cause(check, "the child needs %s before the process "
			       "has written anything; less than the %s that "
			       "have to stay free would be left", child, keep);
		hf_check_fix(check, "free memory %s, or raise the limit",
			     where);
		hf_check_fix_by_stop(check);
	} else if (spare < prediction->most_bytes) {
		check->verdict = HF_VERDICT_WARNING;
		hf_check_cause(check, "if the process writes to all of its "
			       "memory while the child is read, that takes "
			       "%s; %s have to stay free", most, keep);
		hf_check_fix(check, "take the snapshot when it writes less, "
			     "or free memory %s", where);
		hf_check_fix_by_stop(check);
	}
}

void hf_check_headroom(struct hf_patient *patient)
{
	HF_AUTO(hf_headroom) struct hf_headroom *headroom = NULL;
	HF_AUTO_FREE struct hf_headroom_state *state =
		calloc(1, sizeof(*state));
	char size[HF_DOCTOR_SIZE_LEN];
	struct hf_check *check;
	struct hf_error *err;

	if (!state) {
		patient->checkup->no_memory = true;
		return;
	}
	err = hf_headroom_open(patient->pid, NULL, &headroom);
	if (!err)
		err = hf_headroom_read(headroom,
				       patient->options->keep_free_bytes,
				       patient->prediction.most_bytes, state);
	if (err) {
		hf_error_ignore(err);
		hf_checkup_add(patient->checkup, "headroom",
			       HF_VERDICT_UNKNOWN, "not visible");
		return;
	}
	check = hf_checkup_add(patient->checkup, "headroom", HF_VERDICT_OK,
			       "%s are free %s%s%s, the tightest place",
			       hf_patient_size(patient, state->free_bytes,
					       size),
			       state->where[0] ? "in cgroup '" :
						 "on the machine",
			       state->where, state->where[0] ? "'" : "");
	judge_room(patient, check, state);
}

void hf_check_swap(struct hf_patient *patient)
{
	uint64_t swapped = patient->account.swap_bytes;
	char size[HF_DOCTOR_SIZE_LEN];
	struct hf_check *check = hf_checkup_add(
		patient->checkup, "swap", HF_VERDICT_OK,
		"%s of swap are free on the machine",
		hf_patient_size(patient, meminfo("SwapFree"), size));

	if (!patient->has_account || swapped < MIB)
		return;
	check->verdict = HF_VERDICT_WARNING;
	hf_check_value(check, swapped, "bytes");
	hf_check_cause(check, "%s of the process are in swap: they have to be "
		       "read from there, which takes memory and time",
		       hf_patient_size(patient, swapped, size));
}

void hf_check_cost(struct hf_patient *patient)
{
	char child[HF_DOCTOR_SIZE_LEN], most[HF_DOCTOR_SIZE_LEN];
	struct hf_check *check;

	if (!patient->has_prediction) {
		hf_checkup_add(patient->checkup, "memory", HF_VERDICT_UNKNOWN,
			       "cannot be predicted");
		return;
	}
	check = hf_checkup_add(
		patient->checkup, "memory", HF_VERDICT_OK,
		"the child takes about %s for page tables; at most %s if the "
		"process writes to all of its memory meanwhile",
		hf_patient_size(patient, patient->prediction.child_bytes,
				child),
		hf_patient_size(patient, patient->prediction.most_bytes,
				most));
	hf_check_value(check, patient->prediction.most_bytes, "bytes");
}
