/* Malloc victim: start, stop, compare.
 * SPDX-License-Identifier: MIT */
#include "tests/support/malloc_victim.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

#include "coredump/process_image.h"
#include "tests/support/test_main.h"
#include "util/array.h"

struct malloc_victim {
	pid_t started;        /* what was spawned */
	pid_t pid;            /* what is looked at: it, or its child */
	int output;           /* read end of its standard output */
	char log_path[64];
	struct malloc_victim_info info;
	struct hf_image *image;
	HF_ARRAY(struct hf_thread) threads;
	struct alloc_log_entry *blocks;
	size_t num_blocks;
};

#define require(condition)                                                    \
	do {                                                                  \
		if (!(condition)) {                                           \
			perror(#condition);                                   \
			abort();                                              \
		}                                                             \
	} while (0)

static void spawn(struct malloc_victim *victim, const char *const *argv,
		  const char *const *env)
{
	const char *child_env[32] = { "LANG=C", "PATH=/usr/bin:/bin" };
	char log[128];
	size_t num = 2;
	int ends[2];

	snprintf(victim->log_path, sizeof(victim->log_path),
		 "/tmp/hf-alloc-log-XXXXXX");
	{
		HF_AUTO_FD int fd = mkstemp(victim->log_path);

		require(fd >= 0);
		require(ftruncate(fd, sizeof(struct alloc_log)) == 0);
	}
	snprintf(log, sizeof(log), "HF_ALLOC_LOG=%s", victim->log_path);
	child_env[num++] = log;
	for (size_t i = 0; env && env[i]; i++) {
		require(num < 31);
		child_env[num++] = env[i];
	}
	require(pipe2(ends, O_CLOEXEC) == 0);
	victim->started = fork();
	require(victim->started >= 0);
	if (victim->started == 0) {
		/* A test that fails leaves nobody behind. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		dup2(ends[1], STDOUT_FILENO);
		execve(argv[0], (char *const *)argv, (char *const *)child_env);
		_exit(127);
	}
	close(ends[1]);
	victim->output = ends[0];
}

static bool wait_until_ready(struct malloc_victim *victim)
{
	struct malloc_victim_info *info = &victim->info;
	unsigned long n[8];
	char line[256];
	size_t len = 0;

	while (len < sizeof(line) - 1) {
		ssize_t got = read(victim->output, line + len, 1);

		if (got <= 0)
			return false;
		if (line[len++] == '\n')
			break;
	}
	line[len] = '\0';
	require(sscanf(line, "ready %d %lu %lu %lu %lu %lu %lu %lu %lu",
		       &victim->pid, &n[0], &n[1], &n[2], &n[3], &n[4], &n[5],
		       &n[6], &n[7]) == 9);
	*info = (struct malloc_victim_info){
		.arena = n[0], .ordblks = n[1], .hblks = n[2], .hblkhd = n[3],
		.fsmblks = n[4], .uordblks = n[5], .fordblks = n[6],
		.keepcost = n[7],
	};
	return true;
}

/* Threads that are on their way out are waited for. */
static void stop_all(struct malloc_victim *victim)
{
	char path[64];
	DIR *dir;
	struct dirent *entry;

	snprintf(path, sizeof(path), "/proc/%d/task", victim->pid);
	dir = opendir(path);
	require(dir);
	while ((entry = readdir(dir))) {
		struct hf_thread thread = { .stop_how = HF_STOP_SYSCALL,
					    .state = 't', .name = "victim" };
		int status;

		thread.tid = atoi(entry->d_name);
		if (thread.tid == 0 ||
		    ptrace(PTRACE_SEIZE, thread.tid, NULL, NULL) != 0)
			continue;
		require(ptrace(PTRACE_INTERRUPT, thread.tid, NULL, NULL) == 0);
		require(waitpid(thread.tid, &status, __WALL) == thread.tid);
		if (!WIFSTOPPED(status))
			continue;
		require(ptrace(PTRACE_GETREGS, thread.tid, NULL,
			       &thread.regs) == 0);
		assert_hf_ok(hf_array_append(&victim->threads, thread));
	}
	closedir(dir);
	require(victim->threads.num > 0);
}

static int compare_entries(const void *a, const void *b)
{
	const struct alloc_log_entry *x = a, *y = b;

	return (x->addr > y->addr) - (x->addr < y->addr);
}

static void read_log(struct malloc_victim *victim)
{
	char path[80];
	struct alloc_log *log;
	HF_AUTO_FD int fd = -1;

	snprintf(path, sizeof(path), "%s%s", victim->log_path,
		 victim->pid == victim->started ? "" : ".child");
	fd = open(path, O_RDONLY | O_CLOEXEC);
	require(fd >= 0);
	log = mmap(NULL, sizeof(*log), PROT_READ, MAP_SHARED, fd, 0);
	require(log != MAP_FAILED);
	require(!log->full);
	/* A thread may have been stopped between an entry and the number. */
	victim->blocks = calloc(log->num + 2, sizeof(victim->blocks[0]));
	require(victim->blocks);
	for (size_t i = 0; i < ALLOC_LOG_CAPACITY; i++) {
		if (log->entries[i].addr > 1) {
			require(victim->num_blocks < log->num + 1);
			victim->blocks[victim->num_blocks++] = log->entries[i];
		}
	}
	require(victim->num_blocks + 1 >= log->num);
	munmap(log, sizeof(*log));
	qsort(victim->blocks, victim->num_blocks, sizeof(victim->blocks[0]),
	      compare_entries);
}

struct malloc_victim *malloc_victim_start(const char *const *argv,
					  const char *const *env)
{
	struct malloc_victim *victim = calloc(1, sizeof(*victim));

	require(victim);
	spawn(victim, argv, env);
	if (!wait_until_ready(victim)) {
		malloc_victim_destroy(victim);
		return NULL;
	}
	stop_all(victim);
	read_log(victim);
	assert_hf_ok(hf_process_image_open(victim->pid, victim->threads.data,
					   victim->threads.num,
					   &victim->image));
	return victim;
}

void malloc_victim_destroy(struct malloc_victim *victim)
{
	char path[80];

	if (!victim)
		return;
	hf_image_destroy(victim->image);
	if (victim->pid > 0)
		kill(victim->pid, SIGKILL);
	/* A leader is not reaped before its traced threads are. */
	for (size_t i = victim->threads.num; i-- > 0;) {
		pid_t tid = victim->threads.data[i].tid;
		int status;

		while (waitpid(tid, &status, __WALL) == tid &&
		       WIFSTOPPED(status))
			;
	}
	if (victim->started > 0) {
		kill(victim->started, SIGKILL);
		waitpid(victim->started, NULL, __WALL);
	}
	snprintf(path, sizeof(path), "%s.child", victim->log_path);
	unlink(path);
	unlink(victim->log_path);
	close(victim->output);
	hf_array_deinit(&victim->threads);
	free(victim->blocks);
	free(victim);
}

struct hf_image *malloc_victim_image(struct malloc_victim *victim)
{
	return victim->image;
}

const struct malloc_victim_info *
malloc_victim_info(const struct malloc_victim *victim)
{
	return &victim->info;
}

const struct alloc_log_entry *
malloc_victim_blocks(const struct malloc_victim *victim, size_t *num_ret)
{
	*num_ret = victim->num_blocks;
	return victim->blocks;
}
