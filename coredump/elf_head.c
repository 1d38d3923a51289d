/* ELF header, program headers and build id, from memory or from a file.
 * SPDX-License-Identifier: MIT */
#include "coredump/elf_head.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "coredump/image_internal.h"

/* A note (System V ABI, "Note Section"; elf.h, Elf64_Nhdr), padded to 4 bytes,
 * or to 8 where the segment says p_align = 8:
 *
 *   +0  n_namesz  4, with the NUL
 *   +4  n_descsz
 *   +8  n_type    NT_GNU_BUILD_ID = 3
 *   +12 name      "GNU\0"
 *   ... desc      the build id
 */

bool hf_elf_head_read(hf_elf_read_fn *read, void *arg, struct hf_elf_head *ret)
{
	const Elf64_Ehdr *header = &ret->header;

	if (!read(arg, 0, &ret->header, sizeof(ret->header)))
		return false;
	if (memcmp(header->e_ident, ELFMAG, SELFMAG) ||
	    header->e_ident[EI_CLASS] != ELFCLASS64 ||
	    header->e_ident[EI_DATA] != ELFDATA2LSB ||
	    header->e_machine != EM_X86_64 ||
	    (header->e_type != ET_EXEC && header->e_type != ET_DYN) ||
	    header->e_phentsize != sizeof(Elf64_Phdr) ||
	    !header->e_phnum || header->e_phnum > HF_MAX_PROGRAM_HEADERS)
		return false;
	ret->num_phdrs = header->e_phnum;
	return read(arg, header->e_phoff, ret->phdrs,
		    ret->num_phdrs * sizeof(ret->phdrs[0]));
}

void hf_elf_notes_build_id(const void *notes, size_t len, uint64_t align,
			   struct hf_build_id *ret)
{
	const char *bytes = notes;
	size_t at = 0, mask = align == 8 ? 7 : 3;

	ret->num_bytes = 0;
	while (at < len && len - at >= sizeof(Elf64_Nhdr)) {
		Elf64_Nhdr note;
		size_t desc, next;

		memcpy(&note, bytes + at, sizeof(note));
		at += sizeof(note);
		/* Sums of a few 32-bit numbers do not wrap in 64 bits. */
		desc = (at + note.n_namesz + mask) & ~mask;
		next = (desc + note.n_descsz + mask) & ~mask;
		if (desc > len || note.n_descsz > len - desc)
			return;
		if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
		    !memcmp(bytes + at, ELF_NOTE_GNU, 4) && note.n_descsz &&
		    note.n_descsz <= HF_MAX_BUILD_ID_BYTES) {
			memcpy(ret->bytes, bytes + desc, note.n_descsz);
			ret->num_bytes = note.n_descsz;
			return;
		}
		at = next;
	}
}

static bool read_file(void *arg, uint64_t offset, void *buf, size_t len)
{
	const int *fd = arg;
	size_t done = 0;

	if (offset > INT64_MAX - len)
		return false;
	while (done < len) {
		ssize_t got = pread(*fd, (char *)buf + done, len - done,
				    offset + done);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return false;
		done += got;
	}
	return true;
}

bool hf_elf_file_build_id(int fd, struct hf_build_id *ret, uint64_t *size_ret)
{
	struct hf_elf_head head;
	struct stat st;

	ret->num_bytes = 0;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) ||
	    !hf_elf_head_read(read_file, &fd, &head))
		return false;
	*size_ret = st.st_size;
	for (size_t i = 0; i < head.num_phdrs && !ret->num_bytes; i++) {
		const Elf64_Phdr *phdr = &head.phdrs[i];
		size_t len = hf_min_u64(phdr->p_filesz, HF_MAX_NOTE_BYTES);
		HF_AUTO_FREE void *notes = NULL;

		if (phdr->p_type != PT_NOTE || !len)
			continue;
		notes = malloc(len);
		if (notes && read_file(&fd, phdr->p_offset, notes, len))
			hf_elf_notes_build_id(notes, len, phdr->p_align, ret);
	}
	return true;
}
