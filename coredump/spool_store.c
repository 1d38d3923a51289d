/* Spool store: room for copied bytes, in memory or in a file without a name.
 * SPDX-License-Identifier: MIT */
#include "coredump/spool_store.h"

#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "coredump/spool.h"

/* In memory bytes are read right to where they stay. For a file there is a
 * buffer; its pages are the kernel's to write out or to keep. */

enum { HUGE_PAGE_BYTES = 2 << 20 };

struct hf_spool_store {
	enum hf_spool_place place;
	uint64_t capacity;
	uint64_t used;
	size_t room;
	char *memory;       /* mapping of mapped_bytes, or NULL */
	char *first;        /* in it, on a huge page's border */
	uint64_t mapped_bytes;
	char *buffer;       /* of `room` bytes, for a file */
	int fd;             /* or -1 */
};

static struct hf_error *map_memory(struct hf_spool_store *store)
{
	uint64_t bytes;

	/* Behind the capacity there is a room still: it is filled before it is
	 * known how much of it is kept. */
	if (__builtin_add_overflow(store->capacity, (uint64_t)store->room +
				   2 * HUGE_PAGE_BYTES, &bytes) ||
	    bytes > SIZE_MAX / 2)
		return &hf_enomem;
	bytes &= ~(uint64_t)(HUGE_PAGE_BYTES - 1);
	/* Only what is written counts, also where memory is not overcommitted
	 * without asking. */
	store->memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
			     0);
	if (store->memory == MAP_FAILED) {
		store->memory = NULL;
		return hf_error_os(errno, "cannot map memory for the copy");
	}
	store->mapped_bytes = bytes;
	store->first = store->memory +
		       (-(uintptr_t)store->memory & (HUGE_PAGE_BYTES - 1));
	/* Both are wishes. A page fault for each 4 KiB would take longer than
	 * the copy; and the bytes of others do not belong in a core of ours. */
	madvise(store->memory, bytes, MADV_HUGEPAGE);
	madvise(store->memory, bytes, MADV_DONTDUMP);
	return NULL;
}

static struct hf_error *cannot_make(int os_error, const char *dir)
{
	return hf_error_fix(hf_error_os(os_error, "cannot make a file in '%s'",
					dir),
			    "name a folder for the copy that exists, and that "
			    "this user may write to");
}

static struct hf_error *open_unnamed(const char *dir, int *fd_ret)
{
	HF_AUTO_FREE char *name = NULL;
	int fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC | O_EXCL, 0600);

	if (fd >= 0) {
		*fd_ret = fd;
		return NULL;
	}
	/* A file system without: then it has a name for a moment. */
	if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)
		return cannot_make(errno, dir);
	if (asprintf(&name, "%s/.heapfork-spool-XXXXXX", dir) < 0) {
		name = NULL;
		return &hf_enomem;
	}
	fd = mkostemp(name, O_CLOEXEC);
	if (fd < 0)
		return cannot_make(errno, dir);
	unlink(name);
	*fd_ret = fd;
	return NULL;
}

struct hf_error *hf_spool_probe(const char *dir)
{
	HF_AUTO_FD int fd = -1;

	return open_unnamed(dir, &fd);
}

static struct hf_error *open_file(struct hf_spool_store *store,
				  const char *dir)
{
	store->buffer = malloc(store->room);
	if (!store->buffer)
		return &hf_enomem;
	return open_unnamed(dir, &store->fd);
}

struct hf_error *hf_spool_store_create(enum hf_spool_place place,
				       uint64_t capacity, size_t room,
				       const char *dir,
				       struct hf_spool_store **ret)
{
	HF_AUTO(hf_spool_store) struct hf_spool_store *store =
		calloc(1, sizeof(*store));
	struct hf_error *err;

	if (!store)
		return &hf_enomem;
	store->place = place;
	store->capacity = capacity;
	store->room = room;
	store->fd = -1;
	err = place == HF_SPOOL_MEMORY ? map_memory(store) :
					 open_file(store, dir);
	if (err)
		return err;
	*ret = HF_TAKE(store);
	return NULL;
}

void hf_spool_store_destroy(struct hf_spool_store *store)
{
	if (!store)
		return;
	if (store->memory)
		munmap(store->memory, store->mapped_bytes);
	if (store->fd >= 0)
		close(store->fd);
	free(store->buffer);
	free(store);
}

enum hf_spool_place hf_spool_store_place(const struct hf_spool_store *store)
{
	return store->place;
}

char *hf_spool_store_room(struct hf_spool_store *store)
{
	if (store->place == HF_SPOOL_FILE)
		return store->buffer;
	return store->first + store->used;
}

static struct hf_error *write_file(const struct hf_spool_store *store,
				   size_t len)
{
	size_t done = 0;

	while (done < len) {
		ssize_t n = pwrite(store->fd, store->buffer + done, len - done,
				   (off_t)(store->used + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return hf_error_os(n < 0 ? errno : EIO,
					   "cannot write the copy");
		done += (size_t)n;
	}
	return NULL;
}

struct hf_error *hf_spool_store_keep(struct hf_spool_store *store, size_t len,
				     uint64_t *offset_ret)
{
	struct hf_error *err = NULL;

	assert(len <= store->room);
	if (len > store->capacity - store->used)
		return hf_error_create(HF_ERROR_NO_SPACE,
				       "the copy is larger than was planned");
	if (store->place == HF_SPOOL_FILE)
		err = write_file(store, len);
	if (err)
		return err;
	*offset_ret = store->used;
	store->used += len;
	return NULL;
}

uint64_t hf_spool_store_used(const struct hf_spool_store *store)
{
	return store->used;
}

size_t hf_spool_store_read(const struct hf_spool_store *store, uint64_t offset,
			   void *buf, size_t len)
{
	size_t done = 0;

	if (offset > store->used || len > store->used - offset)
		return 0;
	if (store->place == HF_SPOOL_MEMORY) {
		memcpy(buf, store->first + offset, len);
		return len;
	}
	while (done < len) {
		ssize_t n = pread(store->fd, (char *)buf + done, len - done,
				  (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done;
}
