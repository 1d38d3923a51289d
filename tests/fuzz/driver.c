/* Runs a fuzz target over its corpus without libFuzzer.
 * SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/file.h"

/* Usage: fuzz_NAME [-mutations=N] FOLDER. Every file of the folder is given to
 * the target as it is, then N times with some bytes changed or cut off. The
 * changes are the same in every run: a failure can be seen again. */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static uint32_t next_random(uint32_t *state)
{
	*state = *state * 1664525 + 1013904223;
	return *state >> 8;
}

/* A copy of exactly `size` bytes, so that a sanitizer sees the first byte too
 * many. */
static void run_one(const char *data, size_t size)
{
	uint8_t *copy = malloc(size ? size : 1);

	if (!copy)
		abort();
	memcpy(copy, data, size);
	LLVMFuzzerTestOneInput(copy, size);
	free(copy);
}

static void run_file(const char *path, unsigned long mutations)
{
	static const uint8_t values[] = { 0, 1, 0x7f, 0x80, 0xff, ' ', '\n' };
	HF_AUTO_FREE char *data = NULL;
	HF_AUTO_FREE char *changed = NULL;
	uint32_t random = 1;
	size_t size;
	struct hf_error *err = hf_read_file(path, &data, &size);

	if (err) {
		fprintf(stderr, "%s\n", err->message);
		exit(1);
	}
	run_one(data, size);
	changed = malloc(size + 1);
	if (!changed)
		abort();
	for (unsigned long i = 0; i < mutations && size; i++) {
		size_t len = next_random(&random) % 4 ? size :
			     next_random(&random) % size;

		memcpy(changed, data, size);
		for (uint32_t n = next_random(&random) % 8; n; n--) {
			uint32_t value = next_random(&random);
			/* Headers are at the front. */
			size_t range = next_random(&random) % 2 && size > 256 ?
				       256 : size;

			changed[next_random(&random) % range] =
				value % 2 ? (char)(value >> 4) :
				(char)values[(value >> 4) % sizeof(values)];
		}
		run_one(changed, len);
	}
}

int main(int argc, char **argv)
{
	unsigned long mutations = 0;
	struct dirent *entry;
	size_t num = 0;
	DIR *dir;

	if (argc > 1 && !strncmp(argv[1], "-mutations=", 11)) {
		mutations = strtoul(argv[1] + 11, NULL, 10);
		argv++;
		argc--;
	}
	dir = argc == 2 ? opendir(argv[1]) : NULL;
	if (!dir) {
		fprintf(stderr, "usage: fuzz_NAME [-mutations=N] FOLDER\n");
		return 2;
	}
	while ((entry = readdir(dir))) {
		char path[4096];

		if (entry->d_name[0] == '.')
			continue;
		snprintf(path, sizeof(path), "%s/%s", argv[1], entry->d_name);
		run_file(path, mutations);
		num++;
	}
	closedir(dir);
	printf("%zu files, %lu mutations each\n", num, mutations);
	/* An empty corpus tests nothing. */
	return num ? 0 : 1;
}
