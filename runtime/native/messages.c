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
#define _GNU_SOURCE
#include <errno.h>
#include <poll.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#include "add.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* SO_NOSIGPIPE is set where this is not known */
#endif

enum { SCRATCH = 1 << 18, TURN = 1 << 20, NONE = -1 };
enum { DONE = 0, AGAIN = 1, LOST = 2, TIMED_OUT = 3, UNLIKE = 4, NO_MEMORY = 5 };

struct message { /* as build.py lays it out */
	int32_t receives;
	int32_t link;
	int32_t tag;
	int32_t reduces;
	int64_t begin; /* elements */
	int64_t end;
};

struct header {
	uint64_t collective;
	uint32_t mark;
	uint32_t tag;
	uint64_t bytes;
};

struct tape {
	int count;
	struct message *messages;
	int *waits;               /* for how many others each waits */
	int *then_bounds, *then;  /* which wait for each */
	int links;
	int *tag_bounds, *by_tag; /* of each connection the receives by tag */
};

struct connection {
	int fd;
	/* What is received. */
	struct header head;
	size_t head_bytes;
	int taking; /* the message whose body comes now */
	int64_t taken;
	unsigned char carry[16]; /* the first bytes of an element that has not come whole */
	int carried;
	int wanted; /* how many messages are still to come */
	/* What is sent. */
	int queue; /* the first message that waits to be sent, the next ones in engine.next */
	int sending;
	struct header sent_head;
	int64_t sent; /* with the header */
	int blocked;
	double waited_s;
};

struct spare { /* in front of the buffer */
	struct spare *next;
	size_t bytes;
};

struct engine {
	int links;
	struct connection *connections;
	struct pollfd *polled;
	int *polled_link;
	unsigned char *scratch;
	struct spare *spare; /* buffers that are not in use */
	/* This collective. */
	uint64_t collective;
	uint32_t mark;
	const struct tape *tape;
	unsigned char *data;
	int kind, itemsize, adds;
	int room; /* messages that the arrays below have room for */
	int *missing, *next, *todo;
	unsigned char *complete;
	unsigned char **kept; /* what came before its turn */
	unsigned char *whole; /* whether all of that has come */
	int left;
	double progress_at;
	double wire_s, reduce_s, wait_s;
	int failed_link, failed_errno;
};

static double now_s(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Tapes. */

void np_tape_free(struct tape *tape)
{
	if (!tape)
		return;
	free(tape->messages);
	free(tape->waits);
	free(tape->then_bounds);
	free(tape->then);
	free(tape->tag_bounds);
	free(tape->by_tag);
	free(tape);
}

static void *array(size_t count, size_t size)
{
	return calloc(count ? count : 1, size);
}

/* ``after``: of message i those from after_bounds[i] to after_bounds[i + 1] - 1. NULL without memory. */
struct tape *np_tape_new(int count, const struct message *messages, const int32_t *after_bounds, const int32_t *after,
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
	int *at = array((size_t)count + (size_t)links + 1, sizeof(int));
	if (!tape->messages || !tape->waits || !tape->then_bounds || !tape->then || !tape->tag_bounds || !tape->by_tag ||
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
	}
	for (int i = 0; i < count; i++)
		tape->then_bounds[i + 1] += tape->then_bounds[i];
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

/* Engines. */

/* A buffer of ``bytes`` or more: one that was used before, so that its pages are there. NULL without memory. */
static unsigned char *take_buffer(struct engine *engine, size_t bytes)
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

static void give_back(struct engine *engine, int i)
{
	struct spare *own = (struct spare *)engine->kept[i] - 1;
	own->next = engine->spare;
	engine->spare = own;
	engine->kept[i] = NULL;
}

static void forget(struct engine *engine)
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

void np_engine_free(struct engine *engine)
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
struct engine *np_engine_new(int links, const int32_t *fds)
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

static int make_room(struct engine *engine, int count)
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

static int64_t bytes_of(const struct engine *engine, const struct message *message)
{
	return (message->end - message->begin) * engine->itemsize;
}

static unsigned char *place_of(const struct engine *engine, const struct message *message)
{
	return engine->data + message->begin * engine->itemsize;
}

static void put_in_queue(struct engine *engine, int i)
{
	/* In the order of the tape: what the others wait for first goes first. */
	int *at = &engine->connections[engine->tape->messages[i].link].queue;
	while (*at != NONE && *at < i)
		at = &engine->next[*at];
	engine->next[i] = *at;
	*at = i;
}

static void apply(struct engine *engine, int i)
{
	const struct message *message = &engine->tape->messages[i];
	double began = now_s();
	if (!message->reduces)
		memcpy(place_of(engine, message), engine->kept[i], (size_t)bytes_of(engine, message));
	else if (engine->adds)
		add(engine->kind, place_of(engine, message), engine->kept[i], message->end - message->begin);
	give_back(engine, i);
	engine->reduce_s += now_s() - began;
}

/* Message i has been sent, or has been put where it belongs: what waited for it may go on. */
static void completed(struct engine *engine, int i)
{
	const struct tape *tape = engine->tape;
	int todo = 0;
	engine->todo[todo++] = i;
	while (todo) {
		i = engine->todo[--todo];
		engine->complete[i] = 1;
		engine->left--;
		for (int k = tape->then_bounds[i]; k < tape->then_bounds[i + 1]; k++) {
			int later = tape->then[k];
			if (--engine->missing[later])
				continue;
			if (!tape->messages[later].receives) {
				put_in_queue(engine, later);
			} else if (engine->kept[later] && engine->whole[later]) {
				apply(engine, later);
				engine->todo[todo++] = later;
			}
		}
	}
}

static int fail(struct engine *engine, int link, int code, int error)
{
	engine->failed_link = link;
	engine->failed_errno = error;
	return code;
}

/* Send what there is to send, until the connection takes no more. */
static int pump_out(struct engine *engine, int link)
{
	struct connection *one = &engine->connections[link];
	while (one->sending != NONE || one->queue != NONE) {
		if (one->sending == NONE) {
			one->sending = one->queue;
			one->queue = engine->next[one->sending];
			one->sent = 0;
			const struct message *message = &engine->tape->messages[one->sending];
			one->sent_head = (struct header){engine->collective, engine->mark, (uint32_t)message->tag,
							 (uint64_t)bytes_of(engine, message)};
		}
		const struct message *message = &engine->tape->messages[one->sending];
		int64_t head = (int64_t)sizeof one->sent_head, whole = head + bytes_of(engine, message);
		struct iovec parts[2];
		int count = 0;
		if (one->sent < head)
			parts[count++] = (struct iovec){(unsigned char *)&one->sent_head + one->sent,
							(size_t)(head - one->sent)};
		int64_t body = one->sent > head ? one->sent - head : 0;
		parts[count++] = (struct iovec){place_of(engine, message) + body, (size_t)(whole - head - body)};
		struct msghdr out = {.msg_iov = parts, .msg_iovlen = (size_t)count};
		ssize_t wrote = sendmsg(one->fd, &out, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (wrote < 0) {
			if (errno == EINTR)
				continue;
			if (errno != EAGAIN && errno != EWOULDBLOCK)
				return fail(engine, link, LOST, errno);
			one->blocked = 1;
			return DONE;
		}
		engine->progress_at = now_s();
		one->sent += wrote;
		if (one->sent == whole) {
			int i = one->sending;
			one->sending = NONE;
			completed(engine, i);
		}
	}
	return DONE;
}

/* A header has come whole: which message it is, and where it goes. */
static int begin_message(struct engine *engine, int link)
{
	struct connection *one = &engine->connections[link];
	const struct tape *tape = engine->tape;
	int tags = tape->tag_bounds[link + 1] - tape->tag_bounds[link];
	if (one->head.collective != engine->collective || one->head.mark != engine->mark ||
	    one->head.tag >= (uint32_t)tags)
		return fail(engine, link, UNLIKE, 0);
	int i = tape->by_tag[tape->tag_bounds[link] + (int)one->head.tag];
	const struct message *message = &tape->messages[i];
	if (one->head.bytes != (uint64_t)bytes_of(engine, message) || engine->complete[i] || engine->kept[i])
		return fail(engine, link, UNLIKE, 0);
	one->taking = i;
	one->taken = 0;
	one->carried = 0;
	if (engine->missing[i]) {
		engine->whole[i] = 0;
		engine->kept[i] = take_buffer(engine, (size_t)one->head.bytes);
		if (!engine->kept[i])
			return fail(engine, link, NO_MEMORY, ENOMEM);
	}
	return DONE;
}

/* Where the next bytes of a message go: into its place, what was kept for it, or behind those of half an element. */
static unsigned char *target(struct engine *engine, struct connection *one, int64_t *room)
{
	const struct message *message = &engine->tape->messages[one->taking];
	*room = bytes_of(engine, message) - one->taken;
	if (engine->kept[one->taking])
		return engine->kept[one->taking] + one->taken;
	if (!message->reduces)
		return place_of(engine, message) + one->taken;
	memcpy(engine->scratch, one->carry, (size_t)one->carried);
	if (*room > SCRATCH - one->carried)
		*room = SCRATCH - one->carried;
	return engine->scratch + one->carried;
}

/* So many bytes of a message have come: add those that go to no buffer of their own. */
static void took(struct engine *engine, struct connection *one, int64_t bytes)
{
	int i = one->taking;
	const struct message *message = &engine->tape->messages[i];
	int64_t first = one->taken - one->carried;
	one->taken += bytes;
	if (!engine->kept[i] && message->reduces) {
		int64_t there = one->carried + bytes, elements = there / engine->itemsize;
		if (engine->adds) {
			double began = now_s();
			add(engine->kind, place_of(engine, message) + first, engine->scratch, elements);
			engine->reduce_s += now_s() - began;
		}
		one->carried = (int)(there - elements * engine->itemsize);
		memcpy(one->carry, engine->scratch + elements * engine->itemsize, (size_t)one->carried);
	}
	if (one->taken < bytes_of(engine, message))
		return;
	one->taking = NONE;
	one->head_bytes = 0;
	one->wanted--;
	engine->whole[i] = 1;
	if (!engine->kept[i]) {
		completed(engine, i);
	} else if (!engine->missing[i]) {
		apply(engine, i);
		completed(engine, i);
	}
}

/* Take what has come, at most TURN bytes of it, so that no connection keeps the others waiting. */
static int pump_in(struct engine *engine, int link)
{
	struct connection *one = &engine->connections[link];
	int64_t turn = TURN;
	while (one->wanted && turn > 0) {
		unsigned char *into;
		int64_t room;
		if (one->taking == NONE) {
			into = (unsigned char *)&one->head + one->head_bytes;
			room = (int64_t)(sizeof one->head - one->head_bytes);
		} else {
			into = target(engine, one, &room);
		}
		ssize_t got = recv(one->fd, into, (size_t)room, MSG_DONTWAIT);
		if (got < 0 && errno == EINTR)
			continue;
		if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK))
			return DONE;
		if (got <= 0)
			return fail(engine, link, LOST, got ? errno : 0);
		engine->progress_at = now_s();
		turn -= got;
		if (one->taking != NONE) {
			took(engine, one, got);
			continue;
		}
		one->head_bytes += (size_t)got;
		if (one->head_bytes == sizeof one->head) {
			int said = begin_message(engine, link);
			if (said != DONE)
				return said;
		}
	}
	return DONE;
}

/* Begin a collective; nothing is sent yet. */
int np_begin(struct engine *engine, const struct tape *tape, void *data, int kind, int adds, uint32_t mark)
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
	engine->wire_s = engine->reduce_s = engine->wait_s = 0.0;
	for (int link = 0; link < engine->links; link++) {
		engine->connections[link].wanted = tape->tag_bounds[link + 1] - tape->tag_bounds[link];
		engine->connections[link].queue = NONE;
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

/* The connection of the first message that has not come (or, where all have, has not been sent). */
static int first_missing(const struct engine *engine)
{
	int found = NONE;
	for (int i = 0; i < engine->tape->count; i++) {
		const struct message *message = &engine->tape->messages[i];
		if (engine->complete[i] || (message->receives && engine->whole[i]))
			continue;
		if (message->receives)
			return message->link;
		if (found == NONE)
			found = message->link;
	}
	return found;
}

static int flush(struct engine *engine)
{
	/* Completed sends may let others go, on any connection: until nothing moves. */
	for (int moved = 1; moved;) {
		moved = 0;
		for (int link = 0; link < engine->links; link++) {
			struct connection *one = &engine->connections[link];
			if (one->blocked || (one->queue == NONE && one->sending == NONE))
				continue;
			int said = pump_out(engine, link);
			if (said != DONE)
				return said;
			moved = 1;
		}
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

/* Go on with the collective: DONE, AGAIN after ``slice_s`` or a signal, or what went wrong (np_told). */
int np_go(struct engine *engine, double timeout_s, double slice_s)
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
			return fail(engine, first_missing(engine), TIMED_OUT, 0);
		if (now - began >= slice_s)
			return AGAIN;
		double most_s = timeout_s - (now - engine->progress_at);
		int count = wait_for_any(engine, most_s < slice_s ? most_s : slice_s);
		for (int k = 0; k < count; k++)
			if (engine->polled[k].revents & ~POLLOUT && engine->connections[engine->polled_link[k]].wanted) {
				said = pump_in(engine, engine->polled_link[k]);
				if (said != DONE)
					return said;
			}
	}
}

/* After an error: nothing of the tensor is touched any more. */
void np_stop(struct engine *engine)
{
	forget(engine);
	engine->tape = NULL;
	engine->data = NULL;
}

/* Seconds of the collective waited and adding, the connection that failed and its errno. */
void np_told(const struct engine *engine, double *wait_s, double *reduce_s, int32_t *link, int32_t *error)
{
	*wait_s = engine->wait_s;
	*reduce_s = engine->reduce_s;
	*link = engine->failed_link;
	*error = engine->failed_errno;
}

/* Of each connection the seconds waited for it since it was made. */
void np_waited(const struct engine *engine, double *waited_s)
{
	for (int link = 0; link < engine->links; link++)
		waited_s[link] = engine->connections[link].waited_s;
}
