/* Write the small snapshot of tests/support/heap_file.c: write_heap FILE [SQL].
 * SPDX-License-Identifier: MIT */
#include <stdio.h>

#include "tests/support/heap_file.h"

int main(int argc, char **argv)
{
	struct hf_heap_file file;

	if (argc < 2) {
		fprintf(stderr, "usage: write_heap FILE [SQL]\n");
		return 2;
	}
	hf_heap_file_create(&file);
	hf_heap_file_fill(&file);
	if (argc > 2)
		hf_heap_file_exec(&file, argv[2]);
	hf_heap_file_finish(&file);
	if (rename(file.path, argv[1])) {
		perror(argv[1]);
		return 1;
	}
	hf_heap_file_remove(&file);
	return 0;
}
