/* The type of every block: vtable, the allocator's word, or its size class.
 * SPDX-License-Identifier: MIT */
#include "indexer/block_type.h"

#include <inttypes.h>
#include <stdio.h>

#include "indexer/vtable.h"
#include "util/array.h"

/* Of millions of first words only few are different, so each is asked about
 * once and the answer kept in an open-addressing table. Words that are no
 * vtables are kept, too: a heap may be full of pointers to constants. */

struct answer {
	uint64_t word;    /* 0: empty slot */
	uint32_t type;    /* UINT32_MAX: no vtable */
	uint8_t rule;
};

struct finder {
	struct hf_vtables *vtables;
	struct hf_type_table *types;
	struct answer *answers;
	size_t num_answers;
	size_t num_slots;         /* power of two, at most half full */
	uint32_t small[1032 / 8]; /* exact size classes: type + 1, or 0 */
	uint32_t large[64];       /* by the size's highest bit, the same */
	uint32_t internal;        /* type + 1, or 0 */
};

/* Usable sizes up to this are a type each. */
enum { HF_LARGEST_EXACT = 1024 };

static void finder_deinit(struct finder *finder)
{
	hf_vtables_destroy(finder->vtables);
	free(finder->answers);
}

HF_DEFINE_AUTO(struct finder *, finder, finder_deinit)

static struct answer *find_answer(struct answer *answers, size_t num_slots,
				  uint64_t word)
{
	size_t at = (size_t)((word >> 3) * UINT64_C(0x9e3779b97f4a7c15) >> 20) &
		    (num_slots - 1);

	while (answers[at].word && answers[at].word != word)
		at = (at + 1) & (num_slots - 1);
	return &answers[at];
}

static struct hf_error *grow_answers(struct finder *finder)
{
	size_t num = finder->num_slots ? finder->num_slots * 2 : 1024;
	struct answer *answers = calloc(num, sizeof(*answers));

	if (!answers)
		return &hf_enomem;
	for (size_t i = 0; i < finder->num_slots; i++)
		if (finder->answers[i].word)
			*find_answer(answers, num, finder->answers[i].word) =
				finder->answers[i];
	free(finder->answers);
	finder->answers = answers;
	finder->num_slots = num;
	return NULL;
}

static struct hf_error *ask(struct finder *finder, uint64_t word,
			    struct answer *ret)
{
	struct hf_type type = { .kind = HF_TYPE_CLASS };
	struct answer answer = { word, UINT32_MAX, HF_RULE_SIZE };
	HF_AUTO_FREE char *name = NULL;
	enum hf_vtable_how how;
	struct hf_error *err;

	err = hf_vtables_find(finder->vtables, word, &how, &name,
			      &type.module_id);
	if (err)
		return err;
	if (how != HF_VTABLE_NONE) {
		answer.rule = how == HF_VTABLE_SYMBOL ? HF_RULE_VTABLE
						      : HF_RULE_RTTI;
		type.name = name;
		err = hf_type_table_intern(finder->types, &type, &answer.type);
		if (err)
			return err;
	}
	if (finder->num_answers >= finder->num_slots / 2) {
		err = grow_answers(finder);
		if (err)
			return err;
	}
	*find_answer(finder->answers, finder->num_slots, word) = answer;
	finder->num_answers++;
	*ret = answer;
	return NULL;
}

static struct hf_error *by_first_word(struct finder *finder, uint64_t word,
				      struct answer *ret)
{
	struct answer *known;

	ret->type = UINT32_MAX;
	if (!word || !hf_vtables_maybe(finder->vtables, word))
		return NULL;
	known = finder->num_slots ? find_answer(finder->answers,
						finder->num_slots, word)
				  : NULL;
	if (known && known->word) {
		*ret = *known;
		return NULL;
	}
	return ask(finder, word, ret);
}

static void power_text(char *buf, size_t size, unsigned int log2)
{
	static const char *const units[] = { "bytes", "KiB", "MiB", "GiB",
					     "TiB", "PiB", "EiB" };

	snprintf(buf, size, "%u-%u %s", 1u << log2 % 10, 2u << log2 % 10,
		 units[log2 / 10]);
}

/* The number is (type + 1) so that 0 is "not asked for yet". */
static struct hf_error *class_number(struct finder *finder,
				     enum hf_type_kind kind, const char *name,
				     uint64_t size_bytes, uint32_t *number)
{
	struct hf_type type = {
		.name = (char *)name,
		.kind = kind,
		.size_bytes = size_bytes,
		.module_id = HF_NO_MODULE,
	};
	uint32_t id;
	struct hf_error *err =
		hf_type_table_intern(finder->types, &type, &id);

	if (!err)
		*number = id + 1;
	return err;
}

static struct hf_error *by_size(struct finder *finder, uint64_t size,
				uint32_t *ret)
{
	bool exact = size <= HF_LARGEST_EXACT && size % 8 == 0;
	unsigned int log2 = 63u - (unsigned int)__builtin_clzll(size | 1);
	uint32_t *number =
		exact ? &finder->small[size / 8] : &finder->large[log2];
	char name[48];

	if (!*number) {
		struct hf_error *err;

		if (exact)
			snprintf(name, sizeof(name), "%" PRIu64 " bytes", size);
		else
			power_text(name, sizeof(name), log2);
		err = class_number(finder, HF_TYPE_SIZE_CLASS, name,
				   exact ? size : 0, number);
		if (err)
			return err;
	}
	*ret = *number - 1;
	return NULL;
}

static struct hf_error *type_of(struct finder *finder,
				const struct hf_block_table *blocks, uint32_t i,
				uint64_t first_word, uint32_t *type_ret,
				uint8_t *rule_ret)
{
	struct answer answer;
	struct hf_error *err;

	if (blocks->is_internal[i / 64] >> (i % 64) & 1) {
		if (!finder->internal) {
			err = class_number(finder, HF_TYPE_ALLOCATOR_INTERNAL,
					   "(allocator's own)", 0,
					   &finder->internal);
			if (err)
				return err;
		}
		*type_ret = finder->internal - 1;
		*rule_ret = HF_RULE_ALLOCATOR;
		return NULL;
	}
	err = by_first_word(finder, first_word, &answer);
	if (err)
		return err;
	if (answer.type != UINT32_MAX) {
		*type_ret = answer.type;
		*rule_ret = answer.rule;
		return NULL;
	}
	*rule_ret = HF_RULE_SIZE;
	return by_size(finder, blocks->size_bytes[i], type_ret);
}

struct hf_error *hf_block_types(const struct hf_image *image,
				const struct hf_block_table *blocks,
				const uint64_t *first_word,
				struct hf_type_table *types,
				const struct hf_progress *progress,
				uint32_t *type_ret, uint8_t *rule_ret)
{
	struct finder all = { .types = types };
	HF_AUTO(finder) struct finder *finder = &all;
	struct hf_error *err = hf_vtables_create(image, &finder->vtables);

	for (uint32_t i = 0; !err && i < blocks->num; i++) {
		if (i % (1u << 16) == 0)
			err = hf_progress_update(progress, "types", i,
						 blocks->num);
		if (!err)
			err = type_of(finder, blocks, i, first_word[i],
				      &type_ret[i], &rule_ret[i]);
	}
	return err;
}
