/* Fuzzes the TLS of a module: symbols and relocations of its file.
 * SPDX-License-Identifier: MIT */
#include <sys/mman.h>

#include "coredump/tls_module.h"
#include "tests/support/fake_image.h"
#include "tests/support/test_main.h"

/* The input is the module's file. In memory its first page is there twice, as
 * linkers lay small libraries out: code, then data. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define MODULE UINT64_C(0x7f0000000000)

enum { PAGE = 4096, MAX_MODULE = 16 * PAGE };

static void check(const struct hf_module *module,
		  const struct hf_tls_module *tls)
{
	uint64_t end = 0;

	for (size_t i = 0; i < tls->variables.num; i++) {
		const struct hf_tls_variable *variable =
			&tls->variables.data[i];

		if (variable->offset < end || !variable->size ||
		    !variable->name[0] ||
		    variable->offset + variable->size > module->tls_bytes)
			abort();
		end = variable->offset + variable->size;
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	HF_AUTO(fake_image) struct fake_image *fake = NULL;
	size_t page_bytes = size < PAGE ? size : PAGE;
	struct hf_segment segment = {
		.start = MODULE, .end = MODULE + PAGE,
		.prot = PROT_READ | PROT_EXEC, .kind = HF_SEGMENT_FILE,
		.absent = HF_ABSENT_FILE, .path = "/lib/fuzz.so",
	};
	struct hf_image *image;
	struct hf_error *err;
	size_t num;

	if (!size || size > MAX_MODULE)
		return 0;
	fake = fake_image_create();
	for (int i = 0; i < 2; i++) {
		fake_image_add_segment(fake, &segment);
		fake_image_poke(fake, segment.start, data, page_bytes);
		segment.start += PAGE;
		segment.end += PAGE;
		segment.prot = PROT_READ | PROT_WRITE;
	}
	fake_image_add_file(fake, segment.path, data, size);
	err = fake_image_try_freeze(fake, &image);
	if (err) {
		hf_error_destroy(err);
		return 0;
	}
	hf_image_modules(image, &num);
	for (size_t i = 0; i < num; i++) {
		const struct hf_module *module = &hf_image_modules(image,
								   &num)[i];
		struct hf_tls_module tls;

		assert_hf_ok(hf_tls_module_read(image, module, &tls));
		check(module, &tls);
		hf_tls_module_deinit(&tls);
	}
	return 0;
}
