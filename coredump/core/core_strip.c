/* Core strip: what of a process a debugger needs to show its stacks.
 * SPDX-License-Identifier: MIT */
#include "coredump/core/core_strip.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>

#include "coredump/elf_head.h"
#include "coredump/image_internal.h"

/* How a debugger finds the libraries (<link.h>, the same since the first ELF):
 *
 *	DT_DEBUG of the program -> struct r_debug
 *		0   version     8  r_map     16  r_brk   24  r_state
 *		32  r_ldbase
 *	r_map -> struct link_map, a list
 *		0   l_addr      8  l_name    16  l_ld
 *		24  l_next     32  l_prev
 */

enum {
	R_DEBUG_BYTES = 40,
	LINK_MAP_BYTES = 40,
	MAX_LIBRARIES = 65536,
	MAX_NAME_BYTES = 4096,
	MAX_DYNAMIC_BYTES = 64 * 1024,
};

struct r_debug_head {
	uint64_t version, map, brk, state, ldbase;
};

struct link_map_head {
	uint64_t addr, name, dynamic, next, prev;
};

static struct hf_error *add(struct hf_strip_ranges *ranges, uint64_t start,
			    uint64_t len)
{
	struct hf_range range = { start, start };

	if (!len || __builtin_add_overflow(start, len, &range.end))
		return NULL;
	return hf_array_append(&ranges->list, range);
}

/* Where the kernel put the auxv on the main thread's stack: above it are the
 * texts of arguments and environment. 0: not found. */
static uint64_t auxv_end(const struct hf_image *image,
			 const struct hf_process_info *process,
			 struct hf_range stack)
{
	HF_AUTO_FREE uint8_t *bytes = NULL;
	uint64_t len = stack.end - stack.start;
	const uint8_t *found;

	if (!process->auxv_bytes || len > (UINT64_C(1) << 30))
		return 0;
	bytes = malloc(len);
	if (!bytes)
		return 0;
	len = hf_image_read_some(image, stack.start, bytes, len);
	found = memmem(bytes, len, process->auxv, process->auxv_bytes);
	return found ? stack.start + (uint64_t)(found - bytes) +
			       process->auxv_bytes : 0;
}

static struct hf_error *add_threads(const struct hf_image *image,
				    const struct hf_process_info *process,
				    struct hf_strip_ranges *ranges)
{
	size_t num;
	const struct hf_thread *threads = hf_image_threads(image, &num);
	struct hf_error *err = NULL;

	for (size_t i = 0; i < num && !err; i++) {
		struct hf_range stack = threads[i].stack;
		uint64_t end = auxv_end(image, process, stack);

		if (end)
			stack.end = end;
		err = add(ranges, stack.start, stack.end - stack.start);
		if (!err)
			err = add(ranges, threads[i].tls.start,
				  threads[i].tls.end - threads[i].tls.start);
	}
	return err;
}

struct module_reader {
	const struct hf_image *image;
	const struct hf_module *module;
};

static bool read_module(void *arg, uint64_t offset, void *buf, size_t len)
{
	const struct module_reader *reader = arg;

	return offset < reader->module->end - reader->module->start &&
	       hf_image_read_some(reader->image, reader->module->start +
				  offset, buf, len) == len;
}

/* @return whether the module has a dynamic section, and where. */
static bool find_dynamic(const struct hf_image *image,
			 const struct hf_module *module, struct hf_range *ret)
{
	struct module_reader reader = { image, module };
	HF_AUTO_FREE struct hf_elf_head *head = malloc(sizeof(*head));

	if (!head || !hf_elf_head_read(read_module, &reader, head))
		return false;
	for (size_t i = 0; i < head->num_phdrs; i++) {
		const Elf64_Phdr *phdr = &head->phdrs[i];

		if (phdr->p_type != PT_DYNAMIC ||
		    phdr->p_memsz > MAX_DYNAMIC_BYTES)
			continue;
		ret->start = module->bias + phdr->p_vaddr;
		ret->end = ret->start + phdr->p_memsz;
		return ret->end > ret->start;
	}
	return false;
}

/* The value of DT_DEBUG: address of r_debug, or 0. */
static uint64_t debug_of(const struct hf_image *image, struct hf_range dynamic)
{
	for (uint64_t at = dynamic.start; at < dynamic.end;
	     at += sizeof(Elf64_Dyn)) {
		Elf64_Dyn entry;

		if (hf_image_read_some(image, at, &entry, sizeof(entry)) !=
			    sizeof(entry) ||
		    entry.d_tag == DT_NULL)
			return 0;
		if (entry.d_tag == DT_DEBUG)
			return entry.d_un.d_ptr;
	}
	return 0;
}

/* All writable data of the dynamic linker: libthread_db reads it. */
static struct hf_error *add_linker(const struct hf_image *image, uint64_t base,
				   struct hf_strip_ranges *ranges)
{
	const struct hf_module *linker = hf_image_find_module(image, base);
	size_t num, num_modules;
	const struct hf_segment *segments = hf_image_segments(image, &num);
	const struct hf_module *modules = hf_image_modules(image,
							   &num_modules);
	struct hf_error *err = NULL;

	if (!linker)
		return NULL;
	for (size_t i = 0; i < num && !err; i++)
		if (segments[i].module_id == (uint32_t)(linker - modules) &&
		    segments[i].kind == HF_SEGMENT_FILE &&
		    segments[i].prot & PROT_WRITE)
			err = add(ranges, segments[i].start,
				  segments[i].end - segments[i].start);
	return err;
}

static struct hf_error *add_libraries(const struct hf_image *image,
				      uint64_t debug,
				      struct hf_strip_ranges *ranges)
{
	struct r_debug_head head;
	struct hf_error *err;
	uint64_t at;

	if (hf_image_read_some(image, debug, &head, sizeof(head)) !=
	    sizeof(head))
		return NULL;
	err = add(ranges, debug, R_DEBUG_BYTES);
	if (!err)
		err = add_linker(image, head.ldbase, ranges);
	at = head.map;
	for (int i = 0; i < MAX_LIBRARIES && at && !err; i++) {
		struct link_map_head map;
		char name[MAX_NAME_BYTES];

		if (hf_image_read_some(image, at, &map, sizeof(map)) !=
		    sizeof(map))
			break;
		err = add(ranges, at, LINK_MAP_BYTES);
		if (!err && hf_image_peek_string(image, map.name, name,
						 sizeof(name)))
			err = add(ranges, map.name, strlen(name) + 1);
		at = map.next;
	}
	return err;
}

static struct hf_error *add_modules(const struct hf_image *image,
				    struct hf_strip_ranges *ranges)
{
	size_t num;
	const struct hf_module *modules = hf_image_modules(image, &num);
	struct hf_error *err = NULL;
	bool has_libraries = false;

	for (size_t i = 0; i < num && !err; i++) {
		struct hf_range dynamic;
		uint64_t debug;

		if (!find_dynamic(image, &modules[i], &dynamic))
			continue;
		err = add(ranges, dynamic.start, dynamic.end - dynamic.start);
		debug = has_libraries ? 0 : debug_of(image, dynamic);
		if (!err && debug) {
			has_libraries = true;
			err = add_libraries(image, debug, ranges);
		}
	}
	return err;
}

static int by_start(const void *a, const void *b)
{
	const struct hf_range *x = a, *y = b;

	return x->start < y->start ? -1 : x->start > y->start;
}

static void merge(struct hf_strip_ranges *ranges)
{
	struct hf_range *all = ranges->list.data;
	size_t num = 0;

	if (!ranges->list.num)
		return;
	qsort(all, ranges->list.num, sizeof(*all), by_start);
	for (size_t i = 0; i < ranges->list.num; i++) {
		if (num && all[i].start <= all[num - 1].end)
			all[num - 1].end = hf_max_u64(all[num - 1].end,
						      all[i].end);
		else
			all[num++] = all[i];
	}
	ranges->list.num = num;
}

struct hf_error *hf_strip_ranges_find(const struct hf_image *image,
				      const struct hf_process_info *process,
				      struct hf_strip_ranges *ret)
{
	__attribute__((cleanup(hf_auto_hf_strip_ranges)))
	struct hf_strip_ranges ranges = { 0 };
	struct hf_error *err = add_threads(image, process, &ranges);

	if (!err)
		err = add_modules(image, &ranges);
	if (err)
		return err;
	merge(&ranges);
	*ret = ranges;
	memset(&ranges, 0, sizeof(ranges));
	return NULL;
}
