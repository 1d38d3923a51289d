/* ELF header, program headers and build id, from memory or from a file.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_ELF_HEAD_H
#define HF_COREDUMP_ELF_HEAD_H

#include <elf.h>

#include "util/error.h"

enum {
	HF_MAX_PROGRAM_HEADERS = 128, /* real ones have about 12 */
	HF_MAX_BUILD_ID_BYTES = 32,
	HF_MAX_NOTE_BYTES = 65536,    /* of one PT_NOTE that are looked at */
};

struct hf_elf_head {
	Elf64_Ehdr header;
	Elf64_Phdr phdrs[HF_MAX_PROGRAM_HEADERS];
	size_t num_phdrs;
};

struct hf_build_id {
	uint8_t bytes[HF_MAX_BUILD_ID_BYTES];
	uint32_t num_bytes; /* 0: none */
};

/** Copy `len` bytes at offset `offset` of the ELF file, or false. */
typedef bool hf_elf_read_fn(void *arg, uint64_t offset, void *buf, size_t len);

/**
 * Read the headers of an x86-64 executable or shared object.
 *
 * @return false if it is something else, or damaged.
 */
bool hf_elf_head_read(hf_elf_read_fn *read, void *arg,
		      struct hf_elf_head *ret) HF_MUST_CHECK;

/** The build id in the notes; num_bytes is 0 if there is none. */
void hf_elf_notes_build_id(const void *notes, size_t len, uint64_t align,
			   struct hf_build_id *ret);

/** The build id of an ELF file, by its PT_NOTE program headers.
 * @param size_ret bytes of the file.
 * @return false if it is no ELF file as hf_elf_head_read wants it. */
bool hf_elf_file_build_id(int fd, struct hf_build_id *ret,
			  uint64_t *size_ret) HF_MUST_CHECK;

#endif
