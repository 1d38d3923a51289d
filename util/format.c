/* Format: sizes as people read them.
 * SPDX-License-Identifier: MIT */
#include "util/format.h"

#include <inttypes.h>
#include <stdio.h>

void hf_format_bytes(int64_t bytes, char *buf, size_t size)
{
	static const char *const units[] = { "KiB", "MiB", "GiB",
					     "TiB", "PiB", "EiB" };
	double value = bytes < 0 ? -(double)bytes : (double)bytes;
	size_t unit = 0;

	if (value < 1024) {
		snprintf(buf, size, "%" PRId64 " B", bytes);
		return;
	}
	/* 1023.95 would be shown as "1024.0": go on to the next unit. */
	for (value /= 1024; value >= 1023.95 && unit < 5; unit++)
		value /= 1024;
	snprintf(buf, size, "%s%.1f %s", bytes < 0 ? "-" : "", value,
		 units[unit]);
}
