/* What every capture test does: capture a victim, and look at it from outside.
 * SPDX-License-Identifier: MIT */
#include "tests/support/capture_check.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <time.h>

#include "fork-agent/proc_task.h"
#include "tests/support/test_main.h"
#include "util/file.h"

enum { SOAK_FACTOR = 50 };

int hf_test_rounds(int rounds)
{
	const char *soak = getenv("HF_SOAK");

	return soak && *soak && strcmp(soak, "0") ? rounds * SOAK_FACTOR :
						    rounds;
}

void hf_test_need_ptrace(void)
{
	pid_t pid = fork();
	long rc;

	if (pid == 0)
		for (;;)
			pause();
	rc = ptrace(PTRACE_SEIZE, pid, NULL, NULL);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, __WALL);
	if (rc < 0) {
		fprintf(stderr, "skipped: ptrace is forbidden here\n");
		exit(77);
	}
}

void hf_test_sleep_ms(unsigned int ms)
{
	const struct timespec time = {
		.tv_sec = ms / 1000,
		.tv_nsec = (long)(ms % 1000) * 1000 * 1000,
	};

	nanosleep(&time, NULL);
}

struct hf_error *hf_test_capture(pid_t pid, struct hf_frozen **ret)
{
	struct hf_capture_options options = { .pid = pid };

	return hf_capture(&options, ret);
}

void hf_test_capture_once(pid_t pid)
{
	struct hf_frozen *frozen;

	assert_hf_ok(hf_test_capture(pid, &frozen));
	assert_hf_ok(hf_frozen_release(frozen));
	if (!hf_frozen_report(frozen)->reaped) {
		fprintf(stderr, "the child of %d was not reaped\n", pid);
		abort();
	}
	hf_frozen_destroy(frozen);
}

static int num_children(pid_t pid, bool only_zombies)
{
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	int n = 0;

	while ((entry = readdir(dir))) {
		struct hf_proc_stat stat;
		struct hf_error *err;
		pid_t other = (pid_t)atoi(entry->d_name);

		if (other <= 0)
			continue;
		err = hf_proc_stat_read(other, 0, &stat);
		if (!err && stat.parent == pid &&
		    (stat.state == 'Z' || !only_zombies))
			n++;
		hf_error_ignore(err);
	}
	closedir(dir);
	return n;
}

int hf_test_num_zombies(pid_t pid)
{
	return num_children(pid, true);
}

int hf_test_num_children(pid_t pid)
{
	return num_children(pid, false);
}

int hf_test_num_entries(pid_t pid, const char *folder)
{
	struct dirent *entry;
	char path[64];
	int n = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/%s", pid, folder);
	dir = opendir(path);
	if (!dir)
		return -1;
	while ((entry = readdir(dir)))
		n += entry->d_name[0] != '.';
	closedir(dir);
	return n;
}

unsigned long long hf_test_status_field(pid_t pid, const char *field,
					int base)
{
	HF_AUTO_FREE char *text = NULL;
	char path[64], name[64];
	const char *at;

	snprintf(path, sizeof(path), "/proc/%d/status", pid);
	assert_hf_ok(hf_read_file(path, &text, NULL));
	snprintf(name, sizeof(name), "\n%s:", field);
	at = strstr(text, name);
	if (!at) {
		fprintf(stderr, "%s has no %s\n", path, field);
		abort();
	}
	return strtoull(at + strlen(name), NULL, base);
}

char hf_test_state(pid_t pid)
{
	struct hf_proc_stat stat;
	struct hf_error *err = hf_proc_stat_read(pid, 0, &stat);
	char state = err ? 0 : stat.state;

	hf_error_ignore(err);
	return state;
}
