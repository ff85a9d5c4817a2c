/*
 * What slurmstepd asks the agent of its node for: page and words of a job (page.h).
 *
 * One request and one reply on a connection of type SOCK_SEQPACKET. A reply without an
 * error carries two descriptors by SCM_RIGHTS: the page, to be written, and the words, to
 * be read. Steps of one job get the same two. The job is registered for as long as
 * one of its connections is open, so slurmstepd keeps its own (close-on-exec) until the
 * step ends: however slurmstepd ends, the kernel tells the agent.
 *
 * Only root and SlurmUser are answered, by the credentials of the socket's peer.
 */
#ifndef SLUICE_REGISTRATION_H
#define SLUICE_REGISTRATION_H

#include <stdint.h>

#include "page.h"

#define SLUICE_AGENT_SOCKET "/run/sluice/agent.sock"
#define SLUICE_AGENT_MAGIC 0x61736c73 /* "slsa" */
#define SLUICE_AGENT_VERSION 2
#define SLUICE_AGENT_NO_LIMIT UINT32_MAX

struct sluice_agent_request {
	uint32_t magic;
	uint32_t version;
	uint32_t job_id; /* not 0 */
	uint32_t step_id;
	uint32_t uid;	/* of the job's user */
	uint32_t nodes; /* of the whole job */
	uint32_t slots; /* processes that it may have here at a time; 0: 256 */
	uint32_t flags; /* enum sluice_turns_flags_of_words */
	/* Seconds for which its writes may be held in the whole run, which its time limit
	 * leaves; 0: never. */
	uint32_t most_held;
	uint32_t device_count;
	/* Its block of targets, by its admin comment; count 0: none is known. */
	uint32_t first_target, target_count;
	uint64_t devices[SLUICE_TURNS_MAX_DEVICES]; /* st_dev of the site's storage */
};

struct sluice_agent_reply {
	uint32_t magic;
	uint32_t version;
	int32_t error; /* of errno.h; 0: two descriptors come with this */
	uint32_t reserved;
};

_Static_assert(sizeof (struct sluice_agent_request) == 304, "part of the interface");
_Static_assert(sizeof (struct sluice_agent_reply) == 16, "part of the interface");

#endif
