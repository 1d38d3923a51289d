/* The glibc reader against victims that log every allocation.
 * SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>
#include <gnu/libc-version.h>

#include "indexer/glibc/glibc_reader.h"
#include "tests/support/block_sink.h"
#include "tests/support/malloc_victim.h"
#include "tests/support/test_main.h"

/* Every block the victim logged is live with the same usable size, no other
 * block is live, nothing is odd, and the sums are those of mallinfo2(). */

struct scenario {
	const char *name;        /* of the victim */
	const char *program;     /* NULL: the dynamic one, with the logger
				  * preloaded */
	const char *env[4];
	struct hf_glibc_options options;
	uint64_t extra_live;     /* blocks that the log cannot know */
};

enum { MAX_COMPLAINTS = 10 };

struct counts {
	size_t missing, extra, wrong_size;
	size_t live, internal, cached, free;
	uint64_t fordblks; /* as mallinfo2() counts: chunks, top, fastbins */
	uint64_t hblks, hblkhd;
	uint64_t arena;
};

static void count_areas(const struct block_sink *sink, struct counts *counts)
{
	for (size_t i = 0; i < sink->areas.num; i++) {
		const struct hf_area *area = &sink->areas.data[i];

		if (area->kind == HF_AREA_MMAP) {
			counts->hblks++;
			counts->hblkhd += area->end - area->start;
		} else {
			counts->arena += area->end - area->start;
		}
	}
}

static void compare(const struct malloc_victim *victim,
		    const struct block_sink *sink, const char *name,
		    struct counts *ret)
{
	size_t num, l = 0;
	const struct alloc_log_entry *log = malloc_victim_blocks(victim, &num);
	size_t complaints = 0;

	memset(ret, 0, sizeof(*ret));
	for (size_t i = 0; i < sink->blocks.num; i++) {
		const struct hf_block *block = &sink->blocks.data[i];

		switch ((enum hf_block_state)block->state) {
		case HF_BLOCK_INTERNAL:
			ret->internal++;
			continue;
		case HF_BLOCK_CACHED:
			ret->cached++;
			continue;
		case HF_BLOCK_FREE:
			ret->free++;
			ret->fordblks += block->size_bytes + 8;
			continue;
		case HF_BLOCK_LIVE:
			ret->live++;
		}
		for (; l < num && log[l].addr < block->addr; l++) {
			ret->missing++;
			if (complaints++ < MAX_COMPLAINTS)
				print_message("%s: missing 0x%" PRIx64 " (%"
					      PRIu64 ")\n", name, log[l].addr,
					      log[l].usable);
		}
		if (l == num || log[l].addr != block->addr) {
			ret->extra++;
			if (complaints++ < MAX_COMPLAINTS)
				print_message("%s: extra 0x%" PRIx64 " (%"
					      PRIu64 ")\n", name, block->addr,
					      block->size_bytes);
			continue;
		}
		if (log[l].usable != block->size_bytes) {
			ret->wrong_size++;
			if (complaints++ < MAX_COMPLAINTS)
				print_message("%s: 0x%" PRIx64 " has %" PRIu64
					      ", not %" PRIu64 "\n", name,
					      block->addr, log[l].usable,
					      block->size_bytes);
		}
		l++;
	}
	ret->missing += num - l;
	count_areas(sink, ret);
}

/* "2.36", or a range that it is in; a range only where nothing names it. */
static void check_version(const struct hf_reader_info *info, bool is_static,
			  bool no_version)
{
	unsigned int own, first, last;
	int num = sscanf(info->version, "2.%u-2.%u", &first, &last);

	assert_int_equal(sscanf(gnu_get_libc_version(), "2.%u", &own), 1);
	assert_true(num >= 1);
	if (num == 1)
		last = first;
	assert_in_range(own, first, last);
	if (!is_static && !no_version) {
		assert_int_equal(num, 1);
		assert_int_equal(info->confidence, HF_CONFIDENCE_HIGH);
	} else {
		assert_int_equal(info->confidence, HF_CONFIDENCE_MEDIUM);
	}
}

static void check_scenario(const struct scenario *scenario)
{
	const char *argv[] = { scenario->program ? scenario->program :
						   HF_VICTIM_MALLOC_LOG,
			       scenario->name, NULL };
	const char *env[8] = { 0 };
	struct malloc_victim *victim;
	const struct malloc_victim_info *mallinfo;
	const struct hf_anomaly *anomaly;
	HF_AUTO(hf_anomalies) struct hf_anomalies *anomalies = NULL;
	struct block_sink sink;
	struct counts counts;
	struct hf_reader_info info;
	size_t num = 0, tops = 0;
	void *reader;

	for (; scenario->env[num]; num++)
		env[num] = scenario->env[num];
	if (!scenario->program)
		env[num++] = "LD_PRELOAD=" HF_ALLOC_LOG_LIBRARY;
	victim = malloc_victim_start(argv, env);
	assert_non_null(victim);
	assert_hf_ok(hf_anomalies_create(&anomalies));
	assert_hf_ok(hf_glibc_open(malloc_victim_image(victim), anomalies,
				   &scenario->options, &reader));
	hf_glibc_reader.info(reader, &info);
	check_version(&info, scenario->program != NULL,
		      scenario->options.no_version);
	block_sink_init(&sink, anomalies);
	assert_hf_ok(hf_glibc_reader.walk(reader, &sink.sink));
	block_sink_finish(&sink);
	compare(victim, &sink, scenario->name, &counts);
	print_message("%s: %zu live, %zu internal, %zu cached, %zu free in %zu "
		      "areas; %zu missing, %zu extra, %zu of wrong size (%s, "
		      "%s)\n",
		      scenario->name, counts.live, counts.internal,
		      counts.cached, counts.free, sink.areas.num,
		      counts.missing, counts.extra, counts.wrong_size,
		      info.version, info.how);
	anomaly = hf_anomalies_all(anomalies, &num);
	for (size_t i = 0; i < num; i++)
		print_message("%s: anomaly '%s' x %" PRIu64 " at 0x%" PRIx64
			      ": %s\n", scenario->name, anomaly[i].kind,
			      anomaly[i].count, anomaly[i].addr,
			      anomaly[i].detail);
	assert_int_equal(counts.missing, 0);
	assert_int_equal(counts.extra, scenario->extra_live);
	assert_int_equal(counts.wrong_size, 0);
	assert_int_equal(hf_anomalies_total(anomalies), 0);
	assert_true(counts.live > 0 || strcmp(scenario->name, "nothing") == 0);

	/* mallinfo2(): fordblks counts chunk sizes (ours are 8 bytes less, 16
	 * for the top of each arena) and fastbins, which we count as cached;
	 * uordblks is all the rest of the arenas, headers and tcaches too. */
	mallinfo = malloc_victim_info(victim);
	for (size_t i = 0; i < sink.areas.num; i++)
		tops += sink.areas.data[i].trim_bytes != 0;
	assert_int_equal(counts.hblks, mallinfo->hblks);
	assert_int_equal(counts.hblkhd, mallinfo->hblkhd);
	assert_int_equal(counts.arena, mallinfo->arena);
	assert_int_equal(counts.fordblks + 8 * tops,
			 mallinfo->fordblks - mallinfo->fsmblks);
	assert_int_equal(counts.arena - counts.fordblks - 8 * tops -
				 mallinfo->fsmblks, mallinfo->uordblks);

	hf_glibc_reader.close(reader);
	block_sink_deinit(&sink);
	malloc_victim_destroy(victim);
}

static void check_all(const struct scenario *scenarios, size_t num)
{
	for (size_t i = 0; i < num; i++)
		check_scenario(&scenarios[i]);
}

#define CHECK_ALL(scenarios)                                                  \
	check_all(scenarios, sizeof(scenarios) / sizeof((scenarios)[0]))

static void one_thread_agrees_block_for_block(void **state)
{
	static const struct scenario scenarios[] = {
		{ .name = "single" },
		{ .name = "nothing" },
		{ .name = "stdio" },
		{ .name = "fast" },
		{ .name = "trimmed" },
	};

	(void)state;
	CHECK_ALL(scenarios);
}

static void anchors_and_layout_are_found_in_every_way(void **state)
{
	static const struct scenario scenarios[] = {
		{ .name = "single", .options = { true, true, false } },
		{ .name = "single", .options = { true, false, false } },
		{ .name = "single", .options = { false, true, false } },
		{ .name = "single", .options = { true, true, true } },
		{ .name = "fast", .options = { true, true, false } },
		{ .name = "threads", .options = { true, true, false } },
		{ .name = "large", .options = { true, true, false } },
		{ .name = "noncontiguous", .options = { true, true, false } },
	};

	(void)state;
	CHECK_ALL(scenarios);
}

static void threads_and_their_arenas_agree(void **state)
{
	static const struct scenario scenarios[] = {
		{ .name = "threads" },
		{ .name = "threads", .env = { "MALLOC_ARENA_MAX=1" } },
		{ .name = "threads", .env = { "MALLOC_ARENA_MAX=2" } },
		{ .name = "exited" },
		{ .name = "exited", .env = { "MALLOC_ARENA_MAX=2" } },
		{ .name = "heaps" },
		{ .name = "fences" },
	};

	(void)state;
	CHECK_ALL(scenarios);
}

static void chunks_with_their_own_mapping_agree(void **state)
{
	static const struct scenario scenarios[] = {
		{ .name = "large" },
		{ .name = "large-fixed" },
		{ .name = "small-threshold" },
		{ .name = "aligned" },
		{ .name = "aligned-mmapped" },
	};

	(void)state;
	CHECK_ALL(scenarios);
}

static void a_main_arena_without_brk_agrees(void **state)
{
	static const struct scenario scenarios[] = {
		{ .name = "noncontiguous" },
		{ .name = "blocked" },
		{ .name = "limited" },
		{ .name = "foreign-sbrk" },
		{ .name = "single", .env = { "GLIBC_TUNABLES="
					     "glibc.malloc.hugetlb=2" } },
	};

	(void)state;
	CHECK_ALL(scenarios);
}

static void tunables_change_nothing(void **state)
{
	static const struct scenario scenarios[] = {
		{ .name = "single", .env = { "GLIBC_TUNABLES="
			"glibc.malloc.tcache_count=0" } },
		{ .name = "fast", .env = { "GLIBC_TUNABLES="
			"glibc.malloc.tcache_count=0" } },
		{ .name = "threads", .env = { "GLIBC_TUNABLES="
			"glibc.malloc.tcache_count=60000" } },
		{ .name = "fast", .env = { "GLIBC_TUNABLES="
			"glibc.malloc.tcache_count=60000" } },
		{ .name = "single", .env = { "GLIBC_TUNABLES="
			"glibc.malloc.mxfast=160" } },
		{ .name = "threads", .env = { "GLIBC_TUNABLES="
			"glibc.malloc.hugetlb=1" } },
		{ .name = "threads", .env = { "GLIBC_TUNABLES="
			"glibc.malloc.hugetlb=2" } },
		{ .name = "heaps", .env = { "GLIBC_TUNABLES="
			"glibc.malloc.hugetlb=2" } },
		{ .name = "single", .env = { "GLIBC_TUNABLES="
			"glibc.malloc.perturb=165" } },
		{ .name = "single", .env = { "MALLOC_TOP_PAD_=0" } },
		{ .name = "single", .env = { "MALLOC_MMAP_MAX_=0" } },
	};

	(void)state;
	CHECK_ALL(scenarios);
}

static void a_child_that_the_program_forked_agrees(void **state)
{
	static const struct scenario scenarios[] = {
		{ .name = "forked" },
		{ .name = "forked", .env = { "MALLOC_ARENA_MAX=1" } },
	};

	(void)state;
	CHECK_ALL(scenarios);
}

static void static_programs_agree_with_and_without_symbols(void **state)
{
	static const struct scenario scenarios[] = {
		{ .name = "single", .program = HF_VICTIM_STATIC },
		{ .name = "threads", .program = HF_VICTIM_STATIC },
		{ .name = "single", .program = HF_VICTIM_STRIPPED },
		{ .name = "threads", .program = HF_VICTIM_STRIPPED },
		{ .name = "aligned", .program = HF_VICTIM_STRIPPED },
		{ .name = "noncontiguous",
		  .program = HF_VICTIM_STRIPPED },
		{ .name = "stdio", .program = HF_VICTIM_STRIPPED },
		{ .name = "nothing", .program = HF_VICTIM_STRIPPED },
		{ .name = "single", .program = HF_VICTIM_STRIPPED,
		  .options = { .no_version = true } },
	};

	(void)state;
	CHECK_ALL(scenarios);
}

/* Eight threads are stopped somewhere in malloc, free, or the logger: each may
 * have one block that one side knows and the other does not yet, and one that
 * realloc has taken but not replaced. */
static void threads_stopped_inside_of_malloc_cost_a_block_each(void **state)
{
	const char *argv[] = { HF_VICTIM_MALLOC_LOG, "busy", NULL };
	const char *env[] = { "LD_PRELOAD=" HF_ALLOC_LOG_LIBRARY, NULL };
	enum { NUM_THREADS = 8, ROUNDS = 5 };

	(void)state;
	for (int round = 0; round < ROUNDS; round++) {
		struct malloc_victim *victim = malloc_victim_start(argv, env);
		HF_AUTO(hf_anomalies) struct hf_anomalies *anomalies = NULL;
		struct block_sink sink;
		struct counts counts;
		void *reader;

		assert_non_null(victim);
		assert_hf_ok(hf_anomalies_create(&anomalies));
		assert_hf_ok(hf_glibc_reader.open(malloc_victim_image(victim),
						  anomalies, NULL, &reader));
		block_sink_init(&sink, anomalies);
		assert_hf_ok(hf_glibc_reader.walk(reader, &sink.sink));
		block_sink_finish(&sink);
		compare(victim, &sink, "busy", &counts);
		print_message("busy: %zu live, %zu missing, %zu extra, %" PRIu64
			      " anomalies\n", counts.live, counts.missing,
			      counts.extra, hf_anomalies_total(anomalies));
		assert_true(counts.live > 500);
		assert_in_range(counts.missing, 0, 2 * NUM_THREADS);
		assert_in_range(counts.extra, 0, 2 * NUM_THREADS);
		assert_in_range(counts.internal, NUM_THREADS,
				NUM_THREADS + 1);
		hf_glibc_reader.close(reader);
		block_sink_deinit(&sink);
		malloc_victim_destroy(victim);
	}
}

/* With another malloc in front, glibc's has nothing, or is not there. */
static void another_allocator_gets_no_invented_blocks(void **state)
{
	static const char library[] =
		"/usr/lib/x86_64-linux-gnu/libjemalloc.so.2";
	const char *argv[] = { HF_VICTIM_MALLOC_LOG, "single", NULL };
	const char *env[] = {
		"LD_PRELOAD=/usr/lib/x86_64-linux-gnu/libjemalloc.so.2", NULL
	};
	HF_AUTO(hf_anomalies) struct hf_anomalies *anomalies = NULL;
	struct malloc_victim *victim;
	struct hf_error *err;
	void *reader;

	(void)state;
	if (access(library, R_OK) != 0) {
		print_message("no %s here\n", library);
		skip();
	}
	victim = malloc_victim_start(argv, env);
	assert_non_null(victim);
	assert_hf_ok(hf_anomalies_create(&anomalies));
	err = hf_glibc_reader.open(malloc_victim_image(victim), anomalies,
				   NULL, &reader);
	if (err) {
		assert_int_equal(err->code, HF_ERROR_NOT_FOUND);
		hf_error_destroy(err);
	} else {
		struct block_sink sink;

		block_sink_init(&sink, anomalies);
		assert_hf_ok(hf_glibc_reader.walk(reader, &sink.sink));
		assert_int_equal(sink.blocks.num, 0);
		assert_int_equal(sink.areas.num, 0);
		block_sink_deinit(&sink);
		hf_glibc_reader.close(reader);
	}
	assert_int_equal(hf_anomalies_total(anomalies), 0);
	malloc_victim_destroy(victim);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(one_thread_agrees_block_for_block),
		cmocka_unit_test(anchors_and_layout_are_found_in_every_way),
		cmocka_unit_test(threads_and_their_arenas_agree),
		cmocka_unit_test(chunks_with_their_own_mapping_agree),
		cmocka_unit_test(a_main_arena_without_brk_agrees),
		cmocka_unit_test(tunables_change_nothing),
		cmocka_unit_test(static_programs_agree_with_and_without_symbols),
		cmocka_unit_test(a_child_that_the_program_forked_agrees),
		cmocka_unit_test(
			threads_stopped_inside_of_malloc_cost_a_block_each),
		cmocka_unit_test(another_allocator_gets_no_invented_blocks),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
