/* Packets that arrive: read in batches with their kernel stamps, and admitted to the port they are for. */
#include "switch.h"

#include <linux/if_packet.h>
#include <string.h>
#include <sys/socket.h>

#include "faults.h"
#include "router.h"

static unsigned char frames[BATCH][FRAME_BYTES];

/* Bytes on the wire: a large packet pays the headers of every segment that it replaces. */
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

static void route(int ifindex, unsigned char *data, uint32_t length, uint64_t arrived_ns)
{
	unsigned char *mac = data + VNET_BYTES;
	int src, dst;

	src = port_of_interface(ifindex);
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

/* Take what has arrived; the delay of a packet starts at its kernel stamp, not when it is read. */
int receive(void)
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
