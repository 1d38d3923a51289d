/* Fuzzes the symbols of an ELF file.
 * SPDX-License-Identifier: MIT */
#include <sys/mman.h>

#include "coredump/symbols_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int file_of(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);

	if (fd >= 0 && write(fd, data, size) != (ssize_t)size) {
		close(fd);
		return -1;
	}
	return fd;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct hf_module module = { .path = "fuzz", .start = 0x1000,
					  .bias = 0x1000,
					  .end = UINT64_C(1) << 40 };
	HF_AUTO(hf_symbols) struct hf_symbols *symbols = NULL;
	const struct hf_symbol *all;
	struct hf_error *err;
	size_t num;

	/* Odd sizes play the separate debug file. */
	err = size % 2 ? hf_symbols_from_files(&module, -1,
					       file_of(data, size), &symbols) :
			 hf_symbols_from_files(&module, file_of(data, size),
					       -1, &symbols);
	if (err) {
		hf_error_destroy(err);
		return 0;
	}
	all = hf_symbols_all(symbols, &num);
	for (size_t i = 0; i < num; i++) {
		if (all[i].addr < module.start || all[i].addr >= module.end ||
		    all[i].size > module.end - all[i].addr ||
		    (i && all[i].addr <= all[i - 1].addr) || !all[i].name[0] ||
		    hf_symbols_at(symbols, all[i].addr) != &all[i])
			abort();
		hf_symbols_at(symbols, all[i].addr + all[i].size);
		if (i < 16 && !hf_symbols_named(symbols, all[i].name))
			abort();
	}
	return 0;
}
