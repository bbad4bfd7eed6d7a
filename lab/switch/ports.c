/* The ports of the switch: one a host, found by name, interface or hardware address. */
#include "switch.h"

#include <net/if.h>
#include <stdio.h>
#include <string.h>

struct port ports[MAX_PORTS];
int port_count;
int rack_count;

static int16_t port_of_ifindex[MAX_IFINDEX];
static int16_t mac_table[MAC_SLOTS];

void clear_ports(void)
{
	memset(port_of_ifindex, -1, sizeof(port_of_ifindex));
	memset(mac_table, -1, sizeof(mac_table));
}

int port_of_interface(int ifindex)
{
	return ifindex > 0 && ifindex < MAX_IFINDEX ? port_of_ifindex[ifindex] : -1;
}

static unsigned int mac_slot(const unsigned char *mac)
{
	uint32_t hash;

	memcpy(&hash, mac + 2, sizeof(hash));
	return (hash * 2654435761u >> 20) & (MAC_SLOTS - 1);
}

int port_of_mac(const unsigned char *mac)
{
	unsigned int slot;

	for (slot = mac_slot(mac); mac_table[slot] >= 0; slot = (slot + 1) & (MAC_SLOTS - 1))
		if (!memcmp(ports[mac_table[slot]].mac, mac, ETH_ALEN))
			return mac_table[slot];
	return -1;
}

struct port *port_named(const char *name)
{
	int i;

	for (i = 0; i < port_count; i++)
		if (!strcmp(ports[i].name, name))
			return &ports[i];
	return NULL;
}

const char *add_port(char *const words[])
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
