/*
 * job_submit/optionprobe: appends to $OPTION_PROBE, for each submission, a line
 * with the component's offset and all entries of spank_job_env, between tabs.
 */
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <slurm/slurm.h>
#include <slurm/slurm_errno.h>
#include <slurm/slurm_version.h>

const char plugin_name[] = "writes down the options that job_submit sees";
const char plugin_type[] = "job_submit/optionprobe";
const uint32_t plugin_version = SLURM_VERSION_NUMBER;

struct job_record;

int
init (void)
{
	return SLURM_SUCCESS;
}

int
fini (void)
{
	return SLURM_SUCCESS;
}

int
job_submit (job_desc_msg_t *job, uint32_t submit_uid, char **err_msg)
{
	(void)submit_uid;
	(void)err_msg;
	const char *path = getenv ("OPTION_PROBE");
	FILE *file = path ? fopen (path, "a") : NULL;
	if (!file)
		return SLURM_SUCCESS;
	fprintf (file, "%" PRIu32, job->het_job_offset == NO_VAL ? 0 : job->het_job_offset);
	for (uint32_t i = 0; i < job->spank_job_env_size; i++)
		fprintf (file, "\t%s", job->spank_job_env[i]);
	fputc ('\n', file);
	fclose (file);
	return SLURM_SUCCESS;
}

#if SLURM_VERSION_NUMBER >= SLURM_VERSION_NUM(23, 2, 0)
int
job_modify (job_desc_msg_t *job, struct job_record *old, uint32_t submit_uid,
	    char **err_msg)
{
	(void)err_msg;
#else
int
job_modify (job_desc_msg_t *job, struct job_record *old, uint32_t submit_uid)
{
#endif
	(void)job;
	(void)old;
	(void)submit_uid;
	return SLURM_SUCCESS;
}
