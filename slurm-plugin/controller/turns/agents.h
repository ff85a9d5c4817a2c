/*
 * The sessions of agents: from the hello, which handshakes.h checks, to the verdicts of
 * bursts.h.
 *
 * Each has a bounded place, and none is waited for: a connection without a hello, with too
 * many frames or with what is no frame is closed.
 */
#ifndef SLUICE_AGENTS_H
#define SLUICE_AGENTS_H

#include "bursts.h"
#include "handshakes.h"

enum {
	AGENTS_MAX = 16384,
	AGENTS_HELLO_MS = 5000,	  /* for a hello, and its check */
	AGENTS_MAX_FRAMES = 1000, /* a second of one agent */
};

struct agents;

/* Listens on a port of an address (NULL: all). */
int agents_start (const char *address, const char *port, struct handshakes *handshakes,
		  struct agents **out, struct sluice_error *err);
/* Where reports go. */
void agents_set_bursts (struct agents *agents, struct bursts *bursts);
/* A bursts_send. */
void agents_send (void *agents, struct bursts_agent *agent, const struct wire_word *word);
void agents_send_place (void *agents, struct bursts_agent *agent,
			const struct wire_place *word);
/* Wait for at most so long, and handle what arrived. */
void agents_poll (struct agents *agents, int milliseconds);
/* Send what waits for it. */
void agents_flush (struct agents *agents);

uint32_t agents_count (const struct agents *agents); /* that are in */
uint64_t agents_refused (const struct agents *agents);

/* An agent that is gone although it had jobs, until one comes from its address. */
struct agents_lost {
	char address[64];
	double since; /* of agents_seconds */
};
enum { AGENTS_MAX_LOST = 64 }; /* the latest */
uint32_t agents_list_lost (const struct agents *agents,
			   struct agents_lost out[AGENTS_MAX_LOST]);

/* CLOCK_MONOTONIC. */
int64_t agents_milliseconds (void);
double agents_seconds (void); /* the clock of bursts.h */

#endif
