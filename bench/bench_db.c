/* Database writer at size: rows a second, bytes a row, next to write().
 * SPDX-License-Identifier: MIT */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "indexer/db/db_writer.h"
#include "util/progress.h"

/* usage: bench_db [OBJECTS [FILE [keep]]]
 *
 * Objects as of a malloc heap with sizes of 16 to 256 bytes, three references
 * each, half of them near, half anywhere. The file is removed at the end, without
 * `keep`. */

enum { REFS = 3, HOLDERS = 1000, TYPES = 2000 };

static void must(struct hf_error *err)
{
	if (!err)
		return;
	fprintf(stderr, "bench_db: %s\n", err->message);
	exit(1);
}

static uint64_t random_next(uint64_t *state)
{
	*state ^= *state << 13;
	*state ^= *state >> 7;
	*state ^= *state << 17;
	return *state;
}

static double seconds_since(uint64_t start_ns)
{
	return (double)(hf_now_ns() - start_ns) / 1e9;
}

static uint64_t file_bytes(const char *path)
{
	struct stat st;

	return stat(path, &st) ? 0 : (uint64_t)st.st_size;
}

static void report(const char *what, double seconds, uint64_t rows,
		   uint64_t bytes)
{
	printf("%-28s %7.2f s  %6.2f M rows/s  %6.1f bytes/row  %6.0f MB/s\n",
	       what, seconds, (double)rows / seconds / 1e6,
	       (double)bytes / (double)rows, (double)bytes / seconds / 1e6);
}

static void put_types(struct hf_db_writer *db)
{
	for (uint64_t id = 1; id <= TYPES; id++) {
		char name[40];

		snprintf(name, sizeof(name), "type %" PRIu64, id);
		must(hf_db_put_type(
			db, &(struct hf_db_type){ .id = id,
						  .name = name,
						  .kind = "class",
						  .size_bytes = HF_UNKNOWN_U64,
						  .module_id =
							  HF_UNKNOWN_U64 }));
	}
}

static void put_objects(struct hf_db_writer *db, uint64_t num)
{
	uint64_t random = 42, addr = 0x555500000010;

	for (uint64_t id = 1; id <= num; id++) {
		bool holder = id <= HOLDERS;
		uint64_t size = holder ? 0 : 24 + random_next(&random) % 15 * 16;
		uint64_t up = random_next(&random) % id;

		must(hf_db_put_object(
			db, &(struct hf_db_object){
				    .id = id,
				    .addr = addr,
				    .size_bytes = size,
				    .extent_bytes = HF_UNKNOWN_U64,
				    .type_id = 1 + random_next(&random) % TYPES,
				    .reader_id = 1,
				    .area_id = 1,
				    .container_id = HF_UNKNOWN_U64,
				    .flags = holder ? 33 : 1,
				    .idom = holder ? 0 : up,
				    .retained_bytes =
					    random_next(&random) % 100
						    ? size
						    : size * (num / id + 1),
				    .root_distance = holder ? 0 : 1 + up % 40,
				    .bfs_parent = holder ? HF_UNKNOWN_U64
							 : up }));
		addr += size + 8;
	}
}

static void put_refs(struct hf_db_writer *db, uint64_t num)
{
	uint64_t random = 4711;

	for (uint64_t src = 1; src <= num; src++)
		for (int64_t i = 0; i < REFS; i++) {
			uint64_t r = random_next(&random);
			uint64_t dst = i & 1 ? 1 + r % num
					     : 1 + (src + r % 1000) % num;

			must(hf_db_put_ref(db, src, i * 8, dst, 2));
		}
}

/* What the disk takes: the same number of bytes, written once in order. */
static void raw_write(const char *path, uint64_t bytes)
{
	enum { CHUNK = 1 << 20 };
	static char buf[CHUNK];
	uint64_t start_ns = hf_now_ns();
	HF_AUTO_FD int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	memset(buf, 0x5a, sizeof(buf));
	for (uint64_t done = 0; done < bytes; done += CHUNK)
		if (write(fd, buf, CHUNK) != CHUNK) {
			perror("bench_db: write");
			exit(1);
		}
	printf("%-28s %7.2f s  %37.0f MB/s\n", "the same bytes by write()",
	       seconds_since(start_ns),
	       (double)bytes / seconds_since(start_ns) / 1e6);
}

int main(int argc, char **argv)
{
	uint64_t num = argc > 1 ? strtoull(argv[1], NULL, 0) : 1000000;
	const char *path = argc > 2 ? argv[2] : "bench_db.tmp";
	HF_AUTO(hf_db_writer) struct hf_db_writer *db = NULL;
	uint64_t all_ns = hf_now_ns(), start_ns = all_ns, bytes;
	struct rusage usage;

	must(hf_db_writer_create(path, &db));
	put_types(db);
	put_objects(db, num);
	bytes = file_bytes(path);
	report("object", seconds_since(start_ns), num, bytes);
	start_ns = hf_now_ns();
	put_refs(db, num);
	report("ref", seconds_since(start_ns), num * REFS,
	       file_bytes(path) - bytes);
	bytes = file_bytes(path);
	start_ns = hf_now_ns();
	must(hf_db_writer_commit(db, NULL));
	report("commit: rest, indices", seconds_since(start_ns),
	       num * (1 + REFS), file_bytes(path) - bytes);
	bytes = file_bytes(path);
	report("all", seconds_since(all_ns), num * (1 + REFS), bytes);
	getrusage(RUSAGE_SELF, &usage);
	printf("%" PRIu64 " objects, %" PRIu64 " refs, file %.0f MB (%.0f "
	       "bytes an object), CPU %.2f s, peak memory %ld MB\n",
	       num, num * REFS, (double)bytes / 1e6,
	       (double)bytes / (double)num,
	       (double)usage.ru_utime.tv_sec +
		       (double)usage.ru_utime.tv_usec / 1e6 +
		       (double)usage.ru_stime.tv_sec +
		       (double)usage.ru_stime.tv_usec / 1e6,
	       usage.ru_maxrss / 1024);
	hf_db_writer_destroy(HF_TAKE(db));
	if (argc > 3)
		return 0;
	unlink(path);
	raw_write(path, bytes);
	unlink(path);
	return 0;
}
