/* Modules: what security modules and system call filters say.
 * SPDX-License-Identifier: MIT */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "fork-agent/doctor/patient.h"
#include "fork-agent/permission.h"

void hf_check_yama(struct hf_patient *patient)
{
	int scope = hf_permission_yama_scope();
	bool can = hf_patient_we_can(patient, HF_CAP_SYS_PTRACE);
	struct hf_check *check;

	if (scope <= 0) {
		hf_checkup_add(patient->checkup, "yama", HF_VERDICT_OK, "%s",
			       scope < 0 ? "not in this kernel" :
					   "kernel.yama.ptrace_scope is 0");
		return;
	}
	check = hf_checkup_add(patient->checkup, "yama", HF_VERDICT_OK,
			       "kernel.yama.ptrace_scope is %d%s", scope,
			       scope < 3 && can ? "; we have CAP_SYS_PTRACE" :
			       scope == 1 && patient->attach_works ?
				       "; it is a descendant of ours, or has "
				       "named us (PR_SET_PTRACER)" : "");
	if (scope < 3 && (can || (scope == 1 && patient->attach_works)))
		return;
	hf_check_block(check, HF_ERROR_PERMISSION);
	if (scope >= 3) {
		hf_check_cause(check, "nobody may trace, until the next boot");
		hf_check_fix(check, "boot the machine with another "
			     "kernel.yama.ptrace_scope");
		return;
	}
	hf_check_cause(check, "%s", scope == 2 ?
			       "only processes with CAP_SYS_PTRACE may trace" :
			       "without CAP_SYS_PTRACE a process may trace its "
			       "own descendants only");
	if (scope == 1 && patient->place.container == HF_CONTAINER_NONE)
		hf_check_fix(check, "%s, or for the whole machine: sysctl "
			     "kernel.yama.ptrace_scope=0",
			     hf_place_gain_ptrace(&patient->place));
	else
		hf_check_fix(check, "%s",
			     hf_place_gain_ptrace(&patient->place));
}

void hf_check_labels(struct hf_patient *patient)
{
	char who[16], own[128], target[128];
	struct hf_check *check;
	bool selinux;

	snprintf(who, sizeof(who), "%d", patient->pid);
	hf_permission_label("self", own, sizeof(own));
	hf_permission_label(who, target, sizeof(target));
	if (!own[0] && !target[0]) {
		hf_checkup_add(patient->checkup, "security-module",
			       HF_VERDICT_OK, "no labels (no AppArmor, no "
			       "SELinux)");
		return;
	}
	check = hf_checkup_add(patient->checkup, "security-module",
			       HF_VERDICT_OK, "we are '%s', it is '%s'",
			       own[0] ? own : "?", target[0] ? target : "?");
	if (patient->attach_works)
		return;
	/* Of what is forbidden nothing can be read; it may be innocent. */
	check->verdict = HF_VERDICT_UNKNOWN;
	/* user:role:type:level against "profile (mode)". */
	selinux = strchr(target[0] ? target : own, ':') &&
		  !strchr(target[0] ? target : own, '(');
	hf_check_cause(check, "%s may forbid the one to trace the other; if "
		       "no other check is a blocker, it does",
		       selinux ? "SELinux" : "AppArmor");
	hf_check_fix(check, selinux ?
			     "see ausearch -m avc for 'ptrace'; allow it there "
			     "(boolean deny_ptrace must be off)" :
			     "see dmesg for apparmor=\"DENIED\" "
			     "operation=\"ptrace\"; run heapfork unconfined "
			     "(container: --security-opt "
			     "apparmor=unconfined), or allow ptrace in both "
			     "profiles");
}

void hf_check_own_seccomp(struct hf_patient *patient)
{
	if (!patient->own.seccomp)
		hf_checkup_add(patient->checkup, "own-seccomp", HF_VERDICT_OK,
			       "no system call of ours is filtered");
	else
		hf_checkup_add(patient->checkup, "own-seccomp", HF_VERDICT_OK,
			       "our system calls are filtered; what matters "
			       "of it are ptrace, reading and target-seccomp");
}

void hf_check_target_seccomp(struct hf_patient *patient)
{
	int error = patient->lab.suspend_error;
	struct hf_check *check;

	if (!patient->target.seccomp) {
		hf_checkup_add(patient->checkup, "target-seccomp",
			       HF_VERDICT_OK, "its system calls are not "
			       "filtered");
		return;
	}
	check = hf_checkup_add(patient->checkup, "target-seccomp",
			       HF_VERDICT_OK, "it is under seccomp (%s)%s",
			       patient->target.seccomp == 1 ? "strict" :
							      "filter",
			       error == 0 ? ", which we may suspend" : "");
	if (error == 0)
		return;
	if (error < 0) {
		check->verdict = HF_VERDICT_UNKNOWN;
		hf_check_cause(check, "whether we may suspend it could not be "
			       "tried");
		return;
	}
	hf_check_block(check, error == EPERM ? HF_ERROR_PERMISSION :
					       HF_ERROR_UNSUPPORTED);
	if (error != EPERM) {
		hf_check_cause(check, "this kernel cannot suspend seccomp "
			       "(CONFIG_CHECKPOINT_RESTORE is off), and its "
			       "filter may kill it for the fork");
		hf_check_fix_by_stop(check);
		return;
	}
	hf_check_cause(check, "suspending it for the fork needs CAP_SYS_ADMIN "
		       "of the machine and a tracer without a filter of its "
		       "own; we have %s%s%s",
		       hf_patient_we_can(patient, HF_CAP_SYS_ADMIN) ?
			       "CAP_SYS_ADMIN" : "no CAP_SYS_ADMIN",
		       patient->place.own_user_namespace ?
			       " (of our user namespace only)" : "",
		       patient->own.seccomp ? ", and a filter" : "");
	hf_check_fix(check, "%s", hf_permission_gain_suspend(&patient->place,
							     &patient->own));
	hf_check_fix_by_stop(check);
}

void hf_check_ptrace(struct hf_patient *patient)
{
	const struct hf_lab *lab = &patient->lab;
	bool killed = lab->signal == SIGSYS && lab->step == HF_LAB_PTRACE;
	struct hf_check *check;

	if (!killed && lab->ptrace_error < 0) {
		hf_checkup_add(patient->checkup, "ptrace", HF_VERDICT_UNKNOWN,
			       "could not be tried on a process of our own");
		return;
	}
	if (!killed && lab->ptrace_error == 0) {
		hf_checkup_add(patient->checkup, "ptrace", HF_VERDICT_OK,
			       "works on a process of our own");
		return;
	}
	check = hf_checkup_add(patient->checkup, "ptrace", HF_VERDICT_BLOCKER,
			       "does not even work on a process of our own: "
			       "%s", killed ? "the attempt is killed" :
					      strerror(lab->ptrace_error));
	hf_check_block(check, HF_ERROR_PERMISSION);
	if (!killed && hf_permission_yama_scope() >= 2) {
		hf_check_cause(check, "Yama forbids it: see there");
		return;
	}
	if (!patient->own.seccomp) {
		hf_check_cause(check, "no filter of system calls is the "
			       "reason: a security module, or a sandbox "
			       "without ptrace (as gVisor)");
		hf_check_fix(check, "%s",
			     hf_place_go_outside(&patient->place));
		return;
	}
	hf_check_cause(check, "a seccomp filter on heapfork itself forbids "
		       "it");
	hf_check_fix(check, "%s", hf_place_escape_seccomp(&patient->place));
}

void hf_check_reading(struct hf_patient *patient)
{
	const struct hf_lab *lab = &patient->lab;
	bool killed = lab->signal == SIGSYS && lab->step == HF_LAB_READ;

	if (!killed && lab->readv_error < 0)
		hf_checkup_add(patient->checkup, "process_vm_readv",
			       HF_VERDICT_UNKNOWN, "could not be tried");
	else if (!killed && lab->readv_error == 0)
		hf_checkup_add(patient->checkup, "process_vm_readv",
			       HF_VERDICT_OK, "works, but is not needed: "
			       "memory is read from /proc/PID/mem");
	else
		hf_checkup_add(patient->checkup, "process_vm_readv",
			       HF_VERDICT_OK, "is forbidden (%s), which does "
			       "not matter: memory is read from "
			       "/proc/PID/mem",
			       killed ? "it kills" :
					strerror(lab->readv_error));
}
