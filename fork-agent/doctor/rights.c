/* Rights: may this user, here, trace that process?
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "fork-agent/doctor/patient.h"
#include "fork-agent/permission.h"

/* Each rule of the kernel is looked at by itself (permission.c has their
 * list), also where another one refuses first: who cures only the first is
 * refused by the second. Whether the process can be attached to is known, so
 * a rule that would refuse, but does not, has an exception. */

void hf_check_place(struct hf_patient *patient)
{
	const struct hf_place *place = &patient->place;
	const char *name = hf_place_name(place);

	hf_checkup_add(patient->checkup, "place", HF_VERDICT_OK,
		       "heapfork runs as uid %u %s%s%s%s", place->uid,
		       name ? "in a container of " : "on the machine itself",
		       name ? name : "",
		       place->own_user_namespace ?
			       ", in a user namespace of its own" : "",
		       place->own_pid_namespace ?
			       ", in a pid namespace of its own" : "");
}

void hf_check_attach(struct hf_patient *patient, struct hf_error *refusal)
{
	if (refusal) {
		hf_checkup_add_error(patient->checkup, "attach", refusal);
		return;
	}
	hf_checkup_add(patient->checkup, "attach", HF_VERDICT_OK,
		       "the kernel lets us open its memory, which asks for "
		       "the same right as ptrace");
}

void hf_check_tracer(struct hf_patient *patient)
{
	struct hf_error *err = hf_permission_check_tracers(patient->pid);

	if (err) {
		hf_checkup_add_error(patient->checkup, "tracer", err);
		return;
	}
	hf_checkup_add(patient->checkup, "tracer", HF_VERDICT_OK,
		       "nobody traces it");
}

static bool same_ids(const struct hf_patient *patient)
{
	for (int i = 0; i < 3; i++)
		if (patient->target.uid[i] != patient->own.uid[0] ||
		    patient->target.gid[i] != patient->own.gid[0])
			return false;
	return true;
}

void hf_check_user(struct hf_patient *patient)
{
	bool same = same_ids(patient);
	bool can = hf_patient_we_can(patient, HF_CAP_SYS_PTRACE);
	struct hf_check *check = hf_checkup_add(
		patient->checkup, "user", HF_VERDICT_OK,
		"it runs as uid %u gid %u, we as uid %u gid %u%s",
		patient->target.uid[1], patient->target.gid[1],
		patient->own.uid[1], patient->own.gid[1],
		same ? "" : can ? ", with CAP_SYS_PTRACE" :
				  ", without CAP_SYS_PTRACE");

	if (!patient->attach_works && can &&
	    hf_permission_is_closed(patient->pid,
				    patient->own.cap_effective)) {
		hf_check_block(check, HF_ERROR_PERMISSION);
		hf_check_cause(check, "files of another user in /proc are "
			       "closed to us in spite of that: see attach");
		return;
	}
	if (same || can || patient->attach_works)
		return;
	hf_check_block(check, HF_ERROR_PERMISSION);
	hf_check_cause(check, "without CAP_SYS_PTRACE, all of its user and "
		       "group ids (real, effective, saved) must be ours");
	if (patient->place.container != HF_CONTAINER_NONE ||
	    patient->own.uid[0] == 0)
		hf_check_fix(check, "%s",
			     hf_place_gain_ptrace(&patient->place));
	else
		hf_check_fix(check, "run as root (sudo heapfork ...) or as "
			     "the process's own user");
}

void hf_check_capabilities(struct hf_patient *patient)
{
	bool can = hf_patient_we_can(patient, HF_CAP_SYS_PTRACE);
	uint64_t more = patient->target.cap_permitted &
			~patient->own.cap_permitted;
	struct hf_check *check = hf_checkup_add(
		patient->checkup, "capabilities", HF_VERDICT_OK,
		"we have %s, %s%s",
		can ? "CAP_SYS_PTRACE" : "no CAP_SYS_PTRACE",
		hf_patient_we_can(patient, HF_CAP_SYS_ADMIN) ?
			"CAP_SYS_ADMIN" : "no CAP_SYS_ADMIN",
		more ? "; it has some that we have not" : "");

	if (can || !more || patient->attach_works)
		return;
	hf_check_block(check, HF_ERROR_PERMISSION);
	hf_check_cause(check, "without CAP_SYS_PTRACE, it may have no "
		       "capability that we have not (CapPrm %llx)",
		       (unsigned long long)more);
	hf_check_fix(check, "%s", hf_place_gain_ptrace(&patient->place));
}

/* Of a namespace file; 0: it may not be seen. */
static uint64_t namespace_of(const char *who, const char *name)
{
	struct stat st;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%s/ns/%s", who, name);
	return stat(path, &st) == 0 ? (uint64_t)st.st_ino : 0;
}

void hf_check_user_namespace(struct hf_patient *patient)
{
	char who[16];
	uint64_t own = namespace_of("self", "user"), target;
	struct hf_check *check;

	snprintf(who, sizeof(who), "%d", patient->pid);
	target = namespace_of(who, "user");
	if (own == target || patient->attach_works) {
		hf_checkup_add(patient->checkup, "user-namespace",
			       HF_VERDICT_OK,
			       own == target ? "it is in ours" :
			       target ? "it is in another one, over which we "
					"have the right" :
					"it may not be seen");
		return;
	}
	if (!hf_patient_we_can(patient, HF_CAP_SYS_PTRACE) && !target) {
		hf_checkup_add(patient->checkup, "user-namespace",
			       HF_VERDICT_UNKNOWN, "it may not be seen");
		return;
	}
	check = hf_checkup_add(patient->checkup, "user-namespace",
			       HF_VERDICT_BLOCKER, "%s",
			       target ? "it is in another one than we are" :
					"we may not see it, although we have "
					"CAP_SYS_PTRACE in ours: probably it "
					"is another one");
	hf_check_block(check, HF_ERROR_PERMISSION);
	hf_check_cause(check, "a capability counts in its own user namespace "
		       "and those below it only");
	hf_check_fix(check, "%s", hf_place_go_outside(&patient->place));
}

void hf_check_dumpable(struct hf_patient *patient)
{
	uid_t uid = patient->target.uid[1];
	bool can = hf_patient_we_can(patient, HF_CAP_SYS_PTRACE);
	struct hf_check *check;

	if (uid == 0) {
		hf_checkup_add(patient->checkup, "dumpable",
			       can || patient->attach_works ?
				       HF_VERDICT_OK : HF_VERDICT_UNKNOWN,
			       "not visible for a program of root%s",
			       can ? "; with CAP_SYS_PTRACE it does not matter" :
				     "");
		return;
	}
	if (!hf_permission_is_undumpable(patient->pid, uid)) {
		hf_checkup_add(patient->checkup, "dumpable", HF_VERDICT_OK,
			       "it is");
		return;
	}
	check = hf_checkup_add(patient->checkup, "dumpable", HF_VERDICT_OK,
			       "it is not%s",
			       can ? "; with CAP_SYS_PTRACE it does not matter" :
				     "");
	if (can || patient->attach_works)
		return;
	hf_check_block(check, HF_ERROR_PERMISSION);
	hf_check_cause(check, "it called prctl(PR_SET_DUMPABLE, 0), has "
		       "changed its user id, or its program file may not be "
		       "read: then only CAP_SYS_PTRACE may look at it");
	hf_check_fix(check, "%s", hf_place_gain_ptrace(&patient->place));
}

void hf_check_priority(struct hf_patient *patient)
{
	struct hf_check *check;

	if (patient->lab.fifo_error < 0) {
		hf_checkup_add(patient->checkup, "priority",
			       HF_VERDICT_UNKNOWN, "not tried");
		return;
	}
	if (patient->lab.fifo_error == 0) {
		hf_checkup_add(patient->checkup, "priority", HF_VERDICT_OK,
			       "real-time priority for the pause is permitted");
		return;
	}
	check = hf_checkup_add(patient->checkup, "priority",
			       HF_VERDICT_WARNING,
			       "real-time priority for the pause is not "
			       "permitted (%s)",
			       strerror(patient->lab.fifo_error));
	hf_check_cause(check, "each thread that is let go may take the CPU "
		       "from us before the next one is: with many threads "
		       "the pause is longer");
	/* The kernel asks for the machine's. */
	if (patient->place.own_user_namespace)
		hf_check_fix(check, "%s", hf_place_go_outside(&patient->place));
	else if (patient->place.container != HF_CONTAINER_NONE)
		hf_check_fix(check, patient->place.uid ?
			     "run heapfork as root of the container, and give "
			     "that CAP_SYS_NICE" :
			     "give the container CAP_SYS_NICE");
	else if (patient->place.uid)
		hf_check_fix(check, "run as root, or raise the limit: ulimit "
			     "-r 10");
	else
		hf_check_fix(check, "give heapfork CAP_SYS_NICE; with "
			     "RT group scheduling, a cpu.rt_runtime_us of its "
			     "cgroup");
}
