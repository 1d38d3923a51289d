/* Fuzzes the parser of /proc/PID/maps and smaps.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "coredump/proc_maps.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	HF_AUTO(hf_proc_maps) struct hf_proc_maps maps = { 0 };
	HF_AUTO_FREE char *text = malloc(size + 1);
	struct hf_error *err;
	uint64_t end = 0;

	if (!text)
		return 0;
	memcpy(text, data, size);
	err = hf_proc_maps_parse(text, size, &maps);
	if (err) {
		hf_error_destroy(err);
		return 0;
	}
	for (size_t i = 0; i < maps.num; i++) {
		const struct hf_mapping *mapping = &maps.data[i];

		if (mapping->start < end || mapping->start >= mapping->end ||
		    mapping->prot > 7)
			abort();
		if (mapping->path &&
		    (mapping->path < text || strlen(mapping->path) > size))
			abort();
		end = mapping->end;
	}
	return 0;
}
