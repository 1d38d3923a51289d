/* Flat arrays: large plain arrays, on huge pages where the kernel agrees.
 * SPDX-License-Identifier: MIT */
#include "indexer/graph/flat_array.h"

#include <stdint.h>
#include <sys/mman.h>

enum {
	SMALL_PAGE_BYTES = 4096,
	HUGE_PAGE_BYTES = 2 << 20,
};

/* Only advice: a kernel without huge pages runs the same code, slower. */
static void advise_huge(void *array, size_t bytes)
{
	uintptr_t start = (uintptr_t)array, end = start + bytes;

	if (bytes < 2 * HUGE_PAGE_BYTES)
		return;
	start = (start + SMALL_PAGE_BYTES - 1) & -(uintptr_t)SMALL_PAGE_BYTES;
	end &= -(uintptr_t)SMALL_PAGE_BYTES;
	(void)madvise((void *)start, end - start, MADV_HUGEPAGE);
}

void *hf_flat_zeroed(size_t num, size_t element_bytes)
{
	void *array = calloc(num ? num : 1, element_bytes);

	if (array)
		advise_huge(array, num * element_bytes);
	return array;
}

void *hf_flat_uninit(size_t num, size_t element_bytes)
{
	return hf_flat_resize(NULL, num, element_bytes);
}

void *hf_flat_resize(void *array, size_t num, size_t element_bytes)
{
	size_t bytes;

	if (__builtin_mul_overflow(num ? num : 1, element_bytes, &bytes))
		return NULL;
	array = realloc(array, bytes);
	if (array)
		advise_huge(array, bytes);
	return array;
}
