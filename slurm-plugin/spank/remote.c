/*
 * slurmstepd: the batch script. Slurm starts its step on the job's first node
 * alone and hands its environment on to every srun in the script, so this is the
 * one place for all of an sbatch job.
 *
 * The environment of the script is that of the submission: variables of ours in
 * it were forged, or come from a job that called sbatch, and are taken out.
 */
#include "contexts.h"

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

void
remote_user_init (spank_t spank, int argc, char **argv)
{
	uint32_t step;
	struct grant grant;

	if (spank_get_item (spank, S_JOB_STEPID, &step) != ESPANK_SUCCESS
	    || step != SLURM_BATCH_SCRIPT)
		return;
	int granted = obtain (spank, argc, argv, &grant) == 0;
	for (int i = 0; i < GRANT_VARIABLES; i++) {
		if (granted)
			spank_setenv (spank, grant_names[i], grant.values[i], 1);
		else
			spank_unsetenv (spank, grant_names[i]);
	}
}
