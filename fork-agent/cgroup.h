/* Cgroup: where a process stands in a hierarchy, and how many it may become.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_CGROUP_H
#define HF_FORK_AGENT_CGROUP_H

#include <sys/types.h>

#include "util/error.h"

/* A limit of any group above a process holds for it, too: what matters is the
 * smallest room on the way up. Both versions of cgroups are read; a mixture is
 * common. */

enum { HF_CGROUP_PATH_BYTES = 4096 };

/** A directory, and the top of what we can see of its hierarchy. */
struct hf_cgroup {
	char dir[HF_CGROUP_PATH_BYTES]; /* of the process's group */
	size_t top_len;   /* that many bytes of dir are the mount point */
	bool v2;
};

/**
 * Find the directory of a controller ("pids").
 *
 * @param cgroup text of /proc/PID/cgroup; it is the process's view if it
 * shares our cgroup namespace, else relative to ours ("/../..").
 * @param mountinfo text of our own /proc/self/mountinfo.
 * @return false if it is not there, or not visible from here.
 */
bool hf_cgroup_find(const char *cgroup, const char *mountinfo,
		    const char *controller, struct hf_cgroup *ret);

/** As hf_cgroup_find, for a running process. */
bool hf_cgroup_of(pid_t pid, const char *controller, struct hf_cgroup *ret);

/** How many threads more there may be, at the tightest place. */
struct hf_cgroup_room {
	bool has_limit;       /* false: the rest means nothing */
	uint64_t limit, used;
	uint64_t left;
	char dir[HF_CGROUP_PATH_BYTES]; /* of the group that limits */
};

/** Limits of the pids controller, which counts threads. */
void hf_cgroup_pids(const struct hf_cgroup *cgroup,
		    struct hf_cgroup_room *ret);

#endif
