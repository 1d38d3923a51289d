/* Lab: try on a process of our own what a capture would do to the target.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_LAB_H
#define HF_FORK_AGENT_LAB_H

#include <sys/types.h>

#include "util/error.h"

/* What a kernel forbids is known best by trying, and what things cost by
 * measuring them here and now. Both happen in a child process, so that a
 * seccomp filter that kills ends the child only, our own heap is not
 * measured, and nothing is left. */

/** Which steps the lab does, in this order. */
enum hf_lab_step {
	HF_LAB_PTRACE,   /* attach to a process of our own, stop it */
	HF_LAB_READ,     /* process_vm_readv on it */
	HF_LAB_THREADS,  /* what stopping a thread costs */
	HF_LAB_FORK,     /* what forking costs, by kind of page */
	HF_LAB_DONE,
};

struct hf_lab {
	enum hf_lab_step step;  /* reached; DONE: all of them */
	int signal;             /* that ended it earlier; 0: none */
	/* errno of each; 0: works; -1: not tried. */
	int ptrace_error;
	int suspend_error;      /* PTRACE_O_SUSPEND_SECCOMP */
	int readv_error;        /* process_vm_readv */
	int fifo_error;         /* SCHED_FIFO */
	/* Costs; 0: not measured. */
	uint64_t thread_ns;     /* an idle thread: stop, registers, resume */
	uint64_t fork_ns;       /* a fork with next to no memory; 0: forks
				 * could not be measured, nor anything below */
	uint64_t small_page_ps; /* and for each 4 KiB page, picoseconds */
	uint64_t huge_page_ps;  /* and for each 2 MiB page */
	uint64_t mapping_ps;    /* and for each mapping */
	/* Those are of a fork that has its CPU for itself. */
	uint64_t forks_cpu_ns;  /* all forks that were measured, on a CPU */
	uint64_t forks_ns;      /* and on the clock: other programs ran, too */
	/* The longest that was waited beyond what it costs: others had the
	 * CPU. */
	uint64_t thread_wait_ns; /* for a thread to stop */
	uint64_t fork_wait_ns;   /* in a fork */
	uint64_t small_pages;   /* measured with so many */
	uint64_t huge_pages;    /* 0: there are none here */
};

/**
 * Do the steps up to `last`: PTRACE costs a millisecond, all of them some
 * tens. A child process is made, and gone on return.
 *
 * @return OS if not even the child could be made. What the kernel forbids is
 * no error: see the fields.
 */
struct hf_error *hf_lab_run(enum hf_lab_step last, struct hf_lab *ret)
	HF_MUST_CHECK;

#endif
