/* Core sink: bytes and holes, one after the other, into a file.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_CORE_CORE_SINK_H
#define HF_COREDUMP_CORE_CORE_SINK_H

#include <sys/types.h>

#include "util/error.h"

struct hf_core_sink;

struct hf_core_sink_options {
	int zstd_level;           /* 0: plain, with holes */
	unsigned num_workers;     /* threads that compress; 0: one per CPU */
	uint64_t max_bytes;       /* 0: any */
	uint64_t keep_free_bytes; /* on the file system */
};

/** @param fd an empty, seekable file; borrowed. @param name borrowed. */
struct hf_error *hf_core_sink_create(int fd, const char *name,
				     const struct hf_core_sink_options *options,
				     struct hf_core_sink **ret) HF_MUST_CHECK;
void hf_core_sink_destroy(struct hf_core_sink *sink);

/** @return NULL, NO_SPACE or OS. */
struct hf_error *hf_core_sink_put(struct hf_core_sink *sink, const void *bytes,
				  size_t len) HF_MUST_CHECK;
struct hf_error *hf_core_sink_skip(struct hf_core_sink *sink, uint64_t len)
	HF_MUST_CHECK;

/** Write what is still in hand. @return as put. */
struct hf_error *hf_core_sink_finish(struct hf_core_sink *sink,
				     uint64_t *file_bytes_ret,
				     uint64_t *disk_bytes_ret) HF_MUST_CHECK;

HF_DEFINE_AUTO(struct hf_core_sink *, hf_core_sink, hf_core_sink_destroy)

#endif
