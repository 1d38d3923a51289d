/* Tests that the child holds no descriptor, port, connection or lock of the
 * target.
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "tests/support/capture_check.h"
#include "tests/support/test_main.h"
#include "tests/support/victim.h"

enum { EOF_LIMIT_MS = 5000 };

struct peer {
	struct hf_victim victim;
	struct sockaddr_in addr;
	int connection;
	char lock_file[64];
	struct hf_frozen *frozen;
};

static void begin(struct peer *peer, const struct hf_capture_hooks *hooks)
{
	struct hf_capture_options options = { 0 };
	int fd;

	strcpy(peer->lock_file, "/tmp/capture-lock-XXXXXX");
	fd = mkstemp(peer->lock_file);
	assert_true(fd >= 0);
	close(fd);
	hf_victim_start(&peer->victim,
			(const char *[]){ VICTIM_DESCRIPTORS, peer->lock_file,
					  NULL });
	peer->addr = (struct sockaddr_in){
		.sin_family = AF_INET,
		.sin_port = htons(
			(uint16_t)hf_victim_number(&peer->victim, "port")),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	peer->connection = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(peer->connection,
				 (struct sockaddr *)&peer->addr,
				 sizeof(peer->addr)), 0);
	hf_victim_expect(&peer->victim, "ready");
	options.pid = peer->victim.pid;
	assert_hf_ok(hf_capture_with_hooks(&options, hooks, &peer->frozen));
}

static void expect_all_is_free(struct peer *peer)
{
	struct pollfd eof = { .fd = peer->connection, .events = POLLIN };
	int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int lock_fd = open(peer->lock_file, O_RDWR | O_CLOEXEC);
	const int on = 1;
	char byte;

	/* The child lives. */
	assert_int_equal(hf_test_state(hf_frozen_pid(peer->frozen)), 't');
	assert_int_equal(poll(&eof, 1, EOF_LIMIT_MS), 1);
	assert_int_equal(recv(peer->connection, &byte, 1, 0), 0);
	assert_int_equal(flock(lock_fd, LOCK_EX | LOCK_NB), 0);
	/* REUSEADDR forgives old connections, but no other listener. */
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	assert_int_equal(bind(listener, (struct sockaddr *)&peer->addr,
			      sizeof(peer->addr)), 0);
	assert_int_equal(listen(listener, 1), 0);
	close(listener);
	close(lock_fd);
}

static void end(struct peer *peer)
{
	hf_frozen_destroy(peer->frozen);
	close(peer->connection);
	unlink(peer->lock_file);
	hf_victim_kill(&peer->victim);
}

static void what_the_target_closes_is_closed_at_once(void **state)
{
	struct peer peer;

	(void)state;
	begin(&peer, NULL);
	assert_true(hf_frozen_report(peer.frozen)->descriptors_closed);
	hf_victim_tell(&peer.victim, "close");
	hf_victim_expect(&peer.victim, "closed");
	expect_all_is_free(&peer);
	assert_hf_ok(hf_frozen_release(peer.frozen));
	assert_int_equal(hf_victim_end(&peer.victim), 0);
	end(&peer);
}

static void a_target_that_exits_frees_its_port_at_once(void **state)
{
	struct peer peer;

	(void)state;
	begin(&peer, NULL);
	assert_int_equal(hf_victim_end(&peer.victim), 0);
	expect_all_is_free(&peer);
	/* Its new parent reaps: no error, and no zombie. */
	assert_hf_ok(hf_frozen_release(peer.frozen));
	end(&peer);
}

static void a_kernel_without_close_range_is_no_difference(void **state)
{
	const struct hf_capture_hooks old_kernel = { .no_close_range = true };
	struct peer peer;

	(void)state;
	begin(&peer, &old_kernel);
	assert_true(hf_frozen_report(peer.frozen)->descriptors_closed);
	assert_int_equal(
		hf_test_num_entries(hf_frozen_pid(peer.frozen), "fd"), 0);
	assert_true(hf_test_num_entries(peer.victim.pid, "fd") >= 6);
	assert_int_equal(hf_victim_end(&peer.victim), 0);
	expect_all_is_free(&peer);
	end(&peer);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(what_the_target_closes_is_closed_at_once),
		cmocka_unit_test(a_target_that_exits_frees_its_port_at_once),
		cmocka_unit_test(a_kernel_without_close_range_is_no_difference),
	};

	hf_test_need_ptrace();
	return cmocka_run_group_tests(tests, NULL, NULL);
}
