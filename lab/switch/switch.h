/* What the files of the switch share: limits, types, state, and the functions of each file. Holds no code. */
#ifndef SWITCH_H
#define SWITCH_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <linux/virtio_net.h>
#include <net/ethernet.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#define MAX_PORTS 520
#define MAX_RACKS 80
#define MAX_IFINDEX 8192
#define MAC_SLOTS 4096 /* a power of two, well above MAX_PORTS */
#define MAX_CLIENTS 8
#define MAX_FLOWS 64
#define LINE_BYTES 256
#define BATCH 16
#define FRAME_BYTES 70000
#define VNET_BYTES sizeof(struct virtio_net_hdr)

#define SECOND_NS 1000000000ULL
#define QUEUE_NS 20000000ULL              /* longest wait for a rate unless configured; a longer one is a tail drop */
#define QUEUE_LIMIT (60 * SECOND_NS)      /* of a configured queue, in nanoseconds or bytes */
#define HELD_BYTES_LIMIT (256ULL << 20)   /* everything that waits here, for any delays */
#define SPIN_NS 40000ULL                  /* wake this long before a due time and spin: sleeps are late */
#define CLOCK_SPIN_NS 3000ULL             /* this near, look at nothing but the clock */
#define CONTROL_EVERY_NS 1000000ULL       /* how often a busy switch looks at its control socket */
#define CLOCKS_APART_NS 500ULL            /* two clocks are read together when it takes no longer */
#define BACKGROUND_BYTES 1514             /* a frame of a background flow */
#define BACKGROUND_BYTES_MAX 15140        /* and of one so fast that it would cost too many of them */
#define BACKGROUND_PER_S_MAX 100000ULL
#define BACKGROUND_EVERY_NS 1000000ULL    /* how long background flows may wait to be worked off, at most */
#define BACKGROUND_LAG_NS 100000000ULL    /* what is further behind is left out: this process had stopped */
#define STAMP_AGE_LIMIT_NS 100000000ULL   /* an older stamp means that the wall clock was set */

enum stage { AT_SOURCE, AT_TX, AT_UP, AT_DELAY, AT_DOWN, AT_RX };

/* A length of a queue: a waiting time, or bytes, which take a time that depends on the rate. */
struct length {
	uint64_t limit; /* 0: none was configured */
	bool in_bytes;
};

struct token_clock {
	uint64_t bytes_per_s; /* 0: no limit */
	uint64_t free_ns;     /* when everything before is paid for */
	uint64_t remainder;   /* of the last division, so that high rates do not drift */
	struct length queue, mark;
	uint64_t queue_ns, mark_ns; /* the same as waiting times at this rate; no mark: 0 */
};

struct port {
	char name[64];
	int ifindex;
	int rack;
	unsigned char mac[ETH_ALEN];
	struct token_clock tx, rx;
};

struct packet {
	uint16_t src, dst;
	enum stage stage;
	bool ghost;          /* of a background flow: it has no data and arrives nowhere */
	uint32_t wire_bytes; /* what it takes on a link, once cut into segments */
	uint32_t length;     /* of data: the virtio header and the frame */
	unsigned char data[];
};

struct event {
	uint64_t due_ns, sequence;
	struct packet *packet;
};

struct heap {
	struct event *events;
	size_t used, size;
};

struct stats {
	uint64_t received, sent, dropped_queue, dropped_memory, dropped_unknown, dropped_error, kernel_drops;
	uint64_t lost, marked, errors_sent, background_sent, background_dropped;
	uint64_t late_sum_ns, late_max_ns, late_count;
};

/* heap.c */
extern struct heap packets, ghosts;
extern uint64_t held_bytes;
bool heap_push(struct heap *heap, uint64_t due_ns, struct packet *packet);
struct packet *heap_pop(struct heap *heap);
bool is_due(const struct heap *heap, uint64_t now_ns);
struct packet *new_packet(int src, int dst, enum stage stage, uint32_t length);
void release(struct packet *packet);

/* ports.c */
extern struct port ports[MAX_PORTS];
extern int port_count, rack_count;
int port_of_mac(const unsigned char *mac);
struct port *port_named(const char *name);
const char *add_port(char *const words[]);
void clear_ports(void);
int port_of_interface(int ifindex);

/* shaping.c */
extern struct token_clock uplink_up[MAX_RACKS], uplink_down[MAX_RACKS];
extern uint64_t delay_ns[MAX_RACKS][MAX_RACKS];
extern bool routers;
extern int controller_rack;
void advance(struct packet *packet, uint64_t now_ns);
void settle(struct token_clock *clock);

/* background.c */
void catch_up(uint64_t until_ns);
const char *set_flow(int src, int dst, uint64_t bytes_per_s);
void end_flows(void);

/* arrivals.c */
int receive(void);

/* commands.c */
const char *obey(char *line, bool configuring);
bool number(const char *word, uint64_t limit, uint64_t *value);

/* control.c */
extern int listen_fd, signal_fd;
bool wait_and_serve(const struct timespec *timeout);
void open_control_socket(const char *path);

/* main.c */
extern int packet_fd;
extern struct stats stats;
void die(const char *what);
uint64_t clock_ns(clockid_t id);

#endif
