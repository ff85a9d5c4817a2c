/*
 * srun, once it has its allocation, as the user: what it sets in its own
 * environment reaches the tasks on all nodes, so the directory is made here, on
 * the machine where srun runs, before any task could ask for it.
 *
 *   srun by itself       makes the directory
 *   salloc               draws the seed of the directory's name, which its sruns inherit
 *   srun in salloc       the first one makes it, the others find it by that name
 *   srun --jobid         finds what an earlier step made, by its beginning and its owner
 *   srun in a script     inherits what the batch script got (remote.c)
 *
 * A heterogeneous job gets nothing here: srun calls us for one component, in no
 * fixed order, when it has copied the environment of the others already.
 */
#include "contexts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "grant.h"
#include "options.h"
#include "turns.h"

/* A variable's decimal number, 0 where it has none. */
static uint32_t
number_in (const char *variable)
{
	const char *text = getenv (variable);
	return text ? (uint32_t)strtoul (text, NULL, 10) : 0;
}

/* The allocation that a step belongs to: components of a heterogeneous job have
 * consecutive ids, and SLURM_JOB_ID names the first. */
static uint32_t
allocation_of (uint32_t job_id)
{
	uint32_t leader = number_in ("SLURM_JOB_ID");
	return job_id - leader < number_in ("SLURM_HET_SIZE") ? leader : job_id;
}

/* Slurm writes ENVIRONMENT=BATCH for a batch script. Its step has asked already,
 * and slurmctld need not hear of it with each srun in it. */
static int
is_in_script (uint32_t allocation)
{
	const char *kind = getenv ("ENVIRONMENT");
	return kind && strcmp (kind, "BATCH") == 0
	       && number_in ("SLURM_JOB_ID") == allocation;
}

static void
set_turns (const struct holding *job)
{
	char text[TURNS_JOB_SIZE];
	turns_describe (job, text);
	setenv (TURNS_JOB_VARIABLE, text, 1);
}

/* A number of the step beyond the first, or a batch script: another process may have made
 * the directory. Within salloc the seed says where. */
static int
may_be_late (spank_t spank, const struct holding *holding)
{
	uint32_t step;
	return holding->is_batch
	       || spank_get_item (spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS || step > 0;
}

static enum grant_result
obtain (spank_t spank, int argc, char **argv, uint32_t job_id, struct grant *grant)
{
	struct holding holding;

	if (options_no_sluice (spank) || holding_ask (job_id, &holding) < 0
	    || holding.uid != geteuid ())
		return GRANT_NONE;
	if (!holding.is_heterogeneous && holding.turns != HOLDING_TURNS_NOT_SAID)
		set_turns (&holding);
	int is_of_salloc = !holding.is_batch && number_in ("SLURM_JOB_ID") == job_id;
	const char *seed = is_of_salloc ? getenv (SEED_VARIABLE) : NULL;
	const struct grant_request request = {
		.holding = &holding,
		.argc = argc,
		.argv = argv,
		.io_dir = options_io_dir (spank),
		.seed = seed,
		.is_too_late = holding.is_heterogeneous,
		.may_find = !seed && may_be_late (spank, &holding),
	};
	return grant_obtain (&request, grant);
}

void
allocator_init_post_opt (void)
{
	char seed[GRANT_SEED_SIZE];
	if (grant_make_seed (seed) == 0)
		setenv (SEED_VARIABLE, seed, 1);
}

void
local_user_init (spank_t spank, int argc, char **argv)
{
	uint32_t job_id;
	char text[16];
	struct grant grant;

	if (spank_get_item (spank, S_JOB_ID, &job_id) != ESPANK_SUCCESS)
		return;
	job_id = allocation_of (job_id);
	if (number_in (grant_names[GRANT_JOB_ID]) == job_id || is_in_script (job_id))
		return;
	enum grant_result result = obtain (spank, argc, argv, job_id, &grant);
	snprintf (text, sizeof text, "%u", job_id);
	if (result == GRANT_UNPLACED)
		setenv (UNPLACED_VARIABLE, text, 1);
	if (result != GRANT_OBTAINED)
		return; /* stale variables go in the step itself: remote.c */
	for (int i = 0; i < GRANT_VARIABLES; i++)
		setenv (grant_names[i], grant.values[i], 1);
}
