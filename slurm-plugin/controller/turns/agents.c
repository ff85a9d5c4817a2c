#include "agents.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { BACKLOG = 4096, EVENTS = 512, LOGGED_A_SECOND = 5 };
enum { LISTENS = -1, HANDSHAKES = -2 }; /* in place of a connection's number */

enum state { IS_NEW, IS_CHECKED, IS_IN };

struct agent {
	struct bursts_agent parts; /* first: bursts.h hands it back */
	int fd;
	enum state state;
	uint32_t number, generation;
	uint32_t unsent; /* place among those to be flushed, from 1 */
	uint32_t frames; /* in this second */
	int64_t since, second;
	char address[64];
	struct wire_in in;
	struct wire_out out;
};

struct agents {
	int epoll_fd, listen_fd;
	int is_full; /* out of descriptors: not woken by connections */
	struct handshakes *handshakes;
	struct bursts *bursts;
	struct agent *all[AGENTS_MAX];
	struct agent *unsent[AGENTS_MAX];
	uint32_t free[AGENTS_MAX], free_count;
	uint32_t unsent_count, in_count, generations;
	uint64_t refused;
	struct agents_lost lost[AGENTS_MAX_LOST];
	uint32_t lost_count;
	int64_t searched, log_second;
	uint32_t logged;
};

int64_t
agents_milliseconds (void)
{
	struct timespec now;
	clock_gettime (CLOCK_MONOTONIC, &now);
	return now.tv_sec * (int64_t)1000 + now.tv_nsec / 1000000;
}

double
agents_seconds (void)
{
	struct timespec now;
	clock_gettime (CLOCK_MONOTONIC, &now);
	return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* ---- sessions begin and end ---- */

/* Any host that can connect can be refused: bounded, so that the log stays readable. */
static void
log_refused (struct agents *agents, const struct agent *agent, const char *text)
{
	int64_t now = agents_milliseconds () / 1000;
	agents->logged = now == agents->log_second ? agents->logged + 1 : 1;
	agents->log_second = now;
	if (agents->logged <= LOGGED_A_SECOND)
		fprintf (stderr, "sluice-turns: agent at %s: %s\n", agent->address, text);
}

static void
remove_unsent (struct agents *agents, struct agent *agent)
{
	if (!agent->unsent)
		return;
	struct agent *moved = agents->unsent[--agents->unsent_count];
	agents->unsent[agent->unsent - 1] = moved;
	moved->unsent = agent->unsent;
	agent->unsent = 0;
}

static void
remove_lost (struct agents *agents, const char *address)
{
	uint32_t count = 0;
	for (uint32_t i = 0; i < agents->lost_count; i++)
		if (strcmp (agents->lost[i].address, address) != 0)
			agents->lost[count++] = agents->lost[i];
	agents->lost_count = count;
}

static void
record_lost (struct agents *agents, const struct agent *agent)
{
	remove_lost (agents, agent->address);
	if (agents->lost_count == AGENTS_MAX_LOST)
		remove_lost (agents, agents->lost[0].address);
	struct agents_lost *lost = &agents->lost[agents->lost_count++];
	memcpy (lost->address, agent->address, sizeof lost->address);
	lost->since = agents_seconds ();
}

static void
drop (struct agents *agents, struct agent *agent, const char *why)
{
	if (agent->state == IS_IN && agent->parts.part_count > 0)
		record_lost (agents, agent);
	if (why) {
		log_refused (agents, agent, why);
		agents->refused++;
	}
	bursts_drop (agents->bursts, &agent->parts, agents_seconds ());
	remove_unsent (agents, agent);
	agents->in_count -= agent->state == IS_IN;
	agents->all[agent->number] = NULL;
	agents->free[agents->free_count++] = agent->number;
	close (agent->fd);
	free (agent);
}

static void
set_option (int fd, int level, int name, int value)
{
	setsockopt (fd, level, name, &value, sizeof value);
}

static void
set_up (int fd)
{
	set_option (fd, IPPROTO_TCP, TCP_NODELAY, 1);
	set_option (fd, SOL_SOCKET, SO_KEEPALIVE, 1);
	set_option (fd, IPPROTO_TCP, TCP_KEEPIDLE, 60);
	set_option (fd, IPPROTO_TCP, TCP_USER_TIMEOUT, 5000);
}

static struct agent *
make_agent (struct agents *agents, int fd, const struct sockaddr *address, socklen_t size)
{
	struct agent *agent = calloc (1, sizeof *agent);
	if (!agent)
		return NULL;
	agent->fd = fd;
	agent->since = agents_milliseconds ();
	agent->number = agents->free[--agents->free_count];
	agent->generation = ++agents->generations;
	agents->all[agent->number] = agent;
	if (getnameinfo (address, size, agent->address, sizeof agent->address, NULL, 0,
			 NI_NUMERICHOST)
	    != 0)
		strcpy (agent->address, "?");
	return agent;
}

/* A connection that cannot be accepted stays, and would wake us again at once. */
static void
listen_for (struct agents *agents, uint32_t events)
{
	struct epoll_event event = { events, { .u64 = (uint64_t)LISTENS } };
	agents->is_full = !events;
	epoll_ctl (agents->epoll_fd, EPOLL_CTL_MOD, agents->listen_fd, &event);
}

static void
accept_one (struct agents *agents)
{
	struct sockaddr_storage address;
	socklen_t size = sizeof address;
	struct agent *agent = NULL;
	int fd = accept4 (agents->listen_fd, (struct sockaddr *)&address, &size,
			  SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0) {
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			listen_for (agents, 0);
		return;
	}
	if (agents->free_count > 0)
		agent = make_agent (agents, fd, (struct sockaddr *)&address, size);
	if (!agent) {
		agents->refused++;
		close (fd);
		return;
	}
	set_up (fd);
	struct epoll_event event = { EPOLLIN, { .u64 = agent->number } };
	if (epoll_ctl (agents->epoll_fd, EPOLL_CTL_ADD, fd, &event) != 0)
		drop (agents, agent, strerror (errno));
}

/* ---- verdicts ---- */

static void
send_later (struct agents *agents, struct agent *agent)
{
	if (agent->unsent)
		return;
	agents->unsent[agents->unsent_count++] = agent;
	agent->unsent = agents->unsent_count;
}

static void
put (struct agents *agents, struct agent *agent, enum wire_kind kind, const void *payload,
     uint32_t size)
{
	if (agent->state != IS_IN)
		return;
	if (wire_put (&agent->out, kind, payload, size) < 0
	    && wire_flush (&agent->out, agent->fd) >= 0)
		/* Still no room: it does not read, and what it holds lapses. */
		wire_put (&agent->out, kind, payload, size);
	send_later (agents, agent);
}

void
agents_send (void *data, struct bursts_agent *to, const struct wire_word *word)
{
	struct {
		struct wire_verdict head;
		struct wire_word word;
	} verdict = { { .echo = to->echo, .count = 1 }, *word };
	put (data, (struct agent *)to, WIRE_VERDICT, &verdict, sizeof verdict);
}

void
agents_send_place (void *data, struct bursts_agent *to, const struct wire_place *word)
{
	put (data, (struct agent *)to, WIRE_PLACE, word, sizeof *word);
}

void
agents_flush (struct agents *agents)
{
	for (uint32_t i = agents->unsent_count; i-- > 0;) {
		struct agent *agent = agents->unsent[i];
		int left = wire_flush (&agent->out, agent->fd);
		if (left <= 0)
			remove_unsent (agents,
				       agent); /* reading finds out which are gone */
	}
}

/* ---- frames ---- */

static uint64_t
ticket_of (const struct agent *agent)
{
	return (uint64_t)agent->generation << 32 | agent->number;
}

/* NULL: all is well; else why its session ends. */
static const char *
check_hello (struct agents *agents, struct agent *agent, const struct wire_frame *frame)
{
	struct session_credential hello = { .size = frame->size };
	if (agent->state != IS_NEW || frame->kind != WIRE_HELLO)
		return "says no hello";
	memcpy (hello.text, frame->payload, frame->size);
	agent->state = IS_CHECKED;
	if (handshakes_check (agents->handshakes, ticket_of (agent), &hello) < 0)
		return "too many agents wait for munged";
	return NULL;
}

static const char *
handle_frame (struct agents *agents, struct agent *agent, const struct wire_frame *frame)
{
	if (agent->state != IS_IN)
		return check_hello (agents, agent, frame);
	const struct wire_report *report = wire_report_of (frame);
	if (!report)
		return "sends no valid report";
	int64_t now = agents_milliseconds () / 1000;
	agent->frames = now == agent->second ? agent->frames + 1 : 1;
	agent->second = now;
	if (agent->frames > AGENTS_MAX_FRAMES)
		return "reports too often";
	bursts_report (agents->bursts, &agent->parts, report, agents_seconds ());
	return NULL;
}

static void
read_frames (struct agents *agents, struct agent *agent)
{
	struct wire_frame frame;
	const char *wrong = NULL;
	int got = wire_receive (&agent->in, agent->fd), found = 0;
	while (got > 0 && !wrong && (found = wire_next (&agent->in, &frame)) > 0)
		wrong = handle_frame (agents, agent, &frame);
	if (got > 0 && found < 0)
		wrong = agent->state == IS_IN ? "a frame is damaged or forged"
					      : "speaks another protocol";
	if (got < 0 || wrong)
		drop (agents, agent, wrong);
}

static struct agent *
agent_of (const struct agents *agents, uint64_t ticket)
{
	struct agent *agent = agents->all[(uint32_t)ticket];
	return agent && ticket_of (agent) == ticket ? agent : NULL;
}

static void
open_session (struct agents *agents, struct agent *agent, const struct handshake *handshake)
{
	if (!handshake->is_valid) {
		drop (agents, agent, handshake->error.text);
		return;
	}
	wire_put (&agent->out, WIRE_WELCOME, handshake->credential.text,
		  handshake->credential.size);
	memcpy (agent->in.key, handshake->keys.to_coordinator, sizeof agent->in.key);
	memcpy (agent->out.key, handshake->keys.to_agent, sizeof agent->out.key);
	agent->state = IS_IN;
	agents->in_count++;
	remove_lost (agents, agent->address);
	send_later (agents, agent);
}

static void
open_checked (struct agents *agents)
{
	for (struct handshake *handshake;
	     (handshake = handshakes_next (agents->handshakes));) {
		struct agent *agent = agent_of (agents, handshake->ticket);
		if (agent)
			open_session (agents, agent, handshake);
		free (handshake);
	}
}

/* ---- the loop ---- */

static void
end_overdue (struct agents *agents)
{
	int64_t now = agents_milliseconds ();
	if (now - agents->searched < 1000)
		return;
	agents->searched = now;
	if (agents->is_full)
		listen_for (agents, EPOLLIN);
	for (uint32_t i = 0; i < AGENTS_MAX; i++) {
		struct agent *agent = agents->all[i];
		if (agent && agent->state != IS_IN && now - agent->since > AGENTS_HELLO_MS)
			drop (agents, agent,
			      agent->state == IS_NEW ? "says no hello"
						     : "munged does not answer");
	}
}

void
agents_poll (struct agents *agents, int milliseconds)
{
	struct epoll_event events[EVENTS];
	int n = epoll_wait (agents->epoll_fd, events, EVENTS, milliseconds);
	for (int i = 0; i < n; i++) {
		int64_t number = (int64_t)events[i].data.u64;
		if (number == LISTENS)
			accept_one (agents);
		else if (number == HANDSHAKES)
			open_checked (agents);
		else if (agents->all[number])
			read_frames (agents, agents->all[number]);
	}
	end_overdue (agents);
}

static int
listen_on (const struct addrinfo *address)
{
	int fd = socket (address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0)
		return -1;
	set_option (fd, SOL_SOCKET, SO_REUSEADDR, 1);
	if (bind (fd, address->ai_addr, address->ai_addrlen) == 0
	    && listen (fd, BACKLOG) == 0)
		return fd;
	close (fd);
	return -1;
}

static int
open_port (const char *address, const char *port, struct sluice_error *err)
{
	struct addrinfo hints = { .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE };
	struct addrinfo *all = NULL;
	int fd = -1, error = getaddrinfo (address, port, &hints, &all);
	if (error)
		return sluice_fail (err, "--address %.100s: %s", address,
				    gai_strerror (error));
	for (struct addrinfo *one = all; one && fd < 0; one = one->ai_next)
		fd = listen_on (one);
	if (fd < 0)
		sluice_fail (err, "cannot listen on TurnsPort %.20s: %s", port,
			     strerror (errno));
	freeaddrinfo (all);
	return fd;
}

static int
watch (struct agents *agents, int fd, int64_t number)
{
	struct epoll_event event = { EPOLLIN, { .u64 = (uint64_t)number } };
	return epoll_ctl (agents->epoll_fd, EPOLL_CTL_ADD, fd, &event);
}

static void
raise_limit (void)
{
	struct rlimit limit = { AGENTS_MAX + 256, AGENTS_MAX + 256 }, now;
	if (setrlimit (RLIMIT_NOFILE, &limit) == 0 || getrlimit (RLIMIT_NOFILE, &now) != 0)
		return;
	now.rlim_cur = now.rlim_max;
	setrlimit (RLIMIT_NOFILE, &now);
}

int
agents_start (const char *address, const char *port, struct handshakes *handshakes,
	      struct agents **out, struct sluice_error *err)
{
	struct agents *agents = calloc (1, sizeof *agents);
	if (!agents)
		return sluice_fail (err, "no memory");
	raise_limit ();
	for (uint32_t i = 0; i < AGENTS_MAX; i++)
		agents->free[agents->free_count++] = AGENTS_MAX - 1 - i;
	agents->handshakes = handshakes;
	agents->epoll_fd = epoll_create1 (EPOLL_CLOEXEC);
	agents->listen_fd = open_port (address, port, err);
	if (agents->listen_fd < 0)
		return -1;
	if (agents->epoll_fd < 0 || watch (agents, agents->listen_fd, LISTENS) != 0
	    || watch (agents, handshakes_fd (handshakes), HANDSHAKES) != 0)
		return sluice_fail (err, "epoll: %s", strerror (errno));
	*out = agents;
	return 0;
}

void
agents_set_bursts (struct agents *agents, struct bursts *bursts)
{
	agents->bursts = bursts;
}

uint32_t
agents_count (const struct agents *agents)
{
	return agents->in_count;
}

uint32_t
agents_list_lost (const struct agents *agents, struct agents_lost out[AGENTS_MAX_LOST])
{
	memcpy (out, agents->lost, agents->lost_count * sizeof agents->lost[0]);
	return agents->lost_count;
}

uint64_t
agents_refused (const struct agents *agents)
{
	return agents->refused;
}
