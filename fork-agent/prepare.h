/* Prepare: put a running process's memory into huge pages before its pause.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_PREPARE_H
#define HF_FORK_AGENT_PREPARE_H

#include "util/progress.h"

/* A fork copies page tables: one entry for each 4 KiB, or one for 2 MiB. Of a
 * process that runs, the kernel can be asked to gather full blocks of 2 MiB
 * into huge pages, without stopping it. Only blocks are taken of which every
 * page is there and belongs to this process alone: filling holes, or copying
 * what a fork shares, would cost memory. No byte changes, no address, no right
 * of access; and the process keeps the huge pages afterwards.
 *
 * While the kernel gathers one block, a page fault of the process may have to
 * wait for it (some milliseconds): hence one block at a time, and pauses. */

struct hf_prepare_options {
	pid_t pid;
	uint64_t rate_bytes;     /* at most, each second; 0: the default,
				  * 1 GiB. Not more than half of the time is
				  * work in any case */
	uint64_t keep_free_bytes; /* stop when the machine, or a cgroup of
				  * the process, has less to spare; 0: the
				  * default of hf_headroom_read */
	uint64_t deadline_ns;    /* monotonic: stop then; 0: none */
	bool no_scan;            /* as hf_resident_create */
	const struct hf_progress *progress; /* may be NULL */
};

enum { HF_PREPARE_MAX_REASONS = 8 };

struct hf_prepare_report {
	bool checked;            /* it may be captured, as far as can be told */
	uint64_t elapsed_ns;
	uint64_t longest_ns;     /* for one block */
	uint64_t small_bytes;    /* before, private and anonymous memory of
				  * mappings that may have huge pages: in small
				  * ones */
	uint64_t huge_bytes;     /* ... and in huge ones */
	uint64_t num_blocks;     /* of 2 MiB, gathered into huge pages */
	uint64_t num_not_full;   /* looked full, and were not (any more) when
				  * their turn came, or share pages with
				  * another process: left alone */
	uint64_t num_refused;    /* by the kernel */
	uint32_t num_reasons;
	struct {
		int os_error;    /* errno */
		uint64_t num;
	} reasons[HF_PREPARE_MAX_REASONS]; /* most frequent first; if there
					    * are more, they are not listed */
	bool complete;           /* every block had its turn */
};

/**
 * Collapse what is full. The process may do anything meanwhile, also end or
 * call exec.
 *
 * @param ret filled in after an error, too: what was done until then.
 * @return NULL, or why not all was done, with cause and fix: UNSUPPORTED
 * (kernel before 6.1, or without huge pages), PERMISSION (CAP_SYS_NICE),
 * NO_SPACE (memory, or huge pages, get scarce), INTERRUPTED,
 * TIMEOUT (deadline_ns), and the errors of hf_preflight_check. None of them
 * harms the process, or is a reason not to capture it.
 */
struct hf_error *hf_prepare(const struct hf_prepare_options *options,
			    struct hf_prepare_report *ret) HF_MUST_CHECK;

/** Would it be done? Nothing is changed. @return as hf_prepare, of what can be
 * told beforehand. */
struct hf_error *hf_prepare_check(pid_t pid) HF_MUST_CHECK;

/** Of it, in 2 MiB blocks. */
static inline uint64_t
hf_prepare_bytes(const struct hf_prepare_report *report)
{
	return report->num_blocks << 21;
}

#endif
