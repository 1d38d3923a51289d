/* Core plan: which memory goes into a core, and where.
 * SPDX-License-Identifier: MIT */
#include "coredump/core/core_plan.h"

#include <elf.h>
#include <string.h>
#include <sys/mman.h>

#include "coredump/core/core_format.h"
#include "coredump/image_internal.h"

/* What debuggers need of file mappings (each line was tried):
 *
 * - a mapping with pages of its own (.data; .data.rel.ro and .dynamic, which
 *   are read-only by now) is not the file's any more, and leads to the list
 *   of loaded libraries: without these no debugger finds any symbol;
 * - the page with the ELF header has the build id, by which the file is found.
 *
 * Everything else is in the files. */

enum {
	/* A gap that is not resident stays a hole in the file up to this
	 * size; a larger one ends the piece. Files with holes may be copied by
	 * programs that know none. */
	MAX_HOLE_BYTES = 1024 * 1024,
	/* As far as pages of a file that are its own are filled up. */
	MAX_FILE_GAP_BYTES = 64 * 1024,
};

static bool is_huge(const struct hf_segment *segment)
{
	return segment->path && !strncmp(segment->path, "/anon_hugepage", 14);
}

/* Shared memory that no file of a file system is behind. */
static bool is_anon_shared(const struct hf_segment *segment)
{
	static const char *const prefixes[] = { "/dev/zero", "/memfd:",
						"/SYSV", "[anon_shmem:",
						"/anon_hugepage" };

	for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++)
		if (segment->path && !strncmp(segment->path, prefixes[i],
					      strlen(prefixes[i])))
			return true;
	return !segment->path;
}

/* Do its resident pages go in? */
static bool is_wanted(const struct hf_segment *segment, uint32_t filter)
{
	switch (segment->kind) {
	case HF_SEGMENT_ANON:
	case HF_SEGMENT_BRK:
	case HF_SEGMENT_STACK:
		return filter & (is_huge(segment) ? HF_CORE_HUGE_PRIVATE :
						    HF_CORE_ANON_PRIVATE);
	case HF_SEGMENT_SHARED:
		if (is_huge(segment))
			return filter & HF_CORE_HUGE_SHARED;
		return filter & (is_anon_shared(segment) ?
					 HF_CORE_ANON_SHARED :
					 HF_CORE_FILE_SHARED);
	case HF_SEGMENT_FILE:
		/* Its own pages are anonymous memory. */
		return filter & (HF_CORE_ANON_PRIVATE | HF_CORE_FILE_PRIVATE);
	case HF_SEGMENT_VDSO:
		return true;
	case HF_SEGMENT_SPECIAL:
		break;
	}
	return false;
}

static bool has_elf_header(const struct hf_image *image,
			   const struct hf_segment *segment)
{
	char magic[SELFMAG];

	return segment->file_offset == 0 && segment->path &&
	       segment->prot & PROT_READ &&
	       hf_image_read_some(image, segment->start, magic,
				  sizeof(magic)) == sizeof(magic) &&
	       !memcmp(magic, ELFMAG, SELFMAG);
}

struct planner {
	const struct hf_image *image;
	struct hf_core_plan *plan;
	const struct hf_segment *segment;
	uint32_t segment_id;
	const struct hf_range *only; /* NULL: all */
	size_t num_only;
	struct hf_core_piece piece;  /* under way */
	bool open;
};

static struct hf_error *end_piece(struct planner *planner, uint64_t end)
{
	struct hf_core_piece *piece = &planner->piece;

	if (!planner->open)
		return NULL;
	planner->open = false;
	piece->range.end = end;
	return hf_array_append(&planner->plan->pieces, *piece);
}

static void begin_piece(struct planner *planner, uint64_t start)
{
	planner->piece = (struct hf_core_piece){
		.range = { start, start },
		.segment_id = planner->segment_id,
	};
	planner->open = true;
}

/* [start, end) has bytes; pieces without any fill the gaps. */
static struct hf_error *add_bytes(struct planner *planner, uint64_t start,
				  uint64_t end, uint64_t max_gap)
{
	struct hf_core_piece *piece = &planner->piece;
	uint64_t done = piece->range.start + piece->file_bytes;
	struct hf_error *err = NULL;

	/* A piece without bytes so far ends where the first bytes are. */
	if (start > done && (start - done > max_gap || !piece->file_bytes)) {
		err = end_piece(planner, start);
		begin_piece(planner, start);
	}
	piece->file_bytes = end - piece->range.start;
	return err;
}

/* Index of the first range to keep that ends above addr. */
static size_t only_after(const struct planner *planner, uint64_t addr)
{
	size_t low = 0, high = planner->num_only;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (planner->only[mid].end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low;
}

/* The pages of a resident range that are to be kept. */
static struct hf_error *add_kept(struct planner *planner,
				 const struct hf_range *resident,
				 uint64_t max_gap)
{
	const struct hf_segment *segment = planner->segment;
	uint64_t done = resident->start;
	struct hf_error *err = NULL;

	/* What was made read-only has no secrets, but leads to libraries. */
	if (!planner->only || !(segment->prot & PROT_WRITE))
		return add_bytes(planner, resident->start, resident->end,
				 max_gap);
	for (size_t i = only_after(planner, resident->start);
	     !err && i < planner->num_only &&
	     planner->only[i].start < resident->end; i++) {
		uint64_t start = hf_max_u64(
			done, hf_page_down(planner->only[i].start));
		uint64_t end = hf_min_u64(
			resident->end, hf_page_down(planner->only[i].end +
						    HF_PAGE_BYTES - 1));

		if (start >= end)
			continue;
		err = add_bytes(planner, start, end, max_gap);
		done = end;
	}
	return err;
}

static struct hf_error *plan_resident(struct planner *planner)
{
	const struct hf_image *image = planner->image;
	const struct hf_segment *segment = planner->segment;
	uint64_t max_gap = segment->kind == HF_SEGMENT_FILE ?
				   MAX_FILE_GAP_BYTES : MAX_HOLE_BYTES;
	struct hf_error *err = NULL;
	size_t num;
	const struct hf_range *resident = hf_image_resident(image, &num);

	for (size_t i = hf_image_resident_after(image, segment->start);
	     !err && i < num && resident[i].start < segment->end; i++)
		err = add_kept(planner, &resident[i], max_gap);
	return err;
}

static struct hf_error *plan_segment(struct planner *planner, uint32_t filter)
{
	const struct hf_segment *segment = planner->segment;
	bool is_file = segment->kind == HF_SEGMENT_FILE;
	struct hf_error *err = NULL;

	begin_piece(planner, segment->start);
	if ((is_file && filter & HF_CORE_FILE_PRIVATE) ||
	    segment->kind == HF_SEGMENT_VDSO) {
		planner->piece.file_bytes = segment->end - segment->start;
	} else {
		if (is_file && filter & HF_CORE_ELF_HEADERS &&
		    has_elf_header(planner->image, segment))
			planner->piece.file_bytes = HF_PAGE_BYTES;
		if (is_wanted(segment, filter))
			err = plan_resident(planner);
	}
	return err ? err : end_piece(planner, segment->end);
}

struct hf_error *hf_core_plan_make(const struct hf_image *image,
				   uint32_t filter, bool with_dontdump,
				   const struct hf_range *only,
				   size_t num_only,
				   struct hf_core_plan *ret)
{
	__attribute__((cleanup(hf_auto_hf_core_plan)))
	struct hf_core_plan plan = { 0 };
	struct planner planner = {
		.image = image,
		.plan = &plan,
		.only = only,
		.num_only = num_only,
	};
	size_t num;
	const struct hf_segment *segments = hf_image_segments(image, &num);

	for (size_t i = 0; i < num; i++) {
		struct hf_error *err;

		if (segments[i].kind == HF_SEGMENT_SPECIAL)
			continue;
		planner.segment = &segments[i];
		planner.segment_id = (uint32_t)i;
		err = plan_segment(&planner,
				   segments[i].advice & HF_ADVICE_DONTDUMP &&
						   !with_dontdump ? 0 : filter);
		if (err)
			return err;
	}
	for (size_t i = 0; i < plan.pieces.num; i++)
		plan.memory_bytes += plan.pieces.data[i].file_bytes;
	*ret = plan;
	memset(&plan, 0, sizeof(plan));
	return NULL;
}

void hf_core_plan_deinit(struct hf_core_plan *plan)
{
	hf_array_deinit(&plan->pieces);
}

uint64_t hf_core_plan_place(struct hf_core_plan *plan, uint64_t offset)
{
	for (size_t i = 0; i < plan->pieces.num; i++) {
		plan->pieces.data[i].offset = offset;
		offset += plan->pieces.data[i].file_bytes;
	}
	return offset;
}
