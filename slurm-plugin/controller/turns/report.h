/* What the coordinator says of itself, as sluice/slurm/status.py reads it. */
#ifndef SLUICE_REPORT_H
#define SLUICE_REPORT_H

#include <stddef.h>

#include "agents.h"
#include "jobs.h"

enum { REPORT_SIZE = 1 << 16 };

struct report_facts {
	const char *mode; /* observe, enforce or off */
	const char *error;
	const struct agents *agents;
	const struct sluice_policy *policy; /* names lanes; NULL: unknown */
	uint64_t lost;			    /* held bursts that the journal did not keep */
	double clock;			    /* now, of those in jobs.h */
};

void report_write (const struct jobs *jobs, const struct report_facts *facts,
		   char out[REPORT_SIZE]);

#endif
