/*
 * The messages of one rank's collectives, over TCP connections of its own: sent when what they carry is complete, taken
 * as they come, added where they belong. Everything happens in the thread that calls np_go, which waits in one poll()
 * for whatever comes next.
 *
 * A tape (np_tape_new) lists the rank's messages and which earlier ones each waits for. Messages that change the same
 * elements wait for each other, so a sum has the same bits whatever arrives first. A message that comes before its turn
 * is kept in a buffer of its own; so a connection is always read, and nothing that is behind it is held up.
 *
 * Why nothing hangs: take the message of the lowest step that is not complete anywhere. All that it waits for has a lower
 * step, or is a send of its own step whose receiver reads it whatever it waits for itself. So it is sent, and it comes.
 *
 * Each message is preceded by a header: the number of the collective, a mark of its tensor, its tag on its connection
 * and its length. A rank that is ahead is not read before its collective has begun here. Byte order is the machine's own.
 */
#include <stdlib.h>
#include <string.h>

#include "add.h"
#include "messages.h"

#define LATE_S 0.1

/* Begin a collective; nothing is sent yet. */
EXPORT int np_begin(struct engine *engine, const struct tape *tape, void *data, int kind, int adds, uint32_t mark)
{
	if (!make_room(engine, tape->count))
		return NO_MEMORY;
	engine->collective++;
	engine->tape = tape;
	engine->data = data;
	engine->kind = kind;
	engine->itemsize = add_itemsize(kind);
	engine->adds = adds;
	engine->mark = mark;
	engine->left = tape->count;
	engine->reduce_s = engine->wait_s = 0.0;
	for (int link = 0; link < engine->links; link++) {
		engine->connections[link].wanted = tape->tag_bounds[link + 1] - tape->tag_bounds[link];
		engine->connections[link].queue = NONE;
		if (tape->sends[link])
			keep_queue_short(&engine->connections[link], tape->receivers);
	}
	memset(engine->complete, 0, (size_t)tape->count);
	memset(engine->whole, 0, (size_t)tape->count);
	memcpy(engine->missing, tape->waits, (size_t)tape->count * sizeof(int));
	for (int i = tape->count - 1; i >= 0; i--)
		if (!tape->messages[i].receives && !tape->waits[i])
			put_in_queue(engine, i);
	engine->progress_at = now_s();
	return DONE;
}

/* The connection that may send now: one that is at a message already, or else that of the tape's first one. */
static int next_to_send(const struct engine *engine)
{
	int found = NONE;
	for (int link = 0; link < engine->links; link++) {
		const struct connection *one = &engine->connections[link];
		if (one->blocked)
			continue;
		if (one->sending != NONE)
			return link;
		if (one->queue != NONE && (found == NONE || one->queue < engine->connections[found].queue))
			found = link;
	}
	return found;
}

static int flush(struct engine *engine)
{
	int link;
	while ((link = next_to_send(engine)) != NONE) {
		int said = pump_out(engine, link);
		if (said != DONE)
			return said;
	}
	return DONE;
}

/* Wait until something can be done, at most ``most_s``; 0 where nothing could. */
static int wait_for_any(struct engine *engine, double most_s)
{
	int count = 0;
	for (int link = 0; link < engine->links; link++) {
		struct connection *one = &engine->connections[link];
		short events = (short)((one->wanted ? POLLIN : 0) | (one->blocked ? POLLOUT : 0));
		if (!events)
			continue;
		engine->polled[count] = (struct pollfd){one->fd, events, 0};
		engine->polled_link[count++] = link;
	}
	double began = now_s();
	int ready = poll(engine->polled, (nfds_t)count, most_s > 0 ? (int)(most_s * 1e3) + 1 : 0);
	double waited = now_s() - began;
	engine->wait_s += waited;
	if (waited > most_s + LATE_S) /* this process was stopped, perhaps with all others: that time does not count */
		engine->progress_at += waited - most_s;
	for (int k = 0; ready > 0 && k < count; k++)
		if (engine->polled[k].revents & ~POLLOUT) {
			engine->connections[engine->polled_link[k]].waited_s += waited;
			break;
		}
	for (int k = ready > 0 ? 0 : count; k < count; k++)
		if (engine->polled[k].revents & ~POLLIN)
			engine->connections[engine->polled_link[k]].blocked = 0;
	return ready > 0 ? count : 0;
}

/* Go on with the collective: DONE, AGAIN after about ``slice_s``, or what went wrong (np_told). */
EXPORT int np_go(struct engine *engine, double timeout_s, double slice_s)
{
	double began = now_s();
	for (;;) {
		int said = flush(engine);
		if (said != DONE)
			return said;
		if (!engine->left)
			return DONE;
		double now = now_s();
		if (now - engine->progress_at >= timeout_s)
			return fail(engine, NONE, TIMED_OUT, 0);
		double most_s = timeout_s - (now - engine->progress_at);
		int count = wait_for_any(engine, most_s < slice_s ? most_s : slice_s);
		for (int k = 0; k < count; k++)
			if (engine->polled[k].revents & ~POLLOUT && engine->connections[engine->polled_link[k]].wanted) {
				said = pump_in(engine, engine->polled_link[k]);
				if (said != DONE)
					return said;
			}
		if (now_s() - began >= slice_s)
			return AGAIN;
	}
}

/* After an error: the connections of messages that have not come, and then of those that could be sent and were not; each
 * once, what is first in the tape first. How many. */
EXPORT int np_missing(const struct engine *engine, int32_t *links)
{
	int found = 0;
	for (int receives = 1; receives >= 0; receives--)
		for (int i = 0; i < engine->tape->count; i++) {
			const struct message *message = &engine->tape->messages[i];
			if (message->receives != receives || engine->complete[i] ||
			    (receives ? engine->whole[i] : engine->missing[i]))
				continue;
			int k = 0;
			while (k < found && links[k] != message->link)
				k++;
			links[k] = message->link;
			found += k == found;
		}
	return found;
}

/* After an error, and np_missing: nothing of the tensor is touched any more. */
EXPORT void np_stop(struct engine *engine)
{
	forget(engine);
	engine->tape = NULL;
	engine->data = NULL;
}

/* Seconds of the collective waited and adding, the connection that failed and its errno. */
EXPORT void np_told(const struct engine *engine, double *wait_s, double *reduce_s, int32_t *link, int32_t *error)
{
	*wait_s = engine->wait_s;
	*reduce_s = engine->reduce_s;
	*link = engine->failed_link;
	*error = engine->failed_errno;
}

/* Of each connection the seconds waited for it since it was made. */
EXPORT void np_waited(const struct engine *engine, double *waited_s)
{
	for (int link = 0; link < engine->links; link++)
		waited_s[link] = engine->connections[link].waited_s;
}
