/* What the files of this library share; collective.c says how it works. */
#ifndef NETPROBE_MESSAGES_H
#define NETPROBE_MESSAGES_H

#include <poll.h>
#include <stddef.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default"))) /* all else is hidden (build.py) */

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
	unsigned char *sends;     /* which connections are sent to */
	int receivers;            /* how many those are */
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
	int limit; /* of the send buffer in bytes; 0: the system's own */
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
	double reduce_s, wait_s;
	int failed_link, failed_errno;
};

/* tape.c */
void *array(size_t count, size_t size); /* zeros; NULL without memory */

/* engine.c */
unsigned char *take_buffer(struct engine *engine, size_t bytes);
void give_back(struct engine *engine, int i);
void forget(struct engine *engine);
int make_room(struct engine *engine, int count);

/* queues.c; before each collective */
void keep_queue_short(struct connection *one, int receivers);

/* move.c */
double now_s(void);
void put_in_queue(struct engine *engine, int i);
int fail(struct engine *engine, int link, int code, int error);
int pump_out(struct engine *engine, int link);
int pump_in(struct engine *engine, int link);

#endif
