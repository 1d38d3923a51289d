/* Anchors: main_arena and mp_ by symbols, else by their structure.
 * SPDX-License-Identifier: MIT */
#include "indexer/glibc/anchors.h"

#include <string.h>
#include <sys/mman.h>

#include "coredump/symbols.h"
#include "indexer/glibc/pages.h"
#include "util/array.h"

/* Debian's libc has no .symtab, and both variables are static: without the
 * debug file nothing names them. What they look like (glibc 2.17 .. 2.42,
 * malloc/malloc.c):
 *
 *   main_arena  has 126 bins, each a circular list with its header in the
 *               array itself: an empty bin i has fd = bk = address of the
 *               header, which is 16 bytes before the bin's own fd. Of other
 *               bins, the first and last chunk point back to the header. All
 *               of that still holds for most bins when the address is wrong
 *               by 16 * k: the one where it holds for the most bins wins, not
 *               the first one over a threshold.
 *   mp_         has sbrk_base, which points to the heap, and counters that
 *               limit each other.
 */

enum {
	MIN_EMPTY_BINS = 4,
	MIN_GOOD_BINS = 100, /* of 126; damage may have spoilt some */
	MAX_DATA = 64 * 1024 * 1024, /* writable data of a module looked at */
};

/* A writable piece of the module, copied. */
struct data {
	uint64_t addr;
	uint64_t *words;
	size_t num_words;
};

typedef HF_ARRAY(struct data) data_array;

static void data_array_deinit(data_array *array)
{
	for (size_t i = 0; i < array->num; i++)
		free(array->data[i].words);
	hf_array_deinit(array);
}

/* The writable segments of the module, and the anonymous one that follows the
 * last of them without a gap: its .bss. */
static struct hf_error *read_data(const struct hf_image *image,
				  const struct hf_module *module,
				  data_array *ret)
{
	size_t num, num_modules;
	const struct hf_segment *segments = hf_image_segments(image, &num);
	const struct hf_module *modules = hf_image_modules(image, &num_modules);
	uint64_t module_end = 0;

	for (size_t i = 0; i < num; i++) {
		const struct hf_segment *segment = &segments[i];
		bool is_module = segment->module_id != HF_NO_MODULE &&
				 &modules[segment->module_id] == module;
		uint64_t bytes = segment->end - segment->start;
		struct hf_error *err;
		struct data data;

		if (is_module)
			module_end = segment->end;
		else if (segment->start != module_end ||
			 segment->kind != HF_SEGMENT_ANON)
			continue;
		if (!(segment->prot & PROT_WRITE) ||
		    !(segment->prot & PROT_READ) || bytes > MAX_DATA)
			continue;
		data.addr = segment->start;
		data.words = calloc(1, bytes);
		if (!data.words)
			return &hf_enomem;
		/* A missing page leaves zeros, which match nothing. */
		for (uint64_t done = 0; done < bytes;) {
			done += hf_image_read_some(image, data.addr + done,
						   (char *)data.words + done,
						   bytes - done);
			if (done < bytes)
				done = (done + 4096) & ~UINT64_C(4095);
		}
		data.num_words = bytes / 8;
		err = hf_array_append(ret, data);
		if (err) {
			free(data.words);
			return err;
		}
	}
	return NULL;
}

static uint32_t count_empty_bins(const struct hf_malloc_layout *layout,
				 const uint64_t *state, uint64_t addr)
{
	uint32_t num = 0;

	for (uint32_t i = 0; i < HF_MALLOC_NUM_BINS - 1; i++) {
		const uint64_t *bin = state + layout->bins / 8 + 2 * i;
		uint64_t header = addr + layout->bins + 16 * i - 16;

		num += bin[0] == header && bin[1] == header;
	}
	return num;
}

static bool is_mapped(const struct hf_image *image, uint64_t addr)
{
	return hf_image_find_segment(image, addr) != NULL;
}

/* Bins that are empty, or whose first and last chunks point back to them. */
static uint32_t count_good_bins(struct hf_pages *pages,
				const struct hf_malloc_layout *layout,
				const uint64_t *state, uint64_t addr)
{
	uint32_t num = 0;

	for (uint32_t i = 0; i < HF_MALLOC_NUM_BINS - 1; i++) {
		const uint64_t *bin = state + layout->bins / 8 + 2 * i;
		uint64_t header = addr + layout->bins + 16 * i - 16;
		uint64_t first_bk, last_fd;

		if (bin[0] == header && bin[1] == header)
			num++;
		else if (hf_pages_peek_u64(pages, bin[0] + 24, &first_bk) &&
			 hf_pages_peek_u64(pages, bin[1] + 16, &last_fd) &&
			 first_bk == header && last_fd == header)
			num++;
	}
	return num;
}

/* What else must be so: top and next point somewhere, a lock and flags are
 * small numbers. */
static bool is_arena(const struct hf_image *image,
		     const struct hf_malloc_layout *layout,
		     const uint64_t *state)
{
	uint32_t lock, flags;

	memcpy(&lock, state, 4);
	memcpy(&flags, (const uint8_t *)state + layout->flags, 4);
	return lock <= 2 && flags < 8 &&
	       is_mapped(image, state[layout->top / 8]) &&
	       is_mapped(image, state[layout->next / 8]) &&
	       state[layout->next / 8] % 8 == 0;
}

static void find_arena(const struct hf_image *image, struct hf_pages *pages,
		       const struct hf_malloc_layout *layout,
		       const data_array *array, struct hf_work *work,
		       struct hf_anchors *ret)
{
	uint32_t best = MIN_GOOD_BINS - 1;

	for (size_t i = 0; i < array->num; i++) {
		const struct data *data = &array->data[i];
		size_t state_words = layout->state_bytes / 8;
		size_t last_bin = layout->bins / 8 +
				  2 * (HF_MALLOC_NUM_BINS - 2);

		for (size_t w = 0; w + state_words <= data->num_words &&
				   hf_work_step(work); w++) {
			const uint64_t *state = data->words + w;
			uint64_t addr = data->addr + 8 * w;
			uint32_t empty, good;

			/* The last bin holds chunks of 512 KiB and more; this
			 * test lets nearly nothing through. */
			if (state[last_bin] - addr > layout->state_bytes &&
			    !is_mapped(image, state[last_bin]))
				continue;
			empty = count_empty_bins(layout, state, addr);
			if (empty < MIN_EMPTY_BINS ||
			    !is_arena(image, layout, state))
				continue;
			good = count_good_bins(pages, layout, state, addr);
			if (good <= best)
				continue;
			best = good;
			ret->empty_bins = empty;
			ret->main_arena = addr;
		}
	}
}

/* How much words at a place look like mp_; 0: not at all. */
static int mp_score(const struct hf_image *image,
		    const struct hf_malloc_layout *layout,
		    const uint64_t *words)
{
	const uint8_t *bytes = (const uint8_t *)words;
	uint32_t n_mmaps, n_mmaps_max, max_n_mmaps;
	uint64_t mmapped_mem = words[layout->mmapped_mem / 8];
	uint64_t max_mmapped_mem = words[layout->mmapped_mem / 8 + 1];
	uint64_t sbrk_base = words[layout->sbrk_base / 8];
	const struct hf_segment *segment;
	int score = 0;

	memcpy(&n_mmaps, bytes + layout->n_mmaps, 4);
	memcpy(&n_mmaps_max, bytes + layout->n_mmaps + 4, 4);
	memcpy(&max_n_mmaps, bytes + layout->n_mmaps + 8, 4);
	if (sbrk_base == 0 || n_mmaps > max_n_mmaps ||
	    mmapped_mem > max_mmapped_mem || mmapped_mem % 4096 != 0 ||
	    max_mmapped_mem % 4096 != 0 ||
	    (n_mmaps == 0) != (mmapped_mem == 0) ||
	    (max_n_mmaps == 0) != (max_mmapped_mem == 0) ||
	    mmapped_mem / 4096 < n_mmaps)
		return 0;
	segment = hf_image_find_segment(image, sbrk_base);
	if (!segment || !(segment->prot & PROT_WRITE))
		return 0;
	if (segment->kind == HF_SEGMENT_BRK)
		score += 2;
	else if (segment->kind != HF_SEGMENT_ANON)
		return 0;
	if (layout->tcache_bins != HF_NO_OFFSET) {
		uint64_t bins = words[layout->tcache_bins / 8];
		uint64_t max_bytes = words[layout->tcache_bins / 8 + 1];
		uint64_t count = words[layout->tcache_count / 8];

		if (bins > HF_TCACHE_MAX_BINS || count > UINT16_MAX ||
		    max_bytes > 8 * 1024 * 1024)
			return 0;
		score += 2 + (bins == HF_TCACHE_SMALL_BINS) +
			 (max_bytes == 1032);
	}
	score += n_mmaps_max == 65536;         /* DEFAULT_MMAP_MAX */
	score += words[3] == 8 || words[3] == 2; /* arena_test */
	score += words[2] >= 64 * 1024;        /* mmap_threshold */
	return score;
}

enum { MP_MIN_SCORE = 5 };

static void find_mp(const struct hf_image *image,
		    const struct hf_malloc_layout *layout,
		    const data_array *array, struct hf_work *work,
		    struct hf_anchors *ret)
{
	int best = MP_MIN_SCORE - 1;

	for (size_t i = 0; i < array->num; i++) {
		const struct data *data = &array->data[i];
		size_t par_words = layout->par_bytes / 8;

		for (size_t w = 0; w + par_words <= data->num_words &&
				   hf_work_step(work); w++) {
			int score = mp_score(image, layout, data->words + w);

			if (score > best) {
				best = score;
				ret->mp = data->addr + 8 * w;
			}
		}
	}
}

static struct hf_error *find_by_symbols(const struct hf_image *image,
					const struct hf_module *module,
					const struct hf_malloc_layout *layout,
					struct hf_anchors *ret)
{
	HF_AUTO(hf_symbols) struct hf_symbols *symbols = NULL;
	const struct hf_symbol *symbol;
	HF_AUTO_FREE uint64_t *state = NULL;
	struct hf_error *err = hf_symbols_open(image, module, &symbols);

	if (err)
		return err;
	symbol = hf_symbols_named(symbols, "main_arena");
	if (symbol && symbol->addr % 8 == 0 &&
	    (symbol->size == 0 || symbol->size == layout->state_bytes)) {
		state = malloc(layout->state_bytes);
		if (!state)
			return &hf_enomem;
		if (hf_image_read_some(image, symbol->addr, state,
				       layout->state_bytes) ==
		    layout->state_bytes) {
			ret->main_arena = symbol->addr;
			ret->arena_by_symbol = true;
			ret->empty_bins = count_empty_bins(layout, state,
							   symbol->addr);
		}
	}
	symbol = hf_symbols_named(symbols, "mp_");
	if (symbol && symbol->addr % 8 == 0 &&
	    (symbol->size == 0 || symbol->size == layout->par_bytes)) {
		ret->mp = symbol->addr;
		ret->mp_by_symbol = true;
	}
	return NULL;
}

/* Fields that other layouts have at other places. */
static bool is_consistent(struct hf_pages *pages,
			  const struct hf_malloc_layout *layout,
			  uint64_t main_arena, struct hf_work *work)
{
	enum { MAX_ARENAS = 1 << 16 };
	uint64_t addr = main_arena, top = 0, system_mem = 0;

	if (!hf_pages_peek_u64(pages, main_arena + layout->top, &top) ||
	    !hf_pages_peek_u64(pages, main_arena + layout->system_mem,
			       &system_mem))
		return false;
	if (top - main_arena < layout->state_bytes ? system_mem != 0 :
	    system_mem < 4096 || system_mem >> 47 != 0)
		return false;
	for (uint32_t i = 0; i < MAX_ARENAS && hf_work_step(work); i++) {
		if (!hf_pages_peek_u64(pages, addr + layout->next, &addr))
			return false;
		if (addr == main_arena)
			return true;
	}
	return false;
}

/* malloc makes the first thread's tcache before anything else. */
static bool has_tcache(struct hf_pages *pages,
		       const struct hf_malloc_layout *layout, uint64_t mp)
{
	uint64_t sbrk_base, size;

	if (!mp ||
	    !hf_pages_peek_u64(pages, mp + layout->sbrk_base, &sbrk_base) ||
	    !hf_pages_peek_u64(pages, ((sbrk_base + 15) & ~UINT64_C(15)) + 8,
			       &size))
		return false;
	return hf_is_tcache_chunk(layout, size & ~UINT64_C(7));
}

struct hf_error *hf_anchors_find(const struct hf_image *image,
				 const struct hf_module *module,
				 const struct hf_malloc_layout *layout,
				 bool use_symbols, struct hf_work *work,
				 struct hf_anchors *ret)
{
	__attribute__((cleanup(data_array_deinit))) data_array array = { 0 };
	HF_AUTO(hf_pages) struct hf_pages *pages = NULL;
	struct hf_anchors anchors = { 0 };
	struct hf_error *err;

	if (use_symbols) {
		err = find_by_symbols(image, module, layout, &anchors);
		if (err)
			return err;
	}
	err = hf_pages_create(image, &pages);
	if (err)
		return err;
	if (!anchors.main_arena || !anchors.mp) {
		err = read_data(image, module, &array);
		if (err)
			return err;
		if (!anchors.main_arena)
			find_arena(image, pages, layout, &array, work,
				   &anchors);
		if (!anchors.mp)
			find_mp(image, layout, &array, work, &anchors);
	}
	err = hf_work_check(work);
	if (err)
		return err;
	if (!anchors.main_arena)
		return &hf_not_found;
	anchors.is_consistent = is_consistent(pages, layout,
					      anchors.main_arena, work);
	anchors.has_tcache = has_tcache(pages, layout, anchors.mp);
	err = hf_work_check(work);
	if (!err)
		*ret = anchors;
	return err;
}
