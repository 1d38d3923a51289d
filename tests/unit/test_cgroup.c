/* Cgroup: which directory, and how many processes more.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <cmocka.h>

#include "fork-agent/cgroup.h"
#include "tests/support/test_main.h"

static const char v1[] =
	"38 31 0:35 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
	"39 31 0:36 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n";
static const char v2[] =
	"41 31 0:38 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw\n";

static void the_directory_is_found(void **state)
{
	static const struct {
		const char *name, *cgroup, *mountinfo, *dir;
	} cases[] = {
		{ "version 1", "8:pids:/a/b\n0::/x\n", v1,
		  "/sys/fs/cgroup/pids/a/b" },
		{ "version 2", "0::/system.slice/a.service\n", v2,
		  "/sys/fs/cgroup/system.slice/a.service" },
		{ "the root", "0::/\n", v2, "/sys/fs/cgroup" },
		{ "controllers together", "3:cpu,pids:/a\n",
		  "1 2 0:3 / /c rw - cgroup cgroup rw,cpu,pids\n", "/c/a" },
		{ "a part is mounted", "8:pids:/docker/1/x\n",
		  "1 2 0:3 /docker/1 /c rw - cgroup cgroup rw,pids\n", "/c/x" },
		{ "a mount point with a space", "8:pids:/a\n",
		  "1 2 0:3 / /my\\040c rw - cgroup cgroup rw,pids\n",
		  "/my c/a" },
		{ "another part is mounted", "8:pids:/docker/12\n",
		  "1 2 0:3 /docker/1 /c rw - cgroup cgroup rw,pids\n", NULL },
		{ "outside of our namespace", "0::/../other\n", v2, NULL },
		{ "a name that begins with dots is none", "0::/..x\n", v2,
		  "/sys/fs/cgroup/..x" },
		{ "not mounted", "8:pids:/a\n", v2, NULL },
		{ "not listed", "4:memory:/a\n", v1, NULL },
		{ "no text", "", "", NULL },
		{ "cut", "8:pids", "1 2 0:3 /", NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		static struct hf_cgroup cgroup;
		bool found = hf_cgroup_find(cases[i].cgroup,
					    cases[i].mountinfo, "pids",
					    &cgroup);

		if (found != (cases[i].dir != NULL) ||
		    (found && strcmp(cgroup.dir, cases[i].dir)))
			fail_msg("%s: '%s'", cases[i].name,
				 found ? cgroup.dir : "(none)");
	}
}

static void write_file(const char *dir, const char *name, const char *text)
{
	char path[256];
	FILE *file;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	file = fopen(path, "w");
	assert_non_null(file);
	fputs(text, file);
	fclose(file);
}

static void the_tightest_limit_counts(void **state)
{
	static struct hf_cgroup cgroup;
	static struct hf_cgroup_room room;
	char top[] = "/tmp/hf-cgroup-XXXXXX", mid[64], low[64], text[256];

	(void)state;
	assert_non_null(mkdtemp(top));
	snprintf(mid, sizeof(mid), "%s/mid", top);
	snprintf(low, sizeof(low), "%s/mid/low", top);
	assert_int_equal(mkdir(mid, 0700), 0);
	assert_int_equal(mkdir(low, 0700), 0);
	write_file(low, "pids.max", "max\n");
	write_file(low, "pids.current", "3\n");
	write_file(mid, "pids.max", "10\n");
	write_file(mid, "pids.current", "9\n");
	write_file(top, "pids.max", "100\n");
	write_file(top, "pids.current", "20\n");
	snprintf(text, sizeof(text), "1 2 0:3 / %s rw - cgroup cgroup "
		 "rw,pids\n", top);
	assert_true(hf_cgroup_find("8:pids:/mid/low\n", text, "pids",
				   &cgroup));
	hf_cgroup_pids(&cgroup, &room);
	assert_true(room.has_limit);
	assert_int_equal(room.left, 1);
	assert_string_equal(room.dir, mid);
	write_file(top, "pids.current", "100\n");
	hf_cgroup_pids(&cgroup, &room);
	assert_int_equal(room.left, 0);
	assert_string_equal(room.dir, top);
	snprintf(text, sizeof(text), "rm -r %s", top);
	assert_int_equal(system(text), 0);
	hf_cgroup_pids(&cgroup, &room);
	assert_false(room.has_limit);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(the_directory_is_found),
		cmocka_unit_test(the_tightest_limit_counts),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
