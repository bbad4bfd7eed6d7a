/* Messages sent, taken and put where they belong. */
#include "messages.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <time.h>

#include "add.h"

#ifndef MSG_NOSIGNAL
#define MSG_NOSIGNAL 0 /* SO_NOSIGPIPE is set where this is not known */
#endif

double now_s(void)
{
	struct timespec now;
	clock_gettime(CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int64_t bytes_of(const struct engine *engine, const struct message *message)
{
	return (message->end - message->begin) * engine->itemsize;
}

static unsigned char *place_of(const struct engine *engine, const struct message *message)
{
	return engine->data + message->begin * engine->itemsize;
}

void put_in_queue(struct engine *engine, int i)
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

int fail(struct engine *engine, int link, int code, int error)
{
	engine->failed_link = link;
	engine->failed_errno = error;
	return code;
}

/* Send the message that the connection is at, or its first one, as far as it takes it. */
int pump_out(struct engine *engine, int link)
{
	struct connection *one = &engine->connections[link];
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
	while (one->sent < whole) {
		struct iovec parts[2];
		int count = 0;
		if (one->sent < head)
			parts[count++] = (struct iovec){(unsigned char *)&one->sent_head + one->sent,
							(size_t)(head - one->sent)};
		int64_t body = one->sent > head ? one->sent - head : 0;
		parts[count++] = (struct iovec){place_of(engine, message) + body, (size_t)(whole - head - body)};
		struct msghdr out = {.msg_iov = parts, .msg_iovlen = (size_t)count};
		ssize_t wrote = sendmsg(one->fd, &out, MSG_NOSIGNAL | MSG_DONTWAIT);
		if (wrote < 0 && errno == EINTR)
			continue;
		if (wrote < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) {
			one->blocked = 1;
			return DONE;
		}
		if (wrote < 0)
			return fail(engine, link, LOST, errno);
		engine->progress_at = now_s();
		one->sent += wrote;
	}
	int i = one->sending;
	one->sending = NONE;
	completed(engine, i);
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
int pump_in(struct engine *engine, int link)
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
