/*
 * What was asked last, so that Slurm may answer "not changed" (slurmctld
 * compares its own clock's seconds with the time of its last change). Now and
 * then, and after a step of the clock, all is asked for: a time that lies in
 * the future would make slurmctld say "not changed" until it has come.
 */
#ifndef SLUICE_SINCE_H
#define SLUICE_SINCE_H

#include <time.h>

struct since {
	time_t last_update; /* as slurmctld told it */
	double asked;	    /* when all was told; monotonic seconds */
	double offset;	    /* of the clock then */
};

/* The last_update to ask with; 0: tell all. */
time_t since_ask (const struct since *since);

/* Remembers an answer that told all. */
void since_told (struct since *since, time_t last_update);

#endif
