/* Image: one readable, frozen address space.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_IMAGE_H
#define HF_COREDUMP_IMAGE_H

#include <sys/types.h>
#include <sys/user.h>

#include "util/error.h"

/* A live forked child, an ELF core and a test fake are the same image with
 * another table of operations. Whoever opens one adds segments, resident
 * ranges, modules and threads, then calls hf_image_freeze(); from then on the
 * image is constant and may be read from several threads.
 *
 * What is missing is never read as zero: a byte is readable if it is resident
 * (the operations can deliver it), or if its segment says that everything
 * not resident is zero (untouched anonymous memory). */

/** What the bytes of a segment outside its resident ranges are. */
enum hf_absent {
	HF_ABSENT_MISSING, /* not readable: never read as zero */
	HF_ABSENT_ZERO,    /* private anonymous memory never touched */
	HF_ABSENT_FILE,    /* unmodified file bytes: the operations read them */
};

enum hf_segment_kind {
	HF_SEGMENT_ANON,   /* private anonymous: heaps, arenas, stacks */
	HF_SEGMENT_BRK,    /* the [heap] mapping */
	HF_SEGMENT_STACK,  /* the main thread's [stack] */
	HF_SEGMENT_FILE,   /* private file mapping: text, rodata, data */
	HF_SEGMENT_SHARED, /* MAP_SHARED */
	HF_SEGMENT_VDSO,
	HF_SEGMENT_SPECIAL /* vvar, vsyscall, device memory: not readable */
};

/** What the program, or a driver, told the kernel about a segment: bits. */
enum hf_advice {
	HF_ADVICE_DONTFORK = 1 << 0,   /* keep it out of forks */
	HF_ADVICE_WIPEONFORK = 1 << 1, /* empty it in forks */
	HF_ADVICE_DONTDUMP = 1 << 2,   /* keep it out of core files; no reason
					* not to have it in an image */
	HF_ADVICE_IO = 1 << 3,         /* memory of a device, or without struct
					* page: reading it may do something */
};

#define HF_NO_MODULE UINT32_MAX

struct hf_segment {
	uint64_t start, end;       /* [start, end), page aligned */
	uint32_t prot;             /* PROT_* of <sys/mman.h> */
	enum hf_segment_kind kind;
	enum hf_absent absent;     /* meaning of what is not resident */
	uint32_t advice;           /* of enum hf_advice */
	bool late;                 /* not of the instant: its bytes are as they
				    * were when they were read, since a fork
				    * leaves them out or shares them */
	uint32_t module_id;        /* index in modules, or HF_NO_MODULE */
	uint64_t file_offset;      /* of start in the mapped file */
	uint64_t device, inode;    /* of that file as maps tells them, 0 if
				    * not known */
	uint64_t resident_bytes;   /* filled in by the freeze */
	const char *path;          /* as in maps, or NULL; owned by the image */
};

/** A half-open range of addresses. */
struct hf_range {
	uint64_t start, end;
};

/** A loaded ELF object: the executable, a library, the vdso. */
struct hf_module {
	const char *path;        /* as mapped; owned by the image */
	uint64_t start, end;     /* hull of its mappings. Its last segment may
				  * go on behind it: the kernel merges .bss
				  * with other anonymous memory */
	uint64_t bias;           /* runtime address - ELF p_vaddr */
	uint8_t build_id[32];    /* of .note.gnu.build-id in memory */
	uint32_t build_id_bytes; /* 0: it has none */
	uint64_t tls_bytes;      /* PT_TLS p_memsz, 0 if none */
	uint64_t tls_align;      /* PT_TLS p_align */
	uint64_t tls_image_addr; /* PT_TLS p_vaddr + bias, 0 if none */
	bool deleted;            /* the file is gone or was replaced */
};

enum hf_stop_how {
	HF_STOP_SYSCALL, /* blocked in a system call */
	HF_STOP_USER,    /* in user code */
	HF_STOP_SIGNAL,  /* a signal was about to be delivered */
	HF_STOP_PARTIAL, /* could not be stopped (vfork, D state): only the
			  * fields that /proc shows are valid */
};

struct hf_thread {
	pid_t tid;                    /* in the reader's pid namespace */
	char name[16];                /* comm, NUL-terminated */
	char state;                   /* as in /proc/PID/stat at the stop */
	enum hf_stop_how stop_how;
	struct user_regs_struct regs; /* as the thread had them at the stop */
	uint64_t sigmask;             /* blocked signals */
	void *xstate;                 /* XSTATE area, owned by the image */
	size_t xstate_bytes;          /* 0: not captured */
	/* Filled in by the freeze from regs.rsp and regs.fs_base: */
	struct hf_range stack;        /* [sp - 128, top); empty if unmapped */
	struct hf_range tls;          /* [TLS block, end of the thread's
				       * descriptor); empty if fs_base is 0 */
	bool on_other_stack;          /* sp is neither on [stack] nor on the
				       * mapping that holds its descriptor:
				       * an alternate signal stack or a
				       * coroutine. `stack` is then the whole
				       * rest of that mapping */
};

struct hf_image_ops {
	/**
	 * Copy from several ranges of the target, one after the other, into
	 * buf. Only resident and HF_ABSENT_FILE bytes are asked for.
	 *
	 * @return bytes copied; less than asked: the next byte is unreadable.
	 */
	size_t (*read)(void *arg, const struct hf_range *ranges,
		       size_t num_ranges, void *buf);
	/** Open the file behind a mapping in the target's own mount namespace.
	 * @return a descriptor the caller closes, or -1. May be NULL. */
	int (*open_file)(void *arg, const char *path,
			 const struct hf_range *mapping);
	void (*destroy)(void *arg);
};

struct hf_image;

/** @param arg handed to every operation; destroyed with the image, also if
 * this fails. */
struct hf_error *hf_image_create(const struct hf_image_ops *ops, void *arg,
				 struct hf_image **ret) HF_MUST_CHECK;
void hf_image_destroy(struct hf_image *image);

/* Before the freeze, in any order. Texts and xstate are copied. */
struct hf_error *hf_image_add_segment(struct hf_image *image,
				      const struct hf_segment *segment)
	HF_MUST_CHECK;
struct hf_error *hf_image_add_resident(struct hf_image *image,
				       struct hf_range range) HF_MUST_CHECK;
struct hf_error *hf_image_add_thread(struct hf_image *image,
				     const struct hf_thread *thread)
	HF_MUST_CHECK;
/** Say in one sentence what should be in the image and is not. Copied. */
struct hf_error *hf_image_add_loss(struct hf_image *image, const char *text)
	HF_MUST_CHECK;

/**
 * Sort, check (overlapping segments are BAD_DATA), find modules, and fill in
 * the derived fields of segments and threads.
 */
struct hf_error *hf_image_freeze(struct hf_image *image) HF_MUST_CHECK;

/* Sorted by address; borrowed, they live as long as the image. Each resident
 * range lies in one segment: they are cut where a segment ends. */
const struct hf_segment *hf_image_segments(const struct hf_image *image,
					   size_t *num_ret);
const struct hf_range *hf_image_resident(const struct hf_image *image,
					 size_t *num_ret);
const struct hf_module *hf_image_modules(const struct hf_image *image,
					 size_t *num_ret);
/* In the order they were added; the first is the thread group's leader. */
const struct hf_thread *hf_image_threads(const struct hf_image *image,
					 size_t *num_ret);
/* With any of these, the image is not whole. */
const char *const *hf_image_losses(const struct hf_image *image,
				   size_t *num_ret);

/** The segment that contains addr, or NULL. Binary search. */
const struct hf_segment *hf_image_find_segment(const struct hf_image *image,
					       uint64_t addr);
/** The module with addr in one of its mappings, or NULL. */
const struct hf_module *hf_image_find_module(const struct hf_image *image,
					     uint64_t addr);

/** Read exactly len bytes, or FAULT with the first unreadable address. */
struct hf_error *hf_image_read(const struct hf_image *image, uint64_t addr,
			       void *buf, size_t len) HF_MUST_CHECK;

/** Bytes copied; short at the first unreadable address. Never an error. */
size_t hf_image_read_some(const struct hf_image *image, uint64_t addr,
			  void *buf, size_t len);

/** One word, or false. A system call each time: for loops use a window. */
bool hf_image_peek_u64(const struct hf_image *image, uint64_t addr,
		       uint64_t *ret);

/** A NUL-terminated text of at most `size - 1` bytes, or false. */
bool hf_image_peek_string(const struct hf_image *image, uint64_t addr,
			  char *buf, size_t size);

/** Open a module's file, checked against the build id in memory.
 * @return a descriptor, or NOT_FOUND. */
struct hf_error *hf_image_open_module(const struct hf_image *image,
				      const struct hf_module *module,
				      int *fd_ret) HF_MUST_CHECK;

HF_DEFINE_AUTO(struct hf_image *, hf_image, hf_image_destroy)

#endif
