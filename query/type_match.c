/* Type match: the types a user means by a name.
 * SPDX-License-Identifier: MIT */
#include "query/type_match.h"

#include <string.h>

#include "query/query.h"
#include "util/array.h"

static struct hf_error *collect(struct hf_db *db, const char *sql,
				const char *name, int64_t **ret,
				size_t *num_ret)
{
	HF_AUTO(hf_query) struct hf_query *query = NULL;
	HF_ARRAY(int64_t) ids = { 0 };
	struct hf_error *err = hf_query_prepare(db, sql, &query);
	bool row;

	if (!err)
		err = hf_query_bind_text(query, 1, name);
	while (!err && !(err = hf_query_step(query, &row)) && row)
		err = hf_array_append(&ids, hf_query_i64(query, 0));
	if (err) {
		hf_array_deinit(&ids);
		return err;
	}
	*ret = ids.data;
	*num_ret = ids.num;
	return NULL;
}

/* "no type 'Sesion'", and those that contain it, the largest first. Types are
 * found in any case and without their template arguments: what people type. */
static struct hf_error *no_such_type(struct hf_db *db, const char *name)
{
	HF_AUTO(hf_query) struct hf_query *query = NULL;
	HF_AUTO_FREE char *similar = NULL;
	struct hf_error *err;
	bool row;

	err = hf_query_prepare(
		db,
		"SELECT group_concat(name, ''', ''') FROM (SELECT name FROM"
		" main.type JOIN main.type_stat s ON s.type_id = type.id"
		" WHERE instr(lower(name), lower(?1)) > 0"
		" ORDER BY s.bytes DESC LIMIT 5)",
		&query);
	if (!err)
		err = hf_query_bind_text(query, 1, name);
	if (!err)
		err = hf_query_step(query, &row);
	if (err)
		return err;
	if (row && hf_query_text(query, 0)[0])
		similar = strdup(hf_query_text(query, 0));
	err = hf_error_create(HF_ERROR_NOT_FOUND, "there is no type '%s'",
			      name);
	if (similar)
		return hf_error_fix(err, "similar: '%s'", similar);
	return hf_error_fix(err, "heapfork census lists the types");
}

/* (unreachable) and (several roots) stand for what they dominate. */
static struct hf_error *pseudo_type(struct hf_db *db, const char *name,
				    bool *ret)
{
	HF_AUTO_FREE int64_t *ids = NULL;
	size_t num;
	struct hf_error *err = collect(db,
				       "SELECT id FROM main.type WHERE name ="
				       " ?1 AND kind = 'pseudo'",
				       name, &ids, &num);

	*ret = !err && num;
	return err;
}

static struct hf_error *refuse_pseudo(const char *name)
{
	struct hf_error *err = hf_error_create(
		HF_ERROR_NOT_FOUND, "'%s' is not a type of objects", name);

	if (!strcmp(name, "(unreachable)"))
		return hf_error_fix(
			hf_error_cause(err, "it stands for all that no root "
					    "reaches"),
			"heapfork leaks lists that");
	return hf_error_fix(
		hf_error_cause(err, "it stands for all that more than one "
				    "root holder keeps"),
		"heapfork sql FILE \"SELECT * FROM retained_top WHERE "
		"dominator_id = (SELECT id FROM retained_top WHERE type = "
		"'%s')\" lists that", name);
}

struct hf_error *hf_type_match(struct hf_db *db, const char *name,
			       int64_t **ret, size_t *num_ret)
{
	bool is_pseudo;
	struct hf_error *err = pseudo_type(db, name, &is_pseudo);

	if (err)
		return err;
	if (is_pseudo)
		return refuse_pseudo(name);
	err = collect(db,
		      "SELECT id FROM main.type WHERE (name = ?1 OR"
		      " full_name = ?1) AND kind <> 'pseudo' ORDER BY id",
		      name, ret, num_ret);
	if (err || *num_ret)
		return err;
	free(*ret);
	*ret = NULL;
	if (strpbrk(name, "*?[")) {
		err = collect(db,
			      "SELECT id FROM main.type WHERE (name GLOB ?1"
			      " OR full_name GLOB ?1) AND kind <> 'pseudo'"
			      " ORDER BY id",
			      name, ret, num_ret);
		if (err || *num_ret)
			return err;
		free(*ret);
		*ret = NULL;
	}
	return no_such_type(db, name);
}
