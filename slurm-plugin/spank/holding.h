/*
 * What slurmctld says a job holds.
 *
 * It is asked once a job, when that starts: an environment says what was true at
 * submission, or what a user wrote into it, and sluiced may have changed lane or
 * class since. While slurmctld is down the answer takes up to twice Slurm's
 * MessageTimeout to fail.
 *
 * Never ask in a hook that slurmstepd calls as the user: from 24.11 it holds the
 * lock of its authentication meanwhile, and a request ends it and the job.
 */
#ifndef SLUICE_HOLDING_H
#define SLUICE_HOLDING_H

#include <stdint.h>
#include <sys/types.h>

enum { HOLDING_LICENSES_SIZE = 1025 }; /* Slurm refuses longer ones */

struct holding {
	uint32_t job_id;
	uint32_t restarts;
	int64_t start; /* UTC seconds, of this run of the job */
	uid_t uid;
	int is_heterogeneous; /* only the leader holds its licences */
	char licenses[HOLDING_LICENSES_SIZE];
};

/* -1: slurmctld does not answer, or knows no such job. */
int holding_ask (uint32_t job_id, struct holding *out);

#endif
