/* Growable arrays of plain structs, overflow-checked.
 * SPDX-License-Identifier: MIT */
#ifndef HF_UTIL_ARRAY_H
#define HF_UTIL_ARRAY_H

#include "util/error.h"

/**
 * An array type: `HF_ARRAY(struct hf_block) blocks = { 0 };`. Read through
 * `blocks.data[i]`, i < blocks.num. Release with hf_array_deinit(&blocks).
 */
#define HF_ARRAY(type)                                                        \
	struct {                                                              \
		type *data;                                                   \
		size_t num;                                                   \
		size_t capacity;                                              \
	}

/** Make room for `extra` more elements. @return NULL or hf_enomem. */
#define hf_array_reserve(array, extra)                                        \
	hf_array_reserve_raw((void **)&(array)->data, &(array)->capacity,     \
			     (array)->num, (extra), sizeof(*(array)->data))

/** Append a copy of `value`. @return NULL or hf_enomem. */
#define hf_array_append(array, value)                                         \
	({                                                                    \
		struct hf_error *err__ = hf_array_reserve((array), 1);        \
		if (!err__)                                                   \
			(array)->data[(array)->num++] = (value);              \
		err__;                                                        \
	})

#define hf_array_deinit(array)                                                \
	do {                                                                  \
		free((array)->data);                                          \
		(array)->data = NULL;                                         \
		(array)->num = (array)->capacity = 0;                         \
	} while (0)

struct hf_error *hf_array_reserve_raw(void **data, size_t *capacity,
				      size_t num, size_t extra,
				      size_t element_bytes) HF_MUST_CHECK;

#endif
