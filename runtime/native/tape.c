/* Tapes: a rank's messages, and which of them wait for which. */
#include "messages.h"

#include <stdlib.h>
#include <string.h>

void *array(size_t count, size_t size)
{
	return calloc(count ? count : 1, size);
}

EXPORT void np_tape_free(struct tape *tape)
{
	if (!tape)
		return;
	free(tape->messages);
	free(tape->waits);
	free(tape->then_bounds);
	free(tape->then);
	free(tape->tag_bounds);
	free(tape->by_tag);
	free(tape->sends);
	free(tape);
}

/* ``after``: of message i those from after_bounds[i] to after_bounds[i + 1] - 1. NULL without memory. */
EXPORT struct tape *np_tape_new(int count, const struct message *messages, const int32_t *after_bounds, const int32_t *after,
			 int links)
{
	struct tape *tape = array(1, sizeof *tape);
	if (!tape)
		return NULL;
	tape->count = count;
	tape->links = links;
	tape->messages = array(count, sizeof *tape->messages);
	tape->waits = array(count, sizeof(int));
	tape->then_bounds = array((size_t)count + 1, sizeof(int));
	tape->then = array(after_bounds[count], sizeof(int));
	tape->tag_bounds = array((size_t)links + 1, sizeof(int));
	tape->by_tag = array(count, sizeof(int));
	tape->sends = array(links, 1);
	int *at = array((size_t)count + (size_t)links + 1, sizeof(int));
	if (!tape->messages || !tape->waits || !tape->then_bounds || !tape->then || !tape->tag_bounds || !tape->by_tag || !tape->sends ||
	    !at) {
		free(at);
		np_tape_free(tape);
		return NULL;
	}
	memcpy(tape->messages, messages, (size_t)count * sizeof *messages);
	for (int i = 0; i < count; i++) {
		tape->waits[i] = after_bounds[i + 1] - after_bounds[i];
		for (int k = after_bounds[i]; k < after_bounds[i + 1]; k++)
			tape->then_bounds[after[k] + 1]++;
		if (messages[i].receives)
			tape->tag_bounds[messages[i].link + 1]++;
		else
			tape->sends[messages[i].link] = 1;
	}
	for (int i = 0; i < count; i++)
		tape->then_bounds[i + 1] += tape->then_bounds[i];
	for (int link = 0; link < links; link++)
		tape->receivers += tape->sends[link];
	for (int link = 0; link < links; link++)
		tape->tag_bounds[link + 1] += tape->tag_bounds[link];
	for (int i = 0; i < count; i++)
		for (int k = after_bounds[i]; k < after_bounds[i + 1]; k++)
			tape->then[tape->then_bounds[after[k]] + at[after[k]]++] = i;
	for (int i = 0; i < count; i++)
		if (messages[i].receives)
			tape->by_tag[tape->tag_bounds[messages[i].link] + messages[i].tag] = i;
	free(at);
	return tape;
}
