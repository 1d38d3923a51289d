/* Thread-local variables: where each thread has its own.
 * SPDX-License-Identifier: MIT */
#include "indexer/holder_tls.h"

#include <string.h>

/* Static TLS on x86-64 ("ELF handling for thread-local storage", variant II;
 * glibc 2.36 sysdeps/x86_64/nptl/tls.h, elf/dl-tls.c):
 *
 *	... block of module 2 | block of module 1 | thread pointer (fs_base)
 *	                                            +0   points to itself
 *	                                            +8   dtv
 *	                                            +16  points to itself
 *
 *	dtv - 16  number of entries
 *	dtv       generation
 *	dtv + 16 x id   address of the block of that module, -1: not made yet
 *
 * A module's own memory tells where its block is (coredump/tls_module.h); of
 * the program, and of a library that was relocated in another way, that is the
 * first block, whose place follows from its size. A place counts only for a
 * thread whose dtv has it, too. Blocks of libraries that were loaded later lie
 * on the heap, and are objects there. */

enum { MAX_IDS = 4096, NUM_HEAD_WORDS = 3, DTV_ENTRY_BYTES = 16 };

struct thread_view {
	uint64_t pointer;            /* fs_base */
	struct hf_range tls;
	uint64_t blocks[MAX_IDS];    /* by id; the first is the generation */
	size_t num;                  /* of them; 0: nothing that looks right */
};

static void view_thread(const struct hf_image *image,
			const struct hf_thread *thread,
			struct thread_view *view)
{
	uint64_t head[NUM_HEAD_WORDS], count, entry[2];

	view->pointer = thread->regs.fs_base;
	view->tls = thread->tls;
	view->num = 0;
	if (!view->pointer ||
	    hf_image_read_some(image, view->pointer, head, sizeof(head)) !=
		    sizeof(head) ||
	    head[0] != view->pointer || head[2] != view->pointer ||
	    hf_image_read_some(image, head[1] - DTV_ENTRY_BYTES, &count,
			       sizeof(count)) != sizeof(count))
		return;
	for (uint64_t id = 0; id <= count && id < MAX_IDS; id++) {
		if (hf_image_read_some(image, head[1] + id * DTV_ENTRY_BYTES,
				       entry, sizeof(entry)) != sizeof(entry))
			break;
		view->blocks[view->num++] = entry[0];
	}
}

static bool has_block(const struct thread_view *view, uint64_t id,
		      uint64_t addr)
{
	if (id)
		return id < view->num && view->blocks[id] == addr;
	for (size_t i = 1; i < view->num; i++)
		if (view->blocks[i] == addr)
			return true;
	return false;
}

/* Distance of the first block from the thread pointer. */
static uint64_t first_below(const struct hf_module *module)
{
	uint64_t align = module->tls_align ? module->tls_align : 1;

	return (module->tls_bytes + align - 1) / align * align;
}

/* Of the modules that tell nothing one is the first, if no other fits. */
static void find_first(const struct hf_module *modules,
		       const struct hf_tls_parts *parts,
		       const struct thread_view *view)
{
	struct hf_tls_module *found = NULL;

	for (size_t i = 0; i < parts->num_modules; i++) {
		struct hf_tls_module *tls = &parts->modules[i];
		uint64_t below = first_below(&modules[i]);

		if (!modules[i].tls_bytes ||
		    !has_block(view, 1, view->pointer - below))
			continue;
		/* It has told so itself. */
		if (tls->id == 1 || tls->below == below)
			return;
		if (tls->id || tls->below)
			continue;
		if (found)
			return;
		found = tls;
	}
	if (found) {
		found->id = 1;
		found->below = first_below(&modules[found - parts->modules]);
	}
}

/* Where this thread has the block of a module. @return 0: not known. */
static uint64_t find_block(const struct thread_view *view,
			   const struct hf_tls_module *tls)
{
	uint64_t addr;

	if (tls->below) {
		addr = view->pointer - tls->below;
		return has_block(view, tls->id, addr) ? addr : 0;
	}
	return tls->id && tls->id < view->num ? view->blocks[tls->id] : 0;
}

static struct hf_error *add_parts(struct hf_tls_parts *parts,
				  const struct thread_view *view,
				  uint32_t thread_index, uint32_t module_id,
				  uint64_t module_bytes)
{
	const struct hf_tls_module *tls = &parts->modules[module_id];
	uint64_t block = find_block(view, tls);
	struct hf_error *err = NULL;

	/* Wholly between the start of the TLS and the thread pointer. */
	if (block < view->tls.start || block >= view->pointer ||
	    module_bytes > view->pointer - block)
		return NULL;
	for (size_t i = 0; !err && i < tls->variables.num; i++) {
		const struct hf_tls_variable *variable =
			&tls->variables.data[i];
		const struct hf_tls_part part = {
			.range = { block + variable->offset,
				   block + variable->offset + variable->size },
			.thread_index = thread_index,
			.module_id = module_id,
			.name = variable->name,
		};

		/* Smaller ones have no room for a pointer. */
		if (variable->size >= 8)
			err = hf_array_append(&parts->list, part);
	}
	return err;
}

static int compare_parts(const void *a, const void *b)
{
	const struct hf_tls_part *x = a, *y = b;

	if (x->thread_index != y->thread_index)
		return x->thread_index < y->thread_index ? -1 : 1;
	if (x->range.start != y->range.start)
		return x->range.start < y->range.start ? -1 : 1;
	return 0;
}

/* Two that overlap: one of the modules is not where it seems to be. */
static void drop_overlaps(struct hf_tls_parts *parts)
{
	struct hf_tls_part *all = parts->list.data;
	size_t num = 0;

	if (!parts->list.num)
		return;
	qsort(all, parts->list.num, sizeof(*all), compare_parts);
	for (size_t i = 0; i < parts->list.num; i++)
		if (!num || all[num - 1].thread_index != all[i].thread_index ||
		    all[num - 1].range.end <= all[i].range.start)
			all[num++] = all[i];
	parts->list.num = num;
}

static struct hf_error *find(const struct hf_image *image,
			     struct thread_view *view,
			     struct hf_tls_parts *parts)
{
	size_t num_threads;
	const struct hf_module *modules =
		hf_image_modules(image, &parts->num_modules);
	const struct hf_thread *threads = hf_image_threads(image,
							   &num_threads);
	struct hf_error *err = NULL;

	parts->modules = calloc(parts->num_modules + 1,
				sizeof(*parts->modules));
	if (!parts->modules)
		return &hf_enomem;
	for (size_t i = 0; !err && i < parts->num_modules; i++)
		err = hf_tls_module_read(image, &modules[i],
					 &parts->modules[i]);
	for (size_t t = 0; !err && t < num_threads; t++) {
		view_thread(image, &threads[t], view);
		if (!view->num)
			continue;
		find_first(modules, parts, view);
		for (size_t i = 0; !err && i < parts->num_modules; i++)
			err = add_parts(parts, view, (uint32_t)t, (uint32_t)i,
					modules[i].tls_bytes);
	}
	drop_overlaps(parts);
	return err;
}

struct hf_error *hf_tls_parts_find(const struct hf_image *image,
				   struct hf_tls_parts *ret)
{
	HF_AUTO_FREE struct thread_view *view = malloc(sizeof(*view));
	struct hf_tls_parts parts = { .modules = NULL };
	struct hf_error *err = view ? find(image, view, &parts) : &hf_enomem;

	if (err)
		hf_tls_parts_deinit(&parts);
	else
		*ret = parts;
	return err;
}

void hf_tls_parts_deinit(struct hf_tls_parts *parts)
{
	for (size_t i = 0; parts->modules && i < parts->num_modules; i++)
		hf_tls_module_deinit(&parts->modules[i]);
	free(parts->modules);
	hf_array_deinit(&parts->list);
	memset(parts, 0, sizeof(*parts));
}
