/* The control socket: clients, their lines, and the answers. */
#include "switch.h"

#include <errno.h>
#include <inttypes.h>
#include <linux/if_packet.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

int listen_fd = -1, signal_fd = -1;

struct client {
	int fd;
	size_t used;
	char line[LINE_BYTES];
};

static struct client clients[MAX_CLIENTS];

static void answer(struct client *client, char *line)
{
	char reply[512];
	const char *fault;
	int length;

	line[strcspn(line, "\r")] = 0;
	if (!strcmp(line, "ping")) {
		length = snprintf(reply, sizeof(reply), "ok\n");
	} else if (!strcmp(line, "stats")) {
		struct tpacket_stats kernel = {0};
		socklen_t size = sizeof(kernel);

		if (!getsockopt(packet_fd, SOL_PACKET, PACKET_STATISTICS, &kernel, &size))
			stats.kernel_drops += kernel.tp_drops;
		length = snprintf(reply, sizeof(reply),
			"ok received=%" PRIu64 " sent=%" PRIu64 " dropped_queue=%" PRIu64 " dropped_memory=%" PRIu64
			" dropped_unknown=%" PRIu64 " dropped_error=%" PRIu64 " kernel_drops=%" PRIu64
			" held_bytes=%" PRIu64 " lost=%" PRIu64 " marked=%" PRIu64 " errors_sent=%" PRIu64
			" background_sent=%" PRIu64 " background_dropped=%" PRIu64 " late_mean_ns=%" PRIu64 " late_max_ns=%" PRIu64 "\n",
			stats.received, stats.sent, stats.dropped_queue, stats.dropped_memory,
			stats.dropped_unknown, stats.dropped_error, stats.kernel_drops, held_bytes,
			stats.lost, stats.marked, stats.errors_sent, stats.background_sent, stats.background_dropped,
			stats.late_count ? stats.late_sum_ns / stats.late_count : 0, stats.late_max_ns);
		stats.late_sum_ns = stats.late_max_ns = stats.late_count = 0;
	} else {
		fault = obey(line, false);
		length = fault ? snprintf(reply, sizeof(reply), "error %s\n", fault)
			       : snprintf(reply, sizeof(reply), "ok\n");
	}
	if (send(client->fd, reply, (size_t)length, MSG_DONTWAIT | MSG_NOSIGNAL) != length) {
		close(client->fd);
		client->fd = -1;
	}
}

static void serve(struct client *client)
{
	ssize_t got = recv(client->fd, client->line + client->used, LINE_BYTES - client->used, MSG_DONTWAIT);
	char *end;

	if (got < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (got <= 0) {
		close(client->fd);
		client->fd = -1;
		return;
	}
	client->used += (size_t)got;
	while (client->fd >= 0 && (end = memchr(client->line, '\n', client->used))) {
		size_t taken = (size_t)(end - client->line) + 1;

		*end = 0;
		answer(client, client->line);
		memmove(client->line, client->line + taken, client->used - taken);
		client->used -= taken;
	}
	if (client->fd >= 0 && client->used == LINE_BYTES) {
		static const char too_long[] = "error line too long\n";

		(void)!send(client->fd, too_long, sizeof(too_long) - 1, MSG_DONTWAIT | MSG_NOSIGNAL);
		close(client->fd);
		client->fd = -1;
	}
}

static void welcome(void)
{
	int i, fd = accept4(listen_fd, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);

	if (fd < 0)
		return;
	for (i = 0; i < MAX_CLIENTS; i++)
		if (clients[i].fd < 0) {
			clients[i].fd = fd;
			clients[i].used = 0;
			return;
		}
	close(fd);
}

/* Sleep until a packet, a command, a signal or the time; serve commands. False: it is time to end. */
bool wait_and_serve(const struct timespec *timeout)
{
	struct pollfd fds[3 + MAX_CLIENTS] = {
		{.fd = signal_fd, .events = POLLIN},
		{.fd = listen_fd, .events = POLLIN},
		{.fd = packet_fd, .events = POLLIN},
	};
	int i;

	for (i = 0; i < MAX_CLIENTS; i++)
		fds[3 + i] = (struct pollfd){.fd = clients[i].fd, .events = POLLIN};
	if (ppoll(fds, 3 + MAX_CLIENTS, timeout, NULL) <= 0)
		return true;
	if (fds[0].revents)
		return false;
	for (i = 0; i < MAX_CLIENTS; i++)
		if (clients[i].fd >= 0 && fds[3 + i].revents)
			serve(&clients[i]);
	if (fds[1].revents)
		welcome();
	return true;
}

void open_control_socket(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	int i;

	for (i = 0; i < MAX_CLIENTS; i++)
		clients[i].fd = -1;
	if (strlen(path) >= sizeof(address.sun_path)) {
		errno = ENAMETOOLONG;
		die(path);
	}
	strcpy(address.sun_path, path);
	umask(0177);
	listen_fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (listen_fd < 0 || bind(listen_fd, (struct sockaddr *)&address, sizeof(address)) || listen(listen_fd, 16))
		die(path);
}
