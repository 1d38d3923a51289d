/* Own notes: what a core of ours says that others do not.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_CORE_OWN_NOTES_H
#define HF_COREDUMP_CORE_OWN_NOTES_H

#include "coredump/core/core_notes.h"

/** Bytes of a HF_NOTE_THREADS; borrowed. All zero: there is none. */
struct hf_own_threads {
	const uint8_t *desc;
	size_t len;
};

/** Take in HF_NOTE_IMAGE or HF_NOTE_CAPTURE; other types are ignored. One
 * that is damaged, or of a later version, is counted and has no effect. */
struct hf_error *hf_own_note_take(struct hf_core_notes *notes, uint32_t type,
				  const uint8_t *desc, size_t len)
	HF_MUST_CHECK;

/** Put names and states to the threads, which stand in the order of their
 * PRSTATUS. */
void hf_own_threads_take(struct hf_core_notes *notes,
			 const struct hf_own_threads *own);

#endif
