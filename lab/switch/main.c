/*
 * The lab's switch: delays, rates and shared uplinks between the veths of one network namespace.
 *
 *   switch CONTROL_SOCKET PIDFILE < CONFIG
 *
 * It reads its configuration from standard input, opens everything that can fail, puts itself in the
 * background, and only then does the first process exit with 0: that exit is the sign that it works.
 * SIGTERM ends it. Configuration and control are the same lines (numbers are decimal):
 *
 *   racks N                        configuration only, first; the controller's own "rack" counts too
 *   port IFNAME NAME RACK MAC      configuration only, one a host
 *   host NAME tx|rx BYTES_PER_S    0 means no limit
 *   uplink RACK up|down BYTES_PER_S
 *   queue host NAME tx|rx ns|bytes LENGTH     a packet that finds more waiting is dropped; 0: QUEUE_NS
 *   queue uplink RACK up|down ns|bytes LENGTH
 *   mark host|uplink ...           the same words: a packet that finds more waiting is marked (ECN); 0: none is
 *   delay SRC_RACK DST_RACK NANOSECONDS
 *   impair host NAME KEY VALUE     KEY: loss, duplicate (parts of a billion), delay, jitter (nanoseconds),
 *   impair link SRC DST KEY VALUE       blocked (0, 1), paths (nanoseconds with commas between, 0 for none),
 *   impair racks SRC DST KEY VALUE      mtu (bytes, 0 for none)
 *   background SRC DST BYTES_PER_S 0 ends it
 *   clear impair|background
 *   seed NUMBER | routers          configuration only
 *   ping | stats                   control only
 *
 * A packet is charged at its host's transmitter, its rack's way up, then waits out the delay, and is
 * charged at the other rack's way down and the receiving host. Each of these four is a token clock: a
 * packet leaves at once when the bytes before it are paid for, waits otherwise, and is dropped when it
 * would wait longer than its queue is. A packet's own bytes are paid by those behind it, so that an idle
 * rate adds nothing to a small probe. A packet of a background flow is charged in the same places, and is
 * nothing but its size.
 */
#include "switch.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_packet.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

int packet_fd = -1;
struct stats stats;

void die(const char *what)
{
	fprintf(stderr, "switch: %s: %s\n", what, strerror(errno));
	exit(1);
}

uint64_t clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

static void run(void)
{
	static const struct timespec no_time;
	uint64_t now_ns, controlled_ns = 0, sleep_ns;
	struct timespec timeout;
	bool more_due;

	for (;;) {
		now_ns = clock_ns(CLOCK_MONOTONIC);
		if (now_ns - controlled_ns > CONTROL_EVERY_NS) {
			if (!wait_and_serve(&no_time))
				return;
			controlled_ns = now_ns;
		}
		/* One due packet, then what has arrived: neither kind may starve the other. */
		if (is_due(&packets, now_ns)) {
			uint64_t due_ns = packets.events[0].due_ns;

			catch_up(due_ns);
			advance(heap_pop(&packets), due_ns);
		}
		if (is_due(&packets, now_ns + CLOCK_SPIN_NS))
			continue;
		more_due = is_due(&packets, now_ns + SPIN_NS);
		if (receive() || more_due)
			continue;
		catch_up(now_ns);
		sleep_ns = packets.used ? packets.events[0].due_ns - now_ns - SPIN_NS : 10 * SECOND_NS;
		if (ghosts.used && sleep_ns > BACKGROUND_EVERY_NS)
			sleep_ns = BACKGROUND_EVERY_NS;
		timeout = (struct timespec){(time_t)(sleep_ns / SECOND_NS), (long)(sleep_ns % SECOND_NS)};
		if (!wait_and_serve(&timeout))
			return;
		controlled_ns = clock_ns(CLOCK_MONOTONIC);
	}
}

static void configure(void)
{
	char line[LINE_BYTES], copy[LINE_BYTES];
	const char *fault;

	clear_ports();
	while (fgets(line, sizeof(line), stdin)) {
		strcpy(copy, line);
		fault = obey(line, true);
		if (fault) {
			copy[strcspn(copy, "\n")] = 0;
			fprintf(stderr, "switch: %s: %s\n", fault, copy);
			exit(1);
		}
	}
	if (!port_count) {
		fprintf(stderr, "switch: the configuration has no port\n");
		exit(1);
	}
}

static void open_packet_socket(void)
{
	struct sockaddr_ll any = {.sll_family = AF_PACKET, .sll_protocol = htons(ETH_P_ALL)};
	int on = 1, bytes = 64 << 20;

	/* One socket for every port: an arrival names its interface, a departure is given one. Protocol 0
	 * until all options are set, so that nothing arrives before them. */
	packet_fd = socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (packet_fd < 0)
		die("packet socket");
	if (setsockopt(packet_fd, SOL_PACKET, PACKET_VNET_HDR, &on, sizeof(on)))
		die("PACKET_VNET_HDR");
	if (setsockopt(packet_fd, SOL_PACKET, PACKET_IGNORE_OUTGOING, &on, sizeof(on)))
		die("PACKET_IGNORE_OUTGOING");
	if (setsockopt(packet_fd, SOL_SOCKET, SO_TIMESTAMPNS, &on, sizeof(on)))
		die("SO_TIMESTAMPNS");
	setsockopt(packet_fd, SOL_PACKET, PACKET_QDISC_BYPASS, &on, sizeof(on));
	if (setsockopt(packet_fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)))
		setsockopt(packet_fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)); /* as much as a user may */
	if (setsockopt(packet_fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)))
		setsockopt(packet_fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
	if (bind(packet_fd, (struct sockaddr *)&any, sizeof(any)))
		die("bind packet socket");
}

static void open_signals(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	signal(SIGPIPE, SIG_IGN);
	signal_fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signal_fd < 0)
		die("signalfd");
}

static void go_to_background(const char *pidfile)
{
	FILE *file = fopen(pidfile, "w");
	int fd, null_fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	pid_t pid;

	if (!file || null_fd < 0)
		die(pidfile);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid > 0) {
		fprintf(file, "%d\n", (int)pid);
		if (fclose(file))
			die(pidfile);
		_exit(0);
	}
	setsid();
	if (chdir("/"))
		die("/");
	for (fd = 0; fd < 3; fd++)
		dup2(null_fd, fd);
	/* Whoever started us may have left files open: a lock must not live as long as the switch. */
	for (fd = 3; fd < 1024; fd++)
		if (fd != packet_fd && fd != signal_fd && fd != listen_fd)
			close(fd);
}

int main(int argc, char **argv)
{
	struct sched_param fifo = {.sched_priority = 50};
	bool privileged;

	if (argc != 3) {
		fprintf(stderr, "usage: switch CONTROL_SOCKET PIDFILE < CONFIG\n");
		return 2;
	}
	configure();
	open_signals();
	open_packet_socket();
	open_control_socket(argv[1]);
	go_to_background(argv[2]);
	/* Each of these makes the delays exact under load; without them it still works. */
	prctl(PR_SET_NAME, "netprobe-switch");
	prctl(PR_SET_TIMERSLACK, 1UL);
	privileged = !sched_setscheduler(0, SCHED_FIFO, &fifo);
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	/* An ordinary user may lock a little, and then gets no more memory at all. */
	if (privileged)
		mlockall(MCL_CURRENT | MCL_FUTURE);
	run();
	unlink(argv[1]);
	unlink(argv[2]);
	return 0;
}
