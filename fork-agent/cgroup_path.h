/* Cgroup path: in which folder the memory cgroup of a process is.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_CGROUP_PATH_H
#define HF_FORK_AGENT_CGROUP_PATH_H

#include "util/error.h"

enum hf_cgroup_version {
	HF_CGROUP_V1 = 1, /* a hierarchy of the memory controller alone */
	HF_CGROUP_V2 = 2, /* the one hierarchy of all controllers */
};

struct hf_cgroup_path {
	char *dir;        /* of the cgroup; owned by whoever has the struct */
	size_t mount_len; /* so much of dir is the mount point: above it we see
			   * nothing */
};

/**
 * Find the folder of a process's cgroup, for one version; systems may have
 * both.
 *
 * @param cgroup text of /proc/PID/cgroup.
 * @param mountinfo text of /proc/self/mountinfo.
 * @param ret caller frees ret->dir. A cgroup outside of what is mounted here
 * (another cgroup namespace) gives the mount point itself: limits up there
 * hold for it, too.
 * @return NULL, NOT_FOUND (not mounted, or not in the list) or NO_MEMORY.
 */
struct hf_error *hf_cgroup_path_find(const char *cgroup, const char *mountinfo,
				     enum hf_cgroup_version version,
				     struct hf_cgroup_path *ret) HF_MUST_CHECK;

#endif
