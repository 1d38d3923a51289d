/* Core ELF files: the programs and libraries that a core was taken of.
 * SPDX-License-Identifier: MIT */
#include "coredump/core/core_elf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "coredump/elf_head.h"
#include "coredump/image_internal.h"

static const char deleted_suffix[] = " (deleted)";
static const char debug_root[] = "/usr/lib/debug/";

enum { PATH_BYTES = 4096 };

/* Never a device or a fifo: opening one may block, or act. */
static int open_regular(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	struct stat st;

	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
		return fd;
	close(fd);
	return -1;
}

static int open_under(const char *root, const char *path)
{
	char full[PATH_BYTES];
	int n = snprintf(full, sizeof(full), "%s/%s", root, path);

	return n < 0 || (size_t)n >= sizeof(full) ? -1 : open_regular(full);
}

int hf_core_elfs_open(const struct hf_core_elfs *elfs, const char *path)
{
	const struct hf_core_open_options *options = elfs->options;
	size_t debug_len = sizeof(debug_root) - 1;
	int fd = -1;

	if (options->exe && elfs->exe_path && !strcmp(path, elfs->exe_path))
		return open_regular(options->exe);
	if (options->debug_dirs && !strncmp(path, debug_root, debug_len))
		for (size_t i = 0; options->debug_dirs[i] && fd < 0; i++)
			fd = open_under(options->debug_dirs[i],
					path + debug_len);
	if (fd < 0 && options->sysroot)
		fd = open_under(options->sysroot, path);
	/* Files of this machine are not those of that sysroot; debug files
	 * are told by their build id. */
	if (fd < 0 && (!options->sysroot || !strncmp(path, debug_root,
						     debug_len)))
		fd = open_regular(path);
	return fd;
}

/* A program or library by its build id, where distributions put links. */
static int open_by_build_id(const struct hf_core_elfs *elfs,
			    const struct hf_build_id *id)
{
	char path[64 + 2 * HF_MAX_BUILD_ID_BYTES];
	int len;

	if (id->num_bytes < 2)
		return -1;
	len = snprintf(path, sizeof(path), "%s.build-id/%02x/", debug_root,
		       id->bytes[0]);
	for (uint32_t i = 1; i < id->num_bytes; i++)
		len += snprintf(path + len, sizeof(path) - (size_t)len, "%02x",
				id->bytes[i]);
	return hf_core_elfs_open(elfs, path);
}

struct core_elf_reader {
	const struct hf_core_file *file;
	const struct hf_core_mapped *mapped; /* of file offset 0 */
};

static bool read_core(void *arg, uint64_t offset, void *buf, size_t len)
{
	const struct core_elf_reader *reader = arg;
	uint64_t addr;

	if (__builtin_add_overflow(reader->mapped->range.start, offset, &addr))
		return false;
	return hf_core_file_read(reader->file, addr, buf, len) == len;
}

/* The build id in the core's memory. @return false if the core has no header
 * of this file. */
static bool build_id_in_core(const struct hf_core_file *file,
			     const struct hf_core_mapped *mapped,
			     struct hf_build_id *ret)
{
	struct core_elf_reader reader = { file, mapped };
	HF_AUTO_FREE struct hf_elf_head *head = malloc(sizeof(*head));
	uint64_t first = UINT64_MAX;

	memset(ret, 0, sizeof(*ret));
	if (!head || !hf_elf_head_read(read_core, &reader, head))
		return false;
	for (size_t i = 0; i < head->num_phdrs; i++)
		if (head->phdrs[i].p_type == PT_LOAD)
			first = hf_min_u64(first, head->phdrs[i].p_vaddr);
	for (size_t i = 0; i < head->num_phdrs && !ret->num_bytes; i++) {
		const Elf64_Phdr *phdr = &head->phdrs[i];
		size_t len = hf_min_u64(phdr->p_filesz, HF_MAX_NOTE_BYTES);
		HF_AUTO_FREE void *notes = NULL;

		if (phdr->p_type != PT_NOTE || !len || phdr->p_vaddr < first)
			continue;
		notes = malloc(len);
		if (notes && read_core(&reader, phdr->p_vaddr -
				       hf_page_down(first), notes, len))
			hf_elf_notes_build_id(notes, len, phdr->p_align, ret);
	}
	return true;
}

static bool same_id(const struct hf_build_id *a, const struct hf_build_id *b)
{
	return a->num_bytes == b->num_bytes &&
	       !memcmp(a->bytes, b->bytes, a->num_bytes);
}

/* Is the open file the one that was mapped? Says why not. */
static bool is_same_file(int fd, const struct hf_build_id *wanted,
			 char *why, size_t why_bytes)
{
	struct hf_build_id id;
	uint64_t size;

	if (!hf_elf_file_build_id(fd, &id, &size)) {
		snprintf(why, why_bytes, "the file is no ELF file any more");
		return false;
	}
	if (!same_id(&id, wanted)) {
		snprintf(why, why_bytes, "the file was replaced: it has "
			 "another build id");
		return false;
	}
	return true;
}

static void find_elf(const struct hf_core_elfs *elfs,
		     const struct hf_core_file *file,
		     const struct hf_core_mapped *mapped,
		     struct hf_core_elf *elf)
{
	size_t len = strlen(elf->path), suffix = sizeof(deleted_suffix) - 1;
	bool is_exe = elfs->exe_path && !strcmp(elf->path, elfs->exe_path);
	HF_AUTO_FREE char *path = NULL;
	struct hf_build_id wanted;
	struct stat st;
	bool has_head;

	/* A file that was deleted may have been replaced by its like. */
	if (len > suffix && !strcmp(elf->path + len - suffix, deleted_suffix))
		len -= suffix;
	path = strndup(elf->path, len);
	has_head = build_id_in_core(file, mapped, &wanted);
	elf->fd = path ? hf_core_elfs_open(elfs, path) : -1;
	if (elf->fd >= 0 && has_head && wanted.num_bytes &&
	    !is_same_file(elf->fd, &wanted, elf->why, sizeof(elf->why))) {
		close(elf->fd);
		elf->fd = -1;
	} else if (elf->fd < 0) {
		snprintf(elf->why, sizeof(elf->why), "there is no such file");
	}
	if (elf->fd < 0 && has_head)
		elf->fd = open_by_build_id(elfs, &wanted);
	/* Nothing to compare: only the user can know. */
	if (elf->fd >= 0 && !(has_head && wanted.num_bytes) &&
	    !(is_exe && elfs->options->exe)) {
		close(elf->fd);
		elf->fd = -1;
		snprintf(elf->why, sizeof(elf->why), "the core has no build "
			 "id to tell whether the file is still the same");
	}
	if (elf->fd >= 0)
		elf->size = fstat(elf->fd, &st) == 0 ? (uint64_t)st.st_size :
						       0;
}

static int by_path(const void *a, const void *b)
{
	const struct hf_core_elf *x = a, *y = b;

	return strcmp(x->path, y->path);
}

static int by_path_and_offset(const void *a, const void *b)
{
	const struct hf_core_mapped *const *x = a, *const *y = b;
	int order = strcmp((*x)->path, (*y)->path);

	if (order)
		return order;
	return (*x)->range.start < (*y)->range.start ? -1 : 1;
}

struct hf_error *hf_core_elfs_find(const struct hf_core_open_options *options,
				   const struct hf_core_file *file,
				   const struct hf_core_mapped *mapped,
				   size_t num_mapped, const char *exe_path,
				   struct hf_core_elfs *ret)
{
	HF_AUTO_FREE const struct hf_core_mapped **sorted =
		calloc(num_mapped + 1, sizeof(*sorted));

	memset(ret, 0, sizeof(*ret));
	ret->options = options;
	ret->exe_path = exe_path;
	if (!sorted)
		return &hf_enomem;
	for (size_t i = 0; i < num_mapped; i++)
		sorted[i] = &mapped[i];
	qsort(sorted, num_mapped, sizeof(*sorted), by_path_and_offset);
	for (size_t i = 0, next; i < num_mapped; i = next) {
		const struct hf_core_mapped *head = sorted[i];
		struct hf_core_elf elf = { .path = head->path, .fd = -1 };
		struct hf_error *err;

		for (next = i; next < num_mapped &&
		     !strcmp(sorted[next]->path, elf.path); next++)
			if (!sorted[next]->file_offset && head->file_offset)
				head = sorted[next];
		find_elf(ret, file, head, &elf);
		err = hf_array_append(&ret->list, elf);
		if (err) {
			if (elf.fd >= 0)
				close(elf.fd);
			return err;
		}
	}
	return NULL;
}

void hf_core_elfs_deinit(struct hf_core_elfs *elfs)
{
	for (size_t i = 0; i < elfs->list.num; i++)
		if (elfs->list.data[i].fd >= 0)
			close(elfs->list.data[i].fd);
	hf_array_deinit(&elfs->list);
}

const struct hf_core_elf *hf_core_elfs_at(const struct hf_core_elfs *elfs,
					  const char *path)
{
	const struct hf_core_elf key = { .path = path };

	if (!path || !elfs->list.num)
		return NULL;
	return bsearch(&key, elfs->list.data, elfs->list.num, sizeof(key),
		       by_path);
}
