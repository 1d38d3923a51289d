/* What a fork leaves out of the child: found in its parent.
 * SPDX-License-Identifier: MIT */
#include "coredump/left_out.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/mman.h>

#include "coredump/image_internal.h"
#include "util/file.h"

/* MADV_DONTFORK mappings (VmFlags dc) are not in the child at all;
 * MADV_WIPEONFORK mappings (wf) are, but without pages. Only smaps shows these
 * flags, and it walks the page tables of its process, which for the parent
 * means: while that runs, its mmap() may have to wait. So the parent's smaps is
 * read only if maps shows that it could have such a mapping: readable, with
 * pages, and apart from all that the child has. What the parent mapped since
 * the fork mostly is not apart: a heap that grew overlaps the child's, and the
 * kernel merges neighbours of equal flags, dc among them. */

/* Index of the first mapping that ends above addr. */
static size_t mapping_after(const struct hf_proc_maps *maps, uint64_t addr)
{
	size_t low = 0, high = maps->num;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (maps->data[mid].end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static struct hf_error *stop_at_first(void *arg, struct hf_range range)
{
	bool *found = arg;

	(void)range;
	*found = true;
	return &hf_stop;
}

/* Has the parent pages here? Yes, if looking costs time for its size. */
static struct hf_error *has_pages(const struct hf_parent *parent,
				  const struct hf_mapping *mapping, bool *ret)
{
	struct hf_range range = { mapping->start, mapping->end };
	struct hf_error *err;

	*ret = !hf_resident_has_scan(parent->resident);
	if (*ret)
		return NULL;
	err = hf_resident_find(parent->resident, range, HF_RESIDENT_SKIP_ZERO,
			       stop_at_first, ret);
	return err == &hf_stop ? NULL : err;
}

static struct hf_error *may_have_left_out(const struct hf_parent *parent,
					  const struct hf_proc_maps *child,
					  bool *ret)
{
	*ret = false;
	for (size_t i = 0; i < parent->maps.num && !*ret; i++) {
		const struct hf_mapping *mapping = &parent->maps.data[i];
		size_t c = mapping_after(child, mapping->start);
		struct hf_error *err;

		if (mapping->end > HF_ADDRESS_END ||
		    !(mapping->prot & PROT_READ) ||
		    (c < child->num && child->data[c].start < mapping->end))
			continue;
		err = has_pages(parent, mapping, ret);
		if (err)
			return err;
	}
	return NULL;
}

/* The parts of a mapping that are not in the child. */
static struct hf_error *take_parts(const struct hf_mapping *mapping,
				   const struct hf_proc_maps *child,
				   struct hf_left_out *ret)
{
	uint64_t at = mapping->start;

	for (size_t c = mapping_after(child, at); at < mapping->end; c++) {
		struct hf_mapping part = *mapping;
		struct hf_error *err = NULL;

		part.start = at;
		part.file_offset += at - mapping->start;
		if (c < child->num)
			part.end = hf_min_u64(part.end, child->data[c].start);
		if (part.start < part.end)
			err = hf_array_append(&ret->list, part);
		if (err)
			return err;
		at = c < child->num ? child->data[c].end : mapping->end;
	}
	return NULL;
}

struct hf_error *hf_left_out_find(const struct hf_parent *parent,
				  const struct hf_proc_maps *child,
				  struct hf_left_out *ret)
{
	struct hf_left_out storage = { 0 };
	HF_AUTO(hf_left_out) struct hf_left_out *found = &storage;
	HF_AUTO(hf_proc_maps) struct hf_proc_maps maps = { 0 };
	HF_AUTO_FD int fd = -1;
	bool any;
	struct hf_error *err = may_have_left_out(parent, child, &any);
	size_t len;

	if (err || !any)
		return err;
	fd = openat(parent->proc_fd, "smaps", O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return hf_error_os(errno, "cannot open '/proc/%d/smaps'",
				   (int)parent->pid);
	err = hf_read_fd(fd, "smaps", &found->text, &len);
	if (!err)
		err = hf_proc_maps_parse(found->text, len, &maps);
	if (!err && !maps.num)
		err = hf_error_create(HF_ERROR_TARGET_GONE, "it ended");
	for (size_t i = 0; i < maps.num && !err; i++)
		if (maps.data[i].is_dontfork &&
		    maps.data[i].end <= HF_ADDRESS_END)
			err = take_parts(&maps.data[i], child, found);
	if (err)
		return err;
	*ret = storage;
	storage = (struct hf_left_out){ 0 };
	return NULL;
}

void hf_left_out_deinit(struct hf_left_out *left_out)
{
	hf_array_deinit(&left_out->list);
	free(left_out->text);
}

bool hf_left_out_is_mapped(const struct hf_parent *parent,
			   const struct hf_mapping *mapping)
{
	uint64_t at = mapping->start;

	if (!parent->pid)
		return false;
	for (size_t i = mapping_after(&parent->maps, at);
	     i < parent->maps.num && parent->maps.data[i].start <= at; i++) {
		at = parent->maps.data[i].end;
		if (at >= mapping->end)
			return true;
	}
	return false;
}
