/* Fuzzes the reader of a core's notes.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "coredump/core/core_notes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	__attribute__((cleanup(hf_auto_hf_core_notes)))
	struct hf_core_notes notes = { 0 };
	struct hf_error *err = hf_core_notes_parse(data, size, &notes);
	uint64_t end = 0;

	if (err)
		abort();
	for (size_t i = 0; i < notes.mapped.num; i++) {
		const struct hf_core_mapped *mapped = &notes.mapped.data[i];

		if (mapped->range.start < end ||
		    mapped->range.start >= mapped->range.end ||
		    (const uint8_t *)mapped->path < data ||
		    (const uint8_t *)mapped->path + strlen(mapped->path) >=
			    data + size)
			abort();
		end = mapped->range.end;
	}
	end = 0;
	for (size_t i = 0; i < notes.segments.num; i++) {
		if (notes.segments.data[i].start < end)
			abort();
		end = notes.segments.data[i].end;
	}
	for (size_t i = 0; i < notes.threads.num; i++) {
		const struct hf_thread *thread = &notes.threads.data[i];

		if (strnlen(thread->name, sizeof(thread->name)) ==
		    sizeof(thread->name))
			abort();
		if (thread->xstate_bytes &&
		    ((uint8_t *)thread->xstate < data ||
		     (uint8_t *)thread->xstate + thread->xstate_bytes >
			     data + size))
			abort();
	}
	return 0;
}
