/* Descendants: a process and those that come from it.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/descendants.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "fork-agent/proc_task.h"
#include "util/array.h"
#include "util/file.h"

struct process {
	struct hf_descendant self;
	pid_t parent;
	char state;
};

struct process_list {
	HF_ARRAY(struct process) all;
};

static struct hf_error *list_all(struct process_list *list)
{
	struct hf_error *err = NULL;
	struct dirent *entry;
	DIR *dir = opendir("/proc");

	if (!dir)
		return hf_error_os(errno, "cannot list '/proc'");
	while (!err && (entry = readdir(dir))) {
		pid_t pid = (pid_t)strtol(entry->d_name, NULL, 10);
		struct hf_proc_stat stat;
		struct process process;

		if (pid <= 0)
			continue;
		if ((err = hf_proc_stat_read(pid, 0, &stat))) {
			hf_error_ignore(err); /* it ended */
			err = NULL;
			continue;
		}
		process = (struct process){
			.self = { .pid = pid, .start_time = stat.start_time },
			.parent = stat.parent,
			.state = stat.state,
		};
		memcpy(process.self.name, stat.name, sizeof(stat.name));
		err = hf_array_append(&list->all, process);
	}
	closedir(dir);
	return err;
}

static bool is_same_program(pid_t tid)
{
	struct stat own, other;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/exe", tid);
	return stat("/proc/self/exe", &own) == 0 && stat(path, &other) == 0 &&
	       own.st_dev == other.st_dev && own.st_ino == other.st_ino;
}

static bool is_first_for_oom(pid_t pid)
{
	HF_AUTO_FREE char *text = NULL;
	struct hf_error *err;
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/oom_score_adj", pid);
	err = hf_read_file(path, &text, NULL);
	hf_error_ignore(err);
	return !err && atoi(text) == 1000;
}

static bool has_no_descriptors(pid_t pid)
{
	struct dirent *entry;
	bool any = false;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/fd", pid);
	dir = opendir(path);
	if (!dir)
		return false;
	while ((entry = readdir(dir)))
		any |= entry->d_name[0] != '.';
	closedir(dir);
	return !any;
}

/* The child of a capture stands in a stop for its tracer, and is given up
 * first when memory is short. Its tracer is this program, or another build of
 * it: then the child has no descriptors, as nothing else that is traced. */
static bool is_frozen(const struct process *process)
{
	struct hf_proc_status status;
	struct hf_error *err;

	if (process->state != 't')
		return false;
	err = hf_proc_status_read(process->self.pid, 0, &status);
	if (err) {
		hf_error_ignore(err);
		return false;
	}
	return status.tracer && is_first_for_oom(process->self.pid) &&
	       (is_same_program(status.tracer) ||
		has_no_descriptors(process->self.pid));
}

static int compare_pids(const void *a, const void *b)
{
	const struct process *x = a, *y = b;

	return x->self.pid < y->self.pid ? -1 : x->self.pid > y->self.pid;
}

struct hf_error *hf_descendants_list(pid_t pid, struct hf_descendant **ret,
				     size_t *num_ret)
{
	HF_ARRAY(struct hf_descendant) found = { 0 };
	struct process_list list = { 0 };
	struct hf_error *err = list_all(&list);

	if (!err && list.all.num)
		qsort(list.all.data, list.all.num, sizeof(*list.all.data),
		      compare_pids);
	for (size_t i = 0; i < list.all.num && !err; i++)
		if (list.all.data[i].self.pid == pid)
			err = hf_array_append(&found, list.all.data[i].self);
	if (!err && !found.num)
		err = hf_error_create(HF_ERROR_TARGET_GONE,
				      "no process with pid %d", pid);
	/* Each process has one parent, so none is found twice. */
	for (size_t at = 0; at < found.num && !err; at++) {
		for (size_t i = 0; i < list.all.num && !err; i++) {
			const struct process *process = &list.all.data[i];

			if (process->parent != found.data[at].pid ||
			    process->self.pid == pid ||
			    process->self.pid == getpid() ||
			    process->state == 'Z' || process->state == 'X' ||
			    is_frozen(process))
				continue;
			err = hf_array_append(&found, process->self);
		}
	}
	hf_array_deinit(&list.all);
	if (err) {
		hf_array_deinit(&found);
		return err;
	}
	*ret = found.data;
	*num_ret = found.num;
	return NULL;
}
