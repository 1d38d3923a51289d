/* Vtables: from the first word of an object to the name of its C++ class.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_VTABLE_H
#define HF_INDEXER_VTABLE_H

#include "coredump/image.h"

enum hf_vtable_how {
	HF_VTABLE_NONE,   /* not a vtable */
	HF_VTABLE_SYMBOL, /* inside the symbol `vtable for X` */
	HF_VTABLE_RTTI,   /* type information in memory names it */
};

/** Finds classes; opens the symbols of a module when it first meets it. */
struct hf_vtables;

struct hf_error *hf_vtables_create(const struct hf_image *image,
				   struct hf_vtables **ret) HF_MUST_CHECK;
void hf_vtables_destroy(struct hf_vtables *vtables);

/** Whether addr can be a vtable at all: aligned, and inside a module. Cheap:
 * to be asked for every block, most of which begin with another pointer. */
bool hf_vtables_maybe(const struct hf_vtables *vtables, uint64_t addr);

/**
 * The class whose vtable an object points to with `addr`.
 *
 * @param name_ret demangled class; caller frees. Only set if *how_ret is not
 * HF_VTABLE_NONE.
 * @param module_id_ret module with the vtable.
 */
struct hf_error *hf_vtables_find(struct hf_vtables *vtables, uint64_t addr,
				 enum hf_vtable_how *how_ret, char **name_ret,
				 uint32_t *module_id_ret) HF_MUST_CHECK;

HF_DEFINE_AUTO(struct hf_vtables *, hf_vtables, hf_vtables_destroy)

#endif
