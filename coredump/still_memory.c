/* Still memory: the bytes of a process that stands, read without a trace.
 * SPDX-License-Identifier: MIT */
#include "coredump/still_memory.h"

#include <elf.h>
#include <pthread.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/resource.h>

#include "coredump/image_internal.h"
#include "coredump/mapped_files.h"

enum {
	/* Of the descriptors that we may have: others open files, too. */
	FILES_PART = 8,
	FILES_MAX = 1024,
};

struct hf_still_memory {
	const struct hf_image *image;
	const struct hf_process_memory *memory;
	pthread_mutex_t lock;
	bool tried;                     /* guarded by lock */
	struct hf_mapped_files *files;  /* the same; NULL: not to be had */
};

struct hf_error *
hf_still_memory_create(const struct hf_image *image,
		       const struct hf_process_memory *memory,
		       struct hf_still_memory **ret)
{
	struct hf_still_memory *still = calloc(1, sizeof(*still));

	if (!still)
		return &hf_enomem;
	still->image = image;
	still->memory = memory;
	pthread_mutex_init(&still->lock, NULL);
	*ret = still;
	return NULL;
}

void hf_still_memory_destroy(struct hf_still_memory *still)
{
	if (!still)
		return;
	hf_mapped_files_close(still->files);
	pthread_mutex_destroy(&still->lock);
	free(still);
}

static const struct hf_mapped_files *files_of(struct hf_still_memory *still)
{
	struct rlimit limit;

	pthread_mutex_lock(&still->lock);
	if (!still->tried) {
		still->tried = true;
		if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
			limit.rlim_cur = 0;
		/* Without them the process is read. */
		hf_error_ignore(hf_mapped_files_open(
			still->image,
			hf_min_u64(limit.rlim_cur / FILES_PART, FILES_MAX),
			&still->files));
	}
	pthread_mutex_unlock(&still->lock);
	return still->files;
}

/* The kernel gives the same vdso to each process of one kind: ours will do if
 * it begins with the same page, which has its ELF header and build id. */
static const char *own_vdso(const struct hf_still_memory *still,
			    const struct hf_segment *segment)
{
	const char *own = (const char *)getauxval(AT_SYSINFO_EHDR);
	const struct hf_range first = {
		segment->start, segment->start + HF_PAGE_BYTES,
	};
	const struct hf_image *image = still->image;
	char page[HF_PAGE_BYTES];
	size_t r = hf_image_resident_after(image, first.start);
	Elf64_Ehdr head;
	uint64_t end;

	if (!own || r == image->resident.num ||
	    image->resident.data[r].start > first.start ||
	    hf_process_memory_read(still->memory, &first, 1, page) !=
		    sizeof(page) || memcmp(own, page, sizeof(page)))
		return NULL;
	memcpy(&head, own, sizeof(head));
	end = head.e_shoff + (uint64_t)head.e_shnum * head.e_shentsize;
	return hf_page_down(end + HF_PAGE_BYTES - 1) ==
	       segment->end - segment->start ? own : NULL;
}

/* Where the first bytes of a range are: in a file or our vdso (true), or in the
 * process.
 * @param end_ret where that ends. */
static bool is_elsewhere(const struct hf_still_memory *still,
			 const struct hf_mapped_files *files, size_t segment,
			 struct hf_range range, uint64_t *end_ret)
{
	const struct hf_image *image = still->image;
	const struct hf_segment *mapped = &image->segments.data[segment];
	const struct hf_range *resident;
	size_t r;

	*end_ret = range.end;
	if (segment == image->segments.num || mapped->start > range.start)
		return false;
	if (mapped->kind == HF_SEGMENT_VDSO ? !own_vdso(still, mapped) :
	    !files || hf_mapped_files_fd(files, segment) < 0)
		return false;
	*end_ret = hf_min_u64(range.end, mapped->end);
	if (mapped->kind == HF_SEGMENT_SHARED)
		return true;
	/* Resident are pages that were written to. */
	r = hf_image_resident_after(image, range.start);
	if (r == image->resident.num)
		return true;
	resident = &image->resident.data[r];
	if (resident->start > range.start) {
		*end_ret = hf_min_u64(*end_ret, resident->start);
		return true;
	}
	*end_ret = hf_min_u64(*end_ret, resident->end);
	return false;
}

/* Of what is_elsewhere. */
static size_t read_elsewhere(const struct hf_still_memory *still,
			     const struct hf_mapped_files *files,
			     size_t segment, struct hf_range range, void *buf)
{
	const struct hf_segment *mapped = &still->image->segments.data[segment];

	if (mapped->kind != HF_SEGMENT_VDSO)
		return hf_mapped_files_read(files, still->image, segment,
					    range, buf);
	memcpy(buf, (const char *)getauxval(AT_SYSINFO_EHDR) +
	       (range.start - mapped->start), range.end - range.start);
	return range.end - range.start;
}

size_t hf_still_memory_read(struct hf_still_memory *still,
			    const struct hf_range *ranges, size_t num_ranges,
			    void *buf)
{
	const struct hf_mapped_files *files = files_of(still);
	const struct hf_image *image = still->image;
	size_t done = 0;

	for (size_t i = 0; i < num_ranges; i++) {
		struct hf_range left = ranges[i];

		while (left.start < left.end) {
			size_t segment = hf_image_segment_after(image,
								left.start);
			struct hf_range part = left;
			char *to = (char *)buf + done;
			bool elsewhere = is_elsewhere(still, files, segment,
						      left, &part.end);
			size_t got = elsewhere ?
				read_elsewhere(still, files, segment, part, to) :
				hf_process_memory_read(still->memory, &part, 1,
						       to);

			done += got;
			left.start += got;
			if (left.start < part.end)
				return done;
		}
	}
	return done;
}
