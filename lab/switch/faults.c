/* See faults.h. */
#include "faults.h"

#include <string.h>

static struct impairment impairments[MAX_IMPAIRMENTS];
int impairment_count;
static int16_t impairment_slots[IMPAIRMENT_SLOTS]; /* index + 1; 0: free */

uint64_t random_state = 1;

/* splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014. */
static uint64_t mix(uint64_t value)
{
	value = (value ^ value >> 30) * 0xbf58476d1ce4e5b9ULL;
	value = (value ^ value >> 27) * 0x94d049bb133111ebULL;
	return value ^ value >> 31;
}

uint64_t random_below(uint64_t limit)
{
	random_state += 0x9e3779b97f4a7c15ULL;
	return limit ? mix(random_state) % limit : 0;
}

/* The impairment of a host (b is 0), of a link, or of two racks; NULL when there is none (and not to be made,
 * or no room for it). */
struct impairment *impairment(enum impaired kind, int a, int b, bool make)
{
	uint64_t key = (uint64_t)kind << 32 | (uint64_t)a << 16 | (uint64_t)b;
	unsigned int slot = mix(key) & (IMPAIRMENT_SLOTS - 1);
	struct impairment *found;

	if (!impairment_count && !make)
		return NULL;
	for (; impairment_slots[slot]; slot = (slot + 1) & (IMPAIRMENT_SLOTS - 1)) {
		found = &impairments[impairment_slots[slot] - 1];
		if (found->key == key)
			return found;
	}
	if (!make || impairment_count == MAX_IMPAIRMENTS)
		return NULL;
	found = &impairments[impairment_count++];
	*found = (struct impairment){.key = key};
	impairment_slots[slot] = (int16_t)impairment_count;
	return found;
}

void clear_impairments(void)
{
	impairment_count = 0;
	memset(impairment_slots, 0, sizeof(impairment_slots));
}

/* A hash of what routers take to choose among equal paths (RFC 2992): addresses, protocol, and ports where
 * the packet shows them. 0 for anything but IPv4. */
uint64_t flow_hash(const unsigned char *frame, uint32_t length)
{
	const unsigned char *ip = frame + 14;
	uint32_t addresses[2], ports = 0, header;

	if (length < 34 || frame[12] != 8 || frame[13] != 0)
		return 0;
	header = (ip[0] & 15u) * 4;
	memcpy(addresses, ip + 12, 8);
	/* Only the first fragment has ports: none is used, so that all fragments take one path. */
	if ((ip[9] == 6 || ip[9] == 17) && !(ip[6] & 0x3f) && !ip[7] && length >= 14 + header + 4)
		memcpy(&ports, ip + header, 4);
	return mix(mix((uint64_t)addresses[0] << 32 | addresses[1]) + ((uint64_t)ip[9] << 32 | ports) + 1);
}

/* Whether a packet survives one impairment; adds to its delay, and says in *twice when it is to arrive twice. */
bool suffer(const struct impairment *one, uint64_t hash, uint64_t *extra_ns, bool *twice)
{
	if (!one)
		return true;
	if (one->blocked || (one->loss_ppb && random_below(PER_BILLION) < one->loss_ppb))
		return false;
	if (one->copy_ppb && random_below(PER_BILLION) < one->copy_ppb)
		*twice = true;
	*extra_ns += one->delay_ns + random_below(one->jitter_ns);
	if (one->path_count)
		*extra_ns += one->paths_ns[hash % one->path_count];
	return true;
}
