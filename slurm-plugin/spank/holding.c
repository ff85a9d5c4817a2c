#include "holding.h"

#include <string.h>

/* Where slurm_load_job wants a step's id instead of a job's (26.05), slurm.h then
 * takes either. */
#define SLURM_BACKWARD_COMPAT
#include <slurm/slurm.h>

/* Weak: a Slurm program that does not have it must still load us. */
extern __typeof__ (slurm_load_job) slurm_load_job __attribute__ ((weak));
extern __typeof__ (slurm_free_job_info_msg) slurm_free_job_info_msg __attribute__ ((weak));

/* The answer for a leader holds the other components too, and that for the first
 * task of an array its other tasks. */
static const slurm_job_info_t *
find (const job_info_msg_t *answer, uint32_t job_id)
{
	for (uint32_t i = 0; i < answer->record_count; i++)
		if (answer->job_array[i].job_id == job_id)
			return &answer->job_array[i];
	return NULL;
}

int
holding_ask (uint32_t job_id, struct holding *out)
{
	job_info_msg_t *answer = NULL;
	int known = 0;

	if (!slurm_load_job || !slurm_free_job_info_msg
	    || slurm_load_job (&answer, job_id, 0) != SLURM_SUCCESS)
		return -1;
	const slurm_job_info_t *job = find (answer, job_id);
	const char *licenses = job && job->licenses ? job->licenses : "";
	if (job && strlen (licenses) < sizeof out->licenses) {
		known = 1;
		out->job_id = job_id;
		out->restarts = job->restart_cnt;
		out->start = job->start_time;
		out->uid = job->user_id;
		out->is_heterogeneous = job->het_job_id != 0;
		strcpy (out->licenses, licenses);
	}
	slurm_free_job_info_msg (answer);
	return known ? 0 : -1;
}
