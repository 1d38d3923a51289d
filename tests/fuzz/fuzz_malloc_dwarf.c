/* Fuzzes the reader of malloc's layout in debug information.
 * SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "indexer/glibc/glibc_heap.h"
#include "indexer/glibc/glibc_reader.h"
#include "tests/support/block_sink.h"
#include "tests/support/fake_malloc.h"
#include "tests/support/test_main.h"

/* The input is an ELF file. Whatever layout it tells, a small heap of 2.36 is
 * walked with it: a layout that was accepted leads nowhere outside of our own
 * copies. The corpus is one file of structs like malloc.c's, compiled with -g
 * and stripped of all else:
 *
 *   counts.so  as in 2.36          slots.so  with the tcache of 2.42
 *   odd.so     a packed heap_info, a tcache of 640 lists
 *   small.so   malloc_state has 100 bytes, its bins are at 112 */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void walk(const struct hf_malloc_layout *layout)
{
	HF_AUTO(hf_anomalies) struct hf_anomalies *anomalies = NULL;
	HF_AUTO(fake_malloc) struct fake_malloc *fake =
		fake_malloc_create(hf_malloc_layout_find(236, NULL));
	struct block_sink sink;
	void *reader;

	fake_malloc_fill(fake);
	fake_malloc_finish(fake);
	assert_hf_ok(hf_anomalies_create(&anomalies));
	assert_hf_ok(hf_glibc_open_at(fake_malloc_image(fake), anomalies,
				      layout, FAKE_MALLOC_LIBC,
				      FAKE_MALLOC_LIBC + FAKE_MALLOC_MP_OFFSET,
				      &reader));
	block_sink_init(&sink, anomalies);
	assert_hf_ok(hf_glibc_reader.walk(reader, &sink.sink));
	block_sink_finish(&sink);
	block_sink_deinit(&sink);
	hf_glibc_reader.close(reader);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct hf_malloc_layout *table = hf_malloc_layout_find(236,
								     NULL);
	struct hf_malloc_layout layout = *table;
	HF_AUTO_FD int fd = memfd_create("fuzz", MFD_CLOEXEC);
	struct hf_error *err;

	if (fd < 0 || write(fd, data, size) != (ssize_t)size)
		return 0;
	err = hf_malloc_layout_from_file(fd, &layout);
	if (err) {
		if (memcmp(&layout, table, sizeof(layout)) != 0)
			abort(); /* an error changes nothing */
		hf_error_destroy(err);
		return 0;
	}
	if (hf_malloc_layout_fault(&layout))
		abort();
	if (memcmp(&layout, table, sizeof(layout)) != 0)
		walk(&layout);
	return 0;
}
