/* Path: the chain of objects from a root to one of them.
 * SPDX-License-Identifier: MIT */
#include "query/path.h"

#include <inttypes.h>
#include <string.h>

#include "query/query.h"
#include "util/array.h"

/* Bits of object.flags and ref.flags (sql/schema.sql). */
enum { FLAG_PSEUDO = 4, FLAG_ROOT_HOLDER = 32 };
enum { REF_INTERIOR = 1, REF_CONSERVATIVE = 2 };

struct hf_path_reader {
	struct hf_query *object, *ref;
};

typedef HF_ARRAY(uint32_t) id_array;

static struct hf_error *broken(int64_t id, const char *what)
{
	return hf_error_cause(hf_bad_data("the snapshot is damaged"),
			      "the chain of object %" PRId64 " %s", id, what);
}

static void reverse(id_array *ids)
{
	for (size_t i = 0; i < ids->num / 2; i++) {
		uint32_t id = ids->data[i];

		ids->data[i] = ids->data[ids->num - 1 - i];
		ids->data[ids->num - 1 - i] = id;
	}
}

/* From the object up to the top. A circle is found by comparing with an
 * object seen 1, 2, 4, 8, ... steps ago (Brent). */
static struct hf_error *climb(struct hf_query *query, uint32_t object_id,
			      enum hf_path_kind *kind,
			      const struct hf_progress *progress,
			      id_array *ids)
{
	uint32_t id = object_id, mark = 0;
	uint64_t until = 1, steps = 0;
	struct hf_error *err = NULL;
	bool row;

	while (!err) {
		int64_t up;

		hf_query_reset(query);
		err = hf_query_bind_i64(query, 1, id);
		if (!err)
			err = hf_query_step(query, &row);
		if (err)
			return err;
		if (!row && !ids->num)
			return &hf_not_found;
		if (!row)
			return broken(object_id, "ends nowhere");
		err = hf_array_append(ids, id);
		if (err || hf_query_i64(query, 0) &
				   (FLAG_PSEUDO | FLAG_ROOT_HOLDER))
			return err;
		if (hf_query_is_null(query, 3))
			*kind = HF_PATH_DOMINATORS; /* unreachable */
		up = hf_query_i64(query,
				  *kind == HF_PATH_SHORTEST ? 2 : 1);
		if (up < 1 || up >= UINT32_MAX)
			return broken(object_id, "ends nowhere");
		if (up == mark)
			return broken(object_id, "is a circle");
		id = (uint32_t)up;
		if (++steps == until) {
			mark = id;
			until *= 2;
		}
		if (steps % 65536 == 0)
			err = hf_progress_update(progress, "climbing", steps,
						 0);
	}
	return err;
}

struct hf_error *hf_no_such_object(struct hf_db *db, int64_t id)
{
	HF_AUTO(hf_query) struct hf_query *query = NULL;
	struct hf_error *err;
	bool row;

	err = hf_query_prepare(db, "SELECT max(id) FROM main.object", &query);
	if (!err)
		err = hf_query_step(query, &row);
	if (err)
		return err;
	err = hf_error_create(HF_ERROR_NOT_FOUND,
			      "there is no object %" PRId64, id);
	err = hf_error_cause(err, "this snapshot has the objects 1 to %" PRId64,
			     hf_query_i64(query, 0));
	return hf_error_fix(err, "heapfork top and leaks --heads tell ids; or "
				 "give an address: --addr ADDRESS");
}

struct hf_error *hf_path_find(struct hf_db *db, int64_t object_id,
			      enum hf_path_kind kind,
			      const struct hf_progress *progress,
			      struct hf_path *ret)
{
	HF_AUTO(hf_query) struct hf_query *query = NULL;
	id_array ids = { 0 };
	struct hf_error *err;

	if (object_id < 1 || object_id >= UINT32_MAX)
		return hf_no_such_object(db, object_id);
	err = hf_query_prepare(db,
			       "SELECT flags, idom, bfs_parent, root_distance"
			       " FROM main.object WHERE id = ?1",
			       &query);
	if (!err)
		err = climb(query, (uint32_t)object_id, &kind, progress, &ids);
	if (err) {
		hf_array_deinit(&ids);
		return err == &hf_not_found ?
			       hf_no_such_object(db, object_id) : err;
	}
	reverse(&ids);
	*ret = (struct hf_path){ .kind = kind,
				 .ids = ids.data,
				 .num = ids.num };
	return NULL;
}

void hf_path_deinit(struct hf_path *path)
{
	free(path->ids);
	*path = (struct hf_path){ 0 };
}

struct hf_error *hf_path_reader_create(struct hf_db *db,
				       struct hf_path_reader **ret)
{
	HF_AUTO(hf_path_reader) struct hf_path_reader *reader =
		calloc(1, sizeof(*reader));
	struct hf_error *err;

	if (!reader)
		return &hf_enomem;
	err = hf_query_prepare(
		db,
		"SELECT o.size_bytes, o.retained_bytes, o.addr,"
		" coalesce(t.name, '?'), coalesce(t.kind, '?')"
		" FROM main.object o LEFT JOIN main.type t ON t.id = o.type_id"
		" WHERE o.id = ?1",
		&reader->object);
	/* By dst: an array may have millions of slots, few point to one
	 * object. */
	if (!err)
		err = hf_query_prepare(
			db,
			"SELECT slot, flags FROM main.ref WHERE dst = ?2"
			" AND src = ?1 ORDER BY slot LIMIT 1",
			&reader->ref);
	if (err)
		return err;
	*ret = HF_TAKE(reader);
	return NULL;
}

void hf_path_reader_destroy(struct hf_path_reader *reader)
{
	if (!reader)
		return;
	hf_query_destroy(reader->object);
	hf_query_destroy(reader->ref);
	free(reader);
}

static struct hf_error *read_object(struct hf_query *query, int64_t id,
				    struct hf_path_step *step)
{
	struct hf_error *err;
	bool row;

	hf_query_reset(query);
	err = hf_query_bind_i64(query, 1, id);
	if (!err)
		err = hf_query_step(query, &row);
	if (err)
		return err;
	if (!row)
		return broken(id, "ends nowhere");
	*step = (struct hf_path_step){
		.id = id,
		.size_bytes = hf_query_i64(query, 0),
		.retained_bytes = hf_query_i64(query, 1),
		.has_addr = !hf_query_is_null(query, 2),
		.addr = hf_query_i64(query, 2),
		.type = strdup(hf_query_text(query, 3)),
		.type_kind = strdup(hf_query_text(query, 4)),
	};
	return step->type && step->type_kind ? NULL : &hf_enomem;
}

static struct hf_error *read_ref(struct hf_query *query, int64_t src,
				 int64_t dst, struct hf_path_step *step)
{
	struct hf_error *err;
	bool row;

	hf_query_reset(query);
	err = hf_query_bind_i64(query, 1, src);
	if (!err)
		err = hf_query_bind_i64(query, 2, dst);
	if (!err)
		err = hf_query_step(query, &row);
	if (err || !row)
		return err;
	step->has_ref = true;
	step->slot = hf_query_i64(query, 0);
	step->interior = hf_query_i64(query, 1) & REF_INTERIOR;
	step->conservative = hf_query_i64(query, 1) & REF_CONSERVATIVE;
	return NULL;
}

struct hf_error *hf_path_read(struct hf_path_reader *reader,
			      const struct hf_path *path, size_t index,
			      struct hf_path_step *ret)
{
	struct hf_path_step step = { 0 };
	struct hf_error *err =
		read_object(reader->object, path->ids[index], &step);

	if (!err && index + 1 < path->num)
		err = read_ref(reader->ref, path->ids[index],
			       path->ids[index + 1], &step);
	if (err) {
		hf_path_step_deinit(&step);
		return err;
	}
	*ret = step;
	return NULL;
}

void hf_path_step_deinit(struct hf_path_step *step)
{
	free(step->type);
	free(step->type_kind);
	*step = (struct hf_path_step){ 0 };
}

struct hf_error *hf_object_at(struct hf_db *db, uint64_t addr, int64_t *id_ret)
{
	HF_AUTO(hf_query) struct hf_query *query = NULL;
	struct hf_error *err;
	bool row;

	/* Objects inside others begin later, so the last that begins before
	 * the address is the innermost, if it reaches that far. */
	err = hf_query_prepare(
		db,
		"SELECT id FROM main.object WHERE addr <= ?1 AND ?1 - addr <"
		" max(size_bytes, coalesce(extent_bytes, 0))"
		" ORDER BY addr DESC LIMIT 1",
		&query);
	if (!err)
		err = hf_query_bind_i64(query, 1, (int64_t)addr);
	if (!err)
		err = hf_query_step(query, &row);
	if (err)
		return err;
	if (!row)
		return hf_error_fix(
			hf_error_cause(
				hf_error_create(HF_ERROR_NOT_FOUND,
						"there is no object at 0x%"
						PRIx64, addr),
				"neither a live block of the heap nor a root "
				"holder contains it: it was free, or not "
				"mapped"),
			"heapfork sql FILE 'SELECT * FROM segment' lists what "
			"was mapped");
	*id_ret = hf_query_i64(query, 0);
	return NULL;
}
