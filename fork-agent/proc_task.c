/* What /proc says about one process or thread.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/proc_task.h"

#include <dirent.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

enum {
	PATH_BYTES = 64,
	/* stat and status are far smaller; a file that is not is cut. */
	TEXT_BYTES = 8192,
	NS_DEPTH_MAX = 33, /* pid namespaces are nested 32 deep */
};

static void task_path(char *buf, pid_t pid, pid_t tid, const char *file)
{
	if (tid)
		snprintf(buf, PATH_BYTES, "/proc/%d/task/%d/%s", pid, tid,
			 file);
	else
		snprintf(buf, PATH_BYTES, "/proc/%d/%s", pid, file);
}

/* On the stack and without malloc: some callers hold the target stopped. */
static struct hf_error *read_text(pid_t pid, pid_t tid, const char *file,
				  char text[TEXT_BYTES])
{
	char path[PATH_BYTES];
	size_t len = 0;

	task_path(path, pid, tid, file);

	HF_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 && errno != ENOENT && errno != ESRCH)
		return hf_error_os(errno, "cannot open '%s'", path);
	while (fd >= 0 && len < TEXT_BYTES - 1) {
		ssize_t n = read(fd, text + len, TEXT_BYTES - 1 - len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno != ESRCH)
			return hf_error_os(errno, "cannot read '%s'", path);
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	text[len] = '\0';
	if (len == 0)
		return hf_error_create(HF_ERROR_TARGET_GONE,
				       "no process with pid %d",
				       tid ? tid : pid);
	return NULL;
}

struct hf_error *hf_proc_stat_parse(const char *text, struct hf_proc_stat *ret)
{
	struct hf_proc_stat stat = { 0 };
	/* The name may contain anything, also parentheses and newlines: it
	 * ends at the last one. */
	const char *open_paren = strchr(text, '(');
	const char *close_paren = strrchr(text, ')');

	if (!open_paren || !close_paren || close_paren < open_paren)
		return hf_bad_data("stat has no name");

	size_t len = (size_t)(close_paren - open_paren - 1);

	if (len > sizeof(stat.name) - 1)
		len = sizeof(stat.name) - 1;
	memcpy(stat.name, open_paren + 1, len);

	/* proc(5): 3 state, 4 ppid, 9 flags, 10 minflt, 20 num_threads,
	 * 22 starttime, 23 vsize, 38 exit_signal, 52 exit_code (Linux 3.5). */
	if (sscanf(close_paren + 1,
		   " %c %d %*s %*s %*s %*s %" SCNu64 " %" SCNu64
		   " %*s %*s %*s %*s %*s %*s %*s %*s %*s %" SCNu64
		   " %*s %" SCNu64 " %" SCNu64
		   " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s"
		   " %*s %d"
		   " %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %*s %d",
		   &stat.state, &stat.parent, &stat.flags, &stat.minor_faults,
		   &stat.num_threads, &stat.start_time, &stat.memory_bytes,
		   &stat.exit_signal, &stat.exit_code) < 8)
		return hf_bad_data("stat has an unknown form");
	*ret = stat;
	return NULL;
}

/* Takes err, of a parser that does not know the process. */
static struct hf_error *name_process(struct hf_error *err, pid_t pid)
{
	return err ? hf_error_prefix(err, "/proc/%d", pid) : NULL;
}

struct hf_error *hf_proc_stat_read(pid_t pid, pid_t tid,
				   struct hf_proc_stat *ret)
{
	char text[TEXT_BYTES];
	struct hf_error *err = read_text(pid, tid, "stat", text);

	return err ? err : name_process(hf_proc_stat_parse(text, ret), pid);
}

static const char *field(const char *text, const char *name)
{
	size_t len = strlen(name);

	for (const char *line = text; line; line = strchr(line, '\n')) {
		if (*line == '\n')
			line++;
		if (!strncmp(line, name, len) && line[len] == ':')
			return line + len + 1;
	}
	return NULL;
}

/* Does the line contain the word? */
static bool line_has(const char *line, const char *word)
{
	const char *end = strchrnul(line, '\n');
	const char *hit = strstr(line, word);

	return hit && hit < end;
}

/* "Name:\tcomm", where a newline is written \n and a backslash \\. */
static void read_name(const char *text, char name[16])
{
	const char *at = field(text, "Name");
	size_t len = 0;

	if (!at)
		return;
	at += strspn(at, "\t");
	for (; *at && *at != '\n' && len < 15; at++) {
		char c = *at;

		if (c == '\\' && at[1] == '\\') {
			at++;
		} else if (c == '\\' && at[1] == 'n') {
			at++;
			c = '\n';
		}
		name[len++] = c;
	}
}

static uint64_t number_field(const char *text, const char *name, int base)
{
	const char *value = field(text, name);

	return value ? strtoull(value, NULL, base) : 0;
}

struct hf_error *hf_proc_status_parse(const char *text,
				      struct hf_proc_status *ret)
{
	struct hf_proc_status status = { 0 };
	const char *value;

	read_name(text, status.name);
	value = field(text, "State");
	if (value)
		sscanf(value, " %c", &status.state);
	status.signals_blocked = number_field(text, "SigBlk", 16);
	status.tgid = (pid_t)number_field(text, "Tgid", 10);
	status.tracer = (pid_t)number_field(text, "TracerPid", 10);
	status.cap_permitted = number_field(text, "CapPrm", 16);
	status.cap_effective = number_field(text, "CapEff", 16);
	status.signals_ignored = number_field(text, "SigIgn", 16);
	status.signals_caught = number_field(text, "SigCgt", 16);
	status.seccomp = (int)number_field(text, "Seccomp", 10);
	value = field(text, "x86_Thread_features");
	status.has_shadow_stack = value && line_has(value, "shstk");
	status.page_table_bytes = number_field(text, "VmPTE", 10) * 1024;
	status.has_memory = field(text, "VmSize") != NULL;
	value = field(text, "Uid");
	if (!value || sscanf(value, "%u %u %u", &status.uid[0],
			     &status.uid[1], &status.uid[2]) != 3)
		return hf_bad_data("status has no Uid");
	value = field(text, "Gid");
	if (!value || sscanf(value, "%u %u %u", &status.gid[0],
			     &status.gid[1], &status.gid[2]) != 3)
		return hf_bad_data("status has no Gid");
	*ret = status;
	return NULL;
}

struct hf_error *hf_proc_status_read(pid_t pid, pid_t tid,
				     struct hf_proc_status *ret)
{
	char text[TEXT_BYTES];
	struct hf_error *err = read_text(pid, tid, "status", text);

	return err ? err : name_process(hf_proc_status_parse(text, ret), pid);
}

size_t hf_proc_ns_pids_parse(const char *text, pid_t *ret, size_t max)
{
	const char *at = field(text, "NSpid");
	size_t n = 0;

	while (at && *at == '\t' && n < max) {
		char *end;

		ret[n] = (pid_t)strtol(at + 1, &end, 10);
		if (end == at + 1)
			break;
		n++;
		at = end;
	}
	return n;
}

struct hf_error *hf_proc_pid_in(pid_t pid, pid_t other, pid_t *ret)
{
	pid_t pids[NS_DEPTH_MAX], others[NS_DEPTH_MAX];
	char text[TEXT_BYTES];
	struct hf_error *err;
	size_t num, num_other;

	err = read_text(pid, 0, "status", text);
	if (err)
		return err;
	num = hf_proc_ns_pids_parse(text, pids, NS_DEPTH_MAX);
	err = read_text(other, 0, "status", text);
	if (err)
		return err;
	num_other = hf_proc_ns_pids_parse(text, others, NS_DEPTH_MAX);
	if (num_other == 0 || num < num_other)
		return hf_error_create(HF_ERROR_NOT_FOUND,
				       "process %d is not in the pid namespace "
				       "of process %d", pid, other);
	*ret = pids[num_other - 1];
	return NULL;
}

bool hf_proc_syscall_parse(const char *text, struct hf_proc_syscall *ret)
{
	struct hf_proc_syscall call = { .nr = -1 };

	/* "running", "-1 SP PC", or "NR A0 A1 A2 A3 A4 A5 SP PC". */
	if (sscanf(text, "%" SCNi64, &call.nr) != 1)
		return false;
	if (call.nr < 0) {
		if (sscanf(text, "%*s %" SCNx64 " %" SCNx64, &call.sp,
			   &call.pc) != 2)
			return false;
	} else if (sscanf(text,
			  "%*s %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64
			  " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64,
			  &call.args[0], &call.args[1], &call.args[2],
			  &call.args[3], &call.args[4], &call.args[5],
			  &call.sp, &call.pc) != 8) {
		return false;
	}
	*ret = call;
	return true;
}

bool hf_proc_syscall_read(pid_t pid, pid_t tid, struct hf_proc_syscall *ret)
{
	char text[TEXT_BYTES];
	struct hf_error *err = read_text(pid, tid, "syscall", text);

	if (err) {
		hf_error_ignore(err);
		return false;
	}
	return hf_proc_syscall_parse(text, ret);
}

bool hf_proc_is_thread_of(pid_t pid, pid_t tid)
{
	char path[PATH_BYTES];

	task_path(path, pid, tid, "stat");
	return access(path, F_OK) == 0;
}

bool hf_proc_has_children(pid_t pid, pid_t tid)
{
	char text[TEXT_BYTES];
	struct hf_error *err = read_text(pid, tid, "children", text);

	/* An empty file is reported as gone, too. */
	hf_error_ignore(err);
	return !err;
}

bool hf_proc_for_each_child(pid_t tid, void (*fn)(void *arg, pid_t child),
			    void *arg)
{
	char path[PATH_BYTES], text[512];
	pid_t child = 0;
	ssize_t len;

	task_path(path, tid, tid, "children");

	HF_AUTO_FD int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0)
		return false;
	/* "PID PID ... PID ", of any length. */
	do {
		len = read(fd, text, sizeof(text));
		for (ssize_t i = 0; i < len; i++) {
			bool is_digit = text[i] >= '0' && text[i] <= '9';

			if (is_digit && child <= (INT32_MAX - 9) / 10)
				child = child * 10 + (text[i] - '0');
			if (is_digit || !child)
				continue;
			fn(arg, child);
			child = 0;
		}
	} while (len > 0 || (len < 0 && errno == EINTR));
	if (child)
		fn(arg, child);
	return true;
}

bool hf_proc_waits_in_vfork(pid_t tid)
{
	enum { CLONE_VFORK_BIT = 0x4000 };
	struct hf_proc_syscall call;

	if (!hf_proc_syscall_read(tid, tid, &call))
		return false;
	return call.nr == SYS_vfork || call.nr == SYS_clone3 ||
	       (call.nr == SYS_clone && call.args[0] & CLONE_VFORK_BIT);
}

bool hf_proc_is_dead(pid_t tid)
{
	struct hf_proc_stat stat;
	struct hf_error *err = hf_proc_stat_read(tid, 0, &stat);

	if (err) {
		hf_error_ignore(err);
		return true;
	}
	return stat.state == 'Z' || stat.state == 'X';
}

struct hf_error *
hf_proc_for_each_thread(pid_t pid,
			struct hf_error *(*fn)(void *arg, pid_t tid),
			void *arg)
{
	char path[PATH_BYTES];
	struct hf_error *err = NULL;
	struct dirent *entry;

	task_path(path, pid, 0, "task");

	DIR *dir = opendir(path);

	if (!dir && (errno == ENOENT || errno == ESRCH))
		return hf_error_create(HF_ERROR_TARGET_GONE,
				       "no process with pid %d", pid);
	if (!dir)
		return hf_error_os(errno, "cannot list '%s'", path);
	while (!err && (entry = readdir(dir))) {
		pid_t tid = (pid_t)strtol(entry->d_name, NULL, 10);

		if (tid > 0)
			err = fn(arg, tid);
	}
	closedir(dir);
	return err;
}
