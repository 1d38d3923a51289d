/* Patient: what the checks share. Private to this folder.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_DOCTOR_PATIENT_H
#define HF_FORK_AGENT_DOCTOR_PATIENT_H

#include "fork-agent/doctor/doctor.h"
#include "fork-agent/place.h"
#include "fork-agent/preflight.h"
#include "fork-agent/proc_task.h"

/* Adding a check: a function here, in the file of its subject and in the order
 * of doctor.c; a line in heapfork-doctor(1); a cell in test_permissions.py if
 * it is about a right. A check says what it found even if all is well, judges
 * only what it knows, and gives a fix that works for this user in this place;
 * without one, none. */

enum { HF_CAP_SYS_ADMIN = 21, HF_CAP_SYS_PTRACE = 19, HF_CAP_SYS_NICE = 23,
       HF_CAP_SYS_RESOURCE = 24 };

struct hf_patient {
	const struct hf_doctor_options *options;
	pid_t pid;
	pid_t live_tid;            /* a thread that has memory */
	struct hf_place place;
	struct hf_proc_status own, target;
	char *status;              /* text of the target's status; or NULL */
	struct hf_lab lab;
	bool attach_works;         /* the kernel lets us, as far as it says */
	bool has_account;
	struct hf_memory_account account;
	bool has_threads;
	struct hf_thread_count threads;
	bool has_prediction;
	struct hf_prediction prediction;
	struct hf_checkup *checkup; /* borrowed */
};

static inline bool hf_patient_we_can(const struct hf_patient *patient,
				     int capability)
{
	return patient->own.cap_effective >> capability & 1;
}

/** The value of a line of the target's status as a number; `missing` if there
 * is no such line. */
uint64_t hf_patient_field(const struct hf_patient *patient, const char *name,
			  uint64_t missing);

enum { HF_DOCTOR_SIZE_LEN = 32 };

/** A size in the style that was asked for, in `buf`, which is returned. */
const char *hf_patient_size(const struct hf_patient *patient, uint64_t bytes,
			    char buf[HF_DOCTOR_SIZE_LEN]);

/** A number in a file, as of /proc/sys. @return false: not there. */
bool hf_doctor_number(const char *path, uint64_t *ret);

/** A line of a file like /proc/meminfo, "Name:  123 kB". @return false: not
 * there. */
bool hf_doctor_field(const char *text, const char *name, uint64_t *ret);

/* rights.c: may we? */
void hf_check_place(struct hf_patient *patient);
void hf_check_attach(struct hf_patient *patient, struct hf_error *refusal);
void hf_check_user(struct hf_patient *patient);
void hf_check_capabilities(struct hf_patient *patient);
void hf_check_user_namespace(struct hf_patient *patient);
void hf_check_dumpable(struct hf_patient *patient);
void hf_check_tracer(struct hf_patient *patient);
void hf_check_priority(struct hf_patient *patient);

/* modules.c: security modules and filters */
void hf_check_yama(struct hf_patient *patient);
void hf_check_labels(struct hf_patient *patient);
void hf_check_own_seccomp(struct hf_patient *patient);
void hf_check_target_seccomp(struct hf_patient *patient);
void hf_check_ptrace(struct hf_patient *patient);
void hf_check_reading(struct hf_patient *patient);

/* program.c: what kind of program is it? */
void hf_check_pids(struct hf_patient *patient);
void hf_check_threads(struct hf_patient *patient);
void hf_check_dispatch(struct hf_patient *patient);
void hf_check_shadow_stack(struct hf_patient *patient);
void hf_check_way_home(struct hf_patient *patient);
void hf_check_allocator(struct hf_patient *patient);
void hf_check_not_copied(struct hf_patient *patient);
void hf_check_pinned(struct hf_patient *patient);

/* limits.c: may it fork? */
void hf_check_processes(struct hf_patient *patient);
void hf_check_pids_cgroup(struct hf_patient *patient);
void hf_check_machine_pids(struct hf_patient *patient);
void hf_check_left(struct hf_patient *patient);

/* memory.c: is there memory for it? */
void hf_check_overcommit(struct hf_patient *patient);
void hf_check_headroom(struct hf_patient *patient);
void hf_check_swap(struct hf_patient *patient);
void hf_check_cost(struct hf_patient *patient);

/* kernel.c: what this kernel can do */
void hf_check_pagemap_scan(struct hf_patient *patient);
void hf_check_pause(struct hf_patient *patient);


/* wishes.c: what only a capture with these options needs */
void hf_check_prepare(struct hf_patient *patient);
void hf_check_spool(struct hf_patient *patient);
void hf_check_disk(struct hf_patient *patient);

#endif
