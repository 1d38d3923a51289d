/* Type table: names of types, and the type of every block.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_TYPE_TABLE_H
#define HF_INDEXER_TYPE_TABLE_H

#include "coredump/image.h"
#include "indexer/block_table.h"
#include "util/array.h"

/* The closed list of type.kind in sql/schema.sql, as far as it is used. */
enum hf_type_kind {
	HF_TYPE_SIZE_CLASS,         /* nothing better than its size is known */
	HF_TYPE_CLASS,              /* C++ class, by its vtable */
	HF_TYPE_ALLOCATOR_INTERNAL, /* the allocator's own */
	HF_TYPE_ROOT_HOLDER,
	HF_TYPE_PSEUDO,             /* "(unreachable)", "(several roots)" */
};

struct hf_type {
	char *name;             /* short, for people */
	char *full_name;        /* NULL: the same */
	enum hf_type_kind kind;
	uint64_t size_bytes;    /* 0: not one size */
	uint32_t module_id;     /* or HF_NO_MODULE */
};

struct hf_type_table;

struct hf_error *hf_type_table_create(struct hf_type_table **ret)
	HF_MUST_CHECK;
void hf_type_table_destroy(struct hf_type_table *table);

/** Index of the type of this kind, name and module, added if it is new. Texts
 * are copied. */
struct hf_error *hf_type_table_intern(struct hf_type_table *table,
				      const struct hf_type *type,
				      uint32_t *ret) HF_MUST_CHECK;
const struct hf_type *hf_type_table_all(const struct hf_type_table *table,
					uint32_t *num_ret);

const char *hf_type_kind_name(enum hf_type_kind kind);

HF_DEFINE_AUTO(struct hf_type_table *, hf_type_table, hf_type_table_destroy)

#endif
