/* Address filter: which of many words point into an object, and into which.
 * SPDX-License-Identifier: MIT */
#include "indexer/graph/address_map_internal.h"

#include <immintrin.h>

/* A batch of words passes three stages: against the hulls, through the
 * directory, and through the cells. Each has the random reads of the next
 * stage fetched before they are needed. Survivors are always stored and the
 * count moves on only for hits, so that there is no branch to mispredict.
 *
 * The first two stages exist three times; the compiler makes the third one
 * anew for each of them, with the processor's population count where it has
 * one. The choice is made when the program runs, so that one binary serves
 * all processors. */

enum {
	BATCH_WORDS = 1024,
	/* Vectors are stored whole: room behind the last survivor. */
	SLACK = 8,
};

struct batch {
	const uint64_t *words;
	uint32_t num_words;
	uint32_t num;                          /* candidates left */
	uint64_t value[BATCH_WORDS + SLACK];   /* the word */
	uint32_t index[BATCH_WORDS + SLACK];   /* of the word in the batch */
	uint32_t cell[BATCH_WORDS + SLACK];
};

static inline __attribute__((always_inline)) bool
is_in_hulls(const struct hf_address_map *map, uint64_t value)
{
	return (value - map->hulls[0].start < map->hulls[0].len) |
	       (value - map->hulls[1].start < map->hulls[1].len);
}

static inline __attribute__((always_inline)) void
hulls_scalar(const struct hf_address_map *map, struct batch *batch,
	     uint32_t start)
{
	uint32_t num = batch->num;

	for (uint32_t i = start; i < batch->num_words; i++) {
		batch->value[num] = batch->words[i];
		batch->index[num] = i;
		num += is_in_hulls(map, batch->words[i]);
	}
	batch->num = num;
}

static inline __attribute__((always_inline)) void
directory_scalar(const struct hf_address_map *map, struct batch *batch,
		 uint32_t start, uint32_t num)
{
	uint32_t page_shift = map->page_shift;
	uint32_t cell_shift = hf_map_cell_shift(map);
	uint32_t page_mask = (1u << (32 - page_shift)) - 1;
	uint32_t cell_mask = (1u << (page_shift - cell_shift)) - 1;

	for (uint32_t i = start; i < batch->num; i++) {
		uint64_t value = batch->value[i];
		uint32_t part = map->top[(value >> 32) - map->first_region];
		uint32_t page = map->directory[part + ((uint32_t)(value >>
						page_shift) & page_mask)];

		batch->value[num] = value;
		batch->index[num] = batch->index[i];
		batch->cell[num] = (page << (page_shift - cell_shift)) +
				   ((uint32_t)(value >> cell_shift) &
				    cell_mask);
		num += page != 0;
	}
	batch->num = num;
}

/* The last stage: rank, and for words that do not point to a first byte the
 * distance from it. What is used of the map is in locals: else each hit that
 * is stored could change it. */
static inline __attribute__((always_inline)) size_t
resolve(const struct hf_address_map *map, const struct batch *restrict batch,
	uint32_t offset, struct hf_hit *restrict hits)
{
	const struct hf_map_cell *cells = map->cells;
	const uint64_t *starts = map->starts, *sizes = map->sizes;
	uint32_t granule_shift = map->granule_shift, num_objects = map->num;
	uint64_t byte_mask = ((uint64_t)1 << granule_shift) - 1;
	uint32_t num_candidates = batch->num, first_doubt = num_candidates;
	bool has_empty = map->has_empty;

	for (uint32_t i = 0; i < num_candidates; i++)
		__builtin_prefetch(&cells[batch->cell[i]]);
	for (uint32_t i = 0; i < num_candidates; i++) {
		const struct hf_map_cell *cell = &cells[batch->cell[i]];
		uint64_t value = batch->value[i];
		uint32_t bit = value >> granule_shift & 63;
		uint64_t below = cell->starts << (63 - bit);
		uint32_t object = cell->before +
				  (uint32_t)__builtin_popcountll(below) - 1;
		bool interior = !(below >> 63) || (value & byte_mask);

		hits[i] = (struct hf_hit){ offset + batch->index[i], object,
					   interior };
		if (!interior && !has_empty)
			continue;
		if (first_doubt > i)
			first_doubt = i;
		/* UINT32_MAX: no object starts at or before it. */
		if (object < num_objects) {
			__builtin_prefetch(&starts[object]);
			__builtin_prefetch(&sizes[object]);
		}
	}
	uint32_t num = first_doubt;
	for (uint32_t i = first_doubt; i < num_candidates; i++) {
		struct hf_hit hit = hits[i];

		if ((hit.interior || has_empty) &&
		    (hit.object >= num_objects ||
		     batch->value[i] - starts[hit.object] >=
			     sizes[hit.object]))
			continue;
		hits[num++] = hit;
	}
	return num;
}

static size_t scan_scalar(const struct hf_address_map *map,
			  struct batch *batch, uint32_t offset,
			  struct hf_hit *hits)
{
	hulls_scalar(map, batch, 0);
	directory_scalar(map, batch, 0, 0);
	return resolve(map, batch, offset, hits);
}

#define AVX2 __attribute__((target("avx2,popcnt,bmi,bmi2")))

/* For each set of 4 lanes, the halves to bring to the front. */
static const uint32_t front_lanes[16][8] __attribute__((aligned(32))) = {
	{ 0, 1, 2, 3, 4, 5, 6, 7 }, { 0, 1, 2, 3, 4, 5, 6, 7 },
	{ 2, 3, 0, 1, 4, 5, 6, 7 }, { 0, 1, 2, 3, 4, 5, 6, 7 },
	{ 4, 5, 0, 1, 2, 3, 6, 7 }, { 0, 1, 4, 5, 2, 3, 6, 7 },
	{ 2, 3, 4, 5, 0, 1, 6, 7 }, { 0, 1, 2, 3, 4, 5, 6, 7 },
	{ 6, 7, 0, 1, 2, 3, 4, 5 }, { 0, 1, 6, 7, 2, 3, 4, 5 },
	{ 2, 3, 6, 7, 0, 1, 4, 5 }, { 0, 1, 2, 3, 6, 7, 4, 5 },
	{ 4, 5, 6, 7, 0, 1, 2, 3 }, { 0, 1, 4, 5, 6, 7, 2, 3 },
	{ 2, 3, 4, 5, 6, 7, 0, 1 }, { 0, 1, 2, 3, 4, 5, 6, 7 },
};

/* AVX2 compares signed: both sides are shifted by half the range. */
AVX2 static inline __m256i below_avx2(__m256i value, __m256i start,
				      __m256i len)
{
	__m256i half = _mm256_set1_epi64x(INT64_MIN);
	__m256i distance = _mm256_sub_epi64(value, start);

	return _mm256_cmpgt_epi64(_mm256_xor_si256(len, half),
				  _mm256_xor_si256(distance, half));
}

AVX2 static void hulls_avx2(const struct hf_address_map *map,
			    struct batch *batch)
{
	__m256i start0 = _mm256_set1_epi64x((int64_t)map->hulls[0].start);
	__m256i start1 = _mm256_set1_epi64x((int64_t)map->hulls[1].start);
	__m256i len0 = _mm256_set1_epi64x((int64_t)map->hulls[0].len);
	__m256i len1 = _mm256_set1_epi64x((int64_t)map->hulls[1].len);
	uint32_t num = 0, i = 0;

	for (; i + 4 <= batch->num_words; i += 4) {
		__m256i value = _mm256_loadu_si256(
			(const __m256i *)&batch->words[i]);
		__m256i hit = _mm256_or_si256(
			below_avx2(value, start0, len0),
			below_avx2(value, start1, len1));
		uint32_t mask = (uint32_t)_mm256_movemask_pd(
			_mm256_castsi256_pd(hit));
		__m256i lanes = _mm256_load_si256(
			(const __m256i *)front_lanes[mask]);
		__m256i front = _mm256_permutevar8x32_epi32(value, lanes);
		/* Lane numbers are the halves' numbers, halved: of each pair
		 * the first. */
		__m256i evens = _mm256_permutevar8x32_epi32(
			lanes, _mm256_setr_epi32(0, 2, 4, 6, 0, 2, 4, 6));
		__m128i index = _mm_add_epi32(
			_mm_srli_epi32(_mm256_castsi256_si128(evens), 1),
			_mm_set1_epi32((int)i));

		_mm256_storeu_si256((__m256i *)&batch->value[num], front);
		_mm_storeu_si128((__m128i *)&batch->index[num], index);
		num += (uint32_t)__builtin_popcount(mask);
	}
	batch->num = num;
	hulls_scalar(map, batch, i);
}

AVX2 static size_t scan_avx2(const struct hf_address_map *map,
			     struct batch *batch, uint32_t offset,
			     struct hf_hit *hits)
{
	hulls_avx2(map, batch);
	directory_scalar(map, batch, 0, 0);
	return resolve(map, batch, offset, hits);
}

#define AVX512                                                                \
	__attribute__((target("avx512f,avx512vl,avx512dq,avx2,popcnt,bmi,bmi2")))

AVX512 static void hulls_avx512(const struct hf_address_map *map,
				struct batch *batch)
{
	__m512i start0 = _mm512_set1_epi64((int64_t)map->hulls[0].start);
	__m512i start1 = _mm512_set1_epi64((int64_t)map->hulls[1].start);
	__m512i len0 = _mm512_set1_epi64((int64_t)map->hulls[0].len);
	__m512i len1 = _mm512_set1_epi64((int64_t)map->hulls[1].len);
	__m256i lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
	uint32_t num = 0, i = 0;

	for (; i + 8 <= batch->num_words; i += 8) {
		__m512i value = _mm512_loadu_si512(&batch->words[i]);
		__mmask8 mask =
			_mm512_cmplt_epu64_mask(
				_mm512_sub_epi64(value, start0), len0) |
			_mm512_cmplt_epu64_mask(
				_mm512_sub_epi64(value, start1), len1);
		__m256i index = _mm256_add_epi32(
			lanes, _mm256_set1_epi32((int)i));

		/* Compressed in a register, stored whole: a compressing
		 * store is slow on some processors. */
		_mm512_storeu_si512(&batch->value[num],
				    _mm512_maskz_compress_epi64(mask, value));
		_mm256_storeu_si256(
			(__m256i *)&batch->index[num],
			_mm256_maskz_compress_epi32(mask, index));
		num += (uint32_t)__builtin_popcount(mask);
	}
	batch->num = num;
	hulls_scalar(map, batch, i);
}

AVX512 static void directory_avx512(const struct hf_address_map *map,
				    struct batch *batch)
{
	uint32_t page_shift = map->page_shift;
	uint32_t cell_shift = hf_map_cell_shift(map);
	__m128i page_count = _mm_cvtsi32_si128((int)page_shift);
	__m128i cell_count = _mm_cvtsi32_si128((int)cell_shift);
	__m128i page_cells_count =
		_mm_cvtsi32_si128((int)(page_shift - cell_shift));
	__m512i page_mask =
		_mm512_set1_epi64(((int64_t)1 << (32 - page_shift)) - 1);
	__m512i cell_mask = _mm512_set1_epi64(
		((int64_t)1 << (page_shift - cell_shift)) - 1);
	__m512i region0 = _mm512_set1_epi64((int64_t)map->first_region);
	uint32_t num = 0, i = 0;

	for (; i + 8 <= batch->num; i += 8) {
		__m512i value = _mm512_loadu_si512(&batch->value[i]);
		__m256i index = _mm256_loadu_si256(
			(const __m256i *)&batch->index[i]);
		__m512i region = _mm512_sub_epi64(
			_mm512_srli_epi64(value, 32), region0);
		__m512i part = _mm512_cvtepu32_epi64(
			_mm512_i64gather_epi32(region, map->top, 4));
		__m512i entry = _mm512_add_epi64(
			part, _mm512_and_si512(
				      _mm512_srl_epi64(value, page_count),
				      page_mask));
		__m256i page =
			_mm512_i64gather_epi32(entry, map->directory, 4);
		__mmask8 mask = _mm256_test_epi32_mask(page, page);
		__m512i in_page = _mm512_and_si512(
			_mm512_srl_epi64(value, cell_count), cell_mask);
		__m256i cell = _mm256_add_epi32(
			_mm256_sll_epi32(page, page_cells_count),
			_mm512_cvtepi64_epi32(in_page));

		_mm512_storeu_si512(&batch->value[num],
				    _mm512_maskz_compress_epi64(mask, value));
		_mm256_storeu_si256(
			(__m256i *)&batch->index[num],
			_mm256_maskz_compress_epi32(mask, index));
		_mm256_storeu_si256((__m256i *)&batch->cell[num],
				    _mm256_maskz_compress_epi32(mask, cell));
		num += (uint32_t)__builtin_popcount(mask);
	}
	directory_scalar(map, batch, i, num);
}

AVX512 static size_t scan_avx512(const struct hf_address_map *map,
				 struct batch *batch, uint32_t offset,
				 struct hf_hit *hits)
{
	hulls_avx512(map, batch);
	directory_avx512(map, batch);
	return resolve(map, batch, offset, hits);
}

bool hf_filter_is_supported(enum hf_filter filter)
{
	bool has_bits = __builtin_cpu_supports("popcnt") &&
			__builtin_cpu_supports("bmi") &&
			__builtin_cpu_supports("bmi2");

	switch (filter) {
	case HF_FILTER_SCALAR:
		return true;
	case HF_FILTER_AVX2:
		return has_bits && __builtin_cpu_supports("avx2");
	case HF_FILTER_AVX512:
		return has_bits && __builtin_cpu_supports("avx2") &&
		       __builtin_cpu_supports("avx512f") &&
		       __builtin_cpu_supports("avx512vl") &&
		       __builtin_cpu_supports("avx512dq");
	default:
		return false;
	}
}

size_t hf_address_map_scan_with(const struct hf_address_map *map,
				enum hf_filter filter, const uint64_t *words,
				size_t num_words, struct hf_hit *hits)
{
	struct batch batch;
	size_t num = 0;

	for (size_t done = 0; done < num_words; done += batch.num_words) {
		batch.words = words + done;
		batch.num_words = num_words - done < BATCH_WORDS ?
					  (uint32_t)(num_words - done) :
					  BATCH_WORDS;
		batch.num = 0;
		switch (filter) {
		case HF_FILTER_AVX512:
			num += scan_avx512(map, &batch, (uint32_t)done,
					   hits + num);
			break;
		case HF_FILTER_AVX2:
			num += scan_avx2(map, &batch, (uint32_t)done,
					 hits + num);
			break;
		default:
			num += scan_scalar(map, &batch, (uint32_t)done,
					   hits + num);
		}
	}
	return num;
}
