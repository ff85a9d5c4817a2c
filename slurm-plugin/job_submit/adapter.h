/*
 * The border to Slurm: a job description becomes a submission, a decision's
 * note becomes part of the admin comment, its tokens become licences. Nothing
 * else of a job is touched.
 */
#ifndef SLUICE_ADAPTER_H
#define SLUICE_ADAPTER_H

#include "slurm_api.h"

#include "submission.h"

/* Bounded work, no allocation. */
void adapter_read (const job_desc_msg_t *job, uint32_t submit_uid,
		   struct sluice_submission *out);

/* Append note to the admin comment, behind a blank if there is one already.
 * 0, or -1 where there is no memory: then the comment stays as it was. */
int adapter_annotate (job_desc_msg_t *job, const char *note);

/* The job that a modification is about: of an array or a heterogeneous job, the
 * id that sbatch printed. */
uint32_t adapter_job_id (const job_desc_msg_t *change);

/* Put a copy of text in the place of a text of the job. 0, or -1 where there is
 * no memory: then the old one stays. */
int adapter_set_text (char **place, const char *text);

#endif
