/*
 * spank/sluice: what a job's user, script and tasks meet. This file is the table
 * of contents; each context has a file of its own.
 *
 *   context              hook              does
 *   sbatch, salloc       init              registers the options (options.c)
 *                        init_post_opt     draws what sruns in salloc name the directory
 *                                          by (local.c)
 *   srun                 init              likewise
 *                        local_user_init   the job's directory and variables (local.c)
 *   slurmstepd           init              registers the options
 *                        init_post_opt     asks what the job of a script holds
 *                                          asks the node's agent for the page of a
 *                                          step that takes turns (turns.c)
 *                        user_init         makes the directory and sets the
 *                                          variables of the script; removes
 *                                          variables of another job (remote.c)
 *                                          preloads the library for turns into what has
 *                                          a page (preload.c)
 *                                          starts the process that sends new files
 *                                          where no burst is under way (place.c)
 *                        task_init         lets the task inherit that page
 *                        task_post_fork    takes the tokens off a job that has no
 *                                          directory
 *                        task_exit         ends that, with the step's last task
 *   slurmd               job_epilog        waits until what a job wrote on the node is
 *                                          where it belongs (stage.c)
 *
 * We fail open: whatever is wrong, the job runs as it would without Sluice, with
 * neither directory nor variables, and the reason goes to a log. Every hook
 * returns success: from 25.05 anything else counts as an error, and in job_epilog
 * an error would drain the node. There, a job that was not staged costs one open().
 */
#include "contexts.h"
#include "options.h"
#include "stage.h"

#define EXPORT __attribute__ ((visibility ("default")))

EXPORT extern const char plugin_name[], plugin_type[];
EXPORT extern const unsigned int plugin_version, spank_plugin_version;
EXPORT extern spank_f slurm_spank_init, slurm_spank_init_post_opt,
    slurm_spank_local_user_init, slurm_spank_user_init, slurm_spank_task_init,
    slurm_spank_task_post_fork, slurm_spank_task_exit, slurm_spank_job_epilog;

SPANK_PLUGIN (sluice, 1)

int
slurm_spank_init (spank_t spank, int argc, char **argv)
{
	switch (spank_context ()) {
	case S_CTX_LOCAL:
	case S_CTX_ALLOCATOR:
	case S_CTX_REMOTE:
		options_register (spank, argc, argv);
		break;
	default:
		break;
	}
	return ESPANK_SUCCESS;
}

int
slurm_spank_init_post_opt (spank_t spank, int argc, char **argv)
{
	switch (spank_context ()) {
	case S_CTX_ALLOCATOR:
		allocator_init_post_opt ();
		break;
	case S_CTX_REMOTE:
		remote_init_post_opt (spank, argc, argv);
		break;
	default:
		break;
	}
	return ESPANK_SUCCESS;
}

int
slurm_spank_local_user_init (spank_t spank, int argc, char **argv)
{
	switch (spank_context ()) {
	case S_CTX_LOCAL:
		local_user_init (spank, argc, argv);
		break;
	default:
		break;
	}
	return ESPANK_SUCCESS;
}

int
slurm_spank_user_init (spank_t spank, int argc, char **argv)
{
	switch (spank_context ()) {
	case S_CTX_REMOTE:
		remote_user_init (spank, argc, argv);
		break;
	default:
		break;
	}
	return ESPANK_SUCCESS;
}

int
slurm_spank_task_init (spank_t spank, int argc, char **argv)
{
	(void)spank;
	(void)argc;
	(void)argv;
	remote_task_init ();
	return ESPANK_SUCCESS;
}

int
slurm_spank_task_post_fork (spank_t spank, int argc, char **argv)
{
	remote_task_post_fork (spank, argc, argv);
	return ESPANK_SUCCESS;
}

int
slurm_spank_task_exit (spank_t spank, int argc, char **argv)
{
	(void)spank;
	(void)argc;
	(void)argv;
	remote_task_exit ();
	return ESPANK_SUCCESS;
}

int
slurm_spank_job_epilog (spank_t spank, int argc, char **argv)
{
	stage_end (spank, argc, argv);
	return ESPANK_SUCCESS;
}
