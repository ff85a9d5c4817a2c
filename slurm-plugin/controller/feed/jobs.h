/* The jobs of the controller: those that are new, changed or gone. */
#ifndef SLUICE_JOBS_H
#define SLUICE_JOBS_H

#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "slurm_api.h"

/*
 * What was asked last, so that Slurm may answer "not changed" (slurmctld
 * compares its own clock's seconds with the time of its last change). Now and
 * then, and after a step of the clock, all is asked for: a time that lies in
 * the future would make slurmctld say "not changed" until it has come.
 */

struct since {
	time_t last_update; /* as slurmctld told it */
	double asked;	    /* when all was told; monotonic seconds */
	double offset;	    /* of the clock then */
};

/* The last_update to ask with; 0: tell all. */
time_t since_ask (const struct since *since);

/* Remembers an answer that told all. */
void since_told (struct since *since, time_t last_update);

/* Write frames of what changed since the last call, of everything at the first
 * one. 0, or -1 with Slurm's errno, and nothing was written. */
int jobs_write_changes (void);

/* Write frames of one job, of all records of an array or heterogeneous job;
 * none when Slurm does not know it. */
int jobs_write_one (uint32_t job_id);

/* Changes of jobs' licences, each on condition that the job is as sluiced saw it. */

/* Carry out the changes in a request's payload, one after the other, and write a
 * frame of what came of each as soon as it is known. Ends the process where the
 * payload is none. */
void changes_make (const unsigned char *payload, size_t size);

#endif
