/* Retainers: merged paths against a definition by brute force.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <cmocka.h>

#include "query/retainers.h"
#include "tests/support/heap_file.h"
#include "tests/support/test_main.h"

enum { MAX_OBJECTS = 400, MAX_PATHS = 4096 };

/* Object i + 1 of a made-up heap. The first is the pseudo object, the next
 * `holders` are root holders. */
struct made {
	uint32_t type;
	uint32_t up; /* object id, 0: top */
	bool reachable;
	uint32_t size;
};

struct heap {
	struct made objects[MAX_OBJECTS];
	uint32_t num;
};

/* One step as a text: "/h3/t1/t2". */
struct step {
	char *path;
	uint64_t count, bytes, repeat;
};

struct steps {
	struct step data[MAX_PATHS];
	size_t num;
};

static struct step *step_of(struct steps *steps, const char *path)
{
	for (size_t i = 0; i < steps->num; i++)
		if (!strcmp(steps->data[i].path, path))
			return &steps->data[i];
	assert_true(steps->num < MAX_PATHS);
	steps->data[steps->num] = (struct step){ .path = strdup(path),
						 .repeat = 1 };
	return &steps->data[steps->num++];
}

static void steps_clear(struct steps *steps)
{
	for (size_t i = 0; i < steps->num; i++)
		free(steps->data[i].path);
	steps->num = 0;
}

static unsigned random_below(unsigned *seed, unsigned below)
{
	return (unsigned)rand_r(seed) % below;
}

static void make(struct heap *heap, unsigned seed, uint32_t num,
		 unsigned num_types, unsigned reach_back, unsigned restart)
{
	uint32_t holders = 1 + random_below(&seed, 4);

	heap->num = num;
	for (uint32_t i = 0; i < num; i++) {
		struct made *object = &heap->objects[i];

		*object = (struct made){
			.type = 1 + random_below(&seed, num_types),
			.size = 8 * (1 + random_below(&seed, 9)),
			.reachable = true,
		};
		if (i <= holders) {
			object->size = 0;
			object->reachable = i > 0;
			continue;
		}
		/* Near parents make long chains; one of `restart` objects
		 * begins a new one. */
		object->up = 1 + (random_below(&seed, restart) ?
					  i - 1 - random_below(&seed,
							       reach_back < i ?
								       reach_back :
								       i) :
					  random_below(&seed, holders + 1));
		object->reachable = heap->objects[object->up - 1].reachable;
	}
}

static void write_heap(const struct heap *heap, struct hf_heap_file *file)
{
	hf_heap_file_create(file);
	for (uint32_t i = 0; i < heap->num; i++) {
		const struct made *object = &heap->objects[i];
		char sql[300], up[16], distance[16];

		snprintf(up, sizeof(up), "%u", object->up);
		snprintf(distance, sizeof(distance), "%u", i);
		snprintf(sql, sizeof(sql),
			 "INSERT INTO object(id, size_bytes, type_id, flags,"
			 " idom, retained_bytes, root_distance, bfs_parent)"
			 " VALUES(%u, %u, %u, %d, %s, 0, %s, %s)",
			 i + 1, object->size, object->type,
			 object->up ? object->reachable :
			 i	    ? 33 :
				      4,
			 object->reachable ? "0" : up,
			 object->reachable ? distance : "NULL",
			 object->reachable && object->up ? up : "NULL");
		hf_heap_file_exec(file, sql);
	}
	hf_heap_file_finish_bare(file);
}

/* The definition: each match alone, its whole chain, no memory between. */
static void brute_force(const struct heap *heap, uint32_t match,
			struct steps *steps)
{
	uint32_t chain[MAX_OBJECTS], length = 0;
	char *labels[MAX_OBJECTS];     /* of the path so far */
	uint32_t num_labels = 0;
	char *paths[MAX_OBJECTS];      /* where each object of the chain is */
	uint32_t repeats[MAX_OBJECTS];
	char path[MAX_OBJECTS * 8];

	for (uint32_t id = match; id; id = heap->objects[id - 1].up)
		chain[length++] = id;
	for (uint32_t i = 0; i < length; i++) {
		uint32_t id = chain[length - 1 - i], period = 0;
		char *label = NULL;

		assert_true(asprintf(&label, i ? "t%u" : "h%u",
				     i ? heap->objects[id - 1].type : id) > 0);
		for (uint32_t k = 1; !period && k <= 4; k++) {
			bool same = num_labels >= 2 * k - 1;

			for (uint32_t j = 0; same && j < k; j++) {
				const char *a = j ? labels[num_labels - j] :
						    label;

				same = !strcmp(a, labels[num_labels - j - k]);
			}
			if (same && num_labels + 1 - 2 * k >= 1)
				period = k; /* not into the holder */
		}
		repeats[i] = 1;
		for (uint32_t k = 1; k < period; k++)
			free(labels[--num_labels]);
		if (period)
			; /* back where it was */
		else if (num_labels < HF_RETAINER_MAX_DEPTH)
			labels[num_labels++] = strdup(label);
		else if (num_labels == HF_RETAINER_MAX_DEPTH)
			labels[num_labels++] = strdup("deeper");
		free(label);
		path[0] = '\0';
		for (uint32_t j = 0; j < num_labels; j++) {
			strcat(path, "/");
			strcat(path, labels[j]);
		}
		paths[i] = strdup(path);
		if (period)
			repeats[i] = 1 + (!strcmp(paths[i - period], path) ?
						  repeats[i - period] :
						  1);
		if (repeats[i] > step_of(steps, path)->repeat)
			step_of(steps, path)->repeat = repeats[i];
	}
	for (;;) {
		char *slash = strrchr(path, '/');
		struct step *step;

		if (!slash)
			break;
		step = step_of(steps, path);
		step->count++;
		step->bytes += heap->objects[match - 1].size;
		*slash = '\0';
	}
	for (uint32_t i = 0; i < num_labels; i++)
		free(labels[i]);
	for (uint32_t i = 0; i < length; i++)
		free(paths[i]);
}

static void path_of(const struct hf_retainers *retainers, uint32_t step,
		    char *buf, size_t size)
{
	uint32_t up[HF_RETAINER_MAX_DEPTH + 2], num = 0;
	size_t len = 0;

	for (; step != HF_NO_STEP; step = retainers->steps[step].parent)
		up[num++] = step;
	while (num--) {
		const struct hf_retainer_step *s = &retainers->steps[up[num]];

		if (s->kind == HF_STEP_DEEPER)
			len += (size_t)snprintf(buf + len, size - len,
						"/deeper");
		else
			len += (size_t)snprintf(
				buf + len, size - len, "/%c%u",
				s->kind == HF_STEP_HOLDER ? 'h' : 't', s->id);
	}
}

static void compare(const struct hf_retainers *retainers, struct steps *steps)
{
	assert_int_equal(retainers->num_steps, steps->num);
	for (uint32_t i = 0; i < retainers->num_steps; i++) {
		const struct hf_retainer_step *step = &retainers->steps[i];
		char path[MAX_OBJECTS * 8];
		size_t num = steps->num;
		struct step *expected;

		path_of(retainers, i, path, sizeof(path));
		expected = step_of(steps, path);
		if (steps->num != num)
			fail_msg("unexpected step %s", path);
		if (step->count != expected->count ||
		    step->bytes != expected->bytes ||
		    step->repeat != expected->repeat)
			fail_msg("%s: %lu, %lu, x %u instead of %lu, %lu, "
				 "x %lu",
				 path, step->count, step->bytes, step->repeat,
				 expected->count, expected->bytes,
				 expected->repeat);
		if (step->parent != HF_NO_STEP)
			assert_true(step->parent < i);
	}
}

static void check_heap(const struct heap *heap, unsigned num_types)
{
	struct hf_heap_file file;
	struct hf_db *db = NULL;
	struct steps *steps = calloc(1, sizeof(*steps));

	assert_non_null(steps);
	write_heap(heap, &file);
	assert_hf_ok(hf_db_open(file.path, &db));
	for (int64_t type = 1; type <= num_types; type++) {
		struct hf_retainer_match match = { .type_ids = &type,
						   .num_types = 1 };
		struct hf_retainers retainers;

		for (uint32_t i = 0; i < heap->num; i++)
			if (heap->objects[i].type == type)
				brute_force(heap, i + 1, steps);
		assert_hf_ok(hf_retainers_find(db, &match, NULL, &retainers));
		compare(&retainers, steps);
		hf_retainers_deinit(&retainers);
		steps_clear(steps);
	}
	/* One object, by lookups and by reading all. */
	for (uint32_t id = 1; id <= heap->num; id += 1 + heap->num / 7) {
		for (uint64_t lookups = 0; lookups < 2; lookups++) {
			struct hf_retainer_match match = {
				.object_id = id, .max_lookups = lookups
			};
			struct hf_retainers retainers;

			brute_force(heap, id, steps);
			assert_hf_ok(hf_retainers_find(db, &match, NULL,
						       &retainers));
			compare(&retainers, steps);
			hf_retainers_deinit(&retainers);
			steps_clear(steps);
		}
	}
	hf_db_close(db);
	hf_heap_file_remove(&file);
	free(steps);
}

static uint32_t deepest(const struct heap *heap)
{
	uint32_t depth[MAX_OBJECTS], most = 0;

	for (uint32_t i = 0; i < heap->num; i++) {
		uint32_t up = heap->objects[i].up;

		depth[i] = up ? depth[up - 1] + 1 : 0;
		if (depth[i] > most)
			most = depth[i];
	}
	return most;
}

static void merged_paths_equal_the_brute_force(void **state)
{
	struct heap heap;

	(void)state;
	for (unsigned seed = 1; seed <= 60; seed++) {
		unsigned num_types = 1 + seed % 4;

		make(&heap, seed, 5 + seed * 3, num_types, 1 + seed % 5, 8);
		check_heap(&heap, num_types);
	}
}

static void deep_chains_of_mixed_types_end_in_deeper(void **state)
{
	struct heap heap;

	(void)state;
	/* Hardly any repetition: eleven types, chains of hundreds. */
	make(&heap, 7, MAX_OBJECTS, 11, 1, 200);
	check_heap(&heap, 11);
	assert_true(deepest(&heap) > HF_RETAINER_MAX_DEPTH + 50);
}

/* A list in which `period` types take turns. */
static void check_list(uint32_t num_nodes, unsigned period)
{
	struct hf_heap_file file;
	struct hf_db *db = NULL;
	struct hf_retainers retainers;
	int64_t type = 2;
	struct hf_retainer_match match = { .type_ids = &type, .num_types = 1 };
	char sql[500];

	hf_heap_file_create(&file);
	hf_heap_file_exec(&file,
			  "INSERT INTO object(id, size_bytes, type_id, flags,"
			  " idom, retained_bytes, root_distance)"
			  " VALUES(1, 0, 1, 33, 0, 0, 0)");
	snprintf(sql, sizeof(sql),
		 "WITH RECURSIVE n(i) AS (SELECT 2 UNION ALL SELECT i + 1 FROM"
		 " n WHERE i <= %u) INSERT INTO object(id, size_bytes, type_id,"
		 " flags, idom, retained_bytes, root_distance, bfs_parent)"
		 " SELECT i, 16, 2 + i %% %u, 1, i - 1, 0, i - 1, i - 1 FROM n",
		 num_nodes, period);
	hf_heap_file_exec(&file, sql);
	hf_heap_file_finish_bare(&file);
	assert_hf_ok(hf_db_open(file.path, &db));
	assert_hf_ok(hf_retainers_find(db, &match, NULL, &retainers));
	assert_int_equal(retainers.num_matches, num_nodes / period);
	assert_int_equal(retainers.match_bytes,
			 UINT64_C(16) * num_nodes / period);
	assert_true(retainers.num_steps <= 2 * period + 1);
	if (period == 1) {
		assert_int_equal(retainers.num_steps, 2);
		assert_int_equal(retainers.steps[1].repeat, num_nodes);
	}
	hf_retainers_deinit(&retainers);
	/* The last one alone: more steps than lookups pay for. */
	match = (struct hf_retainer_match){ .object_id = num_nodes + 1 };
	assert_hf_ok(hf_retainers_find(db, &match, NULL, &retainers));
	assert_int_equal(retainers.num_matches, 1);
	assert_int_equal(retainers.num_read, num_nodes + 1);
	hf_retainers_deinit(&retainers);
	hf_db_close(db);
	hf_heap_file_remove(&file);
}

static void a_list_of_a_million_nodes_is_a_few_steps(void **state)
{
	(void)state;
	check_list(1000000, 1);
	check_list(300000, 2);
	check_list(300000, 4);
}

static void broken_chains_are_counted_not_followed_for_ever(void **state)
{
	struct hf_heap_file file;
	struct hf_db *db = NULL;
	struct hf_retainers retainers;
	int64_t type = 4;
	struct hf_retainer_match match = { .type_ids = &type, .num_types = 1 };

	(void)state;
	hf_heap_file_create(&file);
	hf_heap_file_fill(&file);
	hf_heap_file_exec(&file,
			  "UPDATE object SET bfs_parent = 6 WHERE id = 4;"
			  "UPDATE object SET type_id = 4, bfs_parent = 77"
			  " WHERE id = 8");
	hf_heap_file_finish(&file);
	assert_hf_ok(hf_db_open(file.path, &db));
	assert_hf_ok(hf_retainers_find(db, &match, NULL, &retainers));
	assert_int_equal(retainers.num_broken, 2);
	assert_int_equal(retainers.num_matches, 4);
	assert_int_equal(retainers.steps[0].kind, HF_STEP_BROKEN);
	assert_int_equal(retainers.steps[0].count, 4);
	hf_retainers_deinit(&retainers);
	for (int64_t id = 4; id <= 8; id++) {
		if (id == 7)
			continue;
		match = (struct hf_retainer_match){ .object_id = id };
		assert_hf_ok(hf_retainers_find(db, &match, NULL, &retainers));
		assert_int_equal(retainers.num_broken, 1);
		hf_retainers_deinit(&retainers);
	}
	hf_db_close(db);
	hf_heap_file_remove(&file);
}

static void an_object_that_does_not_exist_is_not_found(void **state)
{
	static const int64_t ids[] = { 0, -1, 11, UINT32_MAX, INT64_MAX };
	struct hf_heap_file file;
	struct hf_db *db = NULL;

	(void)state;
	hf_heap_file_create(&file);
	hf_heap_file_fill(&file);
	hf_heap_file_finish(&file);
	assert_hf_ok(hf_db_open(file.path, &db));
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		struct hf_retainer_match match = { .object_id = ids[i] };
		struct hf_retainers retainers;
		struct hf_error *err =
			hf_retainers_find(db, &match, NULL, &retainers);

		assert_non_null(err);
		assert_int_equal(err->code, HF_ERROR_NOT_FOUND);
		hf_error_destroy(err);
	}
	hf_db_close(db);
	hf_heap_file_remove(&file);
}

static void ids_with_gaps_are_damage(void **state)
{
	struct hf_heap_file file;
	struct hf_db *db = NULL;
	struct hf_retainers retainers;
	int64_t type = 4;
	struct hf_retainer_match match = { .type_ids = &type, .num_types = 1 };
	struct hf_error *err;

	(void)state;
	hf_heap_file_create(&file);
	hf_heap_file_fill(&file);
	hf_heap_file_exec(&file, "UPDATE object SET id = 1099511627776"
				 " WHERE id = 6");
	hf_heap_file_finish(&file);
	assert_hf_ok(hf_db_open(file.path, &db));
	err = hf_retainers_find(db, &match, NULL, &retainers);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_BAD_DATA);
	hf_error_destroy(err);
	hf_db_close(db);
	hf_heap_file_remove(&file);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(merged_paths_equal_the_brute_force),
		cmocka_unit_test(deep_chains_of_mixed_types_end_in_deeper),
		cmocka_unit_test(a_list_of_a_million_nodes_is_a_few_steps),
		cmocka_unit_test(
			broken_chains_are_counted_not_followed_for_ever),
		cmocka_unit_test(an_object_that_does_not_exist_is_not_found),
		cmocka_unit_test(ids_with_gaps_are_damage),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
