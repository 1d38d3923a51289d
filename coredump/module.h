/* Modules: the ELF objects that are loaded in an image.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_MODULE_H
#define HF_COREDUMP_MODULE_H

#include "coredump/image.h"

/**
 * Fill in the modules of an image whose segments are sorted, and module_id of
 * their segments. What is not a well-formed loaded object is not a module;
 * it is no error.
 */
struct hf_error *hf_modules_find(struct hf_image *image) HF_MUST_CHECK;

#endif
