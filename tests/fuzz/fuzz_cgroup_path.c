/* Fuzzes the search for a cgroup's folder in two files of /proc.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "fork-agent/cgroup_path.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first NUL byte parts the two texts. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	HF_AUTO_FREE char *text = malloc(size + 2);
	const char *mountinfo;

	if (!text)
		return 0;
	memcpy(text, data, size);
	text[size] = text[size + 1] = '\0';
	mountinfo = text + strlen(text) + 1;
	for (int version = HF_CGROUP_V1; version <= HF_CGROUP_V2; version++) {
		struct hf_cgroup_path path;
		struct hf_error *err = hf_cgroup_path_find(
			text, mountinfo, (enum hf_cgroup_version)version,
			&path);

		if (err) {
			hf_error_destroy(err);
			continue;
		}
		if (path.dir[0] != '/' || path.mount_len > strlen(path.dir) ||
		    strstr(path.dir + path.mount_len, "/../"))
			abort();
		free(path.dir);
	}
	return 0;
}
