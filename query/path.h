/* Path: the chain of objects from a root to one of them.
 * SPDX-License-Identifier: MIT */
#ifndef HF_QUERY_PATH_H
#define HF_QUERY_PATH_H

#include "query/db.h"
#include "util/progress.h"

enum hf_path_kind {
	HF_PATH_SHORTEST,   /* over bfs_parent: each step points to the next */
	HF_PATH_DOMINATORS, /* over idom: each step keeps the next alive */
};

struct hf_path {
	enum hf_path_kind kind; /* SHORTEST becomes DOMINATORS for an
				 * unreachable object: it has no path */
	uint32_t *ids; /* object ids, from the root holder to the object */
	size_t num;
};

/** One step of a path, as texts and numbers for people. */
struct hf_path_step {
	int64_t id, size_bytes, retained_bytes;
	int64_t addr;
	bool has_addr;
	char *type, *type_kind; /* owned: hf_path_step_deinit */
	/* The reference to the next object of the path, the lowest slot if
	 * there are several; has_ref is false at the end of the path, and
	 * where a dominator does not point to what it dominates. */
	bool has_ref, interior, conservative;
	int64_t slot;
};

struct hf_path_reader;

/**
 * The chain to an object. Takes as many seeks as it has steps.
 *
 * @return NULL; NOT_FOUND when there is no such object; BAD_DATA when the
 * chain breaks off or runs in a circle.
 */
struct hf_error *hf_path_find(struct hf_db *db, int64_t object_id,
			      enum hf_path_kind kind,
			      const struct hf_progress *progress,
			      struct hf_path *ret) HF_MUST_CHECK;
void hf_path_deinit(struct hf_path *path);

/** To read steps of paths one after the other. */
struct hf_error *hf_path_reader_create(struct hf_db *db,
				       struct hf_path_reader **ret)
	HF_MUST_CHECK;
void hf_path_reader_destroy(struct hf_path_reader *reader);

struct hf_error *hf_path_read(struct hf_path_reader *reader,
			      const struct hf_path *path, size_t index,
			      struct hf_path_step *ret) HF_MUST_CHECK;
void hf_path_step_deinit(struct hf_path_step *step);

/** NOT_FOUND, with what to do instead (or a failure to find that out). */
struct hf_error *hf_no_such_object(struct hf_db *db, int64_t id) HF_MUST_CHECK;

/**
 * The innermost object whose bytes contain an address.
 *
 * @return NULL, or NOT_FOUND.
 */
struct hf_error *hf_object_at(struct hf_db *db, uint64_t addr,
			      int64_t *id_ret) HF_MUST_CHECK;

HF_DEFINE_AUTO(struct hf_path_reader *, hf_path_reader, hf_path_reader_destroy)

#endif
