/* What /proc says about one process or thread.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_PROC_TASK_H
#define HF_FORK_AGENT_PROC_TASK_H

#include <sys/types.h>

#include "util/error.h"

/** Fields of /proc/PID/stat. */
struct hf_proc_stat {
	char name[16];        /* comm, NUL-terminated */
	char state;           /* R S D T t Z X I */
	pid_t parent;
	uint64_t flags;       /* PF_* of the kernel */
	uint64_t minor_faults; /* without those of children */
	uint64_t num_threads;
	uint64_t start_time;  /* clock ticks after boot */
	uint64_t memory_bytes; /* of its mappings; 0: it has none */
	int exit_signal;      /* sent to the parent at its end */
	int exit_code;        /* of a zombie, as wait tells it; 0 also if we
			       * may not know */
};

/** Fields of /proc/PID/status. */
struct hf_proc_status {
	char name[16];     /* comm, NUL-terminated */
	char state;        /* as in stat; 0: not known */
	pid_t tgid;        /* thread group leader */
	pid_t tracer;      /* 0: nobody traces it */
	uid_t uid[3];      /* real, effective, saved */
	gid_t gid[3];
	uint64_t cap_permitted;
	uint64_t cap_effective;
	uint64_t signals_blocked; /* bit n - 1 is signal n */
	uint64_t signals_ignored;
	uint64_t signals_caught;  /* has a handler */
	int seccomp;       /* 0 off, 1 strict, 2 filter */
	bool has_shadow_stack; /* the thread's returns are checked (CET) */
	uint64_t page_table_bytes; /* VmPTE; 0: not told */
	bool has_memory;   /* a VmSize line: neither zombie nor kernel thread */
};

/** What a thread that does not run waits in: /proc/PID/task/TID/syscall. */
struct hf_proc_syscall {
	int64_t nr;        /* -1: not in a system call */
	uint64_t args[6];  /* only if nr >= 0 */
	uint64_t sp, pc;
};

/* `tid` 0 means the process itself. All return TARGET_GONE if it is not
 * there (any more). */
struct hf_error *hf_proc_stat_read(pid_t pid, pid_t tid,
				   struct hf_proc_stat *ret) HF_MUST_CHECK;
struct hf_error *hf_proc_status_read(pid_t pid, pid_t tid,
				     struct hf_proc_status *ret) HF_MUST_CHECK;

/** @return false if the thread runs, is gone, or the file is forbidden. */
bool hf_proc_syscall_read(pid_t pid, pid_t tid, struct hf_proc_syscall *ret);

/** The pid by which process `other` knows `pid`, which is in its pid namespace
 * or one below; both may be zombies. */
struct hf_error *hf_proc_pid_in(pid_t pid, pid_t other, pid_t *ret)
	HF_MUST_CHECK;

/* The texts themselves, which end at the first NUL byte. Some of a line that
 * is not as in proc(5) may be missing, and is 0 then.
 * @return BAD_DATA without what is always there. */
struct hf_error *hf_proc_stat_parse(const char *text, struct hf_proc_stat *ret)
	HF_MUST_CHECK;
struct hf_error *hf_proc_status_parse(const char *text,
				      struct hf_proc_status *ret)
	HF_MUST_CHECK;
bool hf_proc_syscall_parse(const char *text, struct hf_proc_syscall *ret);

/** "NSpid:\tPID\tPID ..." of status: as seen from our namespace, then from each
 * deeper one, down to its own. @return how many were there, `max` at most. */
size_t hf_proc_ns_pids_parse(const char *text, pid_t *ret, size_t max);

/** Is `tid` a thread of `pid`? */
bool hf_proc_is_thread_of(pid_t pid, pid_t tid);

/** Has the thread children (that it forked itself)? false if not known. */
bool hf_proc_has_children(pid_t pid, pid_t tid);

/** Call fn for every child that the thread forked itself, in that order, or
 * got as the child of a process that ended. Without malloc. @return false if
 * the kernel has no such list (CONFIG_PROC_CHILDREN). */
bool hf_proc_for_each_child(pid_t tid, void (*fn)(void *arg, pid_t child),
			    void *arg);

/** Does the thread wait for the child of its vfork to call exec or to end? */
bool hf_proc_waits_in_vfork(pid_t tid);

/** Is the thread a zombie, or gone? */
bool hf_proc_is_dead(pid_t tid);

/** Call fn for every thread of the process. Threads that come or go
 * meanwhile may be seen or not. @return the first error of fn. */
struct hf_error *
hf_proc_for_each_thread(pid_t pid,
			struct hf_error *(*fn)(void *arg, pid_t tid),
			void *arg) HF_MUST_CHECK;

#endif
