/*
 * Authentication: one MUNGE credential each way, from which both sides draw a session's
 * keys.
 *
 * Each side puts 128 random bits into its credential, which MUNGE encrypts and only the
 * user that it is meant for can decode. The coordinator's holds the agent's bits as well:
 * so it has decoded the agent's, and is no recording. munged on the coordinator's host
 * refuses a hello that it has seen before. A credential costs some 100 us and a connection
 * to munged each way; frames after these cost a SipHash.
 *
 * MUNGE's library waits for munged, for seconds if it is stopped: call these from a thread
 * that no thread waits for.
 */
#ifndef SLUICE_SESSION_H
#define SLUICE_SESSION_H

#include <stdint.h>
#include <sys/types.h>

#include "base.h"
#include "wire.h"

enum { SESSION_HALF = 16 };

struct session_half {
	unsigned char bytes[SESSION_HALF];
};

struct session_keys {
	uint64_t to_coordinator[2];
	uint64_t to_agent[2];
};

/* A credential as text, without its end. */
struct session_credential {
	uint32_t size;
	char text[WIRE_MAX_PAYLOAD];
};

struct session_munge {
	const char *socket; /* of munged; NULL: its default */
	uid_t slurm_user;   /* the peer's user, if not root */
};

/* The agent's hello, for a coordinator that runs as SlurmUser. Fills in the half. */
int session_hello (const struct session_munge *munge, struct session_half *half,
		   struct session_credential *out, struct sluice_error *err);
/* The coordinator's answer to a hello. */
int session_welcome (const struct session_munge *munge,
		     const struct session_credential *hello, struct session_keys *keys,
		     struct session_credential *out, struct sluice_error *err);
/* The agent's check of the answer. */
int session_join (const struct session_munge *munge, const struct session_half *half,
		  const struct session_credential *welcome, struct session_keys *keys,
		  struct sluice_error *err);

#endif
