/* Safe point: what a capture asks about the allocators of its target.
 * SPDX-License-Identifier: MIT */
#include "indexer/safe_point.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "coredump/live_image.h"
#include "coredump/process_memory.h"
#include "indexer/allocator_watch.h"
#include "indexer/heap_registry.h"
#include "util/file.h"

/* A reader looks for the variables of its allocator while these change. One
 * that comes at a bad moment may not recognise them, and does the next time. */
enum { MAX_LOOKS_AT_MODULES = 3 };

struct hf_safe_point_finder {
	struct hf_safe_point ops;
	struct hf_allocator_watch *watch; /* owned */
	struct hf_process_memory memory;
	uint64_t modules;   /* what was looked at: see hash_modules */
	bool has_modules;
	uint32_t num_looks; /* at these modules */
};

static void close_memory(struct hf_safe_point_finder *finder)
{
	if (finder->memory.mem_fd >= 0)
		close(finder->memory.mem_fd);
	finder->memory.mem_fd = -1;
}

/* Opened anew each time: after an exec the old one leads to the memory of the
 * program that is gone. */
static void open_memory(struct hf_safe_point_finder *finder, pid_t pid)
{
	char path[64];

	close_memory(finder);
	snprintf(path, sizeof(path), "/proc/%d/mem", (int)pid);
	finder->memory.pid = pid;
	finder->memory.mem_fd = open(path, O_RDONLY | O_CLOEXEC);
}

static size_t gather(void *arg, const struct hf_range *ranges,
		     size_t num_ranges, void *buf)
{
	return hf_process_memory_gather(arg, ranges, num_ranges, buf);
}

/* Which code is where: the allocators are looked for again when that changes
 * (FNV-1a). */
static uint64_t hash_modules(pid_t pid, const struct hf_proc_maps *maps)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ (uint64_t)pid;

	for (size_t i = 0; i < maps->num; i++) {
		const struct hf_mapping *mapping = &maps->data[i];
		const uint64_t words[] = {
			mapping->start, mapping->end, mapping->device,
			mapping->inode, mapping->file_offset,
		};

		if (!(mapping->prot & PROT_EXEC) || !mapping->inode)
			continue;
		for (size_t k = 0; k < sizeof(words) / sizeof(*words); k++)
			hash = (hash ^ words[k]) * UINT64_C(0x100000001b3);
	}
	return hash;
}

static struct hf_error *find_places(struct hf_safe_point_finder *finder,
				    pid_t pid, const struct hf_proc_maps *maps)
{
	const struct hf_heap_reader_ops *const *ops = hf_heap_readers();
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	hf_allocator_places places = { 0 };
	struct hf_error *err = hf_live_image_open(pid, maps, &image);

	for (; !err && *ops; ops++)
		if ((*ops)->places)
			err = (*ops)->places(image, NULL, &places);
	if (err) {
		hf_allocator_places_deinit(&places);
		return err;
	}
	return hf_allocator_watch_set(finder->watch, &places);
}

static struct hf_error *look_at_modules(struct hf_safe_point_finder *finder,
					pid_t pid)
{
	HF_AUTO(hf_proc_maps) struct hf_proc_maps maps = { 0 };
	HF_AUTO_FREE char *text = NULL;
	struct hf_error *err;
	uint64_t modules;
	char path[64];
	size_t len;

	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	err = hf_read_file(path, &text, &len);
	if (!err)
		err = hf_proc_maps_parse(text, len, &maps);
	if (err)
		return err;
	modules = hash_modules(pid, &maps);
	if (!finder->has_modules || modules != finder->modules)
		finder->num_looks = 0;
	else if (hf_allocator_watch_num_places(finder->watch) ||
		 finder->num_looks >= MAX_LOOKS_AT_MODULES)
		return NULL;
	finder->num_looks++;
	finder->modules = modules;
	finder->has_modules = true;
	return find_places(finder, pid, &maps);
}

/* A process that cannot be looked at has an allocator that is not known; why
 * it cannot is for the capture to say, whose next step needs the same rights. */
static struct hf_error *prepare(void *arg, pid_t pid)
{
	struct hf_safe_point_finder *finder = arg;
	const struct hf_allocator_memory memory = { gather, &finder->memory };
	struct hf_error *err = look_at_modules(finder, pid);

	if (err && err->code != HF_ERROR_NO_MEMORY) {
		hf_allocator_places none = { 0 };

		hf_error_ignore(err);
		finder->has_modules = false;
		err = hf_allocator_watch_set(finder->watch, &none);
	}
	open_memory(finder, pid);
	return err ? err :
		     hf_allocator_watch_find_arenas(finder->watch, &memory);
}

static void look(void *arg, pid_t pid, const struct hf_thread *threads,
		 size_t num_threads, struct hf_safe_point_state *ret)
{
	struct hf_safe_point_finder *finder = arg;
	const struct hf_allocator_memory memory = { gather, &finder->memory };
	struct hf_allocator_findings findings;

	if (pid != finder->memory.pid ||
	    !hf_allocator_watch_num_places(finder->watch)) {
		*ret = (struct hf_safe_point_state){ .unknown = true };
		return;
	}
	hf_allocator_watch_look(finder->watch, &memory, threads, num_threads,
				NULL, &findings);
	*ret = (struct hf_safe_point_state){
		.num_inside = findings.num_inside,
		.num_locked = findings.num_locked,
		.tid_inside = findings.tid_inside,
	};
}

struct hf_error *hf_safe_point_finder_create(struct hf_safe_point_finder **ret)
{
	HF_AUTO(hf_safe_point_finder) struct hf_safe_point_finder *finder =
		calloc(1, sizeof(*finder));
	struct hf_error *err;

	if (!finder)
		return &hf_enomem;
	finder->memory.mem_fd = -1;
	finder->ops = (struct hf_safe_point){
		.arg = finder, .prepare = prepare, .look = look,
	};
	err = hf_allocator_watch_create(&finder->watch);
	if (!err)
		*ret = HF_TAKE(finder);
	return err;
}

void hf_safe_point_finder_destroy(struct hf_safe_point_finder *finder)
{
	if (!finder)
		return;
	close_memory(finder);
	hf_allocator_watch_destroy(finder->watch);
	free(finder);
}

const struct hf_safe_point *
hf_safe_point_finder_ops(const struct hf_safe_point_finder *finder)
{
	return &finder->ops;
}
