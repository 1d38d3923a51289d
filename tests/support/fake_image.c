/* Fake images: an address space made of tables and pokes.
 * SPDX-License-Identifier: MIT */
#include "tests/support/fake_image.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/support/test_main.h"
#include "util/array.h"

enum { PAGE_BYTES = 4096 };

struct fake_page {
	uint64_t addr;
	bool resident;
	bool fails;
	uint8_t *bytes; /* PAGE_BYTES, owned */
};

struct fake_file {
	char *path;
	void *bytes;
	size_t len;
};

struct fake_image {
	HF_ARRAY(struct hf_segment) segments; /* paths owned */
	HF_ARRAY(struct hf_thread) threads;   /* xstate borrowed */
	HF_ARRAY(struct fake_page) pages;     /* sorted by addr */
	HF_ARRAY(struct fake_file) files;
	struct hf_image *image;               /* NULL before the freeze */
	size_t num_reads;                     /* atomic */
};

static void *need(void *ptr)
{
	if (!ptr)
		abort();
	return ptr;
}

struct fake_image *fake_image_create(void)
{
	return need(calloc(1, sizeof(struct fake_image)));
}

void fake_image_destroy(struct fake_image *fake)
{
	if (!fake)
		return;
	hf_image_destroy(fake->image);
	for (size_t i = 0; i < fake->segments.num; i++)
		free((char *)fake->segments.data[i].path);
	for (size_t i = 0; i < fake->pages.num; i++)
		free(fake->pages.data[i].bytes);
	for (size_t i = 0; i < fake->files.num; i++) {
		free(fake->files.data[i].path);
		free(fake->files.data[i].bytes);
	}
	hf_array_deinit(&fake->segments);
	hf_array_deinit(&fake->threads);
	hf_array_deinit(&fake->pages);
	hf_array_deinit(&fake->files);
	free(fake);
}

/* Index of the first page at or above addr. */
static size_t page_index(const struct fake_image *fake, uint64_t addr)
{
	size_t low = 0, high = fake->pages.num;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (fake->pages.data[mid].addr < addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

static struct fake_page *find_page(const struct fake_image *fake,
				   uint64_t addr)
{
	size_t i;

	addr -= addr % PAGE_BYTES;
	i = page_index(fake, addr);
	if (i == fake->pages.num || fake->pages.data[i].addr != addr)
		return NULL;
	return &fake->pages.data[i];
}

static struct fake_page *need_page(struct fake_image *fake, uint64_t addr)
{
	struct fake_page *page = find_page(fake, addr);
	size_t i;

	if (page)
		return page;
	if (fake->image) {
		fprintf(stderr, "0x%llx is not in the frozen fake\n",
			(unsigned long long)addr);
		abort();
	}
	addr -= addr % PAGE_BYTES;
	i = page_index(fake, addr);
	assert_hf_ok(hf_array_reserve(&fake->pages, 1));
	page = &fake->pages.data[i];
	memmove(page + 1, page, (fake->pages.num - i) * sizeof(*page));
	fake->pages.num++;
	*page = (struct fake_page){ .addr = addr,
				    .bytes = need(calloc(1, PAGE_BYTES)) };
	return page;
}

void fake_image_add_segment(struct fake_image *fake,
			    const struct hf_segment *segment)
{
	struct hf_segment copy = *segment;

	if (copy.path)
		copy.path = need(strdup(copy.path));
	assert_hf_ok(hf_array_append(&fake->segments, copy));
}

void fake_image_add_anon(struct fake_image *fake, uint64_t start, uint64_t end)
{
	fake_image_add_segment(fake, &(struct hf_segment){
		.start = start, .end = end, .prot = PROT_READ | PROT_WRITE,
		.kind = HF_SEGMENT_ANON, .absent = HF_ABSENT_ZERO });
}

void fake_image_add_brk(struct fake_image *fake, uint64_t start, uint64_t end)
{
	fake_image_add_segment(fake, &(struct hf_segment){
		.start = start, .end = end, .prot = PROT_READ | PROT_WRITE,
		.kind = HF_SEGMENT_BRK, .absent = HF_ABSENT_ZERO,
		.path = "[heap]" });
}

void fake_image_add_thread(struct fake_image *fake,
			   const struct hf_thread *thread)
{
	assert_hf_ok(hf_array_append(&fake->threads, *thread));
}

void fake_image_add_thread_at(struct fake_image *fake, pid_t tid, uint64_t rsp,
			      uint64_t fs_base)
{
	struct hf_thread thread = { .tid = tid, .name = "thread",
				    .state = 'S' };

	thread.regs.rsp = rsp;
	thread.regs.fs_base = fs_base;
	fake_image_add_thread(fake, &thread);
}

void fake_image_add_file(struct fake_image *fake, const char *path,
			 const void *bytes, size_t len)
{
	struct fake_file file = { need(strdup(path)), need(malloc(len + 1)),
				  len };

	memcpy(file.bytes, bytes, len);
	assert_hf_ok(hf_array_append(&fake->files, file));
}

void fake_image_touch(struct fake_image *fake, uint64_t start, uint64_t end)
{
	for (uint64_t at = start - start % PAGE_BYTES; at < end;
	     at += PAGE_BYTES)
		need_page(fake, at)->resident = true;
}

void fake_image_fail(struct fake_image *fake, uint64_t addr)
{
	need_page(fake, addr)->fails = true;
}

static void poke(struct fake_image *fake, uint64_t addr, const void *bytes,
		 size_t len, bool resident)
{
	while (len) {
		struct fake_page *page = need_page(fake, addr);
		size_t off = addr % PAGE_BYTES;
		size_t part = len < PAGE_BYTES - off ? len : PAGE_BYTES - off;

		memcpy(page->bytes + off, bytes, part);
		if (resident)
			page->resident = true;
		bytes = (const char *)bytes + part;
		addr += part;
		len -= part;
	}
}

void fake_image_poke_file(struct fake_image *fake, uint64_t addr,
			  const void *bytes, size_t len)
{
	poke(fake, addr, bytes, len, false);
}

void fake_image_poke(struct fake_image *fake, uint64_t addr, const void *bytes,
		     size_t len)
{
	poke(fake, addr, bytes, len, true);
}

void fake_image_poke_u64(struct fake_image *fake, uint64_t addr,
			 uint64_t value)
{
	fake_image_poke(fake, addr, &value, sizeof(value));
}

static size_t fake_read(void *arg, const struct hf_range *ranges,
			size_t num_ranges, void *buf)
{
	struct fake_image *fake = arg;
	size_t done = 0;

	__atomic_add_fetch(&fake->num_reads, 1, __ATOMIC_RELAXED);
	for (size_t i = 0; i < num_ranges; i++) {
		uint64_t at = ranges[i].start;

		while (at < ranges[i].end) {
			const struct fake_page *page = find_page(fake, at);
			size_t off = at % PAGE_BYTES, part = PAGE_BYTES - off;

			if (page && page->fails)
				return done;
			if (part > ranges[i].end - at)
				part = ranges[i].end - at;
			/* File bytes nobody poked are zero. */
			if (page)
				memcpy((char *)buf + done, page->bytes + off,
				       part);
			else
				memset((char *)buf + done, 0, part);
			done += part;
			at += part;
		}
	}
	return done;
}

static int fake_open_file(void *arg, const char *path,
			  const struct hf_range *mapping)
{
	const struct fake_image *fake = arg;

	(void)mapping;
	for (size_t i = 0; i < fake->files.num; i++) {
		const struct fake_file *file = &fake->files.data[i];
		int fd;

		if (strcmp(file->path, path))
			continue;
		fd = memfd_create("fake", MFD_CLOEXEC);
		if (fd < 0 || write(fd, file->bytes, file->len) !=
			      (ssize_t)file->len)
			abort();
		return fd;
	}
	return -1;
}

static const struct hf_image_ops fake_ops = {
	.read = fake_read,
	.open_file = fake_open_file,
};

struct hf_error *fake_image_try_freeze(struct fake_image *fake,
				       struct hf_image **ret)
{
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	struct hf_error *err = hf_image_create(&fake_ops, fake, &image);

	for (size_t i = 0; i < fake->segments.num && !err; i++)
		err = hf_image_add_segment(image, &fake->segments.data[i]);
	for (size_t i = 0; i < fake->threads.num && !err; i++)
		err = hf_image_add_thread(image, &fake->threads.data[i]);
	for (size_t i = 0; i < fake->pages.num && !err; i++) {
		struct fake_page *page = &fake->pages.data[i];

		if (page->resident)
			err = hf_image_add_resident(image, (struct hf_range){
				page->addr, page->addr + PAGE_BYTES });
	}
	if (!err)
		err = hf_image_freeze(image);
	if (err)
		return err;
	*ret = fake->image = HF_TAKE(image);
	return NULL;
}

struct hf_image *fake_image_freeze(struct fake_image *fake)
{
	struct hf_image *image = NULL;

	assert_hf_ok(fake_image_try_freeze(fake, &image));
	return image;
}

size_t fake_image_num_reads(const struct fake_image *fake)
{
	return __atomic_load_n(&fake->num_reads, __ATOMIC_RELAXED);
}

struct fake_image *fake_image_from_table(const struct fake_table *table)
{
	struct fake_image *fake = fake_image_create();

	for (size_t i = 0; i < table->num_segments; i++)
		fake_image_add_segment(fake, &table->segments[i]);
	for (size_t i = 0; i < table->num_resident; i++)
		fake_image_touch(fake, table->resident[i].start,
				 table->resident[i].end);
	for (size_t i = 0; i < table->num_bytes; i++)
		fake_image_poke(fake, table->bytes[i].addr,
				table->bytes[i].bytes, table->bytes[i].len);
	for (size_t i = 0; i < table->num_threads; i++)
		fake_image_add_thread(fake, &table->threads[i]);
	return fake;
}
