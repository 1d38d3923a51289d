/* Index model: everything the phases of one index found, for the writer.
 * SPDX-License-Identifier: MIT */
#ifndef HF_INDEXER_INDEX_MODEL_H
#define HF_INDEXER_INDEX_MODEL_H

#include "indexer/heap_reader.h"
#include "indexer/index.h"
#include "indexer/scan.h"
#include "indexer/stacks/stacks.h"
#include "indexer/type_table.h"

enum { HF_MAX_READERS = 16, HF_MAX_PHASES = 24 };

/* Nodes are those of indexer/scan.h: holders, then blocks. In the database
 * node n is object n + 1; behind them stand the two pseudo objects. */
struct hf_index_model {
	const struct hf_image *image;
	struct hf_anomalies *anomalies;
	struct hf_reader_info readers[HF_MAX_READERS];
	uint32_t num_readers;
	struct hf_block_table blocks;
	struct hf_stacks stacks;
	struct hf_holders holders;
	struct hf_edges edges;
	bool *is_inside;      /* each thread of the image: in an allocator */
	bool knows_places;    /* of an allocator: else is_inside says nothing */
	uint32_t num_inside;  /* threads */
	uint32_t num_locked;  /* arenas */
	struct hf_type_table *types;
	uint32_t num_nodes;
	uint32_t *node_type;      /* index in types */
	uint8_t *block_rule;      /* enum hf_type_rule of each block */
	uint32_t several_type;    /* of the pseudo object (several roots) */
	uint32_t unreachable_type;
	uint32_t *bfs_parent;     /* HF_NODE_NONE: unreachable */
	uint32_t *root_distance;  /* 0 for a holder */
	uint32_t *idom;           /* HF_NODE_ROOT: nothing dominates it */
	uint64_t *retained_bytes;
	uint64_t *type_retained;  /* of each type */
	uint64_t several_bytes;   /* retained under (several roots) */
	uint64_t unreachable_bytes;
	uint64_t num_unreachable;
	uint64_t live_bytes;
	bool partial;                 /* some memory could not be read */
	bool partial_threads;
	struct hf_error *lost; /* memory that the image has not, or NULL */
	struct hf_error *unsupported; /* the first heap of unknown version */
	const struct hf_index_fact *facts; /* of the caller, borrowed */
	size_t num_facts;
	struct hf_index_phase phases[HF_MAX_PHASES];
	uint32_t num_phases;
	const struct hf_progress *progress; /* of the caller, may be NULL */
};

/** Bits of enum hf_partial. */
unsigned hf_index_partial(const struct hf_index_model *model);

/** Note the end of a phase that began at start_ns. */
void hf_index_phase_done(struct hf_index_model *model, const char *name,
			 uint64_t items, uint64_t start_ns,
			 uint64_t peak_bytes);

/** Fill in what follows from the edges: parents, distances, dominators,
 * retained bytes. The CSR is not needed for it any more afterwards. */
struct hf_error *hf_index_analyse(struct hf_index_model *model) HF_MUST_CHECK;

/** Write all tables to a new database at `path`. */
struct hf_error *hf_index_write(struct hf_index_model *model, const char *path,
				const struct hf_snapshot_row *snapshot)
	HF_MUST_CHECK;

/** Size of a node as it counts in retained bytes: 0 for holders. */
static inline uint64_t hf_index_node_bytes(const struct hf_index_model *model,
					   uint32_t node)
{
	return node < model->holders.num
		       ? 0
		       : model->blocks.size_bytes[node - model->holders.num];
}

#endif
