/* Tests of the memory that is left, in file trees made up for it.
 * SPDX-License-Identifier: MIT */
#include "fork-agent/headroom.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "fork-agent/cgroup_path.h"
#include "fork-agent/watch.h"
#include "tests/support/test_main.h"

#define MIB (UINT64_C(1) << 20)

/* A folder that looks like /proc and a mounted cgroup tree. */
struct tree {
	char root[64];
	char proc[80];
};

static void put(const struct tree *tree, const char *path, const char *format,
		...)
{
	char full[256], *slash = full;
	va_list args;
	FILE *file;

	snprintf(full, sizeof(full), "%s/%s", tree->root, path);
	while ((slash = strchr(slash + 1, '/'))) {
		*slash = '\0';
		mkdir(full, 0700);
		*slash = '/';
	}
	file = fopen(full, "w");
	assert_non_null(file);
	va_start(args, format);
	vfprintf(file, format, args);
	va_end(args);
	fclose(file);
}

static void make(struct tree *tree, uint64_t available_mib)
{
	strcpy(tree->root, "/tmp/hf-headroom-XXXXXX");
	assert_non_null(mkdtemp(tree->root));
	snprintf(tree->proc, sizeof(tree->proc), "%s/proc", tree->root);
	put(tree, "proc/meminfo", "MemTotal:  %d kB\nMemFree: 1 kB\n"
	    "MemAvailable: %d kB\n", 10240 << 10, (int)(available_mib << 10));
}

static void make_v2(struct tree *tree)
{
	make(tree, 8192);
	put(tree, "proc/42/cgroup", "0::/outer/inner\n");
	put(tree, "proc/self/mountinfo",
	    "31 23 0:28 / /sys rw - sysfs sysfs rw\n"
	    "41 31 0:38 / %s/cg rw,relatime shared:9 - cgroup2 cgroup2 rw\n",
	    tree->root);
	put(tree, "cg/outer/memory.max", "1073741824\n");
	put(tree, "cg/outer/memory.high", "max\n");
	put(tree, "cg/outer/memory.current", "%d\n", 500 << 20);
	put(tree, "cg/outer/memory.stat", "anon 1\ninactive_file 0\n");
	put(tree, "cg/outer/inner/memory.max", "max\n");
	put(tree, "cg/outer/inner/memory.high", "max\n");
	put(tree, "cg/outer/inner/memory.current", "%d\n", 400 << 20);
}

static void drop(struct tree *tree)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -r '%s'", tree->root);
	assert_int_equal(system(command), 0);
}

static struct hf_headroom_state look(const struct tree *tree, uint64_t keep,
				     uint64_t need)
{
	HF_AUTO(hf_headroom) struct hf_headroom *headroom = NULL;
	struct hf_headroom_state state;

	assert_hf_ok(hf_headroom_open(42, tree->proc, &headroom));
	assert_hf_ok(hf_headroom_read(headroom, keep, need, &state));
	return state;
}

static bool ends_with(const char *text, const char *end)
{
	return strlen(text) >= strlen(end) &&
	       !strcmp(text + strlen(text) - strlen(end), end);
}

static void the_tightest_of_all_levels_counts(void **state)
{
	struct hf_headroom_state found;
	struct tree tree;

	(void)state;
	make_v2(&tree);
	/* 1024 - 500 MiB in the outer one, no limit in the inner one. */
	found = look(&tree, 0, 0);
	assert_true(ends_with(found.where, "/cg/outer"));
	assert_int_equal(found.free_bytes, 524 * MIB);
	assert_int_equal(found.keep_bytes, 64 * MIB);
	assert_int_equal(found.spare_bytes, 460 * MIB);
	/* high is a limit, too: beyond it the process is slowed down. */
	put(&tree, "cg/outer/inner/memory.high", "%d\n", 500 << 20);
	put(&tree, "cg/outer/inner/memory.stat", "inactive_file 0\n");
	found = look(&tree, 0, 0);
	assert_true(ends_with(found.where, "/cg/outer/inner"));
	assert_int_equal(found.free_bytes, 100 * MIB);
	assert_int_equal(found.keep_bytes, 500 * MIB / 8);
	/* As it was asked for. */
	found = look(&tree, 99 * MIB, 0);
	assert_int_equal(found.spare_bytes, 1 * MIB);
	/* And the machine. */
	put(&tree, "proc/meminfo", "MemTotal: 10485760 kB\n"
	    "MemAvailable: 20480 kB\n");
	found = look(&tree, 0, 0);
	assert_string_equal(found.where, "");
	assert_int_equal(found.limit_bytes, 10240 * MIB);
	assert_int_equal(found.free_bytes, 20 * MIB);
	assert_true(found.spare_bytes < 0);
	drop(&tree);
}

static void clean_pages_of_files_count_as_free(void **state)
{
	struct hf_headroom_state found;
	struct tree tree;

	(void)state;
	make_v2(&tree);
	put(&tree, "cg/outer/memory.current", "%d\n", 1000 << 20);
	assert_int_equal(look(&tree, 0, 0).free_bytes, 24 * MIB);
	put(&tree, "cg/outer/memory.stat", "anon 5\ninactive_file %d\n"
	    "active_file %d\nfile_dirty %d\nfile_writeback %d\n", 300 << 20,
	    100 << 20, 20 << 20, 10 << 20);
	found = look(&tree, 0, 0);
	assert_int_equal(found.free_bytes, (24 + 300 + 50 - 20 - 10) * MIB);
	/* Not looked at where it does not matter... */
	put(&tree, "cg/outer/memory.current", "%d\n", 600 << 20);
	assert_int_equal(look(&tree, 0, 0).free_bytes, 424 * MIB);
	/* ... but where more is wanted than is free. */
	assert_int_equal(look(&tree, 0, 500 * MIB).free_bytes,
			 (424 + 320) * MIB);
	drop(&tree);
}

static void version_1_is_understood(void **state)
{
	struct hf_headroom_state found;
	struct tree tree;

	(void)state;
	make(&tree, 8192);
	put(&tree, "proc/42/cgroup", "12:cpu,cpuacct:/x\n"
	    "4:memory:/docker/abc\n0::/\n");
	/* A container without a cgroup namespace: the mount is its cgroup. */
	put(&tree, "proc/self/mountinfo",
	    "34 31 0:31 / /c rw - cgroup cgroup rw,cpu,cpuacct\n"
	    "35 31 0:32 /docker/abc %s/me\\040mory rw - cgroup cgroup "
	    "rw,memory\n", tree.root);
	put(&tree, "me mory/memory.limit_in_bytes", "%d\n", 256 << 20);
	put(&tree, "me mory/memory.usage_in_bytes", "%d\n", 200 << 20);
	put(&tree, "me mory/memory.stat", "inactive_file 1\n"
	    "total_inactive_file %d\ntotal_active_file 0\ntotal_dirty 0\n",
	    8 << 20);
	found = look(&tree, 0, 0);
	assert_true(ends_with(found.where, "/me mory"));
	assert_int_equal(found.limit_bytes, 256 * MIB);
	assert_int_equal(found.free_bytes, 64 * MIB);
	assert_int_equal(found.keep_bytes, 32 * MIB);
	/* No limit, as version 1 writes it. */
	put(&tree, "me mory/memory.limit_in_bytes", "9223372036854771712\n");
	assert_string_equal(look(&tree, 0, 0).where, "");
	drop(&tree);
}

static void without_cgroups_the_machine_counts(void **state)
{
	struct hf_headroom_state found;
	struct tree tree;

	(void)state;
	make(&tree, 1000);
	found = look(&tree, 0, 0);
	assert_string_equal(found.where, "");
	assert_int_equal(found.free_bytes, 1000 * MIB);
	assert_int_equal(found.keep_bytes, 10240 * MIB / 50);
	drop(&tree);
}

static void paths_lead_to_folders(void **state)
{
	static const struct {
		const char *cgroup, *mountinfo, *dir; /* NULL: not found */
		enum hf_cgroup_version version;
	} cases[] = {
		{ "0::/\n", "1 2 0:3 / /cg rw - cgroup2 none rw\n", "/cg",
		  HF_CGROUP_V2 },
		{ "0::/a/b\n", "1 2 0:3 / /cg rw - cgroup2 none rw\n",
		  "/cg/a/b", HF_CGROUP_V2 },
		{ "0::/a/b\n", "1 2 0:3 /a /cg rw - cgroup2 none rw\n",
		  "/cg/b", HF_CGROUP_V2 },
		/* A name that only begins like the root is another one. */
		{ "0::/ab\n", "1 2 0:3 /a /cg rw - cgroup2 none rw\n",
		  "/cg", HF_CGROUP_V2 },
		/* Outside of our namespace: what is above us we see. */
		{ "0::/../other\n", "1 2 0:3 / /cg rw - cgroup2 none rw\n",
		  "/cg", HF_CGROUP_V2 },
		{ "0::/a/..b\n", "1 2 0:3 / /cg rw - cgroup2 none rw\n",
		  "/cg/a/..b", HF_CGROUP_V2 },
		{ "3:memory:/a\n", "1 2 0:3 / /cg rw - cgroup2 none rw\n",
		  NULL, HF_CGROUP_V2 },
		{ "3:memory:/a\n", "1 2 0:3 / /m rw t:1 - cgroup x rw,memory\n",
		  "/m/a", HF_CGROUP_V1 },
		{ "3:memoryx:/a\n", "1 2 0:3 / /m rw - cgroup x rw,memory\n",
		  NULL, HF_CGROUP_V1 },
		{ "", "", NULL, HF_CGROUP_V2 },
		{ "0::", "1", NULL, HF_CGROUP_V2 },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct hf_cgroup_path path;
		struct hf_error *err = hf_cgroup_path_find(
			cases[i].cgroup, cases[i].mountinfo, cases[i].version,
			&path);

		if (!cases[i].dir) {
			assert_non_null(err);
			assert_int_equal(err->code, HF_ERROR_NOT_FOUND);
			hf_error_destroy(err);
			continue;
		}
		assert_hf_ok(err);
		assert_string_equal(path.dir, cases[i].dir);
		free(path.dir);
	}
}

/* Our own process stands for the target: it has page tables. */
static void a_watch_tells_figures_and_what_to_do(void **state)
{
	HF_AUTO(hf_watch) struct hf_watch *watch = NULL;
	struct hf_error *err;
	struct tree tree;
	uint64_t next_ns;

	(void)state;
	make(&tree, 8192);
	assert_hf_ok(hf_watch_create(getpid(), 100 * MIB, tree.proc, &watch));
	assert_hf_ok(hf_watch_check(watch));
	hf_watch_begin(watch);
	assert_hf_ok(hf_watch_look(watch, 0, &next_ns));
	assert_int_equal(next_ns, 50 * 1000 * 1000);
	put(&tree, "proc/meminfo", "MemTotal: 1024000 kB\n"
	    "MemAvailable: 204800 kB\n");
	assert_hf_ok(hf_watch_look(watch, 0, &next_ns));
	assert_int_equal(next_ns, 10 * 1000 * 1000);
	put(&tree, "proc/meminfo", "MemTotal: 1024000 kB\n"
	    "MemAvailable: 101376 kB\n");
	err = hf_watch_look(watch, 7 * MIB, &next_ns);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_NO_SPACE);
	assert_non_null(strstr(err->cause, "the machine has 99.0 MiB free of "
			       "1000.0, of which 100.0 are to stay free"));
	assert_non_null(strstr(err->cause, "copy about 7.0 MiB"));
	assert_non_null(strstr(err->fix, "--mode stop"));
	hf_error_destroy(err);
	err = hf_watch_check(watch);
	assert_non_null(err);
	assert_int_equal(err->code, HF_ERROR_NO_SPACE);
	assert_non_null(strstr(err->message, "too little memory to fork"));
	assert_non_null(strstr(err->fix, "--mode stop"));
	hf_error_destroy(err);
	drop(&tree);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_tightest_of_all_levels_counts),
		cmocka_unit_test(clean_pages_of_files_count_as_free),
		cmocka_unit_test(version_1_is_understood),
		cmocka_unit_test(without_cgroups_the_machine_counts),
		cmocka_unit_test(paths_lead_to_folders),
		cmocka_unit_test(a_watch_tells_figures_and_what_to_do),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
