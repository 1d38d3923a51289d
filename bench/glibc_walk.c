/* Bench: walk the glibc heap of a stopped process.
 * SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include "coredump/process_image.h"
#include "indexer/glibc/glibc_reader.h"

/* Usage: bench_glibc_walk PID. Blocks are counted and thrown away. The main
 * thread is traced, for its registers; the others are stopped by SIGSTOP. */

struct totals {
	uint64_t areas;
	uint64_t blocks[4], bytes[4]; /* by enum hf_block_state */
};

static struct hf_error *put_area(void *arg, const struct hf_area *area,
				 uint32_t *id_ret)
{
	struct totals *totals = arg;

	(void)area;
	*id_ret = totals->areas++;
	return NULL;
}

static void put_totals(void *arg, uint32_t id, const struct hf_area *area)
{
	(void)arg;
	(void)id;
	(void)area;
}

static struct hf_error *put_blocks(void *arg, const struct hf_block *blocks,
				   size_t num)
{
	struct totals *totals = arg;

	for (size_t i = 0; i < num; i++) {
		totals->blocks[blocks[i].state]++;
		totals->bytes[blocks[i].state] += blocks[i].size_bytes;
	}
	return NULL;
}

static int fail(struct hf_error *err)
{
	fprintf(stderr, "bench_glibc_walk: %s\n", err->message);
	hf_error_destroy(err);
	return 1;
}

int main(int argc, char **argv)
{
	static const char *const names[] = { "live", "cached", "free",
					     "internal" };
	HF_AUTO(hf_image) struct hf_image *image = NULL;
	HF_AUTO(hf_anomalies) struct hf_anomalies *anomalies = NULL;
	struct hf_thread thread = { .stop_how = HF_STOP_SYSCALL };
	struct totals totals = { 0 };
	struct hf_heap_sink sink = { put_area, put_totals, put_blocks, &totals,
				     NULL, NULL, NULL, NULL };
	struct hf_reader_info info;
	const struct hf_anomaly *all;
	struct hf_error *err;
	struct rusage usage;
	uint64_t start, opened, walked, num = 0;
	size_t num_kinds;
	void *reader;
	pid_t pid;

	if (argc != 2 || (pid = atoi(argv[1])) <= 0) {
		fprintf(stderr, "usage: bench_glibc_walk PID\n");
		return 2;
	}
	kill(pid, SIGSTOP);
	thread.tid = pid;
	if (ptrace(PTRACE_SEIZE, pid, NULL, NULL) != 0 ||
	    ptrace(PTRACE_INTERRUPT, pid, NULL, NULL) != 0 ||
	    waitpid(pid, NULL, __WALL) != pid ||
	    ptrace(PTRACE_GETREGS, pid, NULL, &thread.regs) != 0) {
		perror("bench_glibc_walk");
		return 1;
	}
	err = hf_anomalies_create(&anomalies);
	if (!err)
		err = hf_process_image_open(pid, &thread, 1, &image);
	if (err)
		return fail(err);
	start = hf_now_ns();
	err = hf_glibc_reader.open(image, anomalies, NULL, &reader);
	if (err)
		return fail(err);
	opened = hf_now_ns();
	sink.anomalies = anomalies;
	err = hf_glibc_reader.walk(reader, &sink);
	if (err)
		return fail(err);
	walked = hf_now_ns();
	hf_glibc_reader.info(reader, &info);
	hf_glibc_reader.close(reader);
	getrusage(RUSAGE_SELF, &usage);
	printf("%s %s: %s\n", info.name, info.version, info.how);
	for (size_t i = 0; i < 4; i++) {
		printf("%s: %" PRIu64 " blocks, %" PRIu64 " bytes\n", names[i],
		       totals.blocks[i], totals.bytes[i]);
		num += totals.blocks[i];
	}
	printf("%" PRIu64 " areas; open %.1f ms, walk %.1f ms, %.2f M blocks/s, "
	       "peak %ld MB\n", totals.areas, (opened - start) / 1e6,
	       (walked - opened) / 1e6, num * 1e3 / (walked - opened),
	       usage.ru_maxrss / 1024);
	all = hf_anomalies_all(anomalies, &num_kinds);
	for (size_t i = 0; i < num_kinds; i++)
		printf("anomaly '%s' x %" PRIu64 ": %s\n", all[i].kind,
		       all[i].count, all[i].detail);
	ptrace(PTRACE_DETACH, pid, NULL, NULL);
	kill(pid, SIGCONT);
	return 0;
}
