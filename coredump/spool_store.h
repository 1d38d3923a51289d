/* Spool store: room for copied bytes, in memory or in a file without a name.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_SPOOL_STORE_H
#define HF_COREDUMP_SPOOL_STORE_H

#include "util/error.h"

enum hf_spool_place {
	HF_SPOOL_NOWHERE, /* not copied: read from the process */
	HF_SPOOL_MEMORY,  /* anonymous memory of ours */
	HF_SPOOL_FILE,    /* a file without a name: gone with us */
};

/** Written once, one piece after the other; then read, by any thread. */
struct hf_spool_store;

/**
 * @param capacity bytes it may take at most.
 * @param room bytes that are added at a time, at most.
 * @param dir folder for HF_SPOOL_FILE.
 */
struct hf_error *hf_spool_store_create(enum hf_spool_place place,
				       uint64_t capacity, size_t room,
				       const char *dir,
				       struct hf_spool_store **ret)
	HF_MUST_CHECK;
void hf_spool_store_destroy(struct hf_spool_store *store);

enum hf_spool_place hf_spool_store_place(const struct hf_spool_store *store);

/** Where the next bytes go: as many as `room`. */
char *hf_spool_store_room(struct hf_spool_store *store);

/**
 * Keep the first `len` bytes of the room; a new room follows.
 *
 * @param offset_ret where they are from now on.
 * @return NULL, NO_SPACE or OS: nothing was added then.
 */
struct hf_error *hf_spool_store_keep(struct hf_spool_store *store, size_t len,
				     uint64_t *offset_ret) HF_MUST_CHECK;

/** Bytes that were kept. */
uint64_t hf_spool_store_used(const struct hf_spool_store *store);

/** @return bytes copied; short only if the file cannot be read any more. */
size_t hf_spool_store_read(const struct hf_spool_store *store, uint64_t offset,
			   void *buf, size_t len);

HF_DEFINE_AUTO(struct hf_spool_store *, hf_spool_store, hf_spool_store_destroy)

#endif
