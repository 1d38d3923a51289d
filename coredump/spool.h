/* Spool: the bytes of an image, copied once, so that its process may go.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_SPOOL_H
#define HF_COREDUMP_SPOOL_H

#include "coredump/image.h"
#include "coredump/spool_store.h"
#include "util/progress.h"

/* An index reads its image several times over, and as long as it does the
 * process behind it must live: for a forked child that means that the target
 * copies each page it writes. A spool takes one pass, which ends sooner:
 *
 *	memory that was written   copied; what is likely to be written next
 *	                          first; pages of zeros take no room
 *	pages of files            not copied: the files are kept open
 *	memory left out of forks  stays with the parent, see late.h
 *
 * The image stays the same image, with the same segments and resident ranges;
 * only its bytes come from elsewhere. */

struct hf_spool_options {
	uint64_t memory_max;  /* bytes of memory the copy may take */
	const char *dir;      /* folder for a file if they are more, or NULL */
	size_t max_files;     /* descriptors that may be kept open */
	/**
	 * Called when some more private anonymous memory has been copied: it
	 * is not read from the process again. Each range is in one segment, and
	 * all that is resident in it has been copied. May be NULL. Its error
	 * ends the copy.
	 */
	struct hf_error *(*stored)(void *arg, const struct hf_range *ranges,
				   size_t num_ranges);
	/** Called when a page cannot be read, which may have a reason. Its
	 * error ends the copy. May be NULL. */
	struct hf_error *(*unreadable)(void *arg);
	void *arg;                     /* of both */
	const struct hf_progress *progress; /* phase "copy" */
};

struct hf_spool_report {
	enum hf_spool_place place;
	bool is_whole;         /* nothing is read from the process any more */
	uint64_t planned_bytes; /* that a copy takes, if no page is zero */
	uint64_t copied_bytes; /* of the image, zeros too */
	uint64_t zero_bytes;   /* of them */
	uint64_t stored_bytes; /* what the rest takes, in memory or a file */
	uint64_t table_bytes;  /* of our own tables */
	char why[200];         /* why it is not whole, as a clause */
};

/**
 * Copy the bytes of a frozen image. If there is no room for them, or the room
 * ends too early, the image still works: it reads from its process what was
 * not copied (report_ret->is_whole is false then), which must live on.
 *
 * @return NULL, NO_MEMORY, INTERRUPTED, or an error of a callback; the image can
 * only be destroyed then.
 */
struct hf_error *hf_spool_image(struct hf_image *image,
				const struct hf_spool_options *options,
				struct hf_spool_report *report_ret)
	HF_MUST_CHECK;

/** The bytes will not be needed any more: give back what they take. Reads fail
 * from now on. Nothing happens to an image without a spool. */
void hf_spool_discard(struct hf_image *image);

/** Can a file for a copy be made in this folder? None is left. @return OS. */
struct hf_error *hf_spool_probe(const char *dir) HF_MUST_CHECK;

#endif
