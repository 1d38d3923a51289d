/* Limits: may the target have one process more?
 * SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "fork-agent/cgroup.h"
#include "fork-agent/doctor/patient.h"
#include "fork-agent/reap_left.h"
#include "util/file.h"

/* The kernel asks in this order (Linux 6.18 kernel/fork.c copy_process):
 * RLIMIT_NPROC of the real user, unless the process is root's or has
 * CAP_SYS_RESOURCE or CAP_SYS_ADMIN; kernel.threads-max; pids.max of each
 * cgroup on the way up; kernel.pid_max of each pid namespace. All count
 * threads. It says EAGAIN to each. */

static struct hf_check *no_more(struct hf_check *check)
{
	hf_check_block(check, HF_ERROR_OS);
	return hf_check_cause(check, "the fork needs one process more: it "
			      "would fail with EAGAIN");
}

/* The soft limit of "Max processes  SOFT  HARD  processes". */
static bool soft_limit(pid_t pid, uint64_t *ret)
{
	static const char name[] = "Max processes";
	HF_AUTO_FREE char *text = NULL;
	char path[64];
	const char *line;

	snprintf(path, sizeof(path), "/proc/%d/limits", pid);
	hf_error_ignore(hf_read_file(path, &text, NULL));
	line = text ? strstr(text, name) : NULL;
	if (!line)
		return false;
	line += strlen(name);
	line += strspn(line, " ");
	*ret = line[0] >= '0' && line[0] <= '9' ? strtoull(line, NULL, 10) :
						  UINT64_MAX;
	return true;
}

/* Threads of all processes of a real user that can be seen. */
static uint64_t count_user(uid_t uid)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	uint64_t num = 0;

	while (dir && (entry = readdir(dir))) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
		struct hf_proc_status status;
		struct hf_proc_stat stat;
		struct hf_error *err;

		if (pid <= 0)
			continue;
		err = hf_proc_status_read(pid, 0, &status);
		if (!err && status.uid[0] == uid) {
			err = hf_proc_stat_read(pid, 0, &stat);
			if (!err)
				num += stat.num_threads;
		}
		hf_error_ignore(err);
	}
	if (dir)
		closedir(dir);
	return num;
}

void hf_check_processes(struct hf_patient *patient)
{
	const uint64_t exempt = UINT64_C(1) << HF_CAP_SYS_RESOURCE |
				UINT64_C(1) << HF_CAP_SYS_ADMIN;
	uint64_t limit, used;
	struct hf_check *check;

	if (!soft_limit(patient->live_tid, &limit)) {
		hf_checkup_add(patient->checkup, "user-processes",
			       HF_VERDICT_UNKNOWN, "not visible");
		return;
	}
	if (limit == UINT64_MAX || patient->target.uid[0] == 0 ||
	    (patient->target.cap_effective & exempt)) {
		hf_checkup_add(patient->checkup, "user-processes",
			       HF_VERDICT_OK, "no limit holds for it "
			       "(RLIMIT_NPROC)");
		return;
	}
	used = count_user(patient->target.uid[0]);
	check = hf_checkup_add(patient->checkup, "user-processes",
			       HF_VERDICT_OK, "uid %u has %" PRIu64
			       " threads of %" PRIu64 " (RLIMIT_NPROC)",
			       patient->target.uid[0], used, limit);
	hf_check_value(check, limit > used ? limit - used : 0, "threads");
	if (used < limit)
		return;
	no_more(check);
	hf_check_fix(check, "raise the limit of the running process: prlimit "
		     "--pid %d --nproc=%" PRIu64 ":", patient->pid, used + 64);
	hf_check_fix_by_stop(check);
}

void hf_check_pids_cgroup(struct hf_patient *patient)
{
	HF_AUTO_FREE struct hf_cgroup *cgroup = malloc(sizeof(*cgroup));
	HF_AUTO_FREE struct hf_cgroup_room *room = malloc(sizeof(*room));
	struct hf_check *check;

	if (!cgroup || !room) {
		patient->checkup->no_memory = true;
		return;
	}
	if (!hf_cgroup_of(patient->pid, "pids", cgroup)) {
		hf_checkup_add(patient->checkup, "cgroup-pids",
			       HF_VERDICT_UNKNOWN, "its cgroup is not visible "
			       "from here");
		return;
	}
	hf_cgroup_pids(cgroup, room);
	if (!room->has_limit) {
		hf_checkup_add(patient->checkup, "cgroup-pids", HF_VERDICT_OK,
			       "no limit (pids.max)");
		return;
	}
	check = hf_checkup_add(patient->checkup, "cgroup-pids", HF_VERDICT_OK,
			       "%" PRIu64 " of %" PRIu64 " (pids.max of '%s')",
			       room->used, room->limit, room->dir);
	hf_check_value(check, room->left, "threads");
	if (room->left)
		return;
	no_more(check);
	if (patient->place.container == HF_CONTAINER_NONE)
		hf_check_fix(check, "raise it: echo %" PRIu64 " > '%s/pids.max'"
			     " (systemd: TasksMax=)", room->used + 64,
			     room->dir);
	else
		hf_check_fix(check, "raise it from outside (Docker: "
			     "--pids-limit, Kubernetes: podPidsLimit of the "
			     "kubelet)");
	hf_check_fix_by_stop(check);
}

/* All threads of the machine: the fourth field of loadavg, "2/734". */
static bool machine_threads(uint64_t *ret)
{
	HF_AUTO_FREE char *text = NULL;
	const char *slash;

	hf_error_ignore(hf_read_file("/proc/loadavg", &text, NULL));
	slash = text ? strchr(text, '/') : NULL;
	if (!slash)
		return false;
	*ret = strtoull(slash + 1, NULL, 10);
	return true;
}

void hf_check_machine_pids(struct hf_patient *patient)
{
	uint64_t pid_max = UINT64_MAX, threads_max = UINT64_MAX, used, limit;
	struct hf_check *check;

	hf_doctor_number("/proc/sys/kernel/pid_max", &pid_max);
	hf_doctor_number("/proc/sys/kernel/threads-max", &threads_max);
	limit = pid_max < threads_max ? pid_max : threads_max;
	if (limit == UINT64_MAX || !machine_threads(&used)) {
		hf_checkup_add(patient->checkup, "machine-pids",
			       HF_VERDICT_UNKNOWN, "not visible");
		return;
	}
	check = hf_checkup_add(patient->checkup, "machine-pids", HF_VERDICT_OK,
			       "%" PRIu64 " threads of %" PRIu64 " (%s)", used,
			       limit, pid_max < threads_max ?
					      "kernel.pid_max" :
					      "kernel.threads-max");
	hf_check_value(check, limit > used ? limit - used : 0, "threads");
	if (used + 1 < limit)
		return;
	no_more(check);
	hf_check_fix(check, "as root of the machine: sysctl kernel.pid_max=... "
		     "kernel.threads-max=...");
	hf_check_fix_by_stop(check);
}

void hf_check_left(struct hf_patient *patient)
{
	uint32_t num;
	struct hf_error *err = hf_reap_left_count(patient->pid, &num);
	struct hf_check *check;

	if (err) {
		hf_error_ignore(err);
		hf_checkup_add(patient->checkup, "left-behind",
			       HF_VERDICT_UNKNOWN, "not visible");
		return;
	}
	check = hf_checkup_add(patient->checkup, "left-behind", HF_VERDICT_OK,
			       "%" PRIu32 " dead children that look like those "
			       "of killed snapshots", num);
	hf_check_value(check, num, "processes");
	if (!num)
		return;
	check->verdict = HF_VERDICT_WARNING;
	hf_check_cause(check, "heapfork was killed before the process had "
		       "reaped them; each takes a pid, and no memory");
	hf_check_fix(check, "heapfork doctor --reap %d", patient->pid);
}
