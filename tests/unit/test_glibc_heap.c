/* The glibc reader on heaps written by hand: every version, every damage.
 * SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "indexer/glibc/glibc_heap.h"
#include "indexer/glibc/glibc_reader.h"
#include "tests/support/block_sink.h"
#include "tests/support/fake_malloc.h"
#include "tests/support/test_main.h"

struct counts {
	uint64_t live, internal, cached, free;
	uint64_t areas;
};

static struct hf_anomalies *walk(struct fake_malloc *fake,
				 const struct hf_malloc_layout *layout,
				 struct counts *ret)
{
	struct hf_anomalies *anomalies;
	struct block_sink sink;
	void *reader;

	assert_hf_ok(hf_anomalies_create(&anomalies));
	assert_hf_ok(hf_glibc_open_at(fake_malloc_image(fake), anomalies,
				      layout, FAKE_MALLOC_LIBC,
				      FAKE_MALLOC_LIBC + FAKE_MALLOC_MP_OFFSET,
				      &reader));
	block_sink_init(&sink, anomalies);
	assert_hf_ok(hf_glibc_reader.walk(reader, &sink.sink));
	block_sink_finish(&sink);
	memset(ret, 0, sizeof(*ret));
	ret->areas = sink.areas.num;
	for (size_t i = 0; i < sink.blocks.num; i++) {
		switch ((enum hf_block_state)sink.blocks.data[i].state) {
		case HF_BLOCK_LIVE:
			ret->live++;
			break;
		case HF_BLOCK_CACHED:
			ret->cached++;
			break;
		case HF_BLOCK_FREE:
			ret->free++;
			break;
		case HF_BLOCK_INTERNAL:
			ret->internal++;
		}
	}
	block_sink_deinit(&sink);
	hf_glibc_reader.close(reader);
	return anomalies;
}

static uint64_t count_of(const struct hf_anomalies *anomalies,
			 const char *kind)
{
	size_t num;
	const struct hf_anomaly *all = hf_anomalies_all(anomalies, &num);

	for (size_t i = 0; i < num; i++) {
		if (strcmp(all[i].kind, kind) == 0)
			return all[i].count;
	}
	return 0;
}

static void print_anomalies(const struct hf_anomalies *anomalies)
{
	size_t num;
	const struct hf_anomaly *all = hf_anomalies_all(anomalies, &num);

	for (size_t i = 0; i < num; i++)
		print_message("  '%s' x %" PRIu64 " at 0x%" PRIx64 ": %s\n",
			      all[i].kind, all[i].count, all[i].addr,
			      all[i].detail);
}

static void every_layout_is_walked_exactly(void **state)
{
	static const uint32_t versions[] = { 217, 222, 223, 224, 226, 227, 229,
					     230, 232, 234, 235, 236, 241, 242,
					     243 };

	(void)state;
	for (size_t i = 0; i < sizeof(versions) / sizeof(versions[0]); i++) {
		const struct hf_malloc_layout *layout =
			hf_malloc_layout_find(versions[i], NULL);
		HF_AUTO(hf_anomalies) struct hf_anomalies *anomalies = NULL;
		HF_AUTO(fake_malloc) struct fake_malloc *fake =
			fake_malloc_create(layout);
		struct counts counts;

		fake_malloc_fill(fake);
		fake_malloc_finish(fake);
		anomalies = walk(fake, layout, &counts);
		print_anomalies(anomalies);
		assert_int_equal(hf_anomalies_total(anomalies), 0);
		assert_int_equal(counts.live, fake_malloc_num_used(fake));
		assert_int_equal(counts.cached, fake_malloc_num_cached(fake));
		assert_int_equal(counts.free, fake_malloc_num_free(fake) + 2);
		assert_int_equal(counts.internal,
				 layout->tcache != HF_TCACHE_NONE);
		assert_int_equal(counts.areas, 5);
		if (layout->tcache != HF_TCACHE_NONE || layout->num_fastbins)
			assert_true(counts.cached > 0);
	}
}

/* One planted damage. The chunks around it, as the case names them: */
struct damage {
	const char *name;
	const char *kind;     /* of the anomaly it must cause */
	uint64_t lost_live;   /* at most so many live blocks are not found */
	uint64_t wrong_live;  /* at most so many cached ones seem live */
	void (*plant)(struct fake_malloc *fake,
		      const struct hf_malloc_layout *layout,
		      const uint64_t *chunks);
};

enum { NUM_CHUNKS = 60 };

static void plant_zero_size(struct fake_malloc *fake,
			    const struct hf_malloc_layout *layout,
			    const uint64_t *chunks)
{
	(void)layout;
	fake_image_poke_u64(fake_malloc_memory(fake), chunks[19] + 8, 0);
}

static void plant_huge_size(struct fake_malloc *fake,
			    const struct hf_malloc_layout *layout,
			    const uint64_t *chunks)
{
	(void)layout;
	fake_image_poke_u64(fake_malloc_memory(fake), chunks[19] + 8,
			    UINT64_C(0xfffffffffffffff1));
}

static void plant_text_over_header(struct fake_malloc *fake,
				   const struct hf_malloc_layout *layout,
				   const uint64_t *chunks)
{
	(void)layout;
	fake_image_poke(fake_malloc_memory(fake), chunks[19] - 24,
			"a string that is longer than its buffer", 39);
}

/* A plausible size that leads into the middle of a later chunk. */
static void plant_longer_size(struct fake_malloc *fake,
			      const struct hf_malloc_layout *layout,
			      const uint64_t *chunks)
{
	(void)layout;
	fake_image_poke_u64(fake_malloc_memory(fake), chunks[19] + 8,
			    (chunks[25] + 16 - chunks[19]) | 1);
}

static void plant_shorter_size(struct fake_malloc *fake,
			       const struct hf_malloc_layout *layout,
			       const uint64_t *chunks)
{
	(void)layout;
	fake_image_poke_u64(fake_malloc_memory(fake), chunks[19] + 8, 32 | 1);
}

static void plant_prev_size(struct fake_malloc *fake,
			    const struct hf_malloc_layout *layout,
			    const uint64_t *chunks)
{
	(void)layout;
	fake_image_poke_u64(fake_malloc_memory(fake), chunks[2], 0x1230);
}

static void plant_hole(struct fake_malloc *fake,
		       const struct hf_malloc_layout *layout,
		       const uint64_t *chunks)
{
	(void)layout;
	(void)chunks;
	fake_image_fail(fake_malloc_memory(fake),
			FAKE_MALLOC_BRK + FAKE_MALLOC_PAGE);
}

/* chunks[10] has 48 bytes and is in a fastbin: let it lead to itself. */
static void plant_fastbin_loop(struct fake_malloc *fake,
			       const struct hf_malloc_layout *layout,
			       const uint64_t *chunks)
{
	uint64_t link = chunks[10] + 16;

	(void)layout;
	fake_image_poke_u64(fake_malloc_memory(fake), link,
			    chunks[10] ^ (link >> 12));
}

static void plant_tcache_link(struct fake_malloc *fake,
			      const struct hf_malloc_layout *layout,
			      const uint64_t *chunks)
{
	uint64_t mem = chunks[4] + 16;

	(void)layout;
	fake_image_poke_u64(fake_malloc_memory(fake), mem,
			    UINT64_C(0x4242424242424240) ^ (mem >> 12));
}

static void plant_tcache_count(struct fake_malloc *fake,
			       const struct hf_malloc_layout *layout,
			       const uint64_t *chunks)
{
	uint16_t nine = 9;

	(void)chunks;
	for (uint32_t i = 0; i < 5; i++)
		fake_image_poke(fake_malloc_memory(fake),
				fake_malloc_tcache(fake) + 2 * i + 2 * 8,
				&nine, layout->tcache_count_bytes);
}

static void plant_bin_fd(struct fake_malloc *fake,
			 const struct hf_malloc_layout *layout,
			 const uint64_t *chunks)
{
	(void)layout;
	fake_image_poke_u64(fake_malloc_memory(fake), chunks[1] + 16,
			    chunks[5]);
}

static void plant_bin_bk(struct fake_malloc *fake,
			 const struct hf_malloc_layout *layout,
			 const uint64_t *chunks)
{
	(void)layout;
	fake_image_poke_u64(fake_malloc_memory(fake), chunks[8] + 24, 0x10);
}

static void plant_bin_loop(struct fake_malloc *fake,
			   const struct hf_malloc_layout *layout,
			   const uint64_t *chunks)
{
	(void)layout;
	fake_image_poke_u64(fake_malloc_memory(fake), chunks[15] + 16,
			    chunks[1]);
}

static void plant_lost_free_chunk(struct fake_malloc *fake,
				  const struct hf_malloc_layout *layout,
				  const uint64_t *chunks)
{
	uint64_t bin = FAKE_MALLOC_LIBC + layout->bins;

	(void)chunks;
	fake_image_poke_u64(fake_malloc_memory(fake), bin, bin - 16);
	fake_image_poke_u64(fake_malloc_memory(fake), bin + 8, bin - 16);
}

static void plant_lock(struct fake_malloc *fake,
		       const struct hf_malloc_layout *layout,
		       const uint64_t *chunks)
{
	uint32_t one = 1;

	(void)layout;
	(void)chunks;
	fake_image_poke(fake_malloc_memory(fake), FAKE_MALLOC_LIBC, &one, 4);
}

static void plant_system_mem(struct fake_malloc *fake,
			     const struct hf_malloc_layout *layout,
			     const uint64_t *chunks)
{
	(void)chunks;
	fake_image_poke_u64(fake_malloc_memory(fake),
			    FAKE_MALLOC_LIBC + layout->system_mem, 0x123000);
}

static void plant_n_mmaps(struct fake_malloc *fake,
			  const struct hf_malloc_layout *layout,
			  const uint64_t *chunks)
{
	uint32_t five = 5;

	(void)chunks;
	fake_image_poke(fake_malloc_memory(fake),
			FAKE_MALLOC_LIBC + FAKE_MALLOC_MP_OFFSET +
				layout->n_mmaps, &five, 4);
}

static void plant_next_arena(struct fake_malloc *fake,
			     const struct hf_malloc_layout *layout,
			     const uint64_t *chunks)
{
	(void)chunks;
	fake_image_poke_u64(fake_malloc_memory(fake),
			    fake_malloc_arena(fake) + layout->next,
			    UINT64_C(0x1234567890));
}

static void plant_arena_loop(struct fake_malloc *fake,
			     const struct hf_malloc_layout *layout,
			     const uint64_t *chunks)
{
	(void)chunks;
	fake_image_poke_u64(fake_malloc_memory(fake),
			    fake_malloc_arena(fake) + layout->next,
			    fake_malloc_arena(fake));
}

static void plant_heap_size(struct fake_malloc *fake,
			    const struct hf_malloc_layout *layout,
			    const uint64_t *chunks)
{
	(void)layout;
	(void)chunks;
	fake_image_poke_u64(fake_malloc_memory(fake), FAKE_MALLOC_HEAP2 + 16,
			    UINT64_C(0x7fffffffffff0000));
}

static void plant_heap_prev(struct fake_malloc *fake,
			    const struct hf_malloc_layout *layout,
			    const uint64_t *chunks)
{
	(void)layout;
	(void)chunks;
	fake_image_poke_u64(fake_malloc_memory(fake), FAKE_MALLOC_HEAP2 + 8,
			    FAKE_MALLOC_HEAP2);
}

static void plant_top_size(struct fake_malloc *fake,
			   const struct hf_malloc_layout *layout,
			   const uint64_t *chunks)
{
	uint64_t top = chunks[NUM_CHUNKS - 1];

	(void)layout;
	/* the last chunk is in use; behind it is top */
	top += 32 + 16 * ((NUM_CHUNKS - 1) * 7 % 23);
	fake_image_poke_u64(fake_malloc_memory(fake), top + 8,
			    UINT64_C(0x5555555555555555));
}

static void plant_fenceposts(struct fake_malloc *fake,
			     const struct hf_malloc_layout *layout,
			     const uint64_t *chunks)
{
	(void)layout;
	(void)chunks;
	fake_image_poke_u64(fake_malloc_memory(fake),
			    FAKE_MALLOC_HEAP1 +
				    FAKE_MALLOC_HEAP_PAGES * FAKE_MALLOC_PAGE -
				    32 + 8, 0x777);
}

/* The same chunk in a fastbin of the other arena too. */
static void plant_double_free(struct fake_malloc *fake,
			      const struct hf_malloc_layout *layout,
			      const uint64_t *chunks)
{
	fake_image_poke_u64(fake_malloc_memory(fake),
			    fake_malloc_arena(fake) + layout->fastbins +
				    8 * (48 / 16 - 2), chunks[10]);
}

static const struct damage damages[] = {
	{ "size 0", "chunk size", 1, 0, plant_zero_size },
	{ "huge size", "chunk size", 1, 0, plant_huge_size },
	{ "text over a header", "chunk size", 2, 0, plant_text_over_header },
	{ "size too large", "chunk size", 1, 0, plant_longer_size },
	{ "size too small", "chunk size", 1, 0, plant_shorter_size },
	{ "prev_size", "prev_size of a chunk", 0, 0, plant_prev_size },
	{ "hole", "unreadable chunk", 20, 20, plant_hole },
	{ "fastbin loop", "cached chunk", 0, 20, plant_fastbin_loop },
	{ "tcache link", "tcache list", 0, 20, plant_tcache_link },
	{ "tcache count", "tcache count", 0, 40, plant_tcache_count },
	{ "bin fd", "bin entry", 0, 0, plant_bin_fd },
	{ "bin bk", "bin links", 0, 0, plant_bin_bk },
	{ "bin loop", "bin loop", 0, 0, plant_bin_loop },
	{ "bin empty", "free chunk in no bin", 0, 0, plant_lost_free_chunk },
	{ "lock", "arena locked", 0, 0, plant_lock },
	{ "system_mem", "system_mem of an arena", 0, 0, plant_system_mem },
	{ "n_mmaps", "mmapped chunks", 0, 0, plant_n_mmaps },
	{ "next arena", "list of arenas", 0, 0, plant_next_arena },
	{ "arena loop", "list of arenas", 0, 0, plant_arena_loop },
	{ "heap size", "heap_info", 0, 0, plant_heap_size },
	{ "heap prev", "heap_info", 60, 30, plant_heap_prev },
	{ "top size", "top chunk", 0, 0, plant_top_size },
	{ "fenceposts", "chunk size", 1, 0, plant_fenceposts },
	{ "in two lists", "cached chunk", 0, 30, plant_double_free },
};

/* In a heap of version 2.36 whose lists are long enough to be cut. */
static void damage_is_counted_and_the_rest_is_found(void **state)
{
	const struct hf_malloc_layout *layout = hf_malloc_layout_find(236,
								      NULL);

	(void)state;
	for (size_t i = 0; i < sizeof(damages) / sizeof(damages[0]); i++) {
		const struct damage *damage = &damages[i];
		HF_AUTO(hf_anomalies) struct hf_anomalies *anomalies = NULL;
		HF_AUTO(fake_malloc) struct fake_malloc *fake =
			fake_malloc_create(layout);
		uint64_t chunks[NUM_CHUNKS], used;
		struct counts counts;
		bool right;

		for (uint64_t k = 0; k < NUM_CHUNKS; k++) {
			static const enum fake_chunk kinds[] = {
				FAKE_USED, FAKE_FREE, FAKE_USED, FAKE_FAST,
				FAKE_TCACHE, FAKE_USED, FAKE_USED,
			};

			chunks[k] = fake_malloc_add(
				fake, FAKE_BRK, 32 + 16 * (k * 7 % 23),
				k == NUM_CHUNKS - 1 ? FAKE_USED :
						      kinds[k % 7]);
			fake_malloc_add(fake, FAKE_HEAP1,
					32 + 16 * (k * 5 % 19), kinds[k % 7]);
			fake_malloc_add(fake, FAKE_HEAP2,
					32 + 16 * (k * 3 % 17), kinds[k % 7]);
		}
		fake_malloc_finish(fake);
		damage->plant(fake, layout, chunks);
		anomalies = walk(fake, layout, &counts);
		used = fake_malloc_num_used(fake);
		right = count_of(anomalies, damage->kind) > 0 &&
			counts.live + damage->lost_live >= used &&
			counts.live <= used + damage->wrong_live;
		if (!right) {
			print_message("%s: %" PRIu64 " of %" PRIu64
				      " live found, anomalies:\n",
				      damage->name, counts.live, used);
			print_anomalies(anomalies);
		}
		assert_true(right);
	}
}

/* Whatever is in the heaps: it ends, and no block overlaps another one. */
static void garbage_everywhere_is_survived(void **state)
{
	const struct hf_malloc_layout *layout = hf_malloc_layout_find(236,
								      NULL);
	uint64_t rng = 88172645463325252;

	(void)state;
	for (int round = 0; round < 300; round++) {
		HF_AUTO(hf_anomalies) struct hf_anomalies *anomalies = NULL;
		HF_AUTO(fake_malloc) struct fake_malloc *fake =
			fake_malloc_create(layout);
		const uint64_t bases[] = {
			FAKE_MALLOC_LIBC, FAKE_MALLOC_BRK, FAKE_MALLOC_HEAP1,
			FAKE_MALLOC_HEAP2, FAKE_MALLOC_MMAP,
		};
		struct counts counts;

		fake_malloc_fill(fake);
		fake_malloc_finish(fake);
		for (int i = 0; i < 1 << (round % 9); i++) {
			uint64_t value;

			rng ^= rng << 13;
			rng ^= rng >> 7;
			rng ^= rng << 17;
			value = rng >> 20;
			switch (rng % 4) {
			case 0:
				value &= 0x1fff;
				break;
			case 1:
				value = bases[value % 5] + (value & 0xff8);
				break;
			case 2:
				value = 0;
			}
			fake_image_poke_u64(fake_malloc_memory(fake),
					    bases[rng / 4 % 5] +
						    (rng / 32 & 0x3ff8) %
							    (rng / 4 % 5 ?
								     0x4000 :
								     0x1000),
					    value);
		}
		anomalies = walk(fake, layout, &counts);
		assert_true(counts.areas > 0);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_layout_is_walked_exactly),
		cmocka_unit_test(damage_is_counted_and_the_rest_is_found),
		cmocka_unit_test(garbage_everywhere_is_survived),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
