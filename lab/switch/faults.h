/*
 * What goes wrong on the lab's network: loss, copies, extra delay, jitter, several paths, black holes.
 *
 * An impairment belongs to a host (all that it sends or receives), to a link (host to host, one way) or to
 * two racks (one way). A packet suffers all that are on its way.
 */
#ifndef SWITCH_FAULTS_H
#define SWITCH_FAULTS_H

#include <stdbool.h>
#include <stdint.h>

#define MAX_IMPAIRMENTS 1024
#define IMPAIRMENT_SLOTS 4096 /* a power of two, well above MAX_IMPAIRMENTS */
#define MAX_PATHS 8
#define PER_BILLION 1000000000ULL
#define COPY_LATE_NS 30000ULL /* a copy comes so long after the packet that it is one of */

enum impaired { ON_HOST = 1, ON_LINK, ON_RACKS };

struct impairment {
	uint64_t key;
	uint64_t loss_ppb; /* probability of loss, in parts of a billion */
	uint64_t copy_ppb; /* and that a packet arrives twice */
	uint64_t delay_ns, jitter_ns;
	uint64_t paths_ns[MAX_PATHS];
	unsigned int path_count;
	uint64_t mtu; /* largest IP packet; 0: any */
	bool blocked;
};

extern int impairment_count;
extern uint64_t random_state;

uint64_t random_below(uint64_t limit);
struct impairment *impairment(enum impaired kind, int a, int b, bool make);
void clear_impairments(void);
uint64_t flow_hash(const unsigned char *frame, uint32_t length);
bool suffer(const struct impairment *one, uint64_t hash, uint64_t *extra_ns, bool *twice);

#endif
