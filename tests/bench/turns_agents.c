/*
 * Thousands of agents in one process: real connections, credentials and frames, made-up
 * jobs.
 *
 *   turns_agents PORT MUNGE_SOCKET AGENTS NODES SECONDS
 *
 * Each job is on NODES agents, each agent has one job; half of the jobs are in a burst at
 * any time. An agent does what sluice-agent does: it scans every 150 ms, reports what began
 * or ended, and a burst or a hold once a second. Measured is, for each burst of a job whose
 * rate is known from an earlier one, the time from its begin to the moment at which a word
 * to hold is in effect on all of its nodes. Prints one line of JSON.
 */
#include <arpa/inet.h>
#include <err.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "session.h"

enum { BATCH = 64, EVENTS = 512, MOST = 1 << 20 };

static const uint64_t second = 1000000000, millisecond = 1000000;
static const double burst_seconds = 20.0, node_rate = 10e6;

struct agent {
	int fd;
	struct session_half half;
	struct wire_in in;
	struct wire_out out;
	uint64_t scanned, reported, until, heard;
	uint64_t bytes, base_bytes, counted;
	int was_active;
};

struct job {
	int is_active, is_measured;
	uint64_t began, changes;
};

static struct agent *agents;
static struct job *jobs;
static uint32_t agent_count, nodes, job_count;
static double found[MOST];
static uint32_t found_count, begun;
static uint64_t reports, words;
static uint32_t active, held; /* jobs, at the end */

static uint64_t
now_ns (void)
{
	struct timespec now;
	clock_gettime (CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * second + (uint64_t)now.tv_nsec;
}

static uint64_t
drawn (double mean)
{
	double share = (double)rand () / RAND_MAX;
	return (uint64_t)((0.5 + share) * mean * 1e9);
}

/* ---- connecting ---- */

static void
greet (struct agent *agent, const struct session_munge *munge, uint16_t port)
{
	struct sockaddr_in to = { .sin_family = AF_INET, .sin_port = htons (port) };
	struct session_credential hello;
	struct sluice_error why;
	to.sin_addr.s_addr = htonl (INADDR_LOOPBACK);
	agent->fd = socket (AF_INET, SOCK_STREAM, 0);
	if (agent->fd < 0 || connect (agent->fd, (struct sockaddr *)&to, sizeof to) != 0)
		err (1, "connect");
	if (session_hello (munge, &agent->half, &hello, &why) < 0)
		errx (1, "%s", why.text);
	wire_put (&agent->out, WIRE_HELLO, hello.text, hello.size);
	if (wire_flush (&agent->out, agent->fd) != 0)
		err (1, "hello");
}

static void
enter (struct agent *agent, const struct session_munge *munge)
{
	struct session_credential welcome;
	struct session_keys keys;
	struct sluice_error why;
	struct wire_frame frame;
	while (wire_next (&agent->in, &frame) == 0)
		if (wire_receive (&agent->in, agent->fd) <= 0)
			errx (1, "not welcome");
	welcome.size = frame.size;
	memcpy (welcome.text, frame.payload, frame.size);
	if (session_join (munge, &agent->half, &welcome, &keys, &why) < 0)
		errx (1, "%s", why.text);
	memcpy (agent->in.key, keys.to_agent, sizeof agent->in.key);
	memcpy (agent->out.key, keys.to_coordinator, sizeof agent->out.key);
	fcntl (agent->fd, F_SETFL, O_NONBLOCK);
}

static void
connect_all (const struct session_munge *munge, uint16_t port, int epoll_fd)
{
	for (uint32_t i = 0; i < agent_count; i += BATCH) {
		uint32_t end = i + BATCH < agent_count ? i + BATCH : agent_count;
		for (uint32_t k = i; k < end; k++)
			greet (&agents[k], munge, port);
		for (uint32_t k = i; k < end; k++) {
			struct epoll_event event = { EPOLLIN, { .u32 = k } };
			enter (&agents[k], munge);
			epoll_ctl (epoll_fd, EPOLL_CTL_ADD, agents[k].fd, &event);
		}
	}
}

/* ---- what agents do ---- */

static void
report (uint32_t i, uint64_t now)
{
	struct agent *agent = &agents[i];
	const struct job *job = &jobs[i / nodes];
	struct {
		struct wire_report head;
		struct wire_burst burst;
	} frame = { { .sent = now, .count = 1 },
		    { .job_id = i / nodes + 1,
		      .flags = (job->is_active ? WIRE_ACTIVE : 0u)
			       | (agent->until > now ? WIRE_HELD : 0u),
		      .nodes = nodes,
		      .writers = 1,
		      .began = job->began,
		      .bytes = agent->bytes,
		      .base_bytes = agent->base_bytes,
		      .may_hold = UINT64_MAX } };
	wire_put (&agent->out, WIRE_REPORT, &frame, sizeof frame);
	if (wire_flush (&agent->out, agent->fd) < 0)
		errx (1, "the coordinator has put out agent %u", i);
	agent->reported = now;
	reports++;
}

static void
scan (uint32_t i, uint64_t now)
{
	struct agent *agent = &agents[i];
	const struct job *job = &jobs[i / nodes];
	int is_held = agent->until > now;
	agent->scanned = now;
	if (job->is_active && !agent->was_active)
		agent->base_bytes = agent->bytes;
	if (job->is_active && !is_held)
		agent->bytes
		    += (uint64_t)(node_rate * (double)(now - agent->counted) * 1e-9);
	agent->counted = now;
	if (job->is_active != agent->was_active
	    || ((job->is_active || is_held) && now - agent->reported >= second))
		report (i, now);
	agent->was_active = job->is_active;
}

static void
change_jobs (uint64_t now)
{
	for (uint32_t i = 0; i < job_count; i++) {
		struct job *job = &jobs[i];
		if (now < job->changes)
			continue;
		job->is_active = !job->is_active;
		job->changes = now + drawn (burst_seconds);
		job->is_measured = 0;
		begun += job->is_active;
		if (job->is_active)
			job->began = now;
	}
}

static void
measure (uint32_t job_index, uint64_t now)
{
	struct job *job = &jobs[job_index];
	if (!job->is_active || job->is_measured)
		return;
	for (uint32_t k = 0; k < nodes; k++)
		if (agents[job_index * nodes + k].heard < job->began)
			return;
	job->is_measured = 1;
	if (found_count < MOST)
		found[found_count++] = (double)(now - job->began) * 1e-6;
}

static void
hear (uint32_t i)
{
	struct agent *agent = &agents[i];
	struct wire_frame frame;
	int got = wire_receive (&agent->in, agent->fd), is_whole = 0;
	if (got < 0)
		errx (1, "the coordinator has put out agent %u", i);
	while (got > 0 && (is_whole = wire_next (&agent->in, &frame)) > 0) {
		const struct wire_verdict *verdict = wire_verdict_of (&frame);
		uint64_t now = now_ns ();
		if (!verdict)
			errx (1, "no verdict");
		int is_go = verdict->words[0].action == WIRE_GO;
		agent->until = is_go ? 0 : verdict->echo + WIRE_LEASE_NS;
		if (!is_go && agent->until <= now && now - agent->reported > second / 4)
			report (i, now); /* too old: ask anew, as NODE_ANSWER_MS has it */
		agent->heard = now;
		words++;
		measure (i / nodes, now);
	}
	if (is_whole < 0)
		errx (1, "a damaged frame");
}

static void
run (int epoll_fd, uint64_t end)
{
	struct epoll_event events[EVENTS];
	for (uint64_t now = now_ns (), round = now; now < end; now = now_ns ()) {
		int n = epoll_wait (epoll_fd, events, EVENTS, 5);
		for (int i = 0; i < n; i++)
			hear (events[i].data.u32);
		now = now_ns ();
		if (now < round)
			continue;
		round = now + 5 * millisecond;
		change_jobs (now);
		for (uint32_t i = 0; i < agent_count; i++)
			if (now - agents[i].scanned >= 150 * millisecond)
				scan (i, now);
	}
}

static int
compare (const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

static double
quantile (double q)
{
	return found_count ? found[(uint32_t)(q * (found_count - 1))] : -1.0;
}

int
main (int argc, char **argv)
{
	struct rlimit limit;
	if (argc != 6)
		errx (2, "PORT MUNGE_SOCKET AGENTS NODES SECONDS");
	const struct session_munge munge = { argv[2], geteuid () };
	nodes = (uint32_t)atoi (argv[4]);
	job_count = (uint32_t)atoi (argv[3]) / nodes;
	agent_count = job_count * nodes;
	agents = calloc (agent_count, sizeof *agents);
	jobs = calloc (job_count, sizeof *jobs);
	int epoll_fd = epoll_create1 (0);
	if (!agents || !jobs || epoll_fd < 0)
		errx (1, "no memory");
	getrlimit (RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit (RLIMIT_NOFILE, &limit);
	uint64_t start = now_ns ();
	connect_all (&munge, (uint16_t)atoi (argv[1]), epoll_fd);
	uint64_t connected = now_ns ();
	for (uint32_t i = 0; i < job_count; i++)
		jobs[i].changes = connected + drawn (burst_seconds)
				  - (uint64_t)(0.5 * burst_seconds * 1e9);
	for (uint32_t i = 0; i < agent_count; i++)
		agents[i].scanned = agents[i].counted
		    = connected + (uint64_t)(rand () % 150) * millisecond
		      - 150 * millisecond;
	for (uint32_t i = 0; i < agent_count; i++)
		report (i, connected); /* which jobs are there */
	run (epoll_fd, connected + (uint64_t)atoi (argv[5]) * second);
	for (uint32_t i = 0; i < job_count; i++) {
		active += jobs[i].is_active;
		held += agents[i * nodes].until > now_ns ();
	}
	qsort (found, found_count, sizeof found[0], compare);
	printf ("{\"agents\":%u,\"connect_seconds\":%.1f,\"bursts\":%u,\"measured\":%u,"
		"\"active\":%u,\"held\":%u,\"p50\":%.1f,\"p99\":%.1f,\"longest\":%.1f,"
		"\"reports\":%llu,\"words\":%llu}\n",
		agent_count, (double)(connected - start) * 1e-9, begun, found_count, active,
		held, quantile (0.5), quantile (0.99), quantile (1.0),
		(unsigned long long)reports, (unsigned long long)words);
	return 0;
}
