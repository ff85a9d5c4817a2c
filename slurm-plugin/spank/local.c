/*
 * srun, once it has its allocation, as the user: what it sets in its own
 * environment reaches the tasks on all nodes, so the directory is made here, on
 * the machine where srun runs, before any task could ask for it.
 *
 *   srun by itself       makes the directory
 *   srun in salloc       the first one makes it, the others find it
 *   srun in a script     inherits what the batch script got (remote.c)
 *
 * A heterogeneous job gets nothing here: srun calls us for one component, in no
 * fixed order, when it has copied the environment of the others already.
 */
#include "contexts.h"

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

static int
obtain (spank_t spank, int argc, char **argv, uint32_t job_id, struct grant *grant)
{
	struct holding holding;
	const struct grant_request request = {
		.holding = &holding,
		.argc = argc,
		.argv = argv,
		.io_dir = options_io_dir (spank),
		.may_exist = 1,
	};

	if (options_no_sluice (spank) || holding_ask (job_id, &holding) < 0
	    || holding.is_heterogeneous || holding.uid != geteuid ())
		return -1;
	if (holding.turns != HOLDING_TURNS_NOT_SAID)
		set_turns (&holding);
	return grant_obtain (&request, grant);
}

void
local_user_init (spank_t spank, int argc, char **argv)
{
	uint32_t job_id;
	struct grant grant;

	if (spank_get_item (spank, S_JOB_ID, &job_id) != ESPANK_SUCCESS)
		return;
	job_id = allocation_of (job_id);
	if (number_in (grant_names[GRANT_JOB_ID]) == job_id || is_in_script (job_id))
		return;
	if (obtain (spank, argc, argv, job_id, &grant) < 0)
		return; /* stale variables go in the step itself: remote.c */
	for (int i = 0; i < GRANT_VARIABLES; i++)
		setenv (grant_names[i], grant.values[i], 1);
}
