/* The jobs of the controller: those that are new, changed or gone. */
#ifndef SLUICE_JOBS_H
#define SLUICE_JOBS_H

#include <stdint.h>

#include "slurm_api.h"

/* Write frames of what changed since the last call, of everything at the first
 * one. 0, or -1 with Slurm's errno, and nothing was written. */
int jobs_write_changes (void);

/* Write frames of one job, of all records of an array or heterogeneous job;
 * none when Slurm does not know it. */
int jobs_write_one (uint32_t job_id);

/* One job, or all records of an array or heterogeneous job. 0, or -1 with Slurm's errno. */
int job_load (job_info_msg_t **answer, uint32_t job_id);

#endif
