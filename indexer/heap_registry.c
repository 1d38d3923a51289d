/* Heap registry: the readers there are, in the order of asking.
 * SPDX-License-Identifier: MIT */
#include "indexer/heap_registry.h"

#include "indexer/glibc/glibc_reader.h"

const struct hf_heap_reader_ops *const *hf_heap_readers(void)
{
	static const struct hf_heap_reader_ops *const readers[] = {
		&hf_glibc_reader,
		NULL,
	};

	return readers;
}
