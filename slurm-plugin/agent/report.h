/* What the coordinator says of itself, as sluice/slurm/status.py reads it. */
#ifndef SLUICE_REPORT_H
#define SLUICE_REPORT_H

#include <stddef.h>

#include "jobs.h"

enum { REPORT_SIZE = 1 << 15 };

struct report_facts {
	const char *mode; /* observe, enforce or off */
	const char *error;
	uint32_t agents;
	uint64_t refused;
	double clock; /* now, of those in jobs.h */
};

void report_write (const struct jobs *jobs, const struct report_facts *facts,
		   char out[REPORT_SIZE]);

#endif
