/*
 * The border to Slurm: a job description becomes a submission, a decision's
 * note becomes the admin comment, its tokens become licences, and what the nodes
 * have to know of turns becomes a variable. Nothing else of a job is touched.
 */
#ifndef SLUICE_ADAPTER_H
#define SLUICE_ADAPTER_H

#include "slurm_api.h"

#include "submission.h"

/* Bounded work, no allocation. */
void adapter_read (const job_desc_msg_t *job, uint32_t submit_uid,
		   struct sluice_submission *out);

/* Set a variable of the job, which its batch script and the SPANK plugins there see. 0, or
 * -1 where there is no memory, or the job has no environment: only sbatch sends one. */
int adapter_set_variable (job_desc_msg_t *job, const char *name, const char *text);

/* The job that a modification is about: of an array or a heterogeneous job, the
 * id that sbatch printed. */
uint32_t adapter_job_id (const job_desc_msg_t *change);

/* Put a copy of text in the place of a text of the job. 0, or -1 where there is
 * no memory: then the old one stays. */
int adapter_set_text (char **place, const char *text);

#endif
