/* Anomalies: damage found on the way, counted and sampled.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_ANOMALY_H
#define HF_INDEXER_ANOMALY_H

#include "util/error.h"

/** One kind of damage at one place of the code that saw it. */
struct hf_anomaly {
	const char *kind;   /* short lower-case words: "chunk size"; static */
	const char *reader; /* name of the reader, or NULL; static */
	uint64_t addr;      /* where it was first seen */
	uint64_t count;     /* how often */
	char detail[96];    /* of the first one */
};

struct hf_anomalies;

struct hf_error *hf_anomalies_create(struct hf_anomalies **ret) HF_MUST_CHECK;
void hf_anomalies_destroy(struct hf_anomalies *anomalies);

/** Count one. Never fails: the table of kinds is bounded and kinds beyond it
 * are counted together. NULL anomalies is fine. */
void hf_anomaly_add(struct hf_anomalies *anomalies, const char *reader,
		    const char *kind, uint64_t addr, const char *format, ...)
	HF_PRINTF(5, 6);

const struct hf_anomaly *hf_anomalies_all(const struct hf_anomalies *anomalies,
					  size_t *num_ret);
uint64_t hf_anomalies_total(const struct hf_anomalies *anomalies);

HF_DEFINE_AUTO(struct hf_anomalies *, hf_anomalies, hf_anomalies_destroy)

#endif
