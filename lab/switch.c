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
 *   host NAME tx|rx BYTES_PER_S    0 is no limit
 *   uplink RACK up|down BYTES_PER_S
 *   delay SRC_RACK DST_RACK NANOSECONDS
 *   ping | stats                   control only
 *
 * A packet is charged at its host's transmitter, its rack's way up, then waits out the delay, and is
 * charged at the other rack's way down and the receiving host. Each of these four is a token clock: a
 * packet leaves at once when the bytes before it are paid for, waits otherwise, and is dropped when it
 * would wait longer than QUEUE_NS. A packet's own bytes are paid by those behind it, so that an idle
 * rate adds nothing to a small probe.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/if_packet.h>
#include <linux/virtio_net.h>
#include <malloc.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

#define MAX_PORTS 520
#define MAX_RACKS 80
#define MAX_IFINDEX 8192
#define MAC_SLOTS 4096 /* a power of two, well above MAX_PORTS */
#define MAX_CLIENTS 8
#define LINE_BYTES 256
#define BATCH 16
#define FRAME_BYTES 70000
#define VNET_BYTES sizeof(struct virtio_net_hdr)
#define IPV4_AT 14 /* of a frame: where its IPv4 header begins */

#define SECOND_NS 1000000000ULL
#define QUEUE_NS 20000000ULL              /* longest wait for a rate; a longer one is a tail drop */
#define HELD_BYTES_LIMIT (256ULL << 20)   /* everything waiting in here, whatever the delays */
#define SPIN_NS 40000ULL                  /* wake this long before a due time and spin: sleeps are late */
#define CLOCK_SPIN_NS 3000ULL             /* this near, look at nothing but the clock */
#define CONTROL_EVERY_NS 1000000ULL       /* how often a busy switch looks at its control socket */
#define CLOCKS_APART_NS 500ULL            /* two clocks are read together when it takes no longer */
#define STAMP_AGE_LIMIT_NS 100000000ULL   /* an older stamp means that the wall clock was set */

enum stage { AT_TX, AT_UP, AT_DELAY, AT_DOWN, AT_RX };

struct token_clock {
	uint64_t bytes_per_s; /* 0: no limit */
	uint64_t free_ns;     /* when everything before is paid for */
	uint64_t remainder;   /* of the last division, so that high rates do not drift */
};

struct port {
	char name[64];
	int ifindex;
	int rack;
	unsigned char mac[ETH_ALEN];
	struct token_clock tx, rx;
};

struct packet {
	uint16_t src, dst;
	enum stage stage;
	uint32_t wire_bytes; /* what it takes on a link, once cut into segments */
	uint32_t length;     /* of data: the virtio header and the frame */
	unsigned char data[];
};

struct event {
	uint64_t due_ns, sequence;
	struct packet *packet;
};

struct client {
	int fd;
	size_t used;
	char line[LINE_BYTES];
};

static struct port ports[MAX_PORTS];
static int port_count;
static int rack_count;
static struct token_clock uplink_up[MAX_RACKS], uplink_down[MAX_RACKS];
static uint64_t delay_ns[MAX_RACKS][MAX_RACKS];
static int16_t port_of_ifindex[MAX_IFINDEX];
static int16_t mac_table[MAC_SLOTS];

static struct event *heap;
static size_t heap_used, heap_size;
static uint64_t sequence, held_bytes;

static int packet_fd = -1, signal_fd = -1, listen_fd = -1;
static struct client clients[MAX_CLIENTS];

static struct {
	uint64_t received, sent, dropped_queue, dropped_memory, dropped_unknown, dropped_error, kernel_drops;
	uint64_t late_sum_ns, late_max_ns, late_count;
} stats;

static void die(const char *what)
{
	fprintf(stderr, "switch: %s: %s\n", what, strerror(errno));
	exit(1);
}

static uint64_t clock_ns(clockid_t id)
{
	struct timespec t;

	clock_gettime(id, &t);
	return (uint64_t)t.tv_sec * SECOND_NS + (uint64_t)t.tv_nsec;
}

/* ---- packets waiting for their moment --------------------------------------------------------- */

static bool before(const struct event *a, const struct event *b)
{
	return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->sequence < b->sequence;
}

static bool heap_push(uint64_t due_ns, struct packet *packet)
{
	struct event e = {due_ns, sequence++, packet};
	size_t i, parent;

	if (heap_used == heap_size) {
		size_t size = heap_size ? heap_size * 2 : 4096;
		struct event *grown = realloc(heap, size * sizeof(*heap));

		if (!grown)
			return false;
		heap = grown;
		heap_size = size;
	}
	for (i = heap_used++; i > 0; i = parent) {
		parent = (i - 1) / 2;
		if (!before(&e, &heap[parent]))
			break;
		heap[i] = heap[parent];
	}
	heap[i] = e;
	return true;
}

static struct packet *heap_pop(void)
{
	struct packet *packet = heap[0].packet;
	struct event last = heap[--heap_used];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < heap_used) {
		if (child + 1 < heap_used && before(&heap[child + 1], &heap[child]))
			child++;
		if (!before(&heap[child], &last))
			break;
		heap[i] = heap[child];
		i = child;
	}
	heap[i] = last;
	return packet;
}

static void release(struct packet *packet)
{
	held_bytes -= packet->length;
	free(packet);
}

/* ---- the way of a packet ---------------------------------------------------------------------- */

/* Charge a packet that is here at now_ns; says in *leave_ns when it goes on, or false: dropped. */
static bool charge(struct token_clock *clock, uint64_t now_ns, uint32_t bytes, uint64_t *leave_ns)
{
	uint64_t owed;

	*leave_ns = now_ns;
	if (!clock->bytes_per_s)
		return true;
	if (clock->free_ns > now_ns) {
		if (clock->free_ns - now_ns > QUEUE_NS)
			return false;
		*leave_ns = clock->free_ns;
	} else {
		clock->remainder = 0;
	}
	owed = bytes * SECOND_NS + clock->remainder;
	clock->free_ns = *leave_ns + owed / clock->bytes_per_s;
	clock->remainder = owed % clock->bytes_per_s;
	return true;
}

static void transmit(struct packet *packet, uint64_t due_ns)
{
	const struct ether_header *ethernet = (const void *)(packet->data + VNET_BYTES);
	struct sockaddr_ll to = {
		.sll_family = AF_PACKET,
		.sll_protocol = ethernet->ether_type,
		.sll_ifindex = ports[packet->dst].ifindex,
	};
	uint64_t now_ns = clock_ns(CLOCK_MONOTONIC);
	uint64_t late_ns = now_ns > due_ns ? now_ns - due_ns : 0;

	stats.late_sum_ns += late_ns;
	stats.late_count++;
	if (late_ns > stats.late_max_ns)
		stats.late_max_ns = late_ns;
	if (sendto(packet_fd, packet->data, packet->length, MSG_DONTWAIT, (struct sockaddr *)&to, sizeof(to)) < 0)
		stats.dropped_error++;
	else
		stats.sent++;
	release(packet);
}

/* Move a packet on from its stage at now_ns, until it has to wait, is sent, or is dropped. */
static void advance(struct packet *packet, uint64_t now_ns)
{
	const struct port *src = &ports[packet->src], *dst = &ports[packet->dst];
	bool crosses = src->rack != dst->rack;
	struct token_clock *clock;
	uint64_t leave_ns;

	for (;; packet->stage++) {
		clock = NULL;
		leave_ns = now_ns;
		if (packet->stage == AT_TX)
			clock = &ports[packet->src].tx;
		else if (packet->stage == AT_UP && crosses)
			clock = &uplink_up[src->rack];
		else if (packet->stage == AT_DELAY)
			leave_ns = now_ns + delay_ns[src->rack][dst->rack];
		else if (packet->stage == AT_DOWN && crosses)
			clock = &uplink_down[dst->rack];
		else if (packet->stage == AT_RX)
			clock = &ports[packet->dst].rx;
		else if (packet->stage > AT_RX) {
			transmit(packet, now_ns);
			return;
		}
		if (clock && !charge(clock, now_ns, packet->wire_bytes, &leave_ns)) {
			stats.dropped_queue++;
			release(packet);
			return;
		}
		if (leave_ns > now_ns) {
			packet->stage++;
			if (!heap_push(leave_ns, packet)) {
				stats.dropped_memory++;
				release(packet);
			}
			return;
		}
	}
}

static unsigned int mac_slot(const unsigned char *mac)
{
	uint32_t hash;

	memcpy(&hash, mac + 2, sizeof(hash));
	return (hash * 2654435761u >> 20) & (MAC_SLOTS - 1);
}

static int port_of_mac(const unsigned char *mac)
{
	unsigned int slot;

	for (slot = mac_slot(mac); mac_table[slot] >= 0; slot = (slot + 1) & (MAC_SLOTS - 1))
		if (!memcmp(ports[mac_table[slot]].mac, mac, ETH_ALEN))
			return mac_table[slot];
	return -1;
}

/* Bytes on the wire: a large packet pays the headers of every segment that it stands for. */
static uint32_t wire_bytes(const unsigned char *data, uint32_t length)
{
	const struct virtio_net_hdr *vnet = (const void *)data;
	uint32_t frame = length - VNET_BYTES, headers, start = vnet->csum_start;

	if (vnet->gso_type == VIRTIO_NET_HDR_GSO_NONE || !vnet->gso_size || start + 20 > frame)
		return frame;
	if ((vnet->gso_type & ~VIRTIO_NET_HDR_GSO_ECN) <= VIRTIO_NET_HDR_GSO_TCPV6 &&
	    (vnet->gso_type & ~VIRTIO_NET_HDR_GSO_ECN) != VIRTIO_NET_HDR_GSO_UDP)
		headers = start + (data[VNET_BYTES + start + 12] >> 4) * 4u;
	else
		headers = start + 8;
	if (headers >= frame)
		return frame;
	return frame + (frame - headers - 1) / vnet->gso_size * headers;
}

static void admit(int src, int dst, const unsigned char *data, uint32_t length, uint64_t arrived_ns)
{
	struct packet *packet;

	if (held_bytes + length > HELD_BYTES_LIMIT || !(packet = malloc(sizeof(*packet) + length))) {
		stats.dropped_memory++;
		return;
	}
	packet->src = (uint16_t)src;
	packet->dst = (uint16_t)dst;
	packet->stage = AT_TX;
	packet->length = length;
	packet->wire_bytes = wire_bytes(data, length);
	memcpy(packet->data, data, length);
	/* "Checksum seen to be right" is a word for receivers; a sender may only say "fill it in". */
	((struct virtio_net_hdr *)(void *)packet->data)->flags &= VIRTIO_NET_HDR_F_NEEDS_CSUM;
	held_bytes += length;
	advance(packet, arrived_ns);
}

static void route(int ifindex, unsigned char *data, uint32_t length, uint64_t arrived_ns)
{
	unsigned char *mac = data + VNET_BYTES;
	int src, dst;

	src = ifindex > 0 && ifindex < MAX_IFINDEX ? port_of_ifindex[ifindex] : -1;
	if (src < 0 || length < VNET_BYTES + sizeof(struct ether_header)) {
		stats.dropped_unknown++;
		return;
	}
	if (mac[0] & 1) {
		for (dst = 0; dst < port_count; dst++)
			if (dst != src)
				admit(src, dst, data, length, arrived_ns);
		return;
	}
	dst = port_of_mac(mac);
	if (dst < 0 && length >= VNET_BYTES + IPV4_AT + 20 && !memcmp(mac + ETH_ALEN * 2, "\x08\x00", 2)) {
		/* To the router, which is us. A host's hardware address is made from its IPv4 address. */
		memcpy(mac, "\x02\x4e", 2);
		memcpy(mac + 2, mac + IPV4_AT + 16, 4);
		dst = port_of_mac(mac);
	}
	if (dst < 0 || dst == src)
		stats.dropped_unknown++;
	else
		admit(src, dst, data, length, arrived_ns);
}

/* The monotonic clock, and the wall clock that stamps are in, at the same moment: an interruption between
 * two reads would make every stamp look older than it is, and send packets early. */
static uint64_t both_clocks_ns(uint64_t *wall_ns)
{
	uint64_t before_ns, after_ns;
	int tries = 8;

	do {
		before_ns = clock_ns(CLOCK_MONOTONIC);
		*wall_ns = clock_ns(CLOCK_REALTIME);
		after_ns = clock_ns(CLOCK_MONOTONIC);
	} while (after_ns - before_ns > CLOCKS_APART_NS && --tries);
	return after_ns;
}

static unsigned char frames[BATCH][FRAME_BYTES];

/* Take what has arrived; the delay of a packet starts at its kernel stamp, not when it is read. */
static int receive(void)
{
	static struct mmsghdr messages[BATCH];
	static struct iovec vectors[BATCH];
	static struct sockaddr_ll from[BATCH];
	static union {
		char space[CMSG_SPACE(sizeof(struct timespec))];
		struct cmsghdr align;
	} control[BATCH];
	uint64_t now_ns, wall_ns;
	int i, count;

	for (i = 0; i < BATCH; i++) {
		vectors[i] = (struct iovec){frames[i], FRAME_BYTES};
		messages[i].msg_hdr = (struct msghdr){
			.msg_name = &from[i], .msg_namelen = sizeof(from[i]),
			.msg_iov = &vectors[i], .msg_iovlen = 1,
			.msg_control = &control[i], .msg_controllen = sizeof(control[i]),
		};
	}
	count = recvmmsg(packet_fd, messages, BATCH, MSG_DONTWAIT, NULL);
	if (count <= 0)
		return 0;
	now_ns = both_clocks_ns(&wall_ns);
	for (i = 0; i < count; i++) {
		struct msghdr *header = &messages[i].msg_hdr;
		struct cmsghdr *c = CMSG_FIRSTHDR(header);
		uint64_t age_ns = 0;

		stats.received++;
		if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_TIMESTAMPNS) {
			struct timespec stamp;
			uint64_t stamp_ns;

			memcpy(&stamp, CMSG_DATA(c), sizeof(stamp));
			stamp_ns = (uint64_t)stamp.tv_sec * SECOND_NS + (uint64_t)stamp.tv_nsec;
			if (stamp_ns < wall_ns && wall_ns - stamp_ns < STAMP_AGE_LIMIT_NS)
				age_ns = wall_ns - stamp_ns;
		}
		if (header->msg_flags & MSG_TRUNC)
			stats.dropped_error++;
		else
			route(from[i].sll_ifindex, frames[i], messages[i].msg_len, now_ns - age_ns);
	}
	return count;
}

/* ---- configuration and control ---------------------------------------------------------------- */

static bool number(const char *word, uint64_t limit, uint64_t *value)
{
	char *end;

	if (!word || *word < '0' || *word > '9')
		return false;
	errno = 0;
	*value = strtoull(word, &end, 10);
	return !errno && !*end && *value <= limit;
}

static struct port *port_named(const char *name)
{
	int i;

	for (i = 0; i < port_count; i++)
		if (!strcmp(ports[i].name, name))
			return &ports[i];
	return NULL;
}

static const char *add_port(char *const words[])
{
	struct port *port = &ports[port_count];
	unsigned int mac[ETH_ALEN], slot, i;
	uint64_t rack;
	char extra;

	if (port_count == MAX_PORTS)
		return "too many ports";
	if (strlen(words[2]) >= sizeof(port->name) || port_named(words[2]))
		return "name is too long or there already";
	if (!number(words[3], (uint64_t)rack_count - 1, &rack) || !rack_count)
		return "no such rack";
	if (sscanf(words[4], "%2x:%2x:%2x:%2x:%2x:%2x%c", mac, mac + 1, mac + 2, mac + 3, mac + 4, mac + 5,
		   &extra) != ETH_ALEN)
		return "no hardware address";
	port->ifindex = (int)if_nametoindex(words[1]);
	if (port->ifindex <= 0 || port->ifindex >= MAX_IFINDEX)
		return "no such interface";
	strcpy(port->name, words[2]);
	port->rack = (int)rack;
	for (i = 0; i < ETH_ALEN; i++)
		port->mac[i] = (unsigned char)mac[i];
	if (port_of_mac(port->mac) >= 0)
		return "hardware address is there already";
	for (slot = mac_slot(port->mac); mac_table[slot] >= 0; slot = (slot + 1) & (MAC_SLOTS - 1))
		;
	mac_table[slot] = (int16_t)port_count;
	port_of_ifindex[port->ifindex] = (int16_t)port_count;
	port_count++;
	return NULL;
}

/* Obey one line; NULL when done, else what is wrong with it. Changes the line. */
static const char *obey(char *line, bool configuring)
{
	char *words[6] = {NULL}, *rest = NULL;
	struct token_clock *clock;
	struct port *port;
	uint64_t a, b, value;
	int count = 0;
	char *word;

	for (word = strtok_r(line, " \t\r\n", &rest); word; word = strtok_r(NULL, " \t\r\n", &rest)) {
		if (count == 6)
			return "too many words";
		words[count++] = word;
	}
	if (!count)
		return "empty line";
	if (configuring && count == 2 && !strcmp(words[0], "racks")) {
		if (rack_count || !number(words[1], MAX_RACKS, &a) || !a)
			return "no possible number of racks";
		rack_count = (int)a;
		return NULL;
	}
	if (configuring && count == 5 && !strcmp(words[0], "port"))
		return add_port(words);
	if (count != 4)
		return "unknown command";
	if (!strcmp(words[0], "delay")) {
		if (!rack_count || !number(words[1], (uint64_t)rack_count - 1, &a) ||
		    !number(words[2], (uint64_t)rack_count - 1, &b))
			return "no such rack";
		if (!number(words[3], 60 * SECOND_NS, &value))
			return "no possible delay";
		delay_ns[a][b] = value;
		return NULL;
	}
	if (!strcmp(words[0], "host")) {
		if (!(port = port_named(words[1])))
			return "no such host";
		clock = !strcmp(words[2], "tx") ? &port->tx : !strcmp(words[2], "rx") ? &port->rx : NULL;
	} else if (!strcmp(words[0], "uplink")) {
		if (!rack_count || !number(words[1], (uint64_t)rack_count - 1, &a))
			return "no such rack";
		clock = !strcmp(words[2], "up") ? &uplink_up[a] : !strcmp(words[2], "down") ? &uplink_down[a] : NULL;
	} else {
		return "unknown command";
	}
	if (!clock)
		return "no such direction";
	if (!number(words[3], 1000000000000ULL, &value))
		return "no possible rate";
	clock->bytes_per_s = value;
	clock->remainder = 0;
	return NULL;
}

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
			" held_bytes=%" PRIu64 " late_mean_ns=%" PRIu64 " late_max_ns=%" PRIu64 "\n",
			stats.received, stats.sent, stats.dropped_queue, stats.dropped_memory,
			stats.dropped_unknown, stats.dropped_error, stats.kernel_drops, held_bytes,
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
static bool wait_and_serve(const struct timespec *timeout)
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
		if (heap_used && heap[0].due_ns <= now_ns) {
			uint64_t due_ns = heap[0].due_ns;

			advance(heap_pop(), due_ns);
		}
		if (heap_used && heap[0].due_ns <= now_ns + CLOCK_SPIN_NS)
			continue;
		more_due = heap_used && heap[0].due_ns <= now_ns + SPIN_NS;
		if (receive() || more_due)
			continue;
		if (heap_used) {
			sleep_ns = heap[0].due_ns - now_ns - SPIN_NS;
			timeout = (struct timespec){(time_t)(sleep_ns / SECOND_NS), (long)(sleep_ns % SECOND_NS)};
		}
		if (!wait_and_serve(heap_used ? &timeout : NULL))
			return;
		controlled_ns = clock_ns(CLOCK_MONOTONIC);
	}
}

/* ---- beginning and end ------------------------------------------------------------------------ */

static void configure(void)
{
	char line[LINE_BYTES], copy[LINE_BYTES];
	const char *fault;

	memset(port_of_ifindex, -1, sizeof(port_of_ifindex));
	memset(mac_table, -1, sizeof(mac_table));
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

	/* One socket for every port: an arrival names its interface, a departure is told one. Protocol 0
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
	setsockopt(packet_fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes));
	setsockopt(packet_fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes));
	if (bind(packet_fd, (struct sockaddr *)&any, sizeof(any)))
		die("bind packet socket");
}

static void open_control_socket(const char *path)
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
	sched_setscheduler(0, SCHED_FIFO, &fifo);
	mallopt(M_MMAP_THRESHOLD, 1 << 30);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	mlockall(MCL_CURRENT | MCL_FUTURE);
	run();
	unlink(argv[1]);
	unlink(argv[2]);
	return 0;
}
