/* Which pages of a shared mapping exist, although the child never mapped them.
 * SPDX-License-Identifier: MIT */
#include "coredump/shared_pages.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/vfs.h>

#include "coredump/image_internal.h"
#include "coredump/resident.h"
#include "util/file.h"

/* A fork copies no page tables of shared mappings: the child would map each
 * page when it first touches it, so its page map shows none. Reading them all
 * is no way out, because that fills the holes of a sparse file in memory. Two
 * others know more:
 *
 *  - the parent, if it still has the same mapping: what it has mapped exists
 *    (for files on a disk that is also all that is worth reading);
 *  - for memory without a disk (shared anonymous, memfd, SysV, /dev/shm) the
 *    file itself, which tells its data from its holes. Needs the right to
 *    follow map_files (CAP_CHECKPOINT_RESTORE or CAP_SYS_ADMIN). */

struct hf_shared_pages {
	int proc_fd;                   /* borrowed */
	int parent_pagemap;            /* -1: no parent to ask */
	char *parent_text;             /* owned; parent_maps points into it */
	struct hf_proc_maps parent_maps;
	struct hf_resident *parent_resident;
};

/* "PPid:\t1234" of /proc/PID/status, or 0. */
static pid_t parent_of(int proc_fd)
{
	HF_AUTO_FD int fd = openat(proc_fd, "status", O_RDONLY | O_CLOEXEC);
	HF_AUTO_FREE char *text = NULL;
	const char *line;
	struct hf_error *err;

	if (fd < 0)
		return 0;
	err = hf_read_fd(fd, "status", &text, NULL);
	if (err) {
		hf_error_ignore(err);
		return 0;
	}
	/* The name of the process comes first, and may not hold a newline:
	 * the kernel escapes it. */
	line = strstr(text, "\nPPid:\t");
	return line ? atoi(line + strlen("\nPPid:\t")) : 0;
}

static struct hf_error *ask_parent(struct hf_shared_pages *shared, pid_t parent,
				   bool no_scan)
{
	char path[64];
	struct hf_error *err;
	size_t len;

	snprintf(path, sizeof(path), "/proc/%d/pagemap", (int)parent);
	shared->parent_pagemap = open(path, O_RDONLY | O_CLOEXEC);
	if (shared->parent_pagemap < 0)
		return &hf_not_found;
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)parent);
	err = hf_read_file(path, &shared->parent_text, &len);
	if (!err)
		err = hf_proc_maps_parse(shared->parent_text, len,
					 &shared->parent_maps);
	if (!err)
		err = hf_resident_create(shared->parent_pagemap, no_scan,
					 &shared->parent_resident);
	return err;
}

struct hf_error *hf_shared_pages_create(int proc_fd, bool no_scan,
					struct hf_shared_pages **ret)
{
	HF_AUTO(hf_shared_pages) struct hf_shared_pages *shared =
		calloc(1, sizeof(*shared));
	struct hf_error *err = NULL;
	pid_t parent;

	if (!shared)
		return &hf_enomem;
	shared->proc_fd = proc_fd;
	shared->parent_pagemap = -1;
	parent = parent_of(proc_fd);
	if (parent > 0)
		err = ask_parent(shared, parent, no_scan);
	if (err && err->code == HF_ERROR_NO_MEMORY)
		return err;
	/* Gone, or not ours to look at: then it does not help. */
	hf_error_ignore(err);
	*ret = HF_TAKE(shared);
	return NULL;
}

void hf_shared_pages_destroy(struct hf_shared_pages *shared)
{
	if (!shared)
		return;
	hf_resident_destroy(shared->parent_resident);
	hf_proc_maps_deinit(&shared->parent_maps);
	free(shared->parent_text);
	if (shared->parent_pagemap >= 0)
		close(shared->parent_pagemap);
	free(shared);
}

static const struct hf_mapping *find_mapping(const struct hf_proc_maps *maps,
					     uint64_t start)
{
	size_t low = 0, high = maps->num;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (maps->data[mid].start < start)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == maps->num || maps->data[low].start != start)
		return NULL;
	return &maps->data[low];
}

static bool same_mapping(const struct hf_mapping *a, const struct hf_mapping *b)
{
	return a->end == b->end && a->is_shared == b->is_shared &&
	       a->file_offset == b->file_offset && a->device == b->device &&
	       a->inode == b->inode;
}

/* Pages with data in the file behind the mapping. */
static struct hf_error *find_data(const struct hf_shared_pages *shared,
				  const struct hf_mapping *mapping,
				  struct hf_error *(*found)(void *arg,
							struct hf_range range),
				  void *arg)
{
	uint64_t size = mapping->end - mapping->start, at = 0, end;
	HF_AUTO_FD int fd = -1;
	struct statfs fs;
	char name[64];

	if (__builtin_add_overflow(mapping->file_offset, size, &end) ||
	    end > INT64_MAX)
		return NULL;
	snprintf(name, sizeof(name), "map_files/%" PRIx64 "-%" PRIx64,
		 mapping->start, mapping->end);
	fd = openat(shared->proc_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK |
		    O_NOCTTY);
	if (fd < 0 || fstatfs(fd, &fs) || fs.f_type != TMPFS_MAGIC)
		return NULL;
	while (at < size) {
		off_t data = lseek(fd, mapping->file_offset + at, SEEK_DATA);
		off_t hole = data < 0 ? -1 : lseek(fd, data, SEEK_HOLE);
		struct hf_range range;
		struct hf_error *err;

		if (hole <= data || (uint64_t)data >= end)
			break;
		range.start = mapping->start +
			      (hf_page_down(data) - mapping->file_offset);
		hole = hf_page_down(hf_min_u64(hole + HF_PAGE_BYTES - 1, end));
		range.end = mapping->start + (hole - mapping->file_offset);
		err = found(arg, range);
		if (err)
			return err;
		at = hole - mapping->file_offset;
	}
	return NULL;
}

struct hf_error *hf_shared_pages_find(struct hf_shared_pages *shared,
				      const struct hf_mapping *mapping,
				      struct hf_error *(*found)(void *arg,
							struct hf_range range),
				      void *arg)
{
	struct hf_range range = { mapping->start, mapping->end };
	const struct hf_mapping *same =
		find_mapping(&shared->parent_maps, mapping->start);
	struct hf_error *err = NULL;

	if (shared->parent_resident && same && same_mapping(same, mapping)) {
		err = hf_resident_find(shared->parent_resident, range, false,
				       found, arg);
		/* The parent may go away while we look. */
		if (err && err->code != HF_ERROR_OS &&
		    err->code != HF_ERROR_TARGET_GONE)
			return err;
		hf_error_ignore(err);
	}
	return find_data(shared, mapping, found, arg);
}
