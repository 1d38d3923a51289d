/* Heap registry: the readers there are, in the order of asking.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_HEAP_REGISTRY_H
#define HF_INDEXER_HEAP_REGISTRY_H

#include "indexer/heap_reader.h"

/** All readers; NULL-terminated. */
const struct hf_heap_reader_ops *const *hf_heap_readers(void);

#endif
