/*
 * Who runs in a replay, as Sluice sees it: the crowd of the decision core. Changes are
 * incremental; a version says whether there were any.
 */
#ifndef SLUICE_CROWD_OF_JOBS_H
#define SLUICE_CROWD_OF_JOBS_H

#include "decide.h"

struct crowd_of_jobs;

struct crowd_of_jobs *crowd_of_jobs_new (const struct sluice_bundle *bundle);
void crowd_of_jobs_destroy (struct crowd_of_jobs *c); /* NULL is fine */

/* A job starts now, and is killed at `limit` (UTC seconds). expected_end of the co-runner
 * is set here. More than SLUICE_MAX_CORUNNERS, which is all that a snapshot holds, are not
 * seen. */
void crowd_of_jobs_enter (struct crowd_of_jobs *c, struct sluice_corunner *corunner,
			  int64_t now, int64_t limit);
void crowd_of_jobs_leave (struct crowd_of_jobs *c, uint32_t job_id);

/* Who runs longer than he should may end at any moment until his limit. Returns the
 * version. */
uint64_t crowd_of_jobs_look (struct crowd_of_jobs *c, int64_t now);
struct sluice_crowd *crowd_of_jobs_crowd (struct crowd_of_jobs *c);

#endif
