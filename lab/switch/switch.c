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
 *   impair host NAME KEY VALUE     KEY: loss (parts of a billion), delay, jitter (nanoseconds), blocked (0, 1),
 *   impair link SRC DST KEY VALUE       paths (nanoseconds with commas between, 0 for none),
 *   impair racks SRC DST KEY VALUE      mtu (bytes, 0 for none)
 *   background SRC DST BYTES_PER_S 0 ends it
 *   clear impair|background
 *   seed NUMBER | routers          configuration only
 *   ping | stats                   control only
 *
 * A packet is charged at its host's transmitter, its rack's way up, then waits out the delay, and is
 * charged at the other rack's way down and the receiving host. Each of these four is a token clock: a
 * packet leaves at once when the bytes before it are paid for, waits otherwise, and is dropped when it
 * would wait longer than QUEUE_NS. A packet's own bytes are paid by those behind it, so that an idle
 * rate adds nothing to a small probe. A packet of a background flow is charged in the same places, and is
 * nothing but its size.
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

#include "switch_faults.h"
#include "switch_router.h"

#ifndef PACKET_IGNORE_OUTGOING
#define PACKET_IGNORE_OUTGOING 23
#endif

#define MAX_PORTS 520
#define MAX_RACKS 80
#define MAX_IFINDEX 8192
#define MAC_SLOTS 4096 /* a power of two, well above MAX_PORTS */
#define MAX_CLIENTS 8
#define MAX_FLOWS 64
#define LINE_BYTES 256
#define BATCH 16
#define FRAME_BYTES 70000
#define VNET_BYTES sizeof(struct virtio_net_hdr)

#define SECOND_NS 1000000000ULL
#define QUEUE_NS 20000000ULL              /* longest wait for a rate; a longer one is a tail drop */
#define HELD_BYTES_LIMIT (256ULL << 20)   /* everything waiting in here, whatever the delays */
#define SPIN_NS 40000ULL                  /* wake this long before a due time and spin: sleeps are late */
#define CLOCK_SPIN_NS 3000ULL             /* this near, look at nothing but the clock */
#define CONTROL_EVERY_NS 1000000ULL       /* how often a busy switch looks at its control socket */
#define CLOCKS_APART_NS 500ULL            /* two clocks are read together when it takes no longer */
#define BACKGROUND_BYTES 1514             /* a frame of a background flow */
#define BACKGROUND_BYTES_MAX 15140        /* and of one so fast that it would cost too many of them */
#define BACKGROUND_PER_S_MAX 100000ULL
#define BACKGROUND_EVERY_NS 1000000ULL    /* how long background flows may wait to be worked off, at most */
#define BACKGROUND_LAG_NS 100000000ULL    /* what is further behind is left out: this process had stopped */
#define STAMP_AGE_LIMIT_NS 100000000ULL   /* an older stamp means that the wall clock was set */

enum stage { AT_SOURCE, AT_TX, AT_UP, AT_DELAY, AT_DOWN, AT_RX };

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
	bool ghost;          /* of a background flow: it has no data and arrives nowhere */
	uint32_t wire_bytes; /* what it takes on a link, once cut into segments */
	uint32_t length;     /* of data: the virtio header and the frame */
	unsigned char data[];
};

struct event {
	uint64_t due_ns, sequence;
	struct packet *packet;
};

struct heap {
	struct event *events;
	size_t used, size;
};

/* A background flow: `source` stands in the heap of ghosts, due when the next packet of the flow is. */
struct flow {
	uint64_t bytes_per_s; /* 0: it ends when its source is next due */
	struct packet *source;
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

static bool routers;
static int controller_rack; /* the last rack: its traffic passes no router */
static struct flow flows[MAX_FLOWS];

/* Packets, which this process wakes up for, and ghosts, which it only works off in their turn. */
static struct heap packets, ghosts;
static uint64_t sequence, held_bytes;

static int packet_fd = -1, signal_fd = -1, listen_fd = -1;
static struct client clients[MAX_CLIENTS];

static struct {
	uint64_t received, sent, dropped_queue, dropped_memory, dropped_unknown, dropped_error, kernel_drops;
	uint64_t lost, errors_sent, background_sent, background_dropped;
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

static bool heap_push(struct heap *heap, uint64_t due_ns, struct packet *packet)
{
	struct event e = {due_ns, sequence++, packet};
	size_t i, parent;

	if (heap->used == heap->size) {
		size_t size = heap->size ? heap->size * 2 : 4096;
		struct event *grown = realloc(heap->events, size * sizeof(*grown));

		if (!grown)
			return false;
		heap->events = grown;
		heap->size = size;
	}
	for (i = heap->used++; i > 0; i = parent) {
		parent = (i - 1) / 2;
		if (!before(&e, &heap->events[parent]))
			break;
		heap->events[i] = heap->events[parent];
	}
	heap->events[i] = e;
	return true;
}

static struct packet *heap_pop(struct heap *heap)
{
	struct event *events = heap->events;
	struct packet *packet = events[0].packet;
	struct event last = events[--heap->used];
	size_t i = 0, child;

	while ((child = 2 * i + 1) < heap->used) {
		if (child + 1 < heap->used && before(&events[child + 1], &events[child]))
			child++;
		if (!before(&events[child], &last))
			break;
		events[i] = events[child];
		i = child;
	}
	events[i] = last;
	return packet;
}

static bool is_due(const struct heap *heap, uint64_t now_ns)
{
	return heap->used && heap->events[0].due_ns <= now_ns;
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

static void advance(struct packet *packet, uint64_t now_ns);

static struct packet *new_packet(int src, int dst, enum stage stage, uint32_t length)
{
	struct packet *packet = NULL;

	if (held_bytes + length <= HELD_BYTES_LIMIT)
		packet = malloc(sizeof(*packet) + length);
	if (!packet) {
		stats.dropped_memory++;
		return NULL;
	}
	*packet = (struct packet){.src = (uint16_t)src, .dst = (uint16_t)dst, .stage = stage, .length = length};
	held_bytes += length;
	return packet;
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

	if (packet->ghost) {
		stats.background_sent++;
		release(packet);
		return;
	}
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

/* A router tells the sender of a packet that it drops it. */
static void complain(const struct packet *about, int router_rack, unsigned char type, unsigned char code,
		     uint64_t mtu, uint64_t due_ns)
{
	/* 10.77.0.2 is the router of the first rack. */
	const unsigned char router[4] = {10, 77, 0, (unsigned char)(2 + router_rack)};
	struct packet *packet = new_packet(about->src, about->src, AT_RX, VNET_BYTES + ERROR_BYTES_MAX);

	if (!packet)
		return;
	memset(packet->data, 0, VNET_BYTES);
	held_bytes -= packet->length;
	packet->length = VNET_BYTES + icmp_error(packet->data + VNET_BYTES, about->data + VNET_BYTES,
						 about->length - VNET_BYTES, router, type, code, (uint16_t)mtu);
	held_bytes += packet->length;
	packet->wire_bytes = packet->length - VNET_BYTES;
	stats.errors_sent++;
	if (!heap_push(&packets, due_ns, packet)) {
		stats.dropped_memory++;
		release(packet);
	}
}

/* The largest IP packet that a large packet is cut into, or its own size. */
static uint32_t ip_bytes(const struct packet *packet)
{
	const struct virtio_net_hdr *vnet = (const void *)packet->data;
	uint32_t frame = packet->length - VNET_BYTES, header;

	if (vnet->gso_type == VIRTIO_NET_HDR_GSO_NONE || !vnet->gso_size)
		return frame - ETHERNET_BYTES;
	header = vnet->csum_start + 8u;
	if ((vnet->gso_type & ~VIRTIO_NET_HDR_GSO_ECN) <= VIRTIO_NET_HDR_GSO_TCPV6 &&
	    (vnet->gso_type & ~VIRTIO_NET_HDR_GSO_ECN) != VIRTIO_NET_HDR_GSO_UDP && header + 5 < frame)
		header += 4u * (packet->data[VNET_BYTES + vnet->csum_start + 12] >> 4) - 8;
	return header + vnet->gso_size - ETHERNET_BYTES;
}

/*
 * Two routers stand between two racks, each rack's own. Half of a rack's delay is from a host to its
 * router. False: the packet ends here, with an error or (without routers, too large) without a word.
 */
static bool pass_routers(struct packet *packet, uint64_t now_ns)
{
	int from = ports[packet->src].rack, to = ports[packet->dst].rack;
	const struct impairment *wrong = impairment(ON_RACKS, from, to, false);
	unsigned char *frame = packet->data + VNET_BYTES;
	uint32_t length = packet->length - VNET_BYTES;
	uint64_t near_ns = now_ns + delay_ns[from][from], far_ns;
	unsigned char *ttl = frame + ETHERNET_BYTES + 8;
	bool silent;

	if (from == controller_rack || to == controller_rack || !is_ipv4(frame, length))
		return true;
	silent = is_silent(frame, length);
	if (routers && *ttl <= 2) {
		far_ns = 2 * delay_ns[from][to];
		far_ns = now_ns + (far_ns > delay_ns[to][to] ? far_ns - delay_ns[to][to] : 0);
		if (!silent)
			complain(packet, *ttl == 2 ? to : from, ICMP_TIME_EXCEEDED, 0, 0,
				 *ttl == 2 ? far_ns : near_ns);
		return false;
	}
	/* What may be cut into pieces passes whole. */
	if (wrong && wrong->mtu && ip_bytes(packet) > wrong->mtu && (frame[ETHERNET_BYTES + 6] & 0x40)) {
		if (routers && !silent)
			complain(packet, from, ICMP_UNREACHABLE, ICMP_FRAGMENTATION_NEEDED, wrong->mtu, near_ns);
		else
			stats.lost++;
		return false;
	}
	if (routers)
		lower_ttl(frame, 2);
	return true;
}

/* How long a packet takes from rack to rack, what is wrong on its way included; false: it is lost there. */
static bool cross(const struct packet *packet, uint64_t *delay)
{
	int from = ports[packet->src].rack, to = ports[packet->dst].rack;
	uint64_t hash;

	*delay = delay_ns[from][to];
	if (!impairment_count)
		return true;
	hash = packet->ghost ? (uint64_t)packet->src << 16 | packet->dst
			     : flow_hash(packet->data + VNET_BYTES, packet->length - VNET_BYTES);
	return suffer(impairment(ON_HOST, packet->src, 0, false), hash, delay) &&
	       suffer(impairment(ON_HOST, packet->dst, 0, false), hash, delay) &&
	       suffer(impairment(ON_LINK, packet->src, packet->dst, false), hash, delay) &&
	       suffer(impairment(ON_RACKS, from, to, false), hash, delay);
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
		if (packet->stage == AT_TX) {
			clock = &ports[packet->src].tx;
		} else if (packet->stage == AT_UP && crosses) {
			if (!packet->ghost && !pass_routers(packet, now_ns)) {
				release(packet);
				return;
			}
			clock = &uplink_up[src->rack];
		} else if (packet->stage == AT_DELAY) {
			if (!cross(packet, &leave_ns)) {
				stats.lost++;
				release(packet);
				return;
			}
			leave_ns += now_ns;
		} else if (packet->stage == AT_DOWN && crosses) {
			clock = &uplink_down[dst->rack];
		} else if (packet->stage == AT_RX) {
			clock = &ports[packet->dst].rx;
		} else if (packet->stage > AT_RX) {
			transmit(packet, now_ns);
			return;
		}
		if (clock && !charge(clock, now_ns, packet->wire_bytes, &leave_ns)) {
			*(packet->ghost ? &stats.background_dropped : &stats.dropped_queue) += 1;
			release(packet);
			return;
		}
		if (leave_ns > now_ns) {
			packet->stage++;
			if (!heap_push(packet->ghost ? &ghosts : &packets, leave_ns, packet)) {
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
	const struct impairment *wrong = impairment(ON_HOST, src, 0, false);
	struct packet *packet;

	if (wrong && wrong->blocked) { /* a dead host takes no room on its links */
		stats.lost++;
		return;
	}
	if (!(packet = new_packet(src, dst, AT_TX, length)))
		return;
	packet->wire_bytes = wire_bytes(data, length);
	memcpy(packet->data, data, length);
	/* "Checksum seen to be right" is a word for receivers; a sender may only say "fill it in". */
	((struct virtio_net_hdr *)(void *)packet->data)->flags &= VIRTIO_NET_HDR_F_NEEDS_CSUM;
	advance(packet, arrived_ns);
}

/* ---- background flows -------------------------------------------------------------------------- */

/* The source of a flow is due: send one of its packets, and say when the next one is. */
static void emit(struct packet *source, uint64_t due_ns, uint64_t now_ns)
{
	struct flow *flow = NULL;
	struct packet *packet;
	uint64_t gap_ns;
	int i;

	for (i = 0; i < MAX_FLOWS; i++)
		if (flows[i].source == source)
			flow = &flows[i];
	if (!flow || !flow->bytes_per_s) {
		if (flow)
			flow->source = NULL;
		release(source);
		return;
	}
	if (now_ns - due_ns > BACKGROUND_LAG_NS)
		due_ns = now_ns;
	source->wire_bytes = BACKGROUND_BYTES;
	if (flow->bytes_per_s > BACKGROUND_PER_S_MAX * BACKGROUND_BYTES)
		source->wire_bytes = BACKGROUND_BYTES_MAX;
	if ((packet = new_packet(source->src, source->dst, AT_TX, 0))) {
		packet->ghost = true;
		packet->wire_bytes = source->wire_bytes;
		advance(packet, due_ns);
	}
	gap_ns = source->wire_bytes * SECOND_NS / flow->bytes_per_s;
	/* Gaps of any length up to twice the mean: no flow keeps step with a probe. */
	if (!heap_push(&ghosts, due_ns + 1 + random_below(2 * gap_ns), source)) {
		flow->source = NULL;
		release(source);
	}
}

/* Work off the background flows up to a moment, so that what comes then finds the queues as they are. */
static void catch_up(uint64_t until_ns)
{
	while (is_due(&ghosts, until_ns)) {
		uint64_t due_ns = ghosts.events[0].due_ns;
		struct packet *packet = heap_pop(&ghosts);

		if (packet->stage == AT_SOURCE)
			emit(packet, due_ns, until_ns);
		else
			advance(packet, due_ns);
	}
}

/* Set the rate of the flow of a link; NULL when done, else what is wrong. */
static const char *set_flow(int src, int dst, uint64_t bytes_per_s)
{
	struct flow *flow = NULL;
	int i;

	for (i = 0; i < MAX_FLOWS && !flow; i++)
		if (flows[i].source && flows[i].source->src == src && flows[i].source->dst == dst)
			flow = &flows[i];
	for (i = 0; i < MAX_FLOWS && !flow && bytes_per_s; i++)
		if (!flows[i].source)
			flow = &flows[i];
	if (!flow)
		return bytes_per_s ? "no room for more flows" : NULL;
	flow->bytes_per_s = bytes_per_s;
	if (flow->source)
		return NULL;
	flow->source = new_packet(src, dst, AT_SOURCE, 0);
	if (flow->source && !heap_push(&ghosts, clock_ns(CLOCK_MONOTONIC), flow->source)) {
		release(flow->source);
		flow->source = NULL;
	}
	return flow->source ? NULL : "no memory";
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
	if (dst < 0 && length >= VNET_BYTES + ETHERNET_BYTES + 20 && !memcmp(mac + ETH_ALEN * 2, "\x08\x00", 2)) {
		/* To the router, which is us. A host's hardware address is made from its IPv4 address. */
		memcpy(mac, "\x02\x4e", 2);
		memcpy(mac + 2, mac + ETHERNET_BYTES + 16, 4);
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
		else {
			catch_up(now_ns - age_ns);
			route(from[i].sll_ifindex, frames[i], messages[i].msg_len, now_ns - age_ns);
		}
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

/* Numbers with commas between; how many, or -1. */
static int numbers(const char *word, uint64_t limit, uint64_t *values, int most)
{
	int count = 0;
	char *end;

	for (;; word = end + 1) {
		if (count == most || *word < '0' || *word > '9')
			return -1;
		errno = 0;
		values[count] = strtoull(word, &end, 10);
		if (errno || values[count++] > limit || (*end && *end != ','))
			return -1;
		if (!*end)
			return count;
	}
}

/* impair host NAME KEY VALUE | impair link SRC DST KEY VALUE | impair racks SRC DST KEY VALUE */
static const char *impair(char *const words[], int count)
{
	bool on_host = !strcmp(words[1], "host");
	const char *key = words[on_host ? 3 : 4], *value = words[on_host ? 4 : 5];
	const struct port *near, *far;
	struct impairment *one = NULL;
	uint64_t paths[MAX_PATHS] = {0}, a, b;
	int path_count;

	if (count != (on_host ? 5 : 6))
		return "unknown command";
	if (on_host) {
		if (!(near = port_named(words[2])))
			return "no such host";
		one = impairment(ON_HOST, (int)(near - ports), 0, true);
	} else if (!strcmp(words[1], "link")) {
		if (!(near = port_named(words[2])) || !(far = port_named(words[3])))
			return "no such host";
		one = impairment(ON_LINK, (int)(near - ports), (int)(far - ports), true);
	} else if (!strcmp(words[1], "racks")) {
		if (!rack_count || !number(words[2], (uint64_t)rack_count - 1, &a) ||
		    !number(words[3], (uint64_t)rack_count - 1, &b))
			return "no such rack";
		one = impairment(ON_RACKS, (int)a, (int)b, true);
	} else {
		return "unknown command";
	}
	if (!one)
		return "no room for more impairments";
	if (!strcmp(key, "loss"))
		return number(value, PER_BILLION, &one->loss_ppb) ? NULL : "no possible loss";
	if (!strcmp(key, "delay"))
		return number(value, 60 * SECOND_NS, &one->delay_ns) ? NULL : "no possible delay";
	if (!strcmp(key, "jitter"))
		return number(value, 60 * SECOND_NS, &one->jitter_ns) ? NULL : "no possible jitter";
	if (!strcmp(key, "mtu"))
		return number(value, 65535, &one->mtu) ? NULL : "no possible size";
	if (!strcmp(key, "blocked")) {
		if (!number(value, 1, &a))
			return "blocked is 0 or 1";
		one->blocked = a;
		return NULL;
	}
	if (strcmp(key, "paths"))
		return "no such key";
	path_count = numbers(value, 60 * SECOND_NS, paths, MAX_PATHS);
	if (path_count < 0)
		return "no possible paths";
	one->path_count = strcmp(value, "0") ? (unsigned int)path_count : 0;
	memcpy(one->paths_ns, paths, sizeof(paths));
	return NULL;
}

static const char *background(char *const words[])
{
	const struct port *near = port_named(words[1]), *far = port_named(words[2]);
	uint64_t bytes_per_s;

	if (!near || !far || near == far)
		return "no such two hosts";
	if (!number(words[3], 1000000000000ULL, &bytes_per_s))
		return "no possible rate";
	return set_flow((int)(near - ports), (int)(far - ports), bytes_per_s);
}

static const char *clear(const char *what)
{
	int i;

	if (!strcmp(what, "impair")) {
		clear_impairments();
		return NULL;
	}
	if (strcmp(what, "background"))
		return "unknown command";
	for (i = 0; i < MAX_FLOWS; i++)
		flows[i].bytes_per_s = 0;
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
		controller_rack = rack_count - 1;
		return NULL;
	}
	if (configuring && count == 2 && !strcmp(words[0], "seed"))
		return number(words[1], UINT64_MAX - 1, &random_state) ? NULL : "no possible seed";
	if (configuring && count == 1 && !strcmp(words[0], "routers")) {
		routers = true;
		return NULL;
	}
	if (configuring && count == 5 && !strcmp(words[0], "port"))
		return add_port(words);
	if (count >= 5 && !strcmp(words[0], "impair"))
		return impair(words, count);
	if (count == 4 && !strcmp(words[0], "background"))
		return background(words);
	if (count == 2 && !strcmp(words[0], "clear"))
		return clear(words[1]);
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
			" held_bytes=%" PRIu64 " lost=%" PRIu64 " errors_sent=%" PRIu64
			" background_sent=%" PRIu64 " background_dropped=%" PRIu64 " late_mean_ns=%" PRIu64 " late_max_ns=%" PRIu64 "\n",
			stats.received, stats.sent, stats.dropped_queue, stats.dropped_memory,
			stats.dropped_unknown, stats.dropped_error, stats.kernel_drops, held_bytes,
			stats.lost, stats.errors_sent, stats.background_sent, stats.background_dropped,
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
	if (setsockopt(packet_fd, SOL_SOCKET, SO_RCVBUFFORCE, &bytes, sizeof(bytes)))
		setsockopt(packet_fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof(bytes)); /* as much as a user may */
	if (setsockopt(packet_fd, SOL_SOCKET, SO_SNDBUFFORCE, &bytes, sizeof(bytes)))
		setsockopt(packet_fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes));
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
