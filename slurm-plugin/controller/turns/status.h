/* The status of the coordinator, as sluice/slurm/status.py reads it. */
#ifndef SLUICE_STATUS_H
#define SLUICE_STATUS_H

#include <stddef.h>

#include "agents.h"
#include "bursts.h"

enum { STATUS_SIZE = 1 << 16 };

struct status_facts {
	const char *mode; /* observe, enforce or off */
	const char *error;
	const struct agents *agents;
	const struct sluice_policy *policy; /* names lanes; NULL: unknown */
	uint64_t lost;			    /* held bursts that the journal lost */
	double clock;			    /* now, of those in bursts.h */
};

void status_write (const struct bursts *jobs, const struct status_facts *facts,
		   char out[STATUS_SIZE]);

#endif
