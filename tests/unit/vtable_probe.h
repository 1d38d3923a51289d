/* What the C++ test of vtables may ask; the product's headers are C.
 * SPDX-License-Identifier: MIT */
#ifndef HF_TESTS_UNIT_VTABLE_PROBE_H
#define HF_TESTS_UNIT_VTABLE_PROBE_H

#include <stddef.h>
#include <stdint.h>

/** Look a first word up in our own memory.
 * @return "symbol", "rtti" or "none"; the class's name in buf. */
const char *hf_probe_vtable(uint64_t word, char *buf, size_t size);

/** Pretend that all modules are stripped. */
void hf_probe_ignore_symbols(int ignore);

/** The writable section that ptr points into. @return 0: none. */
int hf_probe_section(const void *ptr, char *buf, size_t size);

#endif
