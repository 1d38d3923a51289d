/* Anomalies: damage found on the way, counted and sampled.
 * SPDX-License-Identifier: MIT */
#include "indexer/anomaly.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { HF_MAX_ANOMALY_KINDS = 64 };

struct hf_anomalies {
	/* The last entry collects kinds that found no room. */
	struct hf_anomaly all[HF_MAX_ANOMALY_KINDS];
	size_t num;
};

struct hf_error *hf_anomalies_create(struct hf_anomalies **ret)
{
	struct hf_anomalies *anomalies = calloc(1, sizeof(*anomalies));

	if (!anomalies)
		return &hf_enomem;
	*ret = anomalies;
	return NULL;
}

void hf_anomalies_destroy(struct hf_anomalies *anomalies)
{
	free(anomalies);
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && !strcmp(a, b));
}

void hf_anomaly_add(struct hf_anomalies *anomalies, const char *reader,
		    const char *kind, uint64_t addr, const char *format, ...)
{
	struct hf_anomaly *slot;
	va_list args;
	size_t i;

	if (!anomalies)
		return;
	for (i = 0; i < anomalies->num; i++) {
		slot = &anomalies->all[i];
		if (same_text(slot->kind, kind) &&
		    same_text(slot->reader, reader)) {
			slot->count++;
			return;
		}
	}
	if (anomalies->num == HF_MAX_ANOMALY_KINDS) {
		slot = &anomalies->all[HF_MAX_ANOMALY_KINDS - 1];
		slot->kind = "further kinds";
		slot->reader = NULL;
		slot->count++;
		return;
	}
	slot = &anomalies->all[anomalies->num++];
	slot->kind = kind;
	slot->reader = reader;
	slot->addr = addr;
	slot->count = 1;
	va_start(args, format);
	vsnprintf(slot->detail, sizeof(slot->detail), format, args);
	va_end(args);
}

const struct hf_anomaly *hf_anomalies_all(const struct hf_anomalies *anomalies,
					  size_t *num_ret)
{
	*num_ret = anomalies->num;
	return anomalies->all;
}

uint64_t hf_anomalies_total(const struct hf_anomalies *anomalies)
{
	uint64_t total = 0;

	for (size_t i = 0; i < anomalies->num; i++)
		total += anomalies->all[i].count;
	return total;
}
