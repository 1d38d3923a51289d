/* The row of table `snapshot`: where and how the snapshot was taken.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_DB_SNAPSHOT_ROW_H
#define HF_INDEXER_DB_SNAPSHOT_ROW_H

#include <stdbool.h>
#include <stdint.h>

#define HF_UNKNOWN_U64 UINT64_MAX /* NULL in the database */

/** Same names as the columns; texts are borrowed, NULL is NULL. */
struct hf_snapshot_row {
	uint64_t taken_ns;       /* CLOCK_REALTIME */
	uint64_t pid;
	uint64_t start_time;     /* clock ticks since boot */
	const char *boot_id;
	const char *command;     /* comm, never arguments */
	const char *source;      /* live | core | agent | stop */
	const char *safe_point;  /* found | missed | unknown | none */
	const char *consistency; /* exact | late_memory | in_allocator |
				  * partial_threads */
	bool partial;
	uint64_t pause_ns, stop_ns, regs_ns, fork_ns, resume_ns, reap_ns;
	uint64_t child_life_ns;
	uint64_t cow_pages;
	uint64_t parent_faults;
	uint64_t dropped_bytes;
	uint64_t peak_private_bytes;
	uint64_t attempts;
	uint64_t missed_pause_ns;
	uint64_t safe_point_tries;
	uint64_t pause_calls, max_thread_calls;
	uint64_t partial_threads; /* of threads */
	uint64_t threads;
	uint64_t objects, refs;      /* live blocks; references */
	uint64_t live_bytes;         /* usable bytes of all live blocks */
	uint64_t private_anon_bytes; /* resident private anonymous writable */
	uint64_t unknown_bytes;      /* of this: no reader, no root explains */
};

#endif
