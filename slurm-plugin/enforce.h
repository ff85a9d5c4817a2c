/*
 * `enforce`: what happens to a job's licences, the only thing of it that Sluice
 * changes there beside the admin comment.
 *
 *   submission     lane tokens that its user wrote are taken off, from every
 *                  job; those that its decision asks for are added, if the
 *                  controller has them
 *   modification   of an ordinary user: tokens that he adds are taken off, and
 *                  of those that Sluice gave the job he may keep or drop each;
 *                  an administrator's, and so sluiced's own, is left alone
 *
 * Tokens written by users are taken off also while the bundle is gone or sluiced
 * is dead: what a job takes then it would hold when they are back. Adding waits
 * for all that belongs to a decision. Whatever goes wrong, the licences stay as
 * they are, and the submission or modification goes its way.
 */
#ifndef SLUICE_ENFORCE_H
#define SLUICE_ENFORCE_H

#include "slurm_api.h"

#include "counters.h"
#include "loader.h"
#include "record.h"

/* Before the job is read. */
void enforce_strip (const struct view *view, job_desc_msg_t *job,
		    struct counters *counters);

/* After it was decided on: fills in record->grant. In other modes the record
 * says what would be asked for. */
void enforce_grant (const struct view *view, job_desc_msg_t *job,
		    struct sluice_record *record);

void enforce_modify (const struct view *view, job_desc_msg_t *change, uint32_t uid,
		     struct counters *counters);

#endif
