/* Fuzzes what a capture asks about malloc: its code, its arenas, the threads.
 * SPDX-License-Identifier: MIT */
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>

#include "indexer/allocator_watch.h"
#include "indexer/glibc/malloc_code.h"
#include "tests/support/fake_image.h"
#include "tests/support/test_main.h"

/* The input:
 *
 *   byte 0       number of references that are put into the code, one every 64
 *                bytes, before the rest of the input is written over it
 *   bytes 1-24   rip, rsp, and rdi of a thread: offsets from the module
 *   then         half of what is left is the code, half the data: main_arena
 *                stands at its start, and the list of arenas goes wherever
 *                the bytes say
 *
 * The code found must lie in the module, and nothing may be looked at for ever:
 * the watch of a list without an end has a limit. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define BASE UINT64_C(0x7f0000000000)

enum {
	PAGE = 4096, CODE = PAGE, CODE_PAGES = 16,
	DATA = CODE + CODE_PAGES * PAGE, DATA_PAGES = 4, HEAD = 25,
	END = DATA + DATA_PAGES * PAGE,
};

static const char path[] = "/lib/libc.so.6";

static void add_segment(struct fake_image *fake, uint64_t start, uint64_t end,
			uint32_t prot)
{
	struct hf_segment segment = {
		.start = BASE + start, .end = BASE + end, .prot = prot,
		.kind = HF_SEGMENT_FILE, .absent = HF_ABSENT_FILE,
		.file_offset = start, .device = 1, .inode = 1, .path = path,
	};

	fake_image_add_segment(fake, &segment);
	fake_image_touch(fake, segment.start, segment.end);
}

static void add_program_headers(struct fake_image *fake)
{
	/* ELF64, little-endian, ET_DYN, x86-64, one PT_LOAD of it all. */
	static const uint8_t ident[16] = { 0x7f, 'E', 'L', 'F', 2, 1, 1 };
	static const uint16_t types[2] = { 3, 62 };
	uint64_t phdr[7] = { UINT64_C(0x400000001), 0, 0, 0, END, END, PAGE };
	uint16_t sizes[3] = { 64, 56, 1 };
	uint64_t phoff = 64;

	fake_image_poke(fake, BASE, ident, sizeof(ident));
	fake_image_poke(fake, BASE + 16, types, sizeof(types));
	fake_image_poke(fake, BASE + 32, &phoff, sizeof(phoff));
	fake_image_poke(fake, BASE + 52, sizes, sizeof(sizes));
	fake_image_poke(fake, BASE + 64, phdr, sizeof(phdr));
}

static size_t read_image(void *arg, const struct hf_range *ranges,
			 size_t num_ranges, void *buf)
{
	struct hf_image *image = arg;
	size_t done = 0;

	for (size_t i = 0; i < num_ranges; i++) {
		size_t want = ranges[i].end - ranges[i].start;
		size_t got = hf_image_read_some(image, ranges[i].start,
						(char *)buf + done, want);

		done += got;
		if (got < want)
			break;
	}
	return done;
}

static void watch(struct hf_image *image, struct hf_allocator_place *place,
		  const struct hf_thread *thread)
{
	HF_AUTO(hf_allocator_watch) struct hf_allocator_watch *watch = NULL;
	const struct hf_allocator_memory memory = { read_image, image };
	hf_allocator_places places = { 0 };
	struct hf_allocator_findings found;
	bool is_inside;

	assert_hf_ok(hf_array_append(&places, *place));
	assert_hf_ok(hf_allocator_watch_create(&watch));
	assert_hf_ok(hf_allocator_watch_set(watch, &places));
	assert_hf_ok(hf_allocator_watch_find_arenas(watch, &memory));
	for (int i = 0; i < 2; i++) {
		hf_allocator_watch_look(watch, &memory, thread, 1, &is_inside,
					&found);
		if (is_inside != (found.num_inside == 1) ||
		    found.num_locked > UINT16_MAX + 64)
			abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct hf_malloc_layout *layout =
		hf_malloc_layout_find(236, NULL);
	struct hf_anchors anchors = { .main_arena = BASE + DATA };
	HF_AUTO(fake_image) struct fake_image *fake = NULL;
	struct hf_work work = { .phase = "heap" };
	struct hf_thread thread = { .tid = 1, .stop_how = HF_STOP_USER };
	const struct hf_module *modules;
	struct hf_image *image;
	uint64_t words[3];
	size_t half, num;

	if (size < HEAD)
		return 0;
	fake = fake_image_create();
	add_segment(fake, 0, CODE, PROT_READ);
	add_segment(fake, CODE, DATA, PROT_READ | PROT_EXEC);
	add_segment(fake, DATA, END, PROT_READ | PROT_WRITE);
	add_program_headers(fake);
	for (uint32_t i = 0; i < data[0]; i++) {
		uint32_t at = CODE + 64 * i + 3;
		int32_t word = DATA - (int32_t)(at + 4);

		fake_image_poke(fake, BASE + at, &word, sizeof(word));
	}
	memcpy(words, data + 1, sizeof(words));
	thread.regs.rip = BASE + words[0];
	thread.regs.rsp = BASE + words[1];
	thread.regs.rdi = BASE + words[2];
	thread.regs.orig_rax = data[0] & 1 ? UINT64_MAX : data[0];
	data += HEAD;
	size -= HEAD;
	half = size / 2 < DATA_PAGES * PAGE ? size / 2 : DATA_PAGES * PAGE;
	fake_image_poke(fake, BASE + CODE, data, half);
	fake_image_poke(fake, BASE + DATA, data + half, half);
	image = fake_image_freeze(fake);
	modules = hf_image_modules(image, &num);
	if (num != 1)
		abort();

	struct hf_allocator_place place = {
		.allocator = "glibc-malloc", .first_arena = BASE + DATA,
		.next_offset = layout->next,
	};

	assert_hf_ok(hf_malloc_code_find(image, &modules[0], layout, &anchors,
					 &work, &place));
	if (place.code.start > place.code.end ||
	    (place.code.end && (place.code.start < BASE + CODE ||
				place.code.end > BASE + DATA)))
		abort();
	watch(image, &place, &thread);
	return 0;
}
