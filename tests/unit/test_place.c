/* Place: which container this is, by its signs; and which advice follows.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <cmocka.h>

#include "fork-agent/place.h"
#include "tests/support/test_main.h"

static void containers_are_told_by_their_signs(void **state)
{
	static const struct {
		const char *name;
		struct hf_place_signs signs;
		enum hf_container container;
	} cases[] = {
		{ "a machine", { 0 }, HF_CONTAINER_NONE },
		{ "a machine whose files were made from an image",
		  { .dockerenv = true,
		    .cgroup = "4:memory:/system.slice\n0::/\n",
		    .mountinfo = "27 1 254:0 / / rw,relatime - ext4 /dev/vda "
				 "rw\n" },
		  HF_CONTAINER_NONE },
		{ "Docker, cgroup v1", { .dockerenv = true,
		    .cgroup = "4:memory:/docker/0123\n" },
		  HF_CONTAINER_DOCKER },
		{ "Docker, cgroup namespace", { .dockerenv = true,
		    .cgroup = "0::/\n", .own_namespaces = true },
		  HF_CONTAINER_DOCKER },
		{ "Docker, pid namespace of the host", { .dockerenv = true,
		    .cgroup = "0::/\n",
		    .mountinfo = "600 500 254:0 /var/lib/docker/containers/01/"
				 "hosts /etc/hosts rw - ext4 /dev/vda rw\n" },
		  HF_CONTAINER_DOCKER },
		{ "Podman", { .containerenv = true, .own_namespaces = true },
		  HF_CONTAINER_PODMAN },
		{ "a pod, by its environment", { .kubernetes = true },
		  HF_CONTAINER_KUBERNETES },
		{ "a pod, made by Docker", { .dockerenv = true,
		    .cgroup = "4:memory:/kubepods/burstable/pod1/docker/2\n" },
		  HF_CONTAINER_KUBERNETES },
		{ "a pod, by what is mounted", { .own_namespaces = true,
		    .mountinfo = "9 8 0:1 /var/lib/kubelet/pods/1/etc-hosts "
				 "/etc/hosts rw - ext4 /dev/vda rw\n" },
		  HF_CONTAINER_KUBERNETES },
		{ "LXC", { .manager = "lxc\n", .own_namespaces = true },
		  HF_CONTAINER_LXC },
		{ "LXC, by its cgroup", { .cgroup = "0::/lxc.payload.web\n" },
		  HF_CONTAINER_LXC },
		{ "nspawn", { .manager = "systemd-nspawn" },
		  HF_CONTAINER_NSPAWN },
		{ "somebody's namespaces", { .own_namespaces = true },
		  HF_CONTAINER_UNKNOWN },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		if (hf_place_judge(&cases[i].signs) != cases[i].container)
			fail_msg("%s: %d", cases[i].name,
				 hf_place_judge(&cases[i].signs));
}

static void only_a_user_of_the_machine_is_told_to_use_sudo(void **state)
{
	(void)state;
	for (int container = HF_CONTAINER_NONE;
	     container <= HF_CONTAINER_UNKNOWN; container++) {
		for (unsigned int uid = 0; uid <= 1000; uid += 1000) {
			const struct hf_place place = {
				.container = (enum hf_container)container,
				.uid = uid,
			};
			bool sudo = container == HF_CONTAINER_NONE && uid;
			const char *advice[] = {
				hf_place_gain_ptrace(&place),
				hf_place_go_outside(&place),
			};

			for (size_t i = 0; i < 2; i++) {
				assert_non_null(advice[i]);
				assert_int_equal(strstr(advice[i], "sudo") !=
							 NULL, sudo);
			}
			assert_null(strstr(hf_place_escape_seccomp(&place),
					   "sudo"));
		}
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(containers_are_told_by_their_signs),
		cmocka_unit_test(only_a_user_of_the_machine_is_told_to_use_sudo),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
