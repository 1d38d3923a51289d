/* Tests of targets whose cgroup is full of processes.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include <cmocka.h>

#include "tests/support/capture_check.h"
#include "tests/support/test_main.h"
#include "tests/support/victim.h"

enum { NUM_CAPTURES = 3 };

/* A cgroup of our own with a limit on processes. */
struct group {
	char mount[64]; /* mounted by us; "": it was there */
	char path[128];
};

static bool write_text(const struct group *group, const char *file,
		       const char *text)
{
	char path[PATH_MAX];
	bool ok;
	int fd;

	snprintf(path, sizeof(path), "%s/%s", group->path, file);
	fd = open(path, O_WRONLY | O_CLOEXEC);
	ok = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);
	if (fd >= 0)
		close(fd);
	return ok;
}

static long read_number(const struct group *group, const char *file)
{
	char path[PATH_MAX];
	long number = -1;
	FILE *stream;

	snprintf(path, sizeof(path), "%s/%s", group->path, file);
	stream = fopen(path, "re");
	if (!stream)
		return -1;
	if (fscanf(stream, "%ld", &number) != 1)
		number = -1;
	fclose(stream);
	return number;
}

static bool make_below(struct group *group, const char *parent)
{
	snprintf(group->path, sizeof(group->path), "%s/heapfork-test-%d",
		 parent, getpid());
	if (mkdir(group->path, 0755) < 0)
		return false;
	if (read_number(group, "pids.current") == 0)
		return true;
	rmdir(group->path);
	return false;
}

static void group_remove(struct group *group)
{
	rmdir(group->path);
	if (*group->mount) {
		umount(group->mount);
		rmdir(group->mount);
	}
}

/* Version 1 where it is, or where we can mount it; version 2 if its root hands
 * the controller down. */
static bool group_make(struct group *group)
{
	static const char *const places[] = {
		"/sys/fs/cgroup/pids", "/sys/fs/cgroup",
		"/sys/fs/cgroup/unified",
	};

	memset(group, 0, sizeof(*group));
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++)
		if (make_below(group, places[i]))
			return true;
	strcpy(group->mount, "/tmp/heapfork-test-XXXXXX");
	if (!mkdtemp(group->mount))
		return false;
	if (mount("pids", group->mount, "cgroup",
		  MS_NOSUID | MS_NODEV | MS_NOEXEC, "pids") == 0) {
		if (make_below(group, group->mount))
			return true;
		umount(group->mount);
	}
	rmdir(group->mount);
	return false;
}

static void expect_alive(struct hf_victim *victim)
{
	hf_victim_tell(victim, "");
	hf_victim_expect(victim, "alive");
}

static void expect_refusal(pid_t pid)
{
	struct hf_frozen *frozen;
	struct hf_error *err = hf_test_capture(pid, &frozen);

	assert_non_null(err);
	if (err->code != HF_ERROR_OS || err->os_error != EAGAIN ||
	    !strstr(err->message, "cannot fork") || !err->cause ||
	    !strstr(err->cause, "pids.max") || !err->fix ||
	    !strstr(err->fix, "raise the limit"))
		fail_msg("code %d: %s; %s; %s", err->code, err->message,
			 err->cause ? err->cause : "",
			 err->fix ? err->fix : "");
	hf_error_destroy(err);
}

static void a_full_cgroup_is_named_and_room_for_one_is_enough(void **state)
{
	struct hf_victim victim;
	struct hf_frozen *frozen;
	struct group group;
	char pid[16];

	(void)state;
	if (!group_make(&group)) {
		fprintf(stderr, "skipped: no cgroup with a limit on processes "
			"can be made here\n");
		skip();
	}
	hf_victim_start(&victim, (const char *[]){ VICTIM_CONFINED, "plain",
						  NULL });
	hf_victim_expect(&victim, "ready");
	snprintf(pid, sizeof(pid), "%d", victim.pid);
	if (!write_text(&group, "cgroup.procs", pid)) {
		fprintf(stderr, "skipped: the cgroup takes no process: %s\n",
			strerror(errno));
		hf_victim_kill(&victim);
		group_remove(&group);
		skip();
	}

	assert_true(write_text(&group, "pids.max", "1"));
	for (int i = 0; i < hf_test_rounds(NUM_CAPTURES); i++) {
		expect_refusal(victim.pid);
		assert_int_equal(read_number(&group, "pids.current"), 1);
		expect_alive(&victim);
	}
	assert_int_equal(hf_test_num_children(victim.pid), 0);
	assert_int_equal(hf_test_status_field(victim.pid, "TracerPid", 10), 0);

	/* The child is the one that fits, and is gone with its release. */
	assert_true(write_text(&group, "pids.max", "2"));
	for (int i = 0; i < hf_test_rounds(NUM_CAPTURES); i++) {
		assert_hf_ok(hf_test_capture(victim.pid, &frozen));
		assert_int_equal(read_number(&group, "pids.current"), 2);
		assert_hf_ok(hf_frozen_release(frozen));
		assert_true(hf_frozen_report(frozen)->reaped);
		hf_frozen_destroy(frozen);
		assert_int_equal(read_number(&group, "pids.current"), 1);
		expect_alive(&victim);
	}
	assert_int_equal(hf_victim_end(&victim), 0);
	group_remove(&group);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(
			a_full_cgroup_is_named_and_room_for_one_is_enough),
	};

	hf_test_need_ptrace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
