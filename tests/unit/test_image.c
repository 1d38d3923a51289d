/* Tests of images: what is read, what is zero, and what is missing.
 * SPDX-License-Identifier: MIT */
#include "coredump/image.h"

#include <setjmp.h>
#include <stdarg.h>
#include <elf.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "tests/support/fake_image.h"
#include "tests/support/test_main.h"

enum { PAGE = 4096, BASE = 0x100000 };

static struct hf_segment segment_of(uint64_t start, uint64_t end,
				    enum hf_absent absent)
{
	return (struct hf_segment){ .start = start, .end = end,
				    .prot = PROT_READ | PROT_WRITE,
				    .kind = HF_SEGMENT_ANON, .absent = absent };
}

static void read_reports_first_unreadable_address(void **state)
{
	static const struct {
		const char *name;
		enum hf_absent absent;
		uint64_t bad; /* first unreadable, 0: none */
	} cases[] = {
		{ "missing", HF_ABSENT_MISSING, BASE + PAGE },
		{ "zero", HF_ABSENT_ZERO, BASE + 3 * PAGE },
		{ "file", HF_ABSENT_FILE, BASE + 3 * PAGE },
	};
	uint8_t buf[4 * PAGE];

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		HF_AUTO(fake_image) struct fake_image *fake =
			fake_image_create();
		struct hf_segment segment =
			segment_of(BASE, BASE + 3 * PAGE, cases[i].absent);
		struct hf_image *image;
		HF_AUTO(hf_error) struct hf_error *err = NULL;

		fake_image_add_segment(fake, &segment);
		fake_image_poke_u64(fake, BASE + 8, 0x1122334455667788);
		fake_image_poke_u64(fake, BASE + 2 * PAGE, 7);
		fake_image_poke_file(fake, BASE + PAGE, "file", 4);
		image = fake_image_freeze(fake);
		memset(buf, 0xee, sizeof(buf));
		err = hf_image_read(image, BASE, buf, sizeof(buf));
		assert_non_null(err);
		assert_int_equal(err->code, HF_ERROR_FAULT);
		assert_int_equal(err->addr, cases[i].bad);
		assert_int_equal(hf_image_read_some(image, BASE, buf,
						    sizeof(buf)),
				 cases[i].bad - BASE);
		assert_int_equal(buf[8], 0x88);
		if (cases[i].absent == HF_ABSENT_MISSING)
			continue;
		if (cases[i].absent == HF_ABSENT_FILE)
			assert_memory_equal(buf + PAGE, "file", 5);
		else
			assert_memory_equal(buf + PAGE, "\0\0\0\0", 5);
		assert_int_equal(buf[2 * PAGE], 7);
		assert_int_equal(buf[2 * PAGE - 1], 0);
	}
}

static void texts_are_read_up_to_the_end_of_memory(void **state)
{
	HF_AUTO(fake_image) struct fake_image *fake = fake_image_create();
	struct hf_image *image;
	char buf[PAGE + 16];

	(void)state;
	fake_image_add_anon(fake, BASE, BASE + 2 * PAGE);
	fake_image_poke(fake, BASE + PAGE - 3, "across", 7);
	fake_image_poke(fake, BASE + 2 * PAGE - 4, "end", 4);
	fake_image_poke(fake, BASE + PAGE + 100, "open", 4);
	memset(buf, 'x', sizeof(buf));
	fake_image_poke(fake, BASE + 2 * PAGE - 40, buf, 36);
	image = fake_image_freeze(fake);
	assert_true(hf_image_peek_string(image, BASE + PAGE - 3, buf,
					 sizeof(buf)));
	assert_string_equal(buf, "across");
	assert_true(hf_image_peek_string(image, BASE + PAGE - 3, buf, 7));
	assert_false(hf_image_peek_string(image, BASE + PAGE - 3, buf, 6));
	assert_true(hf_image_peek_string(image, BASE + 2 * PAGE - 4, buf,
					 sizeof(buf)));
	assert_string_equal(buf, "end");
	assert_false(hf_image_peek_string(image, BASE + 2 * PAGE, buf,
					  sizeof(buf)));
	assert_false(hf_image_peek_string(image, BASE + 2 * PAGE - 4, buf, 0));
	fake_image_poke(fake, BASE + 2 * PAGE - 4, "open", 4);
	assert_false(hf_image_peek_string(image, BASE + 2 * PAGE - 4, buf,
					  sizeof(buf)));
}

static void freeze_sorts_and_refuses_overlaps(void **state)
{
	HF_AUTO(fake_image) struct fake_image *good = fake_image_create();
	HF_AUTO(fake_image) struct fake_image *bad = fake_image_create();
	const struct hf_segment *segments;
	struct hf_image *image;
	struct hf_error *err;
	size_t num;

	(void)state;
	fake_image_add_anon(good, BASE + 4 * PAGE, BASE + 5 * PAGE);
	fake_image_add_anon(good, BASE, BASE + 4 * PAGE);
	image = fake_image_freeze(good);
	segments = hf_image_segments(image, &num);
	assert_int_equal(num, 2);
	assert_int_equal(segments[0].start, BASE);
	assert_null(hf_image_find_segment(image, BASE - 1));
	assert_ptr_equal(hf_image_find_segment(image, BASE + 4 * PAGE - 1),
			 &segments[0]);
	assert_ptr_equal(hf_image_find_segment(image, BASE + 4 * PAGE),
			 &segments[1]);
	assert_null(hf_image_find_segment(image, BASE + 5 * PAGE));

	fake_image_add_anon(bad, BASE, BASE + 2 * PAGE);
	fake_image_add_anon(bad, BASE + PAGE, BASE + 3 * PAGE);
	err = fake_image_try_freeze(bad, &image);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_BAD_DATA);
	hf_error_destroy(err);
}

static void segments_that_are_no_user_pages_are_refused(void **state)
{
	static const uint64_t cases[][2] = {
		{ BASE, BASE }, { BASE + PAGE, BASE }, { BASE + 8, BASE + PAGE },
		{ BASE, BASE + 8 }, { UINT64_C(0xffffffffff600000),
				      UINT64_C(0xffffffffff601000) },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		HF_AUTO(fake_image) struct fake_image *fake =
			fake_image_create();
		struct hf_image *image;
		HF_AUTO(hf_error) struct hf_error *err = NULL;

		fake_image_add_anon(fake, cases[i][0], cases[i][1]);
		err = fake_image_try_freeze(fake, &image);
		assert_non_null(err);
		assert_int_equal(err->code, HF_ERROR_BAD_DATA);
	}
}

static void resident_ranges_are_cut_to_their_segments(void **state)
{
	HF_AUTO(fake_image) struct fake_image *fake = fake_image_create();
	const uint64_t want[][2] = {
		{ BASE + PAGE, BASE + 2 * PAGE },
		{ BASE + 2 * PAGE, BASE + 3 * PAGE },
		{ BASE + 6 * PAGE, BASE + 8 * PAGE },
	};
	const struct hf_segment *segments;
	const struct hf_range *resident;
	struct hf_segment special = segment_of(BASE + 4 * PAGE,
					       BASE + 5 * PAGE,
					       HF_ABSENT_MISSING);
	struct hf_image *image;
	uint64_t word;
	size_t num;

	(void)state;
	special.kind = HF_SEGMENT_SPECIAL;
	fake_image_add_anon(fake, BASE, BASE + 2 * PAGE);
	fake_image_add_anon(fake, BASE + 2 * PAGE, BASE + 3 * PAGE);
	fake_image_add_segment(fake, &special);
	fake_image_add_anon(fake, BASE + 6 * PAGE, BASE + 9 * PAGE);
	fake_image_touch(fake, BASE + PAGE, BASE + 8 * PAGE);
	image = fake_image_freeze(fake);
	resident = hf_image_resident(image, &num);
	assert_int_equal(num, 3);
	for (size_t i = 0; i < num; i++) {
		assert_int_equal(resident[i].start, want[i][0]);
		assert_int_equal(resident[i].end, want[i][1]);
	}
	segments = hf_image_segments(image, &num);
	assert_int_equal(segments[0].resident_bytes, PAGE);
	assert_int_equal(segments[2].resident_bytes, 0);
	assert_int_equal(segments[3].resident_bytes, 2 * PAGE);
	assert_false(hf_image_peek_u64(image, special.start, &word));
}

/* A small shared object: two PT_LOADs, TLS, and a build id.
 *
 *   file   0x000 header, 0x040 program headers, 0x200 note   -> r-x at 0x0000
 *          0x1000 data, one page                             -> rw- at 0x3000
 *                                              .bss up to 0x5800            */
struct tiny_elf {
	Elf64_Ehdr header;
	Elf64_Phdr phdrs[4];
	uint8_t gap[0x200 - sizeof(Elf64_Ehdr) - 4 * sizeof(Elf64_Phdr)];
	Elf64_Nhdr note;
	char note_name[4];
	uint8_t build_id[20];
	uint8_t rest[2 * PAGE - 0x200 - sizeof(Elf64_Nhdr) - 24];
};

static struct tiny_elf tiny_elf(void)
{
	struct tiny_elf elf = {
		.header = { .e_ident = { 0x7f, 'E', 'L', 'F', ELFCLASS64,
					 ELFDATA2LSB, EV_CURRENT },
			    .e_type = ET_DYN, .e_machine = EM_X86_64,
			    .e_phoff = sizeof(Elf64_Ehdr), .e_phnum = 4,
			    .e_phentsize = sizeof(Elf64_Phdr) },
		.phdrs = {
			{ .p_type = PT_LOAD, .p_flags = PF_R | PF_X,
			  .p_filesz = PAGE, .p_memsz = PAGE },
			{ .p_type = PT_LOAD, .p_flags = PF_R | PF_W,
			  .p_offset = PAGE, .p_vaddr = 3 * PAGE,
			  .p_filesz = PAGE, .p_memsz = 0x2800 },
			{ .p_type = PT_NOTE, .p_flags = PF_R,
			  .p_offset = 0x200, .p_vaddr = 0x200,
			  .p_filesz = 36, .p_memsz = 36, .p_align = 4 },
			{ .p_type = PT_TLS, .p_offset = PAGE,
			  .p_vaddr = 3 * PAGE, .p_filesz = 8, .p_memsz = 40,
			  .p_align = 16 },
		},
		.note = { .n_namesz = 4, .n_descsz = 20,
			  .n_type = NT_GNU_BUILD_ID },
		.note_name = "GNU",
		.build_id = { 0xab, 0xcd, 1, 2, 3 },
	};

	return elf;
}

/* Map it as ld.so would, .bss merged with two more pages. */
static struct fake_image *load(const struct tiny_elf *elf, const char *path)
{
	struct fake_image *fake = fake_image_create();
	struct hf_segment text = segment_of(BASE, BASE + PAGE, HF_ABSENT_FILE);
	struct hf_segment data = segment_of(BASE + 3 * PAGE, BASE + 4 * PAGE,
					    HF_ABSENT_FILE);

	text.kind = data.kind = HF_SEGMENT_FILE;
	text.path = data.path = path;
	text.prot = PROT_READ | PROT_EXEC;
	text.inode = data.inode = 99;
	data.file_offset = PAGE;
	fake_image_add_segment(fake, &text);
	fake_image_add_segment(fake, &data);
	fake_image_add_anon(fake, BASE + 4 * PAGE, BASE + 8 * PAGE);
	fake_image_poke_file(fake, BASE, elf, PAGE);
	return fake;
}

static void a_loaded_object_is_a_module(void **state)
{
	const struct tiny_elf elf = tiny_elf();
	HF_AUTO(fake_image) struct fake_image *fake =
		load(&elf, "/lib/tiny.so (deleted)");
	const struct hf_segment *segments;
	const struct hf_module *module;
	struct hf_image *image = fake_image_freeze(fake);
	size_t num;

	(void)state;
	module = hf_image_modules(image, &num);
	assert_int_equal(num, 1);
	assert_string_equal(module->path, "/lib/tiny.so");
	assert_true(module->deleted);
	assert_int_equal(module->start, BASE);
	assert_int_equal(module->end, BASE + 6 * PAGE);
	assert_int_equal(module->bias, BASE);
	assert_int_equal(module->build_id_bytes, 20);
	assert_memory_equal(module->build_id, elf.build_id, 20);
	assert_int_equal(module->tls_bytes, 40);
	assert_int_equal(module->tls_align, 16);
	assert_int_equal(module->tls_image_addr, BASE + 3 * PAGE);
	segments = hf_image_segments(image, &num);
	for (size_t i = 0; i < num; i++)
		assert_int_equal(segments[i].module_id, 0);
	assert_ptr_equal(hf_image_find_module(image, BASE + 5 * PAGE), module);
	/* Merged with .bss, but not of the module. */
	assert_null(hf_image_find_module(image, BASE + 6 * PAGE));
	assert_null(hf_image_find_module(image, BASE + PAGE));
}

static void damaged_or_unloaded_objects_are_no_modules(void **state)
{
	static const struct {
		const char *name;
		size_t offset;
		uint64_t value;
		size_t size;
	} cases[] = {
		{ "magic", 0, 'X', 1 },
		{ "class", EI_CLASS, ELFCLASS32, 1 },
		{ "machine", offsetof(Elf64_Ehdr, e_machine), EM_386, 2 },
		{ "type", offsetof(Elf64_Ehdr, e_type), ET_CORE, 2 },
		{ "no headers", offsetof(Elf64_Ehdr, e_phnum), 0, 2 },
		{ "too many", offsetof(Elf64_Ehdr, e_phnum), 0xffff, 2 },
		{ "far away", offsetof(Elf64_Ehdr, e_phoff), UINT64_MAX, 8 },
		{ "entry size", offsetof(Elf64_Ehdr, e_phentsize), 1, 2 },
		{ "huge", offsetof(struct tiny_elf, phdrs[1].p_memsz),
		  UINT64_MAX, 8 },
		{ "elsewhere", offsetof(struct tiny_elf, phdrs[1].p_vaddr),
		  9 * PAGE, 8 },
		/* As in a file that is mapped flat, to be looked at. */
		{ "flat", offsetof(struct tiny_elf, phdrs[1].p_offset),
		  2 * PAGE, 8 },
		{ "data first", offsetof(struct tiny_elf, phdrs[0].p_offset),
		  PAGE, 8 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tiny_elf elf = tiny_elf();
		struct fake_image *fake;
		size_t num;

		memcpy((char *)&elf + cases[i].offset, &cases[i].value,
		       cases[i].size);
		fake = load(&elf, "/lib/tiny.so");
		hf_image_modules(fake_image_freeze(fake), &num);
		if (num)
			fail_msg("case '%s' is a module", cases[i].name);
		fake_image_destroy(fake);
	}
}

static void a_module_is_opened_only_if_its_file_is_the_mapped_one(void **state)
{
	struct {
		const char *name;
		uint8_t id_on_disk;   /* first byte of the build id */
		bool no_id;           /* neither has one */
		bool found;
	} cases[] = {
		{ "same build id", 0xab, false, true },
		{ "another build id", 0xac, false, false },
		{ "no build id, another inode", 0xab, true, false },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct tiny_elf elf = tiny_elf(), file = tiny_elf();
		struct fake_image *fake;
		struct hf_image *image;
		struct hf_error *err;
		size_t num;
		int fd = -1;

		file.build_id[0] = cases[i].id_on_disk;
		if (cases[i].no_id)
			elf.phdrs[2].p_type = file.phdrs[2].p_type = PT_NULL;
		fake = load(&elf, "/lib/tiny.so");
		fake_image_add_file(fake, "/lib/tiny.so", &file, sizeof(file));
		image = fake_image_freeze(fake);
		err = hf_image_open_module(image, hf_image_modules(image, &num),
					   &fd);
		assert_int_equal(!err, cases[i].found);
		assert_int_equal(fd >= 0, cases[i].found);
		if (err)
			assert_int_equal(err->code, HF_ERROR_NOT_FOUND);
		hf_error_destroy(err);
		if (fd >= 0)
			close(fd);
		fake_image_destroy(fake);
	}
}

static void threads_are_copied_with_their_xstate(void **state)
{
	char xstate[100] = "registers";
	struct hf_thread thread = { .tid = 7, .name = "fifteen letters",
				    .xstate = xstate,
				    .xstate_bytes = sizeof(xstate) };
	HF_AUTO(fake_image) struct fake_image *fake = fake_image_create();
	const struct hf_thread *got;
	size_t num;

	(void)state;
	fake_image_add_thread(fake, &thread);
	fake_image_add_thread_at(fake, 3, 0, 0);
	got = hf_image_threads(fake_image_freeze(fake), &num);
	memset(xstate, 0, sizeof(xstate));
	assert_int_equal(num, 2);
	assert_int_equal(got[0].tid, 7);
	assert_int_equal(got[1].tid, 3);
	assert_string_equal(got[0].name, "fifteen letters");
	assert_string_equal(got[0].xstate, "registers");
	assert_int_equal(got[0].xstate_bytes, sizeof(xstate));
	assert_null(got[1].xstate);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read_reports_first_unreadable_address),
		cmocka_unit_test(texts_are_read_up_to_the_end_of_memory),
		cmocka_unit_test(freeze_sorts_and_refuses_overlaps),
		cmocka_unit_test(segments_that_are_no_user_pages_are_refused),
		cmocka_unit_test(resident_ranges_are_cut_to_their_segments),
		cmocka_unit_test(a_loaded_object_is_a_module),
		cmocka_unit_test(damaged_or_unloaded_objects_are_no_modules),
		cmocka_unit_test(
			a_module_is_opened_only_if_its_file_is_the_mapped_one),
		cmocka_unit_test(threads_are_copied_with_their_xstate),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
