/* Core file: headers of an ELF core, and where its bytes are.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_CORE_CORE_FILE_H
#define HF_COREDUMP_CORE_CORE_FILE_H

#include "coredump/image.h"
#include "util/array.h"
#include "util/progress.h"

/** A PT_LOAD as the image needs it: whole pages. */
struct hf_core_load {
	struct hf_range range;  /* of addresses */
	struct hf_range bytes;  /* of them: those the file should have; at the
				 * start of range, or empty */
	uint64_t offset;        /* of bytes.start in the file; it may be inside
				 * of a page: then bytes.start is, too */
	uint32_t prot;          /* PROT_* */
};

struct hf_core_file {
	int fd;                 /* owned; an unpacked copy if compressed */
	uint64_t size;          /* bytes of the file, or of the copy */
	HF_ARRAY(struct hf_core_load) loads; /* ascending, disjoint */
	HF_ARRAY(struct hf_core_load) filled; /* those with bytes */
	HF_ARRAY(struct hf_range) notes;     /* of offsets in the file */
	uint64_t needed_bytes;  /* length that the headers ask for */
	bool lost_notes;        /* notes behind the memory are not there */
	uint16_t machine;       /* e_machine */
};

/**
 * Open a core and read its headers. A compressed one is unpacked into a file
 * without a name in `scratch_dir` (NULL: $TMPDIR or /var/tmp).
 *
 * @param partial take a compressed core that ends too early for what is there.
 * @return NULL; BAD_DATA (no ELF core, or damaged), UNSUPPORTED (not x86-64),
 * NO_SPACE, OS. A file that is shorter than its headers say is no error here.
 */
struct hf_error *hf_core_file_open(const char *path, const char *scratch_dir,
				   bool partial,
				   const struct hf_progress *progress,
				   struct hf_core_file *ret) HF_MUST_CHECK;
void hf_core_file_close(struct hf_core_file *file);

/** The load with bytes at addr, or NULL. */
const struct hf_core_load *
hf_core_file_find(const struct hf_core_file *file, uint64_t addr);

/** Where the first bytes above addr begin; HF_ADDRESS_END: there are none. */
uint64_t hf_core_file_next(const struct hf_core_file *file, uint64_t addr);

/** Copy from [addr, addr + len), as far as there are bytes in one load. */
size_t hf_core_file_read(const struct hf_core_file *file, uint64_t addr,
			 void *buf, size_t len);

/** What is missing of a truncated core: ranges of addresses, ascending. */
struct hf_error *hf_core_file_missing(const struct hf_core_file *file,
				      struct hf_range **ret, size_t *num_ret)
	HF_MUST_CHECK;

/** Headers out of memory, for hf_core_file_open and its fuzzer: `size` is that
 * of the whole file. `file->fd` is not looked at.
 * @param read copies from the file, or returns false. */
struct hf_error *
hf_core_file_parse(bool (*read)(void *arg, uint64_t offset, void *buf,
				size_t len),
		   void *arg, uint64_t size, struct hf_core_file *file)
	HF_MUST_CHECK;

static inline void hf_auto_hf_core_file(void *file)
{
	hf_core_file_close(file);
}

#endif
