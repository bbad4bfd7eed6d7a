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

static void free_room(struct engine *engine)
{
	free(engine->missing);
	free(engine->next);
	free(engine->todo);
	free(engine->complete);
	free(engine->whole);
	free(engine->kept);
	engine->missing = engine->next = engine->todo = NULL;
	engine->complete = engine->whole = NULL;
	engine->kept = NULL;
	engine->room = 0;
}

EXPORT void np_engine_free(struct engine *engine)
{
	if (!engine)
		return;
	forget(engine);
	free_room(engine);
	free(engine->connections);
	free(engine->polled);
	free(engine->polled_link);
	free(engine->scratch);
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

/* Room for a collective of so many messages, between two of them; 0 without memory. */
int make_room(struct engine *engine, int count)
{
	if (count <= engine->room)
		return 1;
	free_room(engine);
	engine->missing = array(count, sizeof(int));
	engine->next = array(count, sizeof(int));
	engine->todo = array(count, sizeof(int));
	engine->complete = array(count, 1);
	engine->whole = array(count, 1);
	engine->kept = array(count, sizeof *engine->kept);
	if (!engine->missing || !engine->next || !engine->todo || !engine->complete || !engine->whole || !engine->kept) {
		free_room(engine);
		return 0;
	}
	engine->room = count;
	return 1;
}
