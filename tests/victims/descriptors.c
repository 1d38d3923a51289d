/* Victim: holds a listening port, a connection, and a lock on a file, and
 * gives them up when told.
 * SPDX-License-Identifier: MIT
 *
 * usage: descriptors LOCK-FILE */
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	struct sockaddr_in addr = {
		.sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
	};
	socklen_t len = sizeof(addr);
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	int lock_fd, connection;
	const int on = 1;
	char line[64];

	if (argc != 2)
		return 2;
	/* As servers do: forgive old connections. */
	setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
	lock_fd = open(argv[1], O_RDWR | O_CREAT, 0600);
	if (lock_fd < 0 || flock(lock_fd, LOCK_EX) < 0 ||
	    bind(listener, (struct sockaddr *)&addr, sizeof(addr)) < 0 ||
	    listen(listener, 5) < 0 ||
	    getsockname(listener, (struct sockaddr *)&addr, &len) < 0)
		return 2;
	printf("port %d\n", ntohs(addr.sin_port));
	fflush(stdout);
	connection = accept(listener, NULL, NULL);
	if (connection < 0)
		return 2;
	printf("ready\n");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin)) {
		if (strcmp(line, "close\n"))
			break;
		close(connection);
		close(listener);
		close(lock_fd);
		printf("closed\n");
		fflush(stdout);
	}
	return 0;
}
