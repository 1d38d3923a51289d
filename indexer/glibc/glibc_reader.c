/* Glibc reader: open what libcs there are, walk, and report.
 * SPDX-License-Identifier: MIT */
#include "indexer/glibc/glibc_reader.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "indexer/glibc/anchors.h"
#include "indexer/glibc/arenas.h"
#include "indexer/glibc/chunks.h"
#include "indexer/glibc/free_lists.h"
#include "indexer/glibc/glibc_heap.h"
#include "indexer/glibc/malloc_code.h"
#include "indexer/glibc/mappings.h"
#include "indexer/glibc/report.h"
#include "indexer/glibc/suspects.h"

/* The walk has three passes: sizes of all chunks into a table (4 bytes each),
 * in one sequential read of the heap; then the free lists, which mark entries
 * of the table; then the report, from the table alone. */

enum { MAX_LIBCS = 16 }; /* glibc allows 16 namespaces */

struct libc {
	const struct hf_module *module;  /* borrowed from the image */
	struct hf_malloc_layout layout;
	struct hf_anchors anchors;
};

struct hf_glibc {
	const struct hf_image *image;    /* borrowed */
	struct hf_anomalies *anomalies;  /* borrowed; may be NULL */
	struct hf_reader_info info;
	struct libc libcs[MAX_LIBCS];
	size_t num_libcs;
	struct hf_work work;             /* of the last walk */
};

static void glibc_close(void *reader)
{
	free(reader);
}

static const char *base_name(const char *path)
{
	const char *slash = path ? strrchr(path, '/') : NULL;

	return slash ? slash + 1 : path ? path : "";
}

/* libc.so.6, or libc-2.31.so as it was called before 2.34. */
static bool is_libc_name(const struct hf_module *module)
{
	const char *name = base_name(module->path);

	return strncmp(name, "libc.so", 7) == 0 ||
	       strncmp(name, "libc-2.", 7) == 0;
}

/* Layout and anchors for one version. */
struct found {
	struct libc libc;
	uint32_t version;
	bool exact;      /* the table knows the version */
	bool by_dwarf;
};

static struct hf_error *try_version(struct hf_glibc *glibc,
				    const struct hf_module *module,
				    uint32_t version,
				    const struct hf_glibc_options *options,
				    struct found *ret)
{
	const struct hf_malloc_layout *layout =
		hf_malloc_layout_find(version, &ret->exact);
	struct hf_error *err;

	if (!layout)
		return hf_error_create(HF_ERROR_UNSUPPORTED, "glibc %u.%u in "
				       "'%s' is older than 2.17",
				       version / 100, version % 100,
				       module->path);
	ret->version = version;
	ret->libc.module = module;
	ret->libc.layout = *layout;
	ret->by_dwarf = false;
	if (!options->no_dwarf) {
		err = hf_malloc_layout_from_dwarf(glibc->image, module,
						  &ret->libc.layout);
		ret->by_dwarf = !err;
		if (err && err->code == HF_ERROR_NO_MEMORY)
			return err;
		/* The table is good enough. */
		if (err && err->code == HF_ERROR_BAD_DATA)
			hf_anomaly_add(glibc->anomalies, HF_GLIBC_READER,
				       "debug information of libc",
				       module->start, "%s", err->message);
		hf_error_ignore(err);
	}
	err = hf_anchors_find(glibc->image, module, &ret->libc.layout,
			      !options->no_symbols, &glibc->work,
			      &ret->libc.anchors);
	if (err && err->code == HF_ERROR_NOT_FOUND && !ret->exact &&
	    !ret->by_dwarf) {
		hf_error_ignore(err);
		err = hf_error_create(HF_ERROR_UNSUPPORTED,
				      "glibc %u.%u in '%s' is newer than this "
				      "tool, and its malloc looks different",
				      version / 100, version % 100,
				      module->path);
		return hf_error_fix(err, "install libc's debug symbols "
				    "(package libc6-dbg or glibc-debuginfo)");
	}
	return err;
}

/* The version, or those that have this layout and these messages. */
static void set_version(struct hf_reader_info *info, const struct found *found,
			const struct hf_malloc_versions *versions)
{
	const struct hf_malloc_layout *row =
		hf_malloc_layout_find(found->version, NULL);
	uint32_t first = found->version, last = found->version;

	if (versions->text[0] && found->version == versions->version[0]) {
		snprintf(info->version, sizeof(info->version), "%s",
			 versions->text);
		return;
	}
	while (first > versions->since &&
	       hf_malloc_layout_find(first - 1, NULL) == row)
		first--;
	while (last + 1 < versions->until &&
	       hf_malloc_layout_find(last + 1, NULL) == row)
		last++;
	if (first == last)
		snprintf(info->version, sizeof(info->version), "%u.%u",
			 first / 100, first % 100);
	else
		snprintf(info->version, sizeof(info->version), "%u.%u-%u.%u",
			 first / 100, first % 100, last / 100, last % 100);
}

static void set_info(struct hf_reader_info *info, const struct found *found,
		     const struct hf_malloc_versions *versions)
{
	const struct hf_anchors *anchors = &found->libc.anchors;
	bool known = found->exact || found->by_dwarf;

	set_version(info, found, versions);
	snprintf(info->how, sizeof(info->how),
		 "layout from %s, main_arena by %s, mp_ %s",
		 found->by_dwarf ? "debug information" :
		 found->exact	 ? "table" :
				   "table of an older version",
		 anchors->arena_by_symbol ? "symbol" : "structure",
		 !anchors->mp	       ? "not found" :
		 anchors->mp_by_symbol ? "by symbol" : "by structure");
	info->confidence = !known || !anchors->is_consistent ?
				   HF_CONFIDENCE_LOW :
			   anchors->mp && versions->is_named ?
				   HF_CONFIDENCE_HIGH :
				   HF_CONFIDENCE_MEDIUM;
}

/* One module that may have a glibc in it.
 * @return NULL, NOT_FOUND (none, or never used), UNSUPPORTED, or a failure. */
static struct hf_error *open_libc(struct hf_glibc *glibc,
				  const struct hf_module *module,
				  const struct hf_glibc_options *options)
{
	struct hf_malloc_versions versions;
	struct found best = { 0 };
	int best_score = -1;
	struct hf_error *err, *first_err = NULL;

	err = hf_malloc_versions_find(glibc->image, module,
				      options->no_version, &glibc->work,
				      &versions);
	if (err)
		return err;
	/* Mostly there is one. Else the one whose fields make most sense. */
	for (size_t i = 0; i < versions.num; i++) {
		struct found found = { 0 };
		int score;

		err = try_version(glibc, module, versions.version[i], options,
				  &found);
		if (err && (err->code == HF_ERROR_NOT_FOUND ||
			    err->code == HF_ERROR_UNSUPPORTED)) {
			if (first_err)
				hf_error_ignore(err);
			else
				first_err = err;
			continue;
		}
		if (err) {
			hf_error_destroy(first_err);
			return err;
		}
		score = 4 * found.libc.anchors.is_consistent +
			2 * (found.libc.anchors.mp != 0) +
			found.libc.anchors.has_tcache;
		if (score > best_score) {
			best_score = score;
			best = found;
		}
	}
	if (best_score < 0)
		return first_err;
	hf_error_destroy(first_err);
	if (best.libc.anchors.empty_bins == 0)
		return &hf_not_found; /* a symbol, but never initialised */
	if (glibc->num_libcs == 0)
		set_info(&glibc->info, &best, &versions);
	glibc->libcs[glibc->num_libcs++] = best.libc;
	return NULL;
}

struct hf_error *hf_glibc_open(const struct hf_image *image,
			       struct hf_anomalies *anomalies,
			       const struct hf_glibc_options *options,
			       void **ret)
{
	HF_AUTO_FREE struct hf_glibc *glibc = calloc(1, sizeof(*glibc));
	struct hf_error *err, *unsupported = NULL;
	bool has_libc = false;
	size_t num;
	const struct hf_module *modules = hf_image_modules(image, &num);

	if (!glibc)
		return &hf_enomem;
	glibc->image = image;
	glibc->anomalies = anomalies;
	glibc->info.name = HF_GLIBC_READER;
	glibc->work = (struct hf_work){
		.progress = options->progress, .phase = "heap",
	};
	for (size_t i = 0; i < num; i++)
		has_libc |= is_libc_name(&modules[i]);
	for (size_t i = 0; i < num && glibc->num_libcs < MAX_LIBCS; i++) {
		/* Without a libc.so it may be part of the program. */
		if (has_libc && !is_libc_name(&modules[i]))
			continue;
		err = open_libc(glibc, &modules[i], options);
		if (err && err->code == HF_ERROR_UNSUPPORTED) {
			hf_error_destroy(unsupported);
			unsupported = err;
		} else if (err && err->code == HF_ERROR_NOT_FOUND) {
			hf_error_ignore(err);
		} else if (err) {
			hf_error_destroy(unsupported);
			return err;
		}
	}
	if (glibc->num_libcs == 0)
		return unsupported ? unsupported : &hf_not_found;
	/* Some of the program's blocks are in one that was not opened. */
	if (unsupported)
		hf_anomaly_add(anomalies, HF_GLIBC_READER, "unsupported libc",
			       0, "%s", unsupported->message);
	hf_error_destroy(unsupported);
	*ret = HF_TAKE(glibc);
	return NULL;
}

struct hf_error *hf_glibc_open_at(const struct hf_image *image,
				  struct hf_anomalies *anomalies,
				  const struct hf_malloc_layout *layout,
				  uint64_t main_arena, uint64_t mp,
				  void **ret)
{
	const char *fault = hf_malloc_layout_fault(layout);
	struct hf_glibc *glibc;

	if (fault)
		return hf_bad_data("layout of malloc: %s", fault);
	glibc = calloc(1, sizeof(*glibc));
	if (!glibc)
		return &hf_enomem;
	glibc->image = image;
	glibc->anomalies = anomalies;
	glibc->info.name = HF_GLIBC_READER;
	glibc->libcs[0].layout = *layout;
	glibc->libcs[0].anchors.main_arena = main_arena;
	glibc->libcs[0].anchors.mp = mp;
	glibc->num_libcs = 1;
	*ret = glibc;
	return NULL;
}

static struct hf_error *glibc_open(const struct hf_image *image,
				   struct hf_anomalies *anomalies,
				   const struct hf_progress *progress,
				   void **ret)
{
	const struct hf_glibc_options options = { .progress = progress };

	return hf_glibc_open(image, anomalies, &options, ret);
}

uint64_t hf_glibc_work(const void *reader)
{
	return ((const struct hf_glibc *)reader)->work.num;
}

static void glibc_info(const void *reader, struct hf_reader_info *ret)
{
	*ret = ((const struct hf_glibc *)reader)->info;
}

/* What the main arena took from the system, against its own account. */
static void check_main_arena(const struct hf_glibc_heap *heap)
{
	const struct hf_malloc_arena *arena = &heap->arenas.data[0];
	uint64_t total = 0;

	for (size_t i = 0; i < heap->regions.num; i++) {
		const struct hf_malloc_region *region = &heap->regions.data[i];

		if (region->arena != 0)
			continue;
		total += region->end - region->start;
		if (arena->noncontiguous)
			total -= region->foreign_bytes;
	}
	if (total != arena->system_mem)
		hf_anomaly_add(heap->anomalies, HF_GLIBC_READER,
			       "system_mem of an arena", arena->addr,
			       "main_arena says 0x%" PRIx64 ", found 0x%"
			       PRIx64, arena->system_mem, total);
}

static void heap_deinit(struct hf_glibc_heap *heap)
{
	hf_array_deinit(&heap->held);
	hf_array_deinit(&heap->arenas);
	hf_array_deinit(&heap->regions);
	hf_array_deinit(&heap->mmapped);
	hf_array_deinit(&heap->extents);
	hf_pages_destroy(heap->pages);
}

static struct hf_error *walk_regions(struct hf_glibc_heap *heap,
				     const struct hf_progress *progress,
				     struct hf_chunk_table *table)
{
	HF_AUTO(hf_chunk_walk) struct hf_chunk_walk *walk = NULL;
	struct hf_error *err = hf_chunk_walk_create(heap, progress, &walk);

	for (size_t i = 0; i < heap->regions.num && !err; i++)
		err = hf_chunk_walk_region(walk, &heap->regions.data[i],
					   table);
	return err;
}

static struct hf_error *walk_libc(struct hf_glibc *glibc,
				  const struct libc *libc,
				  struct hf_report *report, uint32_t *first_arena)
{
	__attribute__((cleanup(heap_deinit))) struct hf_glibc_heap heap = {
		.image = glibc->image, .module = libc->module,
		.anomalies = report->sink->anomalies, .layout = libc->layout,
		.main_arena = libc->anchors.main_arena,
		.parameters.addr = libc->anchors.mp, .work = &glibc->work,
		.is_inside = report->sink->is_inside,
	};
	__attribute__((cleanup(hf_chunk_table_deinit)))
	struct hf_chunk_table table = { 0 };
	struct hf_error *err = hf_pages_create(glibc->image, &heap.pages);

	if (!err)
		err = hf_extents_find(&heap);
	if (err)
		return err;
	hf_parameters_read(&heap);
	err = hf_arenas_read(&heap);
	if (!err)
		err = hf_suspects_find(&heap);
	if (!err)
		err = hf_regions_find(&heap);
	if (err)
		return err;
	hf_regions_sort(&heap);
	err = hf_mappings_scan(&heap);
	if (!err)
		err = walk_regions(&heap, report->sink->progress, &table);
	if (err)
		return err;
	check_main_arena(&heap);
	err = hf_caches_mark(&heap, &table);
	if (!err)
		err = hf_bins_check(&heap, &table);
	if (!err)
		err = hf_suspects_mark(&heap, &table);
	if (!err)
		err = hf_report_heap(report, &heap, &table, *first_arena);
	*first_arena += heap.arenas.num;
	return err;
}

/* main_arena and mp_. The bins and top are addresses of chunk headers, and
 * such a header lies in the last usable word of the live block before it:
 * taken for roots, they would keep lost neighbours alive. The arenas of
 * threads lie in their heaps. */
static struct hf_error *report_own(const struct hf_glibc *glibc,
				   const struct hf_heap_sink *sink)
{
	for (size_t i = 0; sink->own && i < glibc->num_libcs; i++) {
		const struct libc *libc = &glibc->libcs[i];
		struct hf_range arena = {
			libc->anchors.main_arena,
			libc->anchors.main_arena + libc->layout.state_bytes,
		};
		struct hf_range par = {
			libc->anchors.mp,
			libc->anchors.mp + libc->layout.par_bytes,
		};
		struct hf_error *err = sink->own(sink->arg, arena);

		if (!err && libc->anchors.mp)
			err = sink->own(sink->arg, par);
		if (err)
			return err;
	}
	return NULL;
}

static struct hf_error *glibc_walk(void *reader,
				   const struct hf_heap_sink *sink)
{
	struct hf_glibc *glibc = reader;
	HF_AUTO_FREE struct hf_report *report = calloc(1, sizeof(*report));
	struct hf_error *err = NULL;
	uint32_t first_arena = 0;

	if (!report)
		return &hf_enomem;
	report->sink = sink;
	report->work = &glibc->work;
	glibc->work = (struct hf_work){
		.progress = sink->progress, .phase = "heap",
	};
	err = report_own(glibc, sink);
	for (size_t i = 0; i < glibc->num_libcs && !err; i++)
		err = walk_libc(glibc, &glibc->libcs[i], report,
				&first_arena);
	return err;
}

static struct hf_error *append_places(struct hf_glibc *glibc,
				      hf_allocator_places *ret)
{
	for (size_t i = 0; i < glibc->num_libcs; i++) {
		const struct libc *libc = &glibc->libcs[i];
		struct hf_allocator_place place = {
			.allocator = HF_GLIBC_READER,
			.first_arena = libc->anchors.main_arena,
			.next_offset = libc->layout.next,
			.lock_offset = 0,
		};
		struct hf_error *err = hf_malloc_code_find(
			glibc->image, libc->module, &libc->layout,
			&libc->anchors, &glibc->work, &place);

		if (!err)
			err = hf_array_append(ret, place);
		if (err) {
			free(place.returns);
			return err;
		}
	}
	return NULL;
}

/* To parse a debug file takes a hundred times as long as to look at malloc's
 * variables, and is rarely needed. */
static struct hf_error *glibc_places(const struct hf_image *image,
				     const struct hf_progress *progress,
				     hf_allocator_places *ret)
{
	const struct hf_glibc_options quick = {
		.no_symbols = true, .no_dwarf = true, .progress = progress,
	};
	HF_AUTO_FREE void *reader = NULL;
	struct hf_error *err = hf_glibc_open(image, NULL, &quick, &reader);

	if (err && (err->code == HF_ERROR_NOT_FOUND ||
		    err->code == HF_ERROR_UNSUPPORTED)) {
		hf_error_ignore(err);
		err = glibc_open(image, NULL, progress, &reader);
	}
	if (err && (err->code == HF_ERROR_NOT_FOUND ||
		    err->code == HF_ERROR_UNSUPPORTED)) {
		hf_error_ignore(err);
		return NULL;
	}
	return err ? err : append_places(reader, ret);
}

const struct hf_heap_reader_ops hf_glibc_reader = {
	.name = HF_GLIBC_READER,
	.open = glibc_open,
	.info = glibc_info,
	.walk = glibc_walk,
	.close = glibc_close,
	.places = glibc_places,
};
