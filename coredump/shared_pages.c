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
static struct hf_error *find_data(int proc_fd,
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
	fd = openat(proc_fd, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK |
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

struct hf_error *hf_shared_pages_find(int proc_fd,
				      const struct hf_parent *parent,
				      const struct hf_mapping *mapping,
				      struct hf_error *(*found)(void *arg,
							struct hf_range range),
				      void *arg)
{
	struct hf_range range = { mapping->start, mapping->end };
	const struct hf_mapping *same =
		find_mapping(&parent->maps, mapping->start);
	struct hf_error *err = NULL;

	if (parent->pid && same && same_mapping(same, mapping)) {
		err = hf_resident_find(parent->resident, range, 0,
				       found, arg);
		/* The parent may go away while we look. */
		if (err && err->code != HF_ERROR_OS &&
		    err->code != HF_ERROR_TARGET_GONE)
			return err;
		hf_error_ignore(err);
	}
	return find_data(proc_fd, mapping, found, arg);
}
