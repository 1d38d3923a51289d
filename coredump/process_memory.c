/* The bytes of a process: /proc/PID/mem, or process_vm_readv.
 * SPDX-License-Identifier: MIT */
#include "coredump/process_memory.h"

#include <errno.h>
#include <sys/uio.h>

#include "coredump/image_internal.h"

/* The process is a forked child that shares its pages with its parent, and it
 * must go on sharing them. process_vm_readv pins what it reads, and since Linux
 * 5.19 the kernel gives a child its own copy of each anonymous page before it
 * is pinned (mm/gup.c, gup_must_unshare): reading a heap of 1 GB in this way
 * costs 1 GB of memory and three times the time. /proc/PID/mem only looks. It
 * also reads what the target itself may not (PROT_NONE). So process_vm_readv
 * is for where there is no /proc/PID/mem. */

enum {
	MAX_IOVECS = 1024,       /* IOV_MAX */
	MAX_CALL_BYTES = 1 << 20, /* more is slower: our cache */
};

/* A place in the list of ranges. */
struct cursor {
	const struct hf_range *range; /* next byte is in this one */
	const struct hf_range *end;
	uint64_t off;                 /* bytes of it that are done */
	char *buf;                    /* where the next byte goes */
};

static void advance(struct cursor *cursor, size_t bytes)
{
	cursor->buf += bytes;
	while (cursor->range < cursor->end) {
		uint64_t left = cursor->range->end - cursor->range->start -
				cursor->off;

		if (bytes < left) {
			cursor->off += bytes;
			return;
		}
		bytes -= left;
		cursor->off = 0;
		cursor->range++;
	}
}

/* One call. @return bytes copied, or -1 with errno. */
static ssize_t readv_some(const struct hf_process_memory *memory,
			  const struct cursor *cursor)
{
	struct iovec remote[MAX_IOVECS];
	struct iovec local = { .iov_base = cursor->buf };
	size_t num = 0, total = 0;
	uint64_t off = cursor->off;

	for (const struct hf_range *range = cursor->range;
	     range < cursor->end && num < MAX_IOVECS &&
	     total < MAX_CALL_BYTES; range++, off = 0) {
		uint64_t start = range->start + off;
		size_t len = hf_min_u64(range->end - start,
					MAX_CALL_BYTES - total);

		if (!len)
			continue;
		remote[num].iov_base = (void *)(uintptr_t)start;
		remote[num++].iov_len = len;
		total += len;
	}
	local.iov_len = total;
	return num ? process_vm_readv(memory->pid, &local, 1, remote, num, 0) :
		     0;
}

/* The rest of the current range. @return bytes copied, or -1 with errno. */
static ssize_t pread_some(const struct hf_process_memory *memory,
			  const struct cursor *cursor)
{
	uint64_t at = cursor->range->start + cursor->off;

	return pread(memory->mem_fd, cursor->buf,
		     hf_min_u64(cursor->range->end - at, MAX_CALL_BYTES), at);
}

size_t hf_process_memory_read(const struct hf_process_memory *memory,
			      const struct hf_range *ranges,
			      size_t num_ranges, void *buf)
{
	struct cursor cursor = { ranges, ranges + num_ranges, 0, buf };

	advance(&cursor, 0);
	while (cursor.range < cursor.end) {
		ssize_t got = memory->mem_fd >= 0 ?
			      pread_some(memory, &cursor) :
			      readv_some(memory, &cursor);

		if (got < 0 && errno == EINTR)
			continue;
		/* Both copy all pages before the first that cannot be read,
		 * so now the next byte is such a one. */
		if (got <= 0)
			break;
		advance(&cursor, got);
	}
	return cursor.buf - (char *)buf;
}

size_t hf_process_memory_gather(const struct hf_process_memory *memory,
				const struct hf_range *ranges,
				size_t num_ranges, void *buf)
{
	const struct cursor cursor = { ranges, ranges + num_ranges, 0, buf };
	ssize_t got = readv_some(memory, &cursor);

	if (got >= 0)
		return got;
	/* The first byte is unreadable; or the call is not allowed here. */
	return errno == EFAULT ? 0 :
		hf_process_memory_read(memory, ranges, num_ranges, buf);
}
