/* Doctor: everything that could be in the way of a capture, found beforehand.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/doctor/doctor.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "fork-agent/doctor/patient.h"
#include "fork-agent/permission.h"
#include "util/file.h"
#include "util/format.h"

static const struct {
	void (*run)(struct hf_patient *patient);
	bool fork_only; /* nothing to a capture that makes nobody fork */
} checks[] = {
	/* In the order in which a capture meets them. What can refuse it
	 * beforehand ... */
	{ hf_check_tracer, false },
	{ hf_check_user, false },
	{ hf_check_capabilities, false },
	{ hf_check_user_namespace, false },
	{ hf_check_dumpable, false },
	{ hf_check_yama, false },
	{ hf_check_labels, false },
	{ hf_check_own_seccomp, false },
	{ hf_check_ptrace, false },
	{ hf_check_pause, false },
	/* ... when its threads stand ... */
	{ hf_check_target_seccomp, true },
	{ hf_check_dispatch, true },
	/* ... when it forks ... */
	{ hf_check_processes, true },
	{ hf_check_pids_cgroup, true },
	{ hf_check_machine_pids, true },
	{ hf_check_overcommit, true },
	{ hf_check_headroom, true },
	/* ... and what makes it worse. */
	{ hf_check_cost, true },
	{ hf_check_swap, false },
	{ hf_check_threads, false },
	{ hf_check_priority, false },
	{ hf_check_shadow_stack, true },
	{ hf_check_way_home, true },
	{ hf_check_pinned, true },
	{ hf_check_not_copied, false },
	{ hf_check_allocator, false },
	{ hf_check_left, false },
	{ hf_check_pids, false },
	{ hf_check_reading, false },
	{ hf_check_pagemap_scan, false },
	/* What was asked for besides. */
	{ hf_check_prepare, true },
	{ hf_check_spool, true },
	{ hf_check_disk, false },
};

bool hf_doctor_field(const char *text, const char *name, uint64_t *ret)
{
	size_t len = strlen(name);

	for (const char *line = text; *line;) {
		const char *end = strchrnul(line, '\n');

		if (!strncmp(line, name, len) && line[len] == ':') {
			*ret = strtoull(line + len + 1, NULL, 10);
			return true;
		}
		line = *end ? end + 1 : end;
	}
	return false;
}

const char *hf_patient_size(const struct hf_patient *patient, uint64_t bytes,
			    char buf[HF_DOCTOR_SIZE_LEN])
{
	if (patient->options->exact_bytes)
		snprintf(buf, HF_DOCTOR_SIZE_LEN, "%" PRIu64 " bytes", bytes);
	else
		hf_format_bytes(bytes > INT64_MAX ? INT64_MAX : (int64_t)bytes,
				buf, HF_DOCTOR_SIZE_LEN);
	return buf;
}

bool hf_doctor_number(const char *path, uint64_t *ret)
{
	HF_AUTO_FREE char *text = NULL;

	hf_error_ignore(hf_read_file(path, &text, NULL));
	if (!text || text[0] < '0' || text[0] > '9')
		return false;
	*ret = strtoull(text, NULL, 10);
	return true;
}

uint64_t hf_patient_field(const struct hf_patient *patient, const char *name,
			  uint64_t missing)
{
	uint64_t value;

	return patient->status &&
		       hf_doctor_field(patient->status, name, &value) ?
	       value : missing;
}

/* What all checks look at. What cannot be had is left out: the checks say
 * so. */
static void examine(struct hf_patient *patient)
{
	long num_cpus = sysconf(_SC_NPROCESSORS_ONLN);
	struct hf_error *err;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", patient->live_tid);
	hf_error_ignore(hf_read_file(path, &patient->status, NULL));
	err = hf_lab_run(HF_LAB_DONE, &patient->lab);
	if (err)
		patient->lab = (struct hf_lab){
			.ptrace_error = -1, .suspend_error = -1,
			.readv_error = -1, .fifo_error = -1,
		};
	hf_error_ignore(err);
	err = hf_memory_account_read(patient->live_tid, &patient->account);
	patient->has_account = !err;
	hf_error_ignore(err);
	err = hf_thread_count_read(patient->pid, &patient->threads);
	patient->has_threads = !err;
	hf_error_ignore(err);
	patient->has_prediction = patient->has_account &&
				  patient->has_threads &&
				  hf_predict_can(&patient->lab);
	if (patient->has_prediction)
		hf_predict_from(&patient->lab, &patient->account,
				&patient->threads,
				num_cpus > 0 ? (uint32_t)num_cpus : 1,
				&patient->prediction);
}

/* The same look as a capture's own. */
static struct hf_error *look(struct hf_patient *patient)
{
	struct hf_target target;
	struct hf_error *err = hf_preflight_check(patient->pid, &target);

	patient->live_tid = err ? patient->pid : target.live_tid;
	return err;
}

struct hf_error *hf_doctor_examine(const struct hf_doctor_options *options,
				   struct hf_checkup *ret,
				   struct hf_prediction *prediction_ret)
{
	struct hf_patient patient = {
		.options = options, .pid = options->pid, .checkup = ret,
	};
	struct hf_error *err = look(&patient), *other;

	*prediction_ret = (struct hf_prediction){ 0 };
	hf_place_find(&patient.place);
	if (err && err->code != HF_ERROR_PERMISSION) {
		hf_checkup_add_error(ret, "process", err);
		return ret->no_memory ? &hf_enomem : NULL;
	}
	other = hf_proc_status_read(getpid(), 0, &patient.own);
	if (!other)
		other = hf_proc_status_read(patient.live_tid, 0,
					    &patient.target);
	if (other) {
		/* The capture's own words, if it has any. */
		hf_error_ignore(err ? other : NULL);
		hf_checkup_add_error(ret, "process", err ? err : other);
		return ret->no_memory ? &hf_enomem : NULL;
	}
	hf_checkup_add(ret, "process", HF_VERDICT_OK,
		       "a 64-bit process with memory of its own");
	examine(&patient);
	patient.attach_works = !err && patient.lab.ptrace_error <= 0 &&
			       !(patient.lab.signal == SIGSYS);
	hf_check_place(&patient);
	hf_check_attach(&patient, err);
	for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]); i++)
		if (!checks[i].fork_only || options->mode == HF_CAPTURE_FORK)
			checks[i].run(&patient);
	free(patient.status);
	if (patient.has_prediction)
		*prediction_ret = patient.prediction;
	return ret->no_memory ? &hf_enomem : NULL;
}
