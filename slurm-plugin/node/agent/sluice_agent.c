/*
 * sluice-agent: the daemon of a node, between the shims of its jobs and the coordinator.
 *
 *   slurmstepd   asks for page and words of a job               registration.h, pages.h
 *   shims        count in pages, and wait as words say          page.h
 *   coordinator  gets reports of bursts, and sends verdicts     wire.h, node.h, link.h
 *
 * It sleeps until a frame or a job arrives, and while jobs are registered it scans their
 * pages every 150 ms: shims make no system call that could wake it.
 *
 * We fail open: words are leases of at most 2 s, and without agent, coordinator, network or
 * MUNGE they are not renewed.
 */
#include <errno.h>
#include <getopt.h>
#include <poll.h>
#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "link.h"
#include "node.h"
#include "settings.h"

enum { MAX_STEPS = 4096, BACKLOG = 128, FIXED = 4, DEAF_MS = 1000 };

/* A connection of slurmstepd. */
struct step {
	int fd;
	uint32_t job_id; /* 0: it has not asked yet */
};

static const char help[]
    = "Usage: sluice-agent --coordinator HOST:PORT [OPTIONS]\n"
      "\n"
      "Order the bursts of this node's jobs, as sluice-turns says.\n"
      "\n"
      "slurmstepd gets from it the memory that a job's processes count their writes in; "
      "it\n"
      "reports bursts to the coordinator and tells processes to wait, for two seconds at\n"
      "most unless that is renewed. Without it, or without the coordinator, nobody waits.\n"
      "\n"
      "  --coordinator HOST:PORT   where sluice-turns listens (TurnsPort in its "
      "sluice.conf)\n"
      "  --socket PATH             where slurmstepd asks  [" SLUICE_AGENT_SOCKET "]\n"
      "  --slurm-user USER         SlurmUser: sluice-turns runs as USER, who may register\n"
      "                            jobs here as root may  [the user it runs as]\n"
      "  --munge-socket PATH       of munged  [MUNGE's own default]\n"
      "  --help, --version\n";

static struct {
	const char *socket_path;
	struct link_settings link;
} options = { .socket_path = SLUICE_AGENT_SOCKET };

static struct node node;
static struct link coordinator;
static struct wire_in in;
static struct wire_out out;
static int link_fd = -1, listen_fd, signal_fd;
static struct step steps[MAX_STEPS];
static uint32_t step_count;
static uint64_t next_scan;
static uint64_t
    deaf_until; /* out of descriptors: those that connect wait; 0: they need not */

static uint64_t
now_ns (void)
{
	struct timespec now;
	clock_gettime (CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

/* ---- the coordinator ---- */

static void
lose_link (void)
{
	close (link_fd);
	link_fd = -1;
	node_release_all (&node);
}

static void
send_reports (void)
{
	if (wire_flush (&out, link_fd) < 0)
		lose_link ();
}

/* Frames that find no room are not sent: the coordinator does not read, no word is renewed,
 * and the next scan reports again. */
static void
put_report (const struct wire_burst *bursts, uint32_t count, uint64_t now)
{
	_Alignas(struct wire_report) unsigned char payload[WIRE_MAX_PAYLOAD];
	struct wire_report *report = (void *)payload;
	*report = (struct wire_report){ .sent = now, .count = count };
	memcpy (report->bursts, bursts, count * sizeof bursts[0]);
	wire_put (&out, WIRE_REPORT, payload,
		  (uint32_t)(sizeof *report + count * sizeof bursts[0]));
}

static void
report (uint64_t now, int all)
{
	struct wire_burst bursts[WIRE_MAX_BURSTS];
	uint32_t count = 0;
	if (link_fd < 0)
		return;
	for (uint32_t i = 0; i < node.job_count; i++) {
		count += (uint32_t)node_describe (node.jobs[i], now, all, &bursts[count]);
		if (count == WIRE_MAX_BURSTS) {
			put_report (bursts, count, now);
			count = 0;
		}
	}
	if (count)
		put_report (bursts, count, now);
	send_reports ();
}

static void
report_gone (uint32_t job_id)
{
	struct wire_burst burst = { .job_id = job_id, .flags = WIRE_GONE };
	if (link_fd < 0)
		return;
	put_report (&burst, 1, now_ns ());
	send_reports ();
}

static void
take_link (void)
{
	int fd = link_take (&coordinator, &in, &out);
	if (fd < 0)
		return;
	if (link_fd >= 0)
		lose_link ();
	link_fd = fd;
	report (now_ns (), 1);
}

/* -1: it makes no sense. */
static int
obey_frame (const struct wire_frame *frame)
{
	const struct wire_verdict *verdict = wire_verdict_of (frame);
	const struct wire_place *place = wire_place_of (frame);
	if (verdict)
		node_obey (&node, verdict, now_ns ());
	if (place)
		node_place (&node, place, now_ns ());
	return verdict || place ? 0 : -1;
}

static void
hear_coordinator (void)
{
	struct wire_frame frame;
	int got = wire_receive (&in, link_fd), found;
	while (got > 0 && (found = wire_next (&in, &frame)) != 0) {
		if (found < 0 || obey_frame (&frame) < 0) {
			fprintf (stderr, "sluice-agent: a frame of the coordinator makes "
					 "no sense; connecting anew\n");
			got = -1;
			break;
		}
	}
	if (got < 0)
		lose_link ();
}

/* ---- steps ---- */

static void
reply_to (int fd, const struct node_job *job, int error)
{
	struct sluice_agent_reply reply
	    = { SLUICE_AGENT_MAGIC, SLUICE_AGENT_VERSION, error, 0 };
	struct iovec bytes = { &reply, sizeof reply };
	_Alignas(struct cmsghdr) char control[CMSG_SPACE (2 * sizeof (int))] = "";
	struct msghdr message = { .msg_iov = &bytes, .msg_iovlen = 1 };
	if (job) {
		const int descriptors[] = { job->pages.page_fd, job->pages.words_fd };
		message.msg_control = control;
		message.msg_controllen = sizeof control;
		struct cmsghdr *head = CMSG_FIRSTHDR (&message);
		head->cmsg_level = SOL_SOCKET;
		head->cmsg_type = SCM_RIGHTS;
		head->cmsg_len = CMSG_LEN (sizeof descriptors);
		memcpy (CMSG_DATA (head), descriptors, sizeof descriptors);
	}
	sendmsg (fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static int
is_allowed (int fd)
{
	struct ucred peer;
	socklen_t size = sizeof peer;
	return getsockopt (fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0
	       && (peer.uid == 0 || peer.uid == options.link.munge.slurm_user);
}

static void
accept_step (void)
{
	int fd = accept4 (listen_fd, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
	if (fd < 0) {
		if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
			deaf_until = now_ns () + DEAF_MS * 1000000ull;
		return;
	}
	if (is_allowed (fd) && step_count < MAX_STEPS) {
		steps[step_count++] = (struct step){ .fd = fd };
		return;
	}
	node.refused++;
	reply_to (fd, NULL, is_allowed (fd) ? EAGAIN : EPERM);
	close (fd);
}

static void
drop_step (uint32_t i)
{
	uint32_t job_id = steps[i].job_id;
	close (steps[i].fd);
	steps[i] = steps[--step_count];
	if (job_id && node_unregister (&node, job_id))
		report_gone (job_id);
}

static void
register_step (struct step *step, const struct sluice_agent_request *request)
{
	struct sluice_error err = { "" };
	struct node_job *job = node_register (&node, request, &err);
	if (!job)
		fprintf (stderr, "sluice-agent: job %u is left alone: %s\n",
			 request->job_id, err.text);
	step->job_id = job ? job->id : 0;
	reply_to (step->fd, job, job ? 0 : EINVAL);
}

/* Asked once; afterwards the connection says nothing but that it ends. */
static void
hear_step (uint32_t i)
{
	struct sluice_agent_request request;
	ssize_t got = recv (steps[i].fd, &request, sizeof request, MSG_TRUNC);
	if (got < 0 && errno == EAGAIN)
		return;
	if (got != sizeof request || steps[i].job_id) {
		drop_step (i);
		return;
	}
	register_step (&steps[i], &request);
	if (!steps[i].job_id)
		drop_step (i);
}

/* ---- the loop ---- */

static int
sleep_ms (uint64_t now)
{
	uint64_t next = node.job_count ? next_scan : UINT64_MAX;
	if (deaf_until && deaf_until < next)
		next = deaf_until;
	if (next == UINT64_MAX)
		return -1;
	return now >= next ? 0 : (int)((next - now) / 1000000 + 1);
}

static uint32_t
await (struct pollfd *fds)
{
	uint64_t now = now_ns ();
	if (now >= deaf_until)
		deaf_until = 0;
	fds[0] = (struct pollfd){ .fd = signal_fd, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = deaf_until ? -1 : listen_fd, .events = POLLIN };
	fds[2] = (struct pollfd){ .fd = coordinator.ready_fd, .events = POLLIN };
	fds[3] = (struct pollfd){ .fd = link_fd, .events = POLLIN };
	for (uint32_t i = 0; i < step_count; i++)
		fds[FIXED + i] = (struct pollfd){ .fd = steps[i].fd, .events = POLLIN };
	uint32_t asked = step_count;
	return poll (fds, FIXED + asked, sleep_ms (now)) > 0 ? asked : UINT32_MAX;
}

static void
scan_when_due (void)
{
	uint64_t now = now_ns ();
	if (node.job_count == 0 || now < next_scan)
		return;
	node_scan (&node, now);
	if (link_fd < 0)
		link_want (&coordinator);
	report (now, 0);
	next_scan = now_ns () + NODE_SCAN_MS * 1000000ull;
}

static void
answer (const struct pollfd *fds, uint32_t asked)
{
	if (fds[3].revents && fds[3].fd == link_fd)
		hear_coordinator ();
	if (fds[2].revents)
		take_link ();
	for (uint32_t i = asked; i-- > 0;) /* a dropped one is filled from behind */
		if (fds[FIXED + i].revents)
			hear_step (i);
	if (fds[1].revents)
		accept_step ();
}

static void
run (void)
{
	static struct pollfd fds[FIXED + MAX_STEPS];
	for (;;) {
		uint32_t asked = await (fds);
		if (asked != UINT32_MAX && fds[0].revents)
			return;
		if (asked != UINT32_MAX)
			answer (fds, asked);
		scan_when_due ();
	}
}

static int
listen_at (const char *path, struct sluice_error *err)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	if (strlen (path) >= sizeof address.sun_path)
		return sluice_fail (err, "%.100s: too long for a socket", path);
	sluice_copy_text (address.sun_path, sizeof address.sun_path, path);
	int fd = socket (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	unlink (path);
	mode_t before = umask (0177);
	int failed = fd < 0 || bind (fd, (struct sockaddr *)&address, sizeof address) != 0
		     || listen (fd, BACKLOG) != 0;
	umask (before);
	return failed ? sluice_fail (err, "%.100s: %s", path, strerror (errno)) : fd;
}

static int
start (struct sluice_error *err)
{
	sigset_t ends;
	sigemptyset (&ends);
	sigaddset (&ends, SIGTERM);
	sigaddset (&ends, SIGINT);
	sigprocmask (SIG_BLOCK, &ends, NULL); /* also in the thread of the link */
	prctl (PR_SET_TIMERSLACK, 5000000ul);
	signal_fd = signalfd (-1, &ends, SFD_CLOEXEC);
	listen_fd = listen_at (options.socket_path, err);
	return listen_fd < 0 ? -1 : link_start (&coordinator, &options.link, err);
}

static void
take_coordinator (char *text)
{
	char *colon = strrchr (text, ':');
	if (!colon || !colon[1])
		settings_refuse ("--coordinator", "is HOST:PORT");
	*colon = '\0';
	options.link.host = text;
	options.link.port = colon + 1;
}

static void
take_options (int argc, char **argv)
{
	static const struct option known[] = {
		{ "coordinator", required_argument, NULL, 'c' },
		{ "socket", required_argument, NULL, 's' },
		{ "slurm-user", required_argument, NULL, 'u' },
		{ "munge-socket", required_argument, NULL, 'm' },
		{ "help", no_argument, NULL, 'h' },
		{ "version", no_argument, NULL, 'V' },
		{ NULL, 0, NULL, 0 },
	};
	options.link.munge.slurm_user = geteuid ();
	for (int c; (c = getopt_long (argc, argv, "", known, NULL)) != -1;)
		switch (c) {
		case 'c':
			take_coordinator (optarg);
			break;
		case 's':
			options.socket_path = optarg;
			break;
		case 'u':
			options.link.munge.slurm_user = settings_user (optarg);
			break;
		case 'm':
			options.link.munge.socket = optarg;
			break;
		default:
			settings_show (c, help);
		}
	if (!options.link.host || optind < argc)
		settings_refuse ("--coordinator",
				 "has to be given, and no other arguments");
}

int
main (int argc, char **argv)
{
	struct sluice_error err = { "" };
	take_options (argc, argv);
	if (start (&err) < 0) {
		fprintf (stderr, "sluice-agent: %s\n", err.text);
		return 1;
	}
	run ();
	node_release_all (&node);
	unlink (options.socket_path);
	return 0;
}
