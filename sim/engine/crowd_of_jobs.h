/*
 * Who runs in a replay, as Sluice sees it: the crowd of the decision core, and who of it
 * holds tokens. Changes are incremental; a version says whether there were any.
 */
#ifndef SLUICE_CROWD_OF_JOBS_H
#define SLUICE_CROWD_OF_JOBS_H

#include "decide.h"
#include "gates.h"

struct crowd_of_jobs;

struct crowd_of_jobs *crowd_of_jobs_new (const struct sluice_bundle *bundle);
void crowd_of_jobs_destroy (struct crowd_of_jobs *c); /* NULL is fine */

/* A job starts now, with tokens on these lanes (0: none), and is killed at `limit` (UTC
 * seconds). expected_end of the co-runner is set here. More than SLUICE_MAX_CORUNNERS,
 * which is all that a snapshot holds, are not seen. */
void crowd_of_jobs_enter (struct crowd_of_jobs *c, struct sluice_corunner *corunner,
			  uint32_t token_lanes, int64_t now, int64_t limit);
void crowd_of_jobs_leave (struct crowd_of_jobs *c, uint32_t job_id);

/* Who runs longer than he should may end at any moment until his limit. Returns the
 * version. */
uint64_t crowd_of_jobs_look (struct crowd_of_jobs *c, int64_t now);
uint64_t crowd_of_jobs_version (const struct crowd_of_jobs *c);
struct sluice_crowd *crowd_of_jobs_crowd (struct crowd_of_jobs *c);

/* Whether the gates of these lanes let one more in, now. */
int crowd_of_jobs_admits (const struct crowd_of_jobs *c, const struct sluice_member *member,
			  uint32_t token_lanes);

#endif
