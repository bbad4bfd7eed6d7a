/* Engines: connections, and what is needed to run a collective over them. */
#include "messages.h"

#include <stdlib.h>

/* A buffer of ``bytes`` or more: one that was used before, so that its pages are there. NULL without memory. */
unsigned char *take_buffer(struct engine *engine, size_t bytes)
{
	struct spare **at = &engine->spare, *found;
	while (*at && (*at)->bytes < bytes)
		at = &(*at)->next;
	found = *at;
	if (found) {
		*at = found->next;
	} else {
		found = malloc(sizeof *found + bytes);
		if (!found)
			return NULL;
		found->bytes = bytes;
	}
	return (unsigned char *)(found + 1);
}

/* What was kept for message i is not needed any more. */
void give_back(struct engine *engine, int i)
{
	struct spare *own = (struct spare *)engine->kept[i] - 1;
	own->next = engine->spare;
	engine->spare = own;
	engine->kept[i] = NULL;
}

/* Free all buffers. */
void forget(struct engine *engine)
{
	for (int i = 0; i < engine->room; i++)
		if (engine->kept[i])
			give_back(engine, i);
	while (engine->spare) {
		struct spare *own = engine->spare;
		engine->spare = own->next;
		free(own);
	}
}

EXPORT void np_engine_free(struct engine *engine)
{
	if (!engine)
		return;
	if (engine->kept)
		forget(engine);
	free(engine->connections);
	free(engine->polled);
	free(engine->polled_link);
	free(engine->scratch);
	free(engine->missing);
	free(engine->next);
	free(engine->todo);
	free(engine->complete);
	free(engine->kept);
	free(engine->whole);
	free(engine);
}

/* Connections that are open already, in the mode that does not block. NULL without memory. */
EXPORT struct engine *np_engine_new(int links, const int32_t *fds)
{
	struct engine *engine = array(1, sizeof *engine);
	if (!engine)
		return NULL;
	engine->links = links;
	engine->connections = array(links, sizeof *engine->connections);
	engine->polled = array(links, sizeof *engine->polled);
	engine->polled_link = array(links, sizeof(int));
	engine->scratch = malloc(SCRATCH);
	if (!engine->connections || !engine->polled || !engine->polled_link || !engine->scratch) {
		np_engine_free(engine);
		return NULL;
	}
	for (int i = 0; i < links; i++) {
		engine->connections[i].fd = fds[i];
		engine->connections[i].taking = engine->connections[i].sending = engine->connections[i].queue = NONE;
	}
	return engine;
}

/* Room for a collective of so many messages; 0 without memory. */
int make_room(struct engine *engine, int count)
{
	if (count <= engine->room)
		return 1;
	int *ints[3] = {NULL, NULL, NULL};
	unsigned char *bytes[2] = {NULL, NULL};
	unsigned char **kept = array(count, sizeof *kept);
	for (int i = 0; i < 3; i++)
		ints[i] = array(count, sizeof(int));
	for (int i = 0; i < 2; i++)
		bytes[i] = array(count, 1);
	if (!kept || !ints[0] || !ints[1] || !ints[2] || !bytes[0] || !bytes[1]) {
		free(kept);
		for (int i = 0; i < 3; i++)
			free(ints[i]);
		for (int i = 0; i < 2; i++)
			free(bytes[i]);
		return 0;
	}
	free(engine->missing);
	free(engine->next);
	free(engine->todo);
	free(engine->complete);
	free(engine->whole);
	free(engine->kept);
	engine->missing = ints[0];
	engine->next = ints[1];
	engine->todo = ints[2];
	engine->complete = bytes[0];
	engine->whole = bytes[1];
	engine->kept = kept;
	engine->room = count;
	return 1;
}
