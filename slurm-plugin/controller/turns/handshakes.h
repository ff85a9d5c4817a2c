/*
 * Threads that check hellos with MUNGE, so that a slow or stopped munged delays no session
 * that is open.
 */
#ifndef SLUICE_HANDSHAKES_H
#define SLUICE_HANDSHAKES_H

#include "session.h"

enum { HANDSHAKES_QUEUE = 4096, HANDSHAKES_THREADS = 2 };

/* A hello to be checked, or its result. */
struct handshake {
	uint64_t ticket; /* the caller's */
	int is_valid;
	struct session_credential credential; /* hello, then welcome */
	struct session_keys keys;
	struct sluice_error error;
};

struct handshakes;

int handshakes_start (const struct session_munge *munge, struct handshakes **out,
		      struct sluice_error *err);
/* Readable when a handshake has been checked. */
int handshakes_fd (const struct handshakes *handshakes);
/* -1: too many wait. */
int handshakes_check (struct handshakes *handshakes, uint64_t ticket,
		      const struct session_credential *hello);
/* One that was checked, for the caller to free; NULL: none. */
struct handshake *handshakes_next (struct handshakes *handshakes);

#endif
