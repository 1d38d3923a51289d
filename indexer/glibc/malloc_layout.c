/* Malloc layout: the table of versions.
 * SPDX-License-Identifier: MIT */
#include "indexer/glibc/malloc_layout.h"

/* Read from malloc/malloc.c and malloc/arena.c of each release from glibc-2.17
 * to glibc-2.42, and of master at 2.42.9000 (January 2026, just before 2.43).
 *
 * struct malloc_state      2.17   2.23   2.27   2.43
 *   mutex, flags              0      0      0      0
 *   have_fastchunks           -      -      8      -
 *   fastbinsY[10]             8      8     16      -
 *   top                      88     88     96      8
 *   last_remainder           96     96    104     16
 *   bins[254]               104    104    112     24
 *   binmap[4]              2136   2136   2144   2056
 *   next                   2152   2152   2160   2072
 *   next_free              2160   2160   2168   2080
 *   attached_threads          -   2168   2176   2088
 *   system_mem             2168   2176   2184   2096
 *   max_system_mem         2176   2184   2192   2104
 *   (size)                 2184   2192   2200   2112
 *
 * struct malloc_par        2.17   2.24   2.26   2.35   2.43
 *   trim_threshold .. arena_max at 0 .. 32 in all
 *   thp_mode                  -      -      -      -     40
 *   thp_pagesize              -      -      -     40     48
 *   hp_pagesize               -      -      -     48     56
 *   hp_flags                  -      -      -     56     64
 *   n_mmaps                  40     40     40     60     68
 *   n_mmaps_max, max_n_mmaps, no_dyn_threshold: ints that follow
 *   mmapped_mem              56     56     56     80     88
 *   max_mmapped_mem          64     64     64     88     96
 *   max_total_mem            72      -      -      -      -
 *   sbrk_base                80     72     72     96    104
 *   tcache_bins               -      -     80    104    112
 *   tcache_max_bytes          -      -     88    112    120
 *   tcache_count              -      -     96    120    128
 *   (size)                   88     80    112    136    144
 *
 * struct _heap_info: ar_ptr 0, prev 8, size 16, mprotect_size 24; 2.35 adds
 * pagesize 32 and padding: 32 bytes, then 48.
 *
 * struct tcache_perthread_struct
 *   2.26  char counts[64], tcache_entry *entries[64]           576 bytes
 *   2.30  uint16_t counts[64], tcache_entry *entries[64]       640
 *   2.42  uint16_t num_slots[76], tcache_entry *entries[76]    760
 */
#define STATE_217                                                             \
	.state_bytes = 2184, .flags = 4, .fastbins = 8, .num_fastbins = 10,   \
	.top = 88, .bins = 104, .next = 2152, .system_mem = 2168
#define STATE_223                                                             \
	.state_bytes = 2192, .flags = 4, .fastbins = 8, .num_fastbins = 10,   \
	.top = 88, .bins = 104, .next = 2152, .system_mem = 2176
#define STATE_227                                                             \
	.state_bytes = 2200, .flags = 4, .fastbins = 16, .num_fastbins = 10,  \
	.top = 96, .bins = 112, .next = 2160, .system_mem = 2184
#define STATE_243                                                             \
	.state_bytes = 2112, .flags = 4, .fastbins = HF_NO_OFFSET,            \
	.num_fastbins = 0, .top = 8, .bins = 24, .next = 2072,                \
	.system_mem = 2096

#define PAR_217                                                               \
	.par_bytes = 88, .hp_pagesize = HF_NO_OFFSET, .n_mmaps = 40,          \
	.mmapped_mem = 56, .sbrk_base = 80, .tcache_bins = HF_NO_OFFSET,      \
	.tcache_count = HF_NO_OFFSET
#define PAR_224                                                               \
	.par_bytes = 80, .hp_pagesize = HF_NO_OFFSET, .n_mmaps = 40,          \
	.mmapped_mem = 56, .sbrk_base = 72, .tcache_bins = HF_NO_OFFSET,      \
	.tcache_count = HF_NO_OFFSET
#define PAR_226                                                               \
	.par_bytes = 112, .hp_pagesize = HF_NO_OFFSET, .n_mmaps = 40,         \
	.mmapped_mem = 56, .sbrk_base = 72, .tcache_bins = 80,                \
	.tcache_count = 96
#define PAR_235                                                               \
	.par_bytes = 136, .hp_pagesize = 48, .n_mmaps = 60,                   \
	.mmapped_mem = 80, .sbrk_base = 96, .tcache_bins = 104,               \
	.tcache_count = 120
#define PAR_243                                                               \
	.par_bytes = 144, .hp_pagesize = 56, .n_mmaps = 68,                   \
	.mmapped_mem = 88, .sbrk_base = 104, .tcache_bins = 112,              \
	.tcache_count = 128

#define TCACHE_226                                                            \
	.tcache = HF_TCACHE_COUNTS, .tcache_bytes = 576,                      \
	.tcache_count_bytes = 1, .tcache_entries = 64, .tcache_num = 64
#define TCACHE_230                                                            \
	.tcache = HF_TCACHE_COUNTS, .tcache_bytes = 640,                      \
	.tcache_count_bytes = 2, .tcache_entries = 128, .tcache_num = 64
#define TCACHE_242                                                            \
	.tcache = HF_TCACHE_SLOTS, .tcache_bytes = 760,                       \
	.tcache_count_bytes = 2, .tcache_entries = 152, .tcache_num = 76

/* Each row is valid from its version up to the next row's. */
static const struct hf_malloc_layout layouts[] = {
	{ .version = 217, STATE_217, PAR_217, .heap_info_bytes = 32 },
	{ .version = 223, STATE_223, PAR_217, .heap_info_bytes = 32 },
	{ .version = 224, STATE_223, PAR_224, .heap_info_bytes = 32 },
	{ .version = 226, STATE_223, PAR_226, .heap_info_bytes = 32,
	  TCACHE_226 },
	{ .version = 227, STATE_227, PAR_226, .heap_info_bytes = 32,
	  TCACHE_226 },
	{ .version = 230, STATE_227, PAR_226, .heap_info_bytes = 32,
	  TCACHE_230 },
	{ .version = 232, STATE_227, PAR_226, .heap_info_bytes = 32,
	  TCACHE_230, .safe_linking = true },
	{ .version = 235, STATE_227, PAR_235, .heap_info_bytes = 48,
	  TCACHE_230, .safe_linking = true },
	{ .version = 242, STATE_227, PAR_235, .heap_info_bytes = 48,
	  TCACHE_242, .safe_linking = true },
	/* 2.43: no fastbins; a mapping has 16 bytes after its chunk, so that
	 * the usable size is size - 8 as for any other chunk. */
	{ .version = 243, STATE_243, PAR_243, .heap_info_bytes = 48,
	  TCACHE_242, .safe_linking = true, .mmap_tail = 16 },
};

enum { NEWEST_KNOWN = 243 };

const struct hf_malloc_layout *hf_malloc_layout_find(uint32_t version,
						     bool *exact_ret)
{
	const struct hf_malloc_layout *found = NULL;

	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++) {
		if (layouts[i].version <= version)
			found = &layouts[i];
	}
	if (exact_ret)
		*exact_ret = found && version <= NEWEST_KNOWN;
	return found;
}

/* A field of a struct: [offset, offset + bytes). */
struct field {
	uint32_t offset, bytes, align;
};

/* Every field in the struct and aligned, none over another one. Offsets and
 * sizes may be anything, HF_NO_OFFSET too. */
static bool fields_fit(const struct field *fields, size_t num,
		       uint32_t struct_bytes)
{
	for (size_t i = 0; i < num; i++) {
		const struct field *one = &fields[i];

		if (one->bytes > struct_bytes ||
		    one->offset > struct_bytes - one->bytes ||
		    one->offset % one->align != 0)
			return false;
		for (size_t k = 0; k < i; k++) {
			if (one->offset < fields[k].offset + fields[k].bytes &&
			    fields[k].offset < one->offset + one->bytes)
				return false;
		}
	}
	return true;
}

static const char *state_fault(const struct hf_malloc_layout *layout)
{
	struct field fields[] = {
		{ 0, 4, 4 }, /* mutex */
		{ layout->flags, 4, 4 },
		{ layout->top, 8, 8 },
		{ layout->bins, 16 * HF_MALLOC_NUM_BINS, 8 },
		{ layout->next, 8, 8 },
		{ layout->system_mem, 8, 8 },
		{ layout->fastbins, 8 * layout->num_fastbins, 8 },
	};
	size_t num = sizeof(fields) / sizeof(fields[0]);

	if (layout->num_fastbins > HF_MALLOC_MAX_FASTBINS ||
	    (layout->num_fastbins == 0) != (layout->fastbins == HF_NO_OFFSET))
		return "number of fastbins";
	if (layout->num_fastbins == 0)
		num--;
	if (layout->state_bytes > HF_MALLOC_STATE_MAX ||
	    layout->state_bytes % 8 != 0)
		return "size of malloc_state";
	return fields_fit(fields, num, layout->state_bytes) ?
		       NULL : "fields of malloc_state";
}

static const char *par_fault(const struct hf_malloc_layout *layout)
{
	struct field fields[8] = {
		{ 0, 32, 8 }, /* trim_threshold .. arena_test */
		{ layout->n_mmaps, 12, 4 },
		{ layout->mmapped_mem, 16, 8 },
		{ layout->sbrk_base, 8, 8 },
	};
	size_t num = 4;

	if ((layout->tcache_bins == HF_NO_OFFSET) !=
	    (layout->tcache_count == HF_NO_OFFSET))
		return "tcache's fields of malloc_par";
	if (layout->tcache_bins != HF_NO_OFFSET) {
		fields[num++] = (struct field){ layout->tcache_bins, 16, 8 };
		fields[num++] = (struct field){ layout->tcache_count, 8, 8 };
	}
	if (layout->hp_pagesize != HF_NO_OFFSET)
		fields[num++] = (struct field){ layout->hp_pagesize, 8, 8 };
	if (layout->par_bytes > HF_MALLOC_PAR_MAX || layout->par_bytes % 8 != 0)
		return "size of malloc_par";
	return fields_fit(fields, num, layout->par_bytes) ?
		       NULL : "fields of malloc_par";
}

static const char *tcache_fault(const struct hf_malloc_layout *layout)
{
	struct field fields[2];

	if (layout->tcache == HF_TCACHE_NONE)
		return layout->tcache_bytes || layout->tcache_num ?
			       "a tcache without lists" : NULL;
	if (layout->tcache != HF_TCACHE_COUNTS &&
	    layout->tcache != HF_TCACHE_SLOTS)
		return "kind of tcache";
	if (layout->tcache_num == 0 || layout->tcache_num > HF_TCACHE_MAX_BINS)
		return "number of lists in tcache_perthread_struct";
	if (layout->tcache_count_bytes != 1 && layout->tcache_count_bytes != 2)
		return "counts in tcache_perthread_struct";
	if (layout->tcache_bytes > HF_TCACHE_BYTES_MAX ||
	    layout->tcache_bytes % 8 != 0)
		return "size of tcache_perthread_struct";
	fields[0] = (struct field){
		0, layout->tcache_num * layout->tcache_count_bytes, 8
	};
	fields[1] = (struct field){
		layout->tcache_entries, 8 * layout->tcache_num, 8
	};
	return fields_fit(fields, 2, layout->tcache_bytes) ?
		       NULL : "fields of tcache_perthread_struct";
}

const char *hf_malloc_layout_fault(const struct hf_malloc_layout *layout)
{
	const char *fault = state_fault(layout);

	if (!fault)
		fault = par_fault(layout);
	if (!fault)
		fault = tcache_fault(layout);
	if (fault)
		return fault;
	/* ar_ptr, prev and size; the first chunk of a later heap follows. */
	if (layout->heap_info_bytes < 24 ||
	    layout->heap_info_bytes > HF_HEAP_INFO_MAX ||
	    layout->heap_info_bytes % HF_CHUNK_ALIGN != 0)
		return "size of _heap_info";
	if (layout->mmap_tail > HF_CHUNK_ALIGN ||
	    layout->mmap_tail % HF_CHUNK_ALIGN != 0)
		return "bytes behind a mapped chunk";
	return NULL;
}
