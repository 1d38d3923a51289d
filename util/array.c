/* Growable arrays of plain structs, overflow-checked.
 * SPDX-License-Identifier: MIT */
#include "util/array.h"

struct hf_error *hf_array_reserve_raw(void **data, size_t *capacity,
				      size_t num, size_t extra,
				      size_t element_bytes)
{
	size_t want, bytes, cap = *capacity;
	void *grown;

	if (__builtin_add_overflow(num, extra, &want))
		return &hf_enomem;
	if (want <= cap)
		return NULL;
	/* Half as much again: a doubling of gigabytes is too greedy. */
	if (__builtin_add_overflow(cap, cap / 2, &cap) || cap < want)
		cap = want;
	if (cap < 16)
		cap = 16;
	if (__builtin_mul_overflow(cap, element_bytes, &bytes))
		return &hf_enomem;
	grown = realloc(*data, bytes);
	if (!grown)
		return &hf_enomem;
	*data = grown;
	*capacity = cap;
	return NULL;
}
