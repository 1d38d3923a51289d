/* Verbs: the table of commands.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "query/cli/cli.h"

const struct hf_verb *const hf_verbs[] = {
	&hf_verb_doctor, &hf_verb_snapshot, &hf_verb_run, &hf_verb_index,
	&hf_verb_core, &hf_verb_info,
	&hf_verb_census, &hf_verb_top, &hf_verb_threads,
	&hf_verb_retainers, &hf_verb_path, &hf_verb_leaks, &hf_verb_sql,
	&hf_verb_help, &hf_verb_version, NULL,
};

const struct hf_verb *hf_verb_find(const char *name)
{
	for (size_t i = 0; hf_verbs[i]; i++)
		if (!strcmp(hf_verbs[i]->name, name))
			return hf_verbs[i];
	return NULL;
}

enum { MAX_VERB = 32 };

/* Edits (insert, delete, change one letter) from a to b, both shorter than
 * MAX_VERB: row by row of the usual table. */
static size_t edits(const char *a, const char *b)
{
	size_t row[MAX_VERB + 1], len = strlen(b);

	for (size_t j = 0; j <= len; j++)
		row[j] = j;
	for (size_t i = 1; a[i - 1]; i++) {
		size_t diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= len; j++) {
			size_t best = diagonal + (a[i - 1] != b[j - 1]);

			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			diagonal = row[j];
			row[j] = best;
		}
	}
	return row[len];
}

const struct hf_verb *hf_verb_suggest(const char *name)
{
	const struct hf_verb *best = NULL;
	size_t best_edits = 3; /* more than two are another word */

	if (strlen(name) >= MAX_VERB)
		return NULL;
	for (size_t i = 0; hf_verbs[i]; i++) {
		size_t n = edits(name, hf_verbs[i]->name);

		if (strlen(name) >= 3 &&
		    !strncmp(name, hf_verbs[i]->name, strlen(name)))
			n = 0;
		/* Half of the letters must be right. */
		if (n < best_edits && n * 2 < strlen(name)) {
			best_edits = n;
			best = hf_verbs[i];
		}
	}
	return best;
}
