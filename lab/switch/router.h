/*
 * Routers between racks, as far as a host can see them: a lower time to live, and the two ICMP errors that
 * path discovery needs (RFC 792; RFC 1191 for the size). Pure: frames in, frames out.
 */
#ifndef SWITCH_ROUTER_H
#define SWITCH_ROUTER_H

#include <stdbool.h>
#include <stdint.h>

#define ETHERNET_BYTES 14
#define IPV4_BYTES 20
#define ICMP_BYTES 8
#define QUOTE_BYTES_MAX 128u /* of the packet that an error is about */
#define ERROR_BYTES_MAX (ETHERNET_BYTES + IPV4_BYTES + ICMP_BYTES + QUOTE_BYTES_MAX)
#define ICMP_UNREACHABLE 3
#define ICMP_FRAGMENTATION_NEEDED 4 /* a code of it */
#define ICMP_TIME_EXCEEDED 11

bool is_ipv4(const unsigned char *frame, uint32_t length);
bool is_silent(const unsigned char *frame, uint32_t length);
void lower_ttl(unsigned char *frame, unsigned char by);
bool mark_congested(unsigned char *frame, uint32_t length);
uint32_t icmp_error(unsigned char *out, const unsigned char *frame, uint32_t length, const unsigned char *router, unsigned char type, unsigned char code, uint16_t mtu);

#endif
