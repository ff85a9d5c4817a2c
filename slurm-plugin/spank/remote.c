/*
 * slurmstepd, on the compute nodes.
 *
 *   batch script   Slurm starts its step on the job's first node alone and hands
 *                  its environment on to every srun in the script, so this is the
 *                  one place for all of an sbatch job
 *   srun's step    has what srun set (local.c) or inherited
 *
 * Variables of ours that belong to no job or to another one, which called sbatch
 * or srun in its turn, are taken out: they would send the output to a lane that
 * this job does not hold.
 */
#include "contexts.h"

#include <string.h>

#include <slurm/slurm.h>

#include "grant.h"
#include "options.h"

static int
obtain (spank_t spank, int argc, char **argv, struct grant *grant)
{
	struct grant_request request = {
		.argc = argc,
		.argv = argv,
		.io_dir = options_io_dir (spank),
	};

	if (options_no_sluice (spank)
	    || spank_get_item (spank, S_JOB_ID, &request.job_id) != ESPANK_SUCCESS
	    || spank_get_item (spank, S_JOB_UID, &request.uid) != ESPANK_SUCCESS)
		return -1;
	return grant_obtain (&request, grant);
}

static void
set_variables (spank_t spank, const struct grant *grant)
{
	for (int i = 0; i < GRANT_VARIABLES; i++)
		spank_setenv (spank, grant_names[i], grant->values[i], 1);
}

static void
remove_variables (spank_t spank)
{
	for (int i = 0; i < GRANT_VARIABLES; i++)
		spank_unsetenv (spank, grant_names[i]);
}

/* SLURM_JOB_ID names the leader in all components of a heterogeneous job, as does
 * our own variable. */
static int
has_own_variables (spank_t spank)
{
	char ours[16], slurms[16];
	return spank_getenv (spank, grant_names[GRANT_JOB_ID], ours, sizeof ours)
		   == ESPANK_SUCCESS
	       && spank_getenv (spank, "SLURM_JOB_ID", slurms, sizeof slurms)
		      == ESPANK_SUCCESS
	       && strcmp (ours, slurms) == 0;
}

void
remote_user_init (spank_t spank, int argc, char **argv)
{
	uint32_t step;
	struct grant grant;

	if (spank_get_item (spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS)
		return;
	if (step == SLURM_BATCH_SCRIPT && obtain (spank, argc, argv, &grant) == 0)
		set_variables (spank, &grant);
	else if (step == SLURM_BATCH_SCRIPT || !has_own_variables (spank))
		remove_variables (spank);
}
