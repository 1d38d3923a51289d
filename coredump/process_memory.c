/* The bytes of a process: process_vm_readv, or /proc/PID/mem.
 * SPDX-License-Identifier: MIT */
#include "coredump/process_memory.h"

#include <errno.h>
#include <sys/uio.h>

#include "coredump/image_internal.h"

/* process_vm_readv is 30 % faster, and takes many ranges at once. It fails
 * where the target itself may not read (PROT_NONE), and seccomp may forbid it
 * to us. /proc/PID/mem reads whatever is there. So the first is used as long
 * as it goes, and the second from the byte where it stops: if that fails too,
 * this byte is the first that cannot be read. */

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

size_t hf_process_memory_read(struct hf_process_memory *memory,
			      const struct hf_range *ranges,
			      size_t num_ranges, void *buf)
{
	struct cursor cursor = { ranges, ranges + num_ranges, 0, buf };

	advance(&cursor, 0);
	while (cursor.range < cursor.end) {
		bool no_readv = __atomic_load_n(&memory->no_readv,
						__ATOMIC_RELAXED);
		ssize_t got = -1;

		if (!no_readv) {
			got = readv_some(memory, &cursor);
			if (got > 0) {
				advance(&cursor, got);
				continue;
			}
			if (got < 0 && (errno == EPERM || errno == ENOSYS))
				__atomic_store_n(&memory->no_readv, true,
						 __ATOMIC_RELAXED);
		}
		if (memory->mem_fd < 0)
			break;
		got = pread_some(memory, &cursor);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		advance(&cursor, got);
	}
	return cursor.buf - (char *)buf;
}
