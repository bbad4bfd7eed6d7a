/* The path of a packet: rates of hosts and uplinks, delays, routers, and what goes wrong on the path. */
#include "switch.h"

#include <string.h>
#include <sys/socket.h>
#include <linux/if_packet.h>

#include "faults.h"
#include "router.h"

struct token_clock uplink_up[MAX_RACKS], uplink_down[MAX_RACKS];
uint64_t delay_ns[MAX_RACKS][MAX_RACKS];
bool routers;
int controller_rack; /* the last rack: its traffic passes no router */

/* A length as a waiting time at a rate, at most QUEUE_LIMIT. */
static uint64_t as_time_ns(const struct length *length, uint64_t bytes_per_s)
{
	uint64_t ns;

	if (!length->in_bytes)
		return length->limit;
	ns = length->limit * SECOND_NS / bytes_per_s;
	return ns > QUEUE_LIMIT ? QUEUE_LIMIT : ns + 1;
}

/* After a change of the rate or of a length. */
void settle(struct token_clock *clock)
{
	clock->remainder = 0;
	if (!clock->bytes_per_s)
		return;
	clock->queue_ns = clock->queue.limit ? as_time_ns(&clock->queue, clock->bytes_per_s) : QUEUE_NS;
	clock->mark_ns = clock->mark.limit ? as_time_ns(&clock->mark, clock->bytes_per_s) : 0;
}

/* Charge a packet that is here at now_ns; says in *leave_ns when it goes on, or false: dropped. */
static bool charge(struct token_clock *clock, uint64_t now_ns, struct packet *packet, uint64_t *leave_ns)
{
	uint64_t owed, waits_ns;

	*leave_ns = now_ns;
	if (!clock->bytes_per_s)
		return true;
	if (clock->free_ns > now_ns) {
		waits_ns = clock->free_ns - now_ns;
		if (waits_ns > clock->queue_ns)
			return false;
		if (clock->mark_ns && waits_ns > clock->mark_ns && !packet->ghost &&
		    mark_congested(packet->data + VNET_BYTES, packet->length - VNET_BYTES))
			stats.marked++;
		*leave_ns = clock->free_ns;
	} else {
		clock->remainder = 0;
	}
	owed = packet->wire_bytes * SECOND_NS + clock->remainder;
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
 * Two routers are between two racks, each rack's own. Half of a rack's delay is from a host to its
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

/* How long a packet takes from rack to rack, what is wrong on its way included, and whether it arrives twice;
 * false: it is lost there. */
static bool cross(const struct packet *packet, uint64_t *delay, bool *twice)
{
	int from = ports[packet->src].rack, to = ports[packet->dst].rack;
	uint64_t hash;

	*delay = delay_ns[from][to];
	if (!impairment_count)
		return true;
	hash = packet->ghost ? (uint64_t)packet->src << 16 | packet->dst
			     : flow_hash(packet->data + VNET_BYTES, packet->length - VNET_BYTES);
	return suffer(impairment(ON_HOST, packet->src, 0, false), hash, delay, twice) &&
	       suffer(impairment(ON_HOST, packet->dst, 0, false), hash, delay, twice) &&
	       suffer(impairment(ON_LINK, packet->src, packet->dst, false), hash, delay, twice) &&
	       suffer(impairment(ON_RACKS, from, to, false), hash, delay, twice);
}

/* A second one like it goes on from the delays, a little later. */
static void copy(const struct packet *packet, uint64_t due_ns)
{
	struct packet *second = new_packet(packet->src, packet->dst, AT_DOWN, packet->length);

	if (!second)
		return;
	second->wire_bytes = packet->wire_bytes;
	memcpy(second->data, packet->data, packet->length);
	if (!heap_push(&packets, due_ns, second)) {
		stats.dropped_memory++;
		release(second);
	}
}

/* Move a packet on from its stage at now_ns, until it has to wait, is sent, or is dropped. */
void advance(struct packet *packet, uint64_t now_ns)
{
	const struct port *src = &ports[packet->src], *dst = &ports[packet->dst];
	bool crosses = src->rack != dst->rack, twice = false;
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
			if (!cross(packet, &leave_ns, &twice)) {
				stats.lost++;
				release(packet);
				return;
			}
			leave_ns += now_ns;
			if (twice && !packet->ghost)
				copy(packet, leave_ns + COPY_LATE_NS);
		} else if (packet->stage == AT_DOWN && crosses) {
			clock = &uplink_down[dst->rack];
		} else if (packet->stage == AT_RX) {
			clock = &ports[packet->dst].rx;
		} else if (packet->stage > AT_RX) {
			transmit(packet, now_ns);
			return;
		}
		if (clock && !charge(clock, now_ns, packet, &leave_ns)) {
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
