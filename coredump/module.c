/* Modules: the ELF objects that are loaded in an image.
 * SPDX-License-Identifier: MIT */
#include "coredump/module.h"

#include <assert.h>
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "coredump/elf_head.h"
#include "coredump/image_internal.h"

/* A module begins with a mapping of file offset 0 that holds an ELF header:
 *
 *   r--p 00000000  libx.so   ELF header, program headers, notes
 *   r-xp 00001000  libx.so   .text
 *   r--p 00005000  libx.so   .rodata
 *   ---p 00006000  libx.so   hole between PT_LOADs (older linkers)
 *   r--p 00006000  libx.so   relocated read-only data
 *   rw-p 00007000  libx.so   .data
 *   rw-p 00000000            .bss; may continue with unrelated memory, since
 *                            the kernel merges neighbours of equal rights
 *
 * A file that was only mapped to be read is one flat mapping instead: then
 * the PT_LOADs are not where they would have been loaded, which is what tells
 * the two apart. Everything in the headers may be nonsense, or made to
 * mislead: it is used only where the mappings agree. */

enum {
	/* A tool like patchelf puts the program headers at the end of the
	 * file: so far behind the first mapping they are looked for. */
	MAX_HEADER_SEGMENTS = 32,
	/* Of one module. Real ones have 4 to 8; a hostile target shall not
	 * make us look at all segments for each of its segments. */
	MAX_MODULE_SEGMENTS = 4096,
};

static const char deleted_suffix[] = " (deleted)";

/* Memory seen as the ELF file that segment `first` begins. */
struct mapped_file {
	const struct hf_image *image;
	const struct hf_segment *first; /* of file offset 0 */
	size_t first_id;                /* its index */
};

static bool same_file(const struct hf_segment *a, const struct hf_segment *b)
{
	if (!a->path || !b->path)
		return false;
	return a->inode == b->inode && a->device == b->device &&
	       (a->path == b->path || !strcmp(a->path, b->path));
}

/* Read at an offset of the file, wherever that part of it is mapped next. */
static bool read_mapped(void *arg, uint64_t offset, void *buf, size_t len)
{
	const struct mapped_file *file = arg;
	const struct hf_image *image = file->image;

	for (size_t i = file->first_id; i < image->segments.num &&
	     i - file->first_id < MAX_HEADER_SEGMENTS; i++) {
		const struct hf_segment *segment = &image->segments.data[i];
		uint64_t size = segment->end - segment->start;

		if (!same_file(segment, file->first) ||
		    offset < segment->file_offset ||
		    offset - segment->file_offset >= size)
			continue;
		return hf_image_read_some(image, segment->start +
					  (offset - segment->file_offset),
					  buf, len) == len;
	}
	return false;
}

/* Is PT_LOAD `phdr` mapped where `bias` puts it? */
static bool is_loaded(const struct mapped_file *file, uint64_t bias,
		      const Elf64_Phdr *phdr)
{
	uint64_t addr = hf_page_down(bias + phdr->p_vaddr);
	const struct hf_segment *segment =
		hf_image_find_segment(file->image, addr);

	if (!segment)
		return false;
	if (phdr->p_flags & PF_X && !(segment->prot & PROT_EXEC))
		return false;
	/* Text may have been moved to huge pages: anonymous then. */
	if (!phdr->p_filesz || segment->kind == HF_SEGMENT_ANON)
		return true;
	return same_file(segment, file->first) &&
	       segment->file_offset + (addr - segment->start) ==
	       hf_page_down(phdr->p_offset);
}

/* Find the bias by the PT_LOAD with the ELF header, and check all others. */
static bool find_layout(const struct mapped_file *file,
			const struct hf_elf_head *head,
			struct hf_module *module)
{
	uint64_t low = UINT64_MAX, high = 0;
	bool has_bias = false;

	for (size_t i = 0; i < head->num_phdrs && !has_bias; i++) {
		const Elf64_Phdr *phdr = &head->phdrs[i];

		if (phdr->p_type != PT_LOAD || hf_page_down(phdr->p_offset))
			continue;
		module->bias = file->first->start -
			       hf_page_down(phdr->p_vaddr);
		has_bias = true;
	}
	if (!has_bias)
		return false;
	for (size_t i = 0; i < head->num_phdrs; i++) {
		const Elf64_Phdr *phdr = &head->phdrs[i];
		uint64_t start = module->bias + phdr->p_vaddr, end;

		if (phdr->p_type != PT_LOAD || !phdr->p_memsz)
			continue;
		if (__builtin_add_overflow(start, phdr->p_memsz, &end) ||
		    end > HF_ADDRESS_END || !is_loaded(file, module->bias, phdr))
			return false;
		low = hf_min_u64(low, hf_page_down(start));
		high = hf_max_u64(high, hf_page_down(end + HF_PAGE_BYTES - 1));
	}
	module->start = low;
	module->end = high;
	return low <= file->first->start && high > file->first->start;
}

static void find_build_id(const struct hf_image *image,
			  const struct hf_elf_head *head,
			  struct hf_module *module)
{
	for (size_t i = 0; i < head->num_phdrs; i++) {
		const Elf64_Phdr *phdr = &head->phdrs[i];
		size_t len = hf_min_u64(phdr->p_filesz, HF_MAX_NOTE_BYTES);
		struct hf_build_id id;
		HF_AUTO_FREE void *notes = NULL;

		if (phdr->p_type != PT_NOTE || !len)
			continue;
		notes = malloc(len);
		if (!notes)
			return;
		len = hf_image_read_some(image, module->bias + phdr->p_vaddr,
					 notes, len);
		hf_elf_notes_build_id(notes, len, phdr->p_align, &id);
		if (!id.num_bytes)
			continue;
		memcpy(module->build_id, id.bytes, id.num_bytes);
		module->build_id_bytes = id.num_bytes;
		return;
	}
}

static void find_tls(const struct hf_elf_head *head, struct hf_module *module)
{
	for (size_t i = 0; i < head->num_phdrs; i++) {
		const Elf64_Phdr *phdr = &head->phdrs[i];
		uint64_t align = phdr->p_align ? phdr->p_align : 1;

		if (phdr->p_type != PT_TLS)
			continue;
		/* No TLS block is larger than the address space, nor aligned
		 * to more than a huge page. */
		if (phdr->p_memsz >= HF_ADDRESS_END || align & (align - 1) ||
		    align > (UINT64_C(1) << 30))
			return;
		module->tls_bytes = phdr->p_memsz;
		module->tls_align = align;
		module->tls_image_addr = phdr->p_memsz ?
			module->bias + phdr->p_vaddr : 0;
		return;
	}
}

/* Mark the segments that belong to the new module. */
static void claim_segments(struct hf_image *image,
			   const struct mapped_file *file,
			   const struct hf_elf_head *head,
			   const struct hf_module *module, uint32_t id)
{
	size_t first = hf_image_segment_after(image, module->start);

	for (size_t i = first; i < image->segments.num &&
	     i - first < MAX_MODULE_SEGMENTS; i++) {
		struct hf_segment *segment = &image->segments.data[i];

		if (segment->start >= module->end)
			break;
		if (segment->module_id != HF_NO_MODULE ||
		    segment->kind == HF_SEGMENT_SPECIAL)
			continue;
		if (same_file(segment, file->first)) {
			segment->module_id = id;
			continue;
		}
		/* .bss, or text that was moved to huge pages; not what was
		 * mapped into a hole between two PT_LOADs. */
		if (segment->kind != HF_SEGMENT_ANON &&
		    segment->kind != HF_SEGMENT_BRK)
			continue;
		for (size_t p = 0; p < head->num_phdrs; p++) {
			uint64_t start = module->bias + head->phdrs[p].p_vaddr;
			uint64_t end = start + head->phdrs[p].p_memsz;

			if (head->phdrs[p].p_type == PT_LOAD &&
			    head->phdrs[p].p_memsz &&
			    segment->start < end &&
			    segment->end > hf_page_down(start)) {
				segment->module_id = id;
				break;
			}
		}
	}
}

static struct hf_error *add_module(struct hf_image *image, size_t first_id)
{
	struct hf_segment *first = &image->segments.data[first_id];
	struct mapped_file file = { image, first, first_id };
	struct hf_module module = { .path = first->path };
	struct hf_error *err;
	HF_AUTO_FREE struct hf_elf_head *head = malloc(sizeof(*head));
	size_t len = strlen(first->path), suffix = sizeof(deleted_suffix) - 1;

	if (!head)
		return &hf_enomem;
	if (!hf_elf_head_read(read_mapped, &file, head) ||
	    !find_layout(&file, head, &module))
		return NULL;
	/* Modules are found, and stay, in the order of their addresses. Only
	 * headers that were made up put a PT_LOAD below an earlier module. */
	if (image->modules.num &&
	    module.start < image->modules.data[image->modules.num - 1].start)
		return NULL;
	if (len > suffix && !strcmp(first->path + len - suffix, deleted_suffix)) {
		module.deleted = true;
		err = hf_image_add_text(image, first->path, len - suffix,
					&module.path);
		if (err)
			return err;
	}
	find_build_id(image, head, &module);
	find_tls(head, &module);
	err = hf_array_append(&image->modules, module);
	if (err)
		return err;
	claim_segments(image, &file, head, &module, image->modules.num - 1);
	return NULL;
}

struct hf_error *hf_modules_find(struct hf_image *image)
{
	for (size_t i = 0; i < image->segments.num; i++) {
		const struct hf_segment *segment = &image->segments.data[i];
		struct hf_error *err;

		if ((segment->kind != HF_SEGMENT_FILE &&
		     segment->kind != HF_SEGMENT_VDSO) ||
		    segment->file_offset || !segment->path ||
		    !(segment->prot & PROT_READ) ||
		    segment->module_id != HF_NO_MODULE)
			continue;
		err = add_module(image, i);
		if (err)
			return err;
	}
	return NULL;
}

static bool same_build_id(const struct hf_module *module,
			  const struct hf_build_id *id)
{
	return module->build_id_bytes == id->num_bytes &&
	       !memcmp(module->build_id, id->bytes, id->num_bytes);
}

struct hf_error *hf_image_open_module(const struct hf_image *image,
				      const struct hf_module *module,
				      int *fd_ret)
{
	const struct hf_segment *segment =
		hf_image_find_segment(image, module->start);
	struct hf_range mapping;
	struct hf_build_id id;
	HF_AUTO_FD int fd = -1;
	uint64_t size = 0;
	struct stat st;

	if (!image->ops->open_file || !segment || !segment->path ||
	    segment->kind != HF_SEGMENT_FILE)
		return &hf_not_found;
	mapping = (struct hf_range){ segment->start, segment->end };
	fd = image->ops->open_file(image->arg, module->path, &mapping);
	if (fd < 0)
		return &hf_not_found;
	if (!hf_elf_file_build_id(fd, &id, &size) ||
	    !same_build_id(module, &id))
		return hf_error_create(HF_ERROR_NOT_FOUND,
				       "'%s' is not the file that is mapped",
				       module->path);
	/* Without a build id the inode decides. (The device does not: on
	 * btrfs and overlayfs maps and stat tell different ones.) Where maps
	 * do not tell the inode, all of the file must at least be there. */
	if (!id.num_bytes && (fstat(fd, &st) ||
			      (segment->inode && segment->inode != st.st_ino) ||
			      size < segment->file_offset +
				     (segment->end - segment->start) -
				     (HF_PAGE_BYTES - 1)))
		return hf_error_create(HF_ERROR_NOT_FOUND,
				       "'%s' has no build id, and is not the "
				       "file that is mapped", module->path);
	*fd_ret = HF_TAKE_FD(fd);
	return NULL;
}
