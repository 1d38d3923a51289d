/* Place: where heapfork itself runs, and how one gets more rights there.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_PLACE_H
#define HF_FORK_AGENT_PLACE_H

#include <sys/types.h>

#include "util/error.h"

/* The same refusal has another cure on a machine, in a container of Docker,
 * in a pod, or for root in a user namespace: advice must fit the place. */

enum hf_container {
	HF_CONTAINER_NONE,
	HF_CONTAINER_DOCKER,
	HF_CONTAINER_PODMAN,
	HF_CONTAINER_KUBERNETES,
	HF_CONTAINER_LXC,
	HF_CONTAINER_NSPAWN,
	HF_CONTAINER_UNKNOWN, /* in namespaces of its own, whoever made them */
};

struct hf_place {
	enum hf_container container;
	bool own_user_namespace; /* not the machine's: a capability counts in
				  * it only */
	bool own_pid_namespace;  /* not the machine's: other pids */
	uid_t uid;               /* effective */
};

/** What marks a container. Separate, so that it can be tested. */
struct hf_place_signs {
	bool dockerenv;          /* there is a /.dockerenv */
	bool containerenv;       /* there is a /run/.containerenv */
	bool kubernetes;         /* KUBERNETES_SERVICE_HOST is set, or its
				  * secrets are mounted */
	const char *manager;     /* /run/systemd/container, or the variable
				  * `container`; NULL: neither */
	const char *cgroup;      /* text of /proc/self/cgroup */
	const char *mountinfo;   /* text of /proc/self/mountinfo */
	bool own_namespaces;     /* pid or user namespace not the machine's */
};

/** Tell from the signs. A /.dockerenv alone is none: file systems made from
 * an image have it on real machines, too. */
enum hf_container hf_place_judge(const struct hf_place_signs *signs);

void hf_place_find(struct hf_place *ret);

/** "Docker", "Kubernetes", ...; NULL for none. */
const char *hf_place_name(const struct hf_place *place);

/** How to get CAP_SYS_PTRACE here, as a clause for a fix. */
const char *hf_place_gain_ptrace(const struct hf_place *place);

/** How to be rid of a seccomp filter on heapfork itself. */
const char *hf_place_escape_seccomp(const struct hf_place *place);

/** How to get at a process of another user namespace, or what needs root of
 * the machine itself. */
const char *hf_place_go_outside(const struct hf_place *place);

#endif
