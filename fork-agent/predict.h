/* Predict: how long a capture would stop a process, and what it would cost.
 * SPDX-License-Identifier: MIT */
#ifndef HF_FORK_AGENT_PREDICT_H
#define HF_FORK_AGENT_PREDICT_H

#include "fork-agent/lab.h"
#include "fork-agent/memory_account.h"

/* The pause is made of two parts. Threads: each is stopped, read and resumed,
 * which costs what it costs the lab's; one that waits for a CPU costs its
 * turn, too. Fork: the kernel copies an entry for each page, whatever the size
 * of the heap: 512 small pages cost far more than the huge page that could
 * stand for them. */

struct hf_prediction {
	uint64_t pause_ns;       /* the sum of both: what is to be expected */
	uint64_t long_pause_ns;  /* and if it has to wait for a CPU to stop, to
				  * fork and to resume, as long as the lab had
				  * to in its worst moment */
	uint64_t threads_ns;
	uint64_t fork_ns;
	uint32_t num_threads;
	uint32_t num_running;    /* on a CPU, or in the queue for one */
	uint64_t child_bytes;    /* memory of the child before anything is
				  * written: page tables and mappings */
	uint64_t most_bytes;     /* and if the process writes to all of its
				  * memory while the child lives */
};

/** Threads as they are at this moment. */
struct hf_thread_count {
	uint32_t num;
	uint32_t num_running;   /* state R */
	uint32_t num_disk;      /* state D: cannot be stopped now */
	uint32_t num_vfork;     /* of those: in vfork, or a spawn */
	uint32_t num_stopped;   /* state T: by job control */
	uint32_t num_traced;    /* state t */
};

/** @return TARGET_GONE, or what listing the threads says. */
struct hf_error *hf_thread_count_read(pid_t pid, struct hf_thread_count *ret)
	HF_MUST_CHECK;

/** Can be made of these? false: the lab could not measure (see there). */
bool hf_predict_can(const struct hf_lab *lab);

/** @param num_cpus that are online; at least 1. */
void hf_predict_from(const struct hf_lab *lab,
		     const struct hf_memory_account *account,
		     const struct hf_thread_count *threads, uint32_t num_cpus,
		     struct hf_prediction *ret);

/**
 * Measure, count, and predict. Costs some tens of milliseconds, and a walk
 * over the page tables of the process (smaps); nobody is stopped.
 *
 * @return PERMISSION, TARGET_GONE, OS, or UNSUPPORTED where the lab cannot
 * measure because the kernel forbids what a capture needs.
 */
struct hf_error *hf_predict(pid_t pid, struct hf_prediction *ret)
	HF_MUST_CHECK;

#endif
