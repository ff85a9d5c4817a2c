/*
 * The running jobs of a replay, as Sluice sees them: the co-runners of the decision core.
 * Changes are incremental; a version says whether there were any.
 */
#ifndef SLUICE_RUNNING_JOBS_H
#define SLUICE_RUNNING_JOBS_H

#include "decide.h"

struct running_jobs;

struct running_jobs *running_jobs_new (const struct sluice_bundle *bundle);
void running_jobs_destroy (struct running_jobs *c); /* NULL is fine */

/* A job starts now, and is killed at `limit` (UTC seconds). expected_end of the co-runner
 * is set here. -1: there are SLUICE_MAX_CORUNNERS already, which is all that a snapshot
 * holds, and this one is not seen. */
int running_jobs_enter (struct running_jobs *c, struct sluice_corunner *corunner,
			int64_t now, int64_t limit);
void running_jobs_leave (struct running_jobs *c, uint32_t job_id);
/* sluice_corunner_set_place. */
void running_jobs_place (struct running_jobs *c, const struct sluice_placed_job *job,
			 int is_there);
/* sluice_corunner_set_see. */
void running_jobs_see (struct running_jobs *c, const struct sluice_target *target);

/* A job that runs longer than it should may end at any moment until its limit. Returns the
 * version. */
uint64_t running_jobs_update (struct running_jobs *c, int64_t now);
struct sluice_corunner_set *running_jobs_set (struct running_jobs *c);

#endif
