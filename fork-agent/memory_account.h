/* Memory account: what a fork would copy of a process, from its smaps.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_MEMORY_ACCOUNT_H
#define HF_FORK_AGENT_MEMORY_ACCOUNT_H

#include <sys/types.h>

#include "util/error.h"

/** Marks of programs in the paths of mappings. */
enum hf_memory_mark {
	HF_MARK_GLIBC = 1 << 0,
	HF_MARK_MUSL = 1 << 1,
	HF_MARK_JEMALLOC = 1 << 2,
	HF_MARK_TCMALLOC = 1 << 3,
	HF_MARK_MIMALLOC = 1 << 4,
	HF_MARK_WINE = 1 << 5,
	HF_MARK_BRK = 1 << 6,      /* [heap]: glibc's first arena is there */
};

struct hf_memory_account {
	uint64_t num_mappings;     /* that a fork copies */
	uint64_t small_pages;      /* entries of page tables that it copies */
	uint64_t huge_pages;       /* of 2 MiB, copied as one entry each */
	uint64_t table_bytes;      /* page tables of the child, about */
	uint64_t private_bytes;    /* resident, private, written: what can be
				    * copied page by page afterwards */
	uint64_t anon_huge_bytes;  /* of them in huge pages */
	uint64_t swap_bytes;
	uint64_t shared_bytes;     /* resident in writable shared mappings:
				    * not copied, so not of one instant */
	uint64_t dontfork_bytes;   /* size of mappings a fork leaves out */
	uint64_t wipe_bytes;       /* ... leaves empty in the child */
	uint64_t committed_bytes;  /* size of what the kernel has to promise
				    * to the child under strict overcommit */
	uint32_t marks;            /* enum hf_memory_mark */
};

/** From the text of smaps, NUL-terminated at `len`. Numbers saturate. @return
 * NULL, or BAD_DATA if it does not begin with a mapping. */
struct hf_error *hf_memory_account_parse(const char *text, size_t len,
					 struct hf_memory_account *ret)
	HF_MUST_CHECK;

/** Of a running process; nobody is stopped. @return what reading smaps says:
 * PERMISSION, TARGET_GONE, ... */
struct hf_error *hf_memory_account_read(pid_t pid,
					struct hf_memory_account *ret)
	HF_MUST_CHECK;

#endif
