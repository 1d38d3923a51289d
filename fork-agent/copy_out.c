/* Copy out: the frozen child's memory becomes ours, and the child may go.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/copy_out.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include "fork-agent/headroom.h"
#include "util/array.h"
#include "util/file.h"

enum {
	/* A call in the child for less costs more than the copies it saves. */
	MIN_DROP_BYTES = 128 << 10,
	SPARE_FILES = 128, /* descriptors that the rest of us may want */
};

struct dropper {
	struct hf_frozen *frozen;
	uint64_t asked_bytes;
};

static struct hf_error *drop(void *arg, const struct hf_range *ranges,
			     size_t num_ranges)
{
	struct dropper *dropper = arg;
	HF_ARRAY(struct hf_range) large = { 0 };
	struct hf_error *err = NULL;

	for (size_t i = 0; i < num_ranges && !err; i++) {
		uint64_t len = ranges[i].end - ranges[i].start;

		if (len < MIN_DROP_BYTES)
			continue;
		dropper->asked_bytes += len;
		err = hf_array_append(&large, ranges[i]);
	}
	if (!err)
		hf_frozen_drop(dropper->frozen, large.data, large.num);
	hf_array_deinit(&large);
	return err;
}

static struct hf_error *check(void *arg)
{
	const struct dropper *dropper = arg;

	return hf_frozen_check(dropper->frozen);
}

/* What of our address space is left; pages in /proc/self/statm. */
static uint64_t address_space_left(void)
{
	HF_AUTO_FREE char *text = NULL;
	struct rlimit limit;
	struct hf_error *err;
	uint64_t used;

	if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY)
		return UINT64_MAX;
	err = hf_read_file("/proc/self/statm", &text, NULL);
	if (err) {
		hf_error_ignore(err);
		return 0;
	}
	used = strtoull(text, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
	return used < limit.rlim_cur ? limit.rlim_cur - used : 0;
}

/* Half of what is free, where there is least: the index wants memory, too, and
 * so does the target. */
static uint64_t memory_max(void)
{
	HF_AUTO(hf_headroom) struct hf_headroom *headroom = NULL;
	struct hf_headroom_state state;
	uint64_t space = address_space_left() / 2;
	struct hf_error *err = hf_headroom_open(getpid(), NULL, &headroom);

	if (!err)
		err = hf_headroom_read(headroom, 0, UINT64_MAX, &state);
	if (err || state.spare_bytes <= 0) {
		hf_error_ignore(err);
		return 0;
	}
	return (uint64_t)state.spare_bytes / 2 < space ?
	       (uint64_t)state.spare_bytes / 2 : space;
}

static size_t max_files(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return 0;
	return limit.rlim_cur > 2 * SPARE_FILES ?
	       limit.rlim_cur - SPARE_FILES : limit.rlim_cur / 2;
}

struct hf_error *hf_copy_out(struct hf_frozen *frozen, struct hf_image *image,
			     const struct hf_copy_options *options,
			     struct hf_copy_report *report_ret)
{
	struct dropper dropper = { .frozen = frozen };
	struct hf_spool_options spool = {
		.dir = options->dir,
		.stored = drop,
		.unreadable = check,
		.arg = &dropper,
		.progress = options->progress,
		.max_files = max_files(),
	};
	uint64_t start_ns = hf_now_ns();
	struct hf_error *err;

	memset(report_ret, 0, sizeof(*report_ret));
	if (options->way == HF_COPY_NEVER) {
		snprintf(report_ret->spool.why, sizeof(report_ret->spool.why),
			 "it was not to be copied");
		return NULL;
	}
	if (options->way == HF_COPY_AUTO)
		spool.memory_max = memory_max();
	err = hf_spool_image(image, &spool, &report_ret->spool);
	report_ret->elapsed_ns = hf_now_ns() - start_ns;
	report_ret->dropped_bytes_asked = dropper.asked_bytes;
	if (!err && report_ret->spool.place != HF_SPOOL_NOWHERE)
		hf_progress_phase_done(options->progress, "copy",
				       report_ret->spool.copied_bytes,
				       start_ns,
				       report_ret->spool.stored_bytes);
	return err;
}
