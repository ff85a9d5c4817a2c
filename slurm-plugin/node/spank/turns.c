#include "turns.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/sysmacros.h>
#include <sys/time.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "options.h"
#include "place.h"
#include "preload.h"
#include "registration.h"
#include "settings.h"
#include "turns_variable.h"

enum {
	PATIENCE_US = 250000, /* for an agent that does not answer */
	/* From here on descriptors are numbered: above those that shells and programs give
	 * out, and below 1024, up to which tables of descriptors cost nothing more. */
	FIRST_DESCRIPTOR = 1000,
	/* So many nodes of a step ask slurmctld how long the job may still run: the least
	 * of their answers holds for all. */
	ASKING_NODES = 64,
	PROCESSES_PER_CPU = 2,
};

_Static_assert((int)SETTINGS_FILE_SYSTEMS <= SLUICE_TURNS_MAX_DEVICES, "all fit in words");

/* A slurmstepd serves one step. */
static int page_fd = -1, words_fd = -1;
static int is_followed;

/* ---- file systems ---- */

/* As the kernel lists mounts: to ask a file system that hangs would hang us, too. The last
 * one at a place lies on top. 0: nothing is mounted there. */
static uint64_t
find_device (const char *mount_point)
{
	FILE *mounts = fopen ("/proc/self/mountinfo", "re");
	char *line = NULL, place[SETTINGS_PATH_SIZE + 1];
	size_t size = 0;
	unsigned int major, minor;
	uint64_t found = 0;

	while (mounts && getline (&line, &size, mounts) > 0)
		if (sscanf (line, "%*d %*d %u:%u %*s %256s", &major, &minor, place) == 3
		    && strcmp (place, mount_point) == 0)
			found = makedev (major, minor);
	free (line);
	if (mounts)
		fclose (mounts);
	return found;
}

static void
find_devices (const struct settings *settings, struct sluice_agent_request *request)
{
	for (uint32_t i = 0; i < settings->turns_on_count; i++) {
		uint64_t device = find_device (settings->turns_on[i]);
		if (device)
			request->devices[request->device_count++] = device;
		else
			report ("--io-turns: nothing is mounted at %s on this node: "
				"turns_on= in plugstack.conf names mount points",
				settings->turns_on[i]);
	}
}

/* ---- the job ---- */

/* Its writes may be held for a part of what is left; what is unknown is no time at all. */
static uint32_t
held_at_most (const struct holding *job)
{
	time_t left = job->end - time (NULL);

	if (job->job_id == 0 || left <= 0)
		return 0;
	left /= SLUICE_TURNS_PART;
	return left < SLUICE_AGENT_NO_LIMIT ? (uint32_t)left : SLUICE_AGENT_NO_LIMIT;
}

/* Its steps share the page, so it is for all that the node can run. 0: as usual. */
static uint32_t
count_slots (void)
{
	long processes = sysconf (_SC_NPROCESSORS_CONF) * PROCESSES_PER_CPU;
	return processes > 256 ? (uint32_t)processes : 0;
}

static int
describe_step (spank_t spank, struct sluice_agent_request *request)
{
	uid_t uid;

	request->magic = SLUICE_AGENT_MAGIC;
	request->version = SLUICE_AGENT_VERSION;
	request->slots = count_slots ();
	if (spank_get_item (spank, S_JOB_ID, &request->job_id) != ESPANK_SUCCESS
	    || spank_get_item (spank, S_JOB_STEPID, &request->step_id) != ESPANK_SUCCESS
	    || spank_get_item (spank, S_JOB_UID, &uid) != ESPANK_SUCCESS
	    || spank_get_item (spank, S_JOB_NNODES, &request->nodes) != ESPANK_SUCCESS)
		return -1;
	request->uid = uid;
	return 0;
}

/* NULL: other nodes ask. */
static const struct holding *
ask_about_job (spank_t spank, uint32_t job_id, struct holding *out)
{
	uint32_t node;

	if (spank_get_item (spank, S_JOB_NODEID, &node) == ESPANK_SUCCESS
	    && node >= ASKING_NODES)
		return NULL;
	if (holding_ask (job_id, out) < 0)
		*out = (struct holding){ .job_id = 0 };
	return out;
}

static void
describe_job (const struct holding *known, struct sluice_agent_request *request)
{
	request->most_held = known ? held_at_most (known) : SLUICE_AGENT_NO_LIMIT;
	if (!known || !known->job_id)
		return;
	request->nodes = known->nodes;
	request->first_target = known->first_target;
	request->target_count = known->target_count;
}

/* ---- the agent ---- */

static int
connect_to (const char *path)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const struct timeval patience = { .tv_usec = PATIENCE_US };
	int fd = socket (AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0);

	snprintf (address.sun_path, sizeof address.sun_path, "%s", path);
	if (fd >= 0
	    && setsockopt (fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience) == 0
	    && setsockopt (fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience) == 0
	    && connect (fd, (struct sockaddr *)&address, sizeof address) == 0)
		return fd;
	report ("--io-turns: no agent answers at %s: %s", path, strerror (errno));
	if (fd >= 0)
		close (fd);
	return -1;
}

/* Closes what came if it is not two descriptors. */
static int
take_descriptors (struct msghdr *message, int fds[2])
{
	struct cmsghdr *head = CMSG_FIRSTHDR (message);

	if (!head || head->cmsg_level != SOL_SOCKET || head->cmsg_type != SCM_RIGHTS)
		return -1;
	memcpy (fds, CMSG_DATA (head), 2 * sizeof (int));
	if (head->cmsg_len == CMSG_LEN (2 * sizeof (int)))
		return 0;
	close (fds[0]); /* there is room for two, so it was one */
	return -1;
}

/* The agent's error, an error of ours, or 0 with two descriptors. */
static int
receive (int connection, int fds[2])
{
	struct sluice_agent_reply reply;
	struct iovec bytes = { &reply, sizeof reply };
	_Alignas(struct cmsghdr) char control[CMSG_SPACE (2 * sizeof (int))] = "";
	struct msghdr message = {
		.msg_iov = &bytes,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof control,
	};
	ssize_t got = recvmsg (connection, &message, MSG_CMSG_CLOEXEC);

	if (got < 0)
		return errno;
	if (take_descriptors (&message, fds) == 0)
		return 0;
	return got == sizeof reply && reply.magic == SLUICE_AGENT_MAGIC && reply.error > 0
		   ? reply.error
		   : EPROTO;
}

static int
move_away (int fd)
{
	int moved = fcntl (fd, F_DUPFD_CLOEXEC, FIRST_DESCRIPTOR);
	close (fd);
	return moved;
}

static int
request_page (int connection, const struct sluice_agent_request *request)
{
	int fds[2] = { -1, -1 }, error;

	error = send (connection, request, sizeof *request, MSG_NOSIGNAL) < 0
		    ? errno
		    : receive (connection, fds);
	if (error) {
		report ("--io-turns: the agent gives job %u no page: %s", request->job_id,
			strerror (error));
		return -1;
	}
	page_fd = move_away (fds[0]);
	words_fd = move_away (fds[1]);
	return 0;
}

/* ---- which steps take turns ---- */

void
turns_describe (const struct holding *job, char out[TURNS_JOB_SIZE])
{
	snprintf (out, TURNS_JOB_SIZE, "%u:%s", job->job_id,
		  job->turns == HOLDING_TURNS_YES ? "yes" : "no");
}

enum holding_turns
turns_decided (spank_t spank)
{
	char text[8];

	if (spank_getenv (spank, SLUICE_TURNS_DECIDED, text, sizeof text) != ESPANK_SUCCESS)
		return HOLDING_TURNS_NOT_SAID;
	if (strcmp (text, "yes") == 0)
		return HOLDING_TURNS_YES;
	return strcmp (text, "no") == 0 ? HOLDING_TURNS_NO : HOLDING_TURNS_NOT_SAID;
}

/* What TURNS_JOB_VARIABLE says of this job. It may be forged: so users could as well ask by
 * --io-turns. */
static enum holding_turns
passed_on (spank_t spank)
{
	char text[TURNS_JOB_SIZE], expected[TURNS_JOB_SIZE];
	struct holding job = { .turns = HOLDING_TURNS_YES };

	if (spank_getenv (spank, TURNS_JOB_VARIABLE, text, sizeof text) != ESPANK_SUCCESS
	    || spank_get_item (spank, S_JOB_ID, &job.job_id) != ESPANK_SUCCESS)
		return HOLDING_TURNS_NOT_SAID;
	for (; job.turns <= HOLDING_TURNS_NO; job.turns++) {
		turns_describe (&job, expected);
		if (strcmp (text, expected) == 0)
			return job.turns;
	}
	return HOLDING_TURNS_NOT_SAID;
}

static int
is_left_alone (spank_t spank, enum holding_turns decided)
{
	uid_t uid;
	return decided == HOLDING_TURNS_NO || options_no_sluice (spank)
	       || spank_get_item (spank, S_JOB_UID, &uid) != ESPANK_SUCCESS || uid == 0;
}

/* As far as it can be said without slurmctld. */
static int
takes_turns (spank_t spank, enum holding_turns decided)
{
	enum options_turns asked = options_io_turns (spank);
	return asked == OPTIONS_TURNS_YES
	       || (asked != OPTIONS_TURNS_NO && decided == HOLDING_TURNS_YES);
}

void
turns_register (spank_t spank, int argc, char **argv, const struct holding *known)
{
	struct sluice_agent_request request = { .device_count = 0 };
	enum holding_turns decided = known ? known->turns : passed_on (spank);
	struct holding asked;
	struct settings settings;
	int connection, is_held, is_placed;

	if (is_left_alone (spank, decided))
		return;
	is_held = takes_turns (spank, decided);
	is_placed = place_is_wanted (spank, argc, argv);
	if ((!is_held && !is_placed) || describe_step (spank, &request) < 0
	    || !preload_is_possible (argc, argv, &settings))
		return;
	find_devices (&settings, &request);
	if (request.device_count == 0)
		return;
	if (!known)
		known = ask_about_job (spank, request.job_id, &asked);
	if (known && known->turns == HOLDING_TURNS_NO)
		return;
	connection = connect_to (settings.turns_socket[0] ? settings.turns_socket
							  : SLUICE_AGENT_SOCKET);
	if (connection < 0)
		return;
	describe_job (known, &request);
	if (!is_held)
		request.most_held = 0;
	if (is_placed)
		request.flags |= place_flags (spank, &settings, known);
	if (request_page (connection, &request) < 0)
		close (connection); /* else it stays open until we end */
	else
		is_followed = (request.flags & SLUICE_TURNS_PLACED) != 0;
}

/* ---- the tasks ---- */

int
turns_have_page (void)
{
	return page_fd >= 0 && words_fd >= 0;
}

int
turns_followed (void)
{
	return is_followed ? words_fd : -1;
}

/* To the steps that a script starts, on all nodes. */
static void
pass_on (spank_t spank, const struct holding *known)
{
	char text[TURNS_JOB_SIZE];

	if (known && known->job_id && known->turns != HOLDING_TURNS_NOT_SAID) {
		turns_describe (known, text);
		spank_setenv (spank, TURNS_JOB_VARIABLE, text, 1);
	} else if (passed_on (spank) == HOLDING_TURNS_NOT_SAID) {
		spank_unsetenv (spank, TURNS_JOB_VARIABLE);
	}
}

void
turns_announce (spank_t spank, const struct holding *known)
{
	char text[32];

	snprintf (text, sizeof text, "%d:%d", page_fd, words_fd);
	if (turns_have_page ())
		spank_setenv (spank, SLUICE_TURNS_ENVIRONMENT, text, 1);
	else
		spank_unsetenv (spank, SLUICE_TURNS_ENVIRONMENT);
	spank_unsetenv (spank,
			SLUICE_TURNS_DECIDED); /* not of a job that this one submits */
	pass_on (spank, known);
}

void
turns_hand_over (void)
{
	if (!turns_have_page ())
		return;
	fcntl (page_fd, F_SETFD, 0);
	fcntl (words_fd, F_SETFD, 0);
}
