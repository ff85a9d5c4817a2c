/*
 * Whose jobs Sluice acts on, and how far it goes with each, by the site's settings.
 *
 * Scope says whether a job is left alone; the mode says how far Sluice goes with the
 * others: the steps of trust, by user, account, QoS, partition and lane.
 */
#ifndef SLUICE_SCOPE_H
#define SLUICE_SCOPE_H

#include "config.h"
#include "snapshot.h"
#include "submission.h"

/* Fill in what Slurm would where the user gave nothing: the default partition,
 * the user's default account and QoS. snapshot may be NULL. */
void sluice_submission_complete (struct sluice_submission *submission,
				 const struct sluice_snapshot *snapshot);

/* How far Sluice goes with a job, and what says so. */
struct sluice_job_mode {
	uint32_t mode; /* enum sluice_mode */
	uint32_t rule; /* ModeOf, from 1 in the order of the file; 0: Mode */
	uint32_t by;   /* enum sluice_mode_by: what of the job that rule names */
	uint32_t reserved;
};

/* Why Sluice keeps its hands off this job, or SLUICE_REASON_NONE, by the completed
 * submission. snapshot may be NULL: defaults that were not published count as unknown.
 * policy names the lanes. mode: sluice_mode_of for no lanes, which is part of the answer.
 */
uint32_t sluice_scope (const struct sluice_config *config,
		       const struct sluice_policy *policy,
		       const struct sluice_snapshot *snapshot,
		       const struct sluice_submission *submission,
		       struct sluice_job_mode *mode);

/* Whether a decision for this reason leaves a job alone: the site does, or its user opted
 * out. */
int sluice_is_left_alone (uint32_t reason);

/* Whether the job writes only where Sluice puts it, as its user (--io-dir) or
 * the site says. Any other job counts against all lanes. */
int sluice_is_controlled (const struct sluice_config *config,
			  const struct sluice_submission *submission);

/*
 * How far Sluice goes with a job that may write to these lanes: the most careful of the
 * rules of ModeOf that fit it, and Mode where none does; of several partitions or lanes,
 * the most careful. lane_mask 0: its lanes are not decided, and the one counts on which
 * Sluice goes furthest. policy names the lanes.
 */
void sluice_mode_of (const struct sluice_config *config, const struct sluice_policy *policy,
		     const struct sluice_submission *submission, uint32_t lane_mask,
		     struct sluice_job_mode *out);

/* The mode of the jobs with which Sluice goes furthest. */
uint32_t sluice_furthest_mode (const struct sluice_config *config);

#endif
