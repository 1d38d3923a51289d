/* What the victim `mappings` writes into each word.
 * SPDX-License-Identifier: MIT */
#ifndef HF_TESTS_VICTIMS_MAPPINGS_H
#define HF_TESTS_VICTIMS_MAPPINGS_H

#include <stdint.h>

static inline uint64_t pattern(uint64_t addr)
{
	return addr * UINT64_C(0x9e3779b97f4a7c15) | 1;
}

#endif
