/* Type table: names of types, and the type of every block.
 * SPDX-License-Identifier: MIT */
#include "indexer/type_table.h"

#include <string.h>

struct hf_type_table {
	HF_ARRAY(struct hf_type) types;
	uint32_t *slots;    /* open addressing: index of a type + 1, or 0 */
	uint32_t num_slots; /* power of two, at most half full */
};

struct hf_error *hf_type_table_create(struct hf_type_table **ret)
{
	struct hf_type_table *table = calloc(1, sizeof(*table));

	if (!table)
		return &hf_enomem;
	table->num_slots = 256;
	table->slots = calloc(table->num_slots, sizeof(*table->slots));
	if (!table->slots) {
		free(table);
		return &hf_enomem;
	}
	*ret = table;
	return NULL;
}

void hf_type_table_destroy(struct hf_type_table *table)
{
	if (!table)
		return;
	for (size_t i = 0; i < table->types.num; i++) {
		free(table->types.data[i].name);
		free(table->types.data[i].full_name);
	}
	hf_array_deinit(&table->types);
	free(table->slots);
	free(table);
}

static const char *key_name(const struct hf_type *type)
{
	return type->full_name ? type->full_name : type->name;
}

/* FNV-1a over what makes a type: its full name, kind and module. */
static uint64_t hash_type(const struct hf_type *type)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325);

	for (const char *p = key_name(type); *p; p++)
		hash = (hash ^ (unsigned char)*p) * UINT64_C(0x100000001b3);
	hash = (hash ^ (uint64_t)type->kind) * UINT64_C(0x100000001b3);
	hash = (hash ^ type->module_id) * UINT64_C(0x100000001b3);
	return hash ^ hash >> 32;
}

static bool same_type(const struct hf_type *a, const struct hf_type *b)
{
	return a->kind == b->kind && a->module_id == b->module_id &&
	       !strcmp(key_name(a), key_name(b));
}

/* The slot of this type, or the empty one where it belongs. */
static uint32_t *find_slot(const struct hf_type_table *table,
			   const struct hf_type *type)
{
	uint32_t mask = table->num_slots - 1;
	uint32_t at = (uint32_t)hash_type(type) & mask;

	while (table->slots[at] &&
	       !same_type(&table->types.data[table->slots[at] - 1], type))
		at = (at + 1) & mask;
	return &table->slots[at];
}

static struct hf_error *grow_slots(struct hf_type_table *table)
{
	uint32_t num = table->num_slots * 2;
	uint32_t *slots = calloc(num, sizeof(*slots));

	if (!slots)
		return &hf_enomem;
	free(table->slots);
	table->slots = slots;
	table->num_slots = num;
	for (uint32_t i = 0; i < table->types.num; i++)
		*find_slot(table, &table->types.data[i]) = i + 1;
	return NULL;
}

struct hf_error *hf_type_table_intern(struct hf_type_table *table,
				      const struct hf_type *type,
				      uint32_t *ret)
{
	uint32_t *slot = find_slot(table, type);
	struct hf_type copy = *type;
	struct hf_error *err;

	if (*slot) {
		*ret = *slot - 1;
		return NULL;
	}
	if (table->types.num >= table->num_slots / 2) {
		err = grow_slots(table);
		if (err)
			return err;
		slot = find_slot(table, type);
	}
	copy.name = strdup(type->name);
	copy.full_name = type->full_name ? strdup(type->full_name) : NULL;
	err = copy.name && (copy.full_name || !type->full_name)
		      ? hf_array_append(&table->types, copy)
		      : &hf_enomem;
	if (err) {
		free(copy.name);
		free(copy.full_name);
		return err;
	}
	*slot = (uint32_t)table->types.num;
	*ret = *slot - 1;
	return NULL;
}

const struct hf_type *hf_type_table_all(const struct hf_type_table *table,
					uint32_t *num_ret)
{
	*num_ret = (uint32_t)table->types.num;
	return table->types.data;
}

const char *hf_type_kind_name(enum hf_type_kind kind)
{
	static const char *const names[] = {
		[HF_TYPE_SIZE_CLASS] = "size_class",
		[HF_TYPE_CLASS] = "class",
		[HF_TYPE_ALLOCATOR_INTERNAL] = "allocator_internal",
		[HF_TYPE_ROOT_HOLDER] = "root_holder",
		[HF_TYPE_PSEUDO] = "pseudo",
	};

	return names[kind];
}
