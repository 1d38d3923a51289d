/* The process that was forked, beside its frozen child.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_PARENT_H
#define HF_COREDUMP_PARENT_H

#include "coredump/proc_maps.h"
#include "coredump/process_memory.h"
#include "coredump/resident.h"

/* It runs on while it is looked at: its mappings are those of a moment after
 * the fork, and may be gone when they are read. */
struct hf_parent {
	pid_t pid;                     /* 0: it is not there */
	int proc_fd;                   /* /proc/PID, or -1 */
	int pagemap_fd;                /* or -1 */
	char *text;                    /* maps points into it */
	struct hf_proc_maps maps;
	struct hf_resident *resident;
	struct hf_process_memory memory;
	char why[128];                 /* why it is not there, as a clause */
};

/**
 * Find the parent of a child, and read its mappings. A parent that ended, runs
 * another program by now, or may not be looked at is no error: its `pid` is 0.
 *
 * @param child_fd of /proc/CHILD; borrowed, for this call.
 * @param child_maps of the child.
 * @param no_scan, no_mem as for the image of the child.
 */
struct hf_error *hf_parent_open(int child_fd,
				const struct hf_proc_maps *child_maps,
				bool no_scan, bool no_mem,
				struct hf_parent **ret) HF_MUST_CHECK;
void hf_parent_close(struct hf_parent *parent);

/** As hf_parent_open, for a process that stands still itself: whatever is asked
 * of the parent is asked of it, and of the same instant. */
struct hf_error *hf_parent_open_self(pid_t pid,
				     const struct hf_proc_maps *maps,
				     bool no_scan, bool no_mem,
				     struct hf_parent **ret) HF_MUST_CHECK;

/** Has it memory still? */
bool hf_parent_is_alive(const struct hf_parent *parent);

HF_DEFINE_AUTO(struct hf_parent *, hf_parent, hf_parent_close)

#endif
