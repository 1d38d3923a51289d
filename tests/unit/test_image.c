/* Tests of images: what is read, what is zero, and what is missing.
 * SPDX-License-Identifier: MIT */
#include "coredump/image.h"

#include <setjmp.h>
#include <stdarg.h>
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

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(read_reports_first_unreadable_address),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
