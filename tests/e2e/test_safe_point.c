/* The safe point: victims that allocate all the time, and what is believed of
 * their heaps.
 * SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "coredump/live_image.h"
#include "fork-agent/capture.h"
#include "indexer/allocator_watch.h"
#include "indexer/glibc/glibc_reader.h"
#include "indexer/safe_point.h"
#include "tests/support/block_sink.h"
#include "tests/support/capture_check.h"
#include "tests/support/test_main.h"
#include "tests/support/victim.h"
#include "tests/victims/malloc_storm.h"
#include "util/file.h"

struct storm {
	struct hf_victim victim;
	uint64_t log_addr;
};

static void storm_park(struct storm *storm)
{
	hf_victim_tell(&storm->victim, "park");
	hf_victim_expect(&storm->victim, "park");
}

static void storm_start(struct storm *storm, const char *const *argv)
{
	hf_victim_start(&storm->victim, argv);
	storm->log_addr = (uint64_t)hf_victim_number(&storm->victim, "log");
	hf_victim_expect(&storm->victim, "ready");
	/* Reading a line makes the last buffer that its libc wants. */
	storm_park(storm);
}

static void storm_go(struct storm *storm)
{
	hf_victim_tell(&storm->victim, "go");
	hf_victim_expect(&storm->victim, "go");
}

static void storm_end(struct storm *storm)
{
	storm_park(storm);
	assert_int_equal(hf_victim_end(&storm->victim), 0);
}

/* ---- where malloc's code is ---- */

static void find_places(pid_t pid, hf_allocator_places *ret)
{
	HF_AUTO(hf_proc_maps) struct hf_proc_maps maps = { 0 };
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	HF_AUTO_FREE char *text = NULL;
	char path[64];
	size_t len;

	snprintf(path, sizeof(path), "/proc/%d/maps", pid);
	assert_hf_ok(hf_read_file(path, &text, &len));
	assert_hf_ok(hf_proc_maps_parse(text, len, &maps));
	assert_hf_ok(hf_live_image_open(pid, &maps, &image));
	assert_hf_ok(hf_glibc_reader.places(image, NULL, ret));
}

/* The address and the size of a function, as nm tells. @return false: none. */
static bool function_range(const char *program, const char *name,
			   struct hf_range *ret)
{
	char command[512], found[128];
	uint64_t size;
	FILE *nm;
	bool is_there = false;

	snprintf(command, sizeof(command), "nm -S '%s'", program);
	nm = popen(command, "r");
	assert_non_null(nm);
	while (fgets(command, sizeof(command), nm))
		if (sscanf(command, "%" SCNx64 " %" SCNx64 " %*c %127s",
			   &ret->start, &size, found) == 3 &&
		    strcmp(found, name) == 0) {
			ret->end = ret->start + size;
			is_there = true;
			break;
		}
	pclose(nm);
	return is_there;
}

/* A static program with symbols tells where its functions are. */
static void the_code_of_malloc_is_found_to_the_function(void **state)
{
	static const char *const inside[] = {
		"_int_malloc", "_int_free", "_int_realloc", "sysmalloc",
		"systrim.constprop.0", "malloc_consolidate", "arena_get2",
		"munmap_chunk", "malloc", "free", "calloc", "realloc",
		"malloc_trim", "mallopt",
	};
	static const char *const outside[] = {
		"pthread_create", "pthread_mutex_lock", "memcpy", "fgets",
		"__lll_lock_wait_private", "munmap", "_IO_file_underflow",
		"__libc_scratch_buffer_set_array_size", "main", "one_call",
	};
	struct storm storm;
	hf_allocator_places places = { 0 };
	struct hf_range code, range;
	size_t num = 0;

	(void)state;
	storm_start(&storm, (const char *[]){ VICTIM_MALLOC_STORM_STATIC, "1",
					      "0", NULL });
	find_places(storm.victim.pid, &places);
	storm_end(&storm);
	assert_int_equal(places.num, 1);
	code = places.data[0].code;
	print_message("code 0x%" PRIx64 "-0x%" PRIx64 "\n", code.start,
		      code.end);
	for (size_t i = 0; i < sizeof(inside) / sizeof(*inside); i++) {
		if (!function_range(VICTIM_MALLOC_STORM_STATIC, inside[i],
				    &range))
			continue; /* another compiler, another version */
		num++;
		if (range.start < code.start || range.end > code.end)
			fail_msg("%s is not in the code", inside[i]);
	}
	assert_true(num >= 10);
	for (size_t i = 0; i < sizeof(outside) / sizeof(*outside); i++)
		if (function_range(VICTIM_MALLOC_STORM_STATIC, outside[i],
				   &range) &&
		    range.start < code.end && range.end > code.start)
			fail_msg("%s is in the code", outside[i]);
	hf_allocator_places_deinit(&places);
}

static void stripped_programs_and_shared_libcs_show_the_same_code(void **state)
{
	static const char *const programs[] = {
		VICTIM_MALLOC_STORM_STATIC, VICTIM_MALLOC_STORM_STRIPPED,
		VICTIM_MALLOC_STORM,
	};
	uint64_t bytes[3];

	(void)state;
	for (size_t i = 0; i < 3; i++) {
		struct storm storm;
		hf_allocator_places places = { 0 };
		struct hf_range code;

		storm_start(&storm, (const char *[]){ programs[i], "1", "0",
						      NULL });
		find_places(storm.victim.pid, &places);
		storm_end(&storm);
		assert_int_equal(places.num, 1);
		code = places.data[0].code;
		bytes[i] = code.end - code.start;
		hf_allocator_places_deinit(&places);
	}
	/* Compiled from the same source, twice: with and without -fPIC. */
	assert_int_equal(bytes[0], bytes[1]);
	assert_in_range(bytes[2], bytes[0] * 8 / 10, bytes[0] * 12 / 10);
}

/* ---- stops ---- */

static void look_once(struct storm *storm, const struct hf_safe_point *ops,
		      uint32_t tries, struct hf_capture_report *ret)
{
	const struct hf_capture_options options = {
		.pid = storm->victim.pid,
		.safe_point = ops,
		.safe_point_tries = tries,
	};
	struct hf_frozen *frozen;

	assert_hf_ok(hf_capture(&options, &frozen));
	assert_hf_ok(hf_frozen_release(frozen));
	*ret = *hf_frozen_report(frozen);
	hf_frozen_destroy(frozen);
}

static void a_quiet_process_is_at_a_safe_point_and_a_storm_is_not(void **state)
{
	static const char *const programs[] = {
		VICTIM_MALLOC_STORM, VICTIM_MALLOC_STORM_STRIPPED,
	};
	const int rounds = hf_test_rounds(6);

	(void)state;
	for (size_t p = 0; p < 2; p++) {
		HF_AUTO(hf_safe_point_finder)
		struct hf_safe_point_finder *finder = NULL;
		const struct hf_safe_point *ops;
		struct hf_capture_report report;
		struct storm storm;
		int num_unsafe = 0;

		storm_start(&storm, (const char *[]){ programs[p], "16", "0",
						      NULL });
		assert_hf_ok(hf_safe_point_finder_create(&finder));
		ops = hf_safe_point_finder_ops(finder);
		for (int i = 0; i < rounds; i++) {
			look_once(&storm, ops, 1, &report);
			assert_true(hf_safe_point_is_safe(&report.safe_point));
		}
		storm_go(&storm);
		for (int i = 0; i < rounds; i++) {
			look_once(&storm, ops, 1, &report);
			assert_false(report.safe_point.unknown);
			num_unsafe += hf_safe_point_is_unsafe(
				&report.safe_point);
		}
		print_message("%d of %d stops in a storm were unsafe\n",
			      num_unsafe, rounds);
		assert_true(num_unsafe >= rounds - 1);
		storm_end(&storm);
	}
}

static void with_long_work_in_between_a_safe_point_comes_soon(void **state)
{
	HF_AUTO(hf_safe_point_finder)
	struct hf_safe_point_finder *finder = NULL;
	struct hf_capture_report report;
	struct storm storm;

	(void)state;
	storm_start(&storm, (const char *[]){ VICTIM_MALLOC_STORM, "16", "200",
					      NULL });
	storm_go(&storm);
	assert_hf_ok(hf_safe_point_finder_create(&finder));
	look_once(&storm, hf_safe_point_finder_ops(finder), 50, &report);
	print_message("safe at stop %" PRIu32 "\n", report.safe_point_tries);
	assert_true(hf_safe_point_is_safe(&report.safe_point));
	storm_end(&storm);
}

static void exact_refuses_a_storm_and_harms_nobody(void **state)
{
	HF_AUTO(hf_safe_point_finder)
	struct hf_safe_point_finder *finder = NULL;
	struct hf_capture_options options = {
		.safe_point_tries = 3, .exact = true,
	};
	struct hf_frozen *frozen;
	struct hf_error *err;
	struct storm storm;

	(void)state;
	storm_start(&storm, (const char *[]){ VICTIM_MALLOC_STORM, "32", "0",
					      NULL });
	storm_go(&storm);
	assert_hf_ok(hf_safe_point_finder_create(&finder));
	options.pid = storm.victim.pid;
	options.safe_point = hf_safe_point_finder_ops(finder);
	err = hf_capture(&options, &frozen);
	assert_non_null(err);
	print_message("%s (%s)\n", err->message, err->cause);
	assert_int_equal(err->code, HF_ERROR_TIMEOUT);
	hf_error_destroy(err);
	storm_end(&storm);
}

static void without_an_allocator_nothing_is_known(void **state)
{
	HF_AUTO(hf_safe_point_finder)
	struct hf_safe_point_finder *finder = NULL;
	const struct hf_safe_point *ops;
	struct hf_safe_point_state found = { 0 };
	struct hf_thread thread = { .stop_how = HF_STOP_USER };
	struct hf_victim victim;

	(void)state;
	hf_victim_start(&victim, (const char *[]){ VICTIM_NO_LIBC, NULL });
	hf_victim_expect(&victim, "ready");
	assert_hf_ok(hf_safe_point_finder_create(&finder));
	ops = hf_safe_point_finder_ops(finder);
	assert_hf_ok(ops->prepare(ops->arg, victim.pid));
	ops->look(ops->arg, victim.pid, &thread, 1, &found);
	assert_true(found.unknown);
	hf_victim_kill(&victim);
	/* A process that is not there is for the capture to complain about. */
	assert_hf_ok(ops->prepare(ops->arg, victim.pid));
	ops->look(ops->arg, victim.pid, &thread, 1, &found);
	assert_true(found.unknown);
}

/* ---- the heap of a storm ---- */

struct snapshot {
	struct hf_frozen *frozen;
	struct hf_image *image;
	struct hf_anomalies *anomalies;
	struct block_sink sink;
	struct storm_log *log;
	struct hf_allocator_findings found;
};

/* The storm rests while its fork is looked at: that needs the CPU. */
static void snapshot_take(struct storm *storm, struct snapshot *ret)
{
	const struct hf_glibc_options options = { .no_dwarf = true };
	HF_AUTO_FREE bool *inside = NULL;
	bool is_known;
	void *reader;
	size_t num;

	memset(ret, 0, sizeof(*ret));
	ret->log = calloc(1, sizeof(*ret->log));
	assert_hf_ok(hf_test_capture(storm->victim.pid, &ret->frozen));
	storm_park(storm);
	assert_hf_ok(hf_frozen_open_image(ret->frozen, &ret->image));
	assert_hf_ok(hf_image_read(ret->image, storm->log_addr, ret->log,
				   sizeof(*ret->log)));
	hf_image_threads(ret->image, &num);
	inside = calloc(num, sizeof(*inside));
	assert_non_null(inside);
	assert_hf_ok(hf_allocator_look_at_image(ret->image, &hf_glibc_reader,
						NULL, &is_known, inside,
						&ret->found));
	assert_true(is_known);
	assert_hf_ok(hf_anomalies_create(&ret->anomalies));
	assert_hf_ok(hf_glibc_open(ret->image, ret->anomalies, &options,
				   &reader));
	block_sink_init(&ret->sink, ret->anomalies);
	ret->sink.sink.is_inside = inside;
	assert_hf_ok(hf_glibc_reader.walk(reader, &ret->sink.sink));
	block_sink_finish(&ret->sink);
	hf_glibc_reader.close(reader);
}

static void snapshot_deinit(struct snapshot *snapshot)
{
	block_sink_deinit(&snapshot->sink);
	hf_anomalies_destroy(snapshot->anomalies);
	hf_image_destroy(snapshot->image);
	hf_frozen_destroy(snapshot->frozen);
	free(snapshot->log);
}

static const struct hf_block *find_live(const struct snapshot *snapshot,
					uint64_t addr)
{
	size_t low = 0, high = snapshot->sink.blocks.num;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (snapshot->sink.blocks.data[mid].addr < addr)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == snapshot->sink.blocks.num ||
	    snapshot->sink.blocks.data[low].addr != addr ||
	    snapshot->sink.blocks.data[low].state != HF_BLOCK_LIVE)
		return NULL;
	return &snapshot->sink.blocks.data[low];
}

/* What the log says of a block. */
enum truth { NOT_LIVE, LIVE, IN_FLIGHT };

static enum truth truth_of(const struct storm_log *log, uint64_t addr)
{
	enum truth truth = NOT_LIVE;

	for (uint64_t t = 0; t < log->num_threads; t++) {
		const struct storm_thread *thread = &log->threads[t];

		if (thread->op && thread->op_ptr == addr)
			return IN_FLIGHT;
		for (size_t s = 0; s < STORM_SLOTS; s++)
			if (thread->slots[s] == addr)
				truth = LIVE;
	}
	return truth;
}

struct tally {
	size_t live, missing, in_flight;
	size_t unknown;   /* live here, not in the log, and not suspect */
	size_t doubtful;  /* the same, suspect */
	size_t suspect;   /* all that are */
	size_t internal;
};

static struct tally compare(const struct snapshot *snapshot,
			    const struct snapshot *quiet)
{
	const struct storm_log *log = snapshot->log;
	struct tally tally = { 0 };

	for (uint64_t t = 0; t < log->num_threads; t++) {
		tally.in_flight += log->threads[t].op;
		for (size_t s = 0; s < STORM_SLOTS; s++) {
			uint64_t addr = log->threads[t].slots[s];

			if (addr && truth_of(log, addr) == LIVE &&
			    !find_live(snapshot, addr)) {
				print_message("missing 0x%" PRIx64 "\n", addr);
				tally.missing++;
			}
		}
	}
	for (size_t i = 0; i < snapshot->sink.blocks.num; i++) {
		const struct hf_block *block = &snapshot->sink.blocks.data[i];

		tally.internal += block->state == HF_BLOCK_INTERNAL;
		if (block->state != HF_BLOCK_LIVE)
			continue;
		tally.live++;
		tally.suspect += block->suspect;
		if (truth_of(log, block->addr) != NOT_LIVE ||
		    find_live(quiet, block->addr))
			continue;
		if (block->suspect)
			tally.doubtful++;
		else
			tally.unknown++;
	}
	return tally;
}

static void check_storm(const char *const *argv, int rounds)
{
	struct storm storm;
	struct snapshot quiet, snapshot;
	size_t num_inside = 0, num_locked = 0;

	storm_start(&storm, argv);
	snapshot_take(&storm, &quiet);
	assert_int_equal(quiet.found.num_inside, 0);
	assert_int_equal(quiet.found.num_locked, 0);
	assert_int_equal(compare(&quiet, &quiet).suspect, 0);
	for (int i = 0; i < rounds; i++) {
		struct tally tally;

		storm_go(&storm);
		hf_test_sleep_ms(20);
		snapshot_take(&storm, &snapshot);
		tally = compare(&snapshot, &quiet);
		print_message("%s %s %s: %zu live, %zu missing, %zu suspect of "
			      "which %zu not in the log, %zu others not in the "
			      "log, %zu calls in flight, %u inside, %u locked, "
			      "%" PRIu64 " anomalies\n",
			      argv[1], argv[2], argv[3] ? argv[3] : "",
			      tally.live, tally.missing, tally.suspect,
			      tally.doubtful, tally.unknown, tally.in_flight,
			      snapshot.found.num_inside,
			      snapshot.found.num_locked,
			      hf_anomalies_total(snapshot.anomalies));
		assert_int_equal(tally.missing, 0);
		/* Each call may have got a block that nobody knows yet. */
		assert_in_range(tally.unknown, 0, tally.in_flight);
		if (snapshot.found.num_inside == 0)
			assert_int_equal(tally.suspect, 0);
		num_inside += snapshot.found.num_inside;
		num_locked += snapshot.found.num_locked;
		snapshot_deinit(&snapshot);
	}
	assert_true(num_inside > 0);
	snapshot_deinit(&quiet);
	storm_end(&storm);
}

static void in_a_storm_nothing_is_lost_and_what_is_wrong_is_suspect(void **state)
{
	const int rounds = hf_test_rounds(5);

	(void)state;
	check_storm((const char *[]){ VICTIM_MALLOC_STORM, "16", "0", NULL },
		    rounds);
	check_storm((const char *[]){ VICTIM_MALLOC_STORM, "16", "0", "small",
				      NULL }, rounds);
	check_storm((const char *[]){ VICTIM_MALLOC_STORM, "1", "0", NULL },
		    rounds);
	check_storm((const char *[]){ VICTIM_MALLOC_STORM_STRIPPED, "16", "0",
				      NULL }, rounds);
}

static void a_second_libc_is_looked_at_too(void **state)
{
	hf_allocator_places places = { 0 };
	struct storm storm;

	(void)state;
	storm_start(&storm, (const char *[]){ VICTIM_MALLOC_STORM, "8", "0",
					      "twice", NULL });
	find_places(storm.victim.pid, &places);
	assert_int_equal(places.num, 2);
	hf_allocator_places_deinit(&places);
	storm_end(&storm);
	check_storm((const char *[]){ VICTIM_MALLOC_STORM, "8", "0", "twice",
				      NULL }, hf_test_rounds(4));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_code_of_malloc_is_found_to_the_function),
		cmocka_unit_test(
			stripped_programs_and_shared_libcs_show_the_same_code),
		cmocka_unit_test(
			a_quiet_process_is_at_a_safe_point_and_a_storm_is_not),
		cmocka_unit_test(
			with_long_work_in_between_a_safe_point_comes_soon),
		cmocka_unit_test(exact_refuses_a_storm_and_harms_nobody),
		cmocka_unit_test(without_an_allocator_nothing_is_known),
		cmocka_unit_test(
			in_a_storm_nothing_is_lost_and_what_is_wrong_is_suspect),
		cmocka_unit_test(a_second_libc_is_looked_at_too),
	};

	hf_test_need_ptrace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
