/* Place: where heapfork itself runs, and how one gets more rights there.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/place.h"

#include <string.h>
#include <sys/stat.h>

#include "util/file.h"

/* Inode numbers of the machine's own namespaces are constants of the kernel
 * (Linux 6.18 include/uapi/linux/nsfs.h; include/linux/proc_ns.h before). */
enum {
	USER_NAMESPACE_INODE = 0xEFFFFFFD,
	PID_NAMESPACE_INODE = 0xEFFFFFFC,
};

static bool exists(const char *path)
{
	return access(path, F_OK) == 0;
}

/* Of a namespace file; false if that cannot be told. */
static bool is_other(const char *path, unsigned int inode)
{
	struct stat st;

	return stat(path, &st) == 0 && (uint64_t)st.st_ino != inode;
}

static bool has(const char *text, const char *part)
{
	return text && strstr(text, part);
}

static enum hf_container by_manager(const char *manager)
{
	static const struct {
		const char *name;
		enum hf_container container;
	} managers[] = {
		{ "docker", HF_CONTAINER_DOCKER },
		{ "podman", HF_CONTAINER_PODMAN },
		{ "oci", HF_CONTAINER_PODMAN },
		{ "lxc", HF_CONTAINER_LXC }, /* lxc-libvirt, too */
		{ "systemd-nspawn", HF_CONTAINER_NSPAWN },
	};

	for (size_t i = 0; i < sizeof(managers) / sizeof(managers[0]); i++)
		if (!strncmp(manager, managers[i].name,
			     strlen(managers[i].name)))
			return managers[i].container;
	return HF_CONTAINER_NONE;
}

enum hf_container hf_place_judge(const struct hf_place_signs *signs)
{
	enum hf_container container;

	/* A pod's containers are made by containerd, CRI-O or Docker, whose
	 * signs may be there as well: the outermost manager counts. The files
	 * that the runtime mounts (/etc/hosts, /etc/resolv.conf) have their
	 * path on the machine in mountinfo, whatever the cgroup namespace
	 * hides. */
	if (signs->kubernetes || has(signs->cgroup, "kubepods") ||
	    has(signs->mountinfo, "/kubelet/pods/"))
		return HF_CONTAINER_KUBERNETES;
	if (signs->containerenv || has(signs->cgroup, "libpod") ||
	    has(signs->mountinfo, "/overlay-containers/"))
		return HF_CONTAINER_PODMAN;
	if (has(signs->cgroup, "/docker") ||
	    has(signs->mountinfo, "/docker/containers/") ||
	    (signs->dockerenv &&
	     (signs->own_namespaces ||
	      has(signs->mountinfo, " / / rw,relatime - overlay ") ||
	      has(signs->mountinfo, "/docker/overlay2/"))))
		return HF_CONTAINER_DOCKER;
	if (signs->manager) {
		container = by_manager(signs->manager);
		if (container != HF_CONTAINER_NONE)
			return container;
	}
	if (has(signs->cgroup, "/lxc/") || has(signs->cgroup, "/lxc.payload"))
		return HF_CONTAINER_LXC;
	return signs->own_namespaces ? HF_CONTAINER_UNKNOWN :
				       HF_CONTAINER_NONE;
}

/* NULL if it cannot be read. */
static char *read_or_null(const char *path)
{
	char *text = NULL;

	hf_error_ignore(hf_read_file(path, &text, NULL));
	return text;
}

void hf_place_find(struct hf_place *ret)
{
	HF_AUTO_FREE char *cgroup = read_or_null("/proc/self/cgroup");
	HF_AUTO_FREE char *mountinfo = read_or_null("/proc/self/mountinfo");
	HF_AUTO_FREE char *manager = read_or_null("/run/systemd/container");
	struct hf_place_signs signs = {
		.dockerenv = exists("/.dockerenv"),
		.containerenv = exists("/run/.containerenv"),
		.kubernetes =
			getenv("KUBERNETES_SERVICE_HOST") ||
			exists("/var/run/secrets/kubernetes.io"),
		.manager = manager ? manager : getenv("container"),
		.cgroup = cgroup,
		.mountinfo = mountinfo,
	};

	*ret = (struct hf_place){
		.own_user_namespace = is_other("/proc/self/ns/user",
					       USER_NAMESPACE_INODE),
		.own_pid_namespace = is_other("/proc/self/ns/pid",
					      PID_NAMESPACE_INODE),
		.uid = geteuid(),
	};
	signs.own_namespaces = ret->own_user_namespace ||
			       ret->own_pid_namespace;
	ret->container = hf_place_judge(&signs);
}

const char *hf_place_name(const struct hf_place *place)
{
	switch (place->container) {
	case HF_CONTAINER_NONE:
		return NULL;
	case HF_CONTAINER_DOCKER:
		return "Docker";
	case HF_CONTAINER_PODMAN:
		return "Podman";
	case HF_CONTAINER_KUBERNETES:
		return "Kubernetes";
	case HF_CONTAINER_LXC:
		return "LXC";
	case HF_CONTAINER_NSPAWN:
		return "systemd-nspawn";
	case HF_CONTAINER_UNKNOWN:
		break;
	}
	return "an unknown container manager";
}

const char *hf_place_gain_ptrace(const struct hf_place *place)
{
	bool root = place->uid == 0;

	switch (place->container) {
	case HF_CONTAINER_NONE:
		return root ? "give heapfork CAP_SYS_PTRACE again: it runs as "
			      "root, but that was taken from it (in a "
			      "systemd unit: CapabilityBoundingSet=)" :
			      "run as root: sudo heapfork ...";
	case HF_CONTAINER_DOCKER:
		return root ? "start the container with --cap-add=SYS_PTRACE" :
			      "run heapfork as root in the container (docker "
			      "exec -u 0 ...), and start that with "
			      "--cap-add=SYS_PTRACE";
	case HF_CONTAINER_PODMAN:
		return root ? "start the container with --cap-add=SYS_PTRACE" :
			      "run heapfork as root in the container (podman "
			      "exec -u 0 ...), and start that with "
			      "--cap-add=SYS_PTRACE";
	case HF_CONTAINER_KUBERNETES:
		return root ? "add SYS_PTRACE to "
			      "securityContext.capabilities.add of the "
			      "container that runs heapfork (kubectl debug "
			      "--profile=general does)" :
			      "in the securityContext of the container that "
			      "runs heapfork, set runAsUser: 0 and add "
			      "SYS_PTRACE to capabilities.add";
	case HF_CONTAINER_LXC:
		return root ? "do not drop sys_ptrace in the container's "
			      "configuration (lxc.cap.drop), or run heapfork "
			      "on its host" :
			      "run heapfork as root of the container";
	case HF_CONTAINER_NSPAWN:
		return root ? "start the container with "
			      "--capability=CAP_SYS_PTRACE" :
			      "run heapfork as root of the container";
	case HF_CONTAINER_UNKNOWN:
		break;
	}
	return root ? "give the container CAP_SYS_PTRACE, or run heapfork on "
		      "its host" :
		      "run heapfork as root of the container, with "
		      "CAP_SYS_PTRACE";
}

const char *hf_place_escape_seccomp(const struct hf_place *place)
{
	switch (place->container) {
	case HF_CONTAINER_NONE:
		return "run heapfork where its system calls are not filtered "
		       "(in a systemd unit: SystemCallFilter=)";
	case HF_CONTAINER_KUBERNETES:
		return "set securityContext.seccompProfile.type: Unconfined "
		       "for the container that runs heapfork";
	case HF_CONTAINER_LXC:
		return "run heapfork on the host of the container, or change "
		       "lxc.seccomp.profile";
	case HF_CONTAINER_NSPAWN:
		return "run heapfork on the host of the container, or allow "
		       "it by --system-call-filter=@debug";
	case HF_CONTAINER_DOCKER:
	case HF_CONTAINER_PODMAN:
	case HF_CONTAINER_UNKNOWN:
		break;
	}
	return "start the container with --security-opt seccomp=unconfined, "
	       "or run heapfork on its host";
}

const char *hf_place_go_outside(const struct hf_place *place)
{
	switch (place->container) {
	case HF_CONTAINER_NONE:
		return place->uid == 0 ?
			       "give heapfork all capabilities of root" :
			       "run as root: sudo heapfork ...";
	case HF_CONTAINER_KUBERNETES:
		return "use a privileged container (kubectl debug "
		       "--profile=sysadmin), or run heapfork as root of the "
		       "node";
	case HF_CONTAINER_DOCKER:
	case HF_CONTAINER_PODMAN:
	case HF_CONTAINER_LXC:
	case HF_CONTAINER_NSPAWN:
	case HF_CONTAINER_UNKNOWN:
		break;
	}
	return "run heapfork outside of the container, as root of the machine";
}
