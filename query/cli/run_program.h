/* Run program: a program as our child, with signals that pass through.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_CLI_RUN_PROGRAM_H
#define HF_QUERY_CLI_RUN_PROGRAM_H

#include <signal.h>
#include <sys/types.h>

#include "util/error.h"

/**
 * The program has our process group, terminal, directory and descriptors, and
 * the signal mask and dispositions that we were started with, so it is as if
 * it had been started in our place. It does not die with us.
 *
 * The signals that somebody sends to us are sent on to it at once, whatever
 * this process is doing, by a thread of their own; those of real time with
 * their value. Those of the terminal are not: they go to the whole group, and
 * it has them already. Nor are SIGCHLD, SIGPIPE, those of faults (SIGSEGV,
 * ...), and of job control: SIGTSTP, SIGCONT, ... do to us what they always do.
 */
struct hf_run_program;

enum hf_run_event {
	HF_RUN_NOTHING, /* the time was over */
	HF_RUN_SIGNAL,  /* the signal that was asked for came */
	HF_RUN_ENDED,   /* the program has ended */
};

struct hf_run_options {
	char *const *argv;   /* of the program; NULL at its end */
	int own_signal;      /* that is not for the program; 0: none */
	bool ignore_sigpipe; /* as we were started */
	/** Called when there is a process, but not yet the program in it: it
	 * waits for us. Then, if the program cannot be executed, with pid 0,
	 * before its process ends. May be NULL. */
	void (*before)(void *arg, pid_t pid);
	void *arg;
};

/**
 * Start it. Call it before any other thread is started: their signal masks
 * come from here.
 *
 * @return NULL; NOT_FOUND; PERMISSION, or OS if it cannot be executed.
 */
struct hf_error *hf_run_program_start(const struct hf_run_options *options,
				      struct hf_run_program **ret)
	HF_MUST_CHECK;

pid_t hf_run_program_pid(const struct hf_run_program *program);

/** Set when a signal to end us comes after the program's end, and when the time
 * limit of a snapshot (hf_signals_arm) is over. Borrowed. */
const volatile sig_atomic_t *
hf_run_program_cancelled(const struct hf_run_program *program);

/** Call it before each snapshot: the time limit of the last one is not its own. */
void hf_run_program_forget_time(struct hf_run_program *program);

/** @param fd also waited for (HF_RUN_NOTHING); -1: none.
 * @param timeout_ms -1: no limit. */
struct hf_error *hf_run_program_wait(struct hf_run_program *program, int fd,
				     int timeout_ms,
				     enum hf_run_event *ret) HF_MUST_CHECK;

/** After HF_RUN_ENDED: as a shell tells it, 128 + n for signal n. */
int hf_run_program_exit_code(struct hf_run_program *program);

/** Leaves the program alone if it still runs. */
void hf_run_program_destroy(struct hf_run_program *program);

HF_DEFINE_AUTO(struct hf_run_program *, hf_run_program,
	       hf_run_program_destroy)

#endif
