/* Format: sizes as people read them.
 * SPDX-License-Identifier: MIT */
#ifndef HF_UTIL_FORMAT_H
#define HF_UTIL_FORMAT_H

#include <stddef.h>
#include <stdint.h>

/** "12.3 MiB": three digits, binary units; exact below 1 KiB. */
void hf_format_bytes(int64_t bytes, char *buf, size_t size);

#endif
