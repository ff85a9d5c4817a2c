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

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <slurm/slurm.h>

#include "grant.h"
#include "options.h"
#include "place.h"
#include "preload.h"
#include "stage.h"
#include "turns.h"

/* Of the batch script's job, from init_post_opt to user_init; job_id 0: nothing is
 * known. A slurmstepd serves one step. */
static struct holding holding;

/* The job that has no directory, from user_init to task_post_fork; 0: none. */
static uint32_t unplaced;

static int
is_batch_step (spank_t spank)
{
	uint32_t step;
	return spank_get_item (spank, S_JOB_STEPID, &step) == ESPANK_SUCCESS
	       && step == SLURM_BATCH_SCRIPT;
}

static void
ask (spank_t spank)
{
	uint32_t job_id;

	if (spank_get_item (spank, S_JOB_ID, &job_id) != ESPANK_SUCCESS)
		return;
	if (holding_ask (job_id, &holding) < 0) {
		holding.job_id = 0;
		report ("slurmctld does not say what job %" PRIu32 " holds", job_id);
	}
	if (holding.turns == HOLDING_TURNS_NOT_SAID)
		holding.turns = turns_decided (spank);
}

/* The step that holds what others bring into the job runs nothing of its own. */
static int
is_extern_step (spank_t spank)
{
	uint32_t step;
	return spank_get_item (spank, S_JOB_STEPID, &step) == ESPANK_SUCCESS
	       && step == SLURM_EXTERN_CONT;
}

/* As root: user_init is too late to ask slurmctld (grant.h) or the agent. */
void
remote_init_post_opt (spank_t spank, int argc, char **argv)
{
	int is_batch = is_batch_step (spank);

	if (is_batch)
		ask (spank);
	if (is_batch && !options_no_sluice (spank))
		stage_prepare (spank, argc, argv, &holding);
	if (!is_extern_step (spank))
		turns_register (spank, argc, argv, is_batch ? &holding : NULL);
}

static enum grant_result
obtain (spank_t spank, int argc, char **argv, struct grant *grant)
{
	const struct grant_request request = {
		.holding = &holding,
		.argc = argc,
		.argv = argv,
		.io_dir = options_io_dir (spank),
	};

	if (holding.job_id == 0 || options_no_sluice (spank))
		return GRANT_NONE;
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
	spank_unsetenv (spank, STAGED_TO_VARIABLE);
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

static void
take_up_script (spank_t spank, int argc, char **argv)
{
	struct grant grant;
	enum grant_result result = obtain (spank, argc, argv, &grant);

	if (result == GRANT_UNPLACED)
		unplaced = holding.job_id;
	remove_variables (spank);
	if (result == GRANT_OBTAINED) {
		stage_start (spank, argc, argv, grant.values[GRANT_DIR]);
		set_variables (spank, &grant);
	}
}

/* What srun says may be forged: by the job's own user (holding_give_up). */
static void
take_up_step (spank_t spank)
{
	char text[16];

	if (spank_getenv (spank, UNPLACED_VARIABLE, text, sizeof text) == ESPANK_SUCCESS)
		unplaced = (uint32_t)strtoul (text, NULL, 10);
	if (!has_own_variables (spank))
		remove_variables (spank);
}

void
remote_user_init (spank_t spank, int argc, char **argv)
{
	if (is_batch_step (spank))
		take_up_script (spank, argc, argv);
	else
		take_up_step (spank);
	spank_unsetenv (spank, SEED_VARIABLE);
	spank_unsetenv (spank, UNPLACED_VARIABLE);
	if (turns_have_page ())
		preload_turns (spank, argc, argv);
	else
		preload_no_turns (spank, argc, argv);
	turns_announce (spank, is_batch_step (spank) ? &holding : NULL);
	if (turns_followed () >= 0)
		place_start (spank, argc, argv, turns_followed ());
}

void
remote_task_init (void)
{
	turns_hand_over ();
}

/* As root again, and before a task runs. Once a step. */
void
remote_task_post_fork (spank_t spank, int argc, char **argv)
{
	uint32_t node;
	uid_t uid;

	if (unplaced && spank_get_item (spank, S_JOB_NODEID, &node) == ESPANK_SUCCESS
	    && node == 0 && spank_get_item (spank, S_JOB_UID, &uid) == ESPANK_SUCCESS)
		holding_give_up (unplaced, uid, argc, argv);
	unplaced = 0;
}

void
remote_task_exit (void)
{
	place_end ();
}
