/* The notes of a core, as bytes.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_CORE_CORE_NOTES_WRITE_H
#define HF_COREDUMP_CORE_CORE_NOTES_WRITE_H

#include "coredump/core/byte_buffer.h"
#include "coredump/core/core_format.h"
#include "coredump/image.h"
#include "coredump/process_info.h"

/**
 * Append all notes of an image. Threads come in the order of the image; the
 * first is the leader, and is asked for even if there is none.
 *
 * @param capture text for HF_NOTE_CAPTURE, or NULL.
 * @param stripped no vector registers, and HF_NOTE_STRIPPED instead of
 * HF_NOTE_IMAGE.
 */
void hf_core_notes_write(struct hf_byte_buffer *buffer,
			 const struct hf_image *image,
			 const struct hf_process_info *process,
			 const char *capture, bool stripped);

/** One note. */
void hf_core_note_write(struct hf_byte_buffer *buffer, const char *name,
			uint32_t type, const void *desc, size_t len);

#endif
