/* The parts of an ELF core, and the notes that are our own.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_CORE_CORE_FORMAT_H
#define HF_COREDUMP_CORE_CORE_FORMAT_H

#include <elf.h>
#include <stdint.h>

/* A core of x86-64 Linux (fs/binfmt_elf.c, Linux 6.1; the last note 6.12):
 *
 *	ELF header        e_type ET_CORE; e_phnum, or PN_XNUM and then the
 *	                  count in sh_info of the only section header
 *	program headers   PT_NOTE, then PT_LOAD in address order
 *	notes             of the leader: PRSTATUS, PRPSINFO, SIGINFO, AUXV,
 *	                  FILE, FPREGSET, X86_XSTATE; of each other thread:
 *	                  PRSTATUS, FPREGSET, X86_XSTATE; X86_XSAVE_LAYOUT
 *	(padding)         to a page
 *	memory            of each PT_LOAD p_filesz bytes, at a page
 *	section header    only with PN_XNUM
 *
 * A note is namesz, descsz, type (4 bytes each), name and desc, each padded
 * to 4 bytes. NT_FILE: count, page size, then start, end, offset in pages for
 * each mapping (8 bytes each), then the paths, each with its NUL.
 *
 * Ours, name "HEAPFORK": what a core cannot say otherwise. Numbers are 8 bytes
 * little-endian, texts are a number and so many bytes.
 *
 *	HF_NOTE_IMAGE     version
 *	                  number of segments, and for each start, end, prot,
 *	                  kind, absent, late, advice, file offset, device,
 *	                  inode, path
 *	                  number of resident ranges, and for each start, end
 *	                  number of losses, and for each its text
 *	HF_NOTE_THREADS   version
 *	                  number of threads, and for each, in the order of
 *	                  their PRSTATUS: tid, stop_how, state, sigmask, name
 *	HF_NOTE_STRIPPED  empty: only what stacks need is in the core, and
 *	                  HF_NOTE_IMAGE is not
 *	HF_NOTE_MISSING   in a PT_NOTE of its own at the end of the file,
 *	                  padded to HF_MISSING_BYTES: version, number, and
 *	                  for each range that could not be read start, end;
 *	                  zeros stand in its place
 *	HF_NOTE_CAPTURE   texts, one "key=value" line each: what the capture
 *	                  cost and found */

#define HF_NOTE_NAME "HEAPFORK"

enum {
	/* Types that nobody else uses, whatever the name. */
	HF_NOTE_IMAGE = 0x48460001,
	HF_NOTE_THREADS = 0x48460002,
	HF_NOTE_CAPTURE = 0x48460003,
	HF_NOTE_STRIPPED = 0x48460004,
	HF_NOTE_MISSING = 0x48460005,

	HF_NOTE_VERSION = 1,
	HF_MISSING_BYTES = 4096,  /* of its desc */
	HF_MISSING_MAX = 254,     /* ranges; the last one may span several */
};

/* Not in glibc's <elf.h> before 2.41. */
#define HF_NT_X86_XSAVE_LAYOUT 0x205

/** An entry of that note (arch/x86/include/uapi/asm/elf.h, Linux 6.12). */
struct hf_xsave_component {
	uint32_t type;   /* number of the component, as in CPUID 0Dh */
	uint32_t size;   /* bytes */
	uint32_t offset; /* in the standard format */
	uint32_t flags;  /* ECX of CPUID 0Dh */
};

/** Bits as of /proc/PID/coredump_filter (core(5)). */
enum hf_core_filter {
	HF_CORE_ANON_PRIVATE = 1 << 0,
	HF_CORE_ANON_SHARED = 1 << 1,
	HF_CORE_FILE_PRIVATE = 1 << 2,
	HF_CORE_FILE_SHARED = 1 << 3,
	HF_CORE_ELF_HEADERS = 1 << 4,
	HF_CORE_HUGE_PRIVATE = 1 << 5,
	HF_CORE_HUGE_SHARED = 1 << 6,
	HF_CORE_DAX_PRIVATE = 1 << 7,
	HF_CORE_DAX_SHARED = 1 << 8,
	HF_CORE_FILTER_DEFAULT = 0x33,
};

#endif
