/* Malloc code: the functions that refer to malloc's variables.
 * SPDX-License-Identifier: MIT */
#include "indexer/glibc/malloc_code.h"

#include <string.h>
#include <sys/mman.h>

/* glibc's malloc is one object file, malloc/malloc.c (which includes arena.c
 * and hooks.c), and lies in one piece in the text of libc.so or of a static
 * program. Its variables are static, so nothing else refers to them:
 *
 *   text   .... | malloc.c: references to main_arena and mp_ | ....
 *                 ^ every 100 bytes or so; 24 KiB in all (2.36)
 *
 * A reference of x86-64 code is four bytes, relative to the end of their
 * instruction, which may have an immediate of 1 or 4 bytes behind them:
 *
 *   48 8d 3d  d4 d3 d2 d1           lea   main_arena(%rip), %rdi
 *   83 3d     d4 d3 d2 d1  01       cmpl  $1, mp_+48(%rip)
 *
 * or, in a program at fixed addresses below 2 GiB, the address itself. Other
 * bytes look like one now and then, but not in clusters.
 *
 * The start of the first function is told by what stands between functions:
 * each begins at a multiple of 16, and what is left before that is filled with
 * one of the long nops, which end in 00 or 90, unless the function before ends
 * there, in c3 (ret). Where the last function ends nothing tells for sure: what
 * follows the last reference in malloc.c is 200 to 300 bytes long (the end of
 * mallopt, posix_memalign, malloc_info); the next object file's first functions
 * are small helpers that never wait. */

enum {
	PIECE = 256 * 1024,
	OVERLAP = 8,
	MAX_TEXT = 512 * 1024 * 1024, /* code of one module looked at */
	MAX_REFERENCES = 1 << 16,     /* libc has some hundred */
	MAX_GAP = 8 * 1024,           /* between two of malloc's */
	MAX_CODE = 128 * 1024,
	MIN_REFERENCES = 16,
	MARGIN = 4096,                /* longest function */
	TAIL = 320,                   /* after the last reference */
	FUNCTION_ALIGN = 16,
};

typedef HF_ARRAY(uint64_t) addr_array;

struct search {
	const struct hf_image *image;
	struct hf_work *work;
	struct hf_range arena, mp; /* main_arena, and mp_ if it is known */
	struct hf_range both;      /* and what is between them */
	addr_array references;     /* ascending */
	size_t searched;
};

static void search_deinit(struct search *search)
{
	hf_array_deinit(&search->references);
}

static bool refers_to(uint64_t target, const struct hf_range *variable)
{
	/* With an immediate behind it is 1 or 4 bytes before what is meant: the
	 * last 4 may be a reference to the next variable. */
	return target - variable->start <
	       variable->end - variable->start - 4;
}

static struct hf_error *search_piece(struct search *search, uint64_t addr,
				     const uint8_t *piece, size_t len)
{
	bool is_low = search->arena.end <= INT32_MAX;

	for (size_t i = 0; i + 4 <= len; i++) {
		uint32_t word;
		uint64_t target;

		memcpy(&word, piece + i, sizeof(word));
		target = addr + i + 4 + (uint64_t)(int64_t)(int32_t)word;
		if (!refers_to(target, &search->both) && !is_low)
			continue; /* nearly always */
		if (!refers_to(target, &search->arena) &&
		    !refers_to(target, &search->mp) &&
		    !(is_low && (word - search->arena.start <
				 search->arena.end - search->arena.start)))
			continue;
		if (search->references.num == MAX_REFERENCES)
			return NULL;

		struct hf_error *err = hf_array_append(&search->references,
						       addr + i);

		if (err)
			return err;
	}
	return NULL;
}

static struct hf_error *search_text(struct search *search,
				    const struct hf_segment *segment,
				    uint8_t *piece)
{
	uint64_t addr = segment->start;

	while (addr < segment->end && search->searched < MAX_TEXT) {
		size_t want = segment->end - addr < PIECE ?
				      segment->end - addr : PIECE;
		size_t got = hf_image_read_some(search->image, addr, piece,
						want);
		struct hf_error *err;

		search->work->num++; /* a fraction of a millisecond each */
		if (!hf_work_poll(search->work))
			return hf_work_check(search->work);
		err = search_piece(search, addr, piece, got);
		if (err)
			return err;
		search->searched += want;
		if (got < want) /* a hole: on with the next page */
			addr = (addr + got + 4096) & ~UINT64_C(4095);
		else if (want == PIECE)
			addr += PIECE - OVERLAP;
		else
			break;
	}
	return NULL;
}

/* The run of references without large gaps that has the most of them. */
static struct hf_range densest(const addr_array *references)
{
	struct hf_range best = { 0, 0 };
	size_t best_num = MIN_REFERENCES - 1;

	for (size_t i = 0, end; i < references->num; i = end) {
		const uint64_t *all = references->data;

		for (end = i + 1; end < references->num &&
				  all[end] - all[end - 1] <= MAX_GAP &&
				  all[end] - all[i] <= MAX_CODE; end++)
			;
		if (end - i > best_num) {
			best_num = end - i;
			best.start = all[i];
			best.end = all[end - 1] + 4;
		}
	}
	return best;
}

/* The code around a cluster, copied. */
struct window {
	uint64_t addr;
	const uint8_t *bytes;
	size_t len;
};

static bool may_begin(const struct window *window, uint64_t addr)
{
	uint8_t before = window->bytes[addr - window->addr - 1];

	return before == 0x00 || before == 0x90 || before == 0xc3 ||
	       before == 0xcc;
}

/* Widen a cluster to whole functions. */
static void widen(const struct window *window, struct hf_range *code)
{
	uint64_t limit = window->addr + window->len;
	uint64_t start = code->start & ~(uint64_t)(FUNCTION_ALIGN - 1);

	for (uint64_t addr = start; addr > window->addr &&
				    start - addr < MARGIN;
	     addr -= FUNCTION_ALIGN)
		if (may_begin(window, addr)) {
			code->start = addr;
			break;
		}
	code->end = limit - code->end < TAIL ? limit : code->end + TAIL;
}

/* Mark where calls in the code end. Bytes in the middle of instructions look
 * like calls, too: some marks more, in places to which nothing returns. */
static void mark_returns(const struct window *window,
			 const struct hf_range *code, uint64_t *returns)
{
	uint64_t bytes = code->end - code->start;
	const uint8_t *at = window->bytes + (code->start - window->addr);

	for (uint64_t i = 0; i < bytes; i++) {
		uint64_t after = 0;

		if (at[i] == 0xe8) /* call rel32 */
			after = i + 5;
		else if (at[i] == 0xff && i + 1 < bytes && at[i + 1] == 0x15)
			after = i + 6; /* call *x(%rip) */
		else if (at[i] == 0xff && i + 1 < bytes &&
			 (at[i + 1] & 0xf8) == 0xd0)
			after = i + 2; /* call *%reg */
		if (after && after < bytes)
			returns[after / 64] |= UINT64_C(1) << after % 64;
	}
}

static struct hf_error *describe(const struct hf_image *image,
				 const struct hf_segment *segment,
				 struct hf_range code,
				 struct hf_allocator_place *ret)
{
	enum { AROUND = 2 * MARGIN };
	struct window window = { .addr = segment->start };
	HF_AUTO_FREE uint8_t *bytes = NULL;
	uint64_t end = segment->end, num_bytes;

	if (code.start - segment->start > AROUND)
		window.addr = code.start - AROUND;
	if (segment->end - code.end > AROUND)
		end = code.end + AROUND;
	bytes = malloc(end - window.addr);
	if (!bytes)
		return &hf_enomem;
	window.bytes = bytes;
	window.len = hf_image_read_some(image, window.addr, bytes,
					end - window.addr);
	if (window.len < end - window.addr)
		return NULL; /* it was there a moment ago */
	widen(&window, &code);
	num_bytes = code.end - code.start;
	ret->returns = calloc(num_bytes / 64 + 1, sizeof(*ret->returns));
	if (!ret->returns)
		return &hf_enomem;
	mark_returns(&window, &code, ret->returns);
	ret->code = code;
	ret->module = (struct hf_range){ segment->start, segment->end };
	return NULL;
}

static bool is_code(const struct hf_image *image,
		    const struct hf_segment *segment,
		    const struct hf_module *module)
{
	size_t num;

	return segment->module_id != HF_NO_MODULE &&
	       &hf_image_modules(image, &num)[segment->module_id] == module &&
	       (segment->prot & PROT_EXEC) &&
	       segment->kind != HF_SEGMENT_SPECIAL;
}

struct hf_error *hf_malloc_code_find(const struct hf_image *image,
				     const struct hf_module *module,
				     const struct hf_malloc_layout *layout,
				     const struct hf_anchors *anchors,
				     struct hf_work *work,
				     struct hf_allocator_place *ret)
{
	HF_AUTO_FREE uint8_t *piece = malloc(PIECE);
	__attribute__((cleanup(search_deinit))) struct search search = {
		.image = image, .work = work,
		.arena = { anchors->main_arena,
			   anchors->main_arena + layout->state_bytes },
	};
	const struct hf_segment *segments;
	struct hf_range code;
	size_t num;

	if (!piece)
		return &hf_enomem;
	search.mp = search.arena;
	if (anchors->mp)
		search.mp = (struct hf_range){
			anchors->mp, anchors->mp + layout->par_bytes
		};
	search.both = search.arena;
	if (search.mp.start < search.both.start)
		search.both.start = search.mp.start;
	if (search.mp.end > search.both.end)
		search.both.end = search.mp.end;
	segments = hf_image_segments(image, &num);
	for (size_t i = 0; i < num; i++) {
		struct hf_error *err = NULL;

		if (is_code(image, &segments[i], module))
			err = search_text(&search, &segments[i], piece);
		if (err)
			return err;
	}
	code = densest(&search.references);
	for (size_t i = 0; i < num && code.start; i++)
		if (is_code(image, &segments[i], module) &&
		    code.start >= segments[i].start &&
		    code.end <= segments[i].end)
			return describe(image, &segments[i], code, ret);
	return NULL;
}
