/*
 * Threads that check hellos with MUNGE, so that a slow or stopped munged delays nobody who
 * is in already.
 */
#ifndef SLUICE_DOORMAN_H
#define SLUICE_DOORMAN_H

#include "session.h"

enum { DOORMAN_QUEUE = 4096, DOORMAN_THREADS = 2 };

/* A hello to be checked, or what came of it. */
struct visitor {
	uint64_t ticket; /* the caller's */
	int is_welcome;
	struct session_credential credential; /* hello, then welcome */
	struct session_keys keys;
	struct sluice_error error;
};

struct doorman;

int doorman_start (const struct session_munge *munge, struct doorman **out,
		   struct sluice_error *err);
/* Readable when a visitor has been checked. */
int doorman_fd (const struct doorman *doorman);
/* -1: too many wait. */
int doorman_ask (struct doorman *doorman, uint64_t ticket,
		 const struct session_credential *hello);
/* A visitor that was checked, for the caller to free; NULL: none. */
struct visitor *doorman_next (struct doorman *doorman);

#endif
