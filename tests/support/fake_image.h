/* Fake images: an address space made of tables and pokes.
 * SPDX-License-Identifier: MIT */
#ifndef HF_TESTS_SUPPORT_FAKE_IMAGE_H
#define HF_TESTS_SUPPORT_FAKE_IMAGE_H

#include "coredump/image.h"

/* Memory is kept by pages, only those that were poked or touched: a segment of
 * 64 GB is fine. A page that was poked or touched before the freeze is
 * resident. All functions abort on misuse: a test that sets up nonsense shall
 * not run. */

struct fake_image;

struct fake_image *fake_image_create(void);
/** The image made of it, if any, is destroyed too. */
void fake_image_destroy(struct fake_image *fake);

/* Before the freeze. */

/** Any segment; of the struct, start, end, prot, kind, absent, file_offset,
 * device, inode and path count. */
void fake_image_add_segment(struct fake_image *fake,
			    const struct hf_segment *segment);
/** Private anonymous, readable and writable, zero where not resident. */
void fake_image_add_anon(struct fake_image *fake, uint64_t start, uint64_t end);
/** As above, kind BRK and path "[heap]". */
void fake_image_add_brk(struct fake_image *fake, uint64_t start, uint64_t end);
void fake_image_add_thread(struct fake_image *fake,
			   const struct hf_thread *thread);
/** A thread with these registers and tid, named "thread". */
void fake_image_add_thread_at(struct fake_image *fake, pid_t tid, uint64_t rsp,
			      uint64_t fs_base);
/** What open_file gives for `path`. Copied. */
void fake_image_add_file(struct fake_image *fake, const char *path,
			 const void *bytes, size_t len);
/** Make the pages of the range resident (zero unless poked). */
void fake_image_touch(struct fake_image *fake, uint64_t start, uint64_t end);
/** Reads of the page with addr fail, resident or not. */
void fake_image_fail(struct fake_image *fake, uint64_t addr);
/** Bytes that a HF_ABSENT_FILE segment has where it is not resident. */
void fake_image_poke_file(struct fake_image *fake, uint64_t addr,
			  const void *bytes, size_t len);

/* Before the freeze, or after it on pages that are resident already. */
void fake_image_poke(struct fake_image *fake, uint64_t addr, const void *bytes,
		     size_t len);
void fake_image_poke_u64(struct fake_image *fake, uint64_t addr,
			 uint64_t value);

/** Make and freeze the image; it lives as long as the fake. */
struct hf_image *fake_image_freeze(struct fake_image *fake);
/** As fake_image_freeze, if the freeze may fail. */
struct hf_error *fake_image_try_freeze(struct fake_image *fake,
				       struct hf_image **ret) HF_MUST_CHECK;
/** Read operations so far. */
size_t fake_image_num_reads(const struct fake_image *fake);

/** Bytes at an address, for the table. */
struct fake_bytes {
	uint64_t addr;
	const void *bytes;
	size_t len;
};

/** A whole image as a table. */
struct fake_table {
	const struct hf_segment *segments;
	size_t num_segments;
	const struct hf_range *resident; /* touched; bytes are too */
	size_t num_resident;
	const struct fake_bytes *bytes;
	size_t num_bytes;
	const struct hf_thread *threads;
	size_t num_threads;
};

/** Not frozen yet: more may be added. */
struct fake_image *fake_image_from_table(const struct fake_table *table);

HF_DEFINE_AUTO(struct fake_image *, fake_image, fake_image_destroy)

#endif
