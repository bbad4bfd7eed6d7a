/* Packets that wait for their moment: two heaps by due time, and the memory of what waits. */
#include "switch.h"

#include <stdlib.h>

/* Packets, which this process wakes up for, and ghosts, which it only processes when their turn comes. */
struct heap packets, ghosts;
uint64_t held_bytes;

static uint64_t sequence;

static bool before(const struct event *a, const struct event *b)
{
	return a->due_ns != b->due_ns ? a->due_ns < b->due_ns : a->sequence < b->sequence;
}

bool heap_push(struct heap *heap, uint64_t due_ns, struct packet *packet)
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

struct packet *heap_pop(struct heap *heap)
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

bool is_due(const struct heap *heap, uint64_t now_ns)
{
	return heap->used && heap->events[0].due_ns <= now_ns;
}

struct packet *new_packet(int src, int dst, enum stage stage, uint32_t length)
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

void release(struct packet *packet)
{
	held_bytes -= packet->length;
	free(packet);
}
