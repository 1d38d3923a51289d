/* Fuzzes the glibc reader: a small heap, and words written over it.
 * SPDX-License-Identifier: MIT */
#include <stddef.h>
#include <string.h>

#include "indexer/glibc/glibc_heap.h"
#include "indexer/glibc/glibc_reader.h"
#include "tests/support/block_sink.h"
#include "tests/support/fake_malloc.h"
#include "tests/support/test_main.h"

/* The input:
 *
 *   byte 0      glibc version: 2.17 + n % 27
 *   then records of 11 bytes, each one word that is written
 *     byte 0    bits 0..2: which memory, bits 3..5: what the value is
 *               relative to (0: nothing)
 *     bytes 1-2 word in that memory
 *     bytes 3-10 value, little-endian
 *
 * The reader must end, and what it reports must not overlap or leave its
 * areas: the sink aborts otherwise. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { RECORD = 11 };

static const struct {
	uint64_t start, pages;
} memories[] = {
	{ FAKE_MALLOC_LIBC, 1 },
	{ FAKE_MALLOC_TLS, 1 },
	{ FAKE_MALLOC_BRK, FAKE_MALLOC_HEAP_PAGES },
	{ FAKE_MALLOC_HEAP1, FAKE_MALLOC_HEAP_PAGES },
	{ FAKE_MALLOC_HEAP2, FAKE_MALLOC_HEAP_PAGES },
	{ FAKE_MALLOC_MMAP, FAKE_MALLOC_MMAP_PAGES },
};

enum { NUM_MEMORIES = sizeof(memories) / sizeof(memories[0]) };

static void write_words(struct fake_image *memory, const uint8_t *data,
			size_t size)
{
	for (; size >= RECORD; data += RECORD, size -= RECORD) {
		uint32_t which = data[0] % 8 % NUM_MEMORIES;
		uint32_t base = data[0] / 8 % 8;
		uint64_t value, words, offset;

		memcpy(&value, data + 3, sizeof(value));
		if (base > 0)
			value += memories[(base - 1) % NUM_MEMORIES].start;
		words = memories[which].pages * FAKE_MALLOC_PAGE / 8;
		offset = (data[1] | data[2] << 8) % words;
		fake_image_poke_u64(memory, memories[which].start + 8 * offset,
				    value);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	HF_AUTO(hf_anomalies) struct hf_anomalies *anomalies = NULL;
	HF_AUTO(fake_malloc) struct fake_malloc *fake = NULL;
	const struct hf_malloc_layout *layout;
	struct block_sink sink;
	void *reader;

	if (size < 1)
		return 0;
	layout = hf_malloc_layout_find(217 + data[0] % 27, NULL);
	fake = fake_malloc_create(layout);
	fake_malloc_fill(fake);
	fake_malloc_finish(fake);
	write_words(fake_malloc_memory(fake), data + 1, size - 1);
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
	return 0;
}
