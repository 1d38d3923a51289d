/* Core segments: the mappings of a core, as an image has them.
 * SPDX-License-Identifier: MIT */
#include "coredump/core/core_segments.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include "coredump/image_internal.h"
#include "coredump/segment_kind.h"

/* A core of ours lists the mappings as the live image had them (own_notes.h).
 * Any other core has for each mapping a PT_LOAD, and an entry in NT_FILE if it
 * is one of a file. What a PT_LOAD has no bytes for is
 *
 *	of a file      in the file, if it is still the same; but pages that
 *	               the program changed are in the core always
 *	anonymous,     zero, if the PT_LOAD has some bytes (ELF fills up with
 *	               zeros); unknown, if it has none: it was left out, by
 *	               the filter or by MADV_DONTDUMP, or never touched */

struct adder {
	struct hf_image *image;
	const struct hf_core_file *file;
	const struct hf_core_notes *notes;
	const struct hf_core_elfs *elfs;
	uint64_t missing_bytes;
	uint64_t num_lost_files;  /* mappings whose file is not to be had */
	const struct hf_core_elf *lost_file; /* the first of them */
	uint64_t vdso, stack;     /* an address in each; 0: not known */
};

const struct hf_core_mapped *
hf_core_mapped_at(const struct hf_core_notes *notes, uint64_t addr)
{
	size_t low = 0, high = notes->mapped.num;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (notes->mapped.data[mid].range.end <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	if (low == notes->mapped.num ||
	    notes->mapped.data[low].range.start > addr)
		return NULL;
	return &notes->mapped.data[low];
}

uint64_t hf_core_mapped_next(const struct hf_core_notes *notes, uint64_t addr)
{
	size_t low = 0, high = notes->mapped.num;

	while (low < high) {
		size_t mid = low + (high - low) / 2;

		if (notes->mapped.data[mid].range.start <= addr)
			low = mid + 1;
		else
			high = mid;
	}
	return low < notes->mapped.num ? notes->mapped.data[low].range.start :
					 HF_ADDRESS_END;
}

const char *hf_core_exe_path(const struct hf_core_notes *notes)
{
	static const uint64_t types[] = { AT_PHDR, AT_ENTRY };

	for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
		const struct hf_core_mapped *mapped;
		uint64_t addr;

		if (!hf_process_info_auxv(&notes->process, types[i], &addr))
			continue;
		mapped = hf_core_mapped_at(notes, addr);
		if (mapped)
			return mapped->path;
	}
	return NULL;
}

/* Whole pages of [start, end) that the core has bytes of. */
struct coverage {
	uint64_t bytes;       /* covered */
	bool truncated;       /* some should be there, and are not */
};

/* Zeros stand where the writer of the core could not read. */
static struct hf_error *add_but_missing(struct adder *adder,
					struct hf_range have,
					struct coverage *coverage)
{
	const struct hf_range *missing = adder->notes->missing.data;
	struct hf_error *err = NULL;

	for (size_t i = 0; i <= adder->notes->missing.num && !err; i++) {
		bool last = i == adder->notes->missing.num;
		struct hf_range part = {
			have.start,
			last ? have.end : hf_min_u64(have.end,
						     missing[i].start),
		};

		if (part.start < part.end) {
			coverage->bytes += part.end - part.start;
			err = hf_image_add_resident(adder->image, part);
		}
		if (!last)
			have.start = hf_max_u64(have.start, missing[i].end);
		if (have.start >= have.end)
			break;
	}
	return err;
}

static struct hf_error *add_covered(struct adder *adder, uint64_t start,
				    uint64_t end, struct coverage *coverage)
{
	uint64_t at = start;

	while (at < end) {
		const struct hf_core_load *load =
			hf_core_file_find(adder->file, at);
		struct hf_range have;
		struct hf_error *err;
		uint64_t room;

		if (!load) {
			at = hf_core_file_next(adder->file, at);
			continue;
		}
		room = load->offset < adder->file->size ?
			       adder->file->size - load->offset : 0;
		have.start = at;
		have.end = hf_min_u64(load->bytes.end, end);
		at = have.end;
		if (have.end - load->bytes.start > room) {
			/* A page that ends too early is lost. */
			have.end = hf_page_down(load->bytes.start + room);
			coverage->truncated = true;
		}
		have.start = hf_page_down(have.start);
		have.end = hf_min_u64(hf_page_down(have.end + HF_PAGE_BYTES -
						   1), end);
		if (have.start >= have.end)
			continue;
		err = add_but_missing(adder, have, coverage);
		if (err)
			return err;
	}
	return NULL;
}

/* The bytes that the core has not are those of the file, if there is one. */
static void use_file(struct adder *adder, struct hf_segment *segment,
		     const char *path)
{
	const struct hf_core_elf *elf = hf_core_elfs_at(adder->elfs, path);

	segment->absent = HF_ABSENT_FILE;
	if (elf && elf->fd >= 0)
		return;
	segment->absent = HF_ABSENT_MISSING;
	if (!(segment->prot & PROT_READ))
		return;
	if (!adder->num_lost_files)
		adder->lost_file = elf;
	adder->num_lost_files++;
}

/* ---- a core of ours ---- */

static struct hf_error *add_own_resident(struct adder *adder,
					 const struct hf_segment *segment,
					 size_t *next, struct coverage *coverage,
					 uint64_t *wanted)
{
	const struct hf_range *resident = adder->notes->resident.data;
	struct hf_error *err = NULL;

	for (; !err && *next < adder->notes->resident.num &&
	     resident[*next].start < segment->end; (*next)++) {
		uint64_t start = hf_max_u64(resident[*next].start,
					    segment->start);
		uint64_t end = hf_min_u64(resident[*next].end, segment->end);

		if (start >= end)
			continue;
		*wanted += end - start;
		err = add_covered(adder, start, end, coverage);
	}
	return err;
}

static struct hf_error *add_own(struct adder *adder)
{
	size_t next = 0;
	struct hf_error *err = NULL;

	for (size_t i = 0; i < adder->notes->segments.num && !err; i++) {
		struct hf_segment segment = adder->notes->segments.data[i];
		struct coverage coverage = { 0 };
		uint64_t wanted = 0;

		if (segment.kind != HF_SEGMENT_SPECIAL)
			err = add_own_resident(adder, &segment, &next,
					       &coverage, &wanted);
		if (err)
			return err;
		/* All of it is in the core, changed pages or not. */
		if (segment.absent == HF_ABSENT_FILE &&
		    segment.kind == HF_SEGMENT_FILE)
			use_file(adder, &segment, segment.path);
		if (wanted > coverage.bytes) {
			adder->missing_bytes += wanted - coverage.bytes;
			segment.absent = HF_ABSENT_MISSING;
		}
		if (!err)
			err = hf_image_add_segment(adder->image, &segment);
	}
	for (size_t i = 0; i < adder->notes->losses.num && !err; i++)
		err = hf_image_add_loss(adder->image,
					adder->notes->losses.data[i]);
	return err;
}

/* ---- any other core ---- */

static bool contains(const struct hf_segment *segment, uint64_t addr)
{
	return addr && addr >= segment->start && addr < segment->end;
}

static void classify(const struct adder *adder, struct hf_segment *segment,
		     const struct hf_core_mapped *mapped)
{
	if (!mapped) {
		segment->kind = HF_SEGMENT_ANON;
		if (contains(segment, adder->vdso)) {
			segment->kind = HF_SEGMENT_VDSO;
			segment->path = "[vdso]";
		}
		else if (contains(segment, adder->stack))
			segment->kind = HF_SEGMENT_STACK;
		return;
	}
	segment->kind = HF_SEGMENT_FILE;
	segment->path = mapped->path;
	segment->file_offset = mapped->file_offset +
			       (segment->start - mapped->range.start);
	/* Whether it is shared is not in a core. These always are, or might
	 * as well be. */
	if (hf_path_is_plain_shared(segment->path))
		segment->kind = HF_SEGMENT_SHARED;
}

/* The kernel's own pages in front of the vdso: nobody can read them. */
static bool is_vvar(const struct adder *adder, size_t load_id)
{
	const struct hf_core_load *loads = adder->file->loads.data;

	for (size_t i = load_id; i < adder->file->loads.num &&
	     i < load_id + 4; i++) {
		if (loads[i].range.start == adder->vdso)
			return adder->vdso != 0;
		if (loads[i].bytes.start < loads[i].bytes.end ||
		    loads[i].prot & PROT_WRITE ||
		    i + 1 == adder->file->loads.num ||
		    loads[i].range.end != loads[i + 1].range.start)
			return false;
	}
	return false;
}

/* [start, end) of a PT_LOAD: all of one mapped file, or of none. */
static struct hf_error *add_part(struct adder *adder, size_t load_id,
				 uint64_t start, uint64_t end,
				 const struct hf_core_mapped *mapped)
{
	const struct hf_core_load *load = &adder->file->loads.data[load_id];
	struct hf_segment segment = {
		.start = start, .end = end, .prot = load->prot,
	};
	bool has_bytes = load->bytes.start < load->bytes.end;
	struct coverage coverage = { 0 };
	struct hf_error *err;

	classify(adder, &segment, mapped);
	if (!has_bytes && !mapped && is_vvar(adder, load_id))
		segment.kind = HF_SEGMENT_SPECIAL;
	err = add_covered(adder, start, end, &coverage);
	if (err)
		return err;
	if (coverage.bytes == end - start)
		segment.absent = mapped ? HF_ABSENT_MISSING : HF_ABSENT_ZERO;
	else if (coverage.truncated)
		segment.absent = HF_ABSENT_MISSING;
	else if (segment.kind == HF_SEGMENT_FILE)
		use_file(adder, &segment, mapped->path);
	else if (has_bytes && !mapped && !adder->notes->is_stripped)
		segment.absent = HF_ABSENT_ZERO;
	else
		segment.absent = HF_ABSENT_MISSING;
	return hf_image_add_segment(adder->image, &segment);
}

static struct hf_error *add_load(struct adder *adder, size_t load_id)
{
	const struct hf_core_load *load = &adder->file->loads.data[load_id];
	uint64_t at = load->range.start;
	struct hf_error *err = NULL;

	while (at < load->range.end && !err) {
		const struct hf_core_mapped *mapped =
			hf_core_mapped_at(adder->notes, at);
		uint64_t end = hf_min_u64(
			load->range.end,
			mapped ? mapped->range.end :
				 hf_core_mapped_next(adder->notes, at));

		err = add_part(adder, load_id, at, end, mapped);
		at = end;
	}
	return err;
}

/* Mapped files that have no PT_LOAD at all, as debuggers write them. Their
 * rights are not known: whoever looks for text must not pass them over. */
static struct hf_error *add_without_load(struct adder *adder)
{
	struct hf_error *err = NULL;
	size_t next = 0;

	for (size_t i = 0; i < adder->notes->mapped.num && !err; i++) {
		const struct hf_core_mapped *mapped =
			&adder->notes->mapped.data[i];
		struct hf_segment segment = {
			.start = mapped->range.start,
			.end = mapped->range.end,
			.prot = PROT_READ | PROT_EXEC,
		};
		const struct hf_core_load *loads = adder->file->loads.data;

		while (next < adder->file->loads.num &&
		       loads[next].range.end <= segment.start)
			next++;
		if (next < adder->file->loads.num &&
		    loads[next].range.start < segment.end)
			continue;
		classify(adder, &segment, mapped);
		use_file(adder, &segment, mapped->path);
		err = hf_image_add_segment(adder->image, &segment);
	}
	return err;
}

static struct hf_error *add_foreign(struct adder *adder)
{
	struct hf_error *err = NULL;

	if (!hf_process_info_auxv(&adder->notes->process, AT_SYSINFO_EHDR,
				  &adder->vdso))
		adder->vdso = 0;
	if (!hf_process_info_auxv(&adder->notes->process, AT_RANDOM,
				  &adder->stack))
		adder->stack = 0;
	for (size_t i = 0; i < adder->file->loads.num && !err; i++)
		err = add_load(adder, i);
	return err ? err : add_without_load(adder);
}

static struct hf_error *add_file_loss(const struct adder *adder)
{
	const struct hf_core_elf *elf = adder->lost_file;
	char text[512];

	if (!adder->num_lost_files)
		return NULL;
	snprintf(text, sizeof(text),
		 "text and constants of %" PRIu64 " mapping%s are not in the "
		 "core, and their files are not to be had: '%s', %s",
		 adder->num_lost_files, adder->num_lost_files == 1 ? "" : "s",
		 elf ? elf->path : "?", elf ? elf->why : "unknown");
	return hf_image_add_loss(adder->image, text);
}

struct hf_error *hf_core_segments_add(struct hf_image *image,
				      const struct hf_core_file *file,
				      const struct hf_core_notes *notes,
				      const struct hf_core_elfs *elfs,
				      uint64_t *missing_bytes)
{
	struct adder adder = {
		.image = image,
		.file = file,
		.notes = notes,
		.elfs = elfs,
	};
	struct hf_error *err;

	err = notes->has_image ? add_own(&adder) : add_foreign(&adder);
	if (!err)
		err = add_file_loss(&adder);
	*missing_bytes += adder.missing_bytes;
	return err;
}
