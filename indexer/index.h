/* Index: an image becomes a snapshot database, phase by phase.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_INDEX_H
#define HF_INDEXER_INDEX_H

#include "coredump/image.h"
#include "indexer/db/snapshot_row.h"
#include "util/progress.h"

/** A fact for table `meta`. Borrowed. */
struct hf_index_fact {
	const char *key, *value;
};

/** One line of table `phase`. */
struct hf_index_phase {
	const char *name; /* static */
	uint64_t elapsed_ns, items, peak_bytes;
};

struct hf_index_options {
	/* The row of table `snapshot` as far as the capture knows it; counts
	 * are filled in by the index. Borrowed. */
	const struct hf_snapshot_row *snapshot;
	/**
	 * Called when the image has been read for the last time, before the
	 * graph and the file are made: the moment to kill the child. May be
	 * NULL. It may change what `snapshot` and `facts` point to.
	 */
	struct hf_error *(*image_done)(void *arg);
	void *arg;
	const struct hf_index_fact *facts; /* of the capture, for `meta` */
	size_t num_facts;
	/* A phase of the capture that came before: the copy; no name: none. */
	struct hf_index_phase before;
	const struct hf_progress *progress;
};

/** Why a snapshot is partial: bits. Their names are in `meta`. */
enum hf_partial {
	HF_PARTIAL_MEMORY = 1,       /* memory that could not be read */
	HF_PARTIAL_THREADS = 2,      /* threads that could not be stopped */
	HF_PARTIAL_UNSUPPORTED = 4,  /* a heap of a version nobody knows */
	HF_PARTIAL_NO_ALLOCATOR = 8, /* no reader found any heap */
};

/** What was found, for the line the user reads at the end. */
struct hf_index_summary {
	uint64_t num_objects;   /* live blocks */
	uint64_t num_refs;
	uint64_t live_bytes;
	uint64_t num_unreachable, unreachable_bytes;
	uint64_t unknown_bytes;      /* private memory no reader explains */
	uint64_t private_anon_bytes; /* of this much */
	uint64_t late_bytes;         /* private memory left out of the fork,
				      * read late from the process */
	uint64_t num_anomalies;
	uint64_t num_suspect;        /* objects that a thread in the allocator
				      * was at work on */
	char suspect_arenas[64];     /* whose lists were being changed: "0, 3",
				      * cut with "..." if there are many */
	unsigned partial;            /* of enum hf_partial; 0: complete */
	uint64_t missing_bytes;      /* with HF_PARTIAL_MEMORY */
	struct hf_error *lost;       /* with HF_PARTIAL_MEMORY, or NULL: memory
				      * that the image has not; see _deinit */
	struct hf_error *unsupported; /* with HF_PARTIAL_UNSUPPORTED: which,
				       * and what to do; see _deinit */
};

void hf_index_summary_deinit(struct hf_index_summary *summary);
HF_DEFINE_AUTO(struct hf_index_summary *, hf_index_summary,
	       hf_index_summary_deinit)

/**
 * Read all heaps of the image and write the database at `path`, which must
 * not exist.
 */
struct hf_error *hf_index(struct hf_image *image, const char *path,
			  const struct hf_index_options *options,
			  struct hf_index_summary *summary_ret) HF_MUST_CHECK;

#endif
