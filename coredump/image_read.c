/* Reading an image: what is resident, what is zero, what is missing.
 * SPDX-License-Identifier: MIT */
#include "coredump/image.h"

#include <assert.h>
#include <string.h>

#include "coredump/image_internal.h"

size_t hf_image_read_some(const struct hf_image *image, uint64_t addr,
			  void *buf, size_t len)
{
	const struct hf_range *resident = image->resident.data;
	size_t s = hf_image_segment_after(image, addr);
	size_t r = hf_image_resident_after(image, addr);
	size_t done = 0;

	assert(image->frozen);
	while (done < len) {
		const struct hf_segment *segment;
		uint64_t at, end;
		bool is_resident;

		if (__builtin_add_overflow(addr, done, &at))
			break;
		while (s < image->segments.num &&
		       image->segments.data[s].end <= at)
			s++;
		if (s == image->segments.num)
			break;
		segment = &image->segments.data[s];
		if (segment->start > at || segment->kind == HF_SEGMENT_SPECIAL)
			break;
		end = segment->end;
		while (r < image->resident.num && resident[r].end <= at)
			r++;
		is_resident = r < image->resident.num &&
			      resident[r].start <= at;
		if (segment->absent != HF_ABSENT_FILE) {
			if (is_resident)
				end = hf_min_u64(end, resident[r].end);
			else if (r < image->resident.num)
				end = hf_min_u64(end, resident[r].start);
		}
		end = at + hf_min_u64(end - at, len - done);
		if (is_resident || segment->absent == HF_ABSENT_FILE) {
			struct hf_range range = { at, end };
			size_t got = image->ops->read(image->arg, &range, 1,
						      (char *)buf + done);

			done += got;
			if (got < end - at)
				break;
		} else if (segment->absent == HF_ABSENT_ZERO) {
			memset((char *)buf + done, 0, end - at);
			done += end - at;
		} else {
			break;
		}
	}
	return done;
}

struct hf_error *hf_image_read(const struct hf_image *image, uint64_t addr,
			       void *buf, size_t len)
{
	size_t got = hf_image_read_some(image, addr, buf, len);

	return got == len ? NULL : hf_error_fault(addr + got);
}

bool hf_image_peek_u64(const struct hf_image *image, uint64_t addr,
		       uint64_t *ret)
{
	uint64_t word;

	if (hf_image_read_some(image, addr, &word, sizeof(word)) !=
	    sizeof(word))
		return false;
	*ret = word;
	return true;
}

bool hf_image_peek_string(const struct hf_image *image, uint64_t addr,
			  char *buf, size_t size)
{
	size_t done = 0;

	while (done < size) {
		/* Not across a page: the next one may be missing, and the
		 * text may end before it. */
		size_t part = HF_PAGE_BYTES - (addr + done) % HF_PAGE_BYTES;
		size_t got;

		if (part > size - done)
			part = size - done;
		got = hf_image_read_some(image, addr + done, buf + done, part);
		if (memchr(buf + done, '\0', got))
			return true;
		if (got < part)
			return false;
		done += part;
	}
	return false;
}
