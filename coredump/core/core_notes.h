/* Core notes: what the notes of a core say.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_CORE_CORE_NOTES_H
#define HF_COREDUMP_CORE_CORE_NOTES_H

#include "coredump/core/core_format.h"
#include "coredump/image.h"
#include "coredump/process_info.h"
#include "util/array.h"

/** A mapped file, of NT_FILE. */
struct hf_core_mapped {
	struct hf_range range;
	uint64_t file_offset;   /* bytes */
	const char *path;       /* borrowed of the notes' bytes */
};

struct hf_core_notes {
	struct hf_process_info process;
	bool has_process;       /* PRPSINFO was there */
	HF_ARRAY(struct hf_thread) threads; /* the leader first, if it is
				* among them; xstate borrowed of the bytes */
	HF_ARRAY(struct hf_core_mapped) mapped; /* ascending, disjoint */
	bool has_mapped;        /* NT_FILE was there */
	/* Of HF_NOTE_IMAGE. Paths and texts are owned, in `texts`. */
	bool has_image;
	HF_ARRAY(struct hf_segment) segments;
	HF_ARRAY(struct hf_range) resident;
	HF_ARRAY(const char *) losses;
	HF_ARRAY(struct hf_range) missing; /* of HF_NOTE_MISSING */
	bool is_stripped;
	HF_ARRAY(char *) texts;
	char *capture;          /* of HF_NOTE_CAPTURE, owned, or NULL */
	uint64_t num_damaged;   /* notes that were not what they say */
};

/**
 * Read notes. What is damaged is left out and counted; names and texts that
 * have no end are cut.
 *
 * @param bytes of one or more PT_NOTE, one after the other; borrowed as long
 * as the result is used.
 * @return NULL or NO_MEMORY.
 */
struct hf_error *hf_core_notes_parse(const uint8_t *bytes, size_t len,
				     struct hf_core_notes *ret) HF_MUST_CHECK;
void hf_core_notes_deinit(struct hf_core_notes *notes);

static inline void hf_auto_hf_core_notes(void *notes)
{
	hf_core_notes_deinit(notes);
}

#endif
