/* Live stack and TLS of each thread, by its registers.
 * SPDX-License-Identifier: MIT */
#include "coredump/thread_ranges.h"

#include <string.h>

#include "coredump/elf_symbols.h"
#include "coredump/image_internal.h"

/* The mapping of a thread that pthread_create made (x86-64, TLS variant 2;
 * glibc 2.36 nptl/allocatestack.c):
 *
 *   guard | ... unused ... | live stack | static TLS | struct pthread |
 *                          ^ rsp        ^            ^ fs_base        ^ end
 *
 * With a stack of the program's own, or where neighbours have been merged
 * (guards of glibc 2.42 are no mappings), several of these follow each other
 * in one mapping. The main thread has its stack in [stack], and TLS and
 * descriptor in a mapping of their own, or at the beginning of [heap] in a
 * static program. */

enum {
	/* The x86-64 ABI lets a function use so much below its rsp. */
	RED_ZONE_BYTES = 128,
	/* sizeof(struct pthread) by the DWARF of libc.so.6 of Debian's glibc
	 * 2.36; for a C library that does not tell, or is not glibc. What may
	 * lie above it is found as unknown memory. */
	DESCRIPTOR_BYTES = 2368,
	MIN_DESCRIPTOR_BYTES = 512, /* else it is nonsense */
	MAX_DESCRIPTOR_BYTES = 16384,
	DESCRIPTOR_ALIGN = 64,
	MIN_TLS_BYTES = 64,
};

/* The static TLS block holds the blocks of all modules that were loaded at
 * the start. Modules loaded later are in the sum as well, though most of them
 * have their block elsewhere: what is too much is stack, and scanned. */
static uint64_t static_tls_bytes(const struct hf_image *image)
{
	uint64_t sum = 0;

	for (size_t i = 0; i < image->modules.num; i++) {
		const struct hf_module *module = &image->modules.data[i];
		uint64_t bytes;

		if (!module->tls_bytes)
			continue;
		/* Both are bounded: see find_tls in module.c. */
		bytes = (module->tls_bytes + module->tls_align - 1) &
			~(module->tls_align - 1);
		if (__builtin_add_overflow(sum, bytes, &sum))
			return HF_ADDRESS_END;
	}
	return hf_max_u64(sum, MIN_TLS_BYTES);
}

/* What glibc tells debuggers (nptl_db/db_info.c): since 2.34 an exported
 * symbol of libc.so.6, before that a local one of libpthread, in a static
 * program a local one of that. */
static struct hf_error *take_size_symbol(void *arg, const GElf_Sym *symbol,
					 const char *name)
{
	uint64_t *value = arg;

	if (strcmp(name, "_thread_db_sizeof_pthread"))
		return NULL;
	*value = symbol->st_value;
	return &hf_stop;
}

static uint32_t told_descriptor_bytes(const struct hf_image *image,
				      const struct hf_module *module)
{
	static const GElf_Word section_types[] = { SHT_DYNSYM, SHT_SYMTAB };
	HF_AUTO_FD int fd = -1;
	HF_AUTO(elf) Elf *elf = NULL;
	uint64_t value = 0;
	uint32_t bytes;
	bool any;

	hf_error_ignore(hf_image_open_module(image, module, &fd));
	if (fd >= 0)
		elf = hf_elf_open(fd);
	for (size_t i = 0; elf && !value && i < 2; i++)
		hf_error_ignore(hf_elf_symbol_for_each(elf, section_types[i],
						       take_size_symbol,
						       &value, &any));
	if (!value ||
	    hf_image_read_some(image, module->bias + value, &bytes,
			       sizeof(bytes)) != sizeof(bytes) ||
	    bytes < MIN_DESCRIPTOR_BYTES || bytes > MAX_DESCRIPTOR_BYTES)
		return 0;
	return bytes;
}

static uint32_t find_descriptor_bytes(const struct hf_image *image)
{
	bool is_dynamic = false;
	uint32_t bytes = 0;

	for (size_t i = 0; i < image->modules.num && !bytes; i++) {
		const struct hf_module *module = &image->modules.data[i];
		const char *slash = strrchr(module->path, '/');
		const char *name = slash ? slash + 1 : module->path;

		if (!strncmp(name, "libc.so", 7) ||
		    !strncmp(name, "libc-", 5) ||
		    !strncmp(name, "libpthread", 10)) {
			is_dynamic = true;
			bytes = told_descriptor_bytes(image, module);
		}
	}
	if (!is_dynamic && image->modules.num)
		bytes = told_descriptor_bytes(image, &image->modules.data[0]);
	return bytes ? bytes : DESCRIPTOR_BYTES;
}

static const struct hf_segment *memory_at(const struct hf_image *image,
					  uint64_t addr)
{
	const struct hf_segment *segment = hf_image_find_segment(image, addr);

	return segment && segment->kind != HF_SEGMENT_SPECIAL ? segment : NULL;
}

static void fill_tls(const struct hf_image *image, uint64_t tls_bytes,
		     uint32_t descriptor_bytes, struct hf_thread *thread)
{
	uint64_t base = thread->regs.fs_base, sp = thread->regs.rsp;
	const struct hf_segment *segment = memory_at(image, base);
	struct hf_range *tls = &thread->tls;

	if (!base || !segment)
		return;
	tls->start = segment->start +
		     (base - segment->start > tls_bytes ?
		      base - segment->start - tls_bytes : 0);
	if (sp >= segment->start && sp < base)
		tls->start = hf_max_u64(tls->start, sp);
	tls->end = (base + descriptor_bytes + DESCRIPTOR_ALIGN - 1) &
		   ~(uint64_t)(DESCRIPTOR_ALIGN - 1);
	tls->end = hf_min_u64(tls->end, segment->end);
}

static int compare_u64(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return *x < *y ? -1 : *x > *y;
}

/* Lowest of the sorted numbers that is above `addr`. */
static uint64_t next_above(const uint64_t *sorted, size_t num, uint64_t addr)
{
	size_t low = 0, high = num;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (sorted[mid] <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low < num ? sorted[low] : UINT64_MAX;
}

static void fill_stack(const struct hf_image *image, const uint64_t *bases,
		       struct hf_thread *thread)
{
	uint64_t sp = thread->regs.rsp, base = thread->regs.fs_base;
	const struct hf_segment *segment = memory_at(image, sp);

	if (!segment)
		return;
	thread->stack.start = sp - hf_min_u64(sp - segment->start,
					      RED_ZONE_BYTES);
	thread->stack.end = segment->end;
	if (segment->kind == HF_SEGMENT_STACK)
		return;
	/* The descriptor next above sp must be this thread's: that of another
	 * thread means that sp is on that one's stack, or on none. */
	if (base > sp && base < segment->end &&
	    next_above(bases, image->threads.num, sp) == base)
		thread->stack.end = thread->tls.start;
	else
		thread->on_other_stack = true;
}

static int compare_range_starts(const void *a, const void *b)
{
	const struct hf_range *const *x = a, *const *y = b;

	return (*x)->start < (*y)->start ? -1 : (*x)->start > (*y)->start;
}

/* End every range where the next one begins. */
static struct hf_error *part_ranges(struct hf_image *image)
{
	size_t num = image->threads.num * 2;
	HF_AUTO_FREE struct hf_range **all = calloc(num, sizeof(*all));

	if (!all)
		return &hf_enomem;
	for (size_t i = 0; i < image->threads.num; i++) {
		all[2 * i] = &image->threads.data[i].stack;
		all[2 * i + 1] = &image->threads.data[i].tls;
	}
	qsort(all, num, sizeof(*all), compare_range_starts);
	for (size_t i = 1; i < num; i++)
		all[i - 1]->end = hf_min_u64(all[i - 1]->end, all[i]->start);
	return NULL;
}

struct hf_error *hf_thread_ranges_fill(struct hf_image *image)
{
	uint64_t tls_bytes = static_tls_bytes(image);
	size_t num = image->threads.num;
	HF_AUTO_FREE uint64_t *bases = calloc(num + 1, sizeof(*bases));
	uint32_t descriptor_bytes;

	if (!bases)
		return &hf_enomem;
	if (!num)
		return NULL;
	descriptor_bytes = find_descriptor_bytes(image);
	for (size_t i = 0; i < num; i++)
		bases[i] = image->threads.data[i].regs.fs_base;
	qsort(bases, num, sizeof(*bases), compare_u64);
	for (size_t i = 0; i < num; i++) {
		fill_tls(image, tls_bytes, descriptor_bytes,
			 &image->threads.data[i]);
		fill_stack(image, bases, &image->threads.data[i]);
	}
	return part_ranges(image);
}
