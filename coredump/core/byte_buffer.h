/* Byte buffer: bytes that are put together one after the other.
 * SPDX-License-Identifier: MIT */
#ifndef HF_COREDUMP_CORE_BYTE_BUFFER_H
#define HF_COREDUMP_CORE_BYTE_BUFFER_H

#include <string.h>

#include "util/array.h"

/** After a failed allocation nothing more is added: the error is asked for
 * once, at the end. All zero is empty. */
struct hf_byte_buffer {
	uint8_t *data;
	size_t num, capacity;
	bool failed;
};

static inline void hf_byte_buffer_deinit(struct hf_byte_buffer *buffer)
{
	hf_array_deinit(buffer);
}

static inline void hf_auto_hf_byte_buffer(void *buffer)
{
	hf_byte_buffer_deinit(buffer);
}

static inline void hf_byte_buffer_put(struct hf_byte_buffer *buffer,
				      const void *bytes, size_t len)
{
	struct hf_error *err;

	if (buffer->failed || !len)
		return;
	err = hf_array_reserve(buffer, len);
	if (err) {
		hf_error_ignore(err);
		buffer->failed = true;
		return;
	}
	memcpy(buffer->data + buffer->num, bytes, len);
	buffer->num += len;
}

static inline void hf_byte_buffer_put_u32(struct hf_byte_buffer *buffer,
					  uint32_t value)
{
	hf_byte_buffer_put(buffer, &value, sizeof(value));
}

static inline void hf_byte_buffer_put_u64(struct hf_byte_buffer *buffer,
					  uint64_t value)
{
	hf_byte_buffer_put(buffer, &value, sizeof(value));
}

/** A number and so many characters; NULL as "". */
static inline void hf_byte_buffer_put_text(struct hf_byte_buffer *buffer,
					   const char *text)
{
	size_t len = text ? strlen(text) : 0;

	hf_byte_buffer_put_u64(buffer, len);
	hf_byte_buffer_put(buffer, text, len);
}

/** Zeros up to a multiple of `align`, a power of two. */
static inline void hf_byte_buffer_align(struct hf_byte_buffer *buffer,
					size_t align)
{
	static const uint8_t zeros[8];

	while (!buffer->failed && buffer->num & (align - 1)) {
		size_t pad = align - (buffer->num & (align - 1));

		hf_byte_buffer_put(buffer, zeros,
				   pad < sizeof(zeros) ? pad : sizeof(zeros));
	}
}

static inline struct hf_error *
hf_byte_buffer_error(const struct hf_byte_buffer *buffer)
{
	return buffer->failed ? &hf_enomem : NULL;
}

#endif
