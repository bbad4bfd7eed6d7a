/* The commands of configuration and control: one line each. The comment of main.c lists them. */
#include "switch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "faults.h"

bool number(const char *word, uint64_t limit, uint64_t *value)
{
	char *end;

	if (!word || *word < '0' || *word > '9')
		return false;
	errno = 0;
	*value = strtoull(word, &end, 10);
	return !errno && !*end && *value <= limit;
}

/* Numbers with commas between; how many, or -1. */
static int numbers(const char *word, uint64_t limit, uint64_t *values, int most)
{
	int count = 0;
	char *end;

	for (;; word = end + 1) {
		if (count == most || *word < '0' || *word > '9')
			return -1;
		errno = 0;
		values[count] = strtoull(word, &end, 10);
		if (errno || values[count++] > limit || (*end && *end != ','))
			return -1;
		if (!*end)
			return count;
	}
}

/* impair host NAME KEY VALUE | impair link SRC DST KEY VALUE | impair racks SRC DST KEY VALUE */
static const char *impair(char *const words[], int count)
{
	bool on_host = !strcmp(words[1], "host");
	const char *key = words[on_host ? 3 : 4], *value = words[on_host ? 4 : 5];
	const struct port *near, *far;
	struct impairment *one = NULL;
	uint64_t paths[MAX_PATHS] = {0}, a, b;
	int path_count;

	if (count != (on_host ? 5 : 6))
		return "unknown command";
	if (on_host) {
		if (!(near = port_named(words[2])))
			return "no such host";
		one = impairment(ON_HOST, (int)(near - ports), 0, true);
	} else if (!strcmp(words[1], "link")) {
		if (!(near = port_named(words[2])) || !(far = port_named(words[3])))
			return "no such host";
		one = impairment(ON_LINK, (int)(near - ports), (int)(far - ports), true);
	} else if (!strcmp(words[1], "racks")) {
		if (!rack_count || !number(words[2], (uint64_t)rack_count - 1, &a) ||
		    !number(words[3], (uint64_t)rack_count - 1, &b))
			return "no such rack";
		one = impairment(ON_RACKS, (int)a, (int)b, true);
	} else {
		return "unknown command";
	}
	if (!one)
		return "no room for more impairments";
	if (!strcmp(key, "loss"))
		return number(value, PER_BILLION, &one->loss_ppb) ? NULL : "no possible loss";
	if (!strcmp(key, "duplicate"))
		return number(value, PER_BILLION, &one->copy_ppb) ? NULL : "no possible share of copies";
	if (!strcmp(key, "delay"))
		return number(value, 60 * SECOND_NS, &one->delay_ns) ? NULL : "no possible delay";
	if (!strcmp(key, "jitter"))
		return number(value, 60 * SECOND_NS, &one->jitter_ns) ? NULL : "no possible jitter";
	if (!strcmp(key, "mtu"))
		return number(value, 65535, &one->mtu) ? NULL : "no possible size";
	if (!strcmp(key, "blocked")) {
		if (!number(value, 1, &a))
			return "blocked is 0 or 1";
		one->blocked = a;
		return NULL;
	}
	if (strcmp(key, "paths"))
		return "no such key";
	path_count = numbers(value, 60 * SECOND_NS, paths, MAX_PATHS);
	if (path_count < 0)
		return "no possible paths";
	one->path_count = strcmp(value, "0") ? (unsigned int)path_count : 0;
	memcpy(one->paths_ns, paths, sizeof(paths));
	return NULL;
}

static const char *background(char *const words[])
{
	const struct port *near = port_named(words[1]), *far = port_named(words[2]);
	uint64_t bytes_per_s;

	if (!near || !far || near == far)
		return "no such two hosts";
	if (!number(words[3], 1000000000000ULL, &bytes_per_s))
		return "no possible rate";
	return set_flow((int)(near - ports), (int)(far - ports), bytes_per_s);
}

static const char *clear(const char *what)
{
	if (!strcmp(what, "impair")) {
		clear_impairments();
		return NULL;
	}
	if (strcmp(what, "background"))
		return "unknown command";
	end_flows();
	return NULL;
}

/* host NAME tx|rx, or uplink RACK up|down: the clock of it, or NULL and what is wrong. */
static struct token_clock *clock_of(char *const words[], const char **wrong)
{
	struct token_clock *clock;
	struct port *port;
	uint64_t rack;

	if (!strcmp(words[0], "host")) {
		*wrong = "no such host";
		if (!(port = port_named(words[1])))
			return NULL;
		clock = !strcmp(words[2], "tx") ? &port->tx : !strcmp(words[2], "rx") ? &port->rx : NULL;
	} else if (!strcmp(words[0], "uplink")) {
		*wrong = "no such rack";
		if (!rack_count || !number(words[1], (uint64_t)rack_count - 1, &rack))
			return NULL;
		clock = !strcmp(words[2], "up")     ? &uplink_up[rack]
			: !strcmp(words[2], "down") ? &uplink_down[rack]
						    : NULL;
	} else {
		*wrong = "unknown command";
		return NULL;
	}
	*wrong = "no such direction";
	return clock;
}

/* queue|mark host NAME tx|rx ns|bytes LENGTH, and the same of an uplink */
static const char *set_length(char *const words[])
{
	const char *wrong;
	struct token_clock *clock = clock_of(words + 1, &wrong);
	struct length length = {0, !strcmp(words[4], "bytes")};

	if (!clock)
		return wrong;
	if (!length.in_bytes && strcmp(words[4], "ns"))
		return "a length is in ns or bytes";
	/* Times a second in nanoseconds this still fits. */
	if (!number(words[5], length.in_bytes ? SECOND_NS : QUEUE_LIMIT, &length.limit))
		return "no possible length";
	*(strcmp(words[0], "mark") ? &clock->queue : &clock->mark) = length;
	settle(clock);
	return NULL;
}

/* Obey one line; NULL when done, else what is wrong with it. Changes the line. */
const char *obey(char *line, bool configuring)
{
	char *words[6] = {NULL}, *rest = NULL;
	struct token_clock *clock;
	const char *wrong;
	uint64_t a, b, value;
	int count = 0;
	char *word;

	for (word = strtok_r(line, " \t\r\n", &rest); word; word = strtok_r(NULL, " \t\r\n", &rest)) {
		if (count == 6)
			return "too many words";
		words[count++] = word;
	}
	if (!count)
		return "empty line";
	if (configuring && count == 2 && !strcmp(words[0], "racks")) {
		if (rack_count || !number(words[1], MAX_RACKS, &a) || !a)
			return "no possible number of racks";
		rack_count = (int)a;
		controller_rack = rack_count - 1;
		return NULL;
	}
	if (configuring && count == 2 && !strcmp(words[0], "seed"))
		return number(words[1], UINT64_MAX - 1, &random_state) ? NULL : "no possible seed";
	if (configuring && count == 1 && !strcmp(words[0], "routers")) {
		routers = true;
		return NULL;
	}
	if (configuring && count == 5 && !strcmp(words[0], "port"))
		return add_port(words);
	if (count == 6 && (!strcmp(words[0], "queue") || !strcmp(words[0], "mark")))
		return set_length(words);
	if (count >= 5 && !strcmp(words[0], "impair"))
		return impair(words, count);
	if (count == 4 && !strcmp(words[0], "background"))
		return background(words);
	if (count == 2 && !strcmp(words[0], "clear"))
		return clear(words[1]);
	if (count != 4)
		return "unknown command";
	if (!strcmp(words[0], "delay")) {
		if (!rack_count || !number(words[1], (uint64_t)rack_count - 1, &a) ||
		    !number(words[2], (uint64_t)rack_count - 1, &b))
			return "no such rack";
		if (!number(words[3], 60 * SECOND_NS, &value))
			return "no possible delay";
		delay_ns[a][b] = value;
		return NULL;
	}
	if (!(clock = clock_of(words, &wrong)))
		return wrong;
	if (!number(words[3], 1000000000000ULL, &value))
		return "no possible rate";
	clock->bytes_per_s = value;
	settle(clock);
	return NULL;
}
