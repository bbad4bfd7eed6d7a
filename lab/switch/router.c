/* See router.h. */
#include "router.h"

#include <string.h>

/* The Internet checksum (RFC 1071) of bytes, as in a packet. */
static void put_checksum(unsigned char *at, const unsigned char *bytes, uint32_t length)
{
	uint32_t sum = 0, i;

	for (i = 0; i + 1 < length; i += 2)
		sum += (uint32_t)bytes[i] << 8 | bytes[i + 1];
	if (length & 1)
		sum += (uint32_t)bytes[length - 1] << 8;
	sum = (sum & 0xffff) + (sum >> 16);
	sum = ~((sum & 0xffff) + (sum >> 16));
	at[0] = (unsigned char)(sum >> 8);
	at[1] = (unsigned char)sum;
}

bool is_ipv4(const unsigned char *frame, uint32_t length)
{
	return length >= ETHERNET_BYTES + IPV4_BYTES && frame[12] == 8 && frame[13] == 0 && frame[14] >> 4 == 4 &&
	       (frame[14] & 15u) >= 5 && length >= ETHERNET_BYTES + (frame[14] & 15u) * 4;
}

/* Whether no error may be sent about a packet (RFC 1812, 4.3.2.7): errors, later fragments, and what was
 * not sent to one host. */
bool is_silent(const unsigned char *frame, uint32_t length)
{
	const unsigned char *ip = frame + ETHERNET_BYTES;
	unsigned int header = (ip[0] & 15u) * 4;

	if ((ip[6] & 0x1f) || ip[7] || ip[16] >= 224)
		return true;
	if (ip[9] == 1 && length < ETHERNET_BYTES + header + ICMP_BYTES)
		return true;
	return ip[9] == 1 && ip[header] != 8 && ip[header] != 0;
}

void lower_ttl(unsigned char *frame, unsigned char by)
{
	unsigned char *ip = frame + ETHERNET_BYTES;

	ip[8] = (unsigned char)(ip[8] - by);
	ip[10] = ip[11] = 0;
	put_checksum(ip + 10, ip, (ip[0] & 15u) * 4);
}

/* Write "congestion experienced" (RFC 3168) where the sender said that it understands; whether it did. */
bool mark_congested(unsigned char *frame, uint32_t length)
{
	unsigned char *ip = frame + ETHERNET_BYTES, codepoint;

	if (!is_ipv4(frame, length) || length < ETHERNET_BYTES + (ip[0] & 15u) * 4)
		return false;
	codepoint = ip[1] & 3;
	if (codepoint != 1 && codepoint != 2)
		return false;
	ip[1] |= 3;
	ip[10] = ip[11] = 0;
	put_checksum(ip + 10, ip, (ip[0] & 15u) * 4);
	return true;
}

/* Write the error of a router about a packet, back to who sent it; its length. `out` has ERROR_BYTES_MAX. */
uint32_t icmp_error(unsigned char *out, const unsigned char *frame, uint32_t length,
			   const unsigned char *router, unsigned char type, unsigned char code, uint16_t mtu)
{
	const unsigned char *about = frame + ETHERNET_BYTES;
	unsigned char *ip = out + ETHERNET_BYTES, *icmp = ip + IPV4_BYTES;
	uint32_t quoted = length - ETHERNET_BYTES, total;

	if (quoted > QUOTE_BYTES_MAX)
		quoted = QUOTE_BYTES_MAX;
	total = IPV4_BYTES + ICMP_BYTES + quoted;
	memset(out, 0, ETHERNET_BYTES + IPV4_BYTES + ICMP_BYTES);
	memcpy(out, frame + 6, 6);
	memcpy(out + 6, frame, 6);
	out[12] = 8;
	ip[0] = 0x45;
	ip[1] = 0xc0; /* internetwork control: RFC 1812, 4.3.2.5 */
	ip[2] = (unsigned char)(total >> 8);
	ip[3] = (unsigned char)total;
	ip[8] = 64;
	ip[9] = 1;
	memcpy(ip + 12, router, 4);
	memcpy(ip + 16, about + 12, 4);
	put_checksum(ip + 10, ip, IPV4_BYTES);
	icmp[0] = type;
	icmp[1] = code;
	icmp[6] = (unsigned char)(mtu >> 8);
	icmp[7] = (unsigned char)mtu;
	memcpy(icmp + ICMP_BYTES, about, quoted);
	put_checksum(icmp + 2, icmp, ICMP_BYTES + quoted);
	return ETHERNET_BYTES + total;
}
