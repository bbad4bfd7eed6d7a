/* Background flows: packets of other traffic that take their share of rates, and have no data. */
#include "switch.h"

#include "faults.h"

/* A background flow: `source` is in the heap of background packets, due when the next packet of the flow is. */
struct flow {
	uint64_t bytes_per_s; /* 0: it ends when its source is next due */
	struct packet *source;
};

static struct flow flows[MAX_FLOWS];

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
void catch_up(uint64_t until_ns)
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
const char *set_flow(int src, int dst, uint64_t bytes_per_s)
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

void end_flows(void)
{
	int i;

	for (i = 0; i < MAX_FLOWS; i++)
		flows[i].bytes_per_s = 0;
}
