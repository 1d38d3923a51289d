/* Fuzzes what is derived from an address space: modules, stacks, TLS.
 * SPDX-License-Identifier: MIT */
#include <string.h>
#include <sys/mman.h>

#include "coredump/image.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Input: one byte with the number of segments; 6 bytes for each: first page,
 * number of pages, prot, kind, page in the file, name; 2 x 3 bytes for the
 * threads: pages of rsp and fs_base, and an offset in both; the rest is the
 * content of all files. */

enum { PAGE = 4096, MAX_SEGMENTS = 32 };

struct memory {
	const uint8_t *file;
	size_t file_size;
	struct hf_segment segments[MAX_SEGMENTS];
	size_t num_segments;
};

static uint8_t file_byte(const struct memory *memory, uint64_t addr)
{
	for (size_t i = 0; i < memory->num_segments; i++) {
		const struct hf_segment *segment = &memory->segments[i];
		uint64_t off = segment->file_offset + (addr - segment->start);

		if (addr >= segment->start && addr < segment->end)
			return off < memory->file_size ? memory->file[off] : 0;
	}
	abort(); /* asked for bytes in no segment */
}

static size_t fuzz_read(void *arg, const struct hf_range *ranges,
			size_t num_ranges, void *buf)
{
	uint8_t *to = buf;

	for (size_t i = 0; i < num_ranges; i++)
		for (uint64_t at = ranges[i].start; at < ranges[i].end; at++)
			*to++ = file_byte(arg, at);
	return to - (uint8_t *)buf;
}

static int fuzz_open_file(void *arg, const char *path,
			  const struct hf_range *mapping)
{
	const struct memory *memory = arg;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	(void)path;
	(void)mapping;
	if (fd >= 0 && write(fd, memory->file, memory->file_size) < 0) {
		close(fd);
		return -1;
	}
	return fd;
}

static const struct hf_image_ops fuzz_ops = {
	.read = fuzz_read,
	.open_file = fuzz_open_file,
};

static bool take_segments(struct memory *memory, const uint8_t **data,
			  size_t *size)
{
	static const char *const names[] = { "/lib/a.so", "/lib/b.so (deleted)",
					     "[vdso]", NULL };
	size_t num = (*data)[0] % MAX_SEGMENTS;

	if (*size < 1 + 6 * num)
		return false;
	for (size_t i = 0; i < num; i++) {
		const uint8_t *in = *data + 1 + 6 * i;

		memory->segments[i] = (struct hf_segment){
			.start = UINT64_C(0x400000) + in[0] * PAGE,
			.end = UINT64_C(0x400000) +
			       (uint64_t)(in[0] + in[1]) * PAGE,
			.prot = in[2] % 8,
			.kind = in[3] % (HF_SEGMENT_SPECIAL + 1),
			.absent = HF_ABSENT_FILE,
			.file_offset = (uint64_t)in[4] * PAGE,
			.path = names[in[5] % 4],
		};
	}
	memory->num_segments = num;
	*data += 1 + 6 * num;
	*size -= 1 + 6 * num;
	return true;
}

static struct hf_error *build(struct hf_image *image,
			      const struct memory *memory,
			      const uint8_t threads[6])
{
	struct hf_error *err = NULL;

	for (size_t i = 0; i < memory->num_segments && !err; i++)
		err = hf_image_add_segment(image, &memory->segments[i]);
	for (size_t i = 0; i < 2 && !err; i++) {
		const uint8_t *in = threads + 3 * i;
		struct hf_thread thread = { .tid = 1 };

		thread.regs.rsp = UINT64_C(0x400000) + in[0] * PAGE + in[2] * 8;
		thread.regs.fs_base = UINT64_C(0x400000) + in[1] * PAGE +
				      in[2] * 16;
		err = hf_image_add_thread(image, &thread);
	}
	return err ? err : hf_image_freeze(image);
}

static void check_ranges(const struct hf_image *image)
{
	size_t num;
	const struct hf_thread *threads = hf_image_threads(image, &num);
	struct hf_range all[4];

	for (size_t i = 0; i < 4; i++) {
		all[i] = i % 2 ? threads[i / 2].tls : threads[i / 2].stack;
		if (all[i].start > all[i].end)
			abort();
		for (size_t j = 0; j < i; j++)
			if (all[i].start < all[j].end &&
			    all[j].start < all[i].end)
				abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	struct memory memory = { 0 };
	const struct hf_module *modules;
	uint8_t threads[6];
	struct hf_error *err;
	size_t num;

	if (!size || !take_segments(&memory, &data, &size) || size < 6)
		return 0;
	memcpy(threads, data, 6);
	memory.file = data + 6;
	memory.file_size = size - 6;
	err = hf_image_create(&fuzz_ops, &memory, &image);
	if (!err)
		err = build(image, &memory, threads);
	if (err) {
		hf_error_destroy(err);
		return 0;
	}
	check_ranges(image);
	modules = hf_image_modules(image, &num);
	for (size_t i = 0; i < num; i++) {
		HF_AUTO_FD int fd = -1;

		if (modules[i].start >= modules[i].end ||
		    modules[i].build_id_bytes > sizeof(modules[i].build_id) ||
		    (i && modules[i].start < modules[i - 1].start))
			abort();
		hf_error_ignore(hf_image_open_module(image, &modules[i], &fd));
	}
	for (uint64_t addr = 0x400000; addr < 0x600000; addr += PAGE)
		hf_image_find_module(image, addr);
	return 0;
}
