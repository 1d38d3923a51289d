/* Fuzzes the search for a cgroup: /proc/PID/cgroup, NUL, mountinfo.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "fork-agent/cgroup.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct hf_cgroup cgroup;
	HF_AUTO_FREE char *text = malloc(size + 2);
	size_t len;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = text[size + 1] = '\0';
	len = strlen(text);
	if (!hf_cgroup_find(text, len < size ? text + len + 1 : text + len,
			    "pids", &cgroup))
		return 0;
	if (strlen(cgroup.dir) >= HF_CGROUP_PATH_BYTES ||
	    cgroup.top_len > strlen(cgroup.dir) ||
	    strstr(cgroup.dir + cgroup.top_len, "/../"))
		abort();
	return 0;
}
