/*
 * Queues in the network kept short.
 *
 * TCP without more ado fills whatever queue there is, and a collective has many connections at once: messages that all
 * wait for then stand behind others, and what is lost at the end of a queue is sent again late. So where a connection's
 * round trip is far above its least, no more is under way on it than twice what the network itself holds, or LEAST. The
 * system's own buffer stays where that is not so, or where that is more than Linux lets every process set (MOST), and the
 * limit rises with what the connection is seen to carry. A rank that sends to one or two others (a ring) has no limit:
 * nothing stands behind, and one connection alone must keep its link busy while the rank does something else.
 */
#include "messages.h"

enum { FEW = 2, LEAST = 1 << 16, MOST = 212992, QUEUED_US = 2000, TIMES = 4 };

/*
 * The send buffer of a connection in bytes, 0 for the system's own: by its round trip and the least one seen, in
 * microseconds, what it delivers in bytes a second, and what the limit was (0: none).
 */
EXPORT int np_send_buffer(double rtt_us, double least_us, double bytes_per_s, int was)
{
	if (!was && (rtt_us < TIMES * least_us || rtt_us < least_us + QUEUED_US))
		return 0;
	double wanted = 2e-6 * bytes_per_s * least_us;
	if (wanted > MOST)
		return 0;
	int limit = wanted < LEAST ? LEAST : (int)wanted;
	/* What it delivers varies; a change that is small tells nothing. */
	return was && limit < 2 * was && was < 2 * limit ? was : limit;
}

#ifdef __linux__
#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/socket.h>

enum { BUFFER_LOCK = 72 }; /* SO_BUF_LOCK, which older headers lack */

void keep_queue_short(struct connection *one, int receivers)
{
	struct tcp_info info;
	socklen_t length = sizeof info;
	if (receivers <= FEW && !one->limit)
		return;
	if (getsockopt(one->fd, IPPROTO_TCP, TCP_INFO, &info, &length) ||
	    length < offsetof(struct tcp_info, tcpi_delivery_rate) + sizeof info.tcpi_delivery_rate)
		return; /* an older kernel */
	int limit = 0;
	if (receivers > FEW)
		limit = np_send_buffer(info.tcpi_rtt, info.tcpi_min_rtt, (double)info.tcpi_delivery_rate, one->limit);
	if (limit == one->limit)
		return;
	int unlock = 0, most = MOST;
	if (!limit && setsockopt(one->fd, SOL_SOCKET, BUFFER_LOCK, &unlock, sizeof unlock))
		limit = most; /* a kernel before 5.15: a buffer that was once set is not its own again */
	if (!limit || !setsockopt(one->fd, SOL_SOCKET, SO_SNDBUF, &limit, sizeof limit))
		one->limit = limit;
}
#else
void keep_queue_short(struct connection *one, int receivers)
{
	(void)one;
	(void)receivers;
}
#endif
