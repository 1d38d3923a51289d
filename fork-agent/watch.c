/* Watch: is there memory for what the frozen child costs its target?
 * SPDX-License-Identifier: MIT */
#include "fork-agent/watch.h"

#include <inttypes.h>
#include <stdio.h>

#include "fork-agent/headroom.h"
#include "fork-agent/proc_task.h"
#include "fork-agent/stand.h"
#include "util/progress.h"

enum {
	/* A program that writes as fast as it can copies some GB each second:
	 * less than 64 MiB in the shorter of these times. */
	SOON_NS = 10 * 1000 * 1000,
	LATER_NS = 50 * 1000 * 1000,
};

#define PLENTY_BYTES (INT64_C(1) << 30)

struct hf_watch {
	pid_t target;
	uint64_t keep_bytes;
	uint64_t begin_ns;
	struct hf_headroom *headroom;
};

struct hf_error *hf_watch_create(pid_t target, uint64_t keep_bytes,
				 const char *proc, struct hf_watch **ret)
{
	HF_AUTO(hf_watch) struct hf_watch *watch = calloc(1, sizeof(*watch));
	struct hf_error *err;

	if (!watch)
		return &hf_enomem;
	watch->target = target;
	watch->keep_bytes = keep_bytes;
	err = hf_headroom_open(target, proc, &watch->headroom);
	if (err)
		return err;
	*ret = HF_TAKE(watch);
	return NULL;
}

void hf_watch_destroy(struct hf_watch *watch)
{
	if (!watch)
		return;
	hf_headroom_close(watch->headroom);
	free(watch);
}

static double mib(uint64_t bytes)
{
	return (double)bytes / (1 << 20);
}

static struct hf_error *advise(struct hf_error *err)
{
	return hf_stand_advise(hf_error_fix(
		err, "take it when the process writes less, give it more "
		"memory, or lower --keep-memory-free"));
}

/* "of the cgroup '/x'" or "of the machine" */
static void describe(const struct hf_headroom_state *state, char *buf,
		     size_t size)
{
	if (state->where[0])
		snprintf(buf, size, "cgroup '%s'", state->where);
	else
		snprintf(buf, size, "the machine");
}

struct hf_error *hf_watch_check(const struct hf_watch *watch)
{
	struct hf_headroom_state state;
	struct hf_proc_status status;
	char where[PATH_MAX + 32];
	struct hf_error *err = hf_proc_status_read(watch->target, 0, &status);

	if (err)
		return err;
	err = hf_headroom_read(watch->headroom, watch->keep_bytes,
			       status.page_table_bytes, &state);
	if (err) {
		hf_error_ignore(err); /* then nobody can tell */
		return NULL;
	}
	if (state.spare_bytes >= (int64_t)status.page_table_bytes)
		return NULL;
	describe(&state, where, sizeof(where));
	return advise(hf_error_cause(
		hf_error_create(HF_ERROR_NO_SPACE,
				"there is too little memory to fork process "
				"%d", watch->target),
		"%s has %.1f MiB free of %.1f, of which %.1f are to stay "
		"free; the page tables of a fork alone take %.1f MiB", where,
		mib(state.free_bytes), mib(state.limit_bytes),
		mib(state.keep_bytes), mib(status.page_table_bytes)));
}

void hf_watch_begin(struct hf_watch *watch)
{
	watch->begin_ns = hf_now_ns();
}

struct hf_error *hf_watch_look(const struct hf_watch *watch,
			       uint64_t copied_bytes, uint64_t *next_ns_ret)
{
	struct hf_headroom_state state;
	char where[PATH_MAX + 32];
	struct hf_error *err = hf_headroom_read(watch->headroom,
						watch->keep_bytes, 0, &state);

	*next_ns_ret = SOON_NS;
	if (err) {
		hf_error_ignore(err);
		return NULL;
	}
	if (state.spare_bytes > PLENTY_BYTES)
		*next_ns_ret = LATER_NS;
	if (state.spare_bytes >= 0)
		return NULL;
	describe(&state, where, sizeof(where));
	return advise(hf_error_cause(
		hf_error_create(HF_ERROR_NO_SPACE,
				"given up, to leave memory to process %d",
				watch->target),
		"%s has %.1f MiB free of %.1f, of which %.1f are to stay "
		"free; the process had to copy about %.1f MiB of what it wrote "
		"in the %.0f ms since it was forked", where,
		mib(state.free_bytes), mib(state.limit_bytes),
		mib(state.keep_bytes), mib(copied_bytes),
		(double)(hf_now_ns() - watch->begin_ns) / 1e6));
}
