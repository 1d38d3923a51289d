/* Known values in all registers, for victims.
 * SPDX-License-Identifier: MIT */
#ifndef HF_TESTS_VICTIMS_REGISTER_BANK_H
#define HF_TESTS_VICTIMS_REGISTER_BANK_H

#include <stdbool.h>
#include <stdint.h>

/** Load values made from `seed` into all general and vector registers and
 * MXCSR, spin `num_turns` times, and look. @return are they still the same? */
bool register_bank_lap(uint64_t seed, uint64_t num_turns);

#endif
